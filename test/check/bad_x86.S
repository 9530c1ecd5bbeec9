// Gemm kernels with a fault of the machine; the work is done by the reference, the fault comes after it.
#include "../../asm/x86/asm.h"

.macro begin name
fn bad_\name
        sub     rsp, 40                 // the three stack arguments again, for the reference
        .cfi_adjust_cfa_offset 40
        mov     rax, [rsp + 48]
        mov     [rsp], rax
        mov     rax, [rsp + 56]
        mov     [rsp + 8], rax
        mov     rax, [rsp + 64]
        mov     [rsp + 16], rax
        movups  [rsp + 24], xmm8        // what a scratch register holds at the start, 16 bytes below the stack at the end
        call    SYM(qn_gemm_f32_4x8_ref)
        add     rsp, 40
        .cfi_adjust_cfa_offset -40
.endm

.macro end name
endfn bad_\name
.endm

begin none
        ret
end none

        .irp    r, rbx, rbp, r12, r13, r14, r15
begin clobbers_\r
        inc     \r
        ret
end clobbers_\r
        .endr

begin pops_too_much
        pop     rax
        add     rsp, 16
        jmp     rax
end pops_too_much

// The lanes of a vector that nobody has set.
        .irp    lane, 0, 1, 2, 3
begin adds_scratch_\lane
        mov     rax, [rsp + 8]          // C
        movss   xmm0, dword ptr [rax]
        addss   xmm0, dword ptr [rsp - 16 + 4 * \lane]
        movss   dword ptr [rax], xmm0
        ret
end adds_scratch_\lane
        .endr

.macro change_mxcsr bits
        stmxcsr [rsp - 8]
        xor     dword ptr [rsp - 8], \bits
        ldmxcsr [rsp - 8]
        ret
.endm

begin flushes_denormals
        change_mxcsr 0x8000
end flushes_denormals

begin rounds_to_zero
        change_mxcsr 0x6000
end rounds_to_zero

begin unmasks_exceptions
        change_mxcsr 0x80
end unmasks_exceptions

begin changes_x87_control
        fnstcw  [rsp - 8]
        xor     word ptr [rsp - 8], 0x400
        fldcw   [rsp - 8]
        ret
end changes_x87_control

begin leaves_mmx_in_use
        movq    mm0, rax
        ret
end leaves_mmx_in_use

begin sets_direction_flag
        std
        ret
end sets_direction_flag

begin forgets_vzeroupper
        vcmpps  ymm3, ymm3, ymm3, 15    // all bits set
        ret
end forgets_vzeroupper

begin forgets_vzeroupper_zmm
        vpternlogd zmm3, zmm3, zmm3, 255
        ret
end forgets_vzeroupper_zmm

begin writes_above_its_arguments
        mov     qword ptr [rsp + 56], 0
        ret
end writes_above_its_arguments

begin keeps_data_below_the_red_zone
        mov     [rsp - 256], rbx
        xor     ebx, ebx
        mov     ecx, 20000              // long enough for a signal now and then
1:      dec     ecx
        jnz     1b
        mov     rbx, [rsp - 256]
        ret
end keeps_data_below_the_red_zone

begin runs_forever
1:      jmp     1b
end runs_forever

begin traps
        ud2
end traps
