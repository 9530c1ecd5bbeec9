#define QN_LEVEL avx512
#define QN_VECTOR_BYTES 64
#include "kernel/winograd_vec.h"
