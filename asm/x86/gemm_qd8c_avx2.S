// C[m][n] = dequantize(sum over k of (A[m][k] - zero point of m) * W[k][n]), 6 rows of bytes x 16 channels.
// Contract: src/kernel/gemm.h; panels have the format k2.
#include "pairs_avx2.h"
#include "dequantize_avx2.h"

gemm_pairs qn_gemm_qd8c_6x16_avx2, 16, 32, qd8c
