#define QN_LEVEL avx2
#define QN_VECTOR_BYTES 32
#define QN_PLANE_BLOCK 48
#include "kernel/pool_vec.h"
