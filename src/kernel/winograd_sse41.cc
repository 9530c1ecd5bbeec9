#define QN_LEVEL sse41
#define QN_VECTOR_BYTES 16
#include "kernel/winograd_vec.h"
