// C[m][n] = requantized (bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 8 rows x 8 channels of
// bytes, with dot products.  Contract: src/kernel/igemm.h
//
//   code   igemm_tile.h   tile   tile_8x8.h and tile_8x8_inorder.h
#include "tile_8x8_qs8c.h"
#include "tile_8x8_inorder.h"
#include "igemm_tile.h"

igemm   qn_igemm_qs8c_8x8_dotprod
igemm_inorder qn_igemm_qs8c_8x8_dotprod_a55, a55
