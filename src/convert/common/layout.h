// Building a graph of ours from a source whose images are N, C, H, W.
//
// Our image operators read N, H, W, C. A View is a source tensor as we hold it: one of our tensors and how its
// dimensions are ordered. The builder's operators take arguments in the source's terms (axes, shapes, permutations) and
// bring their inputs into the form they need; a transpose is added at most once per tensor and form. Elementwise
// operators take what they get, so that layouts flow through a network and few transposes remain.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convert/common/error.h"
#include "convert/common/symbols.h"
#include "graph/ir/rules.h"

namespace quern::convert {

using Order = std::vector<uint32_t>;  // our dimension i is the source's dimension order[i]

Order source_order(size_t rank);  // 0, 1, 2, ...
Order axis_last(size_t rank, size_t axis);
Order channels_last(size_t rank);  // 0, 2, 3, ..., 1

// Where dimension `axis` is in `order`.
size_t position(const Order& order, size_t axis);
// The order of the dimensions after a transpose, whose dimension k is dimension permutation[k] of what it reads.
Order permuted(const Order& order, const Order& permutation);
// The permutation that brings a tensor from one order into another.
Order permutation_between(const Order& from, const Order& to);
// out[j0, j1, ...] = in[...] where dimension k of out is dimension permutation[k] of in; both dense, of elements of so
// many bytes.
void permute_elements(const void* in, size_t element_size, const Shape& shape, const Order& permutation, void* out);

// Calls visit(offset) for each element of `shape` in turn, where the next index of dimension d lies stride[d] further.
template <class Visit>
void walk(const Shape& shape, const Shape& stride, Visit&& visit) {
  size_t count = 1, offset = 0;
  for (const size_t d : shape) count *= d;
  Shape at(shape.size(), 0);
  for (size_t n = 0; n < count; ++n) {
    visit(offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += stride[d];
      if (++at[d] < shape[d]) break;
      offset -= stride[d] * shape[d];
      at[d] = 0;
    }
  }
}

struct View {
  int tensor = no_tensor;
  Order order;

  size_t rank() const { return order.size(); }
  explicit operator bool() const { return tensor != no_tensor; }
};

// Thrown for what is valid but not expressible in our operators. Importers collect these and report all at once.
struct Unsupported {
  std::string reason;  // "" when the type of the layer says it all
};

// "3 layers are not supported: a (LSTM), b (Pooling: stochastic), ..." as it grows.
class UnsupportedList {
 public:
  void add(const std::string& name, const std::string& type, const std::string& reason);
  void throw_if_any() const;

 private:
  size_t count_ = 0;
  std::string text_;
};

// A name as graphs of ours have them: UTF-8 without control characters, of at most `limit` bytes. What a file has
// instead of a character becomes '?'.
constexpr size_t name_limit = 1024;
std::string plain_name(const std::string& name, size_t limit = name_limit);

// A number of a file that must be finite; the message says `where`.
float finite(float value, const std::string& where);

class Builder {
 public:
  explicit Builder(const char* source);

  void set_name(const std::string& name) { graph_.name = plain_name(name).c_str(); }

  // Files of a few bytes may ask for constants of any size (spread, reordered, worked out), and for much work on them:
  // what is made, copied and gone through may together be a multiple of the files' bytes, and no more.
  void allow(size_t bytes_read);
  void charge(size_t bytes);

  View input(const std::string& name, const Shape& shape, qn_type type, const qn_preprocessing& preprocessing);
  View constant(const Shape& shape, qn_type type, const void* data);
  View constant(const Shape& shape, const float* data) { return constant(shape, QN_F32, data); }

  Shape shape(const View& view) const;                      // in the source's order
  Symbol symbol(const View& view, size_t dimension) const;  // of the source's
  Symbols& symbols() { return symbols_; }
  // The node `name` of the source was converted for the present value of `symbol` alone: sessions refuse other sizes of
  // the inputs' dimensions that it depends on.
  void fix(Symbol symbol, const std::string& name);
  size_t elements(const View& view) const;
  bool is_constant(const View& view) const;
  // Whether `constant`, broadcast to x, has one number per index of one dimension, or one for all; and which dimension.
  bool along_axis(const View& x, const View& constant, size_t* axis) const;
  const float* floats(const View& constant);  // of type QN_F32, in the source's order

