// The cases of the eltwise families: vunary, vbinary, vchannel, vreduce.  Contract: src/kernel/eltwise.h
//
// Arithmetic is compared with formulas written here, bit by bit. The functions that the contract defines through the
// reference (exp and what is made of it, power, the sum) are compared with the reference, bit by bit; how accurate that
// is, test/kernel measures.
#include "kernel/eltwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sums.h"

namespace quern::check {
namespace {

// All lengths up to two of the widest unrolled loops, then some that are larger.
std::vector<size_t> lengths() {
  std::vector<size_t> list = {131, 1, 16, 15, 17};
  for (size_t n = 1; n <= 140; ++n) list.push_back(n);
  list.insert(list.end(), {255, 256, 257, 1000});
  return list;
}

// The kinds of values a function of one number is tried with; exp and such need a wider range.
struct Sample {
  Values values;
  float factor;
};
constexpr Sample samples[] = {
    {Values::extreme, 1}, {Values::random, 1}, {Values::integers, 1}, {Values::random, 60}, {Values::random, 1e-4f}};

std::vector<float> draw(size_t n, Sample sample, Random& random) {
  std::vector<float> list(n);
  random.fill(list, sample.values);
  for (float& x : list) x *= sample.factor;
  return list;
}

std::vector<int8_t> draw_bytes(size_t n, Values values, Random& random) {
  std::vector<int8_t> list(n);
  for (int8_t& x : list) x = draw_byte(values, INT8_MIN, random);
  return list;
}

// With room for `elements`, of which the last ones may be nobody's.
template <class T>
void put(Guarded& memory, const std::vector<T>& values, Place place, size_t elements) {
  memory.place(elements * sizeof(T), place, sizeof(T));
  std::copy(values.begin(), values.end(), memory.as<T>());
}
template <class T>
void put(Guarded& memory, const std::vector<T>& values, Place place) {
  put(memory, values, place, values.size());
}

template <class Parameters>
void put_parameters(Guarded& memory, const Parameters& p, Place place) {
  memory.place(sizeof p, place);
  write_parameters(memory, p);
}

std::string describe(size_t n, Side side, const char* where, Values values) {
  return "n=" + std::to_string(n) + (side == Side::high ? " high " : " low ") + where + " " + name_of(values);
}

const char* const in_place = "in place";
const char* const apart = "apart";

// --- vunary ---

template <class Row>
const Row& reference(std::span<const Row> rows, const Row& row) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const Row& r) { return r.kind == row.kind && r.isa == isa_ref && r.type == row.type; });
}

float hswish(float x) { return x * (quern::clamp(x + 3.0f, {0, 6}) * (1.0f / 6.0f)); }

// Values, parameters and results of a type.
struct F32Unary {
  using T = float;
  static constexpr std::array<Fill, 1> fills = {poison};

  static constexpr auto& samples = check::samples;
  static std::vector<float> draw(size_t n, Sample sample, Random& random) { return check::draw(n, sample, random); }

  static std::vector<qn_unary_f32> parameters(UnaryKind kind) {
    std::vector<qn_unary_f32> list;
    if (kind == UnaryKind::clamp) {
      for (const Clamp c : clamps) list.push_back({c.min, c.max, poison_float()});
    } else if (kind == UnaryKind::power) {
      for (const float gamma : {1.0f, 2.0f, 0.5f, -1.0f, 3.0f, -0.5f}) list.push_back({1.5f, 0.25f, gamma});
    } else {
      list.push_back({});
    }
    return list;
  }
  static bool reads_parameters(UnaryKind kind) { return kind == UnaryKind::clamp || kind == UnaryKind::power; }

  static std::vector<float> expected(const UnaryRow& row, const std::vector<float>& x, const qn_unary_f32& p) {
    const Flushing flushing(numbers_of(row).flushes);
    std::vector<float> y(x.size());
    if (row.kind == UnaryKind::clamp || row.kind == UnaryKind::hswish) {
      std::transform(x.begin(), x.end(), y.begin(), [&](float v) {
        return row.kind == UnaryKind::hswish ? hswish(v) : quern::clamp(v, {p.alpha, p.beta});
      });
    } else {
      reference(unary_rows(), row).run(x.size(), x.data(), y.data(), &p);
    }
    return y;
  }
};

// A table of bytes.
struct Qs8Unary {
  using T = int8_t;
  static constexpr auto fills = integer_fills;

