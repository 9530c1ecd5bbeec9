// The registers that a function for cores that issue in order saves, whatever its tile.
#ifndef QN_ASM_ARM64_INORDER_H
#define QN_ASM_ARM64_INORDER_H

#include "asm.h"

#define INORDER_FRAME 96                // bytes of saved registers

.macro save_inorder
        save    d8, d9
        save    d10, d11
        save    d12, d13
        save    d14, d15
        save    x23, x24
        save    x25, x26
.endm

.macro restore_inorder
        restore x25, x26
        restore x23, x24
        restore d14, d15
        restore d12, d13
        restore d10, d11
        restore d8, d9
.endm

#endif
