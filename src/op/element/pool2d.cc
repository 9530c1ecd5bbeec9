#include <algorithm>
#include <limits>

#include "base/cpu.h"
#include "base/math.h"
#include "base/needs.h"
#include "base/tensor.h"
#include "kernel/pool.h"
#include "kernel/select.h"
#include "op/core/machine.h"
#include "op/core/numbers.h"
#include "op/core/window.h"
#include "op/pixels/plane.h"

namespace quern {
namespace {

constexpr char pool2d[] = "pool2d";
constexpr size_t channel_step = 16;  // a cache line

// The number of taps of output o that lie before position `end`.
size_t taps_before(const Axis& axis, size_t o, int64_t end) {
  const int64_t begin = axis.at(o, 0);
  return begin >= end ? 0 : std::min(divide_up(static_cast<size_t>(end - begin), axis.dilation), axis.kernel);
}

// The number of pixels along one direction that count for the average of output o.
size_t counted(const Axis& axis, size_t o, bool count_padding) {
  const int64_t low = count_padding ? -static_cast<int64_t>(axis.before) : 0;
  const int64_t high = static_cast<int64_t>(axis.in + (count_padding ? axis.after : 0));
  return taps_before(axis, o, high) - taps_before(axis, o, low);
}

// Takes away the window's first and last taps that meet only padding whatever the output: a few bytes of a file can ask
// for a window far larger than its image.
void drop_blind_taps(Axis* axis) {
  const size_t first = std::min(taps_before(*axis, axis->out - 1, 0), axis->before / axis->dilation);
  const size_t last = taps_before(*axis, 0, static_cast<int64_t>(axis->in));
  if (first >= last) return;  // a window that steps over the whole image
  axis->kernel = last - first;
  axis->before -= first * axis->dilation;
}

// What pooling does with numbers, for plans. The last three members have no value in builds without integers.
struct PoolNumbers {
  Window whole;  // with its blind taps, which may count
  bool count_padding;
  qn_minmax_f32 clamp;
  float in_scale, out_scale;  // 1 if the tensors are floats
  qn_pool_qs8 bytes;          // undefined if the tensors are floats

  float scale_of_average(float count) const { return has_integers ? in_scale / (out_scale * count) : 1 / count; }
};

// For every output pixel, the steps of the output that are one step of the input, divided by the number of pixels that
// count; 0 if none counts.
Vector<float> scales(const PoolNumbers& numbers) {
  const Window& window = numbers.whole;
  const bool count_padding = numbers.count_padding;
  Vector<size_t> widths;
  for (size_t x = 0; x < window.w.out; ++x) widths.push_back(counted(window.w, x, count_padding));
  Vector<float> scale;
  scale.reserve(window.pixels());
  for (size_t y = 0; y < window.h.out; ++y) {
    const size_t height = counted(window.h, y, count_padding);
    for (const size_t width : widths) {
      const float count = static_cast<float>(height) * static_cast<float>(width);
      scale.push_back(count == 0 ? 0.0f : numbers.scale_of_average(count));
    }
  }
  return scale;
}

// Output pixels, in order, whose window has only padding in it: dilation can step over the whole image.
Vector<size_t> blind_pixels(const Window& window) {
  const auto misses = [](const Axis& axis, size_t o) { return counted(axis, o, false) == 0; };
  Vector<size_t> blind;
  for (size_t y = 0; y < window.h.out; ++y) {
    const bool row = misses(window.h, y);
    for (size_t x = 0; x < window.w.out; ++x) {
      if (row || misses(window.w, x)) blind.push_back(y * window.w.out + x);
    }
  }
  return blind;
}

// Does the build need blind pixels? A global maximum sees the whole image, so it has none.
constexpr bool has_blind = has_operator("max_pool");

// The maximum of a blind pixel. ONNX leaves it open; this is the result of ONNX Runtime.
float blind_maximum(const qn_minmax_f32& limits) { return clamp(std::numeric_limits<float>::lowest(), limits); }

class PoolPlan final : public RowPlan {
 public:
  PoolPlan(const Request& request, const Window& window, const PoolRow& row, const PoolNumbers& numbers)
      : RowPlan(request, window, channel_step), row_(row), taps_(window.taps()), clamp_(numbers.clamp) {
    kernel = row.name;
    if (has_integers && row.type == KernelType::qs8) bytes_ = numbers.bytes;
    if (row.kind == PoolKind::average) {
      scale_ = scales(numbers);
    } else if (has_blind && row.type == KernelType::f32) {  // a maximum of no bytes is the least step anyway
      blind_ = blind_pixels(window);
    }
  }

