// maxpool: C[x][c] = clamp(max over taps t of A(x, t)[c])
// avgpool: C[x][c] = clamp(scale[x] * sum over taps t of A(x, t)[c])
//
// A(x, t) as in dwconv.h; a negative offset means that the tap takes no part. Where none does, the maximum is
// -infinity and the sum 0.
//
// Arguments  channels, pixels, taps >= 1; offsets, step, a, c, c_stride, p as in dwconv.h
//            scale     avgpool: one float per pixel (the reciprocal of the window's size, as a rule); maxpool: not read
// Memory     Reads exactly the named rows and scale; writes exactly `channels` floats per pixel. Multiples of 4.
//
// ---- plane: the same for the pixels p of one channel, which lie in blocks
//
// A(p, t), offsets and masks as in dwconv.h, its planes; where the mask of its column has no bit for p, a tap takes no
// part, as above.
//
// Arguments  pixels, kernel_h, kernel_w, offsets, masks, mask_stride, a, c, c_stride, p as in dwconv.h
//            scale     avgpool: one float per pixel; maxpool: not read
// Memory     Reads exactly the pixels with a bit, and whole vectors of LANES pixels of scale. Writes whole vectors of
//            C: what is behind the last pixel gets any value. Addresses: multiples of 4. C overlaps nothing.
//
// ---- all
//
// Numbers    max: a NaN in any tap gives NaN. Average: sums ascending over the taps, then one multiplication; no FMA.
//            The bits are equal on all levels (but for the sign of a zero maximum and the payload of NaN).
//            The vectors of 32-bit ARM flush: denormals count as zeros of their sign, here and in what is computed, and
//            a result may be either.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

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
  size_t block;  // pixels of a block
  size_t lanes;  // pixels of a vector
  qn_pool_plane_fn run;
};

// Best first for each kind; the references are last and run everywhere.
std::span<const PoolRow> pool_rows();
std::span<const PoolPlaneRow> pool_plane_rows();

}  // namespace quern
