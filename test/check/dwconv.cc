// The cases of the dwconv family.  Contract: src/kernel/dwconv.h
#include "kernel/dwconv.h"

#include <algorithm>
#include <limits>

#include "indirect.h"
#include "plane.h"
#include "sums.h"

namespace quern::check {
namespace {

using operands::RowsSize;
using DwconvMemory = operands::DwconvOperands<Guarded>;

constexpr size_t no_channel = ~size_t{0};

enum class Limit { none, sums, products };  // see Qs8cSums::at_limit

// If `lowest` is a channel, then all of A and the weights of this channel are the lowest numbers of their type, and its
// sums may be at a limit.
template <class Sums>
bool check_case(Checker& checker, DwconvMemory& memory, const DwconvRow& row, const RowsSize& size, Values values,
                Clamp limits, Side side, size_t lowest = no_channel, Limit limit = Limit::none) {
  using A = typename Sums::A;
  Random& random = checker.random();
  const size_t entries = (size.pixels - 1) * size.step + size.taps;
  Sums sums(numbers_of(row), values, limits, size.taps, random);
  const bool padding = side == Side::low || values == Values::extreme;  // `zero` is unreadable in the rest
  const IndirectRows<A> a(
      entries, size.channels,
      [&] { return lowest == no_channel ? sums.draw_a(random) : std::numeric_limits<A>::lowest(); }, random,
      [=](size_t) { return padding; });
  Panels<Sums> panels({row.nr, size.channels, size.taps, Sums::elements});
  if constexpr (std::is_integral_v<A>) {
    lowest == no_channel ? panels.fill(sums, random) : panels.fill_lowest(sums, lowest);
    if (limit != Limit::none) {
      sums.at_limit = lowest, sums.large_sums = limit == Limit::sums;
      panels.fill_at_limit(sums);
    }
  } else {
    panels.fill(sums, random);
  }
  const auto expected = [&](size_t x, size_t i) {
    typename Sums::Sum sum = panels.bias(i);
    for (size_t t = 0; t < size.taps; ++t) {
      const A* in = a.row(x * size.step + t);
      sum = sums.add(in == nullptr ? sums.padding : in[i], panels.weight(t, i), sum);
    }
    return sums.end(sum, i);
  };
  std::vector<typename Sums::C> pixels;
  for (size_t x = 0; x < size.pixels; ++x) {
    for (size_t i = 0; i < size.channels; ++i) pixels.push_back(expected(x, i));
  }
  return every_fill<Sums>(side, [&](Place place) {
    memory.place(size, panels.layout(), a.table(), place);
    a.write(memory.a, size.gap);
    spoil_entries(memory.offsets, [&](size_t entry) { return entry % size.step >= size.taps; });
    write_padding(memory.zero, sums.padding);
    panels.write(memory.w);
    sums.write_parameters(memory.p, panels.layout());
    auto c = memory.c.blank<typename Sums::C>();
    for (size_t x = 0; x < size.pixels; ++x) {
      std::copy_n(&pixels[x * size.channels], size.channels, &c[x * (size.channels + size.gap)]);
    }
    return checker.run(memory, {{&memory.c, c}}, [&] {
      return "channels=" + std::to_string(size.channels) + " pixels=" + std::to_string(size.pixels) +
             " taps=" + std::to_string(size.taps) + " step=" + std::to_string(size.step * 4) +
             " gap=" + std::to_string(size.gap) + (side == Side::high ? " high " : " low ") + name_of(values);
    });
  });
}

template <class Sums>
void check_dwconv(Checker& checker, const DwconvRow& row) {
  DwconvMemory memory;
  const auto check = [&](RowsSize size, Values values, Clamp clamp, Side side, size_t gap) {
    size.gap = gap;
    return check_case<Sums>(checker, memory, row, size, values, clamp, side);
  };

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t channels : std::initializer_list<size_t>{2 * row.nr + 1, row.nr, row.nr - 1, row.nr + 1, 1}) {
    for (const size_t taps : {5, 1, 2, 9}) {
      for (const Clamp clamp : clamps) {
        if (!check({channels, 3, taps, taps}, Values::extreme, clamp, Side::high, 0)) return;
        if (!check({channels, 3, taps, taps}, Values::random, clamp, Side::low, 5)) return;
        if (!check({channels, 9, taps, divide_up(taps, size_t{3})}, Values::extreme, clamp, Side::low, 0)) return;
      }
    }
  }
  // Sums of two products that fit 16 bits but for this one value.
  if constexpr (std::is_integral_v<typename Sums::A>) {
    for (size_t channel = 0; channel < row.nr; ++channel) {
      const auto check_lowest = [&](size_t taps, Limit limit) {
        const RowsSize size = {row.nr, 2, taps, 1};
        return check_case<Sums>(checker, memory, row, size, Values::random, clamps[0], Side::high, channel, limit);
      };
      if (!check_lowest(3, Limit::none) || !check_lowest(9, Limit::sums) || !check_lowest(2, Limit::products)) return;
    }
  }
  // Every small size; pixels that share columns, that share nothing, and that leave entries of the table out.
  for (const size_t taps : {9, 1, 2, 3, 4, 5, 6, 7, 8, 25}) {
    for (size_t pixels = 1; pixels <= 5; ++pixels) {
      for (size_t channels = 1; channels <= 2 * row.nr + 1; ++channels) {
        const size_t shared = divide_up(taps, size_t{3});
        if (!check({channels, pixels, taps, shared}, Values::random, clamps[0], Side::high, 0)) return;
        if (!check({channels, pixels, taps, taps + pixels % 2}, Values::integers, {-50, 60}, Side::low, 3)) return;
      }
    }
  }
  // Larger ones.
  for (const size_t taps : {9, 25, 49, 10}) {
    for (const size_t channels :
         std::initializer_list<size_t>{3 * row.nr, 5 * row.nr + 3, 4 * row.nr + 6, 6 * row.nr - 1, 256}) {
      if (!check({channels, 17, taps, 3}, Values::random, clamps[0], Side::high, 0)) return;
      if (!check({channels, 8, taps, taps}, Values::random, {-1, 1}, Side::low, 16)) return;
    }
  }
}

constexpr size_t every_entry = ~size_t{0};

struct TileCase {
  size_t channels, pixels, rows;
  size_t padding = every_entry;  // the only entry of columns that may be padding
  bool tiny = false;             // weights
  size_t at_limit = no_channel;  // of bytes: Qs8cSums::at_limit
  bool large_sums = false;