 private:
  void run_row(const RowTask& t) const override {
    const void* epilogue = has_integers && row_.type == KernelType::qs8 ? static_cast<const void*>(&bytes_) : &clamp_;
    const size_t first = t.y * width_ + t.x;
    row_.run(t.channels, t.width, taps_, t.offsets, step_, t.a, scale_.empty() ? nullptr : &scale_[first], t.c,
             c_stride_, epilogue);
    if (!has_blind) return;
    for (auto p = std::lower_bound(blind_.begin(), blind_.end(), first); p != blind_.end() && *p < first + t.width;
         ++p) {
      std::fill_n(reinterpret_cast<float*>(t.c + (*p - first) * c_stride_), t.channels, blind_maximum(clamp_));
    }
  }

  const PoolRow& row_;
  size_t taps_;
  qn_minmax_f32 clamp_;
  qn_pool_qs8 bytes_;
  Vector<float> scale_;   // for averages: the scale of every output pixel
  Vector<size_t> blind_;  // for maxima: the output pixels that see only padding
};

// Does the same for pixel-blocked images.
class PoolPlanePlan final : public PlanePlan {
 public:
  PoolPlanePlan(const Request& request, const Window& window, const PoolPlaneRow& row, const PoolNumbers& numbers)
      : PlanePlan(request, window, row.block, padding_of(row.kind), Reads::in_place), row_(row), clamp_(numbers.clamp) {
    kernel = row.name;
    if (row.kind == PoolKind::average) {
      scale_ = scales(numbers);
      scale_.resize(round_up(scale_.size(), row.lanes));
    } else {
      blind_ = blind_pixels(window);
    }
  }

 private:
  // The value that changes neither a maximum nor a sum.
  static float padding_of(PoolKind kind) {
    return kind == PoolKind::max ? -std::numeric_limits<float>::infinity() : 0.0f;
  }

  void run_plane(size_t, const char* a, char* c, char*) const override {
    row_.run(pixels_, kernel_h_, kernel_w_, offsets_.data(), masks_.data(), mask_stride_, a, scale_.data(), c,
             c_stride_, &clamp_);
    for (const size_t p : blind_) {
      reinterpret_cast<float*>(c + p / row_.block * c_stride_)[p % row_.block] = blind_maximum(clamp_);
    }
  }

  const PoolPlaneRow& row_;
  qn_minmax_f32 clamp_;
  Vector<float> scale_;   // for averages: the scale of every output pixel, filled up to whole vectors
  Vector<size_t> blind_;  // for maxima: the output pixels that see only padding
};

class Pool2d final : public Operator {
 public:
  Pool2d(const qn_pool2d_params& p, const Window& window) : Operator(pool2d, 1, 1), p_(p), window_(window) {
    compute_with(p.type);
    goes_by_rows = true;
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    QN_TRY(check_rank(name, ins[0], 4));
    Window window;
    QN_TRY(size(ins[0], &window));
    out->rank = 4;
    const size_t sizes[] = {ins[0].shape[0], window.h.out, window.w.out, ins[0].shape[3]};
    std::copy_n(sizes, 4, out->shape);
    return QN_OK;
  }

