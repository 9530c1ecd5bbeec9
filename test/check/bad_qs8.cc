// Kernels of int8: right ones, and ones that are wrong in one way each. What is wrong shows in a byte, and some of it
// with one of two fills alone.
#include <algorithm>
#include <cmath>
#include <deque>

#include "selftest.h"
#include "sums.h"

namespace quern::check {
namespace {

constexpr size_t mr = 4, nr = 8;

// Accesses that the compiler may not leave out or reorder.
int8_t read(const void* base, ptrdiff_t at) { return *(static_cast<const volatile int8_t*>(base) + at); }
void write(void* base, ptrdiff_t at, int value) {
  *(static_cast<volatile int8_t*>(base) + at) = static_cast<int8_t>(value);
}

// To nearest; of what no byte comes close to, something alike.
int round(float steps) { return static_cast<int>(std::clamp(std::nearbyint(steps), -1e6f, 1e6f)); }

// What a sum ends with.
struct Ending {
  const qn_requantize& p;
  float scale;

  Ending(const void* epilogue, size_t channel)
      : p(requantize_of(static_cast<const char*>(epilogue) + channel / nr * requantize_bytes(nr))),
        scale(scales_of(&p)[channel % nr]) {}
  int steps(int32_t sum) const { return round(static_cast<float>(sum) * scale) + p.zero; }
  int end(int32_t sum) const { return std::clamp(steps(sum), p.min, p.max); }
};

// --- gemm ---

struct GemmCall {
  size_t rows, n, k;
  const void* a;
  size_t a_stride;
  const void* w;
  void* c;
  size_t c_stride;
  const void* p;

  size_t end_of_a() const { return (rows - 1) * a_stride + k; }
  size_t end_of_c() const { return (rows - 1) * c_stride + n; }

