#include "sums.h"

#include <algorithm>
#include <cmath>

namespace quern::check {
namespace {

constexpr int least = -128, most = 127;

int8_t any_byte(Random& random, int from) {
  return static_cast<int8_t>(from + static_cast<int>(random.below(static_cast<size_t>(most - from + 1))));
}

// About how large a product is.
float spread_of(Values values) {
  switch (values) {
    case Values::integers: return 90;
    case Values::random: return 5400;
    case Values::zeros: return 1;
    case Values::extreme: return 8000;
  }
  return 1;
}

}  // namespace

int8_t draw_byte(Values values, int from, Random& random) {
  switch (values) {
    case Values::integers: return static_cast<int8_t>(static_cast<int>(random.below(33)) - 16);
    case Values::random: break;
    case Values::zeros: return 0;
    case Values::extreme: {
      const int special[] = {from, most, 0, -1};
      if (random.below(2) == 0) return static_cast<int8_t>(special[random.below(std::size(special))]);
      break;
    }
  }
  return any_byte(random, from);
}

int32_t draw_zero_point(Values values, Random& random) {
  return values == Values::extreme ? draw_byte(values, least, random) : static_cast<int32_t>(random.below(41)) - 20;
}

int32_t steps_of(float bound, int32_t zero) {
  const float steps = std::nearbyint(std::clamp(bound * 16, -1000.0f, 1000.0f));
  return std::clamp(static_cast<int32_t>(steps) + zero, least, most);
}

// Results spread over most of the steps there are. Of small integers the scale is a power of two, so that some results
// lie in the middle between two steps.
Qs8cSums::Qs8cSums(Numbers numbers, Values of, Clamp clamp, size_t depth, Random& random)
    : values(of), padding(any_byte(random, least)), lowest_weight(numbers.w127 ? -most : least) {
  p.zero = draw_zero_point(values, random);
  scale = 50 / (spread_of(values) * std::sqrt(static_cast<float>(depth)));
  scale = values == Values::integers ? std::exp2(std::round(std::log2(scale)))
                                     : scale * (1 + static_cast<float>(random.below(1000)) * 1e-3f);
  if (values == Values::extreme && !numbers.fits32 && random.below(4) == 0) scale *= 0x1p28f;
  p.min = steps_of(clamp.min, p.zero);
  p.max = steps_of(clamp.max, p.zero);
}

Qs8cSums::A Qs8cSums::draw_a(Random& random) const { return large_sums ? least : draw_byte(values, least, random); }
Qs8cSums::W Qs8cSums::draw_weight(Random& random) const { return draw_byte(values, lowest_weight, random); }

// Now and then one so large that a float cannot hold the sum, or that the sum wraps around.
Qs8cSums::Bias Qs8cSums::draw_bias(Random& random) const {
  const auto spread = static_cast<size_t>(spread_of(values));
  const auto bias = static_cast<int32_t>(random.below(4 * spread + 1)) - static_cast<int32_t>(2 * spread);
  if (values != Values::extreme) return bias;
  const size_t kind = random.below(64);
  if (kind == 0) return INT32_MIN;                      // the one without an absolute value
  if (kind == 1) return wrapping_add(INT32_MIN, bias);  // near a limit, on either side
  return kind < 10 ? bias * 4001 : bias;
}

float Qs8cSums::scale_of(size_t channel) const {
  if (channel == at_limit) return large_sums ? 0x1p-16f : 1.5f;
  if (values == Values::integers) return std::ldexp(scale, static_cast<int>(channel % 3) - 1);
  return scale * (1 + static_cast<float>(channel % 7) * 0.03f);
}

Qs8cSums::C Qs8cSums::end(Sum sum, size_t channel) const {
  const float steps = std::nearbyint(static_cast<float>(sum) * scale_of(channel));
  const auto limited = static_cast<int32_t>(std::clamp(steps, -1e6f, 1e6f));
  return static_cast<int8_t>(std::clamp(limited + p.zero, p.min, p.max));
}

void Qs8cSums::write_parameters(Guarded& memory, const operands::PanelLayout& panels) const {
  for (size_t n = 0; n < panels.n; ++n) {
    if (n % panels.nr == 0) std::memcpy(memory.as<char>() + n / panels.nr * panels.epilogue_bytes(), &p, sizeof p);
    const float of_channel = scale_of(n);
    std::memcpy(memory.as<char>() + panels.of_channel(n), &of_channel, sizeof of_channel);
  }
}

void Qd8cSums::draw_rows(size_t count, Random& random) {
  for (size_t i = 0; i < count; ++i) {
    rows.push_back({0.05f + static_cast<float>(random.below(1000)) * 1e-4f, draw_zero_point(values, random)});
  }
}

Qd8cSums::C Qd8cSums::end(Sum sum, size_t row, size_t channel) const {
  const float of_row = static_cast<float>(sum) * rows[row].scale;
  return quern::clamp(of_row * scale_of(channel) + bias_of_channel(channel), p.clamp);
}

void Qd8cSums::write_parameters(Guarded& memory, const operands::PanelLayout& panels) const {
  write_channels(memory, panels, [](size_t n) { return std::array{scale_of(n), bias_of_channel(n)}; });
}

Qd8b4Sums::Bias Qd8b4Sums::bias_of(const std::vector<W>& weights, size_t channel) const {
  float sum = 0;
  for (size_t i = 0; i < weights.size(); i += scale_block) {
    const auto first = weights.begin() + static_cast<ptrdiff_t>(i);
    const auto count = static_cast<ptrdiff_t>(std::min(scale_block, weights.size() - i));
    sum += static_cast<float>(std::accumulate(first, first + count, 0)) * scale_of(i / scale_block, channel);
  }
  return sum;
}

Qd8b4Sums::Sum Qd8b4Sums::add(A a, W w, Sum sum) const {
  sum.products += a * w;
  if (++sum.k % scale_block != 0) return sum;
  sum.of_blocks += static_cast<float>(sum.products) * scale_of(sum.k / scale_block - 1, sum.channel);
  sum.products = 0;
  return sum;
}

Qd8b4Sums::C Qd8b4Sums::end(Sum sum, size_t row, size_t channel) const {
  while (sum.k % scale_block != 0) sum = add(0, 0, sum);
  const float of_zero = static_cast<float>(rows[row].zero) * sum.weights;
  return quern::clamp((sum.of_blocks - of_zero) * rows[row].scale + bias_of_channel(channel), p.clamp);
}

void Qd8b4Sums::write_row(char* to, size_t row, const A* a, size_t k) const {
  std::memcpy(to, &rows[row], sizeof rows[row]);
  to += sizeof rows[row];
  for (size_t i = 0; i < k; i += scale_block, to += sizeof(qn_quantized_block)) {
    qn_quantized_block block = {};
    std::copy_n(a + i, std::min(scale_block, k - i), block.elements);
    block.start = -8 * std::accumulate(std::begin(block.elements), std::end(block.elements), 0);
    std::memcpy(to, &block, sizeof block);
  }
}

void Qd8b4Sums::write_parameters(Guarded& memory, const operands::PanelLayout& panels) const {
  write_channels(memory, panels, [](size_t n) { return std::array{bias_of_channel(n)}; });
}

Qw8cSums::C Qw8cSums::end(const Sum& sum, size_t channel) const {
  const auto& [a, b, c, d] = sum.of_fours;
  return quern::clamp(((a + b) + (c + d)) * scale_of(channel) + bias_of_channel(channel), p.clamp);
}

Qw4bSums::Sum Qw4bSums::add(A a, W w, Sum sum) const {
  sum.products = multiply_add(a, w, sum.products, numbers);
  return ++sum.k % scale_block == 0 ? end_block(sum) : sum;
}

Qw4bSums::Sum Qw4bSums::end_block(Sum sum) const {
  const float scale = scale_of((sum.k - 1) / scale_block, sum.channel);
  sum.of_blocks = multiply_add(sum.products, scale, sum.of_blocks, numbers);
  sum.products = 0;
  return sum;
}

Qw4bSums::C Qw4bSums::end(Sum sum, size_t) const {
  if (sum.k % scale_block != 0) sum = end_block(sum);
  return quern::clamp(sum.of_blocks, p.clamp);
}

void Qw4bSums::write_parameters(Guarded& memory, const operands::PanelLayout& panels) const {
  write_channels(memory, panels, [](size_t n) { return std::array{bias_of_channel(n)}; });
}

std::vector<size_t> rows_to_check(size_t mr) {
  std::vector<size_t> rows;
  for (size_t m = mr; m > 0; --m) {
    if (mr < 32 || m == mr || (m + 1) % (m <= 81 ? 16 : 64) <= 2) rows.push_back(m);
  }
  return rows;
}

}  // namespace quern::check
