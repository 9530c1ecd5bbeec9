// Normalizations: tensors are divided into parts, each of which is shifted and scaled by its own statistics.
#include <algorithm>
#include <cmath>
#include <vector>

#include "extra/library.h"

namespace quern::extra {
namespace normalization {
namespace {

void expect_floats(const Node& node) {
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (node.has(i)) node.expect(i, QN_F32);
  }
}

// A tensor N, C, ...
struct Image {
  size_t batch, channels, pixels;
};
Image image_of(const Node& node) {
  const Shape shape = node.shape(0);
  if (shape.size() < 2) node.fail("an input of rank " + std::to_string(shape.size()));
  return {shape[0], shape[1], count(shape.part(2, shape.size()))};
}

// The sum of term(x) for n elements, as several sums that do not wait for each other.
template <class Term>
double sum_of(const float* x, size_t n, const Term& term) {
  constexpr size_t lanes = 8;
  double sums[lanes] = {}, total = 0;
  for (; n >= lanes; n -= lanes, x += lanes) {
    for (size_t i = 0; i < lanes; ++i) sums[i] += term(static_cast<double>(x[i]));
  }
  for (size_t i = 0; i < n; ++i) sums[i] += term(static_cast<double>(x[i]));
  for (const double sum : sums) total += sum;
  return total;
}

struct Statistics {
  float mean, deviation;  // the square root of the variance and epsilon
};
Statistics statistics_of(const float* x, size_t n, float epsilon) {
  const double mean = sum_of(x, n, [](double v) { return v; }) / static_cast<double>(n);
  const double squares = sum_of(x, n, [=](double v) { return (v - mean) * (v - mean); });
  return {static_cast<float>(mean), static_cast<float>(std::sqrt(squares / static_cast<double>(n) + epsilon))};
}

// ---- batch_norm: inputs are x, scale, bias, mean, variance

void infer_batch(Inference& node) {
  expect_floats(node);
  const size_t channels = node.rank(0) < 2 ? 1 : node.shape(0)[1];
  for (size_t i = 1; i < 5; ++i) node.expect_shape(i, {channels});
  node.set(0, QN_F32, node.shape(0));
}

void run_batch(const Run& node) {
  const bool has_channels = node.rank(0) >= 2;
  const Image image = has_channels ? image_of(node) : Image{1, 1, count(node.shape(0))};
  const float epsilon = node.number("epsilon", 1e-5f);
  const float *const scale = node.data<float>(1), *const bias = node.data<float>(2);
  const float *const mean = node.data<float>(3), *const variance = node.data<float>(4);
  for (size_t i = 0; i < image.batch * image.channels; ++i) {
    look(image.pixels);
    const size_t c = i % image.channels;
    const float factor = scale[c] / std::sqrt(variance[c] + epsilon);
    const float* const x = node.data<float>(0) + i * image.pixels;
    float* const y = node.output<float>(0) + i * image.pixels;
    for (size_t p = 0; p < image.pixels; ++p) y[p] = (x[p] - mean[c]) * factor + bias[c];
  }
}

// ---- group_norm: inputs are x, and scale and bias for each channel or for each group

// Groups of channels; without the parameter each channel is one.
size_t groups_of(const Node& node, size_t channels) {
  const int64_t groups = node.integer("groups", static_cast<int64_t>(channels));
  if (channels == 0) return 1;
  if (groups < 1 || static_cast<uint64_t>(groups) > channels || channels % static_cast<size_t>(groups) != 0) {
    node.fail(std::to_string(groups) + " groups of " + std::to_string(channels) + " channels");
  }
  return static_cast<size_t>(groups);
}

void infer_group(Inference& node) {
  expect_floats(node);
  const size_t channels = image_of(node).channels, groups = groups_of(node, channels);
  const size_t parameters = node.integer("scale_groups", 0) != 0 ? groups : channels;
  node.expect_shape(1, {parameters});
  node.expect_shape(2, {parameters});
  node.set(0, QN_F32, node.shape(0));
}

void run_group(const Run& node) {
  const Image image = image_of(node);
  const size_t groups = groups_of(node, image.channels), in_group = image.channels / groups;
  const bool by_group = node.integer("scale_groups", 0) != 0;
  const float epsilon = node.number("epsilon", 1e-5f);
  const float *const scale = node.data<float>(1), *const bias = node.data<float>(2);
  for (size_t part = 0; part < image.batch * groups; ++part) {
    const float* const x = node.data<float>(0) + part * in_group * image.pixels;
    float* const y = node.output<float>(0) + part * in_group * image.pixels;
    const Statistics s = statistics_of(x, in_group * image.pixels, epsilon);
    look(3 * in_group * image.pixels);
    for (size_t i = 0; i < in_group; ++i) {
      const size_t c = by_group ? part % groups : part % groups * in_group + i;
      for (size_t p = i * image.pixels; p < (i + 1) * image.pixels; ++p) {
        y[p] = scale[c] * ((x[p] - s.mean) / s.deviation) + bias[c];
      }
    }
  }
}

// ---- layer_norm, rms_norm: over the dimensions from an axis on; inputs are x, scale, bias

struct Rows {
  size_t count, length;
  Shape outer;  // the shape with 1 for what is normalized
};
Rows rows_of(const Node& node) {
  const size_t axis = node.axis(node.integer("axis", -1), node.rank(0));
  Rows rows = {1, 1, node.shape(0)};
  for (size_t d = 0; d < rows.outer.size(); ++d) {
    if (d < axis) {
      rows.count *= rows.outer[d];
    } else {
      rows.length *= rows.outer[d];
      rows.outer[d] = 1;
    }
  }
  return rows;
}

void infer_layer(Inference& node) {
  expect_floats(node);
  const Rows rows = rows_of(node);
  for (size_t i = 1; i < node.input_count(); ++i) {
    if (node.has(i) && !(node.broadcast(node.shape(0), node.shape(i)) == node.shape(0))) {
      node.fail("input " + std::to_string(i) + " does not broadcast to what is normalized");
    }
  }
  node.set(0, QN_F32, node.shape(0));
  node.set(1, QN_F32, rows.outer);
  node.set(2, QN_F32, rows.outer);
}

// Whether input 1, and input 2 if the node has it, are the same for each row.
bool repeat_with_rows(const Node& node, const Rows& rows) {
  const Shape shape = node.shape(0), scale = node.shape(1);
  return count(scale) != 0 && rows.length % count(scale) == 0 &&
         scale == shape.part(shape.size() - scale.size(), shape.size()) && (!node.has(2) || scale == node.shape(2));
}

// Multiplies y by input 1, and adds input 2, if the node has it.
void scale_and_shift(const Run& node) {
  const Shape shape = node.shape(0);
  const bool has_bias = node.has(2);
  const float *const scale = node.data<float>(1), *const bias = has_bias ? node.data<float>(2) : nullptr;
  float* const y = node.output<float>(0);
  const Shape strides[] = {broadcast_strides(node.shape(1), shape),
                           has_bias ? broadcast_strides(node.shape(2), shape) : Shape(shape.size(), 0)};
  walk(shape, strides, [&](size_t i, const size_t* at) { y[i] = y[i] * scale[at[0]] + (has_bias ? bias[at[1]] : 0); });
}

// How a row is normalized: y = (x - shift) * factor.
struct Normal {
  float shift, factor;
};

// y = (x - shift) * factor * scale + bias
void normalize_row(const float* x, size_t n, const Normal& normal, const float* scale, const float* bias, float* y) {
  const auto [shift, factor] = normal;
  if (bias == nullptr) {
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * factor * scale[i];
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - shift) * factor * scale[i] + bias[i];
  }
}

// Normalizes each row as find(x, n) says.
template <class Find>
void run_rows(const Run& node, const Find& find) {
  const Rows rows = rows_of(node);
  const bool repeat = repeat_with_rows(node, rows);
  const size_t part = repeat ? count(node.shape(1)) : 0, in_task = 16384 / std::clamp<size_t>(rows.length, 1, 16384);
  const float* const bias = node.has(2) ? node.data<float>(2) : nullptr;
  const auto run_row = [&](size_t r) {
    const float* const x = node.data<float>(0) + r * rows.length;
    float* const y = node.output<float>(0) + r * rows.length;
    const Normal normal = find(x, rows.length);
    for (size_t i = 0; repeat && i < rows.length; i += part) {
      normalize_row(x + i, part, normal, node.data<float>(1), bias, y + i);
    }
    for (size_t i = 0; !repeat && i < rows.length; ++i) y[i] = (x[i] - normal.shift) * normal.factor;
    if (node.wants(1)) node.output<float>(1)[r] = normal.shift;
    if (node.wants(2)) node.output<float>(2)[r] = normal.factor;
  };
  in_parallel(node.parallel(), (rows.count + in_task - 1) / in_task, [&](size_t task) {
    const size_t end = std::min(rows.count, (task + 1) * in_task);
    for (size_t r = task * in_task; r < end; ++r) run_row(r);
  });
  if (!repeat) scale_and_shift(node);
}

void run_layer(const Run& node) {
  const float epsilon = node.number("epsilon", 1e-5f);
  run_rows(node, [=](const float* x, size_t n) {
    const Statistics s = statistics_of(x, n, epsilon);
    return Normal{s.mean, 1 / s.deviation};
  });
}

void run_rms(const Run& node) {
  const float epsilon = node.number("epsilon", 1e-5f);
  run_rows(node, [=](const float* x, size_t n) {
    const double mean = sum_of(x, n, [](double v) { return v * v; }) / static_cast<double>(n);
    return Normal{0, static_cast<float>(1 / std::sqrt(mean + epsilon))};
  });
}

// ---- mean_variance_norm: over any axes

Shape axes_of(const Node& node) {
  Shape axes;
  for (const int64_t value : node.integers("axes")) {
    const size_t axis = node.axis(value, node.rank(0));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) node.fail("an axis is given twice");
    axes.push_back(axis);
  }
  return axes;
}

