// Offsets and constants shared by assembly and C++; the reference of each family asserts them.
#ifndef QN_ASM_OFFSET_H
#define QN_ASM_OFFSET_H

// qn_minmax_f32
#define MINMAX_MIN 0
#define MINMAX_MAX 4

// qn_requantize, and the scales behind it
#define REQUANTIZE_ZERO 0
#define REQUANTIZE_MIN 4
#define REQUANTIZE_MAX 8
#define REQUANTIZE_SCALES 16

// qn_quantized_row, as seen from the row behind it
#define QUANTIZED_ROW_SCALE -8
#define QUANTIZED_ROW_ZERO -4

// qn_dequantize, and the scales behind it; then come as many biases (of type qd8b4 biases alone)
#define DEQUANTIZE_SCALES 8
#define DEQUANTIZE_BIASES 8

// qn_quantized_block
#define QUANTIZED_BLOCK_BYTES 36

// qn_spmm_set
#define SPMM_SET_STEPS 0
#define SPMM_SET_FIRST 2
#define SPMM_SET_SECOND 4
#define SPMM_SET_BYTES 6

// igemm: the offset of row 0 that marks a tap which kernels may leave out
#define TAP_LEFT_OUT 0x80000000

#endif
