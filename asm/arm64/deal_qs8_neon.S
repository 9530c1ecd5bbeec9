// C[4 r + j] = bytes j of A[r], 16 pixels at a time; they stay in order.  Contract: src/kernel/deal.h
//
//   args   x0 rows  x1 groups  x2 a  x3 a_stride  x4 c  x5 c_stride
//   left   x12 rows  x6 groups     group  x7 of A  x8 x9 x10 x11 of the four rows of C     v0-v3
#include "asm.h"

fn qn_deal_qs8_4_neon
        mov     x12, x0
0:      mov     x6, x1
        mov     x7, x2
        mov     x8, x4
        add     x9, x4, x5
        add     x10, x9, x5
        add     x11, x10, x5
1:      ld4     {v0.16b-v3.16b}, [x7], #64
        str     q0, [x8], #16
        str     q1, [x9], #16
        str     q2, [x10], #16
        str     q3, [x11], #16
        subs    x6, x6, #1
        b.ne    1b
        add     x2, x2, x3
        add     x4, x11, x5
        sub     x4, x4, x1, lsl #4
        subs    x12, x12, #1
        b.ne    0b
        ret
endfn qn_deal_qs8_4_neon
