#include "convert/common/dimensions.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "convert/common/error.h"

namespace quern::convert {

size_t element_count(const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) {
    if (!checked_mul(n, d, &n)) throw Error("a tensor is too large");
  }
  return n;
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const size_t d : shape) text.append(text.empty() ? "" : " x ").append(std::to_string(d));
  return text.empty() ? "one number" : text;
}

Order source_order(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

bool is_source_order(const Order& order) { return order == source_order(order.size()); }

Order axis_last(size_t rank, size_t axis) {
  Order order = source_order(rank);
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(axis), order.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              order.end());
  return order;
}

Order channels_last(size_t rank) { return rank > 2 ? axis_last(rank, 1) : source_order(rank); }

size_t position(const Order& order, size_t axis) {
  return static_cast<size_t>(std::find(order.begin(), order.end(), axis) - order.begin());
}

Order permuted(const Order& order, const Order& permutation) {
  Order result = order;
  for (uint32_t& d : result) d = static_cast<uint32_t>(position(permutation, d));
  return result;
}

Order permutation_between(const Order& from, const Order& to) {
  Order permutation(to.size());
  for (size_t i = 0; i < to.size(); ++i) permutation[i] = static_cast<uint32_t>(position(from, to[i]));
  return permutation;
}

namespace {
template <class T>
void permute(const void* in, const Shape& shape, const Shape& stride, void* out) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  walk(shape, stride, [&](size_t offset) { *to++ = from[offset]; });
}
}  // namespace

void permute_elements(const void* in, size_t element_size, const Shape& shape, const Order& permutation, void* out) {
  const size_t rank = shape.size();
  Shape stride(rank, 1), out_shape, out_stride;
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  for (const uint32_t d : permutation) {
    out_shape.push_back(shape[d]);
    out_stride.push_back(stride[d]);
  }
  switch (element_size) {
    case 1: return permute<uint8_t>(in, out_shape, out_stride, out);
    case 2: return permute<uint16_t>(in, out_shape, out_stride, out);
    case 4: return permute<uint32_t>(in, out_shape, out_stride, out);
    default: return permute<uint64_t>(in, out_shape, out_stride, out);
  }
}

}  // namespace quern::convert
