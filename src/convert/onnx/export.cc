// Writes any of our graphs as an ONNX model.
//
// ONNX images are N, C, H, W. As in the importers, each tensor has an order of dimensions: `Held` says which value of
// the ONNX graph stands for our tensor, and in which order. Image operators ask for channels first. The transposes that
// our graph has at its inputs and outputs only change the order, so most of them disappear.
//
// Quantized models are written in the form that other engines read best: each operator computes with floats between nodes
// DequantizeLinear and QuantizeLinear, and the engine replaces the three by an operator of bytes. Layers that quantize
// their input while they run become DynamicQuantizeLinear and MatMulInteger, or, with scales for blocks of weights,
// MatMulNBits of ONNX Runtime.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/math.h"
#include "convert/common/file.h"
#include "convert/common/layout.h"
#include "convert/convert.h"
#include "convert/onnx/onnx.pb.h"
#include "graph/file/sparse.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern::onnx {

using namespace convert;

namespace {

constexpr int64_t base_opset = 13, hard_swish_opset = 14, average_opset = 19;
constexpr int64_t ir_version = 8;

// A value of the ONNX graph. Its dimension i is our tensor's dimension order[i].
struct Held {
  std::string value;
  Order order;
};

// Returns the order: the batch, then the dimensions from `inner` on, then those between. With N, H, W, C and `inner` 3
// that is N, C, H, W.
Order pixels_last(size_t rank, size_t inner) {
  Order order = source_order(rank);
  std::rotate(order.begin() + 1, order.begin() + static_cast<ptrdiff_t>(inner), order.end());
  return order;
}

Order channels_first(size_t rank) { return rank > 2 ? pixels_last(rank, rank - 1) : source_order(rank); }

class Exporter {
 public:
  explicit Exporter(Graph& graph) : graph_(graph), out_(*model_.mutable_graph()) {
    for (const auto* ports : {&graph.inputs, &graph.outputs}) {
      for (const Port& port : *ports) taken_.insert(name_of(port.tensor));
    }
  }

  std::string run() {
    out_.set_name(graph_.name.empty() ? "quern" : graph_.name.c_str());
    for (const Port& port : graph_.inputs) add_input(port);
    for (const Node& node : graph_.nodes) add_node(node);
    for (const Port& port : graph_.outputs) add_output(port);
    model_.set_ir_version(ir_version);
    model_.set_producer_name("quern");
    model_.set_producer_version(qn_version());
    auto* opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(opset_);
    if (extended_) {
      auto* extension = model_.add_opset_import();
      extension->set_domain("com.microsoft");
      extension->set_version(1);
    }
    std::string bytes;
    if (model_.ByteSizeLong() > std::numeric_limits<int>::max() || !model_.SerializeToString(&bytes)) {
      throw Error("an ONNX file cannot be larger than 2 GiB");
    }
    return bytes;
  }

 private:
  // ---- tensors ----------------------------------------------------------------------------------

  const Tensor& tensor(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }
  std::string name_of(int index) const { return tensor(index).name.c_str(); }

  std::string new_name() {
    std::string name;
    do {
      name = 'v';
      name += std::to_string(next_name_++);
    } while (taken_.count(name) > 0);
    return name;
  }

  schema::TensorProto* new_initializer(schema::TensorProto::DataType type, const Shape& shape) {
    schema::TensorProto* initializer = out_.add_initializer();
    initializer->set_name(new_name());
    initializer->set_data_type(type);
    for (const size_t d : shape) initializer->add_dims(static_cast<int64_t>(d));
    return initializer;
  }
  std::string initializer(qn_type type, const Shape& shape, const void* data) {
    size_t bytes = qn_type_size(type);
    for (const size_t d : shape) bytes *= d;
    schema::TensorProto* initializer = new_initializer(element_type(type), shape);
    initializer->set_raw_data(data, bytes);
    return initializer->name();
  }
  std::string floats(const Shape& shape, const float* data) { return initializer(QN_F32, shape, data); }
  std::string number(float value) { return floats({}, &value); }
  std::string integers(const Vector<int64_t>& values) {
    schema::TensorProto* initializer = new_initializer(schema::TensorProto::INT64, {values.size()});
    initializer->set_raw_data(values.data(), values.size() * sizeof(int64_t));
    return initializer->name();
  }

