// Operators that cut, join, pad and repeat tensors, or choose elements.
#include "convert/onnx/general/general.h"

namespace quern::onnx {

namespace {

// The number of a word in a list.
int64_t choice(const OnnxNode& node, const char* attribute, const std::vector<std::string>& words) {
  const std::string word = node.text(attribute, words[0]);
  const auto at = std::find(words.begin(), words.end(), word);
  if (at == words.end()) throw Unsupported{std::string(attribute) + " " + word};
  return at - words.begin();
}

template <Name kind, int64_t otherwise>
Values along_axis(const OnnxNode& node) {
  return same_type(node, kind.text, Parameters().integer("axis", node.integer("axis", otherwise)));
}

// ---- parts

Values split(const OnnxNode& node) {
  const auto count = static_cast<int64_t>(node.proto.output_size());
  if (node.integer("num_outputs", count) != count) node.fail("num_outputs is not the number of outputs");
  const View sizes = list_operand(node, "split", 1, node.has(1) ? 1 : 13);
  return node.custom(
      "split_to", {node.operand(0), sizes},
      Parameters().integer("axis", node.integer("axis", 0)).integer("parts", count).integer("even", node.opset < 18),
      std::vector<ElementType>(static_cast<size_t>(count), node.value(0).type));
}

Values slice(const OnnxNode& node) {
  const Value starts = list_value(node, "starts", 1, 10), ends = list_value(node, "ends", 2, 10);
  if (!starts || !ends) node.fail("starts or ends are missing");
  const Value axes = list_value(node, "axes", 3, 10), steps = node.has(4) ? node.value(4) : Value();
  return {make(node, "slice_by", {node.value(0), starts, ends, axes, steps})};
}

Values pad(const OnnxNode& node) {
  const Value pads = list_value(node, "pads", 1, 11);
  if (!pads) node.fail("pads are missing");
  const float value = node.opset < 11 ? node.any_number("value", 0) : 0;
  const Value filler = node.opset < 11 ? Value(node.builder.constant({}, &value))
                       : node.has(2)   ? node.value(2)
                                       : Value();
  return {make(node, "pad_by", {node.value(0), pads, filler, node.has(3) ? node.value(3) : Value()},
               Parameters().integer("mode", choice(node, "mode", {"constant", "reflect", "edge", "wrap"})))};
}

Values center_crop_pad(const OnnxNode& node) {
  return same_type(node, "center_crop_pad", Parameters().integers("axes", node.integer_list("axes")));
}

Values trilu(const OnnxNode& node) {
  return same_type(node, "trilu", Parameters().integer("upper", node.integer("upper", 1)));
}

Values reverse_sequence(const OnnxNode& node) {
  return same_type(node, "reverse_sequence",
                   Parameters()
                       .integer("batch_axis", node.integer("batch_axis", 1))
                       .integer("time_axis", node.integer("time_axis", 0)));
}

// ---- elements at places that tensors name

Values gather_nd(const OnnxNode& node) {
  return same_type(node, "gather_nd", Parameters().integer("batch_dims", node.integer("batch_dims", 0)));
}

Parameters reduction(const OnnxNode& node) {
  return Parameters().integer("reduction", choice(node, "reduction", {"none", "add", "mul", "max", "min"}));
}
Values scatter_elements(const OnnxNode& node) {
  return same_type(node, "scatter_elements", reduction(node).integer("axis", node.integer("axis", 0)));
}
Values scatter_nd(const OnnxNode& node) { return same_type(node, "scatter_nd", reduction(node)); }

Values tensor_scatter(const OnnxNode& node) {
  return same_type(node, "tensor_scatter",
                   Parameters()
                       .integer("axis", node.integer("axis", -2))
                       .integer("circular", choice(node, "mode", {"linear", "circular"})));
}

// ---- elements that are chosen by what they are

std::vector<ElementType> with_indices(const OnnxNode& node) {
  std::vector<ElementType> types(static_cast<size_t>(node.proto.output_size()), ElementType::i64);
  if (!types.empty()) types[0] = node.value(0).type;
  return types;
}

Values top_k(const OnnxNode& node) {
  const int64_t k = node.opset < 10 ? node.integer("k", 0) : 0;
  const View count =
      node.opset < 10 ? integer_constant(node.builder, {{1}, {k}, {}}, ElementType::i64) : node.operand(1);
  node.ignore("sorted");  // sorted elements are right in any case
  return node.custom(
      "top_k", {node.operand(0), count},
      Parameters().integer("axis", node.integer("axis", -1)).integer("largest", node.integer("largest", 1)),
      with_indices(node));
}

// Operators that work on slices of an axis or, without the attribute, on elements.
Parameters items(const OnnxNode& node) {
  return node.has_attribute("axis") ? Parameters().integer("axis", node.integer("axis", 0)) : Parameters();
}
Values compress(const OnnxNode& node) { return same_type(node, "compress", items(node)); }
Values unique(const OnnxNode& node) {
  return of_kind(node, "unique", items(node).integer("sorted", node.integer("sorted", 1)), with_indices(node));
}

// Counts sequences of integers that the attributes list.
Values tf_idf(const OnnxNode& node) {
  if (node.has_attribute("pool_strings")) throw Unsupported{"of strings"};
  Parameters parameters =
      Parameters()
          .integers("lengths", {node.integer("min_gram_length", 1), node.integer("max_gram_length", 1)})
          .integer("skips", node.integer("max_skip_count", 0))
          .integer("mode", choice(node, "mode", {"TF", "IDF", "TFIDF"}))
          .integers("starts", node.integer_list("ngram_counts"))
          .integers("places", node.integer_list("ngram_indexes"))
          .integers("pool", node.integer_list("pool_int64s"))
          .floats("weights", node.number_list("weights"));
  return of_kind(node, "tf_idf", std::move(parameters), {ElementType::f32});
}

Values nonzero(const OnnxNode& node) { return of_kind(node, "nonzero", {}, {ElementType::i64}); }

}  // namespace

const OnnxTable& general_moving() {
  static const OnnxTable table = {
      {"CenterCropPad", {center_crop_pad, 2, 2}},
      {"Compress", {compress, 2, 2}},
      {"Concat", {along_axis<"join", 1>, 1, many_inputs}},
      {"Expand", {plain<"expand">, 2, 2}},
      {"Gather", {along_axis<"gather", 0>, 2, 2}},
      {"GatherElements", {along_axis<"gather_elements", 0>, 2, 2}},
      {"GatherND", {gather_nd, 2, 2}},
      {"NonZero", {nonzero, 1, 1}},
      {"Pad", {pad, 1, 4}},
      {"ReverseSequence", {reverse_sequence, 2, 2}},
      {"Scatter", {scatter_elements, 3, 3}},
      {"ScatterElements", {scatter_elements, 3, 3}},
      {"ScatterND", {scatter_nd, 3, 3}},
      {"Slice", {slice, 1, 5}},
      {"Split", {split, 1, 2}},
      {"TensorScatter", {tensor_scatter, 2, 3}},
      {"TfIdfVectorizer", {tf_idf, 1, 1}},
      {"Tile", {plain<"tile">, 2, 2}},
      {"TopK", {top_k, 1, 2}},
      {"Trilu", {trilu, 1, 2}},
      {"Unique", {unique, 1, 1}},
  };
  return table;
}

}  // namespace quern::onnx