  static constexpr Sample samples[] = {{Values::extreme, 1}, {Values::random, 1}};
  static std::vector<T> draw(size_t n, Sample sample, Random& random) { return draw_bytes(n, sample.values, random); }

  static std::vector<std::array<T, 256>> parameters(UnaryKind) {
    std::array<T, 256> table;
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<T>(i * 167 + 3);
    return {table};
  }
  static bool reads_parameters(UnaryKind) { return true; }

  static std::vector<T> expected(const UnaryRow&, const std::vector<T>& x, const std::array<T, 256>& table) {
    std::vector<T> y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [&](T v) { return table[static_cast<size_t>(v + 128)]; });
    return y;
  }
};

struct UnaryMemory {
  Guarded x{"x", Access::input}, y{"y", Access::output}, p{"p", Access::input};
};

// Apart, then in place.
template <class Type, class Parameters>
bool check_unary_case(Checker& checker, UnaryMemory& memory, const UnaryRow& row,
                      const std::vector<typename Type::T>& values, const std::vector<typename Type::T>& expected,
                      const Parameters& parameters, Values kind, Place place) {
  auto& [x, y, p] = memory;
  const size_t n = values.size();
  const Expectation output = {&y, expected, false, checker.flushes()};
  put_parameters(p, parameters, place);
  if (!Type::reads_parameters(row.kind)) p.place(0, place);
  put(x, values, place);
  y.place(x.size(), place, sizeof(typename Type::T));
  if (!checker.run({n, x.address(), y.address(), p.address()}, {&x, &y, &p}, {output},
                   [&] { return describe(n, place.side, apart, kind); })) {
    return false;
  }
  put(y, values, place);
  return checker.run({n, y.address(), y.address(), p.address()}, {&y, &p}, {output},
                     [&] { return describe(n, place.side, in_place, kind); });
}

template <class Type>
void check_unary(Checker& checker, const UnaryRow& row) {
  UnaryMemory memory;
  for (const size_t n : lengths()) {
    for (const auto& sample : Type::samples) {
      const auto values = Type::draw(n, sample, checker.random());
      for (const auto& parameters : Type::parameters(row.kind)) {
        const auto expected = Type::expected(row, values, parameters);
        for (const Side side : {Side::high, Side::low}) {
          const auto check = [&](Place place) {
            return check_unary_case<Type>(checker, memory, row, values, expected, parameters, sample.values, place);
          };
          if (!every_fill<Type>(side, check)) return;
        }
      }
    }
  }
}

// --- vunary: conversions ---

// Of floats as they come, of steps that are halves, and of those that are too many.
std::vector<float> draw_reals(size_t n, Values values, float scale, Random& random) {
  std::vector<float> list = draw(n, {values, 1}, random);
  for (float& x : list) {
    if (values == Values::random && random.below(2) == 0) x *= 100 * scale;
    // Quotients that round to halves, products with the reciprocal that do not.
    else if (values == Values::random)
      x = (static_cast<float>(random.below(255)) - 127.5f) * scale;
    if (values == Values::integers) x = (x + 0.5f * static_cast<float>(random.below(2))) * scale * 16;
  }
  return list;
}

int8_t to_byte(float x, const qn_convert_qs8& p) {
  x /= p.scale;
  const float steps = std::isnan(x) ? -1e6f : std::nearbyint(std::clamp(x, -1e6f, 1e6f));
  const int32_t step = std::clamp(static_cast<int32_t>(steps) + p.zero, INT8_MIN, INT8_MAX);
  return static_cast<int8_t>(step ^ p.flip);
}
float to_float(int8_t x, const qn_convert_qs8& p) {
  return static_cast<float>(static_cast<int8_t>(x ^ p.flip) - p.zero) * p.scale;
}

// `from` and `to` are values and what becomes of them.
template <class From, class To>
bool check_conversion(Checker& checker, UnaryMemory& memory, const std::vector<From>& from, const std::vector<To>& to,
                      const qn_convert_qs8& parameters, Values values, Side side) {
  Guarded &x = memory.x, &y = memory.y, &p = memory.p;
  const auto check = [&](Place place) {
    put(x, from, place);
    y.place(to.size() * sizeof(To), place, sizeof(To));
    put_parameters(p, parameters, place);
    return checker.run({from.size(), x.address(), y.address(), p.address()}, {&x, &y, &p},
                       {{&y, to, false, checker.flushes()}},
                       [&] { return describe(from.size(), side, apart, values); });
  };
  return every_fill<Qs8Unary>(side, check);
}