  // Adds a constant as an initializer with its dimensions in this order. Returns its name.
  std::string constant(int index, const Order& order) {
    const Tensor& t = tensor(index);
    const Constant& constant = graph_.constants[static_cast<size_t>(t.constant)];
    Shape shape;
    for (const uint32_t d : order) shape.push_back(t.shape[d]);
    std::vector<uint8_t> data(constant.bytes);
    permute_elements(constant.data, qn_type_size(t.type), t.shape, order, data.data());
    return initializer(t.type, shape, data.data());
  }

  // ---- quantized numbers ------------------------------------------------------------------------

  bool is_quantized(int index) const { return tensor(index).type != QN_F32 && has_scales(index); }
  bool has_scales(int index) const { return !tensor(index).quantization.scales.empty(); }

  // Adds a node QuantizeLinear or DequantizeLinear for a tensor, which lies in this order. Returns its output.
  std::string convert(const char* type, const std::string& value, int index, const Order& order) {
    const Tensor& t = tensor(index);
    const Quantization& q = t.quantization;
    const Shape shape = q.axis < 0 ? Shape{} : Shape{q.scales.size()};
    std::vector<std::string> inputs = {value, floats(shape, q.scales.data())};
    if (t.type != QN_S32) {  // which has no zero point in ONNX
      std::vector<uint8_t> zeros(q.scales.size());
      for (size_t i = 0; i < q.zero_points.size(); ++i) zeros[i] = static_cast<uint8_t>(q.zero_points[i]);
      inputs.push_back(initializer(t.type, shape, zeros.data()));
    }
    schema::NodeProto* node = add_op(type, "", inputs);
    if (q.axis >= 0) set_integer(node, "axis", static_cast<int64_t>(position(order, static_cast<size_t>(q.axis))));
    return node->output(0);
  }

  // Gives the bias of a layer of bytes, if it has none, the scales that follow from those of input and weights.
  void complete_bias(const Node& node) {
    if (!has(node, 2) || tensor(node.inputs[2]).type != QN_S32 || has_scales(node.inputs[2])) return;
    Quantization q = tensor(node.inputs[1]).quantization;
    for (float& scale : q.scales) scale *= tensor(node.inputs[0]).quantization.scales[0];
    q.zero_points.clear();
    graph_.tensors[static_cast<size_t>(node.inputs[2])].quantization = std::move(q);
  }

  // ---- values -----------------------------------------------------------------------------------

  // Returns the order of the value that stands for a tensor. Not for constants, which are written in any order.
  const Order& order_of(int index) const { return held_.at(index).order; }
  bool is_constant(int index) const { return tensor(index).constant >= 0; }

  // Returns the value that stands for a tensor, with its dimensions in this order and its elements as they are stored.
  std::string stored(int index, const Order& order) {
    if (!is_constant(index) && order_of(index) == order) return held_.at(index).value;
    std::string& value = reordered_[{index, order}];
    if (!value.empty()) return value;
    if (is_constant(index)) return value = constant(index, order);
    const Held& held = held_.at(index);
    schema::NodeProto* node = add_op("Transpose", "", {held.value});
    set_integers(node, "perm", permutation_between(held.order, order));
    return value = node->output(0);
  }
  // The same, with the real numbers that the elements stand for.
  std::string in_order(int index, const Order& order) {
    const std::string value = stored(index, order);
    if (!is_quantized(index)) return value;
    std::string& real = real_[value];
    if (real.empty()) real = convert("DequantizeLinear", value, index, order);
    return real;
  }
  std::string plain(int index) { return in_order(index, source_order(tensor(index).shape.size())); }

  // ---- nodes ------------------------------------------------------------------------------------

