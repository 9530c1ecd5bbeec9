#include <algorithm>
#include <cstddef>
#include <cstring>

#include "../../asm/offset.h"
#include "base/math.h"
#include "kernel/dequantize.h"
#include "kernel/gemm.h"
#include "kernel/panel_qs8.h"

// From a row back to what stands before it.
static_assert(QUANTIZED_ROW_SCALE + sizeof(qn_quantized_row) == offsetof(qn_quantized_row, scale) &&
              QUANTIZED_ROW_ZERO + sizeof(qn_quantized_row) == offsetof(qn_quantized_row, zero) &&
              sizeof(qn_dequantize) == DEQUANTIZE_SCALES && sizeof(qn_dequantize) == DEQUANTIZE_BIASES &&
              sizeof(qn_quantized_block) == QUANTIZED_BLOCK_BYTES);

namespace quern {
namespace {

constexpr size_t nr = 8;

// How the weights of a panel lie: whole bytes, or two in a byte.
struct Bytes {
  static constexpr size_t row_bytes = nr;
  static void add(int32_t (&sum)[nr], const int8_t* row, size_t k, const int8_t* weights) {
    add_products<nr, 1>(sum, row, k, weights);
  }
};
struct Halves {
  static constexpr size_t row_bytes = nr / 2;
  static void add(int32_t (&sum)[nr], const int8_t* row, size_t k, const int8_t* weights) {
    for (size_t i = 0; i < k; ++i, weights += row_bytes) {
      for (size_t n = 0; n < nr; ++n) sum[n] += row[i] * half_of(weights[n % row_bytes], n / row_bytes);
    }
  }
};

template <class Weights>
void multiply(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c, size_t c_stride,
              const void* p) {
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  const size_t panel_bytes = k * Weights::row_bytes + nr * sizeof(int32_t);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += panel_bytes, epilogue += dequantize_bytes(nr)) {
    const auto* sums_of_weights = reinterpret_cast<const int32_t*>(panel);
    const auto* scales = reinterpret_cast<const float*>(epilogue + sizeof(qn_dequantize));
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    for (size_t m = 0; m < mr; ++m) {
      const int8_t* row = bytes(a) + m * a_stride;
      const qn_quantized_row& numbers = reinterpret_cast<const qn_quantized_row*>(row)[-1];
      int32_t sum[nr];
      for (size_t n = 0; n < nr; ++n) sum[n] = n0 + n < nc ? -numbers.zero * sums_of_weights[n] : 0;
      Weights::add(sum, row, k, bytes(sums_of_weights + nr));
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n)
        out[n] = dequantize(sum[n], numbers, scales[n], scales[nr + n], end);
    }
  }
}

// Multiplies a row by a panel whose weights have scales for blocks.
void add_blocks(float (&sum)[nr], const qn_quantized_block* row, size_t blocks, const int8_t* weights) {
  for (size_t b = 0; b < blocks; ++b) {
    int32_t of_block[nr] = {};
    for (const int8_t a : row[b].elements) {
      for (size_t n = 0; n < nr; ++n) of_block[n] += a * raised_half_of(weights[n % (nr / 2)], n / (nr / 2));
      weights += nr / 2;
    }
    const auto* scales = reinterpret_cast<const float*>(weights);
    for (size_t n = 0; n < nr; ++n) sum[n] += static_cast<float>(of_block[n]) * scales[n];
    weights += nr * sizeof(float);
  }
}

// Multiplies a part of a row of floats by a block of weights.
void add_block(float (&sum)[nr], const float* row, size_t count, const int8_t* weights) {
  const auto* scales = reinterpret_cast<const float*>(weights + nr * scale_block / 2);
  float of_block[nr] = {};
  for (size_t i = 0; i < count; ++i, weights += nr / 2) {
    for (size_t n = 0; n < nr; ++n)
      of_block[n] += row[i] * static_cast<float>(raised_half_of(weights[n % (nr / 2)], n / (nr / 2)));
  }
  for (size_t n = 0; n < nr; ++n) sum[n] += of_block[n] * scales[n];
}

}  // namespace
}  // namespace quern

