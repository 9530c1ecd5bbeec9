// void qn_checked_call(Call*).  Contract: call.h
//
// While the kernel runs nothing but memory of our own can be trusted: it holds the Call and the stack pointers.
#include "../../asm/arm64/asm.h"
#undef x18                              // a scratch register of this platform, to be poisoned
#include "call.h"

#define FRAME 176                       // stack arguments (24 bytes), then poison that must survive

// Fields of `state`.
#define CURRENT 0                       // the Call
#define HOME 8                          // stack pointer of this function
#define AT_CALL 16                      // stack pointer at the call
#define CONTROL 24                      // fpcr of the caller

        .local  state
        .comm   state, 32, 8

.macro load_poison to
        movz    \to, #0xa5a5
        movk    \to, #0x7fa5, lsl #16
        movk    \to, #0xa5a5, lsl #32
        movk    \to, #0x7fa5, lsl #48
.endm

fn qn_checked_call
        save    x29, x30
        save    x27, x28
        save    x25, x26
        save    x23, x24
        save    x21, x22
        save    x19, x20
        save    d14, d15
        save    d12, d13
        save    d10, d11
        save    d8, d9
        adrp    x16, state
        add     x16, x16, :lo12:state
        mov     x9, sp
        mrs     x10, fpcr
        stp     x0, x9, [x16, #CURRENT]
        str     x10, [x16, #CONTROL]

        // At the call the stack is aligned to 16 as the ABI says, and to no more.
        mov     x29, x9
        .cfi_def_cfa_register x29
        and     x9, x9, #-64
        sub     x9, x9, #FRAME
        mov     sp, x9
        str     x9, [x16, #AT_CALL]
        load_poison x10
        sub     x11, x9, #CALL_BELOW
        add     x12, x9, #FRAME
1:      str     x10, [x11], #8
        cmp     x11, x12
        b.lo    1b
        ldp     x11, x12, [x0, #CALL_ARGS + 64]
        ldr     x13, [x0, #CALL_ARGS + 80]
        stp     x11, x12, [sp]
        str     x13, [sp, #16]

        .irp    v, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        dup     v\v\().2d, x10
        .endr
        .irp    v, 8, 9, 10, 11, 12, 13, 14, 15
        add     x11, x10, #\v - 8       // a value of its own for each callee-saved register
        ins     v\v\().d[0], x11
        .endr
        ldr     q0, [x0, #CALL_VECTOR]
        .irp    r, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
        add     x\r, x10, #\r - 19
        .endr
        .irp    r, 8, 9, 11, 12, 13, 14, 15, 17, 18
        mov     x\r, x10
        .endr
        ldr     x16, [x0, #CALL_CODE]
        ldp     x2, x3, [x0, #CALL_ARGS + 16]
        ldp     x4, x5, [x0, #CALL_ARGS + 32]
        ldp     x6, x7, [x0, #CALL_ARGS + 48]
        ldp     x0, x1, [x0, #CALL_ARGS]
        cmp     x10, #0
        blr     x16

        adrp    x16, state
        add     x16, x16, :lo12:state
        ldr     x17, [x16, #CURRENT]
        .irp    r, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
        str     x\r, [x17, #CALL_SAVED + (\r - 19) * 8]
        .endr
        .irp    v, 8, 9, 10, 11, 12, 13, 14, 15
        str     d\v, [x17, #CALL_SAVED_VECTOR + (\v - 8) * 8]
        .endr
        str     q0, [x17, #CALL_VECTOR]
        ldr     x9, [x16, #AT_CALL]
        mov     x10, sp
        mov     sp, x9
        sub     x10, x10, x9
        str     x10, [x17, #CALL_SP]
        mrs     x10, fpcr
        ldr     x11, [x16, #CONTROL]
        eor     x10, x10, x11
        str     x10, [x17, #CALL_CONTROL]
        msr     fpcr, x11

        load_poison x10                 // is the frame above the arguments as it was?
        mov     x13, #0
        add     x11, x9, #24
        add     x12, x9, #FRAME
2:      ldr     x14, [x11], #8
        eor     x14, x14, x10
        orr     x13, x13, x14
        cmp     x11, x12
        b.lo    2b
        str     x13, [x17, #CALL_FRAME]

        ldr     x9, [x16, #HOME]
        mov     sp, x9
        .cfi_def_cfa sp, 160
        restore d8, d9
        restore d10, d11
        restore d12, d13
        restore d14, d15
        restore x19, x20
        restore x21, x22
        restore x23, x24
        restore x25, x26
        restore x27, x28
        restore x29, x30
        ret
endfn qn_checked_call
