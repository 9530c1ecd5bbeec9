#define QN_LEVEL neon
#define QN_VECTOR_BYTES 16
#include "kernel/pool_vec.h"
