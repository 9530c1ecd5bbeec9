// The bad kernels: those of the machine from the table of this ISA, those of memory and numbers here, as the reference
// with something done before or after it.
#include "kernel/dwconv.h"
#include "kernel/eltwise.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/pool.h"
#include "selftest.h"

#if QN_ARCH_X86_64
#define BAD_TABLE "bad_x86.inc"
#else
#define BAD_TABLE "bad_arm64.inc"
#endif

extern "C" {
#define BAD(name, finding, isa)                                                                           \
  void bad_##name(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c, \
                  size_t c_stride, const qn_minmax_f32* p);
#include BAD_TABLE
#undef BAD
}

namespace quern::check {
namespace {

// Accesses that the compiler may not leave out or reorder.
float read(const void* base, size_t bytes) {
  return *reinterpret_cast<const volatile float*>(static_cast<const char*>(base) + bytes);
}
void write(void* base, size_t bytes, float value) {
  *reinterpret_cast<volatile float*>(static_cast<char*>(base) + bytes) = value;
}

// --- gemm ---

#define GEMM_ARGUMENTS                                                                                               \
  [[maybe_unused]] size_t mr, [[maybe_unused]] size_t nc, [[maybe_unused]] size_t k, [[maybe_unused]] const void *a, \
      [[maybe_unused]] size_t a_stride, [[maybe_unused]] const void *w, [[maybe_unused]] void *c,                    \
      [[maybe_unused]] size_t c_stride, [[maybe_unused]] const qn_minmax_f32 *p
#define GEMM_REFERENCE qn_gemm_f32_4x8_ref(mr, nc, k, a, a_stride, w, c, c_stride, p)

size_t last_row(size_t mr, size_t stride) { return (mr - 1) * stride; }

void reads_past_a(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(a, last_row(mr, a_stride) + k);
}
void reads_before_a(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(a, size_t{0} - 4);
}
void reads_past_w(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(w, (nc + 7) / 8 * 8 * (k + 4) + 32);
}
void reads_past_p(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(p, sizeof *p);
}
void writes_past_c(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  write(c, last_row(mr, c_stride) + nc * 4, 0);
}
void writes_before_c(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  write(c, size_t{0} - 4, 0);
}
void writes_a_gap_of_c(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  if (mr > 1 && c_stride > nc * 4) write(c, nc * 4, 0);
}
void restores_what_it_overwrote_past_c(GEMM_ARGUMENTS) {  // a race with whoever owns it
  GEMM_REFERENCE;
  const size_t end = last_row(mr, c_stride) + nc * 4;
  const float old = read(c, end);
  write(c, end, 1);
  write(c, end, old);
}
void writes_to_a(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  write(const_cast<void*>(a), 0, 0);
}
void writes_to_w(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  write(const_cast<void*>(w), 0, 0);
}
void leaves_the_last_lane(GEMM_ARGUMENTS) {
  if (nc > 1) qn_gemm_f32_4x8_ref(mr, nc - 1, k, a, a_stride, w, c, c_stride, p);
}
void leaves_the_last_row(GEMM_ARGUMENTS) {
  if (mr > 1) qn_gemm_f32_4x8_ref(mr - 1, nc, k, a, a_stride, w, c, c_stride, p);
}
void stops_before_the_last_k(GEMM_ARGUMENTS) {
  for (size_t n = 0; n < nc; n += 8) {  // panel by panel, for their distance is that of the whole k
    const size_t count = nc - n < 8 ? nc - n : 8;
    const auto* panel = static_cast<const char*>(w) + n * (k + 4);
    qn_gemm_f32_4x8_ref(mr, count, k > 64 ? k - 4 : k, a, a_stride, panel, static_cast<float*>(c) + n, c_stride, p);
  }
}
void ignores_a_stride(GEMM_ARGUMENTS) { qn_gemm_f32_4x8_ref(mr, nc, k, a, k, w, c, c_stride, p); }

// A row of outputs by a formula of one output.
template <class Formula>
void gemm_by(GEMM_ARGUMENTS, Formula formula) {
  for (size_t m = 0; m < mr; ++m) {
    for (size_t n = 0; n < nc; ++n) {
      const auto* row = reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride);
      const auto* panel = static_cast<const float*>(w) + n / 8 * 8 * (k / 4 + 1) + n % 8;
      auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n;
      *out = formula(row, panel, k / 4);
    }
  }
}
void sums_from_the_end(GEMM_ARGUMENTS) {
  gemm_by(mr, nc, k, a, a_stride, w, c, c_stride, p, [&](const float* row, const float* panel, size_t count) {
    float sum = panel[0];
    for (size_t i = count; i-- > 0;) sum += row[i] * panel[(i + 1) * 8];
    return quern::clamp(sum, *p);
  });
}
void adds_the_bias_last(GEMM_ARGUMENTS) {
  gemm_by(mr, nc, k, a, a_stride, w, c, c_stride, p, [&](const float* row, const float* panel, size_t count) {
    float sum = 0;
    for (size_t i = 0; i < count; ++i) sum += row[i] * panel[(i + 1) * 8];
    return quern::clamp(sum + panel[0], *p);
  });
}
void forgets_to_clamp(GEMM_ARGUMENTS) {
  const qn_minmax_f32 none = {-__builtin_inff(), __builtin_inff()};
  qn_gemm_f32_4x8_ref(mr, nc, k, a, a_stride, w, c, c_stride, &none);
}
void clamps_a_nan_to_min(GEMM_ARGUMENTS) {
  gemm_by(mr, nc, k, a, a_stride, w, c, c_stride, p, [&](const float* row, const float* panel, size_t count) {
    float sum = panel[0];
    for (size_t i = 0; i < count; ++i) sum += row[i] * panel[(i + 1) * 8];
    sum = sum > p->min ? sum : p->min;  // the wrong order of operands
    return sum < p->max ? sum : p->max;
  });
}
void begins_with_what_c_held(GEMM_ARGUMENTS) {
  const float old = read(c, 0);
  GEMM_REFERENCE;
  write(c, 0, read(c, 0) + old * 0);
}
void uses_a_padding_lane(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  if (nc % 8 != 0) write(c, 0, read(c, 0) + read(w, ((nc / 8 * 8) * (k / 4 + 1) + 7) * 4) * 0);
}

using GemmFunction = std::remove_pointer_t<qn_gemm_fn>;
BadKernel bad_gemm(const char* name, GemmFunction* function, const char* finding, uint32_t isa = isa_ref) {
  auto* row = new GemmRow{{name, QN_F32, isa_ref, QN_LAYOUT_NHWC}, 4, 8, function};  // lives as long as the process
  return {name, gemm_kernel(*row), finding, isa};
}

}  // namespace

