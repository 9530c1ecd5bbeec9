// A model of one node for each operator that libquern-extra runs, and for ways to call it.
#include <sstream>

#include "../convert/onnx_model.h"
#include "seeds.h"

namespace quern {
namespace {

namespace schema = onnx::schema;
using test::OnnxModel;

// `inputs` has a word for each: f2x3 is a tensor of floats that the model is given; l is one of int64, b of booleans, c of
// int8, u of uint8, s of int32. [1,2] is a constant vector of int64, =1 a scalar; w2x3 are constant floats; - is no input.
struct Operator {
  const char* type;
  const char* inputs;
  const char* attributes = "";
  size_t outputs = 1;
  int64_t opset = 20;
};

constexpr Operator operators[] = {
    // elementwise
    {"Abs", "s2x3"},
    {"Add", "l2x3 l3"},
    {"BitShift", "u2x3 u3", "direction='LEFT'"},
    {"BitwiseAnd", "s2x3 s3"},
    {"BitwiseNot", "s2x3"},
    {"Celu", "f2x3", "alpha=2f"},
    {"Clip", "s2x3 s s"},
    {"Clip", "f2x3", "min=-1f max=1f", 1, 7},
    {"Div", "s2x3 s3"},
    {"Dropout", "f2x3 w", "", 2},
    {"Elu", "f2x3", "alpha=2f"},
    {"Equal", "f2x3 f3"},
    {"Gelu", "f2x3", "approximate='tanh'"},
    {"Greater", "s2x3 s3"},
    {"HardSigmoid", "f2x3", "alpha=0.5f beta=0.25f"},
    {"IsInf", "f2x3", "detect_negative=0"},
    {"IsNaN", "f2x3"},
    {"LeakyRelu", "f2x3", "alpha=0.5f"},
    {"Max", "s2x3 s3 s"},
    {"Mod", "f2x3 f3", "fmod=1"},
    {"Not", "b2x3"},
    {"PRelu", "f2x3 f3"},
    {"Pow", "f2x3 s3"},
    {"Selu", "f2x3", "alpha=2f gamma=3f"},
    {"Shrink", "f2x3", "lambd=0.5f bias=0.5f"},
    {"Swish", "f2x3", "alpha=2f", 1, 24},
    {"ThresholdedRelu", "f2x3", "alpha=0.5f"},
    {"Where", "b2x3 f3 f2x1"},
    {"Xor", "b2x3 b3"},
    // reductions
    {"ArgMax", "f2x3", "axis=1 keepdims=0 select_last_index=1"},
    {"BlackmanWindow", "[5]", "periodic=0"},
    {"CumSum", "f2x3 =1", "exclusive=1 reverse=1"},
    {"Det", "f2x3x3"},
    {"HannWindow", "l"},
    {"Hardmax", "f2x3", "axis=0"},
    {"LRN", "f1x5x2x2", "size=3 alpha=0.1f beta=0.5f bias=2f"},
    {"LogSoftmax", "f2x3", "axis=0"},
    {"ReduceLogSumExp", "f2x3x2 [0,2]", "keepdims=0"},
    {"ReduceMax", "s2x3", "axes=[1] keepdims=1", 1, 13},
    {"ReduceSum", "f2x3 l1", "keepdims=1 noop_with_empty_axes=1"},
    {"Softmax", "f2x3x2", "axis=1", 1, 11},
    // types
    {"Cast", "f2x3", "to=7"},
    {"CastLike", "f2x3 l1"},
    {"BitCast", "f2x3", "to=6", 1, 26},
    {"ConvInteger", "u1x2x4x4 u3x2x2x2 u u", "pads=[1,1,0,0] strides=[2,2]"},
    {"DequantizeLinear", "c2x3 f3 c3", "axis=1"},
    {"DynamicQuantizeLinear", "f2x3", "", 3},
    {"MatMulInteger", "u2x3 u3x4 u u"},
    {"QLinearConv", "u1x2x4x4 f u u3x2x2x2 f u f u s3", "auto_pad='SAME_UPPER'"},
    {"QLinearMatMul", "u2x3 f u u3x4 f u f u"},
    {"QuantizeLinear", "f2x3 f3 u3", "axis=1"},
    // shapes
    {"ConstantOfShape", "l2"},
    {"DepthToSpace", "s1x8x2x2", "blocksize=2 mode='CRD'"},
    {"EyeLike", "f3x4", "k=1 dtype=6"},
    {"Flatten", "s2x3x2", "axis=-1"},
    {"OneHot", "l3 =5 f2", "axis=0"},
    {"Range", "l =5 =2"},
    {"Reshape", "f2x3 l2"},
    {"Shape", "f2x3x4", "start=1 end=-1"},
    {"Size", "f2x3"},
    {"SpaceToDepth", "s1x2x4x4", "blocksize=2"},
    {"Squeeze", "s1x3x1 l1"},
    {"Transpose", "s2x3x4", "perm=[2,0,1]"},
    {"Unsqueeze", "s2x3 [0,-1]"},
    {"Unsqueeze", "s2x3", "axes=[1]", 1, 11},
    // moving
    {"CenterCropPad", "f5x3 [3,4]", "axes=[0,1]"},
    {"Compress", "f3x2 b3", "axis=0"},
    {"Concat", "s2x3 s2x1", "axis=-1"},
    {"Expand", "s1x1 l2"},
    {"Gather", "f3x2 l2x2", "axis=1"},
    {"GatherElements", "f3x2 l3x2", "axis=1"},
    {"GatherND", "f2x3x2 l2x1", "batch_dims=1"},
    {"NonZero", "b2x3"},
    {"Pad", "f2x3 l4 f", "mode='reflect'"},
    {"Pad", "f2x3", "pads=[0,1,1,0] mode='edge' value=2f", 1, 10},
    {"ReverseSequence", "f4x3x2 [1,2,4]", "time_axis=0 batch_axis=1"},
    {"ScatterElements", "f3x3 l2x3 f2x3", "axis=1 reduction='add'"},
    {"ScatterND", "f4x2 l2x1 f2x2", "reduction='max'"},
    {"Slice", "f4x5 l2 l2 [0,1] [1,2]"},
    {"Slice", "f4x5", "starts=[1,0] ends=[3,-1] axes=[1,0]", 1, 9},
    {"Split", "s5x2 [2,3]", "axis=0", 2},
    {"Split", "s6x2", "num_outputs=2", 2},
    {"Split", "s5x2", "split=[2,3]", 2, 11},
    {"TensorScatter", "f2x4x3 f2x1x3 l2", "mode='circular' axis=1", 1, 24},
    {"Tile", "s2x3 l2"},
    {"TopK", "f3x5 l1", "axis=1 largest=0 sorted=1", 2},
    {"TopK", "f3x5", "axis=0 k=2", 2, 9},
    {"Trilu", "f3x4 l", "upper=0"},
    {"Unique", "f3x2", "axis=0 sorted=0", 4},
    // products
    {"Conv", "f1x2x6 f3x2x3 f3", "dilations=[2] pads=[2,2]"},
    {"ConvTranspose", "f1x2x3x3 f2x2x3x3 f2", "strides=[2,2] output_padding=[1,1] pads=[1,1,1,1]"},
    {"ConvTranspose", "f1x2x3x3 f2x2x3x3", "strides=[2,2] output_shape=[6,6]"},
    {"DeformConv", "f1x2x3x3 f2x2x2x2 f1x8x2x2 f2 f1x4x2x2", "kernel_shape=[2,2]"},
    {"Einsum", "f2x3x4 f2x4x5", "equation='bij,bjk->bik'"},
    {"Gemm", "f3x2 f3x4 f4", "transA=1 alpha=0.5f beta=2f"},
    {"MatMul", "f2x1x2x3 f4x3x2"},
    // recurrent
    {"GRU", "f3x2x4 w1x9x4 w1x9x3 w1x18 s2 f1x2x3", "hidden_size=3 linear_before_reset=1", 2},
    {"LSTM", "f3x2x4 w2x12x4 w2x12x3 w2x24 - f2x2x3 f2x2x3 w2x9", "hidden_size=3 direction='bidirectional' clip=2f", 3},
    {"RNN", "f3x2x4 w1x3x4 w1x3x3",
     "hidden_size=3 direction='reverse' activations=['Affine'] activation_alpha=[1f] "
     "activation_beta=[0.5f]",
     2},
    // normalization, attention
    {"BatchNormalization", "f2x3x2 f3 f3 f3 f3", "epsilon=0.01f"},
    {"GlobalLpPool", "f1x2x3x3", "p=1"},
    {"GroupNormalization", "f1x4x3x3 f4 f4", "num_groups=2", 1, 21},
    {"InstanceNormalization", "f2x3x2x2 f3 f3"},
    {"LayerNormalization", "f2x3x4 f4 f4", "axis=-1", 3},
    {"LpNormalization", "f2x3", "p=1 axis=0"},
    {"MeanVarianceNormalization", "f2x3x2x2"},
    {"RMSNormalization", "f2x3x4 f4", "axis=-1", 1, 23},
    {"Attention", "f2x3x8 f2x4x8 f2x4x8 b3x4", "q_num_heads=2 kv_num_heads=2 is_causal=1 softcap=2f", 1, 23},
    {"Attention", "f1x2x3x4 f1x2x2x4 f1x2x2x4 - f1x2x1x4 f1x2x1x4", "", 4, 23},
    {"RotaryEmbedding", "f1x2x3x4 f8x2 f8x2 l1x3", "interleaved=1", 1, 23},
    // images, detection, spectra
    {"AffineGrid", "f1x2x3 [1,1,4,4]", "align_corners=1"},
    {"AveragePool", "f1x2x7", "kernel_shape=[3] strides=[2] ceil_mode=1 count_include_pad=1 pads=[1,1]"},
    {"GlobalAveragePool", "f1x2x3x4x2"},
    {"GridSample", "f1x1x4x4 f1x3x3x2", "mode='cubic' padding_mode='reflection' align_corners=1"},
    {"LpPool", "f1x2x6x6", "kernel_shape=[3,3] strides=[2,2] p=3 auto_pad='SAME_LOWER'"},
    {"MaxPool", "f1x2x6x6", "kernel_shape=[2,2] strides=[2,2] dilations=[2,2]", 2},
    {"MaxUnpool", "f1x1x2x2 l1x1x2x2", "kernel_shape=[2,2] strides=[2,2]"},
    {"Resize", "f1x1x4x4 - - [1,1,7,6]",
     "mode='cubic' antialias=1 coordinate_transformation_mode='pytorch_half_pixel'"},
    {"Resize", "f1x1x4x4 w8 w4", "mode='linear' coordinate_transformation_mode='tf_crop_and_resize'"},
    {"Upsample", "f1x1x2x2 w4", "mode='nearest'", 1, 9},
    {"DFT", "f1x8x1", "axis=1 onesided=1", 1, 17},
    {"DFT", "f1x8x2 =6 =1", "inverse=1"},
    {"MaxRoiPool", "f1x2x6x6 f2x5", "pooled_shape=[2,2] spatial_scale=0.5f"},
    {"MelWeightMatrix", "=4 =8 =8000 w w"},
    {"NonMaxSuppression", "f1x4x4 f1x2x4 l1 f1 f1", "center_point_box=1"},
    {"RoiAlign", "f1x2x6x6 f2x4 l2", "output_height=2 output_width=2 sampling_ratio=2 mode='max'"},
    {"STFT", "f1x16x1 =4 w8", "onesided=1"},
};

using Type = schema::TensorProto;

Type::DataType type_of(char letter) {
  switch (letter) {
    case 'l': return Type::INT64;
    case 'b': return Type::BOOL;
    case 'c': return Type::INT8;
    case 'u': return Type::UINT8;
    case 's': return Type::INT32;
    default: return Type::FLOAT;
  }
}

// The numbers between separators.
std::vector<int64_t> numbers_in(const std::string& text, char separator) {
  std::vector<int64_t> numbers;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, separator);) numbers.push_back(std::stoll(item));
  return numbers;
}

