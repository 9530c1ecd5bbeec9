// What tiles of rows, or pixels, of two vectors share, whatever the level: gemm, igemm and depthwise convolution.  Each
// level's are in tile_avx512.h, tile_avx2.h, tile_sse41.h.
#ifndef QN_ASM_X86_TILE_H
#define QN_ASM_X86_TILE_H

#include "asm.h"
#include "../offset.h"

// The row of A whose offset is at [at]: so many bytes from `a`, or `zero` where the offset is negative.
.macro find_row row, at, a, zero:vararg
        movsxd  \row, dword ptr [\at]
        test    \row, \row
        lea     \row, [\row + \a]
        cmovs   \row, \zero
.endm

#endif
