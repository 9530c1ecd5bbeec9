// Gemm kernels with a fault of the machine; the work is done by the reference, the fault comes after it.
#include "../../asm/arm/asm.h"

// After the work the fault's code may use r0-r3 and r12.
.macro begin name
fn bad_\name
        save    r4, lr
        .pad    #24
        sub     sp, sp, #24
        .irp    i, 0, 1, 2, 3, 4
        ldr     r12, [sp, #32 + \i * 4] // the stack arguments again, for the reference
        str     r12, [sp, #\i * 4]
        .endr
        bl      SYM(qn_gemm_f32_4x8_ref)
        add     sp, sp, #24
        pop     {r4, lr}
.endm

.macro end name
endfn bad_\name
.endm

begin none
        bx      lr
end none

        .irp    r, 4, 5, 6, 7, 8, 9, 10, 11
begin clobbers_r\r
        add     r\r, r\r, #1
        bx      lr
end clobbers_r\r
        .endr

        .irp    d, 8, 9, 10, 11, 12, 13, 14, 15
begin clobbers_d\d
        vmov.i32 d\d, #0
        bx      lr
end clobbers_d\d
        .endr

begin pops_too_much
        add     sp, sp, #16
        bx      lr
end pops_too_much

.macro change_fpscr bits
        vmrs    r0, fpscr
        eor     r0, r0, #\bits
        vmsr    fpscr, r0
        bx      lr
.endm

begin flushes_denormals
        change_fpscr 1 << 24
end flushes_denormals

begin rounds_to_zero
        change_fpscr 3 << 22
end rounds_to_zero

begin writes_above_its_arguments
        str     r0, [sp, #40]
        bx      lr
end writes_above_its_arguments

begin keeps_data_below_the_stack
        str     r4, [sp, #-256]
        mov     r4, #0
        mov     r0, #20480              // long enough for a signal now and then
1:      subs    r0, r0, #1
        bne     1b
        ldr     r4, [sp, #-256]
        bx      lr
end keeps_data_below_the_stack

begin runs_forever
1:      b       1b
end runs_forever

begin traps
        udf     #0
end traps
