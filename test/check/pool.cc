// The cases of the pool family.  Contract: src/kernel/pool.h
#include "kernel/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "indirect.h"
#include "plane.h"

namespace quern::check {
namespace {

struct PoolMemory {
  Guarded offsets{"offsets", Access::input}, a{"a", Access::input}, scale{"scale", Access::input};
  Guarded c{"c", Access::output}, p{"p", Access::input};
};

struct PoolSize {
  size_t channels, pixels, taps;
  size_t step;  // entries of the table between neighbouring pixels
};

float fold(PoolKind kind, float so_far, float tap) {
  if (kind == PoolKind::average) return so_far + tap;
  return std::isnan(so_far) || std::isnan(tap) ? std::numeric_limits<float>::quiet_NaN() : std::max(so_far, tap);
}

bool check_case(Checker& checker, PoolMemory& memory, const PoolRow& row, PoolSize size, Values values, Clamp limits,
                Side side, size_t gap) {
  const auto [channels, pixels, taps, step] = size;
  const bool average = row.kind == PoolKind::average;
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  const size_t entries = (pixels - 1) * step + taps;
  const auto unused = [size](size_t entry) { return entry % size.step >= size.taps; };
  const IndirectRows a(entries, channels, values, checker.random(), [](size_t) { return true; });

  const size_t c_stride = (channels + gap) * 4;
  a.place(memory.a, side, gap);
  a.place_table(memory.offsets, side, gap, entries, unused);
  memory.scale.place(average ? pixels * 4 : 0, side);
  memory.c.place((pixels - 1) * c_stride + channels * 4, side);
  memory.p.place(sizeof clamp, side);
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  const Flushing flushing(checker.flushes());
  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t x = 0; x < pixels; ++x) {
    const float scale = 1.0f / static_cast<float>(x + 3);
    if (average) memory.scale.floats()[x] = scale;
    for (size_t i = 0; i < channels; ++i) {
      float value = average ? 0 : -std::numeric_limits<float>::infinity();
      for (size_t t = 0; t < taps; ++t) {
        const float* in = a.row(x * step + t);
        if (in != nullptr) value = fold(row.kind, value, in[i]);
      }
      c[x * (channels + gap) + i] = quern::clamp(average ? scale * value : value, clamp);
    }
  }
  return checker.run({channels, pixels, taps, memory.offsets.address(), step * 4, memory.a.address(),
                      memory.scale.address(), memory.c.address(), c_stride, memory.p.address()},
                     {&memory.offsets, &memory.a, &memory.scale, &memory.c, &memory.p},
                     {{&memory.c, c, !average, checker.flushes()}}, [&] {
                       return "channels=" + std::to_string(size.channels) + " pixels=" + std::to_string(size.pixels) +
                              " taps=" + std::to_string(size.taps) + " step=" + std::to_string(size.step * 4) +
                              " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") +
                              name_of(values);
                     });
}

void check_pool(Checker& checker, const PoolRow& row) {
  PoolMemory memory;
  const auto check = [&](PoolSize size, Values values, Clamp clamp, Side side, size_t gap) {
    return check_case(checker, memory, row, size, values, clamp, side, gap);
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
  // Larger ones; 49 taps are a global pool.
  for (const size_t taps : {9, 49, 196}) {
    for (const size_t channels : {193, 256, 1000}) {
      if (!check({channels, 7, taps, 3}, Values::random, clamps[0], Side::high, 0)) return;
      if (!check({channels, 1, taps, taps}, Values::random, {-1, 1}, Side::low, 16)) return;
    }
  }
}

struct PoolPlaneMemory : PlaneMemory {
  Guarded scale{"scale", Access::input}, c{"c", Access::output}, p{"p", Access::input};
};

bool check_plane_case(Checker& checker, PoolPlaneMemory& memory, const PoolPlaneRow& row, PlaneSize size, Values values,
                      Clamp limits, Side side, size_t gap) {
  const bool average = row.kind == PoolKind::average;
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  const PlaneTaps taps({row.block, row.lanes}, size, 2 * gap, values, checker.random());

  const size_t c_stride = row.block + gap;
  taps.place(memory.offsets, memory.masks, memory.a, side);
  memory.scale.place(average ? taps.computed() * 4 : 0, side);
  memory.c.place(taps.c_size(c_stride) * 4, side);
  memory.p.place(sizeof clamp, side);
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  const Flushing flushing(checker.flushes());
  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t p = 0; p < taps.computed(); ++p) {
    const float scale = 1.0f / static_cast<float>(p + 3);
    if (average) memory.scale.floats()[p] = scale;
    float value = average ? 0 : -std::numeric_limits<float>::infinity();
    for (size_t t = 0; t < taps.taps(); ++t) {
      if (taps.counts(t, p)) value = fold(row.kind, value, taps.value(t, p));
    }
    c[taps.at(p, c_stride)] = quern::clamp(average ? scale * value : value, clamp);
  }
  return checker.run(
      {size.pixels, size.kernel_h, size.kernel_w, memory.offsets.address(), memory.masks.address(), taps.mask_stride(),
       taps.origin(memory.a), memory.scale.address(), memory.c.address(), c_stride * 4, memory.p.address()},
      {&memory.offsets, &memory.masks, &memory.a, &memory.scale, &memory.c, &memory.p},
      {{&memory.c, c, !average, checker.flushes()}}, [&] {
        return "pixels=" + std::to_string(size.pixels) + " kernel_h=" + std::to_string(size.kernel_h) +
               " kernel_w=" + std::to_string(size.kernel_w) + " gap=" + std::to_string(gap) +
               (side == Side::high ? " high " : " low ") + name_of(values);
      });
}

void check_pool_plane(Checker& checker, const PoolPlaneRow& row) {
  PoolPlaneMemory memory;
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
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_pool(checker, row); }};
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
