// stream/<loads>r<stores>w/<level>/<elements>: hand-written loops that only load and store, on the same arrays as the
// elementwise kernels. They show how fast such a kernel could be at most. Each element counts as one operation.
#include "bench.h"

namespace quern {
namespace {

#if defined(__x86_64__)

// Four vectors per turn. The second load goes to a register that nobody reads.
#define QN_STREAM(name, step, reg, vector_bytes, end)                                                              \
  void name(size_t bytes, const float* a, const float* b, float* y) {                                              \
    size_t i = 0;                                                                                                  \
    asm volatile("1:\n\t" step("0*" #vector_bytes, reg, "0") step("1*" #vector_bytes, reg, "1")                    \
                     step("2*" #vector_bytes, reg, "2") step("3*" #vector_bytes, reg, "3") "add $4*" #vector_bytes \
                                                                                           ", %[i]\n\t"            \
                                                                                           "cmp %[n], %[i]\n\t"    \
                                                                                           "jb 1b\n\t" end         \
                 : [i] "+r"(i)                                                                                     \
                 : [a] "r"(a), [b] "r"(b), [y] "r"(y), [n] "r"(bytes)                                              \
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");                \
  }
#define QN_READ(at, reg, i) reg(at "(%[a], %[i])", i)
#define QN_COPY(at, reg, i) QN_READ(at, reg, i) reg##_STORE(at "(%[y], %[i])", i)
#define QN_MERGE(at, reg, i) QN_READ(at, reg, i) reg(at "(%[b], %[i])", "4") reg##_STORE(at "(%[y], %[i])", i)

#define QN_ZMM(from, i) "vmovups " from ", %%zmm" i "\n\t"
#define QN_ZMM_STORE(to, i) "vmovups %%zmm" i ", " to "\n\t"
#define QN_YMM(from, i) "vmovups " from ", %%ymm" i "\n\t"
#define QN_YMM_STORE(to, i) "vmovups %%ymm" i ", " to "\n\t"
#define QN_XMM(from, i) "movups " from ", %%xmm" i "\n\t"
#define QN_XMM_STORE(to, i) "movups %%xmm" i ", " to "\n\t"

#define QN_STREAMS(level, reg, vector_bytes, end)          \
  QN_STREAM(read_##level, QN_READ, reg, vector_bytes, end) \
  QN_STREAM(copy_##level, QN_COPY, reg, vector_bytes, end) \
  QN_STREAM(merge_##level, QN_MERGE, reg, vector_bytes, end)
QN_STREAMS(avx512, QN_ZMM, 64, "vzeroupper")
QN_STREAMS(avx2, QN_YMM, 32, "vzeroupper")
QN_STREAMS(sse41, QN_XMM, 16, "")

struct Stream {
  const char* name;
  uint32_t isa;
  size_t arrays;
  void (*run)(size_t bytes, const float* a, const float* b, float* y);
};
constexpr Stream streams[] = {
    {"stream/1r0w/avx512", isa_avx512, 1, read_avx512},  {"stream/1r1w/avx512", isa_avx512, 2, copy_avx512},
    {"stream/2r1w/avx512", isa_avx512, 3, merge_avx512}, {"stream/1r0w/avx2", isa_avx2, 1, read_avx2},
    {"stream/1r1w/avx2", isa_avx2, 2, copy_avx2},        {"stream/2r1w/avx2", isa_avx2, 3, merge_avx2},
    {"stream/1r0w/sse41", isa_sse41, 1, read_sse41},     {"stream/1r1w/sse41", isa_sse41, 2, copy_sse41},
    {"stream/2r1w/sse41", isa_sse41, 3, merge_sse41},
};

void bench_stream(benchmark::State& state, const Stream& stream, size_t n) {
  const Floats a(n), b(n), y(n);
  const auto elements = static_cast<double>(n);
  measure(state, {elements, 4 * elements * static_cast<double>(stream.arrays)},
          PeakMeter(loop_of(stream.isa, PeakOf::floats)),
          [&] { stream.run(n * sizeof(float), a.data(), b.data(), y.data()); });
}

#endif

}  // namespace

void register_streams() {
#if defined(__x86_64__)
  for (const Stream& stream : streams) {
    if ((cpu().isa & stream.isa) == 0) continue;
    for (const size_t n : {2048, 14 * 14 * 256, 512 * 1000, 4096 * 1024}) {  // the last two are large weights of bytes
      benchmark::RegisterBenchmark(text(stream.name, "/", n).c_str(), [&stream, n](benchmark::State& state) {
        bench_stream(state, stream, n);
      })->Threads(1);
    }
  }
#endif
}

}  // namespace quern
