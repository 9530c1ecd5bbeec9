#include <cmath>

#include "base/math.h"
#include "op/core/operator.h"

namespace quern {
namespace {

constexpr char resize2d[] = "resize2d";
constexpr size_t min_task_samples = 8192;
constexpr size_t max_size = size_t{1} << 30;

// The two input positions that each output position of one direction reads. The second one counts with `weight`, the
// first one with 1 - `weight`.
struct Taps {
  Vector<size_t> first, second;  // offsets in bytes
  Vector<float> weight;
};

// One direction of a resize.
struct Direction {
  size_t in = 1, out = 1;
  double ratio = 1;  // input pixels per output pixel
  float scale = 0;   // if it is given, and not the size of the output
};

double position(const Direction& d, qn_resize_coordinates coordinates, size_t i) {
  const double x = static_cast<double>(i);
  switch (coordinates) {
    // A division in binary32, as in ONNX Runtime: with the scale of a third, place 3 is 9 and nothing less.
    case QN_COORDINATES_ASYMMETRIC:
      return d.scale == 0 ? x * d.ratio : static_cast<double>(static_cast<float>(i) / d.scale);
    case QN_COORDINATES_ALIGN_CORNERS:
      return d.out == 1 ? 0 : x * static_cast<double>(d.in - 1) / static_cast<double>(d.out - 1);
    case QN_COORDINATES_HALF_PIXEL_OR_0:
      if (d.out == 1) return 0;
      break;
    case QN_COORDINATES_HALF_PIXEL: break;
  }
  return (x + 0.5) * d.ratio - 0.5;
}

double rounded(double x, qn_resize_rounding rounding) {
  switch (rounding) {
    case QN_ROUND_CEIL: return std::ceil(x);
    case QN_ROUND_HALF_DOWN: return std::ceil(x - 0.5);
    case QN_ROUND_HALF_UP: return std::floor(x + 0.5);
    case QN_ROUND_FLOOR: break;
  }
  return std::floor(x);
}

Taps make_taps(const Direction& d, const qn_resize2d_params& p, size_t stride) {
  Taps taps;
  taps.first.reserve(d.out);
  taps.second.reserve(d.out);
  taps.weight.reserve(d.out);
  const double last = static_cast<double>(d.in - 1);
  for (size_t i = 0; i < d.out; ++i) {
    const double x = position(d, p.coordinates, i);
    double first, weight = 0;
    if (p.kind == QN_RESIZE_NEAREST) {
      first = std::clamp(rounded(x, p.rounding), 0.0, last);
    } else {
      const double inside = std::clamp(x, 0.0, last);
      first = std::floor(inside);
      weight = inside - first;
    }
    taps.first.push_back(static_cast<size_t>(first) * stride);
    taps.second.push_back(static_cast<size_t>(std::min(first + 1, last)) * stride);
    taps.weight.push_back(static_cast<float>(weight));
  }
  return taps;
}

class ResizePlan final : public qn_plan {
 public:
  ResizePlan(const Request& request, const qn_resize2d_params& p, const Direction& h, const Direction& w)
      : in_(request.ins[0]),
        out_(request.out),
        bilinear_(p.kind == QN_RESIZE_BILINEAR),
        y_(make_taps(h, p, in_.stride[1])),
        x_(make_taps(w, p, in_.stride[2])) {
    tasks_ = split(out_.shape[0] * out_.shape[1], request.options.tasks,
                   divide_up(min_task_samples, out_.shape[2] * out_.shape[3]));
    phases = {tasks_.chunks};
  }

  void task(const Run& run, size_t, size_t index) const override {
    Watch watch(run);
    for (size_t i = tasks_.begin(index); i < tasks_.end(index); ++i) {
      if (watch.stops(out_.shape[2] * out_.shape[3])) return;
      const size_t image = i / out_.shape[1], y = i % out_.shape[1];
      const char* in = run.input(0) + image * in_.stride[0];
      char* out = run.output + image * out_.stride[0] + y * out_.stride[1];
      if (bilinear_) {
        bilinear_row(in + y_.first[y], in + y_.second[y], y_.weight[y], out);
      } else {
        nearest_row(in + y_.first[y], out);
      }
    }
  }

 private:
  void nearest_row(const char* in, char* out) const {
    const size_t bytes = out_.shape[3] * (has_integers ? qn_type_size(out_.type) : sizeof(float));
    for (size_t x = 0; x < out_.shape[2]; ++x) {
      std::memcpy(out + x * out_.stride[2], in + x_.first[x], bytes);
    }
  }

