// The cases of the dwconv family.  Contract: src/kernel/dwconv.h
#include "kernel/dwconv.h"

#include <algorithm>

#include "gemm_problem.h"
#include "indirect.h"
#include "plane.h"

namespace quern::check {
namespace {

struct DwconvMemory {
  Guarded offsets{"offsets", Access::input}, a{"a", Access::input}, zero{"zero", Access::input};
  Guarded w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
};

struct DwconvSize {
  size_t channels, pixels, taps;
  size_t step;  // entries of the table between neighbouring pixels
};

bool check_case(Checker& checker, DwconvMemory& memory, const DwconvRow& row, DwconvSize size, Values values,
                Clamp limits, Side side, size_t gap) {
  const auto [channels, pixels, taps, step] = size;
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  Random& random = checker.random();
  const size_t entries = (pixels - 1) * step + taps;
  const auto unused = [size](size_t entry) { return entry % size.step >= size.taps; };
  const bool padding = side == Side::low || values == Values::extreme;  // `zero` is unreadable in the rest
  const IndirectRows a(entries, channels, values, random, [=](size_t) { return padding; });
  Panels panels(row.nr, channels, taps);
  panels.fill(values, random);

  const size_t c_stride = (channels + gap) * 4;
  a.place(memory.a, side, gap);
  a.place_table(memory.offsets, side, gap, entries, unused);
  place_zeros(memory.zero, side, channels, a.pads());
  memory.w.place(panels.data().size() * 4, side, 64);
  memory.c.place((pixels - 1) * c_stride + channels * 4, side);
  memory.p.place(sizeof clamp, side);
  std::copy(panels.data().begin(), panels.data().end(), memory.w.floats());
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t x = 0; x < pixels; ++x) {
    for (size_t i = 0; i < channels; ++i) {
      float sum = panels.bias(i);
      for (size_t t = 0; t < taps; ++t) {
        const float* in = a.row(x * step + t);
        sum = multiply_add(in == nullptr ? 0 : in[i], panels.weight(t, i), sum, numbers_of(row));
      }
      c[x * (channels + gap) + i] = quern::clamp(sum, clamp);
    }
  }
  return checker.run(
      {channels, pixels, taps, memory.offsets.address(), step * 4, memory.a.address(), memory.zero.address(),
       memory.w.address(), memory.c.address(), c_stride, memory.p.address()},
      {&memory.offsets, &memory.a, &memory.zero, &memory.w, &memory.c, &memory.p}, {{&memory.c, c}}, [&] {
        return "channels=" + std::to_string(size.channels) + " pixels=" + std::to_string(size.pixels) +
               " taps=" + std::to_string(size.taps) + " step=" + std::to_string(size.step * 4) +
               " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(values);
      });
}

void check_dwconv(Checker& checker, const DwconvRow& row) {
  DwconvMemory memory;
  const auto check = [&](DwconvSize size, Values values, Clamp clamp, Side side, size_t gap) {
    return check_case(checker, memory, row, size, values, clamp, side, gap);
  };

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t channels : {2 * row.nr + 1, row.nr, row.nr - 1, row.nr + 1, size_t{1}}) {
    for (const size_t taps : {5, 1, 2, 9}) {
      for (const Clamp clamp : clamps) {
        if (!check({channels, 3, taps, taps}, Values::extreme, clamp, Side::high, 0)) return;
        if (!check({channels, 3, taps, taps}, Values::random, clamp, Side::low, 5)) return;
        if (!check({channels, 9, taps, divide_up(taps, size_t{3})}, Values::extreme, clamp, Side::low, 0)) return;
      }
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
    for (const size_t channels : {3 * row.nr, 5 * row.nr + 3, 6 * row.nr - 1, size_t{256}}) {
      if (!check({channels, 17, taps, 3}, Values::random, clamps[0], Side::high, 0)) return;
      if (!check({channels, 8, taps, taps}, Values::random, {-1, 1}, Side::low, 16)) return;
    }
  }
}

constexpr size_t every_entry = ~size_t{0};

struct TileSize {
  size_t channels, pixels, rows;
  size_t padding = every_entry;  // the only entry of columns that may be padding
  bool tiny = false;             // weights
};

bool check_tile_case(Checker& checker, DwconvMemory& memory, const DwconvTileRow& row, TileSize size, Values values,
                     Clamp limits, Side side, size_t gap) {
  const auto [channels, pixels, rows, padding, tiny] = size;
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  Random& random = checker.random();
  const size_t k = row.kernel, s = row.stride, column = (row.rows - 1) * s + k;
  const size_t entries = ((pixels - 1) * s + k) * column;
  const size_t used = (rows - 1) * s + k;
  const auto unused = [=](size_t entry) { return entry % column >= used; };
  const auto may_pad = [column, size](size_t entry) {
    return size.padding == every_entry || entry % column == size.padding;
  };
  const IndirectRows a(entries, channels, values, random, may_pad);
  Panels panels(row.nr, channels, k * k);
  panels.fill(values, random);
  if (tiny) panels.fill_tiny();

  const size_t c_stride = channels + gap, row_stride = pixels * c_stride + gap;  // in floats
  a.place(memory.a, side, gap);
  a.place_table(memory.offsets, side, gap, entries, unused);
  memory.w.place(panels.data().size() * 4, side, 64);
  memory.c.place(((rows - 1) * row_stride + (pixels - 1) * c_stride + channels) * 4, side);
  memory.p.place(sizeof clamp, side);
  std::copy(panels.data().begin(), panels.data().end(), memory.w.floats());
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < pixels; ++x) {
      for (size_t i = 0; i < channels; ++i) {
        float sum = panels.bias(i);
        for (size_t t = 0; t < k * k; ++t) {
          const float* in = a.row((x * s + t / k) * column + y * s + t % k);
          sum = multiply_add(in == nullptr ? 0 : in[i], panels.weight(t, i), sum, numbers_of(row));
        }
        c[y * row_stride + x * c_stride + i] = quern::clamp(sum, clamp);
      }
    }
  }
  return checker.run({channels, pixels, rows, memory.offsets.address(), memory.a.address(), memory.w.address(),
                      memory.c.address(), row_stride * 4, c_stride * 4, memory.p.address()},
                     {&memory.offsets, &memory.a, &memory.w, &memory.c, &memory.p}, {{&memory.c, c}}, [&] {
                       return "channels=" + std::to_string(size.channels) + " pixels=" + std::to_string(size.pixels) +
                              " rows=" + std::to_string(size.rows) +
                              (size.padding == every_entry ? "" : " padding=" + std::to_string(size.padding)) +
                              (size.tiny ? " tiny" : "") + " gap=" + std::to_string(gap) +
                              (side == Side::high ? " high " : " low ") + name_of(values);
                     });
}

