// The bad kernels: those of the machine from the table of this ISA, those of memory and numbers here, as the reference
// with something done before or after it.
#include <algorithm>
#include <bit>
#include <deque>
#include <span>
#include <vector>

#include "kernel/dwconv.h"
#include "kernel/eltwise.h"
#include "kernel/gather.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/pool.h"
#include "kernel/spmm.h"
#include "kernel/transpose.h"
#include "kernel/unblock.h"
#include "kernel/winograd.h"
#include "selftest.h"

#if QN_ARCH_X86_64
#define BAD_TABLE "bad_x86.inc"
#elif QN_ARCH_ARM64
#define BAD_TABLE "bad_arm64.inc"
#else
#define BAD_TABLE "bad_arm.inc"
#endif

extern "C" {
#define BAD(name, finding, isa)                                                                           \
  void bad_##name(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c, \
                  size_t c_stride, const void* p);
#include BAD_TABLE
#undef BAD
}

namespace quern::check {
namespace {

// Accesses that the compiler may not leave out or reorder.
float read(const void* base, ptrdiff_t bytes) {
  return *reinterpret_cast<const volatile float*>(static_cast<const char*>(base) + bytes);
}
void write(void* base, ptrdiff_t bytes, float value) {
  *reinterpret_cast<volatile float*>(static_cast<char*>(base) + bytes) = value;
}

// --- gemm ---

#define GEMM_ARGUMENTS                                                                                               \
  [[maybe_unused]] size_t mr, [[maybe_unused]] size_t nc, [[maybe_unused]] size_t k, [[maybe_unused]] const void *a, \
      [[maybe_unused]] size_t a_stride, [[maybe_unused]] const void *w, [[maybe_unused]] void *c,                    \
      [[maybe_unused]] size_t c_stride, [[maybe_unused]] const void *p
#define GEMM_REFERENCE qn_gemm_f32_4x8_ref(mr, nc, k, a, a_stride, w, c, c_stride, p)

size_t last_row(size_t mr, size_t stride) { return (mr - 1) * stride; }

void reads_past_a(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(a, last_row(mr, a_stride) + k);
}
void reads_before_a(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(a, -4);
}
void reads_past_w(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(w, (nc + 7) / 8 * 8 * (k + 4) + 32);
}
void reads_past_p(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  read(p, sizeof(qn_minmax_f32));
}
void writes_past_c(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  write(c, last_row(mr, c_stride) + nc * 4, 0);
}
void writes_before_c(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  write(c, -4, 0);
}
void writes_a_gap_of_c(GEMM_ARGUMENTS) {
  GEMM_REFERENCE;
  if (mr > 1 && c_stride > nc * 4) write(c, nc * 4, 0);
}
void restores_what_it_overwrote(GEMM_ARGUMENTS) {  // a race with whoever owns it
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
    return quern::clamp(sum, minmax_of(p));
  });
}
void adds_the_bias_last(GEMM_ARGUMENTS) {
  gemm_by(mr, nc, k, a, a_stride, w, c, c_stride, p, [&](const float* row, const float* panel, size_t count) {
    float sum = 0;
    for (size_t i = 0; i < count; ++i) sum += row[i] * panel[(i + 1) * 8];
    return quern::clamp(sum + panel[0], minmax_of(p));
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
    sum = sum > minmax_of(p).min ? sum : minmax_of(p).min;  // the wrong order of operands
    return sum < minmax_of(p).max ? sum : minmax_of(p).max;
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

// --- igemm ---

#define IGEMM_ARGUMENTS                                                                                           \
  [[maybe_unused]] size_t mr, [[maybe_unused]] size_t nc, [[maybe_unused]] size_t kc, [[maybe_unused]] size_t ks, \
      [[maybe_unused]] const int32_t *offsets, [[maybe_unused]] const void *a, [[maybe_unused]] const void *zero, \
      [[maybe_unused]] const void *w, [[maybe_unused]] void *c, [[maybe_unused]] size_t c_stride,                 \
      [[maybe_unused]] const void *p

void reads_offsets_of_no_row(IGEMM_ARGUMENTS) {
  qn_igemm_f32_4x8_ref(mr, nc, kc, ks, offsets, a, zero, w, c, c_stride, p);
  read(offsets, (ks * 4 - 1) * 4);
}
void reads_zero_unasked(IGEMM_ARGUMENTS) {
  qn_igemm_f32_4x8_ref(mr, nc, kc, ks, offsets, a, zero, w, c, c_stride, p);
  read(zero, 0);
}
void pads_with_the_image(IGEMM_ARGUMENTS) { qn_igemm_f32_4x8_ref(mr, nc, kc, ks, offsets, a, a, w, c, c_stride, p); }

// --- dwconv ---

#define DWCONV_ARGUMENTS                                                                                     \
  [[maybe_unused]] size_t channels, [[maybe_unused]] size_t pixels, [[maybe_unused]] size_t taps,            \
      [[maybe_unused]] const int32_t *offsets, [[maybe_unused]] size_t step, [[maybe_unused]] const void *a, \
      [[maybe_unused]] const void *zero, [[maybe_unused]] const void *w, [[maybe_unused]] void *c,           \
      [[maybe_unused]] size_t c_stride, [[maybe_unused]] const void *p

void reads_a_whole_vector_of_a_row(DWCONV_ARGUMENTS) {
  qn_dwconv_f32_np8_ref(channels, pixels, taps, offsets, step, a, zero, w, c, c_stride, p);
  if (offsets[0] >= 0) read(a, static_cast<size_t>(offsets[0]) + (channels + 7) / 8 * 32 - 4);
}
void ignores_the_step(DWCONV_ARGUMENTS) {
  // What lies behind the table need not be a multiple of 4: made one, so that the bad access itself is what is found.
  for (size_t x = 0; x < pixels; ++x) {
    int32_t table[128];
    for (size_t t = 0; t < taps; ++t) table[t] = offsets[x * taps + t] & ~3;
    qn_dwconv_f32_np8_ref(channels, 1, taps, table, step, a, zero, w, static_cast<char*>(c) + x * c_stride, c_stride,
                          p);
  }
}
void leaves_the_last_pixel(DWCONV_ARGUMENTS) {
  if (pixels > 1) qn_dwconv_f32_np8_ref(channels, pixels - 1, taps, offsets, step, a, zero, w, c, c_stride, p);
}

#define DWCONV_TILE_ARGUMENTS                                                                                 \
  size_t channels, size_t pixels, size_t rows, const int32_t *offsets, const void *a, const void *w, void *c, \
      size_t row_stride, size_t c_stride, const void *p, const void *zero

void reads_offsets_of_missing_rows(DWCONV_TILE_ARGUMENTS) {
  qn_dwconv_f32_k3s1_2x8_ref(channels, pixels, rows, offsets, a, w, c, row_stride, c_stride, p, zero);
  for (size_t entry = 0; entry < 4; ++entry) {
    if (offsets[entry] >= 0) read(a, static_cast<size_t>(offsets[entry]));
  }
}
void stays_at_a_column(DWCONV_TILE_ARGUMENTS) {
  for (size_t x = 0; x < pixels; ++x) {
    const size_t column = x == 0 ? 0 : x - 1;
    qn_dwconv_f32_k3s1_2x8_ref(channels, 1, rows, offsets + 4 * column, a, w, static_cast<char*>(c) + x * c_stride,
                               row_stride, c_stride, p, zero);
  }
}
void leaves_the_last_row_of_a_tile(DWCONV_TILE_ARGUMENTS) {
  if (rows > 1) qn_dwconv_f32_k3s1_2x8_ref(channels, pixels, rows - 1, offsets, a, w, c, row_stride, c_stride, p, zero);
}

#define PLANE_ARGUMENTS                                                                       \
  size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t *offsets, const void *masks, \
      [[maybe_unused]] size_t mask_stride, const void *a, const void *w, void *c, size_t c_stride, const void *p

void reads_what_the_mask_leaves_out(PLANE_ARGUMENTS) {
  qn_dwconv_f32_plane_ref(pixels, kernel_h, kernel_w, offsets, masks, mask_stride, a, w, c, c_stride, p);
  for (size_t x = 0; x < pixels; ++x) read(a, static_cast<size_t>(offsets[0]) + x * 4);
}
void masks_all_columns_alike(PLANE_ARGUMENTS) {
  qn_dwconv_f32_plane_ref(pixels, kernel_h, kernel_w, offsets, masks, 0, a, w, c, c_stride, p);
}

// --- pool ---

#define POOL_ARGUMENTS                                                                                                \
  size_t channels, size_t pixels, size_t taps, const int32_t *offsets, size_t step, const void *a, const void *scale, \
      void *c, size_t c_stride, const void *p

void reads_the_scale_of_a_maximum(POOL_ARGUMENTS) {
  qn_maxpool_f32_ref(channels, pixels, taps, offsets, step, a, scale, c, c_stride, p);
  read(scale, 0);
}
void forgets_the_last_tap(POOL_ARGUMENTS) {
  qn_maxpool_f32_ref(channels, pixels, taps > 1 ? taps - 1 : taps, offsets, step, a, scale, c, c_stride, p);
}
void scales_all_pixels_alike(POOL_ARGUMENTS) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    qn_avgpool_f32_ref(channels, 1, taps, table, step, a, scale, static_cast<char*>(c) + x * c_stride, c_stride, p);
  }
}

// --- eltwise ---

void clears_the_output_first(size_t n, const void* x, void* y, const void* p) {  // which may be the input
  for (size_t i = 0; i < n; ++i) write(y, i * 4, 0);
  qn_vclamp_f32_ref(n, x, y, p);
}
void reads_b_after_y_is_written(size_t n, const void* a, const void* b, void* y, const void* p) {
  for (size_t i = 0; i < n; ++i) write(y, i * 4, quern::clamp(read(a, i * 4) + read(b, 0), minmax_of(p)));
}
void rounds_once(size_t rows, size_t channels, const void* x, size_t x_stride, const void* scale, const void* bias,
                 void* y, size_t y_stride, const void* p) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < channels; ++i) {
      write(y, r * y_stride + i * 4,
            quern::clamp(__builtin_fmaf(read(x, r * x_stride + i * 4), read(scale, i * 4), read(bias, i * 4)),
                         minmax_of(p)));
    }
  }
}
float ignores_a_nan(size_t n, const float* x, float*, float) {
  float max = x[0];
  for (size_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

// --- spmm ---

#define SPMM_ARGUMENTS                                                                                 \
  size_t pixels, size_t sets, const qn_spmm_set *set, const void *index, const void *w, const void *a, \
      size_t a_stride, void *c, size_t c_stride, [[maybe_unused]] const void *bias, const void *p

void reads_the_first_row_unasked(SPMM_ARGUMENTS) {
  qn_spmm_f32_csr_8x2_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, bias, p);
  read(a, 0);
}
void leaves_sets_without_entries(SPMM_ARGUMENTS) {
  const auto* places = static_cast<const uint8_t*>(index);
  for (const qn_spmm_set* end = set + sets; set < end; ++set) {
    if (set->steps == 0) continue;
    qn_spmm_f32_csr_8x2_ref(pixels, 1, set, places, w, a, a_stride, c, c_stride, bias, p);
    places += size_t{4} * set->steps;
    w = floats(w) + size_t{4} * set->steps;
  }
}
void begins_with_c_despite_a_bias(SPMM_ARGUMENTS) {
  qn_spmm_f32_csr_8x2_ref(pixels, sets, set, index, w, a, a_stride, c, c_stride, nullptr, p);
}

void leaves_entries_of_all_four_channels(SPMM_ARGUMENTS) {
  constexpr size_t all = spmm_patterns - 1;  // the last ones of a set
  const auto* places = static_cast<const uint16_t*>(index);
  for (const qn_spmm_set* end = set + sets; set < end; ++set) {
    size_t entries = 0, weights = 0;
    for (unsigned i = 0; i < spmm_patterns; ++i) {
      entries += places[i];
      weights += places[i] * static_cast<size_t>(std::popcount(i + 1));
    }
    std::vector<uint16_t> fewer(places, places + spmm_patterns + entries);
    fewer[all] = 0;
    qn_spmm_f32_csr_8x4_ref(pixels, 1, set, fewer.data(), w, a, a_stride, c, c_stride, bias, p);
    places += spmm_patterns + entries;
    w = floats(w) + weights;
  }
}

// --- transpose ---

#define TRANSPOSE_ARGUMENTS size_t rows, size_t columns, const void *const *a, void *c, size_t c_stride

void reads_a_column_too_many(TRANSPOSE_ARGUMENTS) {
  qn_transpose_f32_4x4_ref(rows, columns, a, c, c_stride);
  for (size_t i = 0; i < rows; ++i) read(a[i], columns * 4);
}
void takes_the_rows_for_neighbours(TRANSPOSE_ARGUMENTS) {
  const void* next[64];
  for (size_t i = 0; i < rows; ++i) next[i] = static_cast<const float*>(a[0]) + i * columns;
  qn_transpose_f32_4x4_ref(rows, columns, next, c, c_stride);
}

// --- gather ---

#define GATHER_ARGUMENTS \
  size_t rows, size_t vectors, const qn_gather_piece *pieces, const void *a, size_t a_stride, void *c, size_t c_stride

void reads_lanes_that_no_piece_names(GATHER_ARGUMENTS) {
  for (size_t v = 0; v < vectors; ++v) read(a, static_cast<size_t>(std::max(pieces[v].offset, 0)) + 4);
  qn_gather_f32_1_ref(rows, vectors, pieces, a, a_stride, c, c_stride);
}
void leaves_what_comes_from_nowhere(GATHER_ARGUMENTS) {
  for (size_t v = 0; v < vectors; ++v) {
    if (pieces[v].lanes == 0) continue;
    qn_gather_f32_1_ref(rows, 1, pieces + v, a, a_stride, static_cast<float*>(c) + v, c_stride);
  }
}

// --- unblock ---

void reads_a_block_to_its_end(size_t pixels, const void* a, size_t a_stride, void* d, size_t d_stride) {
  qn_unblock_f32_plane_ref(pixels, a, a_stride, d, d_stride);
  constexpr size_t block = reference_pixel_block;
  read(a, (pixels - 1) / block * a_stride + (block - 1) * 4);
}

#define SPLIT_ARGUMENTS                                                                                              \
  size_t rows, size_t columns, size_t step, size_t planes, const void *a, size_t a_stride, void *d, size_t d_stride, \
      size_t d_plane

void fills_up_short_planes(SPLIT_ARGUMENTS) {
  for (size_t r = 0; r < planes; ++r) {
    for (size_t x = 0; x < (columns + step - 1) / step; ++x) write(d, r * d_plane + x * 4, 0);
  }
  qn_split_f32_ref(rows, columns, step, planes, a, a_stride, d, d_stride, d_plane);
}

// --- winograd ---

#define WINOGRAD_INPUT_ARGUMENTS                                                                        \
  size_t channels, const void *a, size_t row_stride, size_t pixel_stride, const qn_winograd_tile *tile, \
      const void *zero, void *v, size_t v_stride
#define WINOGRAD_OUTPUT_ARGUMENTS                                                                                     \
  size_t channels, const void *m, size_t m_stride, const void *bias, void *c, size_t row_stride, size_t pixel_stride, \
      size_t rows, size_t columns, const void *p

void reads_the_pixel_below_the_image(WINOGRAD_INPUT_ARGUMENTS) {
  qn_winograd_f32_4x4_ref_input(channels, a, row_stride, pixel_stride, tile, zero, v, v_stride);
  const size_t rows = tile->bottom - tile->top, columns = tile->right - tile->left;
  if (rows > 0 && columns > 0) read(a, rows * row_stride + (columns - 1) * pixel_stride);
}
void pads_one_column_too_few(WINOGRAD_INPUT_ARGUMENTS) {
  qn_winograd_tile wide = *tile;
  if (wide.right > wide.left && wide.right < wide.columns + 2) ++wide.right;
  qn_winograd_f32_4x4_ref_input(channels, a, row_stride, pixel_stride, &wide, zero, v, v_stride);
}
void transforms_to_a_point_too_many(WINOGRAD_INPUT_ARGUMENTS) {
  qn_winograd_tile even = *tile;
  even.rows += even.rows % 2;
  qn_winograd_f32_4x4_ref_input(channels, a, row_stride, pixel_stride, &even, zero, v, v_stride);
}
void writes_the_whole_tile(WINOGRAD_OUTPUT_ARGUMENTS) {
  qn_winograd_f32_4x4_ref_output(channels, m, m_stride, bias, c, row_stride, pixel_stride, rows, columns, p);
  if (rows < 4) write(c, rows * row_stride, 0);
}
void adds_no_bias(WINOGRAD_OUTPUT_ARGUMENTS) {
  static constexpr float none[256] = {};
  qn_winograd_f32_4x4_ref_output(channels, m, m_stride, none, c, row_stride, pixel_stride, rows, columns, p);
  read(bias, 0);
}

// --- the list ---

const WinogradRow& four_outputs() {
  const std::span<const WinogradRow> rows = winograd_rows();
  return *std::find_if(rows.begin(), rows.end(),
                       [](const WinogradRow& row) { return row.outputs == 4 && row.isa == isa_ref; });
}

// A row like the reference of its table but for the function.
template <class Row, class Function>
BadKernel bad(const char* name, const Row& like, Function* function, const char* finding, uint32_t isa = isa_ref) {
  static std::deque<Row> rows;  // kernels point to their rows
  Row& row = rows.emplace_back(like);
  row.set_name(name);
  row.run = function;
  return {name, make_kernel(row), finding, isa};
}

// The same for a row with two kernels.
BadKernel bad_input(const char* name, qn_winograd_input_fn function, const char* finding) {
  static std::deque<WinogradRow> rows;
  WinogradRow& row = rows.emplace_back(four_outputs());
  row.set_name(name);
  row.input = function;
  return {name, make_input_kernel(row), finding, isa_ref};
}
BadKernel bad_output(const char* name, qn_winograd_output_fn function, const char* finding) {
  static std::deque<WinogradRow> rows;
  WinogradRow& row = rows.emplace_back(four_outputs());
  row.set_name(name);
  row.output = function;
  return {name, make_output_kernel(row), finding, isa_ref};
}

template <class Row, class Kind>
const Row& reference(std::span<const Row> rows, Kind kind) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&](const Row& row) { return row.kind == kind && row.isa == isa_ref; });
}

}  // namespace

