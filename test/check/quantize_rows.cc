// The cases of the quantize_rows family.  Contract: src/kernel/quantize_rows.h
#include "kernel/quantize_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checker.h"
#include "sums.h"

namespace quern::check {
namespace {

using QuantizeRowsMemory = operands::QuantizeRowsOperands<Guarded>;

struct Bytes {
  static constexpr auto fills = integer_fills;
};

// What the elements of a row are like.
enum class Elements {
  random,
  positive,
  negative,
  zeros,
  tiny,
  small,
  large,
  beyond,
  one_nan,
  one_infinity,
  hidden,
  halves
};
constexpr Elements all_elements[] = {Elements::random,  Elements::positive,     Elements::negative, Elements::zeros,
                                     Elements::tiny,    Elements::small,        Elements::large,    Elements::beyond,
                                     Elements::one_nan, Elements::one_infinity, Elements::hidden,   Elements::halves};

std::vector<float> draw_row(Elements elements, size_t k, Random& random) {
  std::vector<float> x(k);
  const auto at = [&]() -> float& { return x[random.below(k)]; };
  for (float& v : x) v = random.value(Values::random);
  const auto scale = [&](float factor) {
    for (float& v : x) v *= factor;
  };
  switch (elements) {
    case Elements::random: break;
    case Elements::positive:
      for (float& v : x) v = std::abs(v) + 1;
      break;
    case Elements::negative:
      for (float& v : x) v = -std::abs(v);
      break;
    case Elements::zeros: std::fill(x.begin(), x.end(), -0.0f); break;
    case Elements::tiny: scale(0x1p-102f); break;
    case Elements::small: scale(0x1p-97f); break;
    case Elements::large: scale(0x1p126f); break;  // their sum may be infinite
    case Elements::beyond: scale(0x1p-3f), x[0] = 0x1.8p127f, x[k - 1] = -0x1.8p127f; break;
    case Elements::one_nan: at() = __builtin_nanf(""); break;
    case Elements::one_infinity: at() = random.below(2) == 0 ? __builtin_inff() : -__builtin_inff(); break;
    case Elements::hidden: x[0] = __builtin_inff(), x[k - 1] = __builtin_nanf(""); break;
    case Elements::halves:  // halves of a step: the scale is 1
      for (float& v : x) v = static_cast<float>(random.below(510)) / 2 - 100;
      x[0] = -100, x[k - 1] = 155;
      break;
  }
  return x;
}

// What the contract makes of a row.
void quantize(const std::vector<float>& x, qn_quantized_row* numbers, int8_t* to) {
  float least = 0, most = 0;
  bool finite = true;
  for (const float v : x) {
    finite = finite && std::isfinite(v);
    least = std::min(least, v);
    most = std::max(most, v);
  }
  std::fill_n(to, x.size(), int8_t{0});
  const float range = most - least;
  if (!finite || !std::isfinite(range)) {
    *numbers = {__builtin_nanf(""), 0};
  } else if (range < 0x1p-100f) {
    *numbers = {1, 0};
  } else {
    const float scale = range / 255, inverse = 1 / scale;
    const auto zero = static_cast<int32_t>(std::nearbyint(-least * inverse)) - 128;
    *numbers = {scale, zero};
    for (size_t i = 0; i < x.size(); ++i) {
      to[i] = static_cast<int8_t>(std::clamp(static_cast<int>(std::nearbyint(x[i] * inverse)) + zero, -128, 127));
    }
  }
}

// The bytes of a row as blocks.
void write_blocks(const std::vector<int8_t>& row, int8_t* to) {
  for (size_t i = 0; i < row.size(); i += scale_block, to += sizeof(qn_quantized_block)) {
    qn_quantized_block block = {};
    std::copy_n(row.begin() + static_cast<ptrdiff_t>(i), std::min(scale_block, row.size() - i), block.elements);
    for (const int8_t e : block.elements) block.start -= 8 * e;
    std::memcpy(to, &block, sizeof block);
  }
}

bool check_size(Checker& checker, KernelType type, QuantizeRowsMemory& memory, size_t rows, size_t k, Elements elements,
                Side side, size_t gap) {
  std::vector<std::vector<float>> x;
  for (size_t m = 0; m < rows; ++m) x.push_back(draw_row(elements, k, checker.random()));
  return every_fill<Bytes>(side, [&](Place place) {
    memory.place(rows, k, quantized_row_bytes(type, k), gap, place);
    std::vector<int8_t> c = memory.c.blank<int8_t>();
    for (size_t m = 0; m < rows; ++m) {
      std::memcpy(memory.a.as<char>() + m * memory.a_stride, x[m].data(), k * sizeof(float));
      qn_quantized_row numbers;
      std::vector<int8_t> row(k);
      quantize(x[m], &numbers, row.data());
      int8_t* const to = c.data() + m * memory.c_stride;
      std::memcpy(to, &numbers, sizeof numbers);
      type == KernelType::qd8b4 ? write_blocks(row, to + sizeof numbers)
                                : static_cast<void>(std::copy_n(row.begin(), k, to + sizeof numbers));
    }
    return checker.run(memory, {{&memory.c, c}}, [&] {
      return "rows=" + std::to_string(rows) + " k=" + std::to_string(k) + " gap=" + std::to_string(gap) +
             (side == Side::high ? " high" : " low") + " elements=" + std::to_string(static_cast<int>(elements));
    });
  });
}

void check_quantize_rows(Checker& checker, KernelType type) {
  QuantizeRowsMemory memory;
  for (const size_t k : {1, 3, 16, 37, 64, 65, 130, 1001}) {
    for (const Elements elements : all_elements) {
      if (!check_size(checker, type, memory, 3, k, elements, Side::high, 0)) return;
      if (!check_size(checker, type, memory, 2, k, elements, Side::low, 5)) return;
    }
  }
  constexpr size_t most = 150;  // two blocks and a rest of every kernel
  for (size_t k = 1; k <= most; ++k) {
    if (!check_size(checker, type, memory, 2, k, Elements::random, Side::high, 1)) return;
    if (!check_size(checker, type, memory, 1, k, Elements::one_nan, Side::low, 0)) return;
  }
}

}  // namespace

Kernel make_kernel(const QuantizeRowsRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run),
          [&row](Checker& checker) { check_quantize_rows(checker, row.type); }};
}

std::vector<Kernel> quantize_rows_kernels() {
  std::vector<Kernel> list;
  for (const QuantizeRowsRow& row : quantize_rows_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
