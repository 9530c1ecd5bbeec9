// Builds convolutional networks layer by layer, with random weights of the right size.
//
// Every value carries an estimate of its mean and mean square over the whole tensor. Weights have mean zero, so the
// mean square of a convolution's outputs is the mean square of its inputs times the sum of the squared weights. The
// builder scales every filter so that the expected mean square is exactly the wanted one; it takes zero padding into
// account. Activation functions change mean and mean square by constants. The builder uses only +, -, *, / and sqrt,
// which give the same bits on all machines with IEEE 754 arithmetic.
#pragma once

#include <string>

#include "convert/zoo/random.h"
#include "graph/ir/ir.h"

namespace quern::zoo {

enum class Activation { none, relu, relu6, hard_swish };

// An image in the network: N,H,W,C with N = 1.
struct Value {
  int tensor;
  size_t h, w, c;
  double mean, square;  // of the elements, estimated
  bool flat = false;    // the tensor is N,C instead
};

struct ConvShape {
  size_t out;
  size_t kernel = 1, stride = 1;
  Activation act = Activation::none;
  size_t padding = SIZE_MAX;  // SIZE_MAX: (kernel - 1) / 2
  double square = 1;          // wanted mean square of the outputs; only used without an activation
};

class Builder {
 public:
  Builder(const std::string& name, uint64_t seed);

  // Adds the input of the network, named "input": three channels of side x side pixels with variance one. The user sees
  // it as N,C,H,W.
  Value input(size_t side);

  Value conv(const std::string& name, const Value& x, const ConvShape& shape);
  Value depthwise(const std::string& name, const Value& x, size_t kernel, size_t stride, Activation act);
  // Reads an image as one long vector. The result is flat.
  Value fully_connected(const std::string& name, const Value& x, size_t out, Activation act = Activation::none);

  // `growth` is an estimate: the mean square of the outputs divided by that of the inputs. It depends on how similar
  // neighbouring pixels are.
  Value max_pool(const std::string& name, const Value& x, size_t kernel, size_t stride, size_t padding, double growth,
                 bool ceil_mode = false);
  Value global_average(const std::string& name, const Value& x);
  Value add(const std::string& name, const Value& a, const Value& b, Activation act = Activation::none);
  // Adds a batch norm that cannot be folded into a convolution, with its relu. The mean square of the outputs is one.
  Value scale_relu(const std::string& name, const Value& x);
  Value relu(const std::string& name, const Value& x);
  // Adds squeeze and excitation: multiplies each channel of x by a gate. Two layers compute the gates from the means of
  // the channels; the first one has `channels` outputs.
  Value squeeze_excite(const std::string& name, const Value& x, size_t channels);
  Value concat(const std::string& name, const Vector<Value>& parts);
  Value channels(const std::string& name, const Value& x, size_t begin, size_t end);
  // Reorders channels: channel i of group g becomes channel g of group i.
  Value shuffle(const std::string& name, const Value& x, size_t groups);
  // Reshapes to N,(H*W*C/columns),columns or, if `columns` is 0, to N,(H*W*C).
  int flatten(const std::string& name, const Value& x, size_t columns = 0);

  int join(const std::string& name, const Vector<int>& tensors, int axis);
  int softmax(const std::string& name, int tensor, int axis);
  void output(const std::string& name, int tensor);

  Graph finish() { return std::move(graph_); }

 private:
  struct Filters {
    int weights, bias;
  };
  // Draws `count` filters of shape `filter`. In each filter, the sum of the squared weights is `square`, and so is the
  // square of the sum of the weights. For random weights the second is true only on average. The builder makes it exact
  // because all inputs share a mean, whose effect on the outputs would otherwise be a matter of chance.
  Filters filters(const std::string& name, size_t count, const Vector<size_t>& filter, double square, double bias);
  Value convolve(const std::string& name, const Value& x, const ConvShape& shape, size_t groups);
  Value activated(const std::string& name, Value value, Activation act);
  Value node(const std::string& name, OpKind kind, const Vector<int>& inputs, const Attributes& attributes,
             const Value& like);

  Graph graph_;
  uint64_t seed_;
  uint64_t drawn_ = 0;  // number of tensors drawn so far; each has its own generator
};

}  // namespace quern::zoo
