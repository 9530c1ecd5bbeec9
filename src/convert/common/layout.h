// Builds one of our graphs from a source whose images are N, C, H, W.
//
// Our image operators read N, H, W, C. A View stands for a tensor of the source: it names one of our tensors and the
// order of its dimensions. The builder's functions take arguments in the source's terms (axes, shapes, permutations).
// If a node needs an input in another order, they add a transpose, at most one per tensor and order. Elementwise
// operators accept any order, so one order can pass through many nodes and few transposes remain.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convert/common/dimensions.h"
#include "convert/common/error.h"
#include "convert/common/messages.h"
#include "convert/common/symbols.h"
#include "graph/ir/rules.h"

namespace quern::convert {

struct View {
  int tensor = no_tensor;
  Order order;

  size_t rank() const { return order.size(); }
  explicit operator bool() const { return tensor != no_tensor; }
};

// What a node of a registered kind has beside its inputs.
class Parameters {
 public:
  Parameters&& integers(const char* name, const std::vector<int64_t>& values) &&;
  Parameters&& integer(const char* name, int64_t value) && { return std::move(*this).integers(name, {value}); }
  Parameters&& floats(const char* name, const std::vector<float>& values) &&;
  Parameters&& number(const char* name, float value) && { return std::move(*this).floats(name, {value}); }

  Vector<Parameter> list;
};

class Builder {
 public:
  explicit Builder(const char* source);

  // Says that inputs may have dimensions of 0. Importers that do not say so refuse them.
  void allow_empty() { takes_empty_ = true; }
  void set_name(const std::string& name) { graph_.name = plain_name(name).c_str(); }
  // What messages about new nodes begin with, instead of our name and kind: "node 'x' (Conv)". Returns what it was before.
  std::string name_source(std::string what) { return std::exchange(source_, std::move(what)); }

  // A file of a few bytes can ask for huge constants (repeated, reordered, computed) and for much work on them. So the
  // builder has a budget of bytes that it may make, copy or read: a fixed sum and a multiple of the files' bytes.
  // allow() raises the budget for a file of so many bytes. charge() spends it, and throws `otherwise` if not enough
  // is left.
  void allow(size_t bytes_read);
  void charge(size_t bytes, const char* otherwise = "constants grow far beyond the size of the file");

  // Takes the budget from another builder, and spends it there.
  void share_budget(Builder& other) { budget_ = other.budget_; }
  // An input of any rank and shape.
  View unsized_input(const std::string& name, qn_type type);
  // Copies a constant of another builder.
  View copy_constant(Builder& from, const View& constant);
  // Adds a node that runs graphs, OpKind::branch or loop, whose inputs and outputs the node has. `size`: as in ir.h.
  // `rows`: for each scan output of a loop, the result of declared_row(); empty if the source declares none.
  std::vector<View> control(OpKind kind, const std::string& name, const std::vector<View>& inputs,
                            std::vector<Graph> graphs, size_t size, const std::vector<qn_type>& types,
                            const std::vector<Shape>& rows = {});
  View input(const std::string& name, const Shape& shape, qn_type type, const qn_preprocessing& preprocessing);
  // Says that the source leaves a dimension of this input open, under a name that may be empty.
  void leave_open(const View& input, size_t dimension, const std::string& name);
  // Whether the size depends on a dimension that the source leaves open.
  bool is_open(Symbol symbol) const;
  View constant(const Shape& shape, qn_type type, const void* data, Quantization quantization = {});
  View constant(const Shape& shape, const float* data) { return constant(shape, QN_F32, data); }

