#include "peak/peak.h"

#include <quern/base.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/cpu.h"

namespace quern {
namespace {

// The loops are inline assembly, because a compiler may change or remove a loop whose result nobody uses. Every
// accumulator depends only on itself. To keep a core busy, it takes as many accumulators as the core has multiply-add
// units times cycles of latency; the loops have more than any core needs. The operands of the fused loops are tiny, so
// that the sums stay finite.
//
// Without dot products, bytes take several instructions, those of the level's kernels: x86 multiplies pairs of 16-bit
// numbers and adds the sums of two products, ARM adds two products of bytes, then pairs of these sums.
constexpr float operand = 1e-6f;

struct Loop {
  uint32_t isa;
  PeakOf of;
  size_t operations;  // in one turn of the loop
  void (*run)(size_t turns);
};

#define QN_FOR_14(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13)

#if defined(__x86_64__)

#define QN_FOR_12(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define QN_ZERO(i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define QN_XMM_CLOBBERS                                                                                               \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"

// Defines a function whose loop multiplies two vectors, 14 and 15, and adds the products to others.
#define QN_LOOP(name, reg, all, multiply_add)                                 \
  void name(size_t turns) {                                                   \
    asm volatile(QN_FOR_14(QN_ZERO) "vbroadcastss %[x], %%" #reg "14\n\t"   \
                 "vbroadcastss %[x], %%" #reg "15\n"                        \
                 "1:\n\t" all(multiply_add) "dec %[n]\n\t"                 \
                 "jnz 1b\n\t"                                               \
                 "vzeroupper"                                               \
                 : [n] "+r"(turns)                                          \
                 : [x] "m"(operand)                                         \
                 : "cc", QN_XMM_CLOBBERS); \
  }
#define QN_FMA_512(i) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" #i "\n\t"
#define QN_FMA_256(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n\t"
#define QN_DOT_512(i) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #i "\n\t"
#define QN_DOT_256(i) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #i "\n\t"
#define QN_PAIRS_256(i) "vpmaddwd %%ymm14, %%ymm15, %%ymm13\n\tvpaddd %%ymm13, %%ymm" #i ", %%ymm" #i "\n\t"
QN_LOOP(fma_512, zmm, QN_FOR_14, QN_FMA_512)
QN_LOOP(fma_256, ymm, QN_FOR_14, QN_FMA_256)
QN_LOOP(dot_512, zmm, QN_FOR_14, QN_DOT_512)
QN_LOOP(dot_256, ymm, QN_FOR_14, QN_DOT_256)
QN_LOOP(pairs_256, ymm, QN_FOR_12, QN_PAIRS_256)

// Computes eight products 1 * 1 and eight sums 0 + 0. Every accumulator is also its own operand, so no register is
// spent on other operands and all sixteen can be accumulators.
void multiply_add_128(size_t turns) {
  static constexpr float one = 1;
#define QN_START(product, sum)                   \
  "movss %[one], %%xmm" #product                 \
  "\n\t"                                         \
  "shufps $0, %%xmm" #product ", %%xmm" #product \
  "\n\t"                                         \
  "xorps %%xmm" #sum ", %%xmm" #sum "\n\t"
#define QN_PAIR(product, sum)               \
  "mulps %%xmm" #product ", %%xmm" #product \
  "\n\t"                                    \
  "addps %%xmm" #sum ", %%xmm" #sum "\n\t"
#define QN_FOR_8_PAIRS(op) op(0, 1) op(2, 3) op(4, 5) op(6, 7) op(8, 9) op(10, 11) op(12, 13) op(14, 15)
  asm volatile(QN_FOR_8_PAIRS(QN_START) "1:\n\t" QN_FOR_8_PAIRS(QN_PAIR) QN_FOR_8_PAIRS(QN_PAIR) "dec %[n]\n\t"
               "jnz 1b"
               : [n] "+r"(turns)
               : [one] "m"(one)
               : "cc", QN_XMM_CLOBBERS);
}

// Pairs with SSE4.1, whose products replace one of their operands, so that it is copied before. What the operands,
// xmm13 and xmm15, hold does not matter: integers of any value take as long.
void pairs_128(size_t turns) {
#define QN_ZERO_128(i) "pxor %%xmm" #i ", %%xmm" #i "\n\t"
#define QN_PAIRS_128(i) "movdqa %%xmm15, %%xmm14\n\tpmaddwd %%xmm13, %%xmm14\n\tpaddd %%xmm14, %%xmm" #i "\n\t"
  asm volatile(QN_FOR_12(QN_ZERO_128) "1:\n\t" QN_FOR_12(QN_PAIRS_128) "dec %[n]\n\t"
               "jnz 1b"
               : [n] "+r"(turns)
               :
               : "cc", QN_XMM_CLOBBERS);
}

constexpr Loop loops[] = {
    {isa_avx512, PeakOf::floats, 14 * 16 * 2, fma_512},        {isa_avx2, PeakOf::floats, 14 * 8 * 2, fma_256},
    {isa_sse41, PeakOf::floats, 2 * 16 * 4, multiply_add_128}, {isa_ref, PeakOf::floats, 2 * 16 * 4, multiply_add_128},
    {isa_avx512vnni, PeakOf::bytes, 14 * 64 * 2, dot_512},     {isa_avxvnni, PeakOf::bytes, 14 * 32 * 2, dot_256},
    {isa_avx2, PeakOf::bytes, 12 * 16 * 2, pairs_256},         {isa_sse41, PeakOf::bytes, 12 * 8 * 2, pairs_128},
};

#elif defined(__aarch64__)

#define QN_FOR_24(op)                                                                                                 \
  op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13) op(14) op(15) op(16) op(17) \
      op(18) op(19) op(20) op(21) op(22) op(23)
#define QN_FOR_6_FOURS(op) \
  op(0, 1, 2, 3) op(4, 5, 6, 7) op(8, 9, 10, 11) op(12, 13, 14, 15) op(16, 17, 18, 19) op(20, 21, 22, 23)
#define QN_ZERO(i) "movi v" #i ".4s, #0\n\t"
#define QN_CLOBBER(i) "v" #i,

// Defines a function whose loop multiplies v30 by v31 and adds the products to the others.
#define QN_LOOP(name, all, multiply_add)                                 \
  void name(size_t turns) {                                              \
    asm volatile(QN_FOR_24(QN_ZERO) "dup v30.4s, %w[x]\n\t"            \
                 "dup v31.4s, %w[x]\n"                                           \
                 "1:\n\t" all(multiply_add) "subs %[n], %[n], #1\n\t"           \
                 "b.ne 1b"                                                        \
                 : [n] "+r"(turns)                                                \
                 : [x] "r"(__builtin_bit_cast(uint32_t, operand))                 \
                 : QN_FOR_24(QN_CLOBBER) QN_SUMS(QN_CLOBBER) "v30", "v31", "cc"); \
  }
#define QN_FMA(i) "fmla v" #i ".4s, v30.4s, v31.4s\n\t"
#define QN_SUMS(op) op(24) op(25) op(26) op(27)
#define QN_LOWER(i) "smull v" #i ".8h, v30.8b, v31.8b\n\t"
#define QN_UPPER(i) "smlal2 v" #i ".8h, v30.16b, v31.16b\n\t"
#define QN_ADD(sum, i) "sadalp v" #sum ".4s, v" #i ".8h\n\t"
#define QN_BYTES(a, b, c, d) QN_SUMS(QN_LOWER) QN_SUMS(QN_UPPER) QN_ADD(a, 24) QN_ADD(b, 25) QN_ADD(c, 26) QN_ADD(d, 27)
// sdot and smmla. As numbers, because no directive makes clang 14 take their names for every system.
#define QN_DOT(i) ".inst 0x4e809400 + 31 * 0x10000 + 30 * 32 + " #i "\n\t"
#define QN_MATRIX(i) ".inst 0x4e80a400 + 31 * 0x10000 + 30 * 32 + " #i "\n\t"
QN_LOOP(fma_neon, QN_FOR_24, QN_FMA)
QN_LOOP(bytes_neon, QN_FOR_6_FOURS, QN_BYTES)
QN_LOOP(dot, QN_FOR_24, QN_DOT)
QN_LOOP(matrix, QN_FOR_24, QN_MATRIX)

constexpr Loop loops[] = {
    {isa_neon, PeakOf::floats, 24 * 4 * 2, fma_neon},   {isa_ref, PeakOf::floats, 24 * 4 * 2, fma_neon},
    {isa_neon, PeakOf::bytes, 24 * 16 * 2, bytes_neon}, {isa_dotprod, PeakOf::bytes, 24 * 16 * 2, dot},
    {isa_i8mm, PeakOf::bytes, 24 * 32 * 2, matrix},
};

#elif defined(__arm__)

#define QN_ZERO_NEON(i) "vmov.i32 q" #i ", #0\n\t"
#define QN_ZERO_VFP(i) "vmov s" #i ", %[zero]\n\t"
#define QN_FMA_NEON(i) "vfma.f32 q" #i ", q14, q15\n\t"
#define QN_MLA_NEON(i) "vmla.f32 q" #i ", q14, q15\n\t"
#define QN_FOR_2_FOURS(op) op(0, 1, 2, 3) op(4, 5, 6, 7)
#define QN_SUMS(op) op(8) op(9) op(10) op(11)
#define QN_LOWER(i) "vmull.s8 q" #i ", d28, d30\n\t"
#define QN_UPPER(i) "vmlal.s8 q" #i ", d29, d31\n\t"
#define QN_ADD(sum, i) "vpadal.s16 q" #sum ", q" #i "\n\t"
#define QN_BYTES(a, b, c, d) QN_SUMS(QN_LOWER) QN_SUMS(QN_UPPER) QN_ADD(a, 8) QN_ADD(b, 9) QN_ADD(c, 10) QN_ADD(d, 11)
#define QN_MLA_VFP(i) "vmla.f32 s" #i ", s14, s15\n\t"

#define QN_LOOP(start, all, multiply_add, ...) \
  asm volatile(start "1:\n\t" all(multiply_add) "subs %[n], %[n], #1\n\t"  \
               "bne 1b"                                                          \
               : [n] "+r"(turns)                                                 \
               : [x] "r"(__builtin_bit_cast(uint32_t, operand)), [zero] "r"(0)   \
               : "cc", __VA_ARGS__)
#define QN_START_NEON QN_FOR_14(QN_ZERO_NEON) "vdup.32 q14, %[x]\n\tvdup.32 q15, %[x]\n"
#define QN_START_VFP QN_FOR_14(QN_ZERO_VFP) "vmov s14, %[x]\n\tvmov s15, %[x]\n"
#define QN_LOW_CLOBBERS "q0", "q1", "q2", "q3"
#define QN_NEON_CLOBBERS QN_LOW_CLOBBERS, "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12", "q13", "q14", "q15"

[[gnu::target("fpu=neon-vfpv4")]] void fma_neonfma(size_t turns) {
  QN_LOOP(QN_START_NEON, QN_FOR_14, QN_FMA_NEON, QN_NEON_CLOBBERS);
}
[[gnu::target("fpu=neon")]] void multiply_add_neon(size_t turns) {
  QN_LOOP(QN_START_NEON, QN_FOR_14, QN_MLA_NEON, QN_NEON_CLOBBERS);
}
[[gnu::target("fpu=neon")]] void bytes_neon(size_t turns) {
  QN_LOOP(QN_START_NEON, QN_FOR_2_FOURS, QN_BYTES, QN_NEON_CLOBBERS);
}
void multiply_add_vfp(size_t turns) { QN_LOOP(QN_START_VFP, QN_FOR_14, QN_MLA_VFP, QN_LOW_CLOBBERS); }

constexpr Loop loops[] = {{isa_neonfma, PeakOf::floats, 14 * 4 * 2, fma_neonfma},
                          {isa_neon, PeakOf::floats, 14 * 4 * 2, multiply_add_neon},
                          {isa_neon, PeakOf::bytes, 8 * 16 * 2, bytes_neon},
                          {isa_ref, PeakOf::floats, 14 * 2, multiply_add_vfp}};

#endif

double seconds_of(const Loop& loop, size_t turns) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  loop.run(turns);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Takes the best of many short runs, because an interruption only makes a run longer. The first runs also bring the
// core to its full clock.
double peak_of(const Loop& loop) {
  constexpr size_t turns = 20000;
  double best = seconds_of(loop, turns), total = best;
  while (total < 0.03) {
    const double seconds = seconds_of(loop, turns);
    best = std::min(best, seconds);
    total += seconds;
  }
  return static_cast<double>(loop.operations * turns) / best;
}

}  // namespace

std::vector<Peak> measure_peaks() {
  std::vector<Peak> peaks;
  for (const Loop& loop : loops) {
    if ((loop.isa & ~cpu().isa) == 0) peaks.push_back({loop.isa, loop.of, peak_of(loop)});
  }
  return peaks;
}

double measure_peak_flops(uint32_t isa) {
  for (const Loop& loop : loops) {
    if (loop.isa == isa && loop.of == PeakOf::floats) return peak_of(loop);
  }
  return 0;
}

double measure_peak_of_bytes() {
  double best = 0;
  for (const Loop& loop : loops) {
    if (loop.of == PeakOf::bytes && (loop.isa & ~cpu().isa) == 0) best = std::max(best, peak_of(loop));
  }
  return best;
}

uint32_t best_isa() { return float_level(); }

}  // namespace quern
