#include "convert/onnx/open_sizes.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace quern::onnx {

bool is_open(const schema::TensorShapeProto& shape, size_t d) {
  const auto& dim = shape.dim(static_cast<int>(d));
  const bool is_batch = d == 0 && shape.dim_size() > 1;
  return !dim.has_dim_value() || dim.dim_value() < 0 || (is_batch && dim.dim_value() == 0);
}

std::string key_of(const schema::ValueInfoProto& input, int dimension) {
  const std::string& name = input.type().tensor_type().shape().dim(dimension).dim_param();
  return name.empty() ? input.name() + ":" + std::to_string(dimension) : name;
}

namespace {

// Sizes that an open dimension may be imported with. Sessions change it, so the first one with which the model makes sense
// will do: images and signals may have to be large enough for what windows are moved over them, or have equal parts.
constexpr size_t sizes_to_try[] = {1, 24, 64, 224, 512, 1024};
constexpr size_t most_attempts = 60;

// The open dimensions apart from batches, which are 1.
std::vector<std::string> open_dimensions(const schema::GraphProto& graph) {
  std::set<std::string> batches, constants;
  std::vector<std::string> open;
  for (const schema::TensorProto& tensor : graph.initializer()) constants.insert(tensor.name());
  for (const schema::SparseTensorProto& sparse : graph.sparse_initializer()) constants.insert(sparse.values().name());
  for (const schema::ValueInfoProto& input : graph.input()) {
    if (input.type().tensor_type().shape().dim_size() > 0) batches.insert(key_of(input, 0));
  }
  for (const schema::ValueInfoProto& input : graph.input()) {
    for (int d = 0; d < input.type().tensor_type().shape().dim_size(); ++d) {
      const std::string key = key_of(input, d);
      const bool known =
          !is_open(input.type().tensor_type().shape(), static_cast<size_t>(d)) || constants.count(input.name()) != 0;
      if (!known && batches.count(key) == 0 && std::find(open.begin(), open.end(), key) == open.end())
        open.push_back(key);
    }
  }
  return open;
}

}  // namespace

std::vector<OpenSizes> example_sizes(const schema::GraphProto& graph) {
  const std::vector<std::string> dimensions = open_dimensions(graph);
  std::vector<std::vector<size_t>> lists = {std::vector<size_t>(dimensions.size(), 0)};
  std::set<std::vector<size_t>> seen(lists.begin(), lists.end());
  std::vector<OpenSizes> attempts;
  for (size_t i = 0; i < lists.size() && attempts.size() < most_attempts; ++i) {
    OpenSizes& sizes = attempts.emplace_back();
    for (size_t d = 0; d < dimensions.size(); ++d) {
      sizes[dimensions[d]] = sizes_to_try[lists[i][d]];
      std::vector<size_t> next = lists[i];
      if (++next[d] < std::size(sizes_to_try) && seen.insert(next).second) lists.push_back(std::move(next));
    }
  }
  return attempts;
}

}  // namespace quern::onnx