  qn_status cost(const Request& request, double* cycles) const override {
    if (!has_sparse) return Operator::cost(request, cycles);
    const MachineRow& m = machine();
    Window window;
    QN_TRY(check_request(request, &window));
    const bool blocked = is_blocked(request.ins[0]);
    const size_t row_lanes = (cpu().isa & isa_avx512) != 0 ? 16 : (cpu().isa & isa_avx2) != 0 ? 8 : 4;
    const size_t lanes = blocked ? plane_lanes() : row_lanes;
    const auto taps = static_cast<double>(window.taps()), in = static_cast<double>(window.h.in * window.w.in);
    const auto vectors = static_cast<double>(divide_up(window.pixels(), blocked ? lanes : 1));
    const double planes = vectors * taps * m.pool_plane_tap_cycles + in * m.pool_copy_cycles + m.pool_channel_cycles;
    const double rows = vectors * taps * m.pool_tap_cycles / static_cast<double>(lanes);
    *cycles = (blocked ? planes : rows) * static_cast<double>(request.out.shape[0] * request.out.shape[3]);
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    Window window;
    QN_TRY(check_request(request, &window));
    const bool blocked = is_blocked(request.ins[0]);
    return blocked ? plan_with<PoolPlanePlan>(pool_plane_rows(), request, window, plan)
                   : plan_with<PoolPlan>(pool_rows(), request, window, plan);
  }

 private:
  qn_status check_layouts(const Request& request, const Window& window) const {
    const bool in = is_blocked(request.ins[0]), out = is_blocked(request.out);
    if (in == out || (in && window.pixels() == 1)) return QN_OK;
    return fail(QN_UNSUPPORTED, "%s: the layouts of input and output differ", name);
  }

  template <class Plan, class Table>
  qn_status plan_with(const Table& table, const Request& request, const Window& window, PlanPointer* plan) const {
    const PoolKind kind = p_.kind == QN_POOL_MAX ? PoolKind::max : PoolKind::average;
    const auto* row = select(table, type_without_weights(type), request.options.kernel,
                             [&](const auto& r) { return r.kind == kind && fits(r); });
    if (row == nullptr) return no_kernel(name, request.options.kernel);
    PoolNumbers numbers;
    QN_TRY(size(request.ins[0], &numbers.whole));
    numbers.count_padding = p_.count_padding != 0;
    numbers.clamp = {p_.min, p_.max};
    if (has_integers) QN_TRY(set_steps(request, window, &numbers));
    *plan = make_plan<Plan>(request, window, *row, numbers);
    return QN_OK;
  }
  qn_status set_steps(const Request& request, const Window& window, PoolNumbers* numbers) const {
    numbers->in_scale = numbers->out_scale = 1;
    if (type != QN_S8) return QN_OK;
    QN_TRY(check_one_scale(name, request.ins, request.out));
    const Steps in = steps_of(request.ins[0]), out = steps_of(request.out);
    const bool as_bytes = p_.kind == QN_POOL_MAX || p_.rounding != QN_POOL_ROUND_REAL;
    if (as_bytes && (in.scale != out.scale || in.zero != out.zero)) {
      return fail(QN_INVALID_ARGUMENT, "%s: input and output have different scales or zero points", name);
    }
    QN_TRY(check_factor(name, in.scale / out.scale));
    if (p_.kind == QN_POOL_AVERAGE && window.taps() > INT32_MAX / 255) {
      return fail(QN_UNSUPPORTED, "%s: the sum of %zu bytes might overflow", name, window.taps());
    }
    numbers->in_scale = in.scale, numbers->out_scale = out.scale;
    numbers->bytes = {in.zero, out.zero, steps_of(p_.min, out.scale, out.zero), steps_of(p_.max, out.scale, out.zero)};
    if (p_.rounding != QN_POOL_ROUND_REAL) {
      // Halves become slightly larger, by more than floats lose: 2^-23 of 255 at most. All other averages of n bytes are
      // at least 1 / 2n away from a half, which is more for up to 4096 bytes.
      numbers->in_scale = 1 + 0x1p-22f, numbers->out_scale = 1;
      numbers->bytes.zero_in = numbers->bytes.zero = p_.rounding == QN_POOL_ROUND_U8 ? INT8_MIN : 0;
    }
    return QN_OK;
  }
  static size_t plane_lanes() {
    return select(pool_plane_rows(), KernelType::f32, nullptr, [](const PoolPlaneRow& r) { return fits(r); })->lanes;
  }
  static bool fits(const PoolRow&) { return true; }
  static bool fits(const PoolPlaneRow& row) { return row.block == qn_pixel_block(); }