  schema::NodeProto* add_op(const char* type, const std::string& name, const std::vector<std::string>& inputs) {
    schema::NodeProto* node = out_.add_node();
    node->set_op_type(type);
    node->set_name(name);
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(new_name());
    return node;
  }
  schema::AttributeProto* attribute(schema::NodeProto* node, const char* name,
                                    schema::AttributeProto::AttributeType type) {
    schema::AttributeProto* a = node->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }
  void set_integer(schema::NodeProto* node, const char* name, int64_t value) {
    attribute(node, name, schema::AttributeProto::INT)->set_i(value);
  }
  void set_number(schema::NodeProto* node, const char* name, float value) {
    attribute(node, name, schema::AttributeProto::FLOAT)->set_f(value);
  }
  void set_text(schema::NodeProto* node, const char* name, const char* value) {
    attribute(node, name, schema::AttributeProto::STRING)->set_s(value);
  }
  template <class List>
  void set_integers(schema::NodeProto* node, const char* name, const List& values) {
    schema::AttributeProto* a = attribute(node, name, schema::AttributeProto::INTS);
    for (const auto value : values) a->add_ints(static_cast<int64_t>(value));
  }

  // Makes `value`, of floats, the result of one of our nodes, after a clamp if the node's attributes have one.
  void define(const Node& node, std::string value, const Order& order) {
    const float min = node.attributes.min, max = node.attributes.max;
    if (min == 0 && max == infinity) {
      value = add_op("Relu", node_name(node, "relu"), {value})->output(0);
    } else if (min != -infinity || max != infinity) {
      const std::string low = min == -infinity ? "" : number(min), high = max == infinity ? "" : number(max);
      value = add_op("Clip", node_name(node, "clip"), {value, low, high})->output(0);
    }
    const int output = node.outputs[0];
    if (is_quantized(output)) value = convert("QuantizeLinear", value, output, order);
    held_[output] = {std::move(value), order};
  }
  static std::string node_name(const Node& node, const char* part = "") {
    const std::string name = node.name.c_str();
    return name.empty() || *part == 0 ? name : name + "/" + part;
  }

  void add_node(const Node& node) {
    switch (node.kind) {
      case OpKind::conv2d: return node.attributes.quantize_input ? add_quantizing_layer(node) : add_conv(node);
      case OpKind::fully_connected:
        return node.attributes.quantize_input ? add_quantizing_layer(node) : add_fully_connected(node);
      case OpKind::max_pool: return add_pool(node, "MaxPool");
      case OpKind::average_pool: return add_pool(node, "AveragePool");
      case OpKind::global_max_pool: return add_image_op(node, "GlobalMaxPool");
      case OpKind::global_average_pool: return add_image_op(node, "GlobalAveragePool");
      case OpKind::add: return add_binary(node, "Add");
      case OpKind::sub: return add_binary(node, "Sub");
      case OpKind::mul: return add_binary(node, "Mul");
      case OpKind::div: return add_binary(node, "Div");
      case OpKind::clamp: return add_unary(node, nullptr);
      case OpKind::sigmoid: return add_unary(node, "Sigmoid");
      case OpKind::tanh: return add_unary(node, "Tanh");
      case OpKind::hard_swish: opset_ = std::max(opset_, hard_swish_opset); return add_unary(node, "HardSwish");
      case OpKind::exp: return add_unary(node, "Exp");
      case OpKind::power: return add_power(node);
      case OpKind::prelu: return add_prelu(node);
      case OpKind::scale: return add_scale(node);
      case OpKind::softmax: return add_softmax(node);
      case OpKind::concat: return add_concat(node);
      case OpKind::lrn: return add_lrn(node);
      case OpKind::pad: return add_pad(node);
      case OpKind::resize: return add_resize(node);
      case OpKind::reshape: return add_reshape(node);
      case OpKind::transpose: return add_transpose(node);
      case OpKind::slice: return add_slice(node);
      case OpKind::quantize:  // in_order() and define() convert
      case OpKind::dequantize:
      case OpKind::requantize: return add_unary(node, nullptr);
      case OpKind::count:
      case OpKind::copy:
      case OpKind::custom:
      case OpKind::branch:
      case OpKind::loop: break;
    }
    throw Error(std::string("node '") + node.name.c_str() + "' has no form in ONNX");
  }

  // ---- layers that quantize their input ---------------------------------------------------------