void check_dwconv_tile(Checker& checker, const DwconvTileRow& row) {
  DwconvMemory memory;
  const auto check = [&](TileSize size, Values values, Clamp clamp, Side side, size_t gap) {
    return check_tile_case(checker, memory, row, size, values, clamp, side, gap);
  };
  // Rows that are long enough for every loop.
  for (const Clamp clamp : clamps) {
    if (!check({row.nr, 20, row.rows}, Values::extreme, clamp, Side::high, 0)) return;
    if (!check({row.nr, 19, row.rows}, Values::random, clamp, Side::low, 5)) return;
    if (!check({row.nr, 20, row.rows, 0, true}, Values::random, clamp, Side::low, 0)) return;  // -0 stays
  }
  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const Clamp clamp : clamps) {
    for (const size_t channels : {2 * row.nr + 1, row.nr, row.nr - 1, row.nr + 1, size_t{1}}) {
      for (size_t rows = row.rows; rows >= 1; --rows) {
        if (!check({channels, row.kernel + 1, rows}, Values::extreme, clamp, Side::high, 0)) return;
        if (!check({channels, 3, rows}, Values::random, clamp, Side::low, 5)) return;
      }
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
  for (const size_t channels : {3 * row.nr, 5 * row.nr + 3, 6 * row.nr - 1, size_t{256}}) {
    if (!check({channels, 17, row.rows}, Values::random, clamps[0], Side::high, 0)) return;
    if (!check({channels, 56, row.rows}, Values::random, {-1, 1}, Side::low, 16)) return;
    if (!check({channels, 17, row.rows}, Values::integers, {-50, -0.0f}, Side::high, 0)) return;  // +0 stays
  }
}

struct DwconvPlaneMemory : PlaneMemory {
  Guarded w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
};

bool check_plane_case(Checker& checker, DwconvPlaneMemory& memory, const DwconvPlaneRow& row, PlaneSize size,
                      Values values, Clamp limits, Side side, size_t gap) {
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  Random& random = checker.random();
  const PlaneTaps taps({row.block, row.lanes, row.kernel == 3}, size, 2 * gap, values, random);
  Panels panel(1, 1, taps.taps());
  panel.fill(values, random);

  const size_t c_stride = row.block + gap;
  taps.place(memory.offsets, memory.masks, memory.a, side);
  memory.w.place(panel.data().size() * 4, side);
  memory.c.place(taps.c_size(c_stride) * 4, side);
  memory.p.place(sizeof clamp, side);
  std::copy(panel.data().begin(), panel.data().end(), memory.w.floats());
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t p = 0; p < taps.computed(); ++p) {
    float sum = panel.bias(0);
    for (size_t t = 0; t < taps.taps(); ++t) {
      sum = multiply_add(taps.counts(t, p) ? taps.value(t, p) : 0, panel.weight(t, 0), sum, numbers_of(row));
    }
    c[taps.at(p, c_stride)] = quern::clamp(sum, clamp);
  }
  return checker.run(
      {size.pixels, size.kernel_h, size.kernel_w, memory.offsets.address(), memory.masks.address(), taps.mask_stride(),
       taps.origin(memory.a), memory.w.address(), memory.c.address(), c_stride * 4, memory.p.address()},
      {&memory.offsets, &memory.masks, &memory.a, &memory.w, &memory.c, &memory.p}, {{&memory.c, c}}, [&] {
        return "pixels=" + std::to_string(size.pixels) + " kernel_h=" + std::to_string(size.kernel_h) +
               " kernel_w=" + std::to_string(size.kernel_w) + " gap=" + std::to_string(gap) +
               (side == Side::high ? " high " : " low ") + name_of(values);
      });
}

