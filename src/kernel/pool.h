// maxpool: C[x][c] = clamp(max over taps t of A(x, t)[c])
// avgpool: C[x][c] = clamp(scale[x] * sum over taps t of A(x, t)[c])
//
// A(x, t) as in dwconv.h, but a tap with a negative offset takes no part. If no tap takes part, the maximum is
// -infinity and the sum is 0.
//
// Arguments  channels, pixels, taps >= 1; offsets, step, a, c, c_stride, p as in dwconv.h
//            scale     avgpool: one float per pixel, usually 1 / the number of taps that count; maxpool: not read
// Memory     Reads exactly the rows of A that the table names, and scale; writes exactly `channels` floats per pixel.
//            Addresses are multiples of 4.
//
// ---- plane: the same for the pixels p of one channel, whose output lies in blocks
//
// A(p, t), offsets and masks are those of the plane kernels in dwconv.h, but a tap takes no part in pixel p if the mask
// of the tap's column has no bit for p.
//
// Arguments  pixels, kernel_h, kernel_w, offsets, masks, mask_stride, a, c, c_stride, p as in dwconv.h
//            scale     avgpool: one float per pixel; maxpool: not read
// Memory     Reads exactly the pixels whose bit is set, and whole vectors of LANES floats of scale. Writes whole
//            vectors of C; the floats after the last pixel get arbitrary values. Addresses are multiples of 4. C
//            overlaps nothing.
//
// ---- all
//
// Numbers    Maximum: a NaN in any tap gives a NaN. Average: the kernel adds the taps in ascending order, then
//            multiplies once; it uses no FMA. All levels give equal bits, except for the sign of a zero maximum and the
//            payload of a NaN.
//            Vectors of 32-bit ARM flush denormals: a denormal input or intermediate result counts as a zero of its
//            sign, and where the result would be denormal it may be that denormal or the zero.
// Machine    As gemm.h.
//
// ---- bytes: the same for type qs8. All elements are int8; p is a qn_pool_qs8.
//
// maxpool: C[x][c] = clamp(max over taps t of A(x, t)[c], min, max), where no tap at all counts as -128
// avgpool: C[x][c] = clamp(round(float(sum over taps t of (A(x, t)[c] - zero_in)) * scale[x]) + zero, min, max)
//
// The caller makes sure that no sum exceeds 32 bits. Conversion, product and round() are to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

struct qn_pool_qs8 {
  int32_t zero_in, zero;  // zero points of A (averages only) and C, -128 .. 127
  int32_t min, max;       // what outputs are clamped to, -128 <= min <= max <= 127
};

typedef void (*qn_pool_fn)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                           const void* a, const void* scale, void* c, size_t c_stride, const void* p);

typedef void (*qn_pool_plane_fn)(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                 const void* masks, size_t mask_stride, const void* a, const void* scale, void* c,
                                 size_t c_stride, const void* p);

#define QN_POOL_ROW(type, kind, isa, layout, name) QN_DECLARE_KERNEL(qn_pool_fn, name)
#define QN_POOL_PLANE_ROW(type, kind, block, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_pool_plane_fn, name)
#include "kernel/pool.inc"

}  // extern "C"

namespace quern {

enum class PoolKind { max, average };

struct PoolRow : Row {
  PoolKind kind;
  qn_pool_fn run;
};

struct PoolPlaneRow : Row {
  PoolKind kind;
  uint32_t block;  // pixels of a block
  uint32_t lanes;  // pixels of a vector
  qn_pool_plane_fn run;
};

// For each kind the best row comes first. The references are last and run everywhere.
std::span<const PoolRow> pool_rows();
std::span<const PoolPlaneRow> pool_plane_rows();

}  // namespace quern
