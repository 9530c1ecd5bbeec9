// stream/<loads>r<stores>w/<level>/<elements>: hand-written loops that only load and store, on the same arrays as the
// elementwise kernels: how fast any such kernel can be. One operation per element is counted.
#include "bench.h"

namespace quern {
namespace {

#if defined(__x86_64__)

// One vector per turn; n counts bytes down. `loads` 1 or 2; the second goes to a register nobody reads.
#define QN_STREAM(name, move, reg, vector_bytes, load2, store, end)                                                    \
  void name(size_t bytes, const float* a, const float* b, float* y) {                                                  \
    size_t i = 0;                                                                                                      \
    asm volatile("1:\n\t" move " (%[a], %[i]), %%" reg "0\n\t" load2(move, reg) store(move, reg) "add $" #vector_bytes \
                                                                                                 ", %[i]\n\t"          \
                                                                                                 "cmp %[n], %[i]\n\t"  \
                                                                                                 "jb 1b\n\t" end       \
                 : [i] "+r"(i)                                                                                         \
                 : [a] "r"(a), [b] "r"(b), [y] "r"(y), [n] "r"(bytes)                                                  \
                 : "cc", "memory", "xmm0", "xmm1");                                                                    \
  }
#define QN_NONE(move, reg)
#define QN_LOAD(move, reg) move " (%[b], %[i]), %%" reg "1\n\t"
#define QN_STORE(move, reg) move " %%" reg "0, (%[y], %[i])\n\t"

#define QN_STREAMS(level, move, reg, vector_bytes, end)                    \
  QN_STREAM(read_##level, move, reg, vector_bytes, QN_NONE, QN_NONE, end)  \
  QN_STREAM(copy_##level, move, reg, vector_bytes, QN_NONE, QN_STORE, end) \
  QN_STREAM(merge_##level, move, reg, vector_bytes, QN_LOAD, QN_STORE, end)
QN_STREAMS(avx512, "vmovups", "zmm", 64, "vzeroupper")
QN_STREAMS(avx2, "vmovups", "ymm", 32, "vzeroupper")
QN_STREAMS(sse41, "movups", "xmm", 16, "")

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
  measure(state, {elements, 4 * elements * static_cast<double>(stream.arrays)}, stream.isa, 1,
          [&] { stream.run(n * sizeof(float), a.data(), b.data(), y.data()); });
}

#endif

}  // namespace

void register_streams() {
#if defined(__x86_64__)
  for (const Stream& stream : streams) {
    if ((cpu().isa & stream.isa) == 0) continue;
    for (const size_t n : {2048, 14 * 14 * 256}) {
      benchmark::RegisterBenchmark((std::string(stream.name) + "/" + std::to_string(n)).c_str(),
                                   [&stream, n](benchmark::State& state) { bench_stream(state, stream, n); })
          ->Threads(1);
    }
  }
#endif
}

}  // namespace quern
