#include "op/conv/conv.h"

#include "base/math.h"
#include "base/search.h"
#include "base/tensor.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/epilogue.h"
#include "op/conv/tune.h"
#include "op/conv/tuning.h"

namespace quern {
namespace {

// The number of multiply-accumulates, or UINT64_MAX if it overflows.
uint64_t count_macs(const qn_tensor& out, size_t depth) {
  uint64_t macs = depth;
  for (uint32_t i = 0; i < out.rank; ++i) {
    if (!checked_mul<uint64_t>(macs, out.shape[i], &macs)) return UINT64_MAX;
  }
  return macs;
}

PlanPointer plan_choice(const ConvRequest& conv, const Choice& choice) {
  PlanPointer plan;
  each_algorithm([&](auto each) {
    if (choice.algorithm == each.id) plan = each.plan(conv, choice);
  });
  return plan;
}

// ---- measured choices

// A candidate is not tried if its estimate is more than this many times the cheapest one's: the cost model does not err
// that much.
constexpr double worth_trying = 6;
// Another choice replaces the cost model's only if its time is below this part of the other's. Smaller differences are
// noise.
constexpr double advantage = 0.98;
// No further candidate is tried when the packed weights of those before it take more than this.
constexpr size_t max_trial_bytes = size_t{256} << 20;

TunedProblem::Places places_of(const Request& r) {
  const bool in = is_blocked(r.ins[0]), out = is_blocked(r.out);
  if (in || out) return in && out ? TunedProblem::blocked : in ? TunedProblem::in_blocked : TunedProblem::out_blocked;
  const bool dense = is_dense(r.out) && all_of(r.ins, is_dense);
  return dense ? TunedProblem::dense : TunedProblem::strided;
}

String problem_text(const ConvRequest& conv) {
  const Problem& p = conv.problem;
  const Request& r = conv.request;
  const Axis &h = conv.window.h, &w = conv.window.w;
  const SparsePattern pattern = pattern_of(p);
  TunedProblem t;
  t.matrix = p.matrix;
  // clang-format off
  t.numbers = {r.ins.size(), 1, 1, p.pixels, p.groups * p.in, p.groups * p.out, p.groups,
               h.kernel, w.kernel, h.stride, w.stride, h.dilation, w.dilation, h.before, w.before, h.after, w.after,
               pattern.percent, pattern.block, r.options.tasks};
  // clang-format on
  if (!p.matrix) std::copy_n(r.ins[0].shape, 3, &t.numbers[TunedProblem::images]);
  t.places = places_of(r);
  t.isa = has_integers && info_of(p.type).activations == Element::s8 ? byte_level() : float_level();
  t.type = p.type;
  return t.text();
}

// Returns all choices that apply, the cheapest first. If the options name an algorithm or a kernel, measurements have
// nothing to choose, and the list is empty.
Vector<Choice> open_choices(const ConvRequest& conv) {
  const qn_plan_options& options = conv.request.options;
  if (options.algorithm != QN_ALGORITHM_AUTO || options.kernel != nullptr) return {};
  return candidates(conv.problem, QN_ALGORITHM_AUTO, nullptr);
}

// Runs the candidates. Adds their times to `measured`, and sets `choice` to the fastest.
void measure(const ConvRequest& conv, const Vector<Choice>& list, Vector<Measured>* measured, Choice* choice) {
  Vector<Trial> trials;
  size_t packed = 0;
  for (const Choice& c : list) {
    if (c.cycles > worth_trying * list[0].cycles || packed > max_trial_bytes) break;
    const Weights weights = conv.weights.unshared();  // shared ones would be warm when another candidate has read them
    trials.emplace_back().plan =
        plan_choice({conv.who, conv.problem, conv.request, weights, conv.window, conv.clamp}, c);
    packed += weights.packed_bytes();
  }
  if (trials.size() > 1) time_trials(conv.request, &trials);
  size_t best = 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    measured->push_back({list[i].algorithm, list[i].row->name, trials[i].seconds(), list[i].cycles / list[0].cycles});
    const double must_beat = trials[best].seconds() * (best == 0 ? advantage : 1);
    if (trials[i].seconds() < must_beat) best = i;
  }
  *choice = list[best];
}

// Replaces the cost model's choice by the measured one, if the tuning has one for this problem or may measure it now.
qn_status choose_measured(const ConvRequest& conv, Choice* choice) {
  const Vector<Choice> list = open_choices(conv);
  if (list.empty()) return QN_OK;
  Tuning& tuning = *conv.request.options.tuning->impl;
  const String problem = problem_text(conv);
  TunedChoice tuned;
  if (tuning.find(problem, &tuned)) {
    for (const Choice& c : list) {
      if (c.algorithm != tuned.algorithm || tuned.kernel != c.row->name) continue;
      *choice = c;
      return QN_OK;
    }
  }
  if (!conv.request.options.tune) return QN_OK;
  tuned.measured.clear();
  measure(conv, list, &tuned.measured, choice);
  tuned.algorithm = choice->algorithm;
  tuned.kernel = choice->row->name;
  tuning.set(problem, tuned);
  return QN_OK;
}

}  // namespace

