// The cases of the pool family.  Contract: src/kernel/pool.h
#include "kernel/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "indirect.h"
#include "plane.h"
#include "sums.h"

namespace quern::check {
namespace {

using operands::RowsSize;
using PoolMemory = operands::PoolOperands<Guarded>;

// What a type makes of the taps of a pixel: values of its operands, how two of them become one, and what a result is.
struct F32Pool {
  using A = float;
  using C = float;
  static constexpr operands::Elements elements = operands::f32_elements;
  static constexpr std::array<Fill, 1> fills = {poison};

  PoolKind kind;
  Values values;
  qn_minmax_f32 p;

  F32Pool(PoolKind of_kind, Values of, Clamp clamp, Random&) : kind(of_kind), values(of), p{clamp.min, clamp.max} {}
  A draw(Random& random) const { return random.value(values); }
  float scale(size_t pixel) const { return 1.0f / static_cast<float>(pixel + 3); }
  float begin() const { return kind == PoolKind::average ? 0 : -std::numeric_limits<float>::infinity(); }
  float fold(float so_far, A tap) const {
    if (kind == PoolKind::average) return so_far + tap;
    return std::isnan(so_far) || std::isnan(tap) ? std::numeric_limits<float>::quiet_NaN() : std::max(so_far, tap);
  }
  C end(float folded, size_t pixel) const {
    return quern::clamp(kind == PoolKind::average ? scale(pixel) * folded : folded, p);
  }
};

// Of small integers the scales are powers of two, so that some averages lie in the middle between two steps.
struct Qs8Pool {
  using A = int8_t;
  using C = int8_t;
  static constexpr operands::Elements elements = operands::qs8_pool_elements;
  static constexpr auto fills = integer_fills;

  PoolKind kind;
  Values values;
  qn_pool_qs8 p = {};