void infer_mean_variance(Inference& node) {
  node.expect(0, QN_F32);
  axes_of(node);
  node.set(0, QN_F32, node.shape(0));
}

// ONNX adds its epsilon to the deviation, not to the variance.
void run_mean_variance(const Run& node) {
  const Shape shape = node.shape(0), strides = strides_of(shape), axes = axes_of(node);
  Shape outer = shape, inner, inner_strides;
  for (const size_t axis : axes) {
    outer[axis] = 1;
    inner.push_back(shape[axis]);
    inner_strides.push_back(strides[axis]);
  }
  const float* const x = node.data<float>(0);
  float* const y = node.output<float>(0);
  std::vector<float> part(count(inner));
  walk(outer, {strides}, [&](size_t, const size_t* at) {
    const size_t first = at[0];
    walk(inner, {inner_strides}, [&](size_t i, const size_t* more) { part[i] = x[first + more[0]]; });
    const Statistics s = statistics_of(part.data(), part.size(), 0);
    walk(inner, {inner_strides},
         [&](size_t i, const size_t* more) { y[first + more[0]] = (part[i] - s.mean) / (s.deviation + 1e-9f); });
  });
}

// ---- norms: of order p, along one axis or over the pixels of an image

double norm(const float* x, size_t n, size_t stride, int64_t p) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const double value = std::fabs(static_cast<double>(x[i * stride]));
    sum += p == 1 ? value : p == 2 ? value * value : std::pow(value, static_cast<double>(p));
  }
  return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / static_cast<double>(p));
}

