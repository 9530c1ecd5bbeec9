// C[m][n] = dequantize(sum over k of (A[m][k] - zero point of m) * W[k][n]) of bytes, 14 rows x 32 channels and one
// row.  Contract: src/kernel/gemm.h; panels have the format k4u.  Registers: gemm_qd8_avx512vnni.h
#include "gemm_qd8_avx512vnni.h"

        gemm_qd8_14x32 qn_gemm_qd8c_14x32_avx512vnni, 8
        gemm_qd8_1x32 qn_gemm_qd8c_1x32_avx512vnni, 8