  // Rows, or pixels, times the weights.
  void add_quantizing_layer(const Node& node) {
    const bool blocks = tensor(node.inputs[1]).quantization.block != 0;
    std::string value = blocks ? product_of_blocks(node) : product_of_bytes(node);
    if (has(node, 2)) value = add_op("Add", node_name(node, "bias"), {value, plain(node.inputs[2])})->output(0);
    define(node, value, source_order(tensor(node.inputs[0]).shape.size()));
  }

  // ONNX quantizes the whole tensor with one scale, where we have one for each row.
  std::string product_of_bytes(const Node& node) {
    const int x = node.inputs[0];
    const Tensor& weights = tensor(node.inputs[1]);
    const Vector<float>& scales = weights.quantization.scales;
    const Shape rows = {weights.shape[0], weights.shape.back()}, columns = {rows[1], rows[0]};
    std::vector<uint8_t> data(rows[0] * rows[1]);
    permute_elements(graph_.constants[static_cast<size_t>(weights.constant)].data, 1, rows, {1, 0}, data.data());
    schema::NodeProto* bytes = add_op("DynamicQuantizeLinear", node_name(node, "quantize"), {plain(x)});
    const std::string scale = new_name(), zero = new_name();
    bytes->add_output(scale);
    bytes->add_output(zero);
    const std::string matrix = initializer(QN_S8, columns, data.data());
    const std::string sums = add_op("MatMulInteger", node_name(node), {bytes->output(0), matrix, zero})->output(0);
    schema::NodeProto* real = add_op("Cast", node_name(node, "cast"), {sums});
    set_integer(real, "to", schema::TensorProto::FLOAT);
    const std::string of_weights = floats(scales.size() == 1 ? Shape{} : Shape{scales.size()}, scales.data());
    const std::string factor = add_op("Mul", node_name(node, "scales"), {scale, of_weights})->output(0);
    return add_op("Mul", node_name(node, "scale"), {real->output(0), factor})->output(0);
  }

  // Weights of 4 bits, two in a byte, the first in its lower half; 8 is added, and stands alone where a block is not full.
  std::string product_of_blocks(const Node& node) {
    const Tensor& weights = tensor(node.inputs[1]);
    const Quantization& q = weights.quantization;
    const size_t rows = weights.shape[0], depth = weights.shape.back(), blocks = divide_up(depth, q.block);
    const auto* from = static_cast<const int8_t*>(graph_.constants[static_cast<size_t>(weights.constant)].data);
    std::vector<uint8_t> data(rows * blocks * q.block / 2, 0x88);
    for (size_t o = 0; o < rows; ++o) {
      for (size_t i = 0; i < depth; ++i) {
        const int raised = *from++ + 8, shift = i % 2 == 0 ? 0 : 4;
        if (raised < 0 || raised > 15) throw Error("a weight does not fit 4 bits");
        uint8_t& byte = data[(o * blocks * q.block + i) / 2];
        byte = static_cast<uint8_t>((byte & ~(0xf << shift)) | raised << shift);
      }
    }
    const std::string matrix = initializer(QN_U8, {rows, blocks, q.block / 2}, data.data());
    schema::NodeProto* product = add_op("MatMulNBits", node_name(node),
                                        {plain(node.inputs[0]), matrix, floats({q.scales.size()}, q.scales.data())});
    product->set_domain("com.microsoft");
    extended_ = true;
    set_integer(product, "K", static_cast<int64_t>(depth));
    set_integer(product, "N", static_cast<int64_t>(rows));
    set_integer(product, "bits", 4);
    set_integer(product, "block_size", static_cast<int64_t>(q.block));
    set_integer(product, "accuracy_level", 4);
    return product->output(0);
  }

  // ---- images -----------------------------------------------------------------------------------

  void set_window(schema::NodeProto* node, const Attributes& a, bool dilated) {
    set_integers(node, "kernel_shape", std::vector<size_t>{a.kernel.h, a.kernel.w});
    set_integers(node, "strides", std::vector<size_t>{a.stride.h, a.stride.w});
    set_integers(node, "pads", std::vector<size_t>{a.padding.top, a.padding.left, a.padding.bottom, a.padding.right});
    if (dilated) set_integers(node, "dilations", std::vector<size_t>{a.dilation.h, a.dilation.w});
  }

