// Types of sums of products, as gemm, igemm and dwconv make them. The cases of these families are templates: a type says
// what values its operands take, how they are added up, and what a result is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include "base/math.h"
#include "checker.h"
#include "kernel/dequantize.h"
#include "kernel/requantize.h"
#include "operands/layout.h"

namespace quern::check {

// Fills for cases of integers, which differ in every bit: a byte that is left unwritten, or written by mistake, is wrong
// with one of them at least, and a result that depends on what is read by mistake is, too.
inline constexpr std::array<Fill, 2> integer_fills = {0x55555555, 0xaaaaaaaa};

// Draws a byte, from `from` on.
int8_t draw_byte(Values values, int from, Random& random);
// A zero point, not too far from the middle unless the values are extreme.
int32_t draw_zero_point(Values values, Random& random);
// A bound of a clamp in steps of 1/16 of a quantized output.
int32_t steps_of(float bound, int32_t zero);

// The sums of one case: what its arithmetic needs is drawn at the beginning, values of operands when they are asked for.
struct F32Sums {
  static constexpr KernelType type = KernelType::f32;
  using A = float;
  using Bias = float;
  using W = float;
  using Sum = float;
  using C = float;
  static constexpr operands::Elements elements = operands::f32_elements;
  static constexpr std::array<Fill, 1> fills = {poison};
  static constexpr float least_weight = 0x1p-149f;
  static constexpr float padding = 0;

  Numbers numbers;
  Values values;
  qn_minmax_f32 p;  // the parameters that a kernel gets

  F32Sums(Numbers row_numbers, Values of, Clamp clamp, size_t, Random&)
      : numbers(row_numbers), values(of), p{clamp.min, clamp.max} {}
  A draw_a(Random& random) const { return random.value(values); }
  Bias draw_bias(Random& random) const { return random.value(values); }
  W draw_weight(Random& random) const { return random.value(values); }
  Sum add(A a, W w, Sum sum) const { return multiply_add(a, w, sum, numbers); }
  C end(Sum sum, size_t) const { return quern::clamp(sum, p); }
  void write_parameters(Guarded& memory, const operands::PanelLayout&) const {
    std::memcpy(memory.as<char>(), &p, sizeof p);
  }
};

// What sums of products of int8 have in common, whatever becomes of them.
struct Int8Sums {
  using A = int8_t;
  using Bias = int32_t;
  using W = int8_t;
  using Sum = int32_t;
  static constexpr auto fills = integer_fills;
  static constexpr W least_weight = 1;

  Sum add(A a, W w, Sum sum) const { return wrapping_add(sum, a * w); }
};

// Int8 with a scale for each output channel: requantize.h.
struct Qs8cSums : Int8Sums {
  static constexpr KernelType type = KernelType::qs8c;
  using C = int8_t;
  static constexpr operands::Elements elements = operands::qs8c_elements;

  Values values;
  A padding;  // the zero point of A
  W lowest_weight;
  qn_requantize p = {};
  float scale;  // about that of all channels
  // A channel, if it is one, at the limits of short ways to end sums. With large sums, all of A and its weights are as
  // low as can be, and its sums exceed 2^22. Otherwise products of its sums and its scale exceed 2^15.
  size_t at_limit = ~size_t{0};
  bool large_sums = false;

  Qs8cSums(Numbers numbers, Values of, Clamp clamp, size_t depth, Random& random);
  A draw_a(Random& random) const;
  Bias draw_bias(Random& random) const;
  W draw_weight(Random& random) const;
  C end(Sum sum, size_t channel) const;
  Bias bias_at_limit() const { return large_sums ? (1 << 22) - 60000 : 0; }
  // Scales of channels that do not exist keep the fill, for nobody may use them.
  void write_parameters(Guarded& memory, const operands::PanelLayout& panels) const;
  // Differs from that of the next channels. Of small integers all are powers of two.
  float scale_of(size_t channel) const;
};

// Int8 in rows with a scale and a zero point each, and a scale for each output channel: dequantize.h. What stands in the
// place of biases is the sum of a channel's weights.
struct Qd8cSums : Int8Sums {
  static constexpr KernelType type = KernelType::qd8c;
  using C = float;
  static constexpr operands::Elements elements = operands::qd8c_elements;
  static constexpr bool begins_with_sum = true;