  std::string text() const {
    return "channels=" + std::to_string(channels) + " pixels=" + std::to_string(pixels) +
           " rows=" + std::to_string(rows) + (padding == every_entry ? "" : " padding=" + std::to_string(padding)) +
           (tiny ? " tiny" : "") + (at_limit == no_channel ? "" : " at_limit=" + std::to_string(at_limit)) +
           (large_sums ? " large sums" : "");
  }
};

// What one call is to compute.
template <class Sums>
class TileProblem {
  using A = typename Sums::A;
  using C = typename Sums::C;

 public:
  TileProblem(const DwconvTileRow& row, const TileCase& size, Values values, Clamp clamp, Random& random)
      : row_(row),
        size_(size),
        column_((row.rows - 1) * row.stride + row.kernel),
        sums_(sums_of(row, size, values, clamp, random)),
        a_(((size.pixels - 1) * row.stride + row.kernel) * column_, size.channels, [&] { return sums_.draw_a(random); },
           random, [&](size_t entry) { return size.padding == every_entry || entry % column_ == size.padding; }),
        panels_({row.nr, size.channels, row.kernel * row.kernel, Sums::elements, row.panel, row.kernel}) {
    panels_.fill(sums_, random);
    if (size.tiny) panels_.fill_tiny();
    if constexpr (std::is_integral_v<A>) {
      if (size.at_limit != no_channel) panels_.fill_at_limit(sums_);
    }
    for (size_t y = 0; y < size.rows; ++y) {
      for (size_t x = 0; x < size.pixels; ++x) {
        for (size_t i = 0; i < size.channels; ++i) expected_.push_back(one_output(y, x, i));
      }
    }
  }

