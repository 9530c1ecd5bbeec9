// The dot product of arm64: of four bytes in each lane with a word of another vector.
#ifndef QN_ASM_ARM64_DOT_H
#define QN_ASM_ARM64_DOT_H

// sdot acc.4s, w.16b, a.4b[lane].  As a number, because no directive makes clang 14 take its name for every system.
.macro mac acc, w, a, lane
        .inst   0x4f80e000 + (\a) * 0x10000 + (\w) * 32 + (\acc) + (\lane) % 2 * 0x200000 + (\lane) / 2 * 0x800
.endm

#endif