  void add_conv(const Node& node) {
    const Order order = channels_first(4);
    complete_bias(node);
    std::vector<std::string> inputs = {in_order(node.inputs[0], order), in_order(node.inputs[1], order)};
    if (has(node, 2)) inputs.push_back(plain(node.inputs[2]));
    schema::NodeProto* conv = add_op("Conv", node_name(node), inputs);
    Attributes a = node.attributes;
    const Shape& weights = tensor(node.inputs[1]).shape;
    a.kernel = {weights[1], weights[2]};
    set_window(conv, a, true);
    set_integer(conv, "group", static_cast<int64_t>(a.groups));
    define(node, conv->output(0), order);
  }

  void add_pool(const Node& node, const char* type) {
    const Attributes& a = node.attributes;
    const qn_padding& p = a.padding;
    const bool average = node.kind == OpKind::average_pool, dilated = a.dilation.h != 1 || a.dilation.w != 1;
    const bool counts = average && a.count_padding && p.top + p.left + p.bottom + p.right > 0;
    // Some windows reach beyond the padding. From this operator set on, their sum is divided by the number of pixels
    // inside the image and its padding, as in our operator. Before, runtimes divided by the size of the kernel.
    if ((average && dilated) || (counts && a.ceil_mode)) opset_ = std::max(opset_, average_opset);
    schema::NodeProto* pool = add_op(type, node_name(node), {in_order(node.inputs[0], channels_first(4))});
    set_window(pool, a, dilated);
    set_integer(pool, "ceil_mode", a.ceil_mode);
    if (counts) set_integer(pool, "count_include_pad", 1);
    // pool_rounding has no form in ONNX: halves are rounded to even there, and a byte may differ by one step.
    define(node, pool->output(0), channels_first(4));
  }

  void add_image_op(const Node& node, const char* type) {
    const std::string x = in_order(node.inputs[0], channels_first(4));
    define(node, add_op(type, node_name(node), {x})->output(0), channels_first(4));
  }

  void add_lrn(const Node& node) {
    const Attributes& a = node.attributes;
    const Order order = channels_first(tensor(node.inputs[0]).shape.size());
    schema::NodeProto* lrn = add_op("LRN", node_name(node), {in_order(node.inputs[0], order)});
    set_integer(lrn, "size", static_cast<int64_t>(a.size));
    set_number(lrn, "alpha", a.alpha);
    set_number(lrn, "beta", a.beta);
    set_number(lrn, "bias", a.gamma);
    define(node, lrn->output(0), order);
  }

