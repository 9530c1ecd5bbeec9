#include <limits>

#include "base/math.h"
#include "base/tensor.h"
#include "op/conv/conv.h"
#include "op/weights/quantized.h"

namespace quern {
namespace {

bool is_pointwise(const Window& window) {
  const auto one = [](const Axis& a) { return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.after == 0; };
  return one(window.h) && one(window.w);
}

class Conv2d final : public Operator {
 public:
  Conv2d(const char* who, const qn_conv2d_params& p, const Window& window, const qn_weights& weights,
         const WeightsShape& shape, const void* bias, Activations activations, const SumFacts& facts,
         qn_weights_cache* cache)
      : Operator(who, 1, 2),
        in_channels_(p.in_channels),
        window_(window),
        weights_(weights, shape, bias, cache, activations),
        clamp_{p.min, p.max} {
    set_type(p.type);
    takes_blocked = type == QN_F32 && !weights_.dynamic();
    has_algorithms = true;
    in_place = 2;  // bit 1: the residual
    goes_by_rows = shape.in == 1 && shape.out == 1;
    if (!weights_.dynamic() && is_pointwise(window) && shape.groups == 1) pointwise_weights = shape.in * shape.out;
    if (has_integers) weights_.set_facts(facts);
    if (has_sparse) {
      settle = [](const Operator& self, const Request& request, qn_plan_options* options) {
        return static_cast<const Conv2d&>(self).narrow(request, options);
      };
    }
  }

  qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const override {
    const qn_tensor& in = ins[0];
    QN_TRY(check_rank(name, in, 4));
    if (in.shape[3] != in_channels_) {
      return fail(QN_INVALID_ARGUMENT, "%s: the input has %zu channels, not %zu", name, in.shape[3], in_channels_);
    }
    Window window = window_;
    QN_TRY(size_window(name, in.shape[1], in.shape[2], false, &window));
    const WeightsShape& shape = weights_.shape();
    out->rank = 4;
    const size_t sizes[] = {in.shape[0], window.h.out, window.w.out, shape.groups * shape.out};
    std::copy_n(sizes, 4, out->shape);
    if (ins.size() == 2 && !same_shape(ins[1], *out)) {
      return fail(QN_INVALID_ARGUMENT, "%s: the residual is %s but the output %s", name, ShapeText(ins[1]).text,
                  ShapeText(*out).text);
    }
    return QN_OK;
  }

  qn_status plan(const Request& request, PlanPointer* plan) const override {
    Window window = window_;
    QN_TRY(check_residual(request));
    QN_TRY(size_input(request.ins[0], &window));
    return plan_conv({name, problem(request, window), request, weights_, window, clamp_}, plan);
  }

  // Fixes the algorithm for plans of parts of the image. All kernels of one dense algorithm give the same bits, so each
  // part may choose the best one for its height. Sparse kernels add in different orders, and so does a row of floats by
  // weights of bytes, so the kernel is fixed, too.
  qn_status narrow(const Request& request, qn_plan_options* options) const {
    Window window = window_;
    QN_TRY(size_input(request.ins[0], &window));
    Choice choice;
    QN_TRY(choose_conv({name, problem(request, window), request, weights_, window, clamp_}, &choice));
    options->algorithm = choice.algorithm;
    if (choice.algorithm == QN_ALGORITHM_SPARSE || weights_.bytes_for_floats()) options->kernel = choice.row->name;
    return QN_OK;
  }

  qn_status cost(const Request& request, double* cycles) const override {
    if (!has_sparse) return Operator::cost(request, cycles);
    Window window = window_;
    QN_TRY(check_residual(request));
    QN_TRY(size_input(request.ins[0], &window));
    const Problem p = problem(request, window);
    // A layout alone is no reason to treat full weights as sparse; somebody must ask for the algorithm.
    if (p.blocked() && !(p.in == 1 && p.out == 1) && request.options.algorithm == QN_ALGORITHM_AUTO && !has_zeros(p)) {
      return fail(QN_UNSUPPORTED, "%s: no weight is 0", name);
    }
    Choice choice;
    QN_TRY(choose(name, p, request.options, &choice));
    *cycles = choice.cycles;
    return QN_OK;
  }

 private:
  static bool same_places(const qn_tensor& a, const qn_tensor& b) {
    return a.layout == b.layout && std::equal(a.stride, a.stride + 4, b.stride);
  }

  qn_status check_residual(const Request& request) const {
    if (request.ins.size() < 2 || same_places(request.ins[1], request.out)) return QN_OK;
    return fail(QN_UNSUPPORTED, "%s: the residual has another layout or other strides than the output", name);
  }

  qn_status size_input(const qn_tensor& in, Window* window) const {
    stride_window(in, window);
    return size_window(name, in.shape[1], in.shape[2], false, window);
  }

  // Do 32-bit offsets reach every pixel of an image?
  static bool offsets_fit(const qn_tensor& in, const Window& window) {
    if (!is_blocked(in)) return window.offsets_fit();
    const qn_tensor blocks = in_memory(in);
    return blocks.shape[1] * blocks.stride[1] <= INT32_MAX;
  }