void check_convert(Checker& checker, const UnaryRow& row) {
  UnaryMemory memory;
  Random& random = checker.random();
  for (const size_t n : lengths()) {
    for (const Values values : {Values::extreme, Values::random, Values::integers}) {
      for (const int32_t flip : {0, 128}) {
        const float scale = values == Values::integers ? 0.25f : 0.037f;
        const qn_convert_qs8 p = {scale, draw_zero_point(values, random), flip};
        for (const Side side : {Side::high, Side::low}) {
          if (row.kind == UnaryKind::quantize) {
            const auto reals = draw_reals(n, values, scale, random);
            std::vector<int8_t> steps(n);
            std::transform(reals.begin(), reals.end(), steps.begin(), [&](float x) { return to_byte(x, p); });
            if (!check_conversion(checker, memory, reals, steps, p, values, side)) return;
          } else {
            const auto steps = draw_bytes(n, values, random);
            std::vector<float> reals(n);
            std::transform(steps.begin(), steps.end(), reals.begin(), [&](int8_t x) { return to_float(x, p); });
            if (!check_conversion(checker, memory, steps, reals, p, values, side)) return;
          }
        }
      }
    }
  }
}

// --- vbinary ---

bool is_scalar(BinaryKind kind) { return kind >= BinaryKind::addc; }

float binary(BinaryKind kind, float a, float b) {
  switch (kind) {
    case BinaryKind::add:
    case BinaryKind::addc: return a + b;
    case BinaryKind::sub:
    case BinaryKind::subc: return a - b;
    case BinaryKind::mul:
    case BinaryKind::mulc: return a * b;
    case BinaryKind::div:
    case BinaryKind::divc: return a / b;
    case BinaryKind::rsubc: return b - a;
    case BinaryKind::rdivc: return b / a;
  }
  return poison_float();
}

// Values and results of a type, with one clamp.
struct F32Binary {
  using T = float;
  static constexpr std::array<Fill, 1> fills = {poison};

  const BinaryRow& row;
  qn_minmax_f32 p;

  F32Binary(const BinaryRow& of, Values, Clamp clamp, Random&) : row(of), p{clamp.min, clamp.max} {}
  static std::vector<float> draw(size_t n, Values values, Random& random) {
    return check::draw(n, {values, 1}, random);
  }
  std::vector<float> expected(const std::vector<float>& a, const std::vector<float>& b) const {
    const Flushing flushing(numbers_of(row).flushes);
    std::vector<float> y(a.size());
    for (size_t i = 0; i < a.size(); ++i) y[i] = quern::clamp(binary(row.kind, a[i], b[i % b.size()]), p);
    return y;
  }
};

// Of small integers the scales are powers of two, so that some results lie in the middle between two steps.
struct Qs8Binary {
  using T = int8_t;
  static constexpr auto fills = integer_fills;

  const BinaryRow& row;
  qn_binary_qs8 p = {};

  Qs8Binary(const BinaryRow& of, Values values, Clamp clamp, Random& random) : row(of) {
    const float product = is_product() ? 0x1p-6f : 1;
    p.scale_a = product * (values == Values::integers ? 0.5f : 0.4f + 1e-3f * static_cast<float>(random.below(600)));
    p.scale_b = values == Values::integers ? 0.25f : 1.9f - p.scale_a;
    if (values == Values::extreme && random.below(4) == 0) {  // sums of infinities
      p.scale_a = std::numeric_limits<float>::max(), p.scale_b = -p.scale_a;
    }
    p.zero_a = draw_zero_point(values, random);
    p.zero_b = draw_zero_point(values, random);
    p.zero = draw_zero_point(values, random);
    p.min = steps_of(clamp.min, p.zero);
    p.max = steps_of(clamp.max, p.zero);
  }
  bool is_product() const { return row.kind == BinaryKind::mul || row.kind == BinaryKind::mulc; }
  static std::vector<T> draw(size_t n, Values values, Random& random) { return draw_bytes(n, values, random); }
  T one(int a, int b) const {
    a -= p.zero_a, b -= p.zero_b;
    const float x = is_product() ? static_cast<float>(a * b) * p.scale_a
                                 : static_cast<float>(a) * p.scale_a + static_cast<float>(b) * p.scale_b;
    if (std::isnan(x)) return static_cast<T>(p.min);
    const float steps = std::nearbyint(std::clamp(x, -1e6f, 1e6f));
    return static_cast<T>(std::clamp(static_cast<int32_t>(steps) + p.zero, p.min, p.max));
  }
  std::vector<T> expected(const std::vector<T>& a, const std::vector<T>& b) const {
    std::vector<T> y(a.size());
    for (size_t i = 0; i < a.size(); ++i) y[i] = one(a[i], b[i % b.size()]);
    return y;
  }
};