int64_t order_of(const Node& node) {
  const int64_t p = node.integer("p", 2);
  if (p < 1) node.fail("a norm of order " + std::to_string(p));
  return p;
}

void infer_lp(Inference& node) {
  node.expect(0, QN_F32);
  order_of(node);
  node.axis(node.integer("axis", -1), node.rank(0));
  node.set(0, QN_F32, node.shape(0));
}

// A line of zeros becomes one of NaNs, as in ONNX.
void run_lp(const Run& node) {
  const Shape shape = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", -1), shape.size());
  const size_t n = shape[axis], stride = count(shape.part(axis + 1, shape.size())), total = count(shape);
  Pace pace;
  for (size_t i = 0; i < total; ++i) {
    pace.did(8);
    if (i / stride % n != 0) continue;  // not the first element of its line
    pace.did(16 * n);
    const double length = norm(node.data<float>(0) + i, n, stride, order_of(node));
    for (size_t k = i; k < i + n * stride; k += stride) {
      node.output<float>(0)[k] = length == 0 ? 0 : static_cast<float>(node.data<float>(0)[k] / length);
    }
  }
}

void infer_global_lp(Inference& node) {
  node.expect(0, QN_F32);
  order_of(node);
  const Image image = image_of(node);
  Shape shape(node.rank(0), 1);
  shape[0] = image.batch;
  shape[1] = image.channels;
  node.set(0, QN_F32, shape);
}

void run_global_lp(const Run& node) {
  const Image image = image_of(node);
  for (size_t i = 0; i < image.batch * image.channels; ++i) {
    look(16 * image.pixels);
    const float* const x = node.data<float>(0) + i * image.pixels;
    node.output<float>(0)[i] = static_cast<float>(norm(x, image.pixels, 1, order_of(node)));
  }
}

constexpr qn_kind kinds[] = {
    kind<infer_batch, unless_empty<run_batch>>("batch_norm_computed", {5, 5}, 1, QN_KIND_IN_PLACE),
    kind<infer_group, unless_empty<run_group>>("group_norm", {3, 3}, 1, QN_KIND_IN_PLACE),
    kind<infer_layer, unless_empty<run_layer>>("layer_norm", {2, 3}, 3),
    kind<infer_layer, unless_empty<run_rms>>("rms_norm", {2, 2}, 1),
    kind<infer_mean_variance, unless_empty<run_mean_variance>>("mean_variance_norm", {1, 1}, 1, QN_KIND_IN_PLACE),
    kind<infer_lp, unless_empty<run_lp>>("lp_norm", {1, 1}, 1),
    kind<infer_global_lp, unless_empty<run_global_lp>>("global_lp_pool", {1, 1}, 1),
};

}  // namespace
}  // namespace normalization

Kinds normalization_kinds() { return needed<normalization::kinds>(); }

}  // namespace quern::extra
