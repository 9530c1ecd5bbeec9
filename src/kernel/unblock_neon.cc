#define QN_LEVEL neon
#define QN_VECTOR_BYTES 16
#define QN_PLANE_BLOCK 32
#include "kernel/unblock_vec.h"