  Qs8Pool(PoolKind of_kind, Values of, Clamp clamp, Random& random) : kind(of_kind), values(of) {
    p.zero_in = draw_zero_point(values, random);
    p.zero = draw_zero_point(values, random);
    p.min = steps_of(clamp.min, p.zero);
    p.max = steps_of(clamp.max, p.zero);
  }
  A draw(Random& random) const { return draw_byte(values, INT8_MIN, random); }
  float scale(size_t pixel) const {
    if (values == Values::integers) return std::ldexp(0.5f, -static_cast<int>(pixel % 3));
    if (values == Values::extreme && pixel % 2 == 1) return std::numeric_limits<float>::max();
    return 1.3f / static_cast<float>(pixel + 3);
  }
  int32_t begin() const { return kind == PoolKind::average ? 0 : INT8_MIN; }
  int32_t fold(int32_t so_far, A tap) const {
    return kind == PoolKind::average ? so_far + tap - p.zero_in : std::max(so_far, int32_t{tap});
  }
  C end(int32_t folded, size_t pixel) const {
    if (kind == PoolKind::max) return static_cast<C>(std::clamp(folded, p.min, p.max));
    const float steps = std::nearbyint(std::clamp(static_cast<float>(folded) * scale(pixel), -1e6f, 1e6f));
    return static_cast<C>(std::clamp(static_cast<int32_t>(steps) + p.zero, p.min, p.max));
  }
};

template <class Pool>
bool check_case(Checker& checker, PoolMemory& memory, const PoolRow& row, const RowsSize& size, Values values,
                Clamp limits, Side side) {
  using A = typename Pool::A;
  using C = typename Pool::C;
  Random& random = checker.random();
  const bool average = row.kind == PoolKind::average;
  const size_t entries = (size.pixels - 1) * size.step + size.taps;
  const Pool pool(row.kind, values, limits, random);
  const IndirectRows<A> a(
      entries, size.channels, [&] { return pool.draw(random); }, random, [](size_t) { return true; });

  const Flushing flushing(checker.flushes());
  std::vector<C> pixels;
  for (size_t x = 0; x < size.pixels; ++x) {
    for (size_t i = 0; i < size.channels; ++i) {
      auto value = pool.begin();
      for (size_t t = 0; t < size.taps; ++t) {
        if (const A* in = a.row(x * size.step + t); in != nullptr) value = pool.fold(value, in[i]);
      }
      pixels.push_back(pool.end(value, x));
    }
  }
  return every_fill<Pool>(side, [&](Place place) {
    memory.place(size, Pool::elements, a.table(), average, place);
    a.write(memory.a, size.gap);
    spoil_entries(memory.offsets, [&](size_t entry) { return entry % size.step >= size.taps; });
    for (size_t x = 0; x < memory.scale.size() / 4; ++x) memory.scale.floats()[x] = pool.scale(x);
    write_parameters(memory.p, pool.p);
    std::vector<C> c = memory.c.blank<C>();
    for (size_t x = 0; x < size.pixels; ++x) {
      std::copy_n(&pixels[x * size.channels], size.channels, &c[x * (size.channels + size.gap)]);
    }
    return checker.run(memory, {{&memory.c, c, !average, checker.flushes()}}, [&] {
      return "channels=" + std::to_string(size.channels) + " pixels=" + std::to_string(size.pixels) +
             " taps=" + std::to_string(size.taps) + " step=" + std::to_string(size.step * 4) +
             " gap=" + std::to_string(size.gap) + (side == Side::high ? " high " : " low ") + name_of(values);
    });
  });
}

template <class Pool>
void check_pool(Checker& checker, const PoolRow& row) {
  PoolMemory memory;
  const auto check = [&](RowsSize size, Values values, Clamp clamp, Side side, size_t gap) {
    size.gap = gap;
    return check_case<Pool>(checker, memory, row, size, values, clamp, side);
  };
  // A table does not tell how many channels a kernel handles at a time: 32 covers two vectors of the widest level.
  constexpr size_t block = 32;

  // The extremes, with every kind of clamp, at sizes with and without remainders.
  for (const size_t channels : {2 * block + 1, block, block - 1, size_t{1}}) {
    for (const size_t taps : {5, 1, 2, 9}) {
      for (const Clamp clamp : clamps) {
        if (!check({channels, 3, taps, taps}, Values::extreme, clamp, Side::high, 0)) return;
        if (!check({channels, 3, taps, taps}, Values::random, clamp, Side::low, 5)) return;
      }
    }
  }
  // Every small size; pixels that share columns, that share nothing, and that leave entries of the table out.
  for (const size_t taps : {9, 1, 2, 3, 4, 5, 6, 7, 8, 25}) {
    for (size_t pixels = 1; pixels <= 3; ++pixels) {
      for (size_t channels = 1; channels <= 4 * block + 17; ++channels) {
        const size_t shared = (taps + 2) / 3;
        if (!check({channels, pixels, taps, shared}, Values::random, clamps[0], Side::high, 0)) return;
        if (!check({channels, pixels, taps, taps + pixels % 2}, Values::integers, {-9, 12}, Side::low, 3)) return;
      }
    }
  }
  // Larger ones; 49 taps and more are a global pool.
  for (const size_t taps : {9, 49, 196, 600}) {
    for (const size_t channels : {193, 256, 1000}) {
      if (!check({channels, 7, taps, 3}, Values::random, clamps[0], Side::high, 0)) return;
      if (!check({channels, 1, taps, taps}, Values::random, {-1, 1}, Side::low, 16)) return;
    }
  }
}

using PlaneMemory = operands::PlaneOperands<Guarded>;

bool check_plane_case(Checker& checker, PlaneMemory& memory, const PoolPlaneRow& row, const PlaneSize& size,
                      Values values, Clamp limits, Side side, size_t gap) {
  const bool average = row.kind == PoolKind::average;
  const PlaneTaps taps({row.block, row.lanes}, size, values, checker.random());
  const F32Pool pool(row.kind, values, limits, checker.random());
  taps.place(memory, average ? taps.computed() : 0, side, gap);
  write_parameters(memory.p, pool.p);

  const Flushing flushing(checker.flushes());
  std::vector<float> c = memory.c.blank<float>();
  for (size_t p = 0; p < taps.computed(); ++p) {
    if (average) memory.factor.floats()[p] = pool.scale(p);
    float value = pool.begin();
    for (size_t t = 0; t < taps.taps(); ++t) {
      if (taps.counts(t, p)) value = pool.fold(value, taps.value(t, p));
    }
    c[taps.kind().at(p, row.block + gap)] = pool.end(value, p);
  }
  return checker.run(memory, {{&memory.c, c, !average, checker.flushes()}}, [&] {
    return "pixels=" + std::to_string(size.pixels) + " kernel_h=" + std::to_string(size.kernel_h) +
           " kernel_w=" + std::to_string(size.kernel_w) + " gap=" + std::to_string(gap) +
           (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

void check_pool_plane(Checker& checker, const PoolPlaneRow& row) {
  PlaneMemory memory("scale");
  const auto check = [&](size_t pixels, Values values, Clamp clamp, Side side, size_t gap) {
    for (PlaneSize size : {PlaneSize{0, 3, 3}, {0, 1, 1}, {0, 2, 1}, {0, 1, 2}, {0, 7, 7}, {0, 1, 9}}) {
      size.pixels = pixels;
      if (!check_plane_case(checker, memory, row, size, values, clamp, side, gap)) return false;
    }
    return true;
  };
  walk_planes(row, {-9, 12}, check);
}

}  // namespace

Kernel make_kernel(const PoolRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            switch (row.type) {
              case KernelType::f32: return check_pool<F32Pool>(checker, row);
              case KernelType::qs8: return check_pool<Qs8Pool>(checker, row);
              default: std::abort();  // a type that the checker does not know
            }
          }};
}

Kernel make_kernel(const PoolPlaneRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_pool_plane(checker, row); }};
}

std::vector<Kernel> pool_kernels() {
  std::vector<Kernel> list;
  for (const PoolRow& row : pool_rows()) list.push_back(make_kernel(row));
  for (const PoolPlaneRow& row : pool_plane_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
