// Elements at places that tensors name, or that are chosen by what they are; boxes.
#include "convert/tflite/custom_options.h"
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

// ---- places -----------------------------------------------------------------------------------

Values gather(const TfliteNode& node) {
  const auto& o = node.options<schema::GatherOptions>();
  return {node.typed(gathered(node, node.any(0), node.any(1), o.axis(), o.batch_dims()))};
}
Values embedding_lookup(const TfliteNode& node) {
  return {node.typed(make(node, "gather", {node.any(1), node.any(0)}, Parameters().integer("axis", 0)))};
}

Values scatter_nd(const TfliteNode& node) {
  node.expect_plain(1);
  return {node.typed(scattered(node, node.any(0), node.any(1), node.any(2)))};
}
// The number of segments must be known, so it is that of constant numbers of segments.
Values segment_sum(const TfliteNode& node) {
  const std::vector<int64_t>& ids = node.integers(1).values;
  const Value x = node.any(0);
  Shape shape = shape_at_import(node, x);
  if (ids.empty() || shape.empty()) throw Unsupported{"without segments"};
  for (size_t d = 0; d < shape.size(); ++d) node.fix(node.dimension(0, d).symbol);
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  const int64_t last = *std::max_element(ids.begin(), ids.end());
  if (last < 0 || last >= int64_t{1} << 31) node.fail("segment " + std::to_string(last));
  sizes[0] = last + 1;
  return {node.typed(scattered(node, with_axis(node, node.any(1), 1), x, integer_list(sizes)))};
}

Values one_hot(const TfliteNode& node) {
  const int64_t axis = node.options<schema::OneHotOptions>().axis();
  return {node.typed(convert::one_hot(node, node.any(0), node.any(1), node.any(2), node.any(3), axis))};
}

Values sparse_to_dense(const TfliteNode& node) {
  const Value indices = node.any(0), values = node.any(2), all = filled(node, node.any(1), node.any(3));
  const Shape shape = shape_at_import(node, indices);
  for (size_t d = 0; d < shape.size(); ++d) node.fix(node.dimension(0, d).symbol);
  const auto count = static_cast<int64_t>(shape.empty() ? 1 : shape[0]);
  const int64_t rank = shape.size() < 2 ? 1 : static_cast<int64_t>(shape[1]);
  if (shape.size() > 2) node.fail("expected indices of rank 2 at most, got rank " + std::to_string(shape.size()));
  const Value each = make(node, "expand", {values, integer_list({count})});  // there may be one value for all
  return {node.typed(make(node, "scatter_nd", {all, reshaped(node, indices, {count, rank}), each}))};
}

// All places of a block that begins at zeros, as a tensor [sizes..., dimensions].
Value places_of(const TfliteNode& node, const Shape& block) {
  size_t count = block.size();
  for (const size_t d : block) {
    if (__builtin_mul_overflow(count, d, &count) || count > 1 << 24) throw Unsupported{"an update of this size"};
  }
  node.builder.charge(count * sizeof(int64_t));
  Integers places = {block, std::vector<int64_t>(count), {}};
  places.shape.push_back(block.size());
  for (size_t i = 0; i < count; i += block.size()) {
    size_t rest = i / block.size();
    for (size_t d = block.size(); d-- > 0; rest /= block[d])
      places.values[i + d] = static_cast<int64_t>(rest % block[d]);
  }
  return integer_value(std::move(places));
}

// Puts an update at a place that may be computed, such as the next of a cache. It is moved so that it lies inside.
Values dynamic_update_slice(const TfliteNode& node) {
  const Value x = node.any(0), update = node.any(1);
  const Shape whole = shape_at_import(node, x), part = shape_at_import(node, update);
  if (whole.size() != part.size()) node.fail("the update has another rank");
  if (shape_at_import(node, node.any(2)) != Shape{part.size()}) node.fail("the place does not fit the rank");
  std::vector<int64_t> last;
  size_t moving = 0;  // behind these dimensions there is one place only
  for (size_t d = 0; d < part.size(); ++d) {
    if (part[d] > whole[d]) node.fail("the update is larger than the tensor");
    node.fix(node.dimension(0, d).symbol);
    node.fix(node.dimension(1, d).symbol);
    last.push_back(static_cast<int64_t>(whole[d] - part[d]));
    if (last[d] != 0) moving = d + 1;
  }
  if (moving == 0) return {node.typed(update)};
  Value begin = cast_to(node, node.any(2), ElementType::i64);
  begin = make(node, "min", {make(node, "max", {begin, integer_number(0)}), integer_list(last)});
  if (moving < part.size()) begin = sliced(node, begin, {0}, {static_cast<int64_t>(moving)}, {0});
  const Shape block(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(moving));
  const Value places = make(node, "any_add", {places_of(node, block), begin});
  return {node.typed(make(node, "scatter_nd", {x, places, update}))};
}