// Kernels multiply sums by quotients of these numbers: the scale of the input times that of the weights, divided by the
// scale of the output. ONNX Runtime computes the quotients in the same order, in single precision.
OutputNumbers ConvRequest::numbers() const {
  OutputNumbers numbers = {.clamp = clamp};
  if (!weights.quantized() && !dequantizes(problem.type)) return numbers;
  const WeightsShape& shape = weights.shape();
  numbers.groups = shape.groups;
  numbers.channels = shape.out;
  numbers.sum_scales.resize(shape.groups * shape.out);
  if (quantizes_inputs && !weights.quantized()) {
    for (size_t o = 0; o < numbers.sum_scales.size() && !weights.has_blocks(); ++o)
      numbers.sum_scales[o] = weights.scale(o);
    numbers.biases = weights.float_bias();
    return numbers;
  }
  const Steps steps = steps_before_residual(request);
  numbers.scale = steps.scale;
  numbers.zero = steps.zero;
  for (size_t o = 0; o < numbers.sum_scales.size(); ++o) {
    numbers.sum_scales[o] = request.ins[0].quantization.scale * weights.scale(o);
  }
  return numbers;
}

uint8_t demands_met(const Request& request, const Weights& weights) {
  const SumFacts& facts = weights.facts();
  if (!weights.quantized()) return facts.meet;
  const WeightsShape& shape = weights.shape();
  const float factor = request.ins[0].quantization.scale, out = steps_before_residual(request).scale;
  float largest = 0;
  for (size_t o = 0; o < shape.groups * shape.out; ++o) {
    largest = std::max(largest, factor * weights.scale(o) / out);
  }
  constexpr double beyond_32_bits = 0x1p31 * (1 - 0x1p-20);  // after any rounding
  const bool fits = static_cast<double>(facts.largest) * static_cast<double>(largest) < beyond_32_bits;
  return fits ? facts.meet | fits32 : facts.meet;
}

qn_status read_activations(const char* who, int quantize_input, qn_type type, Activations* activations) {
  *activations = quantize_input != 0 ? Activations::by_the_row : Activations::given;
  if (quantize_input == 0) return QN_OK;
  if (has_integers && !quantizes_inputs) return fail_without("kernel", "gemm_qd8c");
  if (has_integers && type == QN_F32) return QN_OK;
  return fail(QN_UNSUPPORTED, "%s: quantize_input with type %s; only QN_F32 is supported", who, qn_type_string(type));
}

// Weights of 4 bits give the same results in half the memory, where there is a kernel for them.
KernelType kernel_type(qn_type type, const Weights& weights) {
  if (!weights.dynamic()) return kernel_type(type);
  if (weights.has_blocks()) return KernelType::qd8b4;
  const bool halves = weights.facts().fit_4_bits && best(gemm_rows(), KernelType::qd8c4).isa != isa_ref;
  return halves ? KernelType::qd8c4 : KernelType::qd8c;
}

KernelType type_for_floats(const Problem& p, const Request& request, const Weights& weights) {
  const bool depthwise = p.in == 1 && p.out == 1, bytes = weights.bytes_for_floats() && p.pixels == 1;
  if (!(bytes || weights.halves_for_floats()) || !p.pointwise || p.blocked() || depthwise) return p.type;
  const qn_algorithm algorithm = request.options.algorithm;
  const char* const kernel = request.options.kernel;
  if (algorithm != QN_ALGORITHM_AUTO && algorithm != QN_ALGORITHM_DENSE && algorithm != QN_ALGORITHM_GEMM)
    return p.type;
  Problem as_they_are = p;
  as_they_are.type = bytes ? KernelType::qw8c : KernelType::qw4b;
  if (select(gemm_rows(), as_they_are.type, kernel, [](const GemmRow&) { return true; }) == nullptr) return p.type;
  if (kernel != nullptr || !has_zeros(p)) return as_they_are.type;
  const auto cheapest = [](const Problem& problem) { return candidates(problem, QN_ALGORITHM_AUTO, nullptr).front(); };
  const Choice of_floats = cheapest(p);
  const bool sparse = of_floats.algorithm == QN_ALGORITHM_SPARSE && of_floats.cycles <= cheapest(as_they_are).cycles;
  return sparse ? p.type : as_they_are.type;
}

qn_status check_quantized(const ConvRequest& conv) {
  if (!conv.weights.quantized()) return QN_OK;
  const Request& r = conv.request;
  QN_TRY(check_one_scale(conv.who, r.ins, r.out));
  if (has_residual && r.ins.size() == 2) {
    QN_TRY(check_factor(conv.who, steps_before_residual(r).scale / r.out.quantization.scale));
    QN_TRY(check_factor(conv.who, r.ins[1].quantization.scale / r.out.quantization.scale));
  }
  const OutputNumbers numbers = conv.numbers();
  for (size_t o = 0; o < numbers.sum_scales.size(); ++o) {
    const float scale = numbers.sum_scales[o] / numbers.scale;
    if (!(scale >= 0 && scale < __builtin_inff())) {  // 0: sums of this channel count nothing
      return fail(QN_UNSUPPORTED, "%s: output channel %zu: the scales of input, weights and output are too far apart",
                  conv.who, o);
    }
  }
  return QN_OK;
}

qn_status choose_conv(const ConvRequest& conv, Choice* choice) {
  QN_TRY(choose(conv.who, conv.problem, conv.request.options, choice));
  return has_api("op") && conv.request.options.tuning != nullptr ? choose_measured(conv, choice) : QN_OK;
}

qn_status plan_conv(const ConvRequest& conv, PlanPointer* plan) {
  Choice choice;
  if (has_integers) QN_TRY(check_quantized(conv));
  QN_TRY(choose_conv(conv, &choice));
  *plan = plan_choice(conv, choice);
  (*plan)->algorithm = choice.algorithm;
  (*plan)->kernel = choice.row->name;
  (*plan)->macs = count_macs(conv.request.out, conv.weights.shape().depth());
  return QN_OK;
}

}  // namespace quern
