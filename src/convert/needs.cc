#include "convert/needs.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <vector>

#include "convert/common/error.h"
#include "convert/model_stats.h"
#include "extra/node.h"
#include "graph/file/encoded.h"
#include "graph/file/file_header.h"
#include "graph/ir/custom.h"
#include "graph/ir/kinds.h"
#include "kernel/type.h"

namespace quern {
namespace {

// If a smaller part of the weights is zero, no cost model prefers sparse kernels.
constexpr double worth_sparse = 0.25;
constexpr size_t few_channels = 8;

const std::map<OpKind, std::string> kernels_of = {
#define QN_KERNELS(kind, families) {OpKind::kind, families},
#include "graph/ir/op.inc"
#undef QN_KERNELS
};

// The kinds of libquern-extra that compute with operators of op.h, and with which families of kernels.
const std::map<std::string, std::string> kernels_of_registered = {
    {"any_exp", "vexp"},
    {"any_sigmoid", "vsigmoid"},
    {"any_tanh", "vtanh"},
    {"attention", "gemm vmax vexpsum vmulc"},
    {"celu", "vtanh"},
    {"conv", "gemm"},
    {"conv_transposed", "gemm"},
    {"deform_conv", "gemm"},
    {"einsum", "gemm"},
    {"elu", "vtanh"},
    {"erf", "vexp"},
    {"gelu", "vexp"},
    {"gelu_tanh", "vsigmoid"},
    {"gemm", "gemm"},
    {"gru", "gemm vsigmoid vtanh"},
    {"lstm", "gemm vsigmoid vtanh"},
    {"matmul", "gemm"},
    {"mish", "vexp"},
    {"rnn", "gemm vsigmoid vtanh"},
    {"selu", "vtanh"},
    {"softplus", "vexp"},
    {"swish", "vsigmoid"},
};

// Kinds that compute nothing: their results are sizes of tensors.
const std::set<std::string> only_shapes = {"shape_of", "size_of", "sizes"};

bool is_extra(const std::string& name) {
  static const std::vector<qn_kind> kinds = extra::all_kinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const qn_kind& kind) { return name == kind.name; });
}

// Does a table replace this kind of node where elements are bytes? It does so with each function of one number.
bool is_table(const Kind& kind) {
  return kind.has(Kind::elementwise) && kind.max_inputs == 1 && kind.types == TypeRule::steps;
}