  qn_status check_request(const Request& request, Window* window) const {
    QN_TRY(size(request.ins[0], window));
    drop_blind_taps(&window->h);
    drop_blind_taps(&window->w);
    stride_window(request.ins[0], window);
    QN_TRY(check_layouts(request, *window));
    PlaneLayout layout;
    const bool blocked = is_blocked(request.ins[0]);
    if (blocked ? lay_out_planes(*window, &layout) : row_tables_fit(*window)) return QN_OK;
    if (!blocked && !window->row_offsets_fit()) {
      return fail(QN_UNSUPPORTED, "%s: the rows of a %zux%zu window, %zu bytes apart, reach further than 2 GiB", name,
                  window->h.kernel, window->w.kernel, window->row_stride);
    }
    return fail(QN_UNSUPPORTED, "%s: %zux%zu windows of %zux%zu are too much for tables", name, window->h.out,
                window->w.out, window->h.kernel, window->w.kernel);
  }

  qn_status size(const qn_tensor& in, Window* window) const {
    *window = window_;
    if (p_.global != 0) {
      window->h.kernel = in.shape[1];
      window->w.kernel = in.shape[2];
    }
    return size_window(name, in.shape[1], in.shape[2], p_.ceil_mode != 0, window);
  }

  qn_pool2d_params p_;
  Window window_;
};

qn_status check_rounding(const qn_pool2d_params& p) {
  if (p.rounding == QN_POOL_ROUND_REAL) return QN_OK;
  if (p.rounding != QN_POOL_ROUND_S8 && p.rounding != QN_POOL_ROUND_U8) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown rounding %d", pool2d, static_cast<int>(p.rounding));
  }
  const bool plain = p.count_padding == 0 && p.dilation.h == 1 && p.dilation.w == 1;
  if (p.kind == QN_POOL_AVERAGE && p.type == QN_S8 && plain) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: this rounding is for averages of QN_S8 without count_padding or dilation",
              pool2d);
}

qn_status create(const qn_pool2d_params* params, qn_operator** op) {
  qn_pool2d_params p;
  QN_TRY(read_params(pool2d, params, qn_pool2d_params_init, op, &p, check_computed_type));
  if (p.kind != QN_POOL_MAX && p.kind != QN_POOL_AVERAGE) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown kind %d", pool2d, static_cast<int>(p.kind));
  }
  QN_TRY(check_clamp(pool2d, p.min, p.max));
  if (has_integers) QN_TRY(check_rounding(p));
  Window window;
  if (p.global == 0) {
    QN_TRY(make_window(pool2d, p.kernel, p.stride, p.dilation, p.padding, &window));
    for (const Axis& axis : {window.h, window.w}) {
      if (axis.before >= axis.extent() || axis.after >= axis.extent()) {
        return fail(QN_INVALID_ARGUMENT, "%s: padding %zu, %zu is not smaller than the window's %zu", pool2d,
                    axis.before, axis.after, axis.extent());
      }
    }
  }
  return make_operator<Pool2d>(op, p, window);
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_pool2d_params_init_sized(qn_pool2d_params* params, size_t size) {
  qn_pool2d_params p = {};
  p.type = QN_F32;
  p.kernel = p.stride = p.dilation = {1, 1};
  p.min = -std::numeric_limits<float>::infinity();
  p.max = std::numeric_limits<float>::infinity();
  quern::init_struct(params, size, p);
}

qn_status qn_pool2d_create(const qn_pool2d_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create(params, op); });
}

}  // extern "C"