  int32_t sum(size_t m, size_t channel, uint8_t kr = 1) const {
    const operands::PanelLayout panels = {nr, n, k, Qs8cSums::elements, {kr}};
    int32_t sum;
    std::memcpy(&sum, static_cast<const char*>(w) + panels.bias(channel), sizeof sum);
    for (size_t i = 0; i < k; ++i) {
      sum = wrapping_add(sum, read(a, m * a_stride + i) * read(w, panels.weight(i, channel)));
    }
    return sum;
  }
  // Writes finish(sum, m, channel) to each output.
  template <class Finish>
  void each_output(Finish finish, uint8_t kr = 1) const {
    for (size_t m = 0; m < rows; ++m) {
      for (size_t i = 0; i < n; ++i) write(c, m * c_stride + i, finish(sum(m, i, kr), m, i));
    }
  }
  Ending ending(size_t channel) const { return {p, channel}; }
  void compute(uint8_t kr = 1) const {
    each_output([this](int32_t sum, size_t, size_t channel) { return ending(channel).end(sum); }, kr);
  }
};

// A kernel as the tables have them.
template <void body(const GemmCall&)>
void gemm(size_t rows, size_t n, size_t k, const void* a, size_t a_stride, const void* w, void* c, size_t c_stride,
          const void* p) {
  body({rows, n, k, a, a_stride, w, c, c_stride, p});
}

void is_right(const GemmCall& x) { x.compute(); }
void is_right_by_fours(const GemmCall& x) { x.compute(4); }
void reads_past_a(const GemmCall& x) {
  x.compute();
  read(x.a, x.end_of_a());
}
void reads_before_a(const GemmCall& x) {
  x.compute();
  read(x.a, -1);
}
void reads_whole_fours(const GemmCall& x) {
  x.compute(4);
  for (size_t i = 0; i < round_up(x.k, size_t{4}); ++i) read(x.a, (x.rows - 1) * x.a_stride + i);
}
void writes_past_c(const GemmCall& x) {
  x.compute();
  write(x.c, x.end_of_c(), 0);
}
void writes_before_c(const GemmCall& x) {
  x.compute();
  write(x.c, -1, 0);
}
void writes_a_gap_of_c(const GemmCall& x) {  // what lies there already in half of the cases
  x.compute();
  if (x.c_stride > x.n && x.rows > 1) write(x.c, x.n, 0x55);
}
void leaves_the_last_byte(const GemmCall& x) {
  const int8_t before = read(x.c, x.end_of_c() - 1);
  x.compute();
  write(x.c, x.end_of_c() - 1, before);
}
void leaves_what_lies_there_already(const GemmCall& x) {
  for (size_t m = 0; m < x.rows; ++m) {
    for (size_t i = 0; i < x.n; ++i) {
      const int value = x.ending(i).end(x.sum(m, i));
      if (value != 0x55) write(x.c, m * x.c_stride + i, value);
    }
  }
}
void is_off_by_one_step(const GemmCall& x) {
  x.compute();
  const int last = read(x.c, x.end_of_c() - 1);
  write(x.c, x.end_of_c() - 1, last < x.ending(0).p.max ? last + 1 : last);
}
void rounds_halves_up(const GemmCall& x) {
  x.each_output([&](int32_t sum, size_t, size_t channel) {
    const Ending& ending = x.ending(channel);
    const int up = round(std::floor(static_cast<float>(sum) * ending.scale + 0.5f));
    return std::clamp(up + ending.p.zero, ending.p.min, ending.p.max);
  });
}
void wraps_around(const GemmCall& x) {
  x.each_output([&](int32_t sum, size_t, size_t channel) {
    const Ending& ending = x.ending(channel);
    return std::clamp(int{static_cast<int8_t>(ending.steps(sum))}, ending.p.min, ending.p.max);
  });
}
void saturates_sums(const GemmCall& x) {
  const operands::PanelLayout panels = {nr, x.n, x.k, Qs8cSums::elements};
  x.each_output([&](int32_t sum, size_t m, size_t channel) {
    int64_t wide = 0;
    for (size_t i = 0; i < x.k; ++i) wide += read(x.a, m * x.a_stride + i) * read(x.w, panels.weight(i, channel));
    int32_t bias;
    std::memcpy(&bias, static_cast<const char*>(x.w) + panels.bias(channel), sizeof bias);
    wide += bias;
    if (wide != sum) sum = wide < 0 ? INT32_MIN : INT32_MAX;
    return x.ending(channel).end(sum);
  });
}
void clamps_before_the_zero_point(const GemmCall& x) {
  x.each_output([&](int32_t sum, size_t, size_t channel) {
    const Ending& ending = x.ending(channel);
    return std::clamp(ending.steps(sum) - ending.p.zero, ending.p.min, ending.p.max) + ending.p.zero;
  });
}
void takes_one_scale_for_a_panel(const GemmCall& x) {
  x.each_output([&](int32_t sum, size_t, size_t channel) { return x.ending(channel / nr * nr).end(sum); });
}
void takes_the_scales_of_the_first_panel(const GemmCall& x) {
  x.each_output([&](int32_t sum, size_t, size_t channel) { return x.ending(channel % nr).end(sum); });
}
void uses_a_gap_of_a(const GemmCall& x) {
  x.compute();
  if (x.a_stride > x.k && x.rows > 1) write(x.c, 0, read(x.c, 0) + (read(x.a, x.k) & 1));
}
void uses_a_padding_lane(const GemmCall& x) {
  x.compute();
  if (x.n >= nr) return;
  const operands::PanelLayout panels = {nr, x.n, x.k, Qs8cSums::elements};
  write(x.c, 0, read(x.c, 0) + (read(x.w, panels.weight(0, nr - 1)) & 1));
}
void begins_with_what_c_held(const GemmCall& x) {
  const int before = read(x.c, 0);
  x.compute();
  write(x.c, 0, read(x.c, 0) + (before & 1));
}

// --- igemm ---

template <class Pad>
void igemm_by(size_t rows, size_t n, size_t kc, size_t ks, const int32_t* offsets, const void* a, const void* w,
              void* c, size_t c_stride, const void* p, Pad pad) {
  const operands::PanelLayout panels = {nr, n, kc * ks, Qs8cSums::elements, {}, ks};
  for (size_t m = 0; m < rows; ++m) {
    for (size_t i = 0; i < n; ++i) {
      int32_t sum;
      std::memcpy(&sum, static_cast<const char*>(w) + panels.bias(i), sizeof sum);
      for (size_t k = 0; k < kc * ks; ++k) {
        const int32_t offset = offsets[k / kc * mr + m];
        const int value = offset < 0 ? pad(k % kc) : read(a, static_cast<size_t>(offset) + k % kc);
        sum = wrapping_add(sum, value * read(w, panels.weight(k, i)));
      }
      write(c, m * c_stride + i, Ending(p, i).end(sum));
    }
  }
}
void igemm_is_right(size_t rows, size_t n, size_t kc, size_t ks, const int32_t* offsets, const void* a,
                    const void* zero, const void* w, void* c, size_t c_stride, const void* p) {
  igemm_by(rows, n, kc, ks, offsets, a, w, c, c_stride, p, [=](size_t i) { return read(zero, i); });
}
void pads_with_zeros(size_t rows, size_t n, size_t kc, size_t ks, const int32_t* offsets, const void* a, const void*,
                     const void* w, void* c, size_t c_stride, const void* p) {
  igemm_by(rows, n, kc, ks, offsets, a, w, c, c_stride, p, [](size_t) { return 0; });
}

// --- tapgemm ---

// `row` says which row of C gets the sums of row m.
template <class Row>
void tapgemm_by(size_t rows, size_t n, size_t kc, size_t ks, const size_t* offsets, const void* a, size_t a_stride,
                const void* w, void* const* c, const void* p, Row row) {
  const operands::PanelLayout panels = {nr, n, kc * ks, Qs8cSums::elements};
  for (size_t m = 0; m < rows; ++m) {
    for (size_t i = 0; i < n; ++i) {
      int32_t sum;
      std::memcpy(&sum, static_cast<const char*>(w) + panels.bias(i), sizeof sum);
      for (size_t k = 0; k < kc * ks; ++k) {
        sum = wrapping_add(sum, read(a, offsets[k / kc] + m * a_stride + k % kc) * read(w, panels.weight(k, i)));
      }
      write(c[row(m)], i, Ending(p, i).end(sum));
    }
  }
}
void tapgemm_is_right(size_t rows, size_t n, size_t kc, size_t ks, const size_t* offsets, const void* a,
                      size_t a_stride, const void* w, void* const* c, const void* p) {
  tapgemm_by(rows, n, kc, ks, offsets, a, a_stride, w, c, p, [](size_t m) { return m; });
}
void stores_rows_in_reverse(size_t rows, size_t n, size_t kc, size_t ks, const size_t* offsets, const void* a,
                            size_t a_stride, const void* w, void* const* c, const void* p) {
  tapgemm_by(rows, n, kc, ks, offsets, a, a_stride, w, c, p, [=](size_t m) { return rows - 1 - m; });
}
void reads_a_row_too_many(size_t rows, size_t n, size_t kc, size_t ks, const size_t* offsets, const void* a,
                          size_t a_stride, const void* w, void* const* c, const void* p) {
  tapgemm_is_right(rows, n, kc, ks, offsets, a, a_stride, w, c, p);
  read(a, *std::max_element(offsets, offsets + ks) + rows * a_stride + kc - 1);
}

// --- dwconv ---

void dwconv_is_right(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a,
                     const void* zero, const void* w, void* c, size_t c_stride, const void* p) {
  const operands::PanelLayout panels = {nr, channels, taps, Qs8cSums::elements};
  for (size_t x = 0; x < pixels; ++x) {
    for (size_t i = 0; i < channels; ++i) {
      int32_t sum;
      std::memcpy(&sum, static_cast<const char*>(w) + panels.bias(i), sizeof sum);
      for (size_t t = 0; t < taps; ++t) {
        const int32_t offset = offsets[x * step / 4 + t];
        const int value = offset < 0 ? read(zero, i) : read(a, static_cast<size_t>(offset) + i);
        sum = wrapping_add(sum, value * read(w, panels.weight(t, i)));
      }
      write(c, x * c_stride + i, Ending(p, i).end(sum));
    }
  }
}
void leaves_the_last_channel(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                             const void* a, const void* zero, const void* w, void* c, size_t c_stride, const void* p) {
  const size_t last = (pixels - 1) * c_stride + channels - 1;
  const int8_t before = read(c, last);
  dwconv_is_right(channels, pixels, taps, offsets, step, a, zero, w, c, c_stride, p);
  write(c, last, before);
}

// --- pool, eltwise ---

template <class Pad>
void pool_by(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a,
             const void* scale, void* c, size_t c_stride, const void* p, Pad pad) {
  const auto& numbers = *static_cast<const qn_pool_qs8*>(p);
  for (size_t x = 0; x < pixels; ++x) {
    for (size_t i = 0; i < channels; ++i) {
      int32_t sum = 0;
      for (size_t t = 0; t < taps; ++t) {
        const int32_t offset = offsets[x * step / 4 + t];
        sum += offset < 0 ? pad(numbers) : read(a, static_cast<size_t>(offset) + i) - numbers.zero_in;
      }
      const float steps = static_cast<float>(sum) * static_cast<const float*>(scale)[x];
      const auto whole = static_cast<int32_t>(std::nearbyint(std::clamp(steps, -1e6f, 1e6f)));
      write(c, x * c_stride + i, std::clamp(whole + numbers.zero, numbers.min, numbers.max));
    }
  }
}
void pool_is_right(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a,
                   const void* scale, void* c, size_t c_stride, const void* p) {
  pool_by(channels, pixels, taps, offsets, step, a, scale, c, c_stride, p, [](const qn_pool_qs8&) { return 0; });
}
void counts_padding_as_step_0(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                              const void* a, const void* scale, void* c, size_t c_stride, const void* p) {
  pool_by(channels, pixels, taps, offsets, step, a, scale, c, c_stride, p,
          [](const qn_pool_qs8& numbers) { return -numbers.zero_in; });
}

template <class End>
void add_by(size_t n, const void* a, const void* b, void* y, const void* p, End end) {
  const auto& numbers = *static_cast<const qn_binary_qs8*>(p);
  for (size_t i = 0; i < n; ++i) {
    const float x = static_cast<float>(read(a, i) - numbers.zero_a) * numbers.scale_a,
                z = static_cast<float>(read(b, i) - numbers.zero_b) * numbers.scale_b;
    write(y, i, end(x, z, numbers));
  }
}
int end_sum(float x, const qn_binary_qs8& p) {
  if (std::isnan(x)) return p.min;
  return std::clamp(static_cast<int>(std::nearbyint(std::clamp(x, -1e6f, 1e6f))) + p.zero, p.min, p.max);
}
void add_is_right(size_t n, const void* a, const void* b, void* y, const void* p) {
  add_by(n, a, b, y, p, [](float x, float z, const qn_binary_qs8& numbers) { return end_sum(x + z, numbers); });
}
void rounds_each_operand(size_t n, const void* a, const void* b, void* y, const void* p) {
  add_by(n, a, b, y, p, [](float x, float z, const qn_binary_qs8& numbers) {
    return end_sum(std::nearbyint(x) + std::nearbyint(z), numbers);
  });
}
void lookup_is_right(size_t n, const void* x, void* y, const void* p) {
  for (size_t i = 0; i < n; ++i) write(y, i, read(p, static_cast<size_t>(read(x, i) + 128)));
}
void takes_bytes_as_unsigned(size_t n, const void* x, void* y, const void* p) {
  for (size_t i = 0; i < n; ++i) write(y, i, read(p, static_cast<uint8_t>(read(x, i))));
}

// Writes byte i as step(x[i], parameters).
template <class Step>
void quantize_by(size_t n, const void* x, void* y, const void* p, Step step) {
  const auto& numbers = *static_cast<const qn_convert_qs8*>(p);
  for (size_t i = 0; i < n; ++i) {
    const float steps = step(static_cast<const float*>(x)[i], numbers);
    const auto rounded = static_cast<int>(std::nearbyint(std::fmin(std::fmax(-1000.0f, steps), 1000.0f)));
    write(y, i, std::clamp(rounded + numbers.zero, -128, 127) ^ numbers.flip);
  }
}
void quantize_is_right(size_t n, const void* x, void* y, const void* p) {
  quantize_by(n, x, y, p, [](float real, const qn_convert_qs8& numbers) { return real / numbers.scale; });
}
void multiplies_by_the_reciprocal(size_t n, const void* x, void* y, const void* p) {
  quantize_by(n, x, y, p, [](float real, const qn_convert_qs8& numbers) { return real * (1 / numbers.scale); });
}

// --- gemm of rows that are quantized each on its own ---

const qn_quantized_row& numbers_of(const GemmCall& x, size_t m) {
  return reinterpret_cast<const qn_quantized_row*>(static_cast<const char*>(x.a) + m * x.a_stride)[-1];
}

// Writes finish(products, sum of weights, m, scale, bias, epilogue) to each output.
template <class Finish>
void each_real_output(const GemmCall& x, Finish finish) {
  const operands::PanelLayout panels = {nr, x.n, x.k, Qd8cSums::elements};
  for (size_t m = 0; m < x.rows; ++m) {
    for (size_t i = 0; i < x.n; ++i) {
      int32_t weights, products = 0;
      std::memcpy(&weights, static_cast<const char*>(x.w) + panels.bias(i), sizeof weights);
      for (size_t j = 0; j < x.k; ++j) products += read(x.a, m * x.a_stride + j) * read(x.w, panels.weight(j, i));
      const auto* p = static_cast<const char*>(x.p);
      qn_dequantize end;
      float of_channel[2];
      std::memcpy(&end, p + i / nr * panels.epilogue_bytes(), sizeof end);
      for (const size_t index : {0, 1}) {
        std::memcpy(&of_channel[index], p + panels.of_channel(i, index), sizeof of_channel[index]);
      }
      const float y = finish(products, weights, m, of_channel[0], of_channel[1], end);
      std::memcpy(static_cast<char*>(x.c) + m * x.c_stride + i * sizeof y, &y, sizeof y);
    }
  }
}

void real_is_right(const GemmCall& x) {
  each_real_output(x, [&](int32_t sum, int32_t weights, size_t m, float scale, float bias, const qn_dequantize& p) {
    const qn_quantized_row& row = numbers_of(x, m);
    return dequantize(sum - row.zero * weights, row, scale, bias, p);
  });
}
void takes_the_first_rows_zero_point(const GemmCall& x) {
  each_real_output(x, [&](int32_t sum, int32_t weights, size_t m, float scale, float bias, const qn_dequantize& p) {
    return dequantize(sum - numbers_of(x, 0).zero * weights, numbers_of(x, m), scale, bias, p);
  });
}
void multiplies_the_scales_first(const GemmCall& x) {
  each_real_output(x, [&](int32_t sum, int32_t weights, size_t m, float scale, float bias, const qn_dequantize& p) {
    const qn_quantized_row& row = numbers_of(x, m);
    return clamp(static_cast<float>(sum - row.zero * weights) * (row.scale * scale) + bias, p.clamp);
  });
}
void reads_before_the_first_row(const GemmCall& x) {
  real_is_right(x);
  reinterpret_cast<const volatile float*>(x.a)[-3];
}

// --- spmm ---

#define SPMM_ARGUMENTS                                                                                 \
  size_t pixels, size_t sets, const qn_spmm_set *set, const void *index, const void *w, const void *a, \
      size_t a_stride, void *c, size_t c_stride, const void *bias, const void *p

void begins_with_0_where_c_counts(SPMM_ARGUMENTS) {
  const std::vector<int32_t> zeros(0x10000);
  qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride,
                            bias == nullptr ? zeros.data() : bias, p);
}
void keeps_16_bits_of_a_sum(SPMM_ARGUMENTS) {
  qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, p);
  auto& sum = *reinterpret_cast<int32_t*>(static_cast<char*>(c) + set->first * c_stride);
  sum = static_cast<int16_t>(sum);
}
void takes_the_rows_of_a_set_in_reverse(SPMM_ARGUMENTS) {
  const auto* const row = static_cast<const uint16_t*>(index);
  size_t steps = 0;
  for (size_t i = 0; i < sets; ++i) steps += set[i].steps;
  std::vector<uint16_t> rows(row, row + steps);
  std::reverse(rows.begin(), rows.begin() + set->steps);
  qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, rows.data(), w, a, a_stride, c, c_stride, bias, p);
}
void reads_a_pixel_too_many(SPMM_ARGUMENTS) {
  qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, p);
  const auto* row = static_cast<const uint16_t*>(index);
  if (set->steps > 0) read(a, *std::max_element(row, row + set->steps) * a_stride + pixels * 4);
}
void ends_with_the_first_scale(SPMM_ARGUMENTS) {
  std::vector<char> same(requantize_bytes(0x10000));
  if (p != nullptr) std::memcpy(same.data(), p, sizeof(qn_requantize));
  const float* const first = p == nullptr ? nullptr : scales_of(p) + set->first;
  for (size_t n = 0; p != nullptr && n < 0x10000; ++n) {
    std::memcpy(same.data() + requantize_bytes(n), first, sizeof *first);
  }
  qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, bias,
                            p == nullptr ? nullptr : same.data());
}
void leaves_sums_behind_the_bytes(SPMM_ARGUMENTS) {
  if (p != nullptr) qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, nullptr);
  qn_spmm_qs8c_b4x4_8x4_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, p);
}