// Adds what the word says, and returns the input's name.
std::string add_input(OnnxModel& model, const std::string& word, const std::string& name) {
  if (word == "-") return "";
  const std::string rest = word.substr(1);
  if (word[0] == '[') {
    model.integers(name, numbers_in(rest.substr(0, rest.size() - 1), ','));
  } else if (word[0] == '=') {
    model.integers(name, numbers_in(rest, ','));
    model.model.mutable_graph()->mutable_initializer()->rbegin()->clear_dims();
  } else {
    test::Dims dims;
    for (const int64_t d : numbers_in(rest, 'x')) dims.push_back(static_cast<size_t>(d));
    if (word[0] == 'w') {
      model.floats(name, {dims, std::vector<float>(test::count(dims), 1.5f)});
    } else {
      model.input(name, dims, type_of(word[0]));
    }
  }
  return name;
}

std::string model_of(const Operator& op) {
  OnnxModel model(op.opset);
  std::vector<std::string> inputs, outputs;
  std::istringstream words(op.inputs);
  for (std::string word; words >> word;) {
    inputs.push_back(add_input(model, word, std::string("x").append(std::to_string(inputs.size()))));
  }
  for (size_t i = 0; i < op.outputs; ++i) outputs.push_back(std::string("y").append(std::to_string(i)));
  model.node(op.type, inputs, outputs, op.attributes);
  for (const std::string& name : outputs) model.output(name);
  return model.bytes();
}

