// C[m][n] = requantized (bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 4 rows x 4 channels of
// bytes.  Contract: src/kernel/igemm.h
//
//   code   igemm_tile.h   tile   tile_4x4_qs8c.h
#include "tile_4x4_qs8c.h"
#include "igemm_tile.h"

igemm   qn_igemm_qs8c_4x4_neon
igemm_inorder qn_igemm_qs8c_4x4_neon_inorder, inorder
