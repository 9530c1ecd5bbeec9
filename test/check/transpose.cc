// The cases of the transpose family.  Contract: src/kernel/transpose.h
#include "kernel/transpose.h"

#include <cstring>

#include "base/math.h"
#include "sums.h"

namespace quern::check {
namespace {

using TransposeMemory = operands::TransposeOperands<Guarded>;

// The rows of A lie one after the other from the `turn`th on, so that each may be the first or last of the memory; with
// a gap, in bytes, there are half as many, each named twice. C is compared as elements of type T.
template <class T, class Word>
bool check_size(Checker& checker, TransposeMemory& memory, size_t rows, size_t columns, size_t turn, Place place,
                size_t gap, Word&& random_word) {
  constexpr size_t element = sizeof(float);
  const size_t a_rows = gap == 0 ? rows : divide_up(rows, size_t{2});
  const auto row_of = [&](size_t i) { return (i + turn) % a_rows; };
  memory.place(rows, columns, a_rows, gap, place, row_of);
  const auto a = [&](size_t i, size_t j) { return memory.a.as<char>() + i * memory.a_stride + j * element; };
  for (size_t i = 0; i < a_rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const auto word = random_word();
      static_assert(sizeof word == element);
      std::memcpy(a(i, j), &word, element);
    }
  }
  std::vector<T> c = memory.c.blank<T>();
  auto* const to = reinterpret_cast<char*>(c.data());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) std::memcpy(to + j * memory.c_stride + i * element, a(row_of(i), j), element);
  }
  return checker.run(memory, {{&memory.c, c}}, [&] {
    return "rows=" + std::to_string(rows) + " columns=" + std::to_string(columns) + " turn=" + std::to_string(turn) +
           " gap=" + std::to_string(gap) + (place.side == Side::high ? " high" : " low");
  });
}

bool check_floats(Checker& checker, TransposeMemory& memory, size_t rows, size_t columns, size_t turn, Values values,
                  Side side, size_t gap) {
  return check_size<float>(checker, memory, rows, columns, turn, side, gap * sizeof(float),
                           [&] { return checker.random().value(values); });
}

// With an odd gap, rows begin at addresses of all kinds.
bool check_bytes(Checker& checker, TransposeMemory& memory, size_t rows, size_t columns, size_t turn, size_t gap) {
  return every_fill<Int8Sums>(Side::low, [&](Place place) {
    return check_size<int8_t>(checker, memory, rows, columns, turn, place, gap,
                              [&] { return static_cast<uint32_t>(checker.random().next()); });
  });
}

void check_transpose(Checker& checker) {
  TransposeMemory memory;
  constexpr size_t most = 37;  // two blocks and a rest of every kernel
  for (size_t rows = most; rows > 0; --rows) {
    for (size_t columns = 1; columns <= most; ++columns) {
      if (!check_floats(checker, memory, rows, columns, rows + columns, Values::random, Side::high, 0)) return;
      if (!check_floats(checker, memory, rows, columns, columns, Values::extreme, Side::low, 5)) return;
      if (!check_bytes(checker, memory, rows, columns, columns, 7)) return;
    }
  }
  for (const size_t rows : {64, 49}) {
    for (const size_t columns : {64, 1001}) {
      if (!check_floats(checker, memory, rows, columns, 7, Values::random, Side::high, 1)) return;
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
