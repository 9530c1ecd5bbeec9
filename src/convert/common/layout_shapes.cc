// Operators that move, cut and join.
#include "convert/common/layout.h"

#include <algorithm>

namespace quern::convert {

View Builder::concat(const std::string& name, const std::vector<View>& inputs, size_t axis) {
  Order order = inputs.at(0).order;
  for (const View& input : inputs) {
    if (input.rank() != order.size()) throw Error(name + ": inputs of different ranks");
    if (is_source_order(order) && !is_constant(input)) order = input.order;
  }
  std::vector<int> tensors;
  for (const View& input : inputs) tensors.push_back(in_order(input, order));
  Attributes attributes;
  attributes.axis = static_cast<int>(position(order, axis));
  return {add(OpKind::concat, name, tensors, attributes), order};
}

namespace {
// Reorders two lists with one number per dimension of the source to our order, and joins them.
Vector<int64_t> pairs_in_order(const Order& order, const std::vector<int64_t>& first,
                               const std::vector<int64_t>& second) {
  Vector<int64_t> values;
  for (const auto* list : {&first, &second}) {
    for (const uint32_t d : order) values.push_back((*list)[d]);
  }
  return values;
}
}  // namespace

View Builder::slice(const std::string& name, const View& x, const std::vector<int64_t>& begin,
                    const std::vector<int64_t>& end) {
  Attributes attributes;
  attributes.values = pairs_in_order(x.order, begin, end);
  return unary(OpKind::slice, name, x, attributes);
}

View Builder::slice(const std::string& name, const View& x, size_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> first(x.rank(), 0), last(x.rank(), -1);
  first[axis] = begin;
  last[axis] = end;
  return slice(name, x, first, last);
}

View Builder::pad(const std::string& name, const View& x, const std::vector<int64_t>& before,
                  const std::vector<int64_t>& after, float value) {
  Attributes attributes;
  attributes.values = pairs_in_order(x.order, before, after);
  attributes.alpha = value;
  return unary(OpKind::pad, name, x, attributes);
}

View Builder::reshape(const std::string& name, const View& x, const std::vector<int64_t>& shape) {
  const bool keeps =
      shape.size() == x.rank() && std::all_of(shape.begin(), shape.end(), [](int64_t d) { return d == 0; });
  if (keeps) return x;
  return {reshaped(name, in_order(x, source_order(x.rank())), shape), source_order(shape.size())};
}

int Builder::reshaped(const std::string& name, int in, const std::vector<int64_t>& shape) {
  Attributes attributes;
  attributes.values = Vector<int64_t>(shape.begin(), shape.end());
  const int out = add(OpKind::reshape, name, {in}, attributes);
  if (graph_.tensors[static_cast<size_t>(in)].constant >= 0) {  // the node was only needed to infer the shape
    graph_.nodes.pop_back();
    graph_.tensors[static_cast<size_t>(out)].constant = graph_.tensors[static_cast<size_t>(in)].constant;
  }
  return out;
}

// The new dimension lies before the one that follows it in the source.
View Builder::insert_dimension(const std::string& name, const View& x, size_t axis) {
  std::vector<int64_t> shape;
  Order order;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (x.order[d] == axis) {
      order.push_back(static_cast<uint32_t>(axis));
      shape.push_back(1);
    }
    order.push_back(x.order[d] < axis ? x.order[d] : x.order[d] + 1);
    shape.push_back(copy_dimension(d, shape.size()));
  }
  if (axis == x.rank()) {
    order.push_back(static_cast<uint32_t>(axis));
    shape.push_back(1);
  }
  return {reshaped(name, x.tensor, shape), order};
}

View Builder::remove_dimension(const std::string& name, const View& x, size_t axis) {
  std::vector<int64_t> shape;
  Order order;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (x.order[d] == axis) continue;
    order.push_back(x.order[d] < axis ? x.order[d] : x.order[d] - 1);
    shape.push_back(copy_dimension(d, shape.size()));
  }
  return {reshaped(name, x.tensor, shape), order};
}

View Builder::merge_dimensions(const std::string& name, const View& x, size_t axis) {
  std::vector<int64_t> shape;
  Order order;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (x.order[d] == axis + 1) continue;
    order.push_back(x.order[d] <= axis ? x.order[d] : x.order[d] - 1);
    shape.push_back(x.order[d] == axis ? -1 : copy_dimension(d, shape.size()));
  }
  return {reshaped(name, x.tensor, shape), order};
}

}  // namespace quern::convert
