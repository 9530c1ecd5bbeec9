// Reductions, and what works along an axis.
#include <string>

#include "convert/onnx/general/general.h"
#include "convert/onnx/tensor.h"

namespace quern::onnx {
namespace {

// The axes are an attribute before opset `since`, and an input from it on.
Values reduce_since(const OnnxNode& node, const char* kind, int64_t since) {
  if (node.opset < since && node.input_count() > 1) node.fail("has 2 inputs");
  return of_kind(node, kind,
                 Parameters()
                     .integer("keep_dimensions", node.integer("keepdims", 1))
                     .integer("none_without_axes", node.opset < since ? 0 : node.integer("noop_with_empty_axes", 0))
                     .integers("axes", node.opset < since ? node.integer_list("axes") : std::vector<int64_t>()),
                 {node.value(0).type});
}
template <Name kind>
Values reduce(const OnnxNode& node) {
  return reduce_since(node, kind.text, 18);
}
Values reduce_sum(const OnnxNode& node) { return reduce_since(node, "reduce_sum", 13); }

// Imports ArgMax and ArgMin.
template <Name kind>
Values place(const OnnxNode& node) {
  return of_kind(node, kind.text,
                 Parameters()
                     .integer("axis", node.integer("axis", 0))
                     .integer("keep_dimensions", node.integer("keepdims", 1))
                     .integer("last", node.integer("select_last_index", 0)),
                 {ElementType::i64});
}

// Before opset 13, these run over all dimensions from `axis` on, as if they were one.
template <Name kind>
Values softmax(const OnnxNode& node) {
  const bool to_end = node.opset < 13;
  return of_kind(node, kind.text,
                 Parameters().integer("axis", node.integer("axis", to_end ? 1 : -1)).integer("to_end", to_end ? 1 : 0),
                 {node.value(0).type});
}

// Imports CumSum and CumProd.
template <Name kind>
Values cumulative(const OnnxNode& node) {
  return of_kind(
      node, kind.text,
      Parameters().integer("exclusive", node.integer("exclusive", 0)).integer("reverse", node.integer("reverse", 0)),
      {node.value(0).type});
}

Values lrn(const OnnxNode& node) {
  return of_kind(node, "any_lrn",
                 Parameters()
                     .integer("size", node.integer("size", 0))
                     .number("alpha", node.any_number("alpha", 1e-4f))
                     .number("beta", node.any_number("beta", 0.75f))
                     .number("bias", node.any_number("bias", 1)),
                 {node.value(0).type});
}

// A window is a0 - a1 * cos(t) + a2 * cos(2 * t).
Values window(const OnnxNode& node, float a0, float a1, float a2) {
  const auto number = static_cast<int32_t>(node.integer("output_datatype", 1));
  const std::optional<ElementType> type = element_type(number);
  if (!type) throw Unsupported{"of type " + type_name(number)};
  return of_kind(
      node, "window",
      Parameters().number("a0", a0).number("a1", a1).number("a2", a2).integer("periodic", node.integer("periodic", 1)),
      {*type});
}
Values blackman(const OnnxNode& node) { return window(node, 0.42f, 0.5f, 0.08f); }
Values hamming(const OnnxNode& node) { return window(node, 25.0f / 46, 21.0f / 46, 0); }
Values hann(const OnnxNode& node) { return window(node, 0.5f, 0.5f, 0); }

}  // namespace

const OnnxTable& general_reductions() {
  static const OnnxTable table = {
      {"ArgMax", {place<"arg_max">, 1, 1}},
      {"ArgMin", {place<"arg_min">, 1, 1}},
      {"BlackmanWindow", {blackman, 1, 1}},
      {"CumProd", {cumulative<"cumulative_product">, 2, 2}},
      {"CumSum", {cumulative<"cumulative_sum">, 2, 2}},
      {"Det", {plain<"det">, 1, 1}},
      {"HammingWindow", {hamming, 1, 1}},
      {"HannWindow", {hann, 1, 1}},
      {"Hardmax", {softmax<"hardmax">, 1, 1}},
      {"LRN", {lrn, 1, 1}},
      {"LogSoftmax", {softmax<"log_softmax">, 1, 1}},
      {"ReduceL1", {reduce<"reduce_l1">, 1, 2}},
      {"ReduceL2", {reduce<"reduce_l2">, 1, 2}},
      {"ReduceLogSum", {reduce<"reduce_log_sum">, 1, 2}},
      {"ReduceLogSumExp", {reduce<"reduce_log_sum_exp">, 1, 2}},
      {"ReduceMax", {reduce<"reduce_max">, 1, 2}},
      {"ReduceMean", {reduce<"reduce_mean">, 1, 2}},
      {"ReduceMin", {reduce<"reduce_min">, 1, 2}},
      {"ReduceProd", {reduce<"reduce_prod">, 1, 2}},
      {"ReduceSum", {reduce_sum, 1, 2}},
      {"ReduceSumSquare", {reduce<"reduce_sum_square">, 1, 2}},
      {"Softmax", {softmax<"any_softmax">, 1, 1}},
  };
  return table;
}

}  // namespace quern::onnx
