#define QN_LEVEL avx512
#define QN_VECTOR_BYTES 64
#define QN_PLANE_BLOCK 64
#include "kernel/unblock_vec.h"
