#include "peak/peak.h"

#include "base/cpu.h"

namespace quern {
namespace {

// The loops are inline assembly, because a compiler may change or remove a loop whose result nobody uses. Every
// accumulator depends only on itself. To keep a core busy, it takes as many accumulators as the core has multiply-add
// units times cycles of latency; the loops have more than any core needs. The other registers are operands. Neighbours
// multiply different ones, so that the bits at the inputs of the multipliers change with every instruction.
//
// Without dot products, int8 takes several instructions, those of the level's kernels: x86 multiplies pairs of 16-bit
// numbers and adds the sums of two products, ARM adds two products of bytes, then pairs of these sums.

// op(accumulator, operand, operand)
#define QN_FOR_8(op) \
  op(0, 12, 14) op(1, 13, 15) op(2, 12, 15) op(3, 13, 14) op(4, 12, 14) op(5, 13, 15) op(6, 12, 15) op(7, 13, 14)
#define QN_FOR_12(op) QN_FOR_8(op) op(8, 12, 14) op(9, 13, 15) op(10, 12, 15) op(11, 13, 14)
#define QN_FOR_14_OF_32(op)                                                                                       \
  op(0, 14, 31) op(1, 15, 30) op(2, 16, 29) op(3, 17, 28) op(4, 18, 27) op(5, 19, 26) op(6, 20, 25) op(7, 21, 24) \
      op(8, 22, 23) op(9, 23, 31) op(10, 24, 30) op(11, 25, 29) op(12, 26, 28) op(13, 27, 14)

// op(register)
#define QN_LOW_12(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define QN_LOW_14(op) QN_LOW_12(op) op(12) op(13)
#define QN_LOW_16(op) QN_LOW_14(op) op(14) op(15)
#define QN_LOW_24(op) QN_LOW_16(op) op(16) op(17) op(18) op(19) op(20) op(21) op(22) op(23)
#define QN_ALL_32(op) QN_LOW_24(op) op(24) op(25) op(26) op(27) op(28) op(29) op(30) op(31)

#if defined(__x86_64__)

#define QN_XMM(i) "xmm" #i,

#define QN_LOOP(start, body, end, used)                                     \
  asm volatile(start ".p2align 6\n1:\n\t" body "dec %[n]\n\tjnz 1b\n\t" end \
               : [n] "+r"(turns)                                            \
               : [r] "r"(registers)                                         \
               : used(QN_XMM) "cc", "memory")
#define QN_LOAD_512(i) "vmovups 64*" #i "(%[r]), %%zmm" #i "\n\t"
#define QN_STORE_512(i) "vmovups %%zmm" #i ", 64*" #i "(%[r])\n\t"
#define QN_LOAD_256(i) "vmovups 32*" #i "(%[r]), %%ymm" #i "\n\t"
#define QN_STORE_256(i) "vmovups %%ymm" #i ", 32*" #i "(%[r])\n\t"
#define QN_LOAD_128(i) "movups 16*" #i "(%[r]), %%xmm" #i "\n\t"
#define QN_STORE_128(i) "movups %%xmm" #i ", 16*" #i "(%[r])\n\t"

#define QN_ADD_512(i, a, b) "vfmadd231ps %%zmm" #a ", %%zmm" #b ", %%zmm" #i "\n\t"
#define QN_SUBTRACT_512(i, a, b) "vfnmadd231ps %%zmm" #a ", %%zmm" #b ", %%zmm" #i "\n\t"
#define QN_DOT_512(i, a, b) "vpdpbusd %%zmm" #a ", %%zmm" #b ", %%zmm" #i "\n\t"
#define QN_ADD_256(i, a, b) "vfmadd231ps %%ymm" #a ", %%ymm" #b ", %%ymm" #i "\n\t"
#define QN_SUBTRACT_256(i, a, b) "vfnmadd231ps %%ymm" #a ", %%ymm" #b ", %%ymm" #i "\n\t"
#define QN_DOT_256(i, a, b) "%{vex%} vpdpbusd %%ymm" #a ", %%ymm" #b ", %%ymm" #i "\n\t"
#define QN_PAIRS_256(i, a, b) \
  "vpmaddwd %%ymm" #a ", %%ymm" #b ", %%ymm11\n\tvpaddd %%ymm11, %%ymm" #i ", %%ymm" #i "\n\t"
// Before AVX a product replaces one of its operands, so that kernels copy it first.
#define QN_PAIRS_128(i, a, b) \
  "movdqa %%xmm" #a ", %%xmm11\n\tpmaddwd %%xmm" #b ", %%xmm11\n\tpaddd %%xmm11, %%xmm" #i "\n\t"

#define QN_LOOP_512(body) QN_LOOP(QN_ALL_32(QN_LOAD_512), body, QN_LOW_14(QN_STORE_512) "vzeroupper", QN_ALL_32)
#define QN_LOOP_256(body) QN_LOOP(QN_LOW_16(QN_LOAD_256), body, QN_LOW_12(QN_STORE_256) "vzeroupper", QN_LOW_16)

#define QN_LOOP_128(body) QN_LOOP(QN_LOW_16(QN_LOAD_128), body, QN_LOW_12(QN_STORE_128), QN_LOW_16)
[[gnu::target("avx512f")]] void fma_512(size_t turns, void* registers) {
  QN_LOOP_512(QN_FOR_14_OF_32(QN_ADD_512) QN_FOR_14_OF_32(QN_SUBTRACT_512));
}
[[gnu::target("avx512f")]] void dot_512(size_t turns, void* registers) { QN_LOOP_512(QN_FOR_14_OF_32(QN_DOT_512)); }
void fma_256(size_t turns, void* registers) { QN_LOOP_256(QN_FOR_12(QN_ADD_256) QN_FOR_12(QN_SUBTRACT_256)); }
void dot_256(size_t turns, void* registers) { QN_LOOP_256(QN_FOR_12(QN_DOT_256)); }
void pairs_256(size_t turns, void* registers) { QN_LOOP_256(QN_FOR_8(QN_PAIRS_256)); }
void pairs_128(size_t turns, void* registers) { QN_LOOP_128(QN_FOR_8(QN_PAIRS_128)); }

#define QN_MULTIPLY_128(a, b) "movaps %%xmm" #a ", %%xmm11\n\tmulps %%xmm" #b ", %%xmm11\n\t"
#define QN_ADD_128(i, a, b) QN_MULTIPLY_128(a, b) "addps %%xmm11, %%xmm" #i "\n\t"
#define QN_SUBTRACT_128(i, a, b) QN_MULTIPLY_128(a, b) "subps %%xmm11, %%xmm" #i "\n\t"
void multiply_add_128(size_t turns, void* registers) { QN_LOOP_128(QN_FOR_8(QN_ADD_128) QN_FOR_8(QN_SUBTRACT_128)); }

// Tiles of 16 rows, of 64 bytes each.
struct TileShapes {
  uint8_t palette = 1, zeros[15] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define QN_LOAD_TILE(i) "tileloadd 1024*" #i "(%[r], %[stride]), %%tmm" #i "\n\t"
#define QN_STORE_TILE(i) "tilestored %%tmm" #i ", 1024*" #i "(%[r], %[stride])\n\t"
#define QN_DOT_TILE(i, a, b) "tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #i "\n\t"
#define QN_LOW_4(op) op(0) op(1) op(2) op(3)

void dot_tiles(size_t turns, void* registers) {
  static const TileShapes shapes;
  asm volatile("ldtilecfg %[shapes]\n\t" QN_LOW_4(QN_LOAD_TILE) QN_LOAD_TILE(4) QN_LOAD_TILE(5) QN_LOAD_TILE(6)
                   QN_LOAD_TILE(7) ".p2align 6\n1:\n\t" QN_DOT_TILE(0, 4, 6) QN_DOT_TILE(1, 4, 7) QN_DOT_TILE(2, 5, 6)
                       QN_DOT_TILE(3, 5, 7) "dec %[n]\n\tjnz 1b\n\t" QN_LOW_4(QN_STORE_TILE) "tilerelease"
               : [n] "+r"(turns)
               : [shapes] "m"(shapes), [r] "r"(registers), [stride] "r"(size_t{64})
               : "cc", "memory");
}

constexpr PeakLoop loops[] = {
    {isa_avx512, PeakOf::floats, 2 * 14 * 16 * 2, 14, 64, fma_512},
    {isa_avx2, PeakOf::floats, 2 * 12 * 8 * 2, 12, 32, fma_256},
    {isa_sse41, PeakOf::floats, 2 * 8 * 4 * 2, 8, 16, multiply_add_128},
    {isa_ref, PeakOf::floats, 2 * 8 * 4 * 2, 8, 16, multiply_add_128},
    {isa_amxint8, PeakOf::bytes, 4 * 16 * 16 * 64 * 2, 4, 1024, dot_tiles},
    {isa_avx512vnni, PeakOf::bytes, 14 * 64 * 2, 14, 64, dot_512},
    {isa_avxvnni, PeakOf::bytes, 12 * 32 * 2, 12, 32, dot_256},
    {isa_avx2, PeakOf::bytes, 8 * 16 * 2, 8, 32, pairs_256},
    {isa_sse41, PeakOf::bytes, 8 * 8 * 2, 8, 16, pairs_128},
};

#elif defined(__aarch64__)

// op(accumulator, operand, operand)
#define QN_FOR_24(op)                                                                                              \
  op(0, 24, 28) op(1, 25, 29) op(2, 26, 30) op(3, 27, 31) op(4, 24, 29) op(5, 25, 30) op(6, 26, 31) op(7, 27, 28)  \
      op(8, 24, 30) op(9, 25, 31) op(10, 26, 28) op(11, 27, 29) op(12, 24, 31) op(13, 25, 28) op(14, 26, 29)       \
          op(15, 27, 30) op(16, 24, 28) op(17, 25, 29) op(18, 26, 30) op(19, 27, 31) op(20, 24, 29) op(21, 25, 30) \
              op(22, 26, 31) op(23, 27, 28)
#define QN_VECTOR(i) "v" #i,

#define QN_LOOP(body)                                                                                    \
  asm volatile(QN_ALL_32(QN_LOAD) "1:\n\t" body "subs %[n], %[n], #1\n\tb.ne 1b\n\t" QN_LOW_24(QN_STORE) \
               : [n] "+r"(turns)                                                                         \
               : [r] "r"(registers)                                                                      \
               : QN_ALL_32(QN_VECTOR) "cc", "memory")
#define QN_LOAD(i) "ldr q" #i ", [%[r], #16*" #i "]\n\t"
#define QN_STORE(i) "str q" #i ", [%[r], #16*" #i "]\n\t"
#define QN_ADD(i, a, b) "fmla v" #i ".4s, v" #a ".4s, v" #b ".4s\n\t"
#define QN_SUBTRACT(i, a, b) "fmls v" #i ".4s, v" #a ".4s, v" #b ".4s\n\t"
// Products of v28 to v31 in v24 to v27, which four sums then add.
#define QN_MULTIPLY(t, a, b, c, d) \
  "smull v" #t ".8h, v" #a ".8b, v" #b ".8b\n\tsmlal2 v" #t ".8h, v" #c ".16b, v" #d ".16b\n\t"
#define QN_PAIRS(sum, t) "sadalp v" #sum ".4s, v" #t ".8h\n\t"
#define QN_BYTES(a, b, c, d)      \
  QN_MULTIPLY(24, 28, 30, 29, 31) \
  QN_MULTIPLY(25, 29, 31, 28, 30) \
  QN_MULTIPLY(26, 28, 31, 29, 30) \
  QN_MULTIPLY(27, 29, 30, 28, 31) QN_PAIRS(a, 24) QN_PAIRS(b, 25) QN_PAIRS(c, 26) QN_PAIRS(d, 27)
// sdot and smmla. As numbers, because no directive makes clang 14 take their names for every system.
#define QN_DOT(i, a, b) ".inst 0x4e809400 + " #b " * 0x10000 + " #a " * 32 + " #i "\n\t"
#define QN_MATRIX(i, a, b) ".inst 0x4e80a400 + " #b " * 0x10000 + " #a " * 32 + " #i "\n\t"
void fma_neon(size_t turns, void* registers) { QN_LOOP(QN_FOR_24(QN_ADD) QN_FOR_24(QN_SUBTRACT)); }
void bytes_neon(size_t turns, void* registers) {
  QN_LOOP(QN_BYTES(0, 1, 2, 3) QN_BYTES(4, 5, 6, 7) QN_BYTES(8, 9, 10, 11) QN_BYTES(12, 13, 14, 15)
              QN_BYTES(16, 17, 18, 19) QN_BYTES(20, 21, 22, 23));
}
void dot(size_t turns, void* registers) { QN_LOOP(QN_FOR_24(QN_DOT)); }
void matrix(size_t turns, void* registers) { QN_LOOP(QN_FOR_24(QN_MATRIX)); }

constexpr PeakLoop loops[] = {
    {isa_neon, PeakOf::floats, 2 * 24 * 4 * 2, 24, 16, fma_neon},
    {isa_ref, PeakOf::floats, 2 * 24 * 4 * 2, 24, 16, fma_neon},
    {isa_neon, PeakOf::bytes, 24 * 16 * 2, 24, 16, bytes_neon},
    {isa_dotprod, PeakOf::bytes, 24 * 16 * 2, 24, 16, dot},
    {isa_i8mm, PeakOf::bytes, 24 * 32 * 2, 24, 16, matrix},
};

#elif defined(__arm__)

#define QN_LOOP(load, body, store, ...)                                     \
  asm volatile(load "1:\n\t" body "subs %[n], %[n], #1\n\tbne 1b\n\t" store \
               : [n] "+r"(turns), [r] "+r"(registers)                       \
               :                                                            \
               : __VA_ARGS__, "cc", "memory")
#define QN_LOW_Q "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"
#define QN_ALL_Q QN_LOW_Q, "q8", "q9", "q10", "q11", "q12", "q13", "q14", "q15"
#define QN_LOAD_Q "vldmia %[r]!, {d0-d15}\n\tvldmia %[r], {d16-d31}\n\tsub %[r], %[r], #128\n\t"
#define QN_STORE_Q "vstmia %[r]!, {d0-d15}\n\tvstmia %[r], {d16-d23}"
#define QN_LOAD_S "vldmia %[r], {s0-s31}\n\t"
#define QN_STORE_S "vstmia %[r], {s0-s13}"

#define QN_ADD_FUSED(i, a, b) "vfma.f32 q" #i ", q" #a ", q" #b "\n\t"
#define QN_SUBTRACT_FUSED(i, a, b) "vfms.f32 q" #i ", q" #a ", q" #b "\n\t"
#define QN_ADD_Q(i, a, b) "vmla.f32 q" #i ", q" #a ", q" #b "\n\t"
#define QN_SUBTRACT_Q(i, a, b) "vmls.f32 q" #i ", q" #a ", q" #b "\n\t"
#define QN_ADD_S(i, a, b) "vmla.f32 s" #i ", s" #a ", s" #b "\n\t"
#define QN_SUBTRACT_S(i, a, b) "vmls.f32 s" #i ", s" #a ", s" #b "\n\t"
// Products of d24 to d31 in q8 to q11, which four sums then add.
#define QN_MULTIPLY(t, a, b, c, d) "vmull.s8 q" #t ", d" #a ", d" #b "\n\tvmlal.s8 q" #t ", d" #c ", d" #d "\n\t"
#define QN_PAIRS(sum, t) "vpadal.s16 q" #sum ", q" #t "\n\t"
#define QN_BYTES(a, b, c, d)      \
  QN_MULTIPLY(8, 24, 28, 25, 29)  \
  QN_MULTIPLY(9, 26, 30, 27, 31)  \
  QN_MULTIPLY(10, 24, 30, 25, 31) \
  QN_MULTIPLY(11, 26, 28, 27, 29) QN_PAIRS(a, 8) QN_PAIRS(b, 9) QN_PAIRS(c, 10) QN_PAIRS(d, 11)

[[gnu::target("fpu=neon-vfpv4")]] void fma_neonfma(size_t turns, void* registers) {
  QN_LOOP(QN_LOAD_Q, QN_FOR_12(QN_ADD_FUSED) QN_FOR_12(QN_SUBTRACT_FUSED), QN_STORE_Q, QN_ALL_Q);
}
[[gnu::target("fpu=neon")]] void multiply_add_neon(size_t turns, void* registers) {
  QN_LOOP(QN_LOAD_Q, QN_FOR_12(QN_ADD_Q) QN_FOR_12(QN_SUBTRACT_Q), QN_STORE_Q, QN_ALL_Q);
}
[[gnu::target("fpu=neon")]] void bytes_neon(size_t turns, void* registers) {
  QN_LOOP(QN_LOAD_Q, QN_BYTES(0, 1, 2, 3) QN_BYTES(4, 5, 6, 7), QN_STORE_Q, QN_ALL_Q);
}
void multiply_add_vfp(size_t turns, void* registers) {
  QN_LOOP(QN_LOAD_S, QN_FOR_14_OF_32(QN_ADD_S) QN_FOR_14_OF_32(QN_SUBTRACT_S), QN_STORE_S, QN_LOW_Q);
}

constexpr PeakLoop loops[] = {
    {isa_neonfma, PeakOf::floats, 2 * 12 * 4 * 2, 12, 16, fma_neonfma},
    {isa_neon, PeakOf::floats, 2 * 12 * 4 * 2, 12, 16, multiply_add_neon},
    {isa_neon, PeakOf::bytes, 8 * 16 * 2, 8, 16, bytes_neon},
    {isa_ref, PeakOf::floats, 2 * 14 * 2, 14, 4, multiply_add_vfp},
};

#endif

}  // namespace

PeakRegisters::PeakRegisters(PeakOf of) {
  uint32_t state = 1;
  for (uint32_t& word : words_) {
    const auto random = [&] { return (state = state * 1664525u + 1013904223u) >> 16; };
    const uint32_t bits = random() << 16 | random();
    // With the exponent of 0.5. The sign and the fraction are random.
    word = of == PeakOf::floats ? (bits & 0x807fffff) | 0x3f000000 : bits;
  }
}

std::span<const PeakLoop> all_peak_loops() { return loops; }

}  // namespace quern
