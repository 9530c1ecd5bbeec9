// Random networks of images in which channels pass every operator that keeps them apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "graph/small_graphs.h"

namespace quern::compress_test {

using test::axis;
using test::power;
using test::range;
using test::values;
using test::window;

// A network of images with branches, then of vectors.
class RandomNetwork {
 public:
  explicit RandomNetwork(unsigned seed) : b_(seed), random_(seed) {}

  Graph make() {
    const int x = b_.input("x", {1 + below(2), 5 + below(4), 5 + below(4), 1 + below(4)});
    images_.push_back(conv(x, 4 + 2 * below(4)));
    for (size_t i = 0, count = 4 + below(12); i < count; ++i) images_.push_back(grow(any()));
    if (below(3) == 0) b_.output(done(OpKind::clamp, {any()}, range(-1, 1)), "side");
    int y = images_.back();
    for (size_t i = 0; i < 2 && images_.size() > 1 && below(2) != 0; ++i) y = joined(y, any());
    b_.output(vectors(flat(y)), "y");
    return b_.done();
  }

 private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  int any() { return images_[images_.size() - 1 - below(std::min<size_t>(images_.size(), 3))]; }
  const test::Shape& shape(int tensor) { return b_.graph.tensors[at(tensor)].shape; }
  size_t channels(int tensor) { return shape(tensor).back(); }
  int64_t size(int tensor, size_t d) { return static_cast<int64_t>(shape(tensor)[d]); }

  // Adds a node and infers its shape.
  int done(OpKind kind, Vector<int> inputs, Attributes attributes = {}) {
    const int output = b_.node(kind, std::move(inputs), std::move(attributes));
    const Node node = b_.graph.nodes.back();
    EXPECT_EQ(infer_node(b_.graph, node), QN_OK) << qn_last_message();
    return output;
  }

  int weights(test::Shape shape) {
    const float size = 2 / std::sqrt(static_cast<float>(shape.back() * (shape.size() == 4 ? shape[1] * shape[2] : 1)));
    return b_.constant(std::move(shape), -size, size);
  }
  int layer(OpKind kind, int x, test::Shape weights_shape, Attributes a) {
    Vector<int> inputs = {x, weights(weights_shape)};
    if (below(3) != 0) inputs.push_back(b_.constant({weights_shape[0]}));
    if (below(4) == 0) a.min = 0, a.max = below(2) != 0 ? 6 : infinity;
    if (below(40) == 0) a.min = 0.125f;  // zeros do not stay zero
    return done(kind, std::move(inputs), a);
  }
  int conv(int x, size_t outputs, size_t groups = 1) {
    const size_t k = below(2) != 0 ? 3 : 1;
    Attributes a = window(1, 1, k / 2);
    a.groups = groups;
    if (shape(x)[1] > 3 && shape(x)[2] > 3 && below(6) == 0) a.stride = {2, 2};
    return layer(OpKind::conv2d, x, {outputs, k, k, channels(x) / groups}, a);
  }
  int depthwise(int x) { return conv(x, channels(x) * (1 + below(5) / 4), channels(x)); }
  int grouped(int x) { return channels(x) % 2 == 0 ? conv(x, 2 * (2 + below(4)), 2) : depthwise(x); }

