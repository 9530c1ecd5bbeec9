// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 8 rows x 8 channels.
// Contract: src/kernel/igemm.h
//
//   code   igemm_tile.h   tile   tile_8x8.h and tile_8x8_inorder.h
#include "tile_8x8_f32.h"
#include "tile_8x8_inorder.h"
#include "igemm_tile.h"

igemm   qn_igemm_f32_8x8_neon
igemm_inorder qn_igemm_f32_8x8_neon_a53, a53
igemm_inorder qn_igemm_f32_8x8_neon_a55, a55