  Values values;
  int lowest_weight;
  std::vector<qn_quantized_row> rows;
  qn_dequantize p;

  Qd8cSums(Numbers numbers, Values of, Clamp clamp, size_t, Random&)
      : values(of), lowest_weight(numbers.w127 ? -INT8_MAX : INT8_MIN), p{{clamp.min, clamp.max}} {}
  void draw_rows(size_t count, Random& random);
  A draw_a(Random& random) const { return draw_byte(values, INT8_MIN, random); }
  Bias draw_bias(Random&) const { return 0; }
  W draw_weight(Random& random) const { return draw_byte(values, lowest_weight, random); }
  // What stands in the place of the bias of a channel with these weights.
  Bias bias_of(const std::vector<W>& weights, size_t) const {
    return std::accumulate(weights.begin(), weights.end(), Bias(0));
  }
  Sum begin(Bias bias, size_t row, size_t) const { return -rows[row].zero * bias; }
  void write_row(char* to, size_t row, const A* a, size_t k) const {
    std::memcpy(to, &rows[row], sizeof rows[row]);
    std::memcpy(to + sizeof rows[row], a, k);
  }
  C end(Sum sum, size_t row, size_t channel) const;
  void write_parameters(Guarded& memory, const operands::PanelLayout& panels) const;

 protected:
  // They differ from those of the next channels.
  static float scale_of(size_t channel) { return 0.01f * (1 + static_cast<float>(channel % 7) * 0.03f); }
  static float bias_of_channel(size_t channel) { return static_cast<float>(channel % 5) * 0.7f - 1; }
  // Writes `p` for each panel, and the floats of each channel, of which floats_of(channel) is an array.
  template <class FloatsOf>
  void write_channels(Guarded& memory, const operands::PanelLayout& panels, FloatsOf&& floats_of) const {
    for (size_t n = 0; n < panels.n; ++n) {
      if (n % panels.nr == 0) std::memcpy(memory.as<char>() + n / panels.nr * panels.epilogue_bytes(), &p, sizeof p);
      size_t i = 0;
      for (const float x : floats_of(n)) std::memcpy(memory.as<char>() + panels.of_channel(n, i++), &x, sizeof x);
    }
  }
};

// The same with weights of 4 bits.
struct Qd8c4Sums : Qd8cSums {
  static constexpr KernelType type = KernelType::qd8c4;
  static constexpr operands::Elements elements = operands::qd8c4_elements;

  using Qd8cSums::Qd8cSums;
  W draw_weight(Random& random) const { return static_cast<W>(Qd8cSums::draw_weight(random) >> 4); }
};

// The same with a scale for each block of weights. What stands in the place of biases are floats, too.
struct Qd8b4Sums : Qd8c4Sums {
  static constexpr KernelType type = KernelType::qd8b4;
  static constexpr operands::Elements elements = operands::qd8b4_elements;
  static constexpr int raised = 8;  // is added to weights
  using Bias = float;
  struct Sum {
    size_t channel, k = 0;
    float weights;        // those of all blocks
    float of_blocks = 0;  // that are complete
    int32_t products = 0;
  };

  using Qd8c4Sums::Qd8c4Sums;
  Bias draw_bias(Random&) const { return 0; }
  Bias bias_of(const std::vector<W>& weights, size_t channel) const;
  Sum begin(Bias bias, size_t, size_t channel) const { return {.channel = channel, .weights = bias}; }
  Sum add(A a, W w, Sum sum) const;
  C end(Sum sum, size_t row, size_t channel) const;
  void write_row(char* to, size_t row, const A* a, size_t k) const;
  void write_parameters(Guarded& memory, const operands::PanelLayout& panels) const;
  // It differs from that of the next block.
  static float scale_of(size_t block, size_t channel) {
    return Qd8cSums::scale_of(channel) * (1 + static_cast<float>(block % 5) * 0.07f);
  }
};

// Floats with weights of bytes, which become floats. What stands in the place of biases may be anything.
struct Qw8cSums : Qd8cSums {
  static constexpr KernelType type = KernelType::qw8c;
  static constexpr operands::Elements elements = operands::qw8c_elements;
  using A = float;
  struct Sum {
    std::array<float, 4> of_fours = {};  // of every fourth k
    size_t k = 0;
  };