  void add_resize(const Node& node) {
    const Attributes& a = node.attributes;
    const std::string x = in_order(node.inputs[0], channels_first(4));
    std::vector<std::string> inputs = {x, ""};
    if (a.values.empty()) {
      const float scales[4] = {1, 1, a.alpha, a.beta};
      inputs.push_back(floats({4}, scales));
    } else {
      const Shape& out = tensor(node.outputs[0]).shape;
      Vector<int64_t> sizes;
      for (const uint32_t d : channels_first(4)) sizes.push_back(static_cast<int64_t>(out[d]));
      inputs.insert(inputs.end(), {"", integers(sizes)});
    }
    constexpr const char* coordinates[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    constexpr const char* roundings[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
    schema::NodeProto* resize = add_op("Resize", node_name(node), inputs);
    set_text(resize, "mode", a.mode == QN_RESIZE_NEAREST ? "nearest" : "linear");
    set_text(resize, "coordinate_transformation_mode", coordinates[a.coordinates]);
    if (a.mode == QN_RESIZE_NEAREST) set_text(resize, "nearest_mode", roundings[a.rounding]);
    define(node, resize->output(0), channels_first(4));
  }

  // ---- elementwise ------------------------------------------------------------------------------

  void add_unary(const Node& node, const char* type) {
    const int x = node.inputs[0];
    const Order order = following(node);
    std::string value = in_order(x, order);
    if (type != nullptr) value = add_op(type, node_name(node), {value})->output(0);
    define(node, value, order);
  }

  // Returns the order of the node's first input that is not a constant.
  Order following(const Node& node) const {
    for (const int input : node.inputs) {
      if (input != no_tensor && !is_constant(input)) return order_of(input);
    }
    return source_order(tensor(node.inputs[0]).shape.size());
  }

  void add_binary(const Node& node, const char* type) {
    const int a = node.inputs[0], b = node.inputs[1];
    const size_t rank_a = tensor(a).shape.size(), rank_b = tensor(b).shape.size();
    const Order order = rank_a == rank_b ? following(node) : source_order(std::max(rank_a, rank_b));
    const std::string left = rank_a == rank_b ? in_order(a, order) : plain(a);
    const std::string right = rank_a == rank_b ? in_order(b, order) : plain(b);
    define(node, add_op(type, node_name(node), {left, right})->output(0), order);
  }

  void add_power(const Node& node) {
    const Attributes& a = node.attributes;
    const Order order = following(node);
    std::string value = in_order(node.inputs[0], order);
    if (a.alpha != 1) value = add_op("Mul", node_name(node, "scale"), {value, number(a.alpha)})->output(0);
    if (a.beta != 0) value = add_op("Add", node_name(node, "shift"), {value, number(a.beta)})->output(0);
    if (a.gamma != 1) value = add_op("Pow", node_name(node), {value, number(a.gamma)})->output(0);
    define(node, value, order);
  }

  // Adds a constant with one number per channel. Channels are our last dimension. The shape is such that the constant
  // broadcasts to a tensor in `order`.
  std::string per_channel(int index, const Order& order) {
    const size_t channels = tensor(index).shape[0];
    Shape shape(order.size() - position(order, order.size() - 1), 1);
    shape[0] = channels;
    return floats(shape, constant_floats(graph_, index));
  }

  void add_prelu(const Node& node) {
    const Order order = following(node);
    const std::string slope = per_channel(node.inputs[1], order);
    define(node, add_op("PRelu", node_name(node), {in_order(node.inputs[0], order), slope})->output(0), order);
  }

  void add_scale(const Node& node) {
    const Order order = following(node);
    std::string value = in_order(node.inputs[0], order);
    value = add_op("Mul", node_name(node), {value, per_channel(node.inputs[1], order)})->output(0);
    if (has(node, 2)) {
      value = add_op("Add", node_name(node, "bias"), {value, per_channel(node.inputs[2], order)})->output(0);
    }
    define(node, value, order);
  }

  // ---- matrices, axes and shapes ----------------------------------------------------------------

  static bool has(const Node& node, size_t input) {
    return input < node.inputs.size() && node.inputs[input] != no_tensor;
  }

  void add_fully_connected(const Node& node) {
    const size_t rank = tensor(node.inputs[0]).shape.size();
    complete_bias(node);
    const std::string x = plain(node.inputs[0]);
    std::string value;
    if (rank == 2) {
      std::vector<std::string> inputs = {x, plain(node.inputs[1])};
      if (has(node, 2)) inputs.push_back(plain(node.inputs[2]));
      schema::NodeProto* gemm = add_op("Gemm", node_name(node), inputs);
      set_integer(gemm, "transB", 1);
      value = gemm->output(0);
    } else {
      value = add_op("MatMul", node_name(node), {x, in_order(node.inputs[1], {1, 0})})->output(0);
      if (has(node, 2)) value = add_op("Add", node_name(node, "bias"), {value, plain(node.inputs[2])})->output(0);
    }
    define(node, value, source_order(rank));
  }

  void add_softmax(const Node& node) {
    const Order order = following(node);
    schema::NodeProto* softmax = add_op("Softmax", node_name(node), {in_order(node.inputs[0], order)});
    set_integer(softmax, "axis", axis_in(node, order));
    define(node, softmax->output(0), order);
  }

  void add_concat(const Node& node) {
    const Order order = following(node);
    std::vector<std::string> inputs;
    for (const int input : node.inputs) inputs.push_back(in_order(input, order));
    schema::NodeProto* concat = add_op("Concat", node_name(node), inputs);
    set_integer(concat, "axis", axis_in(node, order));
    define(node, concat->output(0), order);
  }

  static int64_t axis_in(const Node& node, const Order& order) {
    return static_cast<int64_t>(position(order, static_cast<size_t>(node.attributes.axis)));
  }

  // Takes the first or second half of `values`, each with one number per dimension of our tensor, and reorders it.
  static Vector<int64_t> half(const Vector<int64_t>& values, bool second, const Order& order) {
    Vector<int64_t> result;
    for (const uint32_t d : order) result.push_back(values[second ? order.size() + d : d]);
    return result;
  }

  void add_pad(const Node& node) {
    const Order order = following(node);
    Vector<int64_t> pads = half(node.attributes.values, false, order);
    const Vector<int64_t> after = half(node.attributes.values, true, order);
    pads.insert(pads.end(), after.begin(), after.end());
    const std::string x = in_order(node.inputs[0], order);
    const std::string value = number(real_value(node.inputs[0], node.attributes.alpha));
    define(node, add_op("Pad", node_name(node), {x, integers(pads), value})->output(0), order);
  }

  // Returns the real number that an element of a tensor stands for.
  float real_value(int index, float element) const {
    const Quantization& q = tensor(index).quantization;
    if (!is_quantized(index)) return element;
    return (element - (q.zero_points.empty() ? 0 : static_cast<float>(q.zero_points[0]))) * q.scales[0];
  }

  // Names only the dimensions that are cut, because some converters cannot read a slice of several dimensions.
  void add_slice(const Node& node) {
    const Order order = following(node);
    const Vector<int64_t>& values = node.attributes.values;
    Vector<int64_t> axes, begins, ends;
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t begin = values[order[i]], end = values[order.size() + order[i]];
      if (begin == 0 && end == -1) continue;
      axes.push_back(static_cast<int64_t>(i));
      begins.push_back(begin < 0 ? begin + 1 : begin);  // ours has one number more below 0: the size itself
      ends.push_back(end == -1 ? std::numeric_limits<int64_t>::max() : end < 0 ? end + 1 : end);
    }
    std::string value = in_order(node.inputs[0], order);
    if (!axes.empty()) {
      value = add_op("Slice", node_name(node), {value, integers(begins), integers(ends), integers(axes)})->output(0);
    }
    define(node, value, order);
  }

  // Counts the leading dimensions that are equal in both shapes. The last dimension of a shape never counts.
  static size_t kept_dimensions(const Shape& from, const Shape& to) {
    size_t kept = 0;
    while (kept + 1 < std::min(from.size(), to.size()) && from[kept] == to[kept]) ++kept;
    return kept;
  }

  // A reshape that only splits or joins channels works directly on a channels-first value, without transposes.
  void add_reshape(const Node& node) {
    const int x = node.inputs[0];
    const Shape &from = tensor(x).shape, &to = tensor(node.outputs[0]).shape;
    const size_t kept = kept_dimensions(from, to);
    const bool pixels_are_last = kept > 0 && !is_constant(x) && order_of(x).back() < kept;
    Order before = source_order(from.size()), after = source_order(to.size());
    Vector<int64_t> shape = node.attributes.values;
    if (pixels_are_last) {
      before = pixels_last(from.size(), kept);
      after = pixels_last(to.size(), kept);
      for (size_t i = 0; i < after.size(); ++i) shape[i] = static_cast<int64_t>(to[after[i]]);
    }
    const std::string value = in_order(x, before);
    define(node, add_op("Reshape", node_name(node), {value, new_shape(node, value, shape)})->output(0), after);
  }

  // Our reshape can copy a dimension to another place; ONNX has no number for that. If there is one such dimension, it
  // can be inferred (-1). If there are several, further nodes compute the new shape from the shape of x.
  std::string new_shape(const Node& node, const std::string& x, Vector<int64_t> shape) {
    const auto is_moved = [](int64_t d) { return d < -1; };
    const auto moved = std::count_if(shape.begin(), shape.end(), is_moved);
    if (moved == 1 && std::count(shape.begin(), shape.end(), -1) == 0) {
      std::replace_if(shape.begin(), shape.end(), is_moved, int64_t{-1});
    } else if (moved > 0) {
      return computed_shape(node, x, shape);
    }
    return integers(shape);
  }

  std::string computed_shape(const Node& node, const std::string& x, const Vector<int64_t>& shape) {
    const std::string from = add_op("Shape", node_name(node, "shape"), {x})->output(0);
    std::vector<std::string> parts;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t copied = copied_dimension(shape[d], d);
      parts.push_back(integers({copied < 0 ? shape[d] : copied}));
      if (copied < 0) continue;
      const std::string name = node_name(node, ("dimension" + std::to_string(d)).c_str());
      parts.back() = add_op("Gather", name, {from, parts.back()})->output(0);
    }
    schema::NodeProto* concat = add_op("Concat", node_name(node, "to"), parts);
    set_integer(concat, "axis", 0);
    return concat->output(0);
  }

