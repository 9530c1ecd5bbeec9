// Shapes, strides, and walks through the elements of several tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <quern/base.h>

namespace quern::extra {

// What a kind reports as wrong with a node. node.h turns it into a status and a message.
struct Fault {
  qn_status status;
  std::string what;
};

// Kinds call this in loops that may take long, after some work (in elements or multiply-adds) on the thread that runs
// the node. Throws a fault with QN_CANCELLED if the run was cancelled; asks that only once in a while.
void look(size_t work);
// Gathers work for look(), for loops with little of it in each round.
class Pace {
 public:
  void did(size_t work) {
    done_ += work;
    if (done_ < enough) return;
    look(done_);
    done_ = 0;
  }

 private:
  static constexpr size_t enough = size_t{1} << 16;
  size_t done_ = 0;
};

// Calls visit(begin, end) for parts of `n` elements, and look() for each.
template <class Visit>
void for_parts(size_t n, const Visit& visit) {
  constexpr size_t most = size_t{1} << 16;
  for (size_t begin = 0; begin < n; begin += most) {
    const size_t end = begin + most < n ? begin + most : n;
    visit(begin, end);
    look(end - begin);
  }
}

// A short list of sizes: the dimensions of a tensor, or what belongs to each of them. Takes more than a tensor may have,
// for what is between input and output.
class Shape {
 public:
  static constexpr size_t capacity = 24;

  Shape() = default;
  explicit Shape(size_t size, size_t value = 0) { resize(size, value); }
  Shape(std::initializer_list<size_t> list) : Shape(list.begin(), list.end()) {}
  Shape(const size_t* begin, const size_t* end) {
    for (; begin != end; ++begin) push_back(*begin);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t& operator[](size_t d) { return values_[d]; }
  size_t operator[](size_t d) const { return values_[d]; }
  size_t& back() { return values_[size_ - 1]; }
  size_t back() const { return values_[size_ - 1]; }
  size_t* begin() { return values_; }
  size_t* end() { return values_ + size_; }
  const size_t* begin() const { return values_; }
  const size_t* end() const { return values_ + size_; }
  const size_t* data() const { return values_; }

  void push_back(size_t value) { insert(size_, value); }
  void append(const Shape& more) {
    for (const size_t value : more) push_back(value);
  }
  void insert(size_t at, size_t value) {
    if (size_ == capacity) throw Fault{QN_UNSUPPORTED, "a tensor would have more than 24 dimensions"};
    std::copy_backward(values_ + at, values_ + size_, values_ + size_ + 1);
    values_[at] = value;
    ++size_;
  }
  void erase(size_t at) {
    std::copy(values_ + at + 1, values_ + size_, values_ + at);
    --size_;
  }
  void resize(size_t size, size_t value = 0) {
    if (size > capacity) throw Fault{QN_UNSUPPORTED, "a tensor would have more than 24 dimensions"};
    for (size_t d = size_; d < size; ++d) values_[d] = value;
    size_ = size;
  }
  // The dimensions from `first` up to `last`, without it.
  Shape part(size_t first, size_t last) const { return {values_ + first, values_ + last}; }
  bool operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  size_t values_[capacity] = {};
  size_t size_ = 0;
};

inline size_t count(const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) n *= d;
  return n;
}

// The distance between neighbours of each dimension, in elements, of a dense tensor.
inline Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// The same for a tensor that is broadcast to shape `to`, by NumPy's rules: 0 for dimensions that repeat. The shapes fit.
inline Shape broadcast_strides(const Shape& shape, const Shape& to) {
  const Shape own = strides_of(shape);
  Shape strides(to.size(), 0);
  const size_t more = to.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) strides[more + d] = own[d];
  }
  return strides;
}

// Calls visit(i, at) for each element of `shape`, in row-major order: i counts them, and at[k] is the place of the element
// in the k-th tensor, of which strides[k] has a stride for each dimension.
constexpr size_t walked = size_t{1} << 16;  // elements from one look() to the next
template <size_t n, class Visit>
void walk(const Shape& shape, const Shape (&strides)[n], Visit&& visit) {
  const size_t total = count(shape);
  Shape index(shape.size(), 0);
  size_t at[n] = {};
  for (size_t i = 0; i < total; ++i) {
    if (i % walked == 0) look(std::min(walked, total - i));
    visit(i, at);
    for (size_t d = shape.size(); d-- > 0;) {
      for (size_t k = 0; k < n; ++k) at[k] += strides[k][d];
      if (++index[d] < shape[d]) break;
      for (size_t k = 0; k < n; ++k) at[k] -= strides[k][d] * shape[d];
      index[d] = 0;
    }
  }
}

// Several tensors that are walked together, row by row. Dimensions are joined where all tensors allow it, so that rows
// are long. The shape and strides are those of rows; within a row, the elements of tensor k lie steps[k] apart, which is
// 0 or 1 for dense tensors that are broadcast.
template <size_t n>
struct Rows {
  Shape shape, strides[n];
  size_t length = 1, steps[n];

  Rows(const Shape& of, const Shape (&its_strides)[n]) {
    for (size_t d = 0; d < of.size(); ++d) {
      if (of[d] == 1) continue;
      if (!joins(of[d], d, its_strides)) {
        shape.push_back(1);
        for (Shape& list : strides) list.push_back(0);
      }
      shape.back() *= of[d];
      for (size_t k = 0; k < n; ++k) strides[k].back() = its_strides[k][d];
    }
    std::fill_n(steps, n, 1);
    if (shape.empty()) return;  // one element
    length = shape.back();
    shape.resize(shape.size() - 1);
    for (size_t k = 0; k < n; ++k) {
      steps[k] = strides[k].back();
      strides[k].resize(shape.size());
    }
  }

  // Calls visit(at) for each row; at[k] is the place of its first element in the k-th tensor.
  template <class Visit>
  void walk(Visit&& visit) const {
    extra::walk(shape, strides, [&](size_t, const size_t(&at)[n]) {
      visit(at);
      look(length);
    });
  }

 private:
  bool joins(size_t size, size_t d, const Shape (&its_strides)[n]) const {
    if (shape.empty()) return false;
    for (size_t k = 0; k < n; ++k) {
      if (strides[k].back() != its_strides[k][d] * size) return false;
    }
    return true;
  }
};

}  // namespace quern::extra