  Numbers numbers;

  Qw8cSums(Numbers row_numbers, Values of, Clamp clamp, size_t depth, Random& random)
      : Qd8cSums(row_numbers, of, clamp, depth, random), numbers(row_numbers) {}
  A draw_a(Random& random) const { return random.value(values); }
  Bias bias_of(const std::vector<W>&, size_t) const { return 0x2aaaaaaa; }
  Sum begin(Bias) const { return {}; }
  Sum add(A a, W w, Sum sum) const {
    float& each = sum.of_fours[sum.k++ % 4];
    each = multiply_add(a, w, each, numbers);
    return sum;
  }
  C end(const Sum& sum, size_t channel) const;
};

// Floats with weights of 4 bits that have scales for blocks: sums of blocks, times their scales.
struct Qw4bSums : Qw8cSums {
  static constexpr KernelType type = KernelType::qw4b;
  static constexpr operands::Elements elements = operands::qw4b_elements;
  static constexpr int raised = Qd8b4Sums::raised;
  struct Sum {
    size_t channel, k = 0;
    float of_blocks;  // the bias, and those that are complete
    float products = 0;
  };

  using Qw8cSums::Qw8cSums;
  W draw_weight(Random& random) const { return static_cast<W>(Qw8cSums::draw_weight(random) >> 4); }
  Sum begin(Bias, size_t, size_t channel) const { return {.channel = channel, .of_blocks = bias_of_channel(channel)}; }
  Sum add(A a, W w, Sum sum) const;
  Sum end_block(Sum sum) const;
  C end(Sum sum, size_t) const;
  void write_parameters(Guarded& memory, const operands::PanelLayout& panels) const;
  static float scale_of(size_t block, size_t channel) { return Qd8b4Sums::scale_of(block, channel); }
};

// Calls body(std::type_identity<Sums>()) for the type of a row, which is one of those that a family has.
template <class... Sums, class Body>
void with_sums(const Row& row, Body&& body) {
  const bool known = ((row.type == Sums::type && (body(std::type_identity<Sums>()), true)) || ...);
  if (!known) std::abort();  // a type that the checker does not know
}

// Every number of rows, most first. Where a kernel takes 32 or more, those next to a multiple of 16 suffice, and beyond two
// blocks of tiles and a tile those next to a multiple of 64.
std::vector<size_t> rows_to_check(size_t mr);

// Calls check(place) for each fill, up to the first failure.
template <class Type, class Check>
bool every_fill(Side side, Check&& check) {
  for (const Fill fill : Type::fills) {
    if (!check(Place(side, fill))) return false;
  }
  return true;
}

// Packed weights. Padding lanes hold the fill, for nobody may use them; what fills up a tap is zeros.
template <class Sums>
class Panels {
 public:
  explicit Panels(const operands::PanelLayout& layout)
      : layout_(layout), bias_(layout.n), weights_(layout.n * layout.k) {}

