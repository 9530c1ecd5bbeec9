// The cases of the unblock family.  Contract: src/kernel/unblock.h
#include "kernel/unblock.h"

#include "checker.h"

namespace quern::check {
namespace {

using UnblockMemory = operands::UnblockOperands<Guarded>;

// Blocks of A lie `a_gap` floats apart, those of D `d_gap`.
bool check_unblock_case(Checker& checker, UnblockMemory& memory, size_t block, size_t pixels, Values values, Side side,
                        size_t a_gap, size_t d_gap) {
  memory.place(pixels, block, block + a_gap, block + d_gap, Place(side));
  const auto at = [&](size_t p, size_t stride) { return p / block * stride + p % block; };
  std::vector<float> d = memory.d.blank<float>();
  for (size_t p = 0; p < pixels; ++p) {
    d[at(p, memory.d_stride)] = memory.a.floats()[at(p, memory.a_stride)] = checker.random().value(values);
  }
  return checker.run(memory, {{&memory.d, d}}, [&] {
    return "pixels=" + std::to_string(pixels) + " a_gap=" + std::to_string(a_gap) + " d_gap=" + std::to_string(d_gap) +
           (side == Side::high ? " high " : " low ") + name_of(values);
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

using SplitMemory = operands::SplitOperands<Guarded>;

bool check_split_case(Checker& checker, SplitMemory& memory, const operands::SplitSize& size, Values values,
                      Side side) {
  memory.place(size, Place(side));
  std::vector<float> d = memory.d.blank<float>();
  for (size_t y = 0; y < size.rows; ++y) {
    for (size_t x = 0; x < size.columns; ++x) {
      const float value = memory.a.floats()[y * memory.a_stride + x] = checker.random().value(values);
      const size_t plane = x % size.step;
      if (plane < size.planes) d[plane * memory.d_plane + y * memory.d_stride + x / size.step] = value;
    }
  }
  return checker.run(memory, {{&memory.d, d}}, [&] {
    return "rows=" + std::to_string(size.rows) + " columns=" + std::to_string(size.columns) +
           " step=" + std::to_string(size.step) + " planes=" + std::to_string(size.planes) +
           " gap=" + std::to_string(size.gap) + (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

void check_split(Checker& checker) {
  SplitMemory memory;
  constexpr size_t most = 100;  // three times what a kernel splits at a time, and a rest
  for (size_t step = 1; step <= 4; ++step) {
    for (size_t planes = step; planes > 0; --planes) {
      for (size_t columns = most; columns > 0; --columns) {
        if (!check_split_case(checker, memory, {3, columns, step, planes}, Values::random, Side::high)) return;
        if (!check_split_case(checker, memory, {2, columns, step, planes, 3}, Values::extreme, Side::low)) return;
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