void check_dwconv_plane(Checker& checker, const DwconvPlaneRow& row) {
  DwconvPlaneMemory memory;
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

struct DwconvImageMemory {
  Guarded a{"a", Access::input}, w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
};

struct ImageSize {
  size_t rows, columns;
};

// Rows lie `gap` floats apart; 0: those of C overlap.
bool check_image_case(Checker& checker, DwconvImageMemory& memory, const DwconvImageRow& row, ImageSize size,
                      Values values, Clamp limits, Side side, size_t gap) {
  const auto [rows, columns] = size;
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  Random& random = checker.random();
  const size_t computed = round_up(columns, row.lanes), read = std::max(2 * computed, 2 * columns);
  const size_t a_stride = 2 * columns + gap, c_stride = gap == 0 ? columns : computed + gap;
  std::vector<float> a(2 * rows * a_stride + read);
  random.fill(a, values);
  Panels panel(1, 1, 9);
  panel.fill(values, random);

  memory.a.place(a.size() * 4, side);
  memory.w.place(panel.data().size() * 4, side);
  memory.c.place(((rows - 1) * c_stride + computed) * 4, side);
  memory.p.place(sizeof clamp, side);
  std::copy(a.begin(), a.end(), memory.a.floats());
  std::copy(panel.data().begin(), panel.data().end(), memory.w.floats());
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < computed; ++x) {
      float sum = panel.bias(0);
      for (size_t t = 0; t < 9; ++t) {
        const float tap = x == 0 && t < 3 ? 0 : a[(2 * y + t % 3) * a_stride + 2 * x + t / 3 - 1];
        sum = multiply_add(tap, panel.weight(t, 0), sum, numbers_of(row));
      }
      c[y * c_stride + x] = quern::clamp(sum, clamp);
    }
  }
  return checker.run({rows, columns, memory.a.address(), a_stride * 4, memory.w.address(), memory.c.address(),
                      c_stride * 4, memory.p.address()},
                     {&memory.a, &memory.w, &memory.c, &memory.p}, {{&memory.c, c}}, [&] {
                       return "rows=" + std::to_string(size.rows) + " columns=" + std::to_string(size.columns) +
                              " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") +
                              name_of(values);
                     });
}

void check_dwconv_image(Checker& checker, const DwconvImageRow& row) {
  DwconvImageMemory memory;
  const auto check = [&](ImageSize size, Values values, Clamp clamp, Side side, size_t gap) {
    return check_image_case(checker, memory, row, size, values, clamp, side, gap);
  };
  for (const size_t columns : {2 * row.lanes + 1, row.lanes, size_t{1}}) {
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

Kernel make_kernel(const DwconvImageRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_dwconv_image(checker, row); }};
}

Kernel make_kernel(const DwconvRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_dwconv(checker, row); }};
}

Kernel make_kernel(const DwconvTileRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_dwconv_tile(checker, row); }};
}

Kernel make_kernel(const DwconvPlaneRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_dwconv_plane(checker, row); }};
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