  // A tensor of the shape of `x`: another one of this shape, or a new branch from one with its pixels.
  int like(int x) {
    for (size_t i = 0; i < images_.size(); ++i) {
      const int other = images_[(i + below(images_.size())) % images_.size()];
      if (other != x && shape(other) == shape(x)) return other;
    }
    Attributes a;
    return layer(OpKind::conv2d, x, {channels(x), 1, 1, channels(x)}, a);
  }
  // Brings `other` to the pixels of `x`, then puts both side by side.
  int joined(int x, int other) {
    return done(OpKind::concat,
                {x, shape(other)[1] == shape(x)[1] && shape(other)[2] == shape(x)[2] ? other : resize(other, x)},
                axis(3));
  }
  int resize(int x, int like) {
    Attributes a = values({size(like, 1), size(like, 2)});
    a.mode = below(2) != 0 ? QN_RESIZE_BILINEAR : QN_RESIZE_NEAREST;
    return done(OpKind::resize, {x}, a);
  }
  int pool(int x) {
    Attributes a = window(2 + below(2), 1 + below(2), below(2));
    a.count_padding = below(2) != 0;
    return done(below(2) != 0 ? OpKind::max_pool : OpKind::average_pool, {x}, a);
  }
  int global_pool(int x) { return done(below(2) != 0 ? OpKind::global_max_pool : OpKind::global_average_pool, {x}); }

  int activation(int x) {
    switch (below(9)) {
      case 0: return done(OpKind::clamp, {x}, range(0, below(2) != 0 ? 6 : infinity));
      case 1: return done(OpKind::hard_swish, {x});
      case 2: return done(OpKind::tanh, {x});
      case 3: return done(OpKind::prelu, {x, b_.constant({channels(x)})});
      case 4: return done(OpKind::scale, {x, b_.constant({channels(x)}), b_.constant({channels(x)})});
      case 5: return done(OpKind::power, {x}, power(below(2) != 0 ? 0.5f : -1, 0, 2));
      case 6: return done(OpKind::mul, {x, gate(x)});
      case 7: return done(OpKind::div, {x, b_.constant_of({1}, {1.5f})});
      default: return below(4) != 0 ? done(OpKind::clamp, {x}, range(-2, 2)) : unusual(x);
    }
  }
  // What does not stay zero, until it is multiplied by what does.
  int gate(int x) {
    const int y = done(below(2) != 0 ? OpKind::add : OpKind::sub, {x, b_.constant_of({1}, {0.5f})});
    switch (below(3)) {
      case 0: return done(OpKind::sigmoid, {y});
      case 1: return done(OpKind::exp, {done(OpKind::clamp, {y}, range(-2, 1))});
      default: return done(OpKind::clamp, {y}, range(0, 1));
    }
  }
  // Channels end here.
  int unusual(int x) {
    Attributes lrn = power(0.1f, 0.75f, 1);
    lrn.size = 3;
    switch (below(3)) {
      case 0: return done(OpKind::softmax, {x}, axis(3));
      case 1: return done(OpKind::lrn, {x}, lrn);
      default: return done(OpKind::sigmoid, {x});
    }
  }

  int excite(int x) {
    int s = conv(global_pool(x), 2 + below(3));
    s = conv(done(OpKind::clamp, {s}, range(0, infinity)), channels(x));
    return done(OpKind::mul, {x, done(OpKind::sigmoid, {s})});
  }
  int spatial(int x) {
    const int map = done(OpKind::sigmoid, {layer(OpKind::conv2d, x, {1, 1, 1, channels(x)}, {})});
    return done(below(2) != 0 ? OpKind::mul : OpKind::div, {x, map});
  }
  int sum(int x) {
    const OpKind kinds[] = {OpKind::add, OpKind::add, OpKind::sub, OpKind::mul};
    return done(kinds[below(4)], {x, like(x)}, below(2) != 0 ? Attributes() : range(0, infinity));
  }
  int with_constant(int x) {
    const test::Shape shapes[] = {{channels(x)}, {1, 1, 1, channels(x)}, {shape(x)[1], 1, channels(x)}};
    return done(below(2) != 0 ? OpKind::add : OpKind::mul, {x, b_.constant(shapes[below(3)])});
  }

