// C[m][n] = dequantize(sum over k of (A[m][k] - zero point of m) * W[k][n]) of bytes and weights of 4 bits, 14 rows x
// 32 channels and one row.  Contract: src/kernel/gemm.h; panels have the format k4u.  Registers: gemm_qd8_avx512vnni.h
//
// A step of four k takes four instructions for the weights of both vectors, where bytes take two.
#include "gemm_qd8_avx512vnni.h"

        gemm_qd8_14x32 qn_gemm_qd8c4_14x32_avx512vnni, 4
        gemm_qd8_1x32 qn_gemm_qd8c4_1x32_avx512vnni, 4
