#include "convert/zoo/builder.h"

#include <cmath>
#include <utility>

#include "convert/common/error.h"

namespace quern::zoo {
namespace {

// What an activation function does to normally distributed values with mean 0 and mean square `before`: its results
// have this mean and this mean square (`square`), and lie in [min, max].
struct Moments {
  double before, mean, square;
  float min, max;
};
constexpr float inf = std::numeric_limits<float>::infinity();

Moments moments(Activation act, double wanted) {
  switch (act) {
    case Activation::none: return {wanted, 0, wanted, -inf, inf};
    case Activation::relu: return {2, 0.56418958, 1, 0, inf};
    case Activation::relu6: return {2, 0.56418958, 1, 0, 6};  // 6 is more than four standard deviations away
    case Activation::hard_swish: return {4, 0.58, 1.65, -inf, inf};
  }
  return {};
}

// Returns how many of the `kernel` taps along one axis fall inside the image, as a mean over the outputs.
double taps_inside(size_t size, size_t out, size_t kernel, size_t stride, size_t padding) {
  size_t inside = 0;
  for (size_t i = 0; i < out; ++i)
    for (size_t k = 0; k < kernel; ++k) inside += i * stride + k >= padding && i * stride + k < size + padding;
  return static_cast<double>(inside) / static_cast<double>(out);
}

String text(const std::string& name) { return String(name); }

}  // namespace

Builder::Builder(const std::string& name, uint64_t seed) : seed_(seed) {
  graph_.source = "zoo";
  graph_.name = text(name);
}

Value Builder::input(size_t side) {
  const int user = add_tensor(graph_, "input", QN_F32, {1, 3, side, side});
  Port port;
  port.tensor = user;
  // The usual mean and scale for photographs, which give variance one.
  port.preprocessing = {0, 1, 0, {123.675f, 116.28f, 103.53f, 0}, {0.01712475f, 0.017507f, 0.01742919f, 1}, 0, {0, 0}};
  graph_.inputs.push_back(port);
  Attributes attributes;
  attributes.values = {0, 2, 3, 1};
  return {add_node(graph_, OpKind::transpose, "input/nhwc", {user}, attributes), side, side, 3, 0, 1};
}

Value Builder::node(const std::string& name, OpKind kind, const Vector<int>& inputs, const Attributes& attributes,
                    const Value& like) {
  Value value = like;
  value.tensor = add_node(graph_, kind, text(name), inputs, attributes);
  return value;
}

Builder::Filters Builder::filters(const std::string& name, size_t count, const Vector<size_t>& filter, double square,
                                  double bias) {
  Random random(seed_ * 0x2545f4914f6cdd1du + ++drawn_);
  size_t length = 1;
  Vector<size_t> shape = {count};
  for (const size_t n : filter) {
    length *= n;
    shape.push_back(n);
  }
  Vector<float> weights(count * length);
  const double n = static_cast<double>(length);
  Vector<int> drawn(length);
  for (size_t f = 0; f < count; ++f) {
    double sum = 0, squares = 0;
    for (int& w : drawn) {
      w = random.bell();
      sum += w;
      squares += static_cast<double>(w) * w;
    }
    const double mean = sum / n, rest = squares - sum * mean;
    const double sign = sum < 0 ? -1 : 1;
    const double shift = sign * std::sqrt(square) / n;
    const double factor = rest > 0 ? std::sqrt(square * (1 - 1 / n) / rest) : 0;
    for (size_t i = 0; i < length; ++i)
      weights[f * length + i] = static_cast<float>((drawn[i] - mean) * factor + shift);
  }
  Vector<float> biases(count);
  for (float& b : biases) b = random.even() * static_cast<float>(bias);
  return {add_constant(graph_, text(name + ".weight"), QN_F32, shape, weights.data()),
          add_constant(graph_, text(name + ".bias"), QN_F32, {count}, biases.data())};
}

Value Builder::activated(const std::string& name, Value value, Activation act) {
  if (act == Activation::hard_swish)
    value.tensor = add_node(graph_, OpKind::hard_swish, text(name + "/hard_swish"), {value.tensor}, {});
  return value;
}

Value Builder::convolve(const std::string& name, const Value& x, const ConvShape& shape, size_t groups) {
  const size_t padding = shape.padding == SIZE_MAX ? (shape.kernel - 1) / 2 : shape.padding;
  Attributes attributes;
  attributes.kernel = {shape.kernel, shape.kernel};
  attributes.stride = {shape.stride, shape.stride};
  attributes.padding = {padding, padding, padding, padding};
  attributes.groups = groups;
  const size_t out_h = (x.h + 2 * padding - shape.kernel) / shape.stride + 1;
  const size_t out_w = (x.w + 2 * padding - shape.kernel) / shape.stride + 1;
  const double inside = taps_inside(x.h, out_h, shape.kernel, shape.stride, padding) *
                        taps_inside(x.w, out_w, shape.kernel, shape.stride, padding) /
                        static_cast<double>(shape.kernel * shape.kernel);
  const Moments m = moments(shape.act, shape.square);
  attributes.min = m.min;
  attributes.max = m.max;
  const Filters f =
      filters(name, shape.out, {shape.kernel, shape.kernel, x.c / groups}, m.before / (x.square * inside), 0.1);
  const Value like = {no_tensor, out_h, out_w, shape.out, m.mean, m.square};
  return activated(name, node(name, OpKind::conv2d, {x.tensor, f.weights, f.bias}, attributes, like), shape.act);
}

Value Builder::conv(const std::string& name, const Value& x, const ConvShape& shape) {
  return convolve(name, x, shape, 1);
}

Value Builder::depthwise(const std::string& name, const Value& x, size_t kernel, size_t stride, Activation act) {
  return convolve(name, x, {x.c, kernel, stride, act}, x.c);
}

Value Builder::fully_connected(const std::string& name, const Value& x, size_t out, Activation act) {
  const size_t length = x.h * x.w * x.c;
  const int in = x.flat ? x.tensor : flatten(name + "/flat", x);
  const Moments m = moments(act, 1);
  Attributes attributes;
  attributes.min = m.min;
  attributes.max = m.max;
  const Filters f = filters(name, out, {length}, m.before / x.square, 0.1);
  const Value like = {no_tensor, 1, 1, out, m.mean, m.square, true};
  return activated(name, node(name, OpKind::fully_connected, {in, f.weights, f.bias}, attributes, like), act);
}

Value Builder::max_pool(const std::string& name, const Value& x, size_t kernel, size_t stride, size_t padding,
                        double growth, bool ceil_mode) {
  Attributes attributes;
  attributes.kernel = {kernel, kernel};
  attributes.stride = {stride, stride};
  attributes.padding = {padding, padding, padding, padding};
  attributes.ceil_mode = ceil_mode;
  const size_t up = ceil_mode ? stride - 1 : 0;
  const Value like = {no_tensor,
                      (x.h + 2 * padding - kernel + up) / stride + 1,
                      (x.w + 2 * padding - kernel + up) / stride + 1,
                      x.c,
                      x.mean * std::sqrt(growth),
                      x.square * growth};
  return node(name, OpKind::max_pool, {x.tensor}, attributes, like);
}

Value Builder::global_average(const std::string& name, const Value& x) {
  // If all pixels were independent, this would be the square of the mean; if they were equal, the mean square. The
  // estimate is in the middle.
  const double square = (x.mean * x.mean + x.square) / 2;
  return node(name, OpKind::global_average_pool, {x.tensor}, {}, {no_tensor, 1, 1, x.c, x.mean, square});
}

Value Builder::add(const std::string& name, const Value& a, const Value& b, Activation act) {
  Value like = a;
  like.mean = a.mean + b.mean;
  like.square = a.square + b.square + 2 * a.mean * b.mean;
  Attributes attributes;
  if (act == Activation::relu) {
    attributes.min = 0;
    if (a.mean > 0) {
      // `a` is the result of a relu and `b` is smaller. The relu removes about half of what `b` adds.
      like.square -= b.square / 2;
    } else {
      const Moments m = moments(act, 1);
      like.mean = m.mean * std::sqrt(like.square / m.before);
      like.square *= m.square / m.before;
    }
  }
  return node(name, OpKind::add, {a.tensor, b.tensor}, attributes, like);
}

Value Builder::scale_relu(const std::string& name, const Value& x) {
  Random random(seed_ * 0x2545f4914f6cdd1du + ++drawn_);
  const double factor = std::sqrt(2 / x.square);
  Vector<float> scale(x.c), bias(x.c);
  for (size_t i = 0; i < x.c; ++i) {
    scale[i] = static_cast<float>(factor * (1 + 0.25 * random.even()));
    bias[i] = static_cast<float>(-factor * x.mean) + 0.1f * random.even();
  }
  const int inputs[] = {x.tensor, add_constant(graph_, text(name + ".scale"), QN_F32, {x.c}, scale.data()),
                        add_constant(graph_, text(name + ".bias"), QN_F32, {x.c}, bias.data())};
  Attributes attributes;
  attributes.min = 0;
  const Moments m = moments(Activation::relu, 1);
  Value like = x;
  like.mean = m.mean;
  like.square = m.square;
  return node(name, OpKind::scale, {inputs[0], inputs[1], inputs[2]}, attributes, like);
}

Value Builder::squeeze_excite(const std::string& name, const Value& x, size_t channels) {
  const Value mean = global_average(name + ".mean", x);
  const Value squeezed = conv(name + ".squeeze", mean, {channels, 1, 1, Activation::relu});
  const Value excited = conv(name + ".excite", squeezed, {.out = x.c, .square = 1});
  Attributes line;  // hard sigmoid: x / 6 + 1/2, clamped to [0, 1]
  line.alpha = 1.0f / 6;
  line.beta = 0.5f;
  line.gamma = 1;
  const int raw = add_node(graph_, OpKind::power, text(name + ".line"), {excited.tensor}, line);
  Attributes clamp;
  clamp.min = 0;
  clamp.max = 1;
  const int gate = add_node(graph_, OpKind::clamp, text(name + ".gate"), {raw}, clamp);
  Value like = x;
  like.mean = x.mean / 2;
  like.square = x.square * (0.25 + 1.0 / 36);
  return node(name, OpKind::mul, {x.tensor, gate}, {}, like);
}

Value Builder::concat(const std::string& name, const Vector<Value>& parts) {
  Value like = parts[0];
  like.c = 0;
  like.mean = like.square = 0;
  Vector<int> tensors;
  for (const Value& part : parts) {
    tensors.push_back(part.tensor);
    like.c += part.c;
    like.mean += part.mean * static_cast<double>(part.c);
    like.square += part.square * static_cast<double>(part.c);
  }
  like.mean /= static_cast<double>(like.c);
  like.square /= static_cast<double>(like.c);
  like.tensor = join(name, tensors, 3);
  return like;
}

Value Builder::channels(const std::string& name, const Value& x, size_t begin, size_t end) {
  Attributes attributes;
  attributes.values = {0, 0, 0, static_cast<int64_t>(begin), -1, -1, -1, static_cast<int64_t>(end)};
  Value like = x;
  like.c = end - begin;
  return node(name, OpKind::slice, {x.tensor}, attributes, like);
}

Value Builder::shuffle(const std::string& name, const Value& x, size_t groups) {
  Attributes split, swap, merge;
  split.values = {0, 0, 0, static_cast<int64_t>(groups), static_cast<int64_t>(x.c / groups)};
  swap.values = {0, 1, 2, 4, 3};
  merge.values = {0, 0, 0, static_cast<int64_t>(x.c)};
  const int parts = add_node(graph_, OpKind::reshape, text(name + ".split"), {x.tensor}, split);
  const int swapped = add_node(graph_, OpKind::transpose, text(name + ".swap"), {parts}, swap);
  return node(name, OpKind::reshape, {swapped}, merge, x);
}

int Builder::flatten(const std::string& name, const Value& x, size_t columns) {
  Attributes attributes;
  attributes.values = {0, -1};
  if (columns != 0) attributes.values.push_back(static_cast<int64_t>(columns));
  return add_node(graph_, OpKind::reshape, text(name), {x.tensor}, attributes);
}

int Builder::join(const std::string& name, const Vector<int>& tensors, int axis) {
  Attributes attributes;
  attributes.axis = axis;
  return add_node(graph_, OpKind::concat, text(name), tensors, attributes);
}

int Builder::softmax(const std::string& name, int tensor, int axis) {
  Attributes attributes;
  attributes.axis = axis;
  return add_node(graph_, OpKind::softmax, text(name), {tensor}, attributes);
}

void Builder::output(const std::string& name, int tensor) {
  graph_.tensors[static_cast<size_t>(tensor)].name = text(name);
  Port port;
  port.tensor = tensor;
  graph_.outputs.push_back(port);
}

}  // namespace quern::zoo