  Problem problem(const Request& request, const Window& window) const {
    const WeightsShape& shape = weights_.shape();
    Problem p;
    p.type = kernel_type(type, weights_);
    p.weights_are = demands_met(request, weights_);
    p.pixels = window.pixels();
    p.images = request.out.shape[0];
    p.groups = shape.groups;
    p.residual = request.ins.size() == 2;
    p.in = shape.in;
    p.out = shape.out;
    p.kernel = shape.kernel;
    p.pointwise = is_pointwise(window);
    p.row_stride = weights_.dynamic() ? quantized_row_stride(p.type, shape.in) : window.pixel_stride;
    p.traffic = request.options.traffic;
    p.density = density_for(weights_, request.options);
    p.in_blocked = is_blocked(request.ins[0]);
    p.out_blocked = is_blocked(request.out);
    p.offsets_fit = offsets_fit(request.ins[0], window);
    p.window = &window;
    p.height = window.h.out;
    p.width = window.w.out;
    p.undilated = window.h.stride == 1 && window.w.stride == 1 && window.h.dilation == 1 && window.w.dilation == 1;
    p.contiguous = window.w.dilation == 1 && window.pixel_stride == shape.in * input_bytes(p.type);
    // A pointwise convolution treats the pixels of all images as rows of one matrix.
    if (p.pointwise && !p.blocked()) p.pixels *= p.images, p.images = 1;
    p.type = type_for_floats(p, request, weights_);
    return p;
  }

  size_t in_channels_;
  Window window_;
  Weights weights_;
  qn_minmax_f32 clamp_;
};

qn_status create_conv(const char* who, const qn_conv2d_params& p, const qn_weights* user_weights, const void* bias,
                      qn_weights_cache* cache, qn_operator** op) {
  const struct {
    const char* what;
    size_t value;
  } counts[] = {{"in_channels", p.in_channels}, {"out_channels", p.out_channels}, {"groups", p.groups}};
  for (const auto& c : counts) QN_TRY(check_positive(who, c.what, c.value));
  for (const auto& c : counts) {
    if (c.value % p.groups != 0) {
      return fail(QN_INVALID_ARGUMENT, "%s: %s %zu is not a multiple of groups %zu", who, c.what, c.value, p.groups);
    }
  }
  Window window;
  QN_TRY(make_window(who, p.kernel, p.stride, p.dilation, p.padding, &window));
  QN_TRY(check_clamp(who, p.min, p.max));
  const WeightsShape shape = {p.groups, p.out_channels / p.groups, p.in_channels / p.groups, p.kernel};
  qn_weights weights;
  Activations activations = Activations::given;
  if (reads_activations) QN_TRY(read_activations(who, p.quantize_input, p.type, &activations));
  if (activations == Activations::by_the_row && !(is_pointwise(window) && p.groups == 1)) {
    return fail(QN_UNSUPPORTED, "%s: quantize_input with a kernel, stride or padding, or several groups", who);
  }
  QN_TRY(read_weights(who, user_weights, p.type, shape, &weights, activations));
  QN_TRY(check_aligned(who, "bias", bias));
  SumFacts facts;
  if (quantizes_inputs && activations == Activations::by_the_row)
    QN_TRY(check_dynamic_sums(who, weights, shape, &facts));
  if (has_integers && p.type == QN_S8) facts = facts_of_sums(weights, shape, bias);
  if (has_scaled_blocks && activations == Activations::given) facts.fit_4_bits = fit_4_bits(weights, shape);
  return make_operator<Conv2d>(op, who, p, window, weights, shape, bias, activations, facts, cache);
}

// A depthwise convolution is a convolution with as many groups as input channels. Its weights have the same layouts,
// with one input channel per group.
qn_status as_conv(const char* who, const qn_dwconv2d_params& d, qn_conv2d_params* p) {
  qn_conv2d_params_init(p);
  p->type = d.type;
  p->in_channels = p->groups = d.channels;
  if (!checked_mul(d.channels, d.multiplier, &p->out_channels)) {
    return fail(QN_INVALID_ARGUMENT, "%s: channels %zu times multiplier %zu overflows", who, d.channels, d.multiplier);
  }
  QN_TRY(check_positive(who, "multiplier", d.multiplier));
  p->kernel = d.kernel;
  p->stride = d.stride;
  p->dilation = d.dilation;
  p->padding = d.padding;
  p->min = d.min;
  p->max = d.max;
  return QN_OK;
}

template <class Params>
void init_conv(Params& p) {
  p.type = QN_F32;
  p.kernel = p.stride = p.dilation = {1, 1};
  p.min = -std::numeric_limits<float>::infinity();
  p.max = std::numeric_limits<float>::infinity();
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_conv2d_params_init_sized(qn_conv2d_params* params, size_t size) {
  qn_conv2d_params p = {};
  quern::init_conv(p);
  p.groups = 1;
  quern::init_struct(params, size, p);
}

void qn_dwconv2d_params_init_sized(qn_dwconv2d_params* params, size_t size) {
  qn_dwconv2d_params p = {};
  quern::init_conv(p);
  p.multiplier = 1;
  quern::init_struct(params, size, p);
}

qn_status qn_conv2d_create(const qn_conv2d_params* params, const qn_weights* weights, const void* bias,
                           qn_weights_cache* cache, qn_operator** op) {
  return quern::guarded([=] {
    qn_conv2d_params p;
    QN_TRY(quern::read_params("conv2d", params, qn_conv2d_params_init, op, &p, quern::check_product_type));
    return quern::create_conv("conv2d", p, weights, bias, cache, op);
  });
}

qn_status qn_dwconv2d_create(const qn_dwconv2d_params* params, const qn_weights* weights, const void* bias,
                             qn_weights_cache* cache, qn_operator** op) {
  return quern::guarded([=] {
    qn_dwconv2d_params d;
    QN_TRY(quern::read_params("dwconv2d", params, qn_dwconv2d_params_init, op, &d, quern::check_product_type));
    qn_conv2d_params p;
    QN_TRY(quern::as_conv("dwconv2d", d, &p));
    return quern::create_conv("dwconv2d", p, weights, bias, cache, op);
  });
}

}  // extern "C"