  bool check(Checker& checker, operands::DwconvTileOperands<Guarded>& memory, Side side, size_t gap) const {
    const size_t used = (size_.rows - 1) * row_.stride + row_.kernel, c_stride = size_.channels + gap;
    return every_fill<Sums>(side, [&](Place place) {
      memory.place({size_.channels, size_.pixels, size_.rows, gap}, panels_.layout(), a_.table(), place);
      a_.write(memory.a, gap);
      spoil_entries(memory.offsets, [&](size_t entry) { return entry % column_ >= used; });
      write_padding(memory.zero, sums_.padding);
      panels_.write(memory.w);
      sums_.write_parameters(memory.p, panels_.layout());
      std::vector<C> c = memory.c.blank<C>();
      for (size_t i = 0; i < size_.rows * size_.pixels; ++i) {
        const size_t at = i / size_.pixels * (size_.pixels * c_stride + gap) + i % size_.pixels * c_stride;
        std::copy_n(&expected_[i * size_.channels], size_.channels, &c[at]);
      }
      return checker.run(memory, {{&memory.c, c}}, [&] {
        return size_.text() + " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") +
               name_of(sums_.values);
      });
    });
  }

 private:
  static Sums sums_of(const DwconvTileRow& row, const TileCase& size, Values values, Clamp clamp, Random& random) {
    Sums sums(numbers_of(row), values, clamp, row.kernel * row.kernel, random);
    if constexpr (std::is_integral_v<A>) sums.at_limit = size.at_limit, sums.large_sums = size.large_sums;
    return sums;
  }

  C one_output(size_t y, size_t x, size_t i) const {
    const size_t k = row_.kernel, s = row_.stride;
    typename Sums::Sum sum = panels_.bias(i);
    for (size_t t = 0; t < k * k; ++t) {
      const A* in = a_.row((x * s + t / k) * column_ + y * s + t % k);
      sum = sums_.add(in == nullptr ? sums_.padding : in[i], panels_.weight(t, i), sum);
    }
    return sums_.end(sum, i);
  }

  const DwconvTileRow& row_;
  TileCase size_;
  size_t column_;  // entries of one
  Sums sums_;
  IndirectRows<A> a_;
  Panels<Sums> panels_;
  std::vector<C> expected_;
};

