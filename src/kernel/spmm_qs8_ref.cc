// The references of spmm.h for bytes.
#include <cstring>

#include "base/math.h"
#include "kernel/requantize.h"
#include "kernel/spmm.h"

namespace quern {
namespace {

struct Arguments {
  size_t pixels, sets;
  const qn_spmm_set* set;
  const void* index;
  const void* w;
  const void* a;
  size_t a_stride;
  void* c;
  size_t c_stride;
  const void* bias;
  const void* p;
};

constexpr size_t joined = 4;         // weights of a channel that lie together
constexpr size_t most_outputs = 16;  // of a block

// The sums of the outputs of a block for one pixel.
template <size_t inputs>
void add_steps(const Arguments& x, size_t pixel, size_t steps, const uint16_t* index, const int8_t* w, size_t outputs,
               int32_t* sums) {
  for (size_t i = 0; i < steps; ++i, index += joined / inputs) {
    for (size_t o = 0; o < outputs; ++o, w += joined) {
      for (size_t j = 0; j < joined; ++j) {
        const int8_t a = bytes(x.a)[index[j / inputs] * x.a_stride + pixel * inputs + j % inputs];
        sums[o] = wrapping_add(sums[o], w[j] * a);
      }
    }
  }
}

template <size_t inputs>
void blocks(size_t outputs, const Arguments& x) {
  const auto* index = static_cast<const uint16_t*>(x.index);
  const int8_t* w = bytes(x.w);
  for (const qn_spmm_set* set = x.set; set < x.set + x.sets; ++set) {
    const auto sum_at = [&](size_t output, size_t pixel) {
      return static_cast<char*>(x.c) + (set->first + output) * x.c_stride + pixel * sizeof(int32_t);
    };
    for (size_t pixel = 0; pixel < x.pixels; ++pixel) {
      int32_t sums[most_outputs];
      for (size_t o = 0; o < outputs; ++o) {
        if (x.bias == nullptr) {
          std::memcpy(&sums[o], sum_at(o, pixel), sizeof sums[o]);
        } else {
          sums[o] = static_cast<const int32_t*>(x.bias)[set->first + o];
        }
      }
      add_steps<inputs>(x, pixel, set->steps, index, w, outputs, sums);
      for (size_t o = 0; o < outputs; ++o) {
        if (x.p == nullptr) {
          std::memcpy(sum_at(o, pixel), &sums[o], sizeof sums[o]);
        } else {
          bytes(sum_at(o / 4 * 4, pixel))[o % 4] =
              requantize(sums[o], scales_of(x.p)[set->first + o], requantize_of(x.p));
        }
      }
    }
    index += set->steps * (joined / inputs);
    w += set->steps * outputs * joined;
  }
}

}  // namespace
}  // namespace quern

#define QN_SPMM_REF(name, call)                                                                                     \
  extern "C" void name(size_t pixels, size_t sets, const qn_spmm_set* set, const void* index, const void* w,        \
                       const void* a, size_t a_stride, void* c, size_t c_stride, const void* bias, const void* p) { \
    const quern::Arguments x = {pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, p};                    \
    quern::call;                                                                                                    \
  }

QN_SPMM_REF(qn_spmm_qs8c_b4x4_8x4_ref, blocks<4>(4, x))
QN_SPMM_REF(qn_spmm_qs8c_b4x8_8x8_ref, blocks<4>(8, x))
QN_SPMM_REF(qn_spmm_qs8c_b4x16_8x16_ref, blocks<4>(16, x))
QN_SPMM_REF(qn_spmm_qs8c_b1x4_8x4_ref, blocks<1>(4, x))
QN_SPMM_REF(qn_spmm_qs8c_b1x8_8x8_ref, blocks<1>(8, x))
QN_SPMM_REF(qn_spmm_qs8c_b1x16_8x16_ref, blocks<1>(16, x))
