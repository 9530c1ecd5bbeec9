#define QN_LEVEL neon
#define QN_VECTOR_BYTES 16
#include "kernel/winograd_vec.h"
