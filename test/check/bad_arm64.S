// Gemm kernels with a fault of the machine; the work is done by the reference, the fault comes after it.
#include "../../asm/arm64/asm.h"

.macro begin name
fn bad_\name
        ldr     x9, [sp]                // the stack argument again, for the reference
        save    x29, x30
        sub     sp, sp, #16
        .cfi_adjust_cfa_offset 16
        str     x9, [sp]
        bl      SYM(qn_gemm_f32_4x8_ref)
        add     sp, sp, #16
        .cfi_adjust_cfa_offset -16
        restore x29, x30
.endm

.macro end name
endfn bad_\name
.endm

begin none
        ret
end none

        .irp    r, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
begin clobbers_x\r
        add     x\r, x\r, #1
        ret
end clobbers_x\r
        .endr

        .irp    v, 8, 9, 10, 11, 12, 13, 14, 15
begin clobbers_d\v
        movi    d\v, #0
        ret
end clobbers_d\v
        .endr

begin pops_too_much
        add     sp, sp, #16
        ret
end pops_too_much

.macro change_fpcr bits
        mrs     x9, fpcr
        eor     x9, x9, #\bits
        msr     fpcr, x9
        ret
.endm

begin flushes_denormals
        change_fpcr 1 << 24
end flushes_denormals

begin rounds_to_zero
        change_fpcr 3 << 22
end rounds_to_zero

begin writes_above_its_arguments
        str     xzr, [sp, #40]
        ret
end writes_above_its_arguments

begin keeps_data_below_the_stack
        str     x19, [sp, #-256]
        mov     x19, #0
        mov     w9, #20000              // long enough for a signal now and then
1:      subs    w9, w9, #1
        b.ne    1b
        ldr     x19, [sp, #-256]
        ret
end keeps_data_below_the_stack

begin runs_forever
1:      b       1b
end runs_forever

begin traps
        udf     #0
end traps