template <class Sums>
void check_dwconv_tile(Checker& checker, const DwconvTileRow& row) {
  operands::DwconvTileOperands<Guarded> memory;
  const auto check = [&](const TileCase& size, Values values, Clamp clamp, Side side, size_t gap) {
    return TileProblem<Sums>(row, size, values, clamp, checker.random()).check(checker, memory, side, gap);
  };
  // The extremes, with every kind of clamp, at sizes with and without remainders, and in rows that are long enough for
  // every loop.
  for (const Clamp clamp : clamps) {
    for (const size_t channels :
         std::initializer_list<size_t>{2 * row.nr + 1, row.nr, row.nr - 1, row.nr + 1, 1, row.nr / 8 + 1}) {
      for (size_t rows = row.rows; rows >= 1; --rows) {
        if (!check({channels, row.kernel + 1, rows}, Values::extreme, clamp, Side::high, 0)) return;
        if (!check({channels, 3, rows}, Values::random, clamp, Side::low, 5)) return;
      }
    }
    if (!check({row.nr, 20, row.rows}, Values::extreme, clamp, Side::high, 0)) return;
    if (!check({row.nr, 19, row.rows}, Values::random, clamp, Side::low, 5)) return;
    if (!check({row.nr, 20, row.rows, 0, true}, Values::random, clamp, Side::low, 0)) return;  // -0 stays
  }
  if constexpr (std::is_integral_v<typename Sums::A>) {
    for (size_t channel = 0; channel < row.nr; ++channel) {
      if (!check({row.nr, 5, row.rows, 0, false, channel}, Values::extreme, clamps[0], Side::high, 0)) return;
      if (!check({row.nr, 1, row.rows, 0, false, channel, true}, Values::random, clamps[0], Side::high, 0)) return;
    }
  }
  // Every small size: fewer pixels than lie in one window, and more.
  for (size_t rows = 1; rows <= row.rows; ++rows) {
    for (size_t pixels = 1; pixels <= row.kernel + 2; ++pixels) {
      for (size_t channels = 1; channels <= 2 * row.nr + 1; ++channels) {
        if (!check({channels, pixels, rows}, Values::random, clamps[0], Side::high, 0)) return;
        if (!check({channels, pixels, rows}, Values::integers, {-50, 60}, Side::low, 3)) return;
      }
    }
  }
  // Padding in one row of the image at a time.
  for (size_t padding = 0; padding < (row.rows - 1) * row.stride + row.kernel; ++padding) {
    for (size_t pixels = row.kernel; pixels <= 20; ++pixels) {
      if (!check({row.nr, pixels, row.rows, padding}, Values::random, clamps[0], Side::high, 0)) return;
    }
  }
  // Larger ones.
  for (const size_t channels : std::initializer_list<size_t>{3 * row.nr, 5 * row.nr + 3, 6 * row.nr - 1, 256}) {
    if (!check({channels, 17, row.rows}, Values::random, clamps[0], Side::high, 0)) return;
    if (!check({channels, 56, row.rows}, Values::random, {-1, 1}, Side::low, 16)) return;
    if (!check({channels, 17, row.rows}, Values::integers, {-50, -0.0f}, Side::high, 0)) return;  // +0 stays
  }
}