// --- the list ---

// The reference of a kind of kernels of bytes.
template <class Row, class Kind>
const Row& reference_of(std::span<const Row> rows, Kind kind) {
  for (const Row& row : rows) {
    if (row.type == KernelType::qs8 && row.kind == kind && row.isa == isa_ref) return row;
  }
  std::abort();
}

// The reference for blocks of four outputs of bytes.
const SpmmRow& spmm_reference(size_t inputs) {
  for (const SpmmRow& row : spmm_rows()) {
    if (row.type == KernelType::qs8c && row.isa == isa_ref && row.inputs == inputs && row.block == 4) return row;
  }
  std::abort();
}

// A row of int8, else like another one but for the function, which takes the same arguments.
template <class Row, class Function>
BadKernel bad(const char* name, const Row& like, Function* function, const char* finding, uint8_t kr = 1,
              KernelType type = KernelType::qs8c) {
  static std::deque<Row> rows;  // kernels point to their rows
  Row& row = rows.emplace_back(like);
  row.set_name(name);
  if constexpr (requires { row.nr; }) row.nr = nr;
  if constexpr (requires { row.mr; }) row.mr = mr, row.panel.kr = kr, row.type = type;
  row.run = function;
  return {name, make_kernel(row), finding};
}

}  // namespace

