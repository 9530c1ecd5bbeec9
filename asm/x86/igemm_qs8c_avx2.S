// C[m][n] = requantize(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), bytes: 6 rows x 16 channels.
// Contract: src/kernel/igemm.h
//
// A step is 12 products and 12 sums of pairs of k, 2 weights to widen and 6 loads of A.
#include "pairs_avx2.h"
#include "requantize_avx2.h"

igemm_pairs qn_igemm_qs8c_6x16_avx2, 16, 32