bool check_plane_case(Checker& checker, operands::PlaneOperands<Guarded>& memory, const DwconvPlaneRow& row,
                      const PlaneSize& size, Values values, Clamp limits, Side side, size_t gap) {
  Random& random = checker.random();
  const PlaneTaps taps({row.block, row.lanes, row.kernel == 3}, size, values, random);
  const F32Sums sums(numbers_of(row), values, limits, taps.taps(), random);
  Panels<F32Sums> panel({1, 1, taps.taps()});
  panel.fill(sums, random);

  taps.place(memory, taps.taps() + 1, side, gap);
  panel.write(memory.factor);
  write_parameters(memory.p, sums.p);
  std::vector<float> c = memory.c.blank<float>();
  for (size_t p = 0; p < taps.computed(); ++p) {
    float sum = panel.bias(0);
    for (size_t t = 0; t < taps.taps(); ++t) {
      sum = sums.add(taps.counts(t, p) ? taps.value(t, p) : 0, panel.weight(t, 0), sum);
    }
    c[taps.kind().at(p, row.block + gap)] = sums.end(sum, 0);
  }
  return checker.run(memory, {{&memory.c, c}}, [&] {
    return "pixels=" + std::to_string(size.pixels) + " kernel_h=" + std::to_string(size.kernel_h) +
           " kernel_w=" + std::to_string(size.kernel_w) + " gap=" + std::to_string(gap) +
           (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

void check_dwconv_plane(Checker& checker, const DwconvPlaneRow& row) {
  operands::PlaneOperands<Guarded> memory("w");
  std::vector<PlaneSize> kernels = {{0, 3, 3}, {0, 1, 1}, {0, 2, 1}, {0, 1, 2}, {0, 5, 5}, {0, 1, 9}};
  if (row.kernel == 3) kernels.resize(1);
  const auto check = [&](size_t pixels, Values values, Clamp clamp, Side side, size_t gap) {
    for (PlaneSize size : kernels) {
      size.pixels = pixels;
      if (!check_plane_case(checker, memory, row, size, values, clamp, side, gap)) return false;
    }
    return true;
  };
  walk_planes(row, {-50, 60}, check);
  // Sums of +0 stay above -0, whatever the masks.
  for (size_t i = 0; i < 24 && !checker.failed(); ++i) {
    check(3 * row.block, Values::zeros, {-50, -0.0f}, Side::low, 3);
  }
}

using ImageMemory = operands::DwconvImageOperands<Guarded>;

struct ImageSize {
  size_t rows, columns;
};

// Rows lie `gap` floats apart; 0: those of C overlap.
bool check_image_case(Checker& checker, ImageMemory& memory, const DwconvImageRow& row, ImageSize size, Values values,
                      Clamp limits, Side side, size_t gap) {
  Random& random = checker.random();
  memory.place(size.rows, size.columns, row.lanes, gap, Place(side));
  std::vector<float> a(memory.a.size() / 4);
  random.fill(a, values);
  const F32Sums sums(numbers_of(row), values, limits, 9, random);
  Panels<F32Sums> panel({1, 1, 9});
  panel.fill(sums, random);
  std::copy(a.begin(), a.end(), memory.a.floats());
  panel.write(memory.w);
  write_parameters(memory.p, sums.p);

  std::vector<float> c = memory.c.blank<float>();
  for (size_t y = 0; y < size.rows; ++y) {
    for (size_t x = 0; x < memory.computed; ++x) {
      float sum = panel.bias(0);
      for (size_t t = 0; t < 9; ++t) {
        const float tap = x == 0 && t < 3 ? 0 : a[(2 * y + t % 3) * memory.a_stride + 2 * x + t / 3 - 1];
        sum = sums.add(tap, panel.weight(t, 0), sum);
      }
      c[y * memory.c_stride + x] = sums.end(sum, 0);
    }
  }
  return checker.run(memory, {{&memory.c, c}}, [&] {
    return "rows=" + std::to_string(size.rows) + " columns=" + std::to_string(size.columns) +
           " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

void check_dwconv_image(Checker& checker, const DwconvImageRow& row) {
  ImageMemory memory;
  const auto check = [&](ImageSize size, Values values, Clamp clamp, Side side, size_t gap) {
    return check_image_case(checker, memory, row, size, values, clamp, side, gap);
  };
  for (const size_t columns : std::initializer_list<size_t>{2 * row.lanes + 1, row.lanes, 1}) {
    for (const Clamp clamp : clamps) {
      if (!check({3, columns}, Values::extreme, clamp, Side::high, 0)) return;
      if (!check({2, columns}, Values::random, clamp, Side::low, 5)) return;
    }
  }
  for (size_t columns = 1; columns <= 40; ++columns) {
    for (size_t rows = 1; rows <= 4; ++rows) {
      if (!check({rows, columns}, Values::random, clamps[0], Side::high, 0)) return;
      if (!check({rows, columns}, Values::integers, {-50, 60}, Side::low, 3)) return;
    }
  }
}

}  // namespace

Kernel make_kernel(const DwconvRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            with_sums<F32Sums, Qs8cSums>(
                row, [&]<class Sums>(std::type_identity<Sums>) { check_dwconv<Sums>(checker, row); });
          }};
}

Kernel make_kernel(const DwconvTileRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            with_sums<F32Sums, Qs8cSums>(
                row, [&]<class Sums>(std::type_identity<Sums>) { check_dwconv_tile<Sums>(checker, row); });
          }};
}

Kernel make_kernel(const DwconvPlaneRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_dwconv_plane(checker, row); }};
}

Kernel make_kernel(const DwconvImageRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_dwconv_image(checker, row); }};
}

std::vector<Kernel> dwconv_kernels() {
  std::vector<Kernel> list;
  for (const DwconvRow& row : dwconv_rows()) list.push_back(make_kernel(row));
  for (const DwconvTileRow& row : dwconv_tile_rows()) list.push_back(make_kernel(row));
  for (const DwconvPlaneRow& row : dwconv_plane_rows()) list.push_back(make_kernel(row));
  for (const DwconvImageRow& row : dwconv_image_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