  Shape shape(const View& view) const;                      // in the source's order
  Symbol symbol(const View& view, size_t dimension) const;  // of the source's
  Symbols& symbols() { return symbols_; }
  // Says that the node `name` of the source was converted for the present value of `symbol` only. Sessions will refuse
  // to change the dimensions of inputs on which the symbol depends.
  void fix(Symbol symbol, const std::string& name);
  // Appends how the number follows from dimensions of tensors: numerator, denominator, count, and as often the number of
  // a tensor in `inputs`, to which missing ones are added, and of a dimension. Returns false if it follows otherwise.
  bool factors(const Symbols::Number& number, std::vector<View>* inputs, std::vector<int64_t>* factors) const;
  size_t elements(const View& view) const;
  bool is_constant(const View& view) const;
  // Whether `constant`, broadcast to x, has one number for each index of one dimension, or one number for all elements.
  // Sets `axis` to that dimension.
  bool along_axis(const View& x, const View& constant, size_t* axis) const;
  // Joins constants of one type and with the same quantization: for each place in the dimensions before `axis`, what lies
  // there in one constant is followed by what lies there in the next one. So dimension `grown` becomes longer.
  View join_constants(const std::vector<View>& constants, size_t axis, size_t grown);
  const float* floats(const View& constant);  // of type QN_F32, in the source's order
  std::vector<uint8_t> bytes(const View& constant);

  // Returns a view of the transposed tensor. Adds no node: the elements stay where they are.
  View permute(const View& x, const Order& permutation) const;

  // Applies a function to each element.
  View unary(OpKind kind, const std::string& name, const View& x, const Attributes& attributes = {});
  View clamp(const std::string& name, const View& x, float min, float max);
  View power(const std::string& name, const View& x, float scale, float shift, float power);
  // add, sub, mul, div; shapes are aligned at the right, dimensions of 1 repeat.
  View binary(OpKind kind, const std::string& name, const View& a, const View& b);

  // Quantized numbers are s8 in our graphs, with one scale for all elements. quantize() makes them from floats, and
  // dequantize() makes floats of them. set_scale() says how the elements of a tensor without scales, an input of the
  // model, stand for real numbers. as_quantized() does so, too, and returns them as s8, or an empty view if the tensor
  // has other scales. `zero` is a zero point of s8.
  View quantize(const std::string& name, const View& x, float scale, int32_t zero);
  bool is_dequantized(const View& x) const;
  View dequantize(const std::string& name, const View& x);
  bool set_scale(const View& x, float scale, int32_t zero);  // false: it has other scales
  View as_quantized(const std::string& name, const View& x, float scale, int32_t zero);

  // Operators along one dimension of x, usually the channels. `slope`, `scale` and `bias` have one number for each
  // index of the dimension, or one for all.
  View prelu(const std::string& name, const View& x, const std::vector<float>& slope, size_t axis);
  View scale(const std::string& name, const View& x, const std::vector<float>& scale, const std::vector<float>& bias,
             size_t axis);
  // x < 0 ? slope * x : x
  View leaky_relu(const std::string& name, const View& x, float slope);
  View lrn(const std::string& name, const View& x, size_t size, float alpha, float beta, float k);

  // Operators on images. Weights are O, I, kh, kw. `bias` may be an empty view.
  View conv2d(const std::string& name, const View& x, const View& weights, const View& bias, const Attributes&);
  View pool(OpKind kind, const std::string& name, const View& x, const Attributes& attributes);
  View resize(const std::string& name, const View& x, const Attributes& attributes);

  // x [..., I], weights [O, I].
  View fully_connected(const std::string& name, const View& x, const View& weights, const View& bias,
                       const Attributes& attributes = {});

  View softmax(const std::string& name, const View& x, size_t axis);
  View concat(const std::string& name, const std::vector<View>& inputs, size_t axis);
  View slice(const std::string& name, const View& x, const std::vector<int64_t>& begin,
             const std::vector<int64_t>& end);
  // Takes the part of one dimension from `begin` to `end`. Bounds below 0 count from the end, as op.inc says.
  View slice(const std::string& name, const View& x, size_t axis, int64_t begin, int64_t end);
  View pad(const std::string& name, const View& x, const std::vector<int64_t>& before,
           const std::vector<int64_t>& after, float value);
  // `shape` is as in op.inc: 0 and the values of copy_dimension() copy a dimension, -1 is inferred.
  View reshape(const std::string& name, const View& x, const std::vector<int64_t>& shape);
  // Gives x a dimension of size 1 before the source's dimension `axis`, or takes it away. The elements stay in their
  // order in memory, whichever that is.
  View insert_dimension(const std::string& name, const View& x, size_t axis);
  View remove_dimension(const std::string& name, const View& x, size_t axis);
  // Makes one dimension of `axis` and the one behind it, which follows it in the graph's order, too.
  View merge_dimensions(const std::string& name, const View& x, size_t axis);