struct BinaryMemory {
  Guarded a{"a", Access::input}, b{"b", Access::input}, y{"y", Access::output}, p{"p", Access::input};
};

// Apart, then in place of each operand.
template <class Type>
bool check_binary_case(Checker& checker, BinaryMemory& memory, const Type& type,
                       const std::vector<typename Type::T>& left, const std::vector<typename Type::T>& right,
                       const std::vector<typename Type::T>& expected, Values values, Place place) {
  auto& [a, b, y, p] = memory;
  const size_t n = left.size();
  put(a, left, place);
  put(b, right, place);
  put_parameters(p, type.p, place);
  const auto check = [&, m = &memory](uint64_t a_address, uint64_t b_address, const char* where) {
    return checker.run({n, a_address, b_address, m->y.address(), m->p.address()}, {&m->a, &m->b, &m->y, &m->p},
                       {{&m->y, expected, false, checker.flushes()}},
                       [&] { return describe(n, place.side, where, values); });
  };
  y.place(a.size(), place, sizeof(typename Type::T));
  if (!check(a.address(), b.address(), apart)) return false;
  put(y, left, place);
  if (!check(y.address(), b.address(), "in place of a")) return false;
  put(y, right, place, n);
  return check(a.address(), y.address(), "in place of b");
}

template <class Type>
void check_binary(Checker& checker, const BinaryRow& row) {
  BinaryMemory memory;
  for (const size_t n : lengths()) {
    for (const Values values : {Values::extreme, Values::random, Values::integers}) {
      const auto left = Type::draw(n, values, checker.random());
      const auto right = Type::draw(is_scalar(row.kind) ? 1 : n, values, checker.random());
      for (const Clamp clamp : clamps) {
        const Type type(row, values, clamp, checker.random());
        const auto expected = type.expected(left, right);
        for (const Side side : {Side::high, Side::low}) {
          const auto check = [&](Place place) {
            return check_binary_case(checker, memory, type, left, right, expected, values, place);
          };
          if (!every_fill<Type>(side, check)) return;
        }
      }
    }
  }
}

// --- vchannel ---

struct ChannelMemory {
  Guarded x{"x", Access::input}, scale{"scale", Access::input}, bias{"bias", Access::input};
  Guarded y{"y", Access::output}, p{"p", Access::input};
};

bool check_channel_case(Checker& checker, ChannelMemory& memory, const ChannelRow& row, size_t rows, size_t channels,
                        Values values, Clamp clamp, Side side, size_t gap) {
  const bool has_bias = row.kind == ChannelKind::scale, by_row = row.layout == QN_LAYOUT_PIXEL_BLOCKED;
  const std::vector<float> scale = draw(by_row ? rows : channels, {values, 1}, checker.random());
  const std::vector<float> bias = draw(by_row ? rows : channels, {values, 1}, checker.random());
  std::vector<float> in((rows - 1) * (channels + gap) + channels, poison_float()), expected = in;
  const Flushing flushing(checker.flushes());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < channels; ++c) {
      const float x = checker.random().value(values);
      const size_t i = by_row ? r : c;
      in[r * (channels + gap) + c] = x;
      expected[r * (channels + gap) + c] = has_bias ? quern::clamp(x * scale[i] + bias[i], {clamp.min, clamp.max})
                                           : x < 0  ? x * scale[i]
                                                    : x;
    }
  }
  put(memory.scale, scale, side);
  put(memory.bias, bias, side);
  if (!has_bias) memory.bias.place(0, side);
  put_parameters(memory.p, clamp, side);
  put(memory.x, in, side);
  const uint64_t stride = (channels + gap) * 4;
  const auto check = [&](uint64_t x, const char* where) {
    return checker.run({rows, channels, x, stride, memory.scale.address(), memory.bias.address(), memory.y.address(),
                        stride, memory.p.address()},
                       {&memory.x, &memory.scale, &memory.bias, &memory.y, &memory.p},
                       {{&memory.y, expected, false, checker.flushes()}}, [&] {
                         return "rows=" + std::to_string(rows) + " gap=" + std::to_string(gap) + " " +
                                describe(channels, side, where, values);
                       });
  };
  memory.y.place(in.size() * 4, side);
  if (!check(memory.x.address(), apart)) return false;
  put(memory.y, in, side);
  return check(memory.y.address(), in_place);
}

