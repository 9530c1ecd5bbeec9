// split_low_rank(): singular value decomposition of the weights of layers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"
#include "compress/dot.h"
#include "compress/linear_layer.h"
#include "compress/transform.h"
#include "graph/file/encoded.h"
#include "graph/pass/affine.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

constexpr size_t least_split_weights = 4096;
constexpr size_t most_split_rows = 4096;  // or columns: a minute's work
// Two layers with more of the layer's weights than this rarely run faster: there is a tensor between them, and ranks fill no
// tile. In SqueezeNet v1.1, pointwise layers with about 0.9 of their weights took 0.9 to 1.2 times as long as before.
constexpr double most_of_weights = 0.9;
constexpr double least_error = 1e-6;  // well above that of factors in f32

RealMatrix transposed(const RealMatrix& a) {
  RealMatrix result(a.columns(), a.rows());
  for (size_t i = 0; i < a.rows(); ++i) {
    for (size_t k = 0; k < a.columns(); ++k) result.row(k)[i] = a.row(i)[k];
  }
  return result;
}

// a at
RealMatrix products_of_rows(const RealMatrix& a) {
  RealMatrix result(a.rows(), a.rows());
  for (size_t i = 0; i < a.rows(); ++i) {
    for (size_t k = 0; k <= i; ++k) result.row(i)[k] = result.row(k)[i] = dot(a.row(i), a.row(k), a.columns());
  }
  return result;
}

double squares_of(const RealMatrix& a) { return dot(a.row(0), a.row(0), a.values().size()); }

// A matrix of finite elements, not all zero, as a product of two: `left`, transposed, times `right`.
class LowRank {
 public:
  // The least rank at which the error is at most `error`. It has no factors if that is above `most_rank`.
  LowRank(const RealMatrix& matrix, double error, size_t most_rank) {
    const bool tall = matrix.rows() > matrix.columns();
    const RealMatrix wide = tall ? transposed(matrix) : matrix;
    const SymmetricEigen eigen(products_of_rows(wide));
    const double squares = squares_of(wide);
    rank_ = rank_for(eigen.values(), error * error * squares);
    if (rank_ == 0 || rank_ > most_rank) return;
    // Rows of `left_` are singular vectors, and what they make of the matrix others, times singular values. Both factors
    // take the root of these, so that they are equally large.
    left_ = eigen.vectors(rank_);
    right_ = matrix_product(left_, wide);
    for (size_t i = 0; i < rank_; ++i) scale(i, std::pow(eigen.values()[i], 0.25));
    error_ = std::sqrt(squares_of(rest_of(wide)) / squares);
    if (tall) std::swap(left_, right_);
  }

  size_t rank() const { return rank_; }
  bool has_factors() const { return left_.rows() > 0; }
  const RealMatrix& left() const { return left_; }
  const RealMatrix& right() const { return right_; }
  double error() const { return error_; }

 private:
  // Eigenvalues are the squares of singular values. Those that are left out add up to the square of the error.
  static size_t rank_for(const Vector<double>& eigenvalues, double most) {
    size_t rank = eigenvalues.size();
    for (double lost = 0; rank > 0; --rank) {
      lost += std::max(eigenvalues[rank - 1], 0.0);
      if (lost > most) break;
    }
    return rank;
  }

  // The factors are to be f32.
  void scale(size_t i, double root) {
    for (size_t k = 0; k < left_.columns(); ++k) left_.row(i)[k] = double{static_cast<float>(left_.row(i)[k] * root)};
    for (size_t k = 0; k < right_.columns(); ++k)
      right_.row(i)[k] = double{static_cast<float>(right_.row(i)[k] / root)};
  }

  RealMatrix rest_of(const RealMatrix& matrix) const {
    RealMatrix rest = matrix_product(transposed(left_), right_);
    for (size_t i = 0; i < rest.rows(); ++i) {
      for (size_t k = 0; k < rest.columns(); ++k) rest.row(i)[k] = matrix.row(i)[k] - rest.row(i)[k];
    }
    return rest;
  }

  size_t rank_ = 0;
  RealMatrix left_{0, 0}, right_{0, 0};
  double error_ = 0;
};

// Makes `layer` the second of two; returns the first.
Node split_layer(Rewriter& r, const LowRank& factors, Node& layer, const Vector<Node>& nodes) {
  const bool image = layer.kind == OpKind::conv2d;
  Shape shape = r.shape(layer.inputs[1]);
  const size_t outputs = shape[0], rank = factors.rank();
  shape[0] = rank;
  const Shape second = image ? Shape{outputs, 1, 1, rank} : Shape{outputs, rank};
  const int between = r.add_tensor(QN_F32, {});
  Node first = {layer.kind,
                layer.name,
                {layer.inputs[0], r.add_constant(std::move(shape), as_floats(factors.right()))},
                {between},
                layer.attributes};
  // Plans, too, find layers by name.
  const auto is_taken = [&](const Vector<Node>& others) {
    return std::any_of(others.begin(), others.end(), [&](const Node& other) { return other.name == first.name; });
  };
  do first.name += "_low_rank";
  while (is_taken(r.graph().nodes) || is_taken(nodes));
  first.attributes.min = -infinity;
  first.attributes.max = infinity;
  Attributes attributes;
  attributes.min = layer.attributes.min;
  attributes.max = layer.attributes.max;
  layer.attributes = std::move(attributes);
  layer.inputs[0] = between;
  layer.inputs[1] = r.add_constant(second, as_floats(transposed(factors.left())));
  return first;
}

// Appends the first part of a layer that is split.
void split_if_smaller(Rewriter& r, double error, Node& layer, Vector<Node>* nodes, Vector<Transform>* done) {
  if (!is_plain_layer(r, layer)) return;
  const std::span<const float> weights = r.floats(layer.inputs[1]);
  const size_t nonzeros = nonzeros_of(weights), outputs = r.shape(layer.inputs[1])[0];
  const size_t of_rank_1 = outputs + weights.size() / outputs;  // weights
  const bool finite = std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); });
  const bool takes_long = std::min(outputs, weights.size() / outputs) > most_split_rows;
  if (nonzeros < least_split_weights || takes_long || !finite) return;
  const auto most_rank = static_cast<size_t>(most_of_weights * static_cast<double>(nonzeros - 1)) / of_rank_1;
  const LowRank factors(matrix_of(weights, weights.size() / outputs), error, most_rank);
  if (!factors.has_factors() || factors.error() > error + least_error) return;
  const LayerCost cost = cost_of(r.graph(), layer);
  const uint64_t saved = weights.size() - factors.rank() * of_rank_1;
  done->push_back({.kind = TransformKind::split,
                   .node = layer.name,
                   .channels = factors.rank(),
                   .weights_before = cost.weights,
                   .weights_after = cost.weights - saved,
                   .macs_before = cost.macs,
                   .macs_after = cost.macs - cost.macs / weights.size() * saved,
                   .error = factors.error()});
  nodes->push_back(split_layer(r, factors, layer, *nodes));
  done->back().other = nodes->back().name;
}

}  // namespace

qn_status split_low_rank(Graph& graph, double error, Vector<Transform>* done) {
  if (!(error >= 0 && error < 1)) {
    return fail(QN_INVALID_ARGUMENT, "expected a relative error from 0 to below 1, got %g", error);
  }
  QN_TRY(make_dense(graph));
  Rewriter r(graph);
  Vector<Node> nodes;
  for (Node& node : graph.nodes) {
    split_if_smaller(r, std::max(error, least_error), node, &nodes, done);
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  compact(graph);
  QN_TRY(check_graph(graph));
  return infer_shapes(graph);
}

}  // namespace quern