extern "C" void qn_gemm_qd8c_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                     void* c, size_t c_stride, const void* p) {
  quern::multiply<quern::Bytes>(mr, nc, k, a, a_stride, w, c, c_stride, p);
}

extern "C" void qn_gemm_qd8c4_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                      void* c, size_t c_stride, const void* p) {
  quern::multiply<quern::Halves>(mr, nc, k, a, a_stride, w, c, c_stride, p);
}

extern "C" void qn_gemm_qd8b4_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                      void* c, size_t c_stride, const void* p) {
  using namespace quern;
  const size_t blocks = k / sizeof(qn_quantized_block);
  const size_t panel_bytes = nr * (sizeof(float) + blocks * (scale_block / 2 + sizeof(float)));
  const auto* panel = static_cast<const char*>(w);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, panel += panel_bytes, epilogue += dequantize_bytes(nr, 1)) {
    const auto* of_weights = reinterpret_cast<const float*>(panel);
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    const auto* biases = reinterpret_cast<const float*>(epilogue + sizeof end);
    for (size_t m = 0; m < mr; ++m) {
      const int8_t* row = bytes(a) + m * a_stride;
      float sum[nr] = {};
      add_blocks(sum, reinterpret_cast<const qn_quantized_block*>(row), blocks, bytes(of_weights + nr));
      const qn_quantized_row& numbers = reinterpret_cast<const qn_quantized_row*>(row)[-1];
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n)
        out[n] = dequantize_blocks(sum[n], numbers, of_weights[n], biases[n], end);
    }
  }
}

// Floats with weights of 4 bits.
extern "C" void qn_gemm_qw4b_4x8_ref(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w,
                                     void* c, size_t c_stride, const void* p) {
  using namespace quern;
  const size_t count = k / sizeof(float), block_bytes = nr * (scale_block / 2 + sizeof(float));
  const char* panel = static_cast<const char*>(w) + nr * sizeof(float);
  const auto* epilogue = static_cast<const char*>(p);
  for (size_t n0 = 0; n0 < nc; n0 += nr, epilogue += dequantize_bytes(nr, 1)) {
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    for (size_t m = 0; m < mr; ++m) {
      const auto* row = reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride);
      float sum[nr];
      std::memcpy(sum, epilogue + sizeof end, sizeof sum);
      for (size_t i = 0; i < count; i += scale_block)
        add_block(sum, row + i, std::min(count - i, scale_block), bytes(panel) + i / scale_block * block_bytes);
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
      for (size_t n = 0; n < nr && n0 + n < nc; ++n) out[n] = clamp(sum[n], end.clamp);
    }
    panel += blocks_of(count) * block_bytes + nr * sizeof(float);
  }
}

// Floats with weights of bytes.
extern "C" void qn_gemm_qw8c_1x8_ref(size_t, size_t nc, size_t k, const void* a, size_t, const void* w, void* c, size_t,
                                     const void* p) {
  using namespace quern;
  const size_t count = k / sizeof(float);
  const auto* row = static_cast<const float*>(a);
  const auto* weights = bytes(w);
  const auto* epilogue = static_cast<const char*>(p);
  auto* out = static_cast<float*>(c);
  for (size_t n0 = 0; n0 < nc; n0 += nr, epilogue += dequantize_bytes(nr)) {
    weights += nr * sizeof(int32_t);
    float sums[4][nr] = {};
    for (size_t i = 0; i < count; ++i, weights += nr) {
      for (size_t n = 0; n < nr; ++n) sums[i % 4][n] += row[i] * static_cast<float>(weights[n]);
    }
    const auto* scales = reinterpret_cast<const float*>(epilogue + sizeof(qn_dequantize));
    const auto& end = *reinterpret_cast<const qn_dequantize*>(epilogue);
    for (size_t n = 0; n < nr && n0 + n < nc; ++n) {
      const float sum = (sums[0][n] + sums[1][n]) + (sums[2][n] + sums[3][n]);
      out[n0 + n] = clamp(sum * scales[n] + scales[nr + n], end.clamp);
    }
  }
}
