// The cases of the transpose family.  Contract: src/kernel/transpose.h
#include "kernel/transpose.h"

#include "base/math.h"
#include "checker.h"

namespace quern::check {
namespace {

using TransposeMemory = operands::TransposeOperands<Guarded>;

// The rows of A lie one after the other from the `turn`th on, so that each may be the first or last of the memory; with
// a gap there are half as many, each named twice.
bool check_size(Checker& checker, TransposeMemory& memory, size_t rows, size_t columns, size_t turn, Values values,
                Side side, size_t gap) {
  const size_t a_rows = gap == 0 ? rows : divide_up(rows, size_t{2}), a_stride = columns + gap;
  const auto row_of = [&](size_t i) { return (i + turn) % a_rows; };
  memory.place(rows, columns, a_rows, gap, Place(side), row_of);
  for (size_t i = 0; i < a_rows; ++i) {
    for (size_t j = 0; j < columns; ++j) memory.a.floats()[i * a_stride + j] = checker.random().value(values);
  }
  std::vector<float> c = memory.c.blank<float>();
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) c[j * memory.c_stride + i] = memory.a.floats()[row_of(i) * a_stride + j];
  }
  return checker.run(memory, {{&memory.c, c}}, [&] {
    return "rows=" + std::to_string(rows) + " columns=" + std::to_string(columns) + " turn=" + std::to_string(turn) +
           " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

void check_transpose(Checker& checker) {
  TransposeMemory memory;
  constexpr size_t most = 37;  // two blocks and a rest of every kernel
  for (size_t rows = most; rows > 0; --rows) {
    for (size_t columns = 1; columns <= most; ++columns) {
      if (!check_size(checker, memory, rows, columns, rows + columns, Values::random, Side::high, 0)) return;
      if (!check_size(checker, memory, rows, columns, columns, Values::extreme, Side::low, 5)) return;
    }
  }
  for (const size_t rows : {64, 49}) {
    for (const size_t columns : {64, 1001}) {
      if (!check_size(checker, memory, rows, columns, 7, Values::random, Side::high, 1)) return;
    }
  }
}

}  // namespace

Kernel make_kernel(const TransposeRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [](Checker& checker) { check_transpose(checker); }};
}

std::vector<Kernel> transpose_kernels() {
  std::vector<Kernel> list;
  for (const TransposeRow& row : transpose_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