  void bilinear_row(const char* top, const char* bottom, float v, char* out) const {
    for (size_t x = 0; x < out_.shape[2]; ++x) {
      const auto at = [](const char* p) { return reinterpret_cast<const float*>(p); };
      bilinear_pixel(out_.shape[3], at(top + x_.first[x]), at(top + x_.second[x]), at(bottom + x_.first[x]),
                     at(bottom + x_.second[x]), x_.weight[x], v, reinterpret_cast<float*>(out + x * out_.stride[2]));
    }
  }

  static void bilinear_pixel(size_t channels, const float* __restrict a, const float* __restrict b,
                             const float* __restrict c, const float* __restrict d, float u, float v,
                             float* __restrict y) {
    for (size_t i = 0; i < channels; ++i) {
      const float upper = a[i] * (1 - u) + b[i] * u, lower = c[i] * (1 - u) + d[i] * u;
      y[i] = upper * (1 - v) + lower * v;
    }
  }

  qn_tensor in_, out_;
  bool bilinear_;
  Taps y_, x_;
  Split tasks_;
};

class Resize2d final : public Operator {
 public:
  explicit Resize2d(const qn_resize2d_params& p) : Operator(resize2d, 1, 1), p_(p) {
    if (p.kind == QN_RESIZE_NEAREST) move_elements(p.type);
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    QN_TRY(check_rank(name, ins[0], 4));
    Direction h, w;
    QN_TRY(directions(ins[0], &h, &w));
    out->rank = 4;
    const size_t sizes[] = {ins[0].shape[0], h.out, w.out, ins[0].shape[3]};
    std::copy_n(sizes, 4, out->shape);
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    Direction h, w;
    QN_TRY(directions(request.ins[0], &h, &w));
    *plan = make_plan<ResizePlan>(request, p_, h, w);
    return QN_OK;
  }

 private:
  qn_status directions(const qn_tensor& in, Direction* h, Direction* w) const {
    QN_TRY(direction("height", in.shape[1], p_.size.h, p_.scale_h, h));
    return direction("width", in.shape[2], p_.size.w, p_.scale_w, w);
  }

  qn_status direction(const char* what, size_t in, size_t size, float scale, Direction* d) const {
    double out = static_cast<double>(size);
    if (size == 0) out = std::floor(static_cast<float>(in) * scale);  // in binary32, as ONNX Runtime does
    if (!(out >= 1) || out > static_cast<double>(max_size) || in > max_size) {
      return fail(QN_INVALID_ARGUMENT, "%s: %s %zu would become %g", name, what, in, out);
    }
    const double ratio = size == 0 ? 1 / static_cast<double>(scale) : static_cast<double>(in) / out;
    *d = {in, static_cast<size_t>(out), ratio, size == 0 ? scale : 0};
    return QN_OK;
  }

  qn_resize2d_params p_;
};

qn_status create(const qn_resize2d_params* params, qn_operator** op) {
  qn_resize2d_params p;
  QN_TRY(read_params(resize2d, params, qn_resize2d_params_init, op, &p, check_computed_type));
  const struct {
    const char* what;
    int value, last;
  } choices[] = {{"kind", p.kind, QN_RESIZE_BILINEAR},
                 {"coordinates", p.coordinates, QN_COORDINATES_HALF_PIXEL_OR_0},
                 {"rounding", p.rounding, QN_ROUND_HALF_UP}};
  for (const auto& c : choices) {
    if (c.value < 0 || c.value > c.last) {
      return fail(QN_INVALID_ARGUMENT, "%s: unknown %s %d", resize2d, c.what, c.value);
    }
  }
  if (p.type != QN_F32 && p.kind == QN_RESIZE_BILINEAR) {
    return fail(QN_UNSUPPORTED, "%s: QN_RESIZE_BILINEAR of %s", resize2d, qn_type_string(p.type));
  }
  const struct {
    const char* what;
    size_t size;
    float scale;
  } scales[] = {{"scale_h", p.size.h, p.scale_h}, {"scale_w", p.size.w, p.scale_w}};
  for (const auto& s : scales) {
    if (s.size == 0 && !(s.scale > 0 && std::isfinite(s.scale))) {
      return fail(QN_INVALID_ARGUMENT, "%s: %s is %g", resize2d, s.what, static_cast<double>(s.scale));
    }
  }
  return make_operator<Resize2d>(op, p);
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_resize2d_params_init_sized(qn_resize2d_params* params, size_t size) {
  qn_resize2d_params p = {};
  p.type = QN_F32;
  p.rounding = QN_ROUND_HALF_DOWN;
  p.scale_h = p.scale_w = 1;
  quern::init_struct(params, size, p);
}

qn_status qn_resize2d_create(const qn_resize2d_params* params, qn_operator** op) {
  return quern::guarded([=] { return quern::create(params, op); });
}

}  // extern "C"