  int shuffle(int x) {
    const size_t groups = channels(x) % 3 == 0 ? 3 : 2;
    if (channels(x) % groups != 0) return activation(x);
    const auto g = static_cast<int64_t>(groups), c = size(x, 3) / g;
    const int64_t n = size(x, 0), h = size(x, 1), w = size(x, 2);
    const int apart = done(OpKind::reshape, {x},
                           values(below(2) != 0 ? Vector<int64_t>{n, h, w, g, c} : Vector<int64_t>{0, 0, 0, g, -1}));
    const int turned = done(OpKind::transpose, {apart}, values({0, 1, 2, 4, 3}));
    return done(OpKind::reshape, {turned},
                values(below(2) != 0 ? Vector<int64_t>{n, h, w, g * c} : Vector<int64_t>{0, 0, 0, -1}));
  }
  int slice(int x, int64_t from, int64_t to) {
    return done(OpKind::slice, {x}, values({0, 0, 0, from, -1, -1, -1, to}));
  }
  // Halves by themselves, one of them changed, and together again.
  int split(int x) {
    if (channels(x) < 4) return activation(x);
    const int64_t middle = 1 + static_cast<int64_t>(below(channels(x) - 1));
    const int left = slice(x, 0, middle), right = slice(x, middle, below(2) != 0 ? -1 : size(x, 3));
    const int changed = activation(below(2) != 0 ? conv(left, 2 + below(4)) : left);
    if (shape(changed)[1] != shape(right)[1] || shape(changed)[2] != shape(right)[2]) return right;
    return done(OpKind::concat, {changed, right}, axis(3));
  }
  int pad(int x) {
    Attributes a = values({0, 1, 0, 0, 0, 0, 1, 0});
    if (below(4) == 0) a.values[7] = 2;  // channels of zeros
    if (below(8) == 0) a.alpha = 0.5f;
    return done(OpKind::pad, {x}, a);
  }
  // Through the other layout.
  int turned(int x) {
    int y = done(OpKind::transpose, {x}, values({0, 3, 1, 2}));
    y = done(OpKind::mul, {y, done(OpKind::sigmoid, {y})});
    if (below(2) != 0) y = done(OpKind::add, {y, b_.constant({channels(x), 1, 1})});
    if (below(2) != 0) y = done(OpKind::concat, {y, y}, axis(2));
    return done(OpKind::transpose, {y}, values({0, 2, 3, 1}));
  }
  int rows(int x) { return layer(OpKind::fully_connected, x, {2 + below(6), channels(x)}, {}); }

  int grow(int x) {
    switch (below(18)) {
      case 0:
      case 1: return conv(x, 3 + below(8));
      case 2: return depthwise(x);
      case 3: return grouped(x);
      case 4: return shape(x)[1] > 2 && shape(x)[2] > 2 ? pool(x) : activation(x);
      case 5:
      case 6:
      case 7: return activation(x);
      case 8:
      case 9: return sum(x);
      case 10: return excite(x);
      case 11: return spatial(x);
      case 12: return with_constant(x);
      case 13: return shuffle(x);
      case 14: return split(x);
      case 15: return pad(x);
      case 16: return turned(x);
      default: return below(2) != 0 ? rows(x) : channels(x) < 20 ? joined(x, any()) : conv(x, 4);
    }
  }

  int flat(int x) {
    if (below(3) == 0) x = global_pool(x);
    if (below(4) == 0) x = done(OpKind::transpose, {x}, values({0, 3, 1, 2}));  // NCHW, as exporters flatten
    const int64_t n = size(x, 0), rest = size(x, 1) * size(x, 2) * size(x, 3);
    return done(OpKind::reshape, {x}, below(2) != 0 ? values({0, -1}) : values({n, rest}));
  }
  int vectors(int x) {
    for (size_t i = 0, count = 1 + below(2); i < count; ++i) {
      x = layer(OpKind::fully_connected, x, {3 + below(6), channels(x)}, {});
      if (below(2) != 0) x = done(OpKind::clamp, {x}, range(0, infinity));
    }
    return layer(OpKind::fully_connected, x, {5, channels(x)}, {});
  }

  test::GraphBuilder b_;
  std::mt19937 random_;
  std::vector<int> images_;
};

}  // namespace quern::compress_test
