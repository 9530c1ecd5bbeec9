// C[m][n] = dequantize(sum over k of (A[m][k] - zero point of m) * W[k][n]), 6 rows of bytes x 8 channels.
// Contract: src/kernel/gemm.h; panels have the format k2.
#include "pairs_sse41.h"
#include "dequantize_sse41.h"

gemm_pairs qn_gemm_qd8c_6x8_sse41, 8, 16, qd8c
