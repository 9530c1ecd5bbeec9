// void qn_checked_call(Call*).  Contract: call.h
//
// While the kernel runs nothing but memory of our own can be trusted: it holds the Call and the stack pointers.
// A field of Call has 64 bits; a register is its lower half.
#include "../../asm/arm/asm.h"
#include "call.h"

#define STACK_ARGS 28                   // bytes: all arguments but the four in registers
#define FRAME 176                       // stack arguments, then poison that must survive

// Fields of `state`.
#define CURRENT 0                       // the Call
#define HOME 4                          // stack pointer of this function
#define AT_CALL 8                       // stack pointer at the call
#define CONTROL 12                      // fpscr of the caller

// What of fpscr must not change: rounding, flushing, NaN, traps, vectors. The rest are flags, and free.
#define CONTROL_BITS 0x07ffff00

        .local  state
        .comm   state, 16, 8

.macro address_of_state to
        movw    \to, #:lower16:(state - (1f + 8))
        movt    \to, #:upper16:(state - (1f + 8))
1:      add     \to, pc, \to
.endm

.macro load_poison to
        movw    \to, #0xa5a5
        movt    \to, #0x7fa5
.endm

fn qn_checked_call
        save    r4, r5, r6, r7, r8, r9, r10, r11, r12, lr
        vsave   d8, d9, d10, d11, d12, d13, d14, d15
        address_of_state r12
        vmrs    r3, fpscr
        str     r0, [r12, #CURRENT]
        str     sp, [r12, #HOME]
        str     r3, [r12, #CONTROL]
        mov     r11, sp
        .setfp  r11, sp

        // At the call the stack is aligned to 8 as the ABI says, and to no more.
        bic     r1, sp, #63
        sub     r1, r1, #FRAME + 8
        mov     sp, r1
        str     r1, [r12, #AT_CALL]
        load_poison r2
        sub     r3, r1, #CALL_BELOW
        add     r4, r1, #FRAME
1:      str     r2, [r3], #4
        cmp     r3, r4
        blo     1b
        .irp    i, 4, 5, 6, 7, 8, 9, 10
        ldr     r3, [r0, #CALL_ARGS + \i * 8]
        str     r3, [sp, #(\i - 4) * 4]
        .endr

        // A value of its own for each callee-saved register.
        vdup.32 q0, r2
        .irp    q, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        vmov    q\q, q0
        .endr
        .irp    d, 8, 9, 10, 11, 12, 13, 14, 15
        add     r3, r2, #\d - 8
        vmov.32 d\d[0], r3
        .endr
        add     r3, r0, #CALL_VECTOR
        vld1.32 {q0}, [r3]
        .irp    r, 4, 5, 6, 7, 8, 9, 10, 11
        add     r\r, r2, #\r - 4
        .endr
        mov     lr, r2
        ldr     r12, [r0, #CALL_CODE]
        ldr     r3, [r0, #CALL_ARGS + 24]
        ldr     r2, [r0, #CALL_ARGS + 16]
        ldr     r1, [r0, #CALL_ARGS + 8]
        ldr     r0, [r0, #CALL_ARGS]
        blx     r12
#if CALL_FLOATS_ARE_INTEGERS
        vmov    s0, r0
#endif

        address_of_state r12
        ldr     r3, [r12, #CURRENT]
        .irp    r, 4, 5, 6, 7, 8, 9, 10, 11
        str     r\r, [r3, #CALL_SAVED + (\r - 4) * 8]
        .endr
        .irp    d, 8, 9, 10, 11, 12, 13, 14, 15
        vstr    d\d, [r3, #CALL_SAVED_VECTOR + (\d - 8) * 8]
        .endr
        add     r0, r3, #CALL_VECTOR
        vst1.32 {q0}, [r0]
        ldr     r1, [r12, #AT_CALL]
        sub     r0, sp, r1
        mov     sp, r1
        str     r0, [r3, #CALL_SP]
        vmrs    r4, fpscr
        ldr     r5, [r12, #CONTROL]
        vmsr    fpscr, r5
        movw    r0, #CONTROL_BITS & 0xffff
        movt    r0, #CONTROL_BITS >> 16
        eor     r4, r4, r5
        and     r4, r4, r0
        str     r4, [r3, #CALL_CONTROL]

        load_poison r2                  // is the frame above the arguments as it was?
        mov     r0, #0
        add     r4, r1, #STACK_ARGS
        add     r5, r1, #FRAME
2:      ldr     r6, [r4], #4
        eor     r6, r6, r2
        orr     r0, r0, r6
        cmp     r4, r5
        blo     2b
        str     r0, [r3, #CALL_FRAME]

        ldr     sp, [r12, #HOME]
        vpop    {d8-d15}
        pop     {r4-r12, pc}
endfn qn_checked_call