std::vector<BadKernel> bad_kernels() {
  return {
#define BAD(name, finding, isa) bad_gemm(#name, bad_##name, finding, isa_##isa),
#include BAD_TABLE
#undef BAD
      bad_gemm("reads_past_a", reads_past_a, "0 bytes past the end of a"),
      bad_gemm("reads_before_a", reads_before_a, "4 bytes before a"),
      bad_gemm("reads_past_w", reads_past_w, "bytes past the end of w"),
      bad_gemm("reads_past_p", reads_past_p, "0 bytes past the end of p"),
      bad_gemm("writes_past_c", writes_past_c, "0 bytes past the end of c"),
      bad_gemm("writes_before_c", writes_before_c, "c[-1] is"),
      bad_gemm("writes_a_gap_of_c", writes_a_gap_of_c, "not nothing"),
      bad_gemm("restores_what_it_overwrote_past_c", restores_what_it_overwrote_past_c, "0 bytes past the end of c"),
      bad_gemm("writes_to_a", writes_to_a, "bad access within a"),
      bad_gemm("writes_to_w", writes_to_w, "bad access within w"),
      bad_gemm("leaves_the_last_lane", leaves_the_last_lane, "is nothing, not"),
      bad_gemm("leaves_the_last_row", leaves_the_last_row, "is nothing, not"),
      bad_gemm("stops_before_the_last_k", stops_before_the_last_k, "K=17"),
      bad_gemm("ignores_a_stride", ignores_a_stride, "gap=5"),
      bad_gemm("sums_from_the_end", sums_from_the_end, "c["),
      bad_gemm("adds_the_bias_last", adds_the_bias_last, "c["),
      bad_gemm("forgets_to_clamp", forgets_to_clamp, "c["),
      bad_gemm("clamps_a_nan_to_min", clamps_a_nan_to_min, "not nan"),
      bad_gemm("begins_with_what_c_held", begins_with_what_c_held, "c[0] is nan"),
      bad_gemm("uses_a_padding_lane", uses_a_padding_lane, "c[0] is nan"),
  };
}

}  // namespace quern::check