  void fill(const Sums& sums, Random& random) {
    for (size_t n = 0; n < layout_.n; ++n) {
      bias_[n] = sums.draw_bias(random);
      for (size_t k = 0; k < layout_.k; ++k) weights_[n * layout_.k + k] = sums.draw_weight(random);
      if constexpr (requires { Sums::begins_with_sum; }) {
        const auto first = weights_.begin() + static_cast<ptrdiff_t>(n * layout_.k);
        bias_[n] = sums.bias_of({first, first + static_cast<ptrdiff_t>(layout_.k)}, n);
      }
    }
    pack();
  }
  // Biases of 0 and the least weights there are. Of floats, sums are denormals and zeros of both signs.
  void fill_tiny() {
    std::fill(bias_.begin(), bias_.end(), typename Sums::Bias(0));
    std::fill(weights_.begin(), weights_.end(), Sums::least_weight);
    pack();
  }
  // Biases of 0, but that of a channel at the limits.
  void fill_at_limit(const Sums& sums) {
    std::fill(bias_.begin(), bias_.end(), typename Sums::Bias(0));
    bias_[sums.at_limit] = sums.bias_at_limit();
    if (sums.large_sums) std::fill_n(&weights_[sums.at_limit * layout_.k], layout_.k, sums.lowest_weight);
    pack();
  }
  // Weights of 0, but those of one channel are the lowest there are.
  void fill_lowest(const Sums& sums, size_t channel) {
    std::fill(bias_.begin(), bias_.end(), typename Sums::Bias(0));
    std::fill(weights_.begin(), weights_.end(), typename Sums::W(0));
    std::fill_n(&weights_[channel * layout_.k], layout_.k, sums.lowest_weight);
    pack();
  }
  typename Sums::Bias bias(size_t n) const { return bias_[n]; }
  typename Sums::W weight(size_t k, size_t n) const { return weights_[n * layout_.k + k]; }
  const operands::PanelLayout& layout() const { return layout_; }

  // Memory that holds one of the fills.
  void write(Guarded& w) const {
    for (size_t i = 0; i < packed_.size(); ++i) {
      if (Sums::fills[i] == w.fill()) std::memcpy(w.as<char>(), packed_[i].data(), layout_.bytes());
    }
  }

 private:
  void pack() {
    for (size_t i = 0; i < packed_.size(); ++i) {
      packed_[i].resize(divide_up(layout_.bytes(), sizeof(Fill)), Sums::fills[i]);
      auto* bytes = reinterpret_cast<char*>(packed_[i].data());
      for (size_t n = 0; n < layout_.n; ++n) {
        put(bytes + layout_.bias(n), packed_bias(n));
        for (size_t row = 0; row < layout_.rows(); ++row) put_weight(bytes, row, n);
        for (size_t b = 0; b < layout_.blocks_before(layout_.rows()); ++b) put_scale(bytes, b, n);
      }
    }
  }
  void put_weight(char* bytes, size_t row, size_t n) {
    char* const at = bytes + layout_.weight(row, n);
    const typename Sums::W weight = packed_weight(row, n);
    if constexpr (Sums::elements.in_byte == 1) {
      put(at, weight);
    } else {
      int half = weight;
      if constexpr (requires { Sums::raised; }) half += Sums::raised;
      const int shift = layout_.half(n) == 0 ? 0 : 4;
      *at = static_cast<char>((*at & ~(0xf << shift)) | (half & 0xf) << shift);
    }
  }
  void put_scale(char* bytes, size_t block, size_t n) {
    if constexpr (Sums::elements.block != 0) put(bytes + layout_.scale(block, n), Sums::scale_of(block, n));
  }
  // Less what comes of the kernel's 128, modulo 2^32.
  typename Sums::Bias packed_bias(size_t n) const {
    if constexpr (std::is_same_v<Sums, Qs8cSums>) {
      if (layout_.format.plus_128) {
        auto bias = static_cast<uint32_t>(bias_[n]);
        for (size_t k = 0; k < layout_.k; ++k) bias -= static_cast<uint32_t>(128 * weight(k, n));
        return static_cast<int32_t>(bias);
      }
    }
    return bias_[n];
  }
  // Of a row that may fill up a tap.
  typename Sums::W packed_weight(size_t row, size_t n) const {
    const size_t tap = row / layout_.rows_of_tap(), in_tap = row % layout_.rows_of_tap(), k = layout_.k / layout_.taps;
    return in_tap < k ? weight(tap * k + in_tap, n) : typename Sums::W(0);
  }
  template <class T>
  static void put(char* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }

  operands::PanelLayout layout_;
  std::vector<typename Sums::Bias> bias_;
  std::vector<typename Sums::W> weights_;  // of a channel, then of the next
  std::array<std::vector<Fill>, Sums::fills.size()> packed_;
};

template <class Parameters>
void write_parameters(Guarded& memory, const Parameters& p) {
  std::memcpy(memory.as<char>(), &p, sizeof p);
}

}  // namespace quern::check