// ---- nodes that run graphs

void give_graph(OnnxModel& model, const char* name, const OnnxModel& body) {
  schema::AttributeProto* attribute = model.model.mutable_graph()->mutable_node()->rbegin()->add_attribute();
  attribute->set_name(name);
  attribute->set_type(schema::AttributeProto::GRAPH);
  *attribute->mutable_g() = body.model.graph();
}

// Both branches read a tensor of the graph around them.
Seed if_seed() {
  OnnxModel model(20), yes(20), no(20);
  yes.node("Abs", {"x"}, {"a"}).output("a");
  no.node("Concat", {"x", "x"}, {"b"}, "axis=0").output("b");
  model.input("condition", {}, Type::BOOL).input("x", {2, 3}).node("If", {"condition"}, {"y"}).output("y");
  give_graph(model, "then_branch", yes);
  give_graph(model, "else_branch", no);
  return {"If", model.bytes()};
}

// Carries a sum, and gives a row in each round.
Seed loop_seed() {
  OnnxModel model(20), body(20);
  body.input("i", {}, Type::INT64).input("go", {}, Type::BOOL).input("sum", {3});
  body.node("Identity", {"go"}, {"going"}).node("Add", {"sum", "x"}, {"more"}).node("Cast", {"i"}, {"row"}, "to=1");
  body.output("going").output("more").output("row");
  model.integers("rounds", {3}).input("condition", {}, Type::BOOL).input("x", {3});
  model.model.mutable_graph()->mutable_initializer(0)->clear_dims();
  model.node("Loop", {"rounds", "condition", "x"}, {"y", "rows"}).output("y").output("rows");
  give_graph(model, "body", body);
  return {"Loop", model.bytes()};
}

Seed scan_seed() {
  OnnxModel model(20), body(20);
  body.input("sum", {3}).input("row", {3}).node("Add", {"sum", "row"}, {"more"}).node("Neg", {"more"}, {"out"});
  body.output("more").output("out");
  model.input("start", {3})
      .input("x", {3, 4})
      .node("Scan", {"start", "x"}, {"y", "rows"}, "num_scan_inputs=1 scan_input_axes=[1] scan_input_directions=[1]");
  model.output("y").output("rows");
  give_graph(model, "body", body);
  return {"Scan", model.bytes()};
}

}  // namespace

std::vector<Seed> onnx_operator_seeds() {
  std::vector<Seed> seeds = {if_seed(), loop_seed(), scan_seed()};
  for (const Operator& op : operators) {
    seeds.push_back({op.type + std::string(".").append(std::to_string(seeds.size())), model_of(op)});
  }
  return seeds;
}

}  // namespace quern
