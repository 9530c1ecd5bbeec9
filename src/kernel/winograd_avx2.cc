#define QN_LEVEL avx2
#define QN_VECTOR_BYTES 32
#include "kernel/winograd_vec.h"
