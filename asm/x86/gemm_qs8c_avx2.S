// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]), 6 rows x 16 channels of bytes.
// Contract: src/kernel/gemm.h
//
// A step is 12 products and 12 sums of pairs of k, 2 weights to widen and 6 loads of A.
#include "pairs_avx2.h"
#include "requantize_avx2.h"

gemm_pairs qn_gemm_qs8c_6x16_avx2, 16, 32
