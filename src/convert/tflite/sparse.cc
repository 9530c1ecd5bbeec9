// The format: levels, of which each is a dimension of the tensor or the inner part of one that is divided into blocks. A
// dense level has all its places; of a sparse one, each place of the level before has a segment of a list of places.
#include "convert/tflite/sparse.h"

#include <algorithm>

#include "base/math.h"

namespace quern::tflite {
namespace {

struct Level {
  size_t size, stride;  // places, and how many elements of the tensor one step is
  bool is_sparse;
  std::vector<size_t> segments, places;
};

template <class Table>
std::vector<size_t> numbers_of(const Table& table) {
  if (table.values() == nullptr) return {};
  std::vector<size_t> numbers;
  for (const auto value : *table.values()) {
    if (value < 0) throw Error("a sparse constant has a negative index");
    numbers.push_back(static_cast<size_t>(value));
  }
  return numbers;
}

std::vector<size_t> list_of(schema::Indices type, const void* table) {
  if (table == nullptr) throw Error("a sparse constant has no indices");
  switch (type) {
    case schema::Indices::Int32Vector: return numbers_of(*static_cast<const schema::Int32Vector*>(table));
    case schema::Indices::Uint16Vector: return numbers_of(*static_cast<const schema::Uint16Vector*>(table));
    case schema::Indices::Uint8Vector: return numbers_of(*static_cast<const schema::Uint8Vector*>(table));
    default: throw Error("a sparse constant has indices of an unknown type");
  }
}

class Reader {
 public:
  Reader(Builder& builder, const schema::Sparsity& sparsity, const Shape& shape, size_t element_size,
         const std::vector<uint8_t>& stored)
      : element_size_(element_size), stored_(stored), elements_(1) {
    for (const size_t d : shape) {
      if (!checked_mul(elements_, d, &elements_)) throw Error("a sparse constant is too large");
    }
    size_t bytes;
    if (!checked_mul(elements_, element_size, &bytes)) throw Error("a sparse constant is too large");
    builder.charge(bytes);
    dense_.resize(bytes);
    add_levels(builder, sparsity, shape);
  }

  std::vector<uint8_t> read() {
    if (elements_ != 0) visit(0, 0, 0);
    return std::move(dense_);
  }

 private:
  void add_levels(Builder& builder, const schema::Sparsity& sparsity, const Shape& shape) {
    const auto *order = sparsity.traversal_order(), *blocks = sparsity.block_map();
    const auto* levels = sparsity.levels();
    const size_t inner = blocks == nullptr ? 0 : blocks->size(), rank = shape.size();
    if (order == nullptr || levels == nullptr || order->size() != rank + inner || levels->size() != rank + inner) {
      throw Error("a sparse constant has not one level for each dimension");
    }
    // The places of the outer parts, and how many elements apart they are.
    Shape sizes = shape, strides(rank, 1);
    for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    sizes.resize(rank + inner), strides.resize(rank + inner);
    std::vector<bool> is_divided(rank, false);
    for (size_t i = 0; i < order->size(); ++i) {
      const auto number = static_cast<size_t>(order->Get(static_cast<unsigned>(i)));
      if (number < rank || number >= rank + inner) continue;
      const auto d = static_cast<size_t>(blocks->Get(static_cast<unsigned>(number - rank)));
      const int32_t size = levels->Get(static_cast<unsigned>(i))->dense_size();
      if (d >= rank || is_divided[d] || size < 1 || shape[d] % static_cast<size_t>(size) != 0) {
        throw Error("the blocks of a sparse constant do not divide it");
      }
      is_divided[d] = true;
      sizes[number] = static_cast<size_t>(size);
      strides[number] = strides[d];
      sizes[d] /= sizes[number];
      strides[d] *= sizes[number];
    }
    std::vector<bool> seen(rank + inner, false);
    for (size_t i = 0; i < order->size(); ++i) {
      const auto number = static_cast<size_t>(order->Get(static_cast<unsigned>(i)));
      if (number >= seen.size() || seen[number]) throw Error("the levels of a sparse constant are no permutation");
      seen[number] = true;
      add_level(builder, *levels->Get(static_cast<unsigned>(i)), sizes[number], strides[number]);
    }
  }

  void add_level(Builder& builder, const schema::Level& from, size_t size, size_t stride) {
    Level level = {size, stride, from.is_sparse(), {}, {}};
    if (level.is_sparse) {
      level.segments = list_of(from.segments_type(), from.segments());
      level.places = list_of(from.places_type(), from.places());
      builder.charge((level.segments.size() + level.places.size()) * sizeof(size_t));  // levels may share lists
    } else if (static_cast<size_t>(std::max(from.dense_size(), 0)) != size) {
      throw Error("a level of a sparse constant has another size than its dimension");
    }
    levels_.push_back(std::move(level));
  }

  // Goes through the places of a level below one place of the level before, which is the `above`-th of all its places.
  // Each element is reached once at most, or else a small file could ask for endless work.
  void visit(size_t depth, size_t above, size_t element) {
    if (depth == levels_.size()) return copy(above, element);
    const Level& level = levels_[depth];
    if (!level.is_sparse) {
      for (size_t i = 0; i < level.size; ++i) visit(depth + 1, above * level.size + i, element + i * level.stride);
      return;
    }
    if (level.segments.size() < 2 || above > level.segments.size() - 2) throw Error("a sparse constant lacks segments");
    const size_t begin = level.segments[above], end = level.segments[above + 1];
    if (begin > end || end > level.places.size() || end - begin > level.size) {
      throw Error("a segment of a sparse constant is out of range");
    }
    for (size_t i = begin; i < end; ++i) {
      if (level.places[i] >= level.size) throw Error("an index of a sparse constant is out of range");
      if (i > begin && level.places[i] <= level.places[i - 1])
        throw Error("indices of a sparse constant do not ascend");
      visit(depth + 1, i, element + level.places[i] * level.stride);
    }
  }

  void copy(size_t from, size_t element) {
    if (from >= stored_.size() / element_size_) throw Error("a buffer does not have its tensor's size");
    std::copy_n(&stored_[from * element_size_], element_size_, &dense_[element * element_size_]);
  }

  const size_t element_size_;
  const std::vector<uint8_t>& stored_;
  size_t elements_;
  std::vector<Level> levels_;
  std::vector<uint8_t> dense_;
};

}  // namespace

std::vector<uint8_t> with_zeros(Builder& builder, const schema::Sparsity& sparsity, const Shape& shape,
                                size_t element_size, const std::vector<uint8_t>& stored) {
  return Reader(builder, sparsity, shape, element_size, stored).read();
}

}  // namespace quern::tflite
