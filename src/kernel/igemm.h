// igemm (indirect gemm): C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n])
//
// A(t, m) is a row of kc bytes at a + offsets[t * MR + m]. If that offset is negative, the tap lies in the padding and
// A(t, m) is `zero`. The table of one call holds 32-bit offsets in bytes, tap by tap; a kernel never reads the entries
// of rows mr .. MR-1:
//
//     offsets:  t0: m0 m1 .. m(MR-1)   t1: m0 m1 .. m(MR-1)   ...   t(ks-1): ...
//
// Where padding adds nothing to sums (`zero` is 0, or -128 for kernels that add 128), a caller may mark a tap whose rows
// are all padding: its entry of row 0 is `tap_left_out`. Kernels may skip such a tap and its weights. To others it is
// padding, because it is negative; the sums are the same.
//
// Packed weights: the panels of gemm.h, with K = ks times the elements of a row. All channels of one tap lie together:
// after the row of biases come those of tap 0, then those of tap 1 and so on. If KR is more than 1, zeros fill up the
// last KR channels of every tap, so that each tap begins a group of its own.
//
// Arguments  mr        rows of this call, 1 <= mr <= MR
//            nc        output channels, >= 1
//            kc        bytes of one row, >= 1 element
//            ks        taps, >= 1
//            offsets   ks * MR entries. They are not addresses, so runs with other buffers can use the same table
//            a         base address of the image (and group)
//            zero      a row of padding, kc bytes: all 0 (or, for quantized numbers, their zero point)
//            w, c, c_stride, p  as in gemm.h
//
// Memory     Reads exactly the rows named by the table, kc bytes each, ceil(nc / NR) whole panels, `zero` only where
//            the table asks for it, and *p. Writes exactly nc elements in each of the mr rows of C. C overlaps nothing.
// Numbers    As gemm.h. The chain goes through the taps and, for each tap, through its channels. So the bits are those
//            of gemm with a matrix A into which all taps were copied.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/panel.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_igemm_fn)(size_t mr, size_t nc, size_t kc, size_t ks, const int32_t* offsets, const void* a,
                            const void* zero, const void* w, void* c, size_t c_stride, const void* p);

#define QN_IGEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) QN_DECLARE_KERNEL(qn_igemm_fn, name)
#include "kernel/igemm.inc"

}  // extern "C"

namespace quern {

inline constexpr int32_t tap_left_out = INT32_MIN;

struct IgemmRow : Row {
  uint32_t mr, nr;
  PanelFormat panel;
  qn_igemm_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const IgemmRow> igemm_rows();

}  // namespace quern
