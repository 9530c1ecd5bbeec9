#include "convert/tflite/node.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "convert/common/kinds.h"

namespace quern::tflite {
namespace {

// All built-in operators, by their numbers.
constexpr std::array operator_names = {"ADD",
                                       "AVERAGE_POOL_2D",
                                       "CONCATENATION",
                                       "CONV_2D",
                                       "DEPTHWISE_CONV_2D",
                                       "DEPTH_TO_SPACE",
                                       "DEQUANTIZE",
                                       "EMBEDDING_LOOKUP",
                                       "FLOOR",
                                       "FULLY_CONNECTED",
                                       "HASHTABLE_LOOKUP",
                                       "L2_NORMALIZATION",
                                       "L2_POOL_2D",
                                       "LOCAL_RESPONSE_NORMALIZATION",
                                       "LOGISTIC",
                                       "LSH_PROJECTION",
                                       "LSTM",
                                       "MAX_POOL_2D",
                                       "MUL",
                                       "RELU",
                                       "RELU_N1_TO_1",
                                       "RELU6",
                                       "RESHAPE",
                                       "RESIZE_BILINEAR",
                                       "RNN",
                                       "SOFTMAX",
                                       "SPACE_TO_DEPTH",
                                       "SVDF",
                                       "TANH",
                                       "CONCAT_EMBEDDINGS",
                                       "SKIP_GRAM",
                                       "CALL",
                                       "CUSTOM",
                                       "EMBEDDING_LOOKUP_SPARSE",
                                       "PAD",
                                       "UNIDIRECTIONAL_SEQUENCE_RNN",
                                       "GATHER",
                                       "BATCH_TO_SPACE_ND",
                                       "SPACE_TO_BATCH_ND",
                                       "TRANSPOSE",
                                       "MEAN",
                                       "SUB",
                                       "DIV",
                                       "SQUEEZE",
                                       "UNIDIRECTIONAL_SEQUENCE_LSTM",
                                       "STRIDED_SLICE",
                                       "BIDIRECTIONAL_SEQUENCE_RNN",
                                       "EXP",
                                       "TOPK_V2",
                                       "SPLIT",
                                       "LOG_SOFTMAX",
                                       "DELEGATE",
                                       "BIDIRECTIONAL_SEQUENCE_LSTM",
                                       "CAST",
                                       "PRELU",
                                       "MAXIMUM",
                                       "ARG_MAX",
                                       "MINIMUM",
                                       "LESS",
                                       "NEG",
                                       "PADV2",
                                       "GREATER",
                                       "GREATER_EQUAL",
                                       "LESS_EQUAL",
                                       "SELECT",
                                       "SLICE",
                                       "SIN",
                                       "TRANSPOSE_CONV",
                                       "SPARSE_TO_DENSE",
                                       "TILE",
                                       "EXPAND_DIMS",
                                       "EQUAL",
                                       "NOT_EQUAL",
                                       "LOG",
                                       "SUM",
                                       "SQRT",
                                       "RSQRT",
                                       "SHAPE",
                                       "POW",
                                       "ARG_MIN",
                                       "FAKE_QUANT",
                                       "REDUCE_PROD",
                                       "REDUCE_MAX",
                                       "PACK",
                                       "LOGICAL_OR",
                                       "ONE_HOT",
                                       "LOGICAL_AND",
                                       "LOGICAL_NOT",
                                       "UNPACK",
                                       "REDUCE_MIN",
                                       "FLOOR_DIV",
                                       "REDUCE_ANY",
                                       "SQUARE",
                                       "ZEROS_LIKE",
                                       "FILL",
                                       "FLOOR_MOD",
                                       "RANGE",
                                       "RESIZE_NEAREST_NEIGHBOR",
                                       "LEAKY_RELU",
                                       "SQUARED_DIFFERENCE",
                                       "MIRROR_PAD",
                                       "ABS",
                                       "SPLIT_V",
                                       "UNIQUE",
                                       "CEIL",
                                       "REVERSE_V2",
                                       "ADD_N",
                                       "GATHER_ND",
                                       "COS",
                                       "WHERE",
                                       "RANK",
                                       "ELU",
                                       "REVERSE_SEQUENCE",
                                       "MATRIX_DIAG",
                                       "QUANTIZE",
                                       "MATRIX_SET_DIAG",
                                       "ROUND",
                                       "HARD_SWISH",
                                       "IF",
                                       "WHILE",
                                       "NON_MAX_SUPPRESSION_V4",
                                       "NON_MAX_SUPPRESSION_V5",
                                       "SCATTER_ND",
                                       "SELECT_V2",
                                       "DENSIFY",
                                       "SEGMENT_SUM",
                                       "BATCH_MATMUL",
                                       "PLACEHOLDER_FOR_GREATER_OP_CODES",
                                       "CUMSUM",
                                       "CALL_ONCE",
                                       "BROADCAST_TO",
                                       "RFFT2D",
                                       "CONV_3D",
                                       "IMAG",
                                       "REAL",
                                       "COMPLEX_ABS",
                                       "HASHTABLE",
                                       "HASHTABLE_FIND",
                                       "HASHTABLE_IMPORT",
                                       "HASHTABLE_SIZE",
                                       "REDUCE_ALL",
                                       "CONV_3D_TRANSPOSE",
                                       "VAR_HANDLE",
                                       "READ_VARIABLE",
                                       "ASSIGN_VARIABLE",
                                       "BROADCAST_ARGS",
                                       "RANDOM_STANDARD_NORMAL",
                                       "BUCKETIZE",
                                       "RANDOM_UNIFORM",
                                       "MULTINOMIAL",
                                       "GELU",
                                       "DYNAMIC_UPDATE_SLICE",
                                       "RELU_0_TO_1",
                                       "UNSORTED_SEGMENT_PROD",
                                       "UNSORTED_SEGMENT_MAX",
                                       "UNSORTED_SEGMENT_SUM",
                                       "ATAN2",
                                       "UNSORTED_SEGMENT_MIN",
                                       "SIGN",
                                       "BITCAST",
                                       "BITWISE_XOR",
                                       "RIGHT_SHIFT"};

View activated(const SourceNode& node, const View& x, schema::Activation activation) {
  Builder& builder = node.builder;
  const std::string name = node.name + "/activation";
  switch (activation) {
    case schema::Activation::none: return x;
    case schema::Activation::relu: return builder.clamp(name, x, 0, infinity);
    case schema::Activation::relu_n1_to_1: return builder.clamp(name, x, -1, 1);
    case schema::Activation::relu6: return builder.clamp(name, x, 0, 6);
    case schema::Activation::tanh: return builder.unary(OpKind::tanh, name, x);
    default: break;
  }
  throw Unsupported{"activation " + std::to_string(static_cast<int>(activation))};
}

}  // namespace

const char* operator_name(int32_t code) {
  return code >= 0 && static_cast<size_t>(code) < operator_names.size() ? operator_names[static_cast<size_t>(code)]
                                                                        : nullptr;
}

std::optional<ElementType> element_type(schema::TensorType type) {
  switch (type) {
    case schema::TensorType::float32: return ElementType::f32;
    case schema::TensorType::float16: return ElementType::f16;
    case schema::TensorType::float64: return ElementType::f64;
    case schema::TensorType::int64: return ElementType::i64;
    case schema::TensorType::int32: return ElementType::s32;
    case schema::TensorType::int8: return ElementType::s8;
    case schema::TensorType::uint8: return ElementType::u8;
    case schema::TensorType::boolean: return ElementType::boolean;
    default: break;
  }
  return std::nullopt;
}

std::string type_name(schema::TensorType type) {
  if (type == schema::TensorType::int16) return "int16 (16-bit activations)";
  const std::string name = schema::EnumNameTensorType(type);
  return name.empty() ? std::to_string(static_cast<int>(type)) : name;
}

std::string beyond(const char* what, size_t count, int64_t index) {
  return std::string(what) + " " + std::to_string(index) + " is out of range: the file has " + std::to_string(count);
}

Scales scales_of(Builder& builder, const schema::Tensor& tensor) {
  Scales s;
  const schema::Quantization* q = tensor.quantization();
  if (q != nullptr && q->details_type() != schema::Details::NONE) throw Unsupported{"quantization of another form"};
  if (q == nullptr || q->scale() == nullptr || q->scale()->size() == 0) return s;
  const size_t zero_points = q->zero_point() == nullptr ? 0 : q->zero_point()->size();
  builder.charge(q->scale()->size() * sizeof(float) + zero_points * sizeof(int64_t));  // many tensors may share a list
  s.scales.assign(q->scale()->begin(), q->scale()->end());
  s.zero_points.resize(zero_points);
  if (zero_points != 0) {  // a damaged file may have them where numbers of 64 bits cannot be read
    std::memcpy(s.zero_points.data(), q->zero_point()->Data(), zero_points * sizeof(int64_t));
  }
  if (s.scales.size() > 1) s.axis = static_cast<size_t>(std::max(q->dimension(), 0));
  return s;
}

Scales TfliteNode::scales(size_t input) const {
  value(input);  // fails if there is no such input
  return scales_of(*tensors_[input]);
}

void TfliteNode::expect_plain(size_t input) const {
  if (!scales(input).scales.empty()) throw Unsupported{"of a quantized tensor"};
}

Value TfliteNode::real(size_t input) const {
  const Value& x = value(input);
  if (is_float(x.type)) return view(input);
  const Scales s = scales(input);
  if (s.scales.empty()) throw Unsupported{"integer input"};
  check_scales(*this, s, x.type);
  return dequantized(*this, input, s);
}

View TfliteNode::image(size_t input) const {
  const View x = real(input).view;
  if (x.rank() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  return builder.permute(x, {0, 3, 1, 2});
}

std::vector<float> TfliteNode::real_numbers(size_t input) const {
  const View x = real(input).view;
  if (!builder.is_constant(x)) throw Unsupported{"input " + std::to_string(input) + " is not constant"};
  const size_t count = builder.elements(x);
  builder.charge(count * sizeof(float));
  const float* data = builder.floats(x);
  return std::vector<float>(data, data + count);
}

bool TfliteNode::keeps_bytes() const {
  if (!is_byte(value(0).type) || element_type(outputs_[0]->type()) != value(0).type) return false;
  const Scales in = scales(0), out = scales_of(*outputs_[0]);
  return in.scales.size() == 1 && in.scales == out.scales && in.zero_point(0) == out.zero_point(0);
}

ElementType TfliteNode::output_type(size_t output) const {
  if (output >= outputs_.size()) fail("output " + std::to_string(output) + " is missing");
  const schema::TensorType number = outputs_[output]->type();
  const std::optional<ElementType> type = element_type(number);
  if (!type) throw Unsupported{"a result of type " + type_name(number)};
  return *type;
}

Value TfliteNode::result(const View& y, schema::Activation activation, size_t output) const {
  const View active = activated(*this, y, activation);
  const ElementType type = output_type(output);
  if (is_float(type)) {
    Value value = active;
    value.type = type;
    return value;
  }
  const Scales s = scales_of(*outputs_[output]);
  if (!is_byte(type) || s.scales.empty()) throw Unsupported{"a result of integers"};
  check_scales(*this, s, type);
  return quantized(*this, name + "/quantized", active, s, type);
}

Value TfliteNode::any(size_t input) const {
  if (!has(input)) return {};
  const Value& x = value(input);
  return is_float(x.type) || scales(input).scales.empty() ? x : real(input);
}

Values TfliteNode::all() const {
  Values values;
  for (size_t i = 0; i < input_count(); ++i) values.push_back(any(i));
  return values;
}

Value TfliteNode::typed(const Value& y, size_t output, schema::Activation activation) const {
  const ElementType type = output_type(output);
  if (is_float(y.type)) return result(y.view, activation, output);
  if (is_float(type) || !scales_of(*outputs_[output]).scales.empty()) throw Unsupported{"a result of real numbers"};
  if (activation != schema::Activation::none) throw Unsupported{"an activation of integers"};
  return cast_to(*this, y, type);
}

Value TfliteNode::image_result(const View& y, schema::Activation activation) const {
  return result(builder.permute(y, {0, 2, 3, 1}), activation);
}

}  // namespace quern::tflite