std::vector<BadKernel> bad_kernels() {
  const GemmRow& gemm = reference_of(gemm_rows(), KernelType::f32);
  const IgemmRow& igemm = reference_of(igemm_rows(), KernelType::f32);
  const DwconvRow& dwconv = reference_of(dwconv_rows(), KernelType::f32);
  const DwconvTileRow& tile = *std::find_if(dwconv_tile_rows().begin(), dwconv_tile_rows().end(),
                                            [](const auto& row) { return row.run == qn_dwconv_f32_k3s1_2x8_ref; });
  const PoolRow& maxpool = reference(pool_rows(), PoolKind::max);
  const PoolRow& avgpool = reference(pool_rows(), PoolKind::average);
  const SpmmRow& pairs = *std::find_if(spmm_rows().begin(), spmm_rows().end(),
                                       [](const auto& row) { return row.run == qn_spmm_f32_csr_8x2_ref; });
  const SpmmRow& fours = *std::find_if(spmm_rows().begin(), spmm_rows().end(),
                                       [](const auto& row) { return row.run == qn_spmm_f32_csr_8x4_ref; });
  const TransposeRow& transpose = reference_of(transpose_rows(), KernelType::f32);
  const GatherRow& gather = reference_of(gather_rows(), KernelType::f32);
  const DwconvPlaneRow& plane = reference_of(dwconv_plane_rows(), KernelType::f32);
  return {
#define BAD(name, finding, isa) bad(#name, gemm, bad_##name, finding, isa_##isa),
#include BAD_TABLE
#undef BAD
      bad("reads_past_a", gemm, reads_past_a, "0 bytes past the end of a"),
      bad("reads_before_a", gemm, reads_before_a, "4 bytes before a"),
      bad("reads_past_w", gemm, reads_past_w, "bytes past the end of w"),
      bad("reads_past_p", gemm, reads_past_p, "0 bytes past the end of p"),
      bad("writes_past_c", gemm, writes_past_c, "0 bytes past the end of c"),
      bad("writes_before_c", gemm, writes_before_c, "c[-1] is"),
      bad("writes_a_gap_of_c", gemm, writes_a_gap_of_c, "not nothing"),
      bad("restores_what_it_overwrote", gemm, restores_what_it_overwrote, "0 bytes past the end of c"),
      bad("writes_to_a", gemm, writes_to_a, "bad access within a"),
      bad("writes_to_w", gemm, writes_to_w, "bad access within w"),
      bad("leaves_the_last_lane", gemm, leaves_the_last_lane, "is nothing, not"),
      bad("leaves_the_last_row", gemm, leaves_the_last_row, "is nothing, not"),
      bad("stops_before_the_last_k", gemm, stops_before_the_last_k, "K=331"),
      bad("ignores_a_stride", gemm, ignores_a_stride, "gap=5"),
      bad("sums_from_the_end", gemm, sums_from_the_end, "c["),
      bad("adds_the_bias_last", gemm, adds_the_bias_last, "c["),
      bad("forgets_to_clamp", gemm, forgets_to_clamp, "c["),
      bad("clamps_a_nan_to_min", gemm, clamps_a_nan_to_min, "not nan"),
      bad("begins_with_what_c_held", gemm, begins_with_what_c_held, "c[0] is nan"),
      bad("uses_a_padding_lane", gemm, uses_a_padding_lane, "c[0] is nan"),
      bad("reads_offsets_of_no_row", igemm, reads_offsets_of_no_row, "bytes past the end of offsets"),
      bad("reads_zero_unasked", igemm, reads_zero_unasked, "0 bytes past the end of zero"),
      bad("pads_with_the_image", igemm, pads_with_the_image, "c["),
      bad("reads_a_whole_vector_of_a_row", dwconv, reads_a_whole_vector_of_a_row, "bytes past the end of a"),
      bad("ignores_the_step", dwconv, ignores_the_step, "bad access"),
      bad("leaves_the_last_pixel", dwconv, leaves_the_last_pixel, "is nothing, not"),
      bad("reads_offsets_of_missing_rows", tile, reads_offsets_of_missing_rows, "bad access"),
      bad("stays_at_a_column", tile, stays_at_a_column, "c["),
      bad("leaves_the_last_row_of_a_tile", tile, leaves_the_last_row_of_a_tile, "is nothing, not"),
      bad("reads_what_the_mask_leaves_out", plane, reads_what_the_mask_leaves_out, "bad access"),
      bad("masks_all_columns_alike", plane, masks_all_columns_alike, "c["),
      bad("reads_the_scale_of_a_maximum", maxpool, reads_the_scale_of_a_maximum, "0 bytes past the end of scale"),
      bad("forgets_the_last_tap", maxpool, forgets_the_last_tap, "c["),
      bad("scales_all_pixels_alike", avgpool, scales_all_pixels_alike, "c["),
      bad("clears_the_output_first", reference(unary_rows(), UnaryKind::clamp), clears_the_output_first, "in place"),
      bad("reads_b_after_y_is_written", reference(binary_rows(), BinaryKind::addc), reads_b_after_y_is_written,
          "in place of b"),
      bad("rounds_once", reference(channel_rows(), ChannelKind::scale), rounds_once, "y["),
      bad("reads_the_first_row_unasked", pairs, reads_the_first_row_unasked, "bytes before a"),
      bad("leaves_sets_without_entries", pairs, leaves_sets_without_entries, "is nothing, not"),
      bad("begins_with_c_despite_a_bias", pairs, begins_with_c_despite_a_bias, "is nan"),
      bad("leaves_entries_of_all_four_channels", fours, leaves_entries_of_all_four_channels, "c["),
      bad("reads_a_column_too_many", transpose, reads_a_column_too_many, "0 bytes past the end of a"),
      bad("takes_the_rows_for_neighbours", transpose, takes_the_rows_for_neighbours, "bad access"),
      bad("reads_lanes_that_no_piece_names", gather, reads_lanes_that_no_piece_names, "0 bytes past the end of a"),
      bad("leaves_what_comes_from_nowhere", gather, leaves_what_comes_from_nowhere, "is nothing, not"),
      bad("reads_a_block_to_its_end", unblock_rows().back(), reads_a_block_to_its_end, "bytes past the end of a"),
      bad("fills_up_short_planes", split_rows().back(), fills_up_short_planes, "d["),
      bad_input("reads_the_pixel_below_the_image", reads_the_pixel_below_the_image, "past the end of a"),
      bad_input("pads_one_column_too_few", pads_one_column_too_few, "past the end of a"),
      bad_input("transforms_to_a_point_too_many", transforms_to_a_point_too_many, "past the end of v"),
      bad_output("writes_the_whole_tile", writes_the_whole_tile, "c["),
      bad_output("adds_no_bias", adds_no_bias, "c["),
      bad("ignores_a_nan", reference(reduce_rows(), ReduceKind::max), ignores_a_nan, "not nan"),
  };
}

}  // namespace quern::check
