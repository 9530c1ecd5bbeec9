// Plain kernels of spmm.h for blocks of INPUTS x OUTPUTS bytes, of which no table has any yet.
#pragma once

#include <cstring>

#include "kernel/spmm.h"

namespace quern::operands {

template <size_t inputs, size_t outputs>
void spmm_blocks(size_t pixels, size_t sets, const qn_spmm_set* set, const void* index, const void* w, const void* a,
                 size_t a_stride, void* c, size_t c_stride, const void* bias, const void*) {
  const auto* row = static_cast<const uint16_t*>(index);
  const auto* weights = static_cast<const int8_t*>(w);
  for (const qn_spmm_set* const end = set + sets; set < end; ++set) {
    for (size_t o = 0; o < outputs; ++o) {
      const size_t n = set->first + o;
      auto* const out = reinterpret_cast<int32_t*>(static_cast<char*>(c) + n * c_stride);
      for (size_t p = 0; p < pixels; ++p) {
        int32_t sum = bias == nullptr ? out[p] : static_cast<const int32_t*>(bias)[n];
        for (size_t step = 0; step < set->steps; ++step) {
          const auto* const in = static_cast<const int8_t*>(a) + row[step] * a_stride + p * inputs;
          for (size_t i = 0; i < inputs; ++i) sum += in[i] * weights[(step * outputs + o) * inputs + i];
        }
        out[p] = sum;
      }
    }
    row += set->steps;
    weights += set->steps * inputs * outputs;
  }
}

// A row as the table would have it.
template <size_t inputs, size_t outputs>
SpmmRow spmm_blocks_row(qn_spmm_fn kernel = spmm_blocks<inputs, outputs>) {
  const Row row("qn_spmm_qs8c", KernelType::qs8c, isa_ref, QN_LAYOUT_PIXEL_BLOCKED);
  return {row, SpmmPacking::blocks, inputs, outputs, 8, 1, 0, kernel};
}

}  // namespace quern::operands
