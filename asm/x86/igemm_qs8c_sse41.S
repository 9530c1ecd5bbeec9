// C[m][n] = requantize(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), bytes: 6 rows x 8 channels.
// Contract: src/kernel/igemm.h
//
// A step is 12 products and 12 sums of pairs of k, 2 weights to widen and 6 loads of A.
#include "pairs_sse41.h"
#include "requantize_sse41.h"

igemm_pairs qn_igemm_qs8c_6x8_sse41, 8, 16