  // The same elements read in another order; adds no node.
  View permute(const View& x, const Order& permutation) const;

  // One input and one output of the same shape, each element by itself.
  View unary(OpKind kind, const std::string& name, const View& x, const Attributes& attributes = {});
  View clamp(const std::string& name, const View& x, float min, float max);
  View power(const std::string& name, const View& x, float scale, float shift, float power);
  // add, sub, mul, div; shapes are aligned at the right, dimensions of 1 repeat.
  View binary(OpKind kind, const std::string& name, const View& a, const View& b);

  // Along one dimension of x: channels, as a rule. `slope` and the like: one number per index, or one for all.
  View prelu(const std::string& name, const View& x, const std::vector<float>& slope, size_t axis);
  View scale(const std::string& name, const View& x, const std::vector<float>& scale, const std::vector<float>& bias,
             size_t axis);
  // x < 0 ? slope * x : x
  View leaky_relu(const std::string& name, const View& x, float slope);
  View lrn(const std::string& name, const View& x, size_t size, float alpha, float beta, float k);

  // Images. Weights: O, I, kh, kw; bias may be absent.
  View conv2d(const std::string& name, const View& x, const View& weights, const View& bias, const Attributes&);
  View pool(OpKind kind, const std::string& name, const View& x, const Attributes& attributes);
  View resize(const std::string& name, const View& x, const Attributes& attributes);

  // x [..., I], weights [O, I].
  View fully_connected(const std::string& name, const View& x, const View& weights, const View& bias);

  View softmax(const std::string& name, const View& x, size_t axis);
  View concat(const std::string& name, const std::vector<View>& inputs, size_t axis);
  View slice(const std::string& name, const View& x, const std::vector<int64_t>& begin,
             const std::vector<int64_t>& end);
  // The part of one dimension from `begin` to `end`, which may count from behind as in op.inc.
  View slice(const std::string& name, const View& x, size_t axis, int64_t begin, int64_t end);
  View pad(const std::string& name, const View& x, const std::vector<int64_t>& before,
           const std::vector<int64_t>& after, float value);
  // `shape` as in op.inc: 0 copies, so does copy_dimension(), -1 is inferred.
  View reshape(const std::string& name, const View& x, const std::vector<int64_t>& shape);

  // The name may be that of an input or of another output with the same elements.
  void output(const View& view, const std::string& name, qn_type type);

  // The whole graph without what no node reads, checked. The builder is empty afterwards.
  Graph finish();

 private:
  int add(OpKind kind, const std::string& name, std::vector<int> inputs, const Attributes& attributes);
  std::string port_name(const std::string& name);
  int in_order(const View& view, const Order& order);
  View with_rank(const std::string& name, const View& x, size_t rank);
  View by_constant(OpKind kind, const std::string& name, const View& x, const View& constant, size_t axis);
  bool is_cheap_along(const View& x, const View& constant, size_t* axis);
  Tensor& tensor(const View& view) { return graph_.tensors[static_cast<size_t>(view.tensor)]; }
  const Tensor& tensor(const View& view) const { return graph_.tensors[static_cast<size_t>(view.tensor)]; }

  // An input or output: the tensor with its name, and the one with its elements, which may have another name.
  struct NamedPort {
    int shows, tensor;
  };

  Graph graph_;
  Symbols symbols_;
  std::map<std::pair<size_t, size_t>, std::string> fixed_;  // (input, dimension) -> the node it is fixed for
  size_t budget_ = size_t{64} << 20;
  std::map<std::pair<int, Order>, int> transposed_;  // (tensor, permutation) -> tensor
  std::map<std::string, NamedPort> ports_;           // by their names in the source
  std::set<std::string> port_names_;                 // and in our graph
  size_t renamed_ports_ = 0;
};

}  // namespace quern::convert