void check_channel(Checker& checker, const ChannelRow& row) {
  ChannelMemory memory;
  for (const size_t channels : lengths()) {
    for (const size_t rows : {3, 1, 2}) {
      for (const Values values : {Values::extreme, Values::random, Values::integers}) {
        const Clamp clamp = clamps[(channels + rows) % clamps.size()];
        if (!check_channel_case(checker, memory, row, rows, channels, values, clamp, Side::high, 0)) return;
        if (!check_channel_case(checker, memory, row, rows, channels, values, clamps[0], Side::low, 5)) return;
      }
    }
  }
}

// --- vreduce ---

float largest(const std::vector<float>& x) {
  float max = -std::numeric_limits<float>::infinity();
  for (const float v : x) {
    if (std::isnan(v)) return v;
    max = std::max(max, v);
  }
  return max;
}

float expected_sum(const ReduceRow& row, const std::vector<float>& x, float shift, std::vector<float>& y) {
  const Flushing flushing(numbers_of(row).flushes);
  return reference(reduce_rows(), row).run(x.size(), x.data(), y.data(), shift);
}

void check_reduce(Checker& checker, const ReduceRow& row) {
  Guarded x{"x", Access::input}, y{"y", Access::output};
  const bool is_max = row.kind == ReduceKind::max;
  for (const size_t n : lengths()) {
    for (const Sample sample : samples) {
      const std::vector<float> values = draw(n, sample, checker.random());
      const float shift = is_max ? poison_float() : sample.values == Values::extreme ? 0.5f : largest(values);
      std::vector<float> outputs(is_max ? 0 : n);
      const float expected = is_max ? largest(values) : expected_sum(row, values, shift, outputs);
      for (const Side side : {Side::high, Side::low}) {
        put(x, values, side);
        y.place(outputs.size() * 4, side);
        const Expectation output = {&y, outputs, false, checker.flushes()};
        if (!checker.run_reduce({n, x.address(), y.address()}, shift, expected, is_max, {&x, &y}, {output},
                                [&] { return describe(n, side, apart, sample.values); })) {
          return;
        }
        if (is_max) continue;
        put(y, values, side);
        if (!checker.run_reduce({n, y.address(), y.address()}, shift, expected, false, {&y}, {output},
                                [&] { return describe(n, side, in_place, sample.values); })) {
          return;
        }
      }
    }
  }
}

template <class Row>
Kernel kernel_of(const Row& row, void (*check)(Checker&, const Row&)) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row, check](Checker& checker) { check(checker, row); }};
}

}  // namespace

Kernel make_kernel(const UnaryRow& row) {
  if (row.kind == UnaryKind::quantize || row.kind == UnaryKind::dequantize) return kernel_of(row, check_convert);
  return kernel_of(row, row.type == KernelType::qs8 ? check_unary<Qs8Unary> : check_unary<F32Unary>);
}
Kernel make_kernel(const BinaryRow& row) {
  return kernel_of(row, row.type == KernelType::qs8 ? check_binary<Qs8Binary> : check_binary<F32Binary>);
}
Kernel make_kernel(const ChannelRow& row) { return kernel_of(row, check_channel); }
Kernel make_kernel(const ReduceRow& row) { return kernel_of(row, check_reduce); }

std::vector<Kernel> eltwise_kernels() {
  std::vector<Kernel> list;
  for (const UnaryRow& row : unary_rows()) list.push_back(make_kernel(row));
  for (const BinaryRow& row : binary_rows()) list.push_back(make_kernel(row));
  for (const ChannelRow& row : channel_rows()) list.push_back(make_kernel(row));
  for (const ReduceRow& row : reduce_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