  void add_transpose(const Node& node) {
    const Order permutation(node.attributes.values.begin(), node.attributes.values.end());
    const Order order = following(node);
    held_[node.outputs[0]] = {stored(node.inputs[0], order), permuted(order, permutation)};
  }

  // ---- border -----------------------------------------------------------------------------------

  static schema::TensorProto::DataType element_type(qn_type type) {
    switch (type) {
      case QN_F32: return schema::TensorProto::FLOAT;
      case QN_F16: return schema::TensorProto::FLOAT16;
      case QN_S64: return schema::TensorProto::INT64;
      case QN_S8: return schema::TensorProto::INT8;
      case QN_U8: return schema::TensorProto::UINT8;
      case QN_S32: return schema::TensorProto::INT32;
      case QN_BOOL: return schema::TensorProto::BOOL;
    }
    return schema::TensorProto::UNDEFINED;
  }

  void describe(const Port& port, schema::ValueInfoProto* info) {
    info->set_name(name_of(port.tensor));
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(element_type(port.type));
    for (const size_t d : tensor(port.tensor).shape) {
      type->mutable_shape()->add_dim()->set_dim_value(static_cast<int64_t>(d));
    }
  }

  void add_input(const Port& port) {
    describe(port, out_.add_input());
    port_types_[port.tensor] = port.type;
    std::string value = name_of(port.tensor);
    if (port.type == QN_F16) {
      schema::NodeProto* cast = add_op("Cast", "", {value});
      set_integer(cast, "to", schema::TensorProto::FLOAT);
      value = cast->output(0);
    }
    held_[port.tensor] = {value, source_order(tensor(port.tensor).shape.size())};
  }

