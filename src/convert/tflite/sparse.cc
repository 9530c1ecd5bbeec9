// Reads sparse constants.
#include "convert/tflite/sparse.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/math.h"
#include "convert/convert.h"

namespace quern::tflite {

namespace {

constexpr size_t most_levels = 2 * QN_MAX_RANK;

// A level of the tree. Its nodes are numbered from 0 on.
struct Level {
  size_t step = 1;  // elements of the dense array from one place to the next
  size_t size = 0;  // places
  bool sparse = false;
  std::vector<size_t> segments, indices;
};

template <class List>
std::vector<size_t> numbers_of(const List* list) {
  std::vector<size_t> numbers;
  if (list == nullptr || list->values() == nullptr) return numbers;
  for (const auto value : *list->values()) {
    if (std::cmp_less(value, 0)) throw Error("a sparse constant has a negative index");
    numbers.push_back(static_cast<size_t>(value));
  }
  return numbers;
}

std::vector<size_t> numbers_of(schema::Numbers type, const void* list) {
  switch (type) {
    case schema::Numbers::Numbers32: return numbers_of(static_cast<const schema::Numbers32*>(list));
    case schema::Numbers::Numbers16: return numbers_of(static_cast<const schema::Numbers16*>(list));
    case schema::Numbers::Numbers8: return numbers_of(static_cast<const schema::Numbers8*>(list));
    default: throw Error("a sparse constant has no indices");
  }
}

// The dimension of the tensor that each level belongs to.
std::vector<size_t> dimensions_of(const schema::Sparsity& sparsity, size_t rank) {
  const auto* const order = sparsity.order();
  const size_t blocks = sparsity.block_map() == nullptr ? 0 : sparsity.block_map()->size();
  const size_t levels = sparsity.levels() == nullptr ? 0 : sparsity.levels()->size();
  if (order == nullptr || order->size() != levels || levels != rank + blocks || levels > most_levels) {
    throw Error("a sparse constant has " + std::to_string(levels) + " levels");
  }
  std::vector<size_t> dimensions;
  for (uint32_t i = 0; i < levels; ++i) {
    const int32_t place = order->Get(i);
    if (i >= rank && place != static_cast<int32_t>(i)) throw Unsupported{"sparse blocks in another order"};
    const int32_t d = i < rank ? place : sparsity.block_map()->Get(i - static_cast<uint32_t>(rank));
    if (d < 0 || std::cmp_greater_equal(d, rank))
      throw Error("a sparse constant has no dimension " + std::to_string(d));
    const auto same = std::find(dimensions.begin(), dimensions.end(), static_cast<size_t>(d));
    if (i < rank && same != dimensions.end()) throw Error("a sparse constant has a dimension twice");
    dimensions.push_back(static_cast<size_t>(d));
  }
  return dimensions;
}

// Reads a sparse level, whose nodes are children of `parents` nodes. Checks that each has places of its own.
void read_places(const schema::Level& from, size_t parents, Level* level) {
  level->sparse = true;
  level->segments = numbers_of(from.segments_type(), from.segments());
  level->indices = numbers_of(from.indices_type(), from.indices());
  const std::vector<size_t>&segments = level->segments, &indices = level->indices;
  const bool fits = segments.size() == parents + 1 && segments.front() == 0 && segments.back() == indices.size();
  if (!fits || !std::is_sorted(segments.begin(), segments.end())) {
    throw Error("the segments of a sparse constant do not fit");
  }
  for (size_t p = 0; p < parents; ++p) {
    for (size_t i = segments[p]; i < segments[p + 1]; ++i) {
      if (indices[i] >= level->size) throw Error("an index of a sparse constant is out of range");
      if (i > segments[p] && indices[i] <= indices[i - 1]) throw Error("indices of a sparse constant do not ascend");
    }
  }
}

// Reads all levels; `stored` is the number of elements that the tree must have.
std::vector<Level> levels_of(const schema::Sparsity& sparsity, const Shape& shape, size_t stored) {
  const std::vector<size_t> dimensions = dimensions_of(sparsity, shape.size());
  std::vector<Level> levels(dimensions.size());
  Shape divided = shape;  // sizes in blocks
  std::vector<size_t> steps(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) steps[d - 1] = steps[d] * shape[d];
  for (size_t i = levels.size(); i-- > 0;) {
    const schema::Level& from = *sparsity.levels()->Get(static_cast<uint32_t>(i));
    const size_t d = dimensions[i], size = from.size() < 0 ? 0 : static_cast<size_t>(from.size());
    const bool is_block = i >= shape.size(), dense = from.format() == schema::LevelFormat::dense;
    if (!dense && from.format() != schema::LevelFormat::sparse) throw Unsupported{"sparse constants of another form"};
    if (is_block && !dense) throw Unsupported{"sparse blocks"};
    if (is_block && (size == 0 || divided[d] % size != 0)) throw Error("blocks do not divide a sparse constant");
    if (!is_block && dense && size != divided[d]) throw Error("a size of a sparse constant does not fit its shape");
    levels[i].step = steps[d];
    levels[i].size = is_block ? size : divided[d];
    steps[d] *= levels[i].size;
    divided[d] /= std::max<size_t>(levels[i].size, 1);
  }
  size_t nodes = 1;  // never more than the dense array has elements
  for (size_t i = 0; i < levels.size(); ++i) {
    const schema::Level& from = *sparsity.levels()->Get(static_cast<uint32_t>(i));
    if (from.format() == schema::LevelFormat::sparse) read_places(from, nodes, &levels[i]);
    nodes = levels[i].sparse ? levels[i].indices.size() : nodes * levels[i].size;
  }
  if (nodes != stored) throw Error("a sparse constant stores " + std::to_string(stored) + " elements");
  return levels;
}

// Copies the elements below a node.
class Filling {
 public:
  Filling(const std::vector<Level>& levels, const Array& from, Array* to)
      : levels_(levels), item_(element_size(from.type)), from_(from.bytes.data()), to_(to->bytes.data()) {}

  void fill(size_t depth, size_t node, size_t at) const {
    if (depth == levels_.size()) {
      std::memcpy(to_ + at * item_, from_ + node * item_, item_);
      return;
    }
    const Level& level = levels_[depth];
    if (level.sparse) {
      for (size_t i = level.segments[node]; i < level.segments[node + 1]; ++i) {
        fill(depth + 1, i, at + level.indices[i] * level.step);
      }
    } else {
      for (size_t i = 0; i < level.size; ++i) fill(depth + 1, node * level.size + i, at + i * level.step);
    }
  }

 private:
  const std::vector<Level>& levels_;
  size_t item_;
  const uint8_t* from_;
  uint8_t* to_;
};

}  // namespace

Array densify(const Array& from, const schema::Sparsity& sparsity, Builder& builder) {
  size_t bytes = element_size(from.type);
  for (const size_t d : from.shape) {
    if (!checked_mul(bytes, d, &bytes)) throw Error("the size of a sparse constant overflows");
  }
  if (bytes == 0 || from.bytes.size() % element_size(from.type) != 0) {
    throw Error("a buffer does not have the size of its sparse constant");
  }
  builder.charge(bytes);
  const std::vector<Level> levels = levels_of(sparsity, from.shape, from.elements());
  Array dense{from.type, from.shape, std::vector<uint8_t>(bytes)};
  Filling(levels, from, &dense).fill(0, 0, 0);
  return dense;
}

}  // namespace quern::tflite
