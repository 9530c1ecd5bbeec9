// Builds convolutional networks layer by layer, drawing weights of the right size as it goes.
//
// Every value carries an estimate of its mean and mean square over the whole tensor. Weights have mean zero, so the
// mean square of a convolution's outputs is that of its inputs times the sum of the squared weights; the builder
// scales every filter to give the wanted value exactly in expectation, zero padding included. Activation functions
// change the moments by constants. Only +, -, *, / and sqrt are used, which IEEE 754 rounds alike everywhere.
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
  bool flat = false;    // N,C instead
};

struct ConvShape {
  size_t out;
  size_t kernel = 1, stride = 1;
  Activation act = Activation::none;
  size_t padding = SIZE_MAX;  // SIZE_MAX: (kernel - 1) / 2
  double square = 1;          // wanted mean square of the outputs; activations other than none fix their own
};

class Builder {
 public:
  Builder(const std::string& name, uint64_t seed);

  // Three channels of side x side pixels with variance one, named "input", N,C,H,W as the user sees it.
  Value input(size_t side);

  Value conv(const std::string& name, const Value& x, const ConvShape& shape);
  Value depthwise(const std::string& name, const Value& x, size_t kernel, size_t stride, Activation act);
  // Takes an image as one long vector; the result is flat.
  Value fully_connected(const std::string& name, const Value& x, size_t out, Activation act = Activation::none);

  // `growth` estimates how much larger the mean square of a maximum is; it depends on how alike neighbours are.
  Value max_pool(const std::string& name, const Value& x, size_t kernel, size_t stride, size_t padding, double growth,
                 bool ceil_mode = false);
  Value global_average(const std::string& name, const Value& x);
  Value add(const std::string& name, const Value& a, const Value& b, Activation act = Activation::none);
  // A batch norm that cannot be folded, with its relu: brings x to mean square one before the relu.
  Value scale_relu(const std::string& name, const Value& x);
  Value relu(const std::string& name, const Value& x);
  // Squeeze and excitation: x times a gate per channel computed from the means, squeezed to `channels`.
  Value squeeze_excite(const std::string& name, const Value& x, size_t channels);
  Value concat(const std::string& name, const Vector<Value>& parts);
  Value channels(const std::string& name, const Value& x, size_t begin, size_t end);
  // Channel i of group g becomes channel g of group i.
  Value shuffle(const std::string& name, const Value& x, size_t groups);
  // Row-major over N,(H*W*C/columns),columns; columns 0: N,(H*W*C).
  int flatten(const std::string& name, const Value& x, size_t columns = 0);

  int join(const std::string& name, const Vector<int>& tensors, int axis);
  int softmax(const std::string& name, int tensor, int axis);
  void output(const std::string& name, int tensor);

  Graph finish() { return std::move(graph_); }

 private:
  struct Filters {
    int weights, bias;
  };
  // `count` filters of shape `filter`. The squares of each one's weights sum to `square`, and so does the square of
  // their sum, as it would on average: inputs share a mean, and this takes its effect out of the play of chance.
  Filters filters(const std::string& name, size_t count, const Vector<size_t>& filter, double square, double bias);
  Value convolve(const std::string& name, const Value& x, const ConvShape& shape, size_t groups);
  Value activated(const std::string& name, Value value, Activation act);
  Value node(const std::string& name, OpKind kind, const Vector<int>& inputs, const Attributes& attributes,
             const Value& like);

  Graph graph_;
  uint64_t seed_;
  uint64_t drawn_ = 0;  // tensors drawn so far: each has a generator of its own
};

}  // namespace quern::zoo