// ---- what elements are ------------------------------------------------------------------------

Values top_k(const TfliteNode& node) {
  const Value x = node.any(0);
  const Values found = make_all(node, "top_k", {x, reshaped(node, node.any(1), {1})}, Parameters().integer("axis", -1),
                                {x.type, ElementType::i64});
  return {node.typed(found[0], 0), node.typed(found[1], 1)};
}
Values where(const TfliteNode& node) {
  node.expect_plain(0);
  return {node.typed(places_of_nonzero(node, node.any(0)))};
}
Values unique(const TfliteNode& node) {
  const Values found = unique_elements(node, node.any(0));
  return {node.typed(found[0], 0), node.typed(found[1], 1)};
}

// ---- boxes ------------------------------------------------------------------------------------

// Outputs have as many places as may be chosen; zeros stand behind those that are.
Values suppressed(const TfliteNode& node, bool soft) {
  const int64_t most = only_integer_of(node, 2);
  if (most < 0 || most > 1 << 20) node.fail("the number of outputs is out of range");
  Values inputs = node.all();
  inputs.resize(5 + (soft ? 1 : 0));
  const Parameters parameters = Parameters().integer("most", most);
  const Values found = make_all(node, "suppress_boxes", inputs, Parameters(parameters),
                                {ElementType::s32, ElementType::f32, ElementType::s32});
  if (soft) return {node.typed(found[0], 0), node.typed(found[1], 1), node.typed(found[2], 2)};
  return {node.typed(found[0], 0), node.typed(found[2], 1)};
}
Values non_max_suppression_v4(const TfliteNode& node) { return suppressed(node, false); }
Values non_max_suppression_v5(const TfliteNode& node) { return suppressed(node, true); }

// Inputs: offsets of boxes, scores, anchors. Outputs: boxes, classes, scores, how many there are.
Values detection_post_process(const TfliteNode& node) {
  const CustomOptions options(node);
  const float y = options.number("y_scale"), x = options.number("x_scale"), h = options.number("h_scale"),
              w = options.number("w_scale");
  if (node.output_count() != 4) node.fail("has " + std::to_string(node.output_count()) + " outputs");
  const bool by_class = options.integer("use_regular_nms", 0, 0) != 0;
  if (!by_class && options.integer("max_classes_per_detection", 1, 1) > options.integer("num_classes", 1, 0)) {
    throw Unsupported{"more classes of each box than there are"};
  }
  Parameters parameters = Parameters()
                              .integer("classes", options.integer("num_classes", 1, 0))
                              .integer("most", options.integer("max_detections", 1, 0))
                              .integer("classes_of_each", options.integer("max_classes_per_detection", 1, 1))
                              .integer("most_of_class", options.integer("detections_per_class", 1, 100))
                              .integer("by_class", by_class)
                              .number("threshold", options.number("nms_score_threshold"))
                              .number("overlap", options.number("nms_iou_threshold"))
                              .floats("scales", {y, x, h, w});
  Values found = make_all(node, "anchor_detections", node.all(), std::move(parameters),
                          std::vector<ElementType>(4, ElementType::f32));
  for (size_t i = 0; i < 4; ++i) found[i] = node.typed(found[i], i);
  return found;
}

}  // namespace

const TfliteTable& general_choosing() {
  static const TfliteTable table = {
      {"DYNAMIC_UPDATE_SLICE", {dynamic_update_slice, 3, 3}},
      {"EMBEDDING_LOOKUP", {embedding_lookup, 2, 2}},
      {"GATHER", {gather, 2, 2}},
      {"GATHER_ND", {plain<"gather_nd">, 2, 2}},
      {"NON_MAX_SUPPRESSION_V4", {non_max_suppression_v4, 5, 5}},
      {"NON_MAX_SUPPRESSION_V5", {non_max_suppression_v5, 6, 6}},
      {"ONE_HOT", {one_hot, 4, 4}},
      {"SCATTER_ND", {scatter_nd, 3, 3}},
      {"SEGMENT_SUM", {segment_sum, 2, 2}},
      {"SPARSE_TO_DENSE", {sparse_to_dense, 4, 4}},
      {"TOPK_V2", {top_k, 2, 2}},
      {"UNIQUE", {unique, 1, 1}},
      {"WHERE", {where, 1, 1}},
      {"custom TFLite_Detection_PostProcess", {detection_post_process, 3, 3}},
  };
  return table;
}

}  // namespace quern::tflite
