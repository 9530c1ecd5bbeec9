#include "kernel/spmm.h"

#include <cstddef>

#include "../../asm/offset.h"

static_assert(offsetof(qn_spmm_set, steps) == SPMM_SET_STEPS && offsetof(qn_spmm_set, first) == SPMM_SET_FIRST &&
              offsetof(qn_spmm_set, second) == SPMM_SET_SECOND && sizeof(qn_spmm_set) == SPMM_SET_BYTES);

namespace quern {
namespace {

constexpr SpmmRow table[] = {
#define QN_SPMM_ROW(type, block, pixels, lanes, alone, isa, layout, name) \
  {{#name, QN_##type, isa_##isa, QN_LAYOUT_##layout}, block, pixels, lanes, alone, name},
#include "kernel/spmm.inc"
#undef QN_SPMM_ROW
};

struct Arguments {
  size_t pixels, sets;
  const qn_spmm_set* set;
  const void* index;
  const float* w;
  const void* a;
  size_t a_stride;
  void* c;
  size_t c_stride;
  const float* bias;
  const qn_minmax_f32* p;

  const float* in(size_t k) const { return reinterpret_cast<const float*>(static_cast<const char*>(a) + k * a_stride); }
  float* out(size_t n) const { return reinterpret_cast<float*>(static_cast<char*>(c) + n * c_stride); }
};

// One output channel: its entries are every `turns`-th of `index` and `w`, of which there are `count`.
template <class Index>
void channel(const Arguments& x, size_t n, const Index* index, size_t index_turns, const float* w, size_t turns,
             size_t count, float* sums) {
  for (size_t p = 0; p < x.pixels; ++p) sums[p] = x.bias == nullptr ? x.out(n)[p] : x.bias[n];
  for (size_t i = 0; i < count; ++i) {
    const float* in = x.in(index[i * index_turns]);
    for (size_t p = 0; p < x.pixels; ++p) sums[p] += in[p] * w[i * turns];
  }
  for (size_t p = 0; p < x.pixels; ++p) sums[p] = clamp(sums[p], *x.p);
}

constexpr size_t max_pixels = 8;

void csr(const Arguments& x) {
  const auto* index = static_cast<const uint8_t*>(x.index);
  const float* w = x.w;
  for (size_t s = 0; s < x.sets; ++s) {
    const qn_spmm_set& set = x.set[s];
    float first[max_pixels], second[max_pixels];
    channel(x, set.first, index, 2, w, 2, size_t{2} * set.steps, first);
    channel(x, set.second, index + 1, 2, w + 1, 2, size_t{2} * set.steps, second);
    for (size_t p = 0; p < x.pixels; ++p) x.out(set.second)[p] = second[p];
    for (size_t p = 0; p < x.pixels; ++p) x.out(set.first)[p] = first[p];
    index += size_t{4} * set.steps;
    w += size_t{4} * set.steps;
  }
}

void blocks(size_t block, const Arguments& x) {
  const auto* index = static_cast<const uint16_t*>(x.index);
  const float* w = x.w;
  for (size_t s = 0; s < x.sets; ++s) {
    const qn_spmm_set& set = x.set[s];
    for (size_t i = 0; i < block; ++i) {
      float sums[max_pixels];
      channel(x, set.first + i, index, 1, w + i, block, set.steps, sums);
      for (size_t p = 0; p < x.pixels; ++p) x.out(set.first + i)[p] = sums[p];
    }
    index += set.steps;
    w += block * set.steps;
  }
}

}  // namespace

std::span<const SpmmRow> spmm_rows() { return table; }

}  // namespace quern

#define QN_SPMM_REF(name, call)                                                                               \
  extern "C" void name(size_t pixels, size_t sets, const qn_spmm_set* set, const void* index, const float* w, \
                       const void* a, size_t a_stride, void* c, size_t c_stride, const float* bias,           \
                       const qn_minmax_f32* p) {                                                              \
    const quern::Arguments x = {pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, p};              \
    quern::call;                                                                                              \
  }

QN_SPMM_REF(qn_spmm_f32_csr_8x2_ref, csr(x))
QN_SPMM_REF(qn_spmm_f32_b1x2_8x2_ref, blocks(2, x))
QN_SPMM_REF(qn_spmm_f32_b1x4_8x4_ref, blocks(4, x))
QN_SPMM_REF(qn_spmm_f32_b1x8_8x8_ref, blocks(8, x))
QN_SPMM_REF(qn_spmm_f32_b1x16_8x16_ref, blocks(16, x))