  // Whether the shape of the tensor is known. If it is not, only nodes of registered kinds can read it: shape() throws
  // Unsupported.
  bool is_sized(const View& view) const { return !tensor(view).sized_by_run; }
  // What is known of the shape of a tensor that only a run sizes (expected.cc): its rank, and the sizes that it will have
  // unless others, from which they come, are open. shape() of others.
  void expect_shape(const View& view, const Shape& shape);
  std::optional<Shape> expected_shape(const View& view) const;
  qn_type type(const View& view) const { return tensor(view).type; }
  // Whether elements of two tensors stand for numbers in the same way.
  bool are_alike(const View& a, const View& b) const {
    return type(a) == type(b) && tensor(a).quantization == tensor(b).quantization;
  }
  // Adds a node of a registered kind (quern/kind.h), which reads and writes tensors as the source has them. An empty view
  // stands for an absent input. Returns one output of each of these types; constants, if all inputs are constants and the
  // outputs are small.
  std::vector<View> custom(const std::string& kind, const std::string& name, const std::vector<View>& inputs,
                           Parameters parameters, const std::vector<qn_type>& types);

  // Makes the tensor an output. An input or another output may have the same name if it has the same elements.
  void output(const View& view, const std::string& name, qn_type type);

  // Returns the graph, checked, and without the nodes and tensors that no output needs. Leaves the builder empty.
  Graph finish();

 private:
  void add_factor(const std::pair<int, size_t>& place, std::vector<View>* inputs, std::vector<int64_t>* factors) const;
  int add(OpKind kind, const std::string& name, std::vector<int> inputs, const Attributes& attributes);
  int add(OpKind kind, const std::string& name, int input, qn_type type, Quantization quantization);
  // Checks the node that was added last, and infers types, shapes and symbols of its outputs.
  void infer_last();
  std::string in_words_of_the_source(const Node& node, const std::string& message) const;
  bool is_input(int tensor) const;
  std::string port_name(const std::string& name);
  int in_order(const View& view, const Order& order);
  void fix_as_in(const Graph& graph, const std::vector<View>& inputs);
  void compute_if_constant(size_t first);
  void expect_of_last();
  int reshaped(const std::string& name, int in, const std::vector<int64_t>& shape);
  View with_rank(const std::string& name, const View& x, size_t rank);
  View by_constant(OpKind kind, const std::string& name, const View& x, const View& constant, size_t axis);
  bool is_cheap_along(const View& x, const View& constant, size_t* axis);
  Tensor& tensor(const View& view) { return graph_.tensors[index_of(view)]; }
  const Tensor& tensor(const View& view) const { return graph_.tensors[index_of(view)]; }
  static size_t index_of(const View& view) {
    if (!view) throw Unsupported{"an input that is missing, or a list of tensors"};
    return static_cast<size_t>(view.tensor);
  }

  // An input or output of the graph. `tensor` has its name. `shows` has its elements, and may have another name.
  struct NamedPort {
    int shows, tensor;
  };

  Graph graph_;
  Symbols symbols_;
  std::map<std::pair<size_t, size_t>, std::string> fixed_;  // (input, dimension) -> the node that fixes it
  bool takes_empty_ = false;
  std::string source_;  // name_source()
  std::shared_ptr<size_t> budget_ = std::make_shared<size_t>(size_t{64} << 20);
  std::map<std::pair<int, Order>, int> transposed_;  // (tensor, permutation) -> tensor
  std::map<int, Shape> expected_;                    // of tensors that only a run sizes
  std::map<int, int> signed_;                        // input of u8 -> the same numbers as s8
  std::map<std::string, NamedPort> ports_;           // name in the source -> port
  std::set<std::string> port_names_;                 // names in our graph
  size_t renamed_ports_ = 0;
};

}  // namespace quern::convert
