// Offsets and constants shared by assembly and C++; the reference of each family asserts them.
#ifndef QN_ASM_OFFSET_H
#define QN_ASM_OFFSET_H

// qn_minmax_f32
#define MINMAX_MIN 0
#define MINMAX_MAX 4

#endif