std::vector<BadKernel> bad_qs8_kernels() {
  const GemmRow& like = reference_of(gemm_rows(), KernelType::qs8c);
  const IgemmRow& igemm = reference_of(igemm_rows(), KernelType::qs8c);
  const TapgemmRow& tapgemm = reference_of(tapgemm_rows(), KernelType::qs8c);
  const DwconvRow& dwconv = reference_of(dwconv_rows(), KernelType::qs8c);
  const PoolRow& average = reference_of(pool_rows(), PoolKind::average);
  const BinaryRow& add = reference_of(binary_rows(), BinaryKind::add);
  const SpmmRow &blocks = spmm_reference(4), &columns = spmm_reference(1);
  const UnaryRow& lookup = reference_of(unary_rows(), KernelType::qs8);
  const UnaryRow& quantize = reference_of(unary_rows(), UnaryKind::quantize);
  return {
      bad("is_right", like, gemm<is_right>, ""),
      bad("is_right_by_fours", like, gemm<is_right_by_fours>, "", 4),
      bad("takes_fours_for_ones", like, gemm<is_right>, "c[", 4),
      bad("reads_past_a", like, gemm<reads_past_a>, "0 bytes past the end of a"),
      bad("reads_before_a", like, gemm<reads_before_a>, "1 bytes before a"),
      bad("reads_whole_fours", like, gemm<reads_whole_fours>, "0 bytes past the end of a", 4),
      bad("writes_past_c", like, gemm<writes_past_c>, "0 bytes past the end of c"),
      bad("writes_before_c", like, gemm<writes_before_c>, "c[-1] is 0, not 85 (or nothing)"),
      bad("writes_a_gap_of_c", like, gemm<writes_a_gap_of_c>, "fill=aa"),
      bad("leaves_the_last_byte", like, gemm<leaves_the_last_byte>, "(or nothing), not"),
      bad("leaves_what_lies_there_already", like, gemm<leaves_what_lies_there_already>, "(or nothing), not 85"),
      bad("is_off_by_one_step", like, gemm<is_off_by_one_step>, "c["),
      bad("rounds_halves_up", like, gemm<rounds_halves_up>, "c["),
      bad("wraps_around", like, gemm<wraps_around>, "c["),
      bad("saturates_sums", like, gemm<saturates_sums>, "c["),
      bad("clamps_before_the_zero_point", like, gemm<clamps_before_the_zero_point>, "c["),
      bad("takes_one_scale_for_a_panel", like, gemm<takes_one_scale_for_a_panel>, "c["),
      bad("takes_the_scales_of_the_first_panel", like, gemm<takes_the_scales_of_the_first_panel>, "c["),
      bad("uses_a_gap_of_a", like, gemm<uses_a_gap_of_a>, "fill=55"),
      bad("uses_a_padding_lane", like, gemm<uses_a_padding_lane>, "fill=55"),
      bad("begins_with_what_c_held", like, gemm<begins_with_what_c_held>, "fill=55"),
      bad("real_is_right", like, gemm<real_is_right>, "", 1, KernelType::qd8c),
      bad("takes_the_first_rows_zero_point", like, gemm<takes_the_first_rows_zero_point>, "c[", 1, KernelType::qd8c),
      bad("multiplies_the_scales_first", like, gemm<multiplies_the_scales_first>, "c[", 1, KernelType::qd8c),
      bad("reads_before_the_first_row", like, gemm<reads_before_the_first_row>, "4 bytes before a", 1,
          KernelType::qd8c),
      bad("igemm_is_right", igemm, igemm_is_right, ""),
      bad("pads_with_zeros", igemm, pads_with_zeros, "c["),
      bad("tapgemm_is_right", tapgemm, tapgemm_is_right, ""),
      bad("stores_rows_in_reverse", tapgemm, stores_rows_in_reverse, "c["),
      bad("reads_a_row_too_many", tapgemm, reads_a_row_too_many, "bytes past the end of a"),
      bad("dwconv_is_right", dwconv, dwconv_is_right, ""),
      bad("leaves_the_last_channel", dwconv, leaves_the_last_channel, "(or nothing), not"),
      bad("pool_is_right", average, pool_is_right, ""),
      bad("counts_padding_as_step_0", average, counts_padding_as_step_0, "c["),
      bad("add_is_right", add, add_is_right, ""),
      bad("rounds_each_operand", add, rounds_each_operand, "y["),
      bad("lookup_is_right", lookup, lookup_is_right, ""),
      bad("quantize_is_right", quantize, quantize_is_right, ""),
      bad("multiplies_by_the_reciprocal", quantize, multiplies_by_the_reciprocal, "y["),
      bad("blocks_are_right", blocks, qn_spmm_qs8c_b4x4_8x4_ref, ""),
      bad("columns_are_right", columns, qn_spmm_qs8c_b1x4_8x4_ref, ""),
      bad("begins_with_0_where_c_counts", blocks, begins_with_0_where_c_counts, "c["),
      bad("keeps_16_bits_of_a_sum", blocks, keeps_16_bits_of_a_sum, "c["),
      bad("takes_the_rows_of_a_set_in_reverse", blocks, takes_the_rows_of_a_set_in_reverse, "c["),
      bad("reads_a_pixel_too_many", blocks, reads_a_pixel_too_many, "0 bytes past the end of a"),
      bad("ends_with_the_first_scale", blocks, ends_with_the_first_scale, "c["),
      bad("leaves_sums_behind_the_bytes", blocks, leaves_sums_behind_the_bytes, "c["),
      bad("takes_bytes_as_unsigned", lookup, takes_bytes_as_unsigned, "y["),
  };
}

}  // namespace quern::check