class Needs {
 public:
  explicit Needs(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) add_node(node);
    for (const LayerStats& layer : model_stats(graph).layers) {
      if (static_cast<double>(layer.zeros) > worth_sparse * static_cast<double>(layer.elements)) add_sparse();
    }
  }

  std::string text() const {
    std::string text = "# What " + name() + " needs of a trimmed build: -DQUERN_NEEDS=FILE\n";
    const auto add = [&](const std::string& kind, const std::set<std::string>& names) {
      for (const std::string& each : names) text += kind + " " + each + "\n";
    };
    if (integers_) text += "type qs8\n";
    if (least_weight_) text += "weight any\n";
    if (graph_.file_version == coded_version) text += "format coded\n";
    add("operator", operators_);
    add("algorithm", algorithms_);
    add("kernel", kernels_);
    add("kind", kinds_);
    if (calls_operators_) text += "api op\n";
    return text;
  }

 private:
  std::string name() const { return graph_.name.empty() ? "a model" : std::string(graph_.name); }

  // Adds kernels of the type of the node at hand. Their names in src/kernel/ begin with `family`, "_f32" or another type,
  // and `variant`.
  void kernel(const std::string& family, const std::string& variant = "") {
    kernels_.insert(family + "_" + type_name(type_) + variant);
  }

  void add_node(const Node& node) {
    if (node.kind == OpKind::branch || node.kind == OpKind::loop) {
      throw Error(std::string("node '") + node.name.c_str() + "' (" + kind_name(node) +
                  "): small builds run no graphs");
    }
    operators_.insert(op_name(node.kind));
    if (node.kind == OpKind::custom) return add_registered(kind_name(node));
    const auto is_float = [&](int tensor) { return tensor_of(graph_, tensor).type == QN_F32; };
    const bool weights = kind_of(node.kind).has_weights();
    const bool bytes = !is_float(node.inputs[0]);
    type_ = !bytes && node.kind != OpKind::quantize ? KernelType::f32 : weights ? KernelType::qs8c : KernelType::qs8;
    const bool decodes = weights && !bytes && !node.attributes.quantize_input && !is_float(node.inputs[1]);
    calls_operators_ =
        calls_operators_ || decodes;  // which checks and decodes weights of integers for layers of floats
    if (decodes && tensor_of(graph_, node.inputs[1]).quantization.block != 0) kernels_.insert("gemm_qw4b");
    integers_ = integers_ || bytes || !is_float(node.outputs[0]) || (weights && !is_float(node.inputs[1]));
    if (weights && bytes) least_weight_ = least_weight_ || holds_least(tensor_of(graph_, node.inputs[1]));
    if (bytes && is_table(kind_of(node.kind))) {
      kernel("vlookup");
      type_ = KernelType::f32;  // of the kernel that makes the table
    }
    if (bytes && node.kind == OpKind::softmax) {
      kernel("vexpsum");
      type_ = KernelType::f32;  // of the kernel that makes a table of powers
    }
    if (node.attributes.quantize_input) {
      const Tensor& matrix = tensor_of(graph_, node.inputs[1]);
      matrix.quantization.block != 0 ? add_gemm_of_blocks() : add_gemm_of_rows();
    } else if (node.kind == OpKind::conv2d) {
      add_conv(node);
    } else if (node.kind == OpKind::fully_connected) {
      add_gemm();
    }
    if (const auto found = kernels_of.find(node.kind); found != kernels_of.end()) {
      std::istringstream families(found->second);
      for (std::string family; families >> family;) kernel(family);
    }
  }

  // Of a registered kind: libquern-extra's, or one that only the program which registered it knows.
  void add_registered(const std::string& name) {
    integers_ = true;
    if (is_extra(name)) kinds_.insert(name);
    const auto found = kernels_of_registered.find(name);
    if (found == kernels_of_registered.end()) return;
    calls_operators_ = true;
    type_ = KernelType::f32;
    std::istringstream families(found->second);
    for (std::string family; families >> family;) {
      kernel(family);
      if (family == "gemm") algorithms_.insert(family);
    }
  }

  // Is one of these weights -128? Some kernels cannot multiply it.
  bool holds_least(const Tensor& weights) const {
    if (weights.type != QN_S8 || weights.constant < 0) return true;
    const Constant& constant = graph_.constants[static_cast<size_t>(weights.constant)];
    ConstantRows rows(constant, weights.shape[0]);
    const void* data;
    expect_ok(rows.read(0, weights.shape[0], &data));
    const std::span all(static_cast<const int8_t*>(data), constant.bytes);
    return std::find(all.begin(), all.end(), INT8_MIN) != all.end();
  }

  void add_gemm() {
    algorithms_.insert("gemm");
    kernel("gemm");
  }

  // Of a layer that quantizes its rows itself. Whether weights fit 4 bits, the operator sees.
  void add_gemm_of_rows() {
    algorithms_.insert("gemm");
    for (const char* name : {"gemm_qd8c", "gemm_qd8c4", "quantize_rows_qd8c"}) kernels_.insert(name);
  }
  void add_gemm_of_blocks() {
    algorithms_.insert("gemm");
    for (const char* name : {"gemm_qd8b4", "quantize_rows_qd8b4"}) kernels_.insert(name);
  }

  void add_conv(const Node& node) {
    const Attributes& a = node.attributes;
    const Vector<size_t>& w = graph_.tensors[static_cast<size_t>(node.inputs[1])].shape;  // O, kh, kw, I of a group
    const qn_padding& p = a.padding;
    const auto all = [](const qn_hw& v, size_t value) { return v.h == value && v.w == value; };
    const bool padded = p.top + p.bottom + p.left + p.right > 0, square = w[1] == w[2];
    if (w[3] == 1 && w[0] == a.groups) return add_depthwise(w[1], square && all(a.dilation, 1) ? a.stride : qn_hw{});
    if (square && w[1] == 1 && all(a.stride, 1) && !padded) return add_gemm();
    // For few channels igemm is hardly faster than direct, and it does not work for all sizes.
    algorithms_.insert("direct");
    kernel("gemm");
    if (w[3] > few_channels) {
      algorithms_.insert("igemm");
      kernel("igemm");
    }
    if (type_ != KernelType::f32 || !square || w[1] != 3 || !all(a.stride, 1) || !all(a.dilation, 1) || a.groups != 1)
      return;
    algorithms_.insert("winograd");
    for (const char* size : {"_2x2", "_4x4", "_6x6"}) kernel("winograd", size);
  }

  // Depthwise tiles exist for the usual sizes and strides, if these are the same in both directions. Other convolutions
  // use the general kernels ("_np").
  void add_depthwise(size_t size, qn_hw stride) {
    algorithms_.insert("depthwise");
    const bool tile = (size == 3 || size == 5) && stride.h == stride.w && (stride.h == 1 || stride.h == 2);
    if (tile) kernel("dwconv", "_k" + std::to_string(size) + "s" + std::to_string(stride.h));
    // Tiles of bytes do not exist on every level, nor for all scales.
    if (!tile || type_ != KernelType::f32) kernel("dwconv", "_np");
  }

  // Around sparse layers tensors are pixel-blocked, so other operators need kernels that read this layout.
  void add_sparse() {
    algorithms_.insert("sparse");
    for (const char* family : {"spmm", "transpose", "deal", "gather", "unblock", "split"}) kernel(family);
    if (!algorithms_.contains("depthwise")) return;
    kernel("dwconv", "_plane");
    kernel("dwconv", "_image");
  }

  const Graph& graph_;
  KernelType type_ = KernelType::f32;  // of the node at hand
  bool integers_ = false;              // are there any?
  bool least_weight_ = false;          // does a layer of bytes have a weight of -128?
  bool calls_operators_ = false;       // does something need all of op.h?
  std::set<std::string> operators_, algorithms_, kernels_, kinds_;
};

}  // namespace

std::string needs_of(const Graph& graph) { return Needs(graph).text(); }

bool has_kernels(const Graph& graph, const Node& node) {
  if (node.kind == OpKind::custom) {
    const qn_kind* const kind = find_kind(node.type.c_str());
    if (kind != nullptr && (kind->flags & QN_KIND_MOVES) != 0) return true;
    if (only_shapes.count(node.type.c_str()) != 0) return true;
    if (kernels_of_registered.count(node.type.c_str()) == 0) return false;
    return node.inputs.empty() || node.inputs[0] == no_tensor || tensor_of(graph, node.inputs[0]).type == QN_F32;
  }
  const Kind& kind = kind_of(node.kind);
  const bool runs_graphs = node.kind == OpKind::branch || node.kind == OpKind::loop;
  return runs_graphs || kind.has_weights() || kind.types == TypeRule::moved || kernels_of.count(node.kind) != 0;
}

}  // namespace quern
