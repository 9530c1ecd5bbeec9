// igemm (indirect gemm): C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n])
//
// A(t, m) is a row of kc bytes: a + offsets[t * MR + m], or `zero` where that offset is negative (padding).
// The table of one call, 32-bit offsets in bytes, tap by tap; entries of rows mr .. MR-1 are never read:
//
//     offsets:  t0: m0 m1 .. m(MR-1)   t1: m0 m1 .. m(MR-1)   ...   t(ks-1): ...
//
// Packed weights: the panels of gemm.h with K = ks * kc / 4 rows, tap-major: (t, k) is row 1 + t * kc / 4 + k.
//
// Arguments  mr        rows of this call, 1 <= mr <= MR
//            nc        output channels, >= 1
//            kc        bytes of one row, >= 1 element
//            ks        taps, >= 1
//            offsets   ks * MR entries; the table holds offsets, not addresses, so runs with other buffers share it
//            a         base address of the image (and group)
//            zero      a row of padding, kc bytes: zeros, or the zero point of quantized numbers
//            w, c, c_stride, p  as in gemm.h
//
// Memory     Reads exactly the rows named by the table, kc bytes each, ceil(nc / NR) whole panels, `zero` only where
//            the table asks for it, and *p. Writes exactly nc floats in each of the mr rows of C. Aliasing as gemm.h.
// Numbers    As gemm.h, with the chain over taps first, channels within: the same bits as gemm on the gathered matrix.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_igemm_fn)(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets, const void* a,
                            const void* zero, const void* w, void* c, size_t c_stride, const void* p);

#define QN_IGEMM_ROW(type, mr, nr, kr, demands, isa, layout, name) QN_DECLARE_KERNEL(qn_igemm_fn, name)
#include "kernel/igemm.inc"

}  // extern "C"

namespace quern {

struct IgemmRow : Row {
  size_t mr, nr;
  size_t kr;  // successive k that lie together in a panel
  qn_igemm_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const IgemmRow> igemm_rows();

}  // namespace quern