  void add_output(const Port& port) {
    describe(port, out_.add_output());
    const auto [at, fresh] = port_types_.try_emplace(port.tensor, port.type);
    if (!fresh && at->second == port.type) return;  // the port is also an input, or an output twice
    if (!fresh) throw Error("'" + name_of(port.tensor) + "' is an input or output in two types, which ONNX cannot say");
    const std::string value = stored(port.tensor, source_order(tensor(port.tensor).shape.size()));
    schema::NodeProto* node = add_op(port.type == QN_F16 ? "Cast" : "Identity", "", {value});
    if (port.type == QN_F16) set_integer(node, "to", schema::TensorProto::FLOAT16);
    node->set_output(0, name_of(port.tensor));
  }

  Graph& graph_;
  schema::ModelProto model_;
  schema::GraphProto& out_;
  int64_t opset_ = base_opset;
  bool extended_ = false;                                   // are there nodes of ONNX Runtime's own?
  std::map<int, Held> held_;                                // per tensor of our graph
  std::map<int, qn_type> port_types_;                       // per tensor that is an input or output
  std::map<std::pair<int, Order>, std::string> reordered_;  // values that stored() added
  std::map<std::string, std::string> real_;                 // stored value -> the floats that in_order() added for it
  std::set<std::string> taken_;
  size_t next_name_ = 0;
};

}  // namespace
}  // namespace quern::onnx

namespace quern {

void export_onnx(const Graph& graph, const std::string& path) {
  expect_ok(check_plain(graph));
  Graph dense = graph;
  expect_ok(make_dense(dense));
  write_file(path, onnx::Exporter(dense).run());
}

}  // namespace quern
