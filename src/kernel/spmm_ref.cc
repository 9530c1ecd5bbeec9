#include "kernel/spmm.h"

#include <cstddef>

#include "../../asm/offset.h"

static_assert(offsetof(qn_spmm_set, steps) == SPMM_SET_STEPS && offsetof(qn_spmm_set, first) == SPMM_SET_FIRST &&
              offsetof(qn_spmm_set, second) == SPMM_SET_SECOND && sizeof(qn_spmm_set) == SPMM_SET_BYTES);

namespace quern {
namespace {

constexpr SpmmRow spmm_table[] = {
#define QN_SPMM_ROW(type, packing, inputs, block, pixels, lanes, alone, panel, demands, isa, layout, name) \
  {QN_DEMANDING_ROW(type, demands, isa, layout, name),                                                     \
   SpmmPacking::packing,                                                                                   \
   inputs,                                                                                                 \
   block,                                                                                                  \
   pixels,                                                                                                 \
   lanes,                                                                                                  \
   alone,                                                                                                  \
   panel_##panel,                                                                                          \
   name},
#include "kernel/spmm.inc"
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
  const qn_minmax_f32& p;

  const float* in(size_t k) const { return reinterpret_cast<const float*>(static_cast<const char*>(a) + k * a_stride); }
  float* out(size_t n) const { return reinterpret_cast<float*>(static_cast<char*>(c) + n * c_stride); }
};

constexpr size_t max_pixels = 8;

// The sums of one output channel n: start() sets them, add_products() adds one entry, finish() writes the outputs.
void start(const Arguments& x, size_t n, float* sums) {
  for (size_t p = 0; p < x.pixels; ++p) sums[p] = x.bias == nullptr ? x.out(n)[p] : x.bias[n];
}

void add_products(const Arguments& x, size_t k, float w, float* sums) {
  const float* in = x.in(k);
  for (size_t p = 0; p < x.pixels; ++p) sums[p] += in[p] * w;
}

void finish(const Arguments& x, size_t n, const float* sums) {
  for (size_t p = 0; p < x.pixels; ++p) x.out(n)[p] = clamp(sums[p], x.p);
}

// Computes the sums of output channel n. It has `count` entries: every `index_turns`-th of `index` and every `turns`-th
// of `w`.
template <class Index>
void channel(const Arguments& x, size_t n, const Index* index, size_t index_turns, const float* w, size_t turns,
             size_t count, float* sums) {
  start(x, n, sums);
  for (size_t i = 0; i < count; ++i) add_products(x, index[i * index_turns], w[i * turns], sums);
}

void pairs(const Arguments& x) {
  const auto* index = static_cast<const uint8_t*>(x.index);
  const float* w = x.w;
  for (size_t s = 0; s < x.sets; ++s) {
    const qn_spmm_set& set = x.set[s];
    float first[max_pixels], second[max_pixels];
    channel(x, set.first, index, 2, w, 2, size_t{2} * set.steps, first);
    channel(x, set.second, index + 1, 2, w + 1, 2, size_t{2} * set.steps, second);
    finish(x, set.second, second);
    finish(x, set.first, first);
    index += size_t{4} * set.steps;
    w += size_t{4} * set.steps;
  }
}

void fours(const Arguments& x) {
  const auto* index = static_cast<const uint16_t*>(x.index);
  const float* w = x.w;
  for (size_t s = 0; s < x.sets; ++s) {
    const size_t f = x.set[s].first;
    float sums[4][max_pixels];
    for (size_t i = 0; i < 4; ++i) start(x, f + i, sums[i]);
    const uint16_t* const counts = index;
    index += spmm_patterns;
    for (size_t pattern = 1; pattern <= spmm_patterns; ++pattern) {
      for (size_t left = counts[pattern - 1]; left > 0; --left, ++index) {
        for (size_t i = 0; i < 4; ++i) {
          if ((pattern >> i & 1) != 0) add_products(x, *index, *w++, sums[i]);
        }
      }
    }
    for (size_t i = 0; i < 4; ++i) finish(x, f + i, sums[i]);
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
      finish(x, set.first + i, sums);
    }
    index += set.steps;
    w += block * set.steps;
  }
}

}  // namespace

std::span<const SpmmRow> spmm_rows() { return built<spmm_table>(); }

}  // namespace quern

#define QN_SPMM_REF(name, call)                                                                                     \
  extern "C" void name(size_t pixels, size_t sets, const qn_spmm_set* set, const void* index, const void* w,        \
                       const void* a, size_t a_stride, void* c, size_t c_stride, const void* bias, const void* p) { \
    const quern::Arguments x = {pixels,                                                                             \
                                sets,                                                                               \
                                set,                                                                                \
                                index,                                                                              \
                                static_cast<const float*>(w),                                                       \
                                a,                                                                                  \
                                a_stride,                                                                           \
                                c,                                                                                  \
                                c_stride,                                                                           \
                                static_cast<const float*>(bias),                                                    \
                                quern::minmax_of(p)};                                                               \
    quern::call;                                                                                                    \
  }

QN_SPMM_REF(qn_spmm_f32_csr_8x2_ref, pairs(x))
QN_SPMM_REF(qn_spmm_f32_csr_8x4_ref, fours(x))
QN_SPMM_REF(qn_spmm_f32_b1x2_8x2_ref, blocks(2, x))
QN_SPMM_REF(qn_spmm_f32_b1x4_8x4_ref, blocks(4, x))
QN_SPMM_REF(qn_spmm_f32_b1x8_8x8_ref, blocks(8, x))
QN_SPMM_REF(qn_spmm_f32_b1x16_8x16_ref, blocks(16, x))
