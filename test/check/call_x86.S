// void qn_checked_call(Call*).  Contract: call.h
//
// While the kernel runs nothing but memory of our own can be trusted: it holds the Call and the stack pointers.
#include "../../asm/x86/asm.h"
#include "call.h"

#define FRAME 176                       // stack arguments (40 bytes), then poison that must survive

        .local  current, home, frame, target, control, x87
        .comm   current, 8, 8           // the Call
        .comm   home, 8, 8              // stack pointer of this function
        .comm   frame, 8, 8             // stack pointer at the call
        .comm   target, 8, 8
        .comm   control, 4, 4           // mxcsr of the caller
        .comm   x87, 2, 2

        rodata
poison: .rept   8                       // .fill would take four bytes of it
        .quad   CALL_POISON
        .endr

fn qn_checked_call
        save    rbx, rbp, r12, r13, r14, r15
        mov     [rip + current], rdi
        mov     [rip + home], rsp
        stmxcsr [rip + control]
        fnstcw  [rip + x87]
        mov     rax, [rdi + CALL_CODE]
        mov     [rip + target], rax

        // At the call the stack is aligned to 16 as the ABI says, and to no more.
        mov     rbp, rsp
        .cfi_def_cfa_register rbp
        and     rsp, -64
        sub     rsp, FRAME
        mov     [rip + frame], rsp
        mov     rdx, rdi
        movabs  rax, CALL_POISON
        lea     rdi, [rsp - CALL_BELOW]
        mov     ecx, (CALL_BELOW + FRAME) / 8
        rep stosq
        .irp    i, 0, 1, 2, 3, 4
        mov     rcx, [rdx + CALL_ARGS + 48 + \i * 8]
        mov     [rsp + \i * 8], rcx
        .endr

        cmp     dword ptr [rdx + CALL_LEVEL], 1
        ja      2f
        je      1f
        .irp    v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        movaps  xmm\v, [rip + poison]
        .endr
        jmp     4f
1:      .irp    v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        vmovaps ymm\v, [rip + poison]
        .endr
        jmp     3f
2:      .irp    v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        vmovaps zmm\v, [rip + poison]
        .endr
        .irp    v, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        vmovaps zmm\v, [rip + poison]
        .endr
        .irp    k, 0, 1, 2, 3, 4, 5, 6, 7
        kmovq   k\k, rax
        .endr
3:      cmp     dword ptr [rdx + CALL_CLEAN], 0
        je      4f
        vzeroupper
4:      movups  xmm0, [rdx + CALL_VECTOR]

        lea     rbx, [rax + 0]
        lea     rbp, [rax + 1]
        lea     r12, [rax + 2]
        lea     r13, [rax + 3]
        lea     r14, [rax + 4]
        lea     r15, [rax + 5]
        mov     r10, rax
        mov     r11, rax
        mov     rdi, [rdx + CALL_ARGS + 0]
        mov     rsi, [rdx + CALL_ARGS + 8]
        mov     rcx, [rdx + CALL_ARGS + 24]
        mov     r8, [rdx + CALL_ARGS + 32]
        mov     r9, [rdx + CALL_ARGS + 40]
        mov     rdx, [rdx + CALL_ARGS + 16]
        stc
        call    [rip + target]

        mov     rax, [rip + current]
        mov     [rax + CALL_SAVED + 0], rbx
        mov     [rax + CALL_SAVED + 8], rbp
        mov     [rax + CALL_SAVED + 16], r12
        mov     [rax + CALL_SAVED + 24], r13
        mov     [rax + CALL_SAVED + 32], r14
        mov     [rax + CALL_SAVED + 40], r15
        mov     rbx, rax
        mov     rcx, rsp
        mov     rsp, [rip + frame]
        pushfq
        pop     qword ptr [rbx + CALL_FLAGS]
        cld
        sub     rcx, rsp
        mov     [rbx + CALL_SP], rcx
        movups  [rbx + CALL_VECTOR], xmm0
        stmxcsr [rbx + CALL_CONTROL]
        ldmxcsr [rip + control]
        fnstenv [rbx + CALL_X87]
        fninit
        fldcw   [rip + x87]

        cmp     dword ptr [rbx + CALL_ASK_XINUSE], 0
        je      5f
        mov     ecx, 1
        xgetbv
        mov     [rbx + CALL_XINUSE], eax
5:      cmp     dword ptr [rbx + CALL_LEVEL], 1
        ja      7f
        jb      9f
        .irp    v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        vmovups [rbx + CALL_WIDE + \v * 64], ymm\v
        .endr
        jmp     8f
7:      .irp    v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        vmovups [rbx + CALL_WIDE + \v * 64], zmm\v
        .endr
8:      vzeroupper

9:      movabs  rax, CALL_POISON        // is the frame above the arguments as it was?
        lea     rdi, [rsp + 40]
        mov     ecx, (FRAME - 40) / 8
        repe scasq
        setne   byte ptr [rbx + CALL_FRAME]

        mov     rsp, [rip + home]
        .cfi_def_cfa rsp, 56
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_checked_call
