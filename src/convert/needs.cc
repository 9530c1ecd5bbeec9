#include "convert/needs.h"

#include <map>
#include <set>
#include <sstream>

#include "convert/common/error.h"
#include "convert/model_stats.h"

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
    add("operator", operators_);
    add("algorithm", algorithms_);
    add("kernel", kernels_);
    return text;
  }

 private:
  std::string name() const { return graph_.name.empty() ? "a model" : std::string(graph_.name); }

  // Adds kernels of floats. Their names in src/kernel/ begin with `family`, "_f32" and `variant`.
  void kernel(const std::string& family, const std::string& variant = "") {
    kernels_.insert(family + "_f32" + variant);
  }

  void add_node(const Node& node) {
    operators_.insert(op_name(node.kind));
    if (node.kind == OpKind::conv2d) add_conv(node);
    if (node.kind == OpKind::fully_connected) add_gemm();
    if (const auto found = kernels_of.find(node.kind); found != kernels_of.end()) {
      std::istringstream families(found->second);
      for (std::string family; families >> family;) kernel(family);
    }
  }

  void add_gemm() {
    algorithms_.insert("gemm");
    kernel("gemm");
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
    if (!square || w[1] != 3 || !all(a.stride, 1) || !all(a.dilation, 1) || a.groups != 1) return;
    algorithms_.insert("winograd");
    for (const char* size : {"_2x2", "_4x4", "_6x6"}) kernel("winograd", size);
  }

  // Depthwise tiles exist for the usual sizes and strides, if these are the same in both directions. Other convolutions
  // use the general kernels ("_np").
  void add_depthwise(size_t size, qn_hw stride) {
    algorithms_.insert("depthwise");
    const bool tile = (size == 3 || size == 5) && stride.h == stride.w && (stride.h == 1 || stride.h == 2);
    kernel("dwconv", tile ? "_k" + std::to_string(size) + "s" + std::to_string(stride.h) : "_np");
  }

  // Around sparse layers tensors are pixel-blocked, so other operators need kernels that read this layout.
  void add_sparse() {
    algorithms_.insert("sparse");
    for (const char* family : {"spmm", "transpose", "gather", "unblock", "split"}) kernel(family);
    if (!algorithms_.contains("depthwise")) return;
    kernel("dwconv", "_plane");
    kernel("dwconv", "_image");
  }

  const Graph& graph_;
  std::set<std::string> operators_, algorithms_, kernels_;
};

}  // namespace

std::string needs_of(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const qn_type type = graph.tensors[static_cast<size_t>(node.inputs[0])].type;
    if (type != QN_F32)
      throw Error("node '" + std::string(node.name) + "' takes integers, which trimmed builds lack yet");
  }
  return Needs(graph).text();
}

}  // namespace quern
