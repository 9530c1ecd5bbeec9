// The cases of the unblock family.  Contract: src/kernel/unblock.h
#include "kernel/unblock.h"

#include <algorithm>

#include "base/math.h"
#include "checker.h"

namespace quern::check {
namespace {

struct UnblockMemory {
  Guarded a{"a", Access::input}, d{"d", Access::output};
};

// Blocks of A lie `a_gap` floats apart, those of D `d_gap`.
bool check_unblock_case(Checker& checker, UnblockMemory& memory, size_t block, size_t pixels, Values values, Side side,
                        size_t a_gap, size_t d_gap) {
  const size_t a_stride = block + a_gap, d_stride = block + d_gap;
  const auto at = [&](size_t p, size_t stride) { return p / block * stride + p % block; };
  memory.a.place((at(pixels - 1, a_stride) + 1) * 4, side);
  memory.d.place((at(pixels - 1, d_stride) + 1) * 4, side);
  std::vector<float> d(memory.d.size() / 4, poison_float());
  for (size_t p = 0; p < pixels; ++p) {
    d[at(p, d_stride)] = memory.a.floats()[at(p, a_stride)] = checker.random().value(values);
  }
  return checker.run({pixels, memory.a.address(), a_stride * 4, memory.d.address(), d_stride * 4},
                     {&memory.a, &memory.d}, {{&memory.d, d}}, [&] {
                       return "pixels=" + std::to_string(pixels) + " a_gap=" + std::to_string(a_gap) +
                              " d_gap=" + std::to_string(d_gap) + (side == Side::high ? " high " : " low ") +
                              name_of(values);
                     });
}

void check_unblock(Checker& checker, const UnblockRow& row) {
  UnblockMemory memory;
  const auto check = [&](size_t pixels, Values values, Side side, size_t a_gap, size_t d_gap) {
    return check_unblock_case(checker, memory, row.block, pixels, values, side, a_gap, d_gap);
  };
  for (size_t pixels = 3 * row.block + 1; pixels > 0; --pixels) {
    if (!check(pixels, Values::random, Side::high, 0, 0)) return;
    if (!check(pixels, Values::extreme, Side::low, 5, 0)) return;
    if (!check(pixels, Values::random, Side::low, 0, 3)) return;
  }
  check(3136, Values::random, Side::high, 192, 0);
}

struct SplitSize {
  size_t rows, columns, step, planes;
};

bool check_split_case(Checker& checker, UnblockMemory& memory, SplitSize size, Values values, Side side, size_t gap) {
  const auto [rows, columns, step, planes] = size;
  const size_t a_stride = columns + gap, d_stride = divide_up(columns, step) + gap, d_plane = rows * d_stride + gap;
  memory.a.place(((rows - 1) * a_stride + columns) * 4, side);
  std::vector<float> d(planes * d_plane, poison_float());
  size_t end = 0;
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < columns; ++x) {
      const float value = memory.a.floats()[y * a_stride + x] = checker.random().value(values);
      if (x % step >= planes) continue;
      const size_t to = x % step * d_plane + y * d_stride + x / step;
      d[to] = value;
      end = std::max(end, to + 1);
    }
  }
  d.resize(end);
  memory.d.place(end * 4, side);
  return checker.run(
      {rows, columns, step, planes, memory.a.address(), a_stride * 4, memory.d.address(), d_stride * 4, d_plane * 4},
      {&memory.a, &memory.d}, {{&memory.d, d}}, [&] {
        return "rows=" + std::to_string(size.rows) + " columns=" + std::to_string(size.columns) +
               " step=" + std::to_string(size.step) + " planes=" + std::to_string(size.planes) +
               " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(values);
      });
}

void check_split(Checker& checker) {
  UnblockMemory memory;
  constexpr size_t most = 100;  // three times what a kernel splits at a time, and a rest
  for (size_t step = 1; step <= 4; ++step) {
    for (size_t planes = step; planes > 0; --planes) {
      for (size_t columns = most; columns > 0; --columns) {
        if (!check_split_case(checker, memory, {3, columns, step, planes}, Values::random, Side::high, 0)) return;
        if (!check_split_case(checker, memory, {2, columns, step, planes}, Values::extreme, Side::low, 3)) return;
      }
    }
  }
}

}  // namespace

Kernel make_kernel(const UnblockRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_unblock(checker, row); }};
}

Kernel make_kernel(const SplitRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [](Checker& checker) { check_split(checker); }};
}

std::vector<Kernel> unblock_kernels() {
  std::vector<Kernel> list;
  for (const UnblockRow& row : unblock_rows()) list.push_back(make_kernel(row));
  for (const SplitRow& row : split_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
