#include "extra/node.h"

#include <algorithm>
#include <utility>

namespace quern::extra {
namespace {

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

thread_local const qn_parallel* asked = nullptr;  // by look()
thread_local size_t left = 0;                     // work until it asks

}  // namespace

Watched::Watched(const qn_parallel* parallel) : before_(std::exchange(asked, parallel)) { left = 0; }
Watched::~Watched() { asked = before_; }

void look(size_t work) {
  constexpr size_t interval = size_t{1} << 20;
  if (work < left) {
    left -= work;
    return;
  }
  left = interval;
  if (is_cancelled(asked)) throw Fault{QN_CANCELLED, "cancelled"};
}

std::span<const int64_t> Node::integers(const char* name) const {
  size_t count;
  const int64_t* const values = qn_node_integers(node_, name, &count);
  return {values, count};
}

int64_t Node::integer(const char* name, int64_t otherwise) const {
  const std::span<const int64_t> values = integers(name);
  return values.empty() ? otherwise : values[0];
}

std::span<const float> Node::floats(const char* name) const {
  size_t count;
  const float* const values = qn_node_floats(node_, name, &count);
  return {values, count};
}

float Node::number(const char* name, float otherwise) const {
  const std::span<const float> values = floats(name);
  return values.empty() ? otherwise : values[0];
}

std::vector<int64_t> Node::values(size_t input) const {
  const size_t n = count(shape(input));
  if (n != 0 && data<void>(input) == nullptr) fail("input " + std::to_string(input) + " is not known");
  if (type(input) == QN_S32) return {data<int32_t>(input), data<int32_t>(input) + n};
  expect(input, QN_S64);
  return {data<int64_t>(input), data<int64_t>(input) + n};
}

void Node::expect(size_t input, qn_type wanted) const {
  if (type(input) == wanted) return;
  fail("input " + std::to_string(input) + " is " + qn_type_string(type(input)) + ", not " + qn_type_string(wanted));
}

void Node::expect_shape(size_t input, const Shape& wanted) const {
  if (shape(input) == wanted) return;
  fail("input " + std::to_string(input) + " is " + to_string(shape(input)) + ", not " + to_string(wanted));
}

size_t Node::axis(int64_t axis, size_t rank) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) fail("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank));
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

size_t Node::product(size_t a, size_t b) const {
  if (b != 0 && a > SIZE_MAX / b) fail("a tensor would be too large");
  return a * b;
}

Shape Node::broadcast(const Shape& a, const Shape& b) const {
  Shape out(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= out.size(); ++i) {  // counted from the innermost
    const size_t da = i <= a.size() ? a[a.size() - i] : 1, db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1) {
      fail("dimensions " + std::to_string(da) + " and " + std::to_string(db) + " do not broadcast");
    }
    out[out.size() - i] = da == 1 ? db : da;
  }
  return out;
}

// Fails if the product of some dimensions overflows, also if there is a dimension of 0 beside these.
void Node::check_size(const Shape& shape) const {
  int64_t n = 1;
  for (const size_t d : shape) {
    if (d != 0 && __builtin_mul_overflow(n, d, &n)) fail("a tensor would be too large");
  }
}

void Inference::set(size_t index, qn_type type, const Shape& shape) {
  if (index >= outputs_.size()) return;  // nobody needs it
  check_size(shape);
  if (shape.size() > QN_MAX_RANK) fail("output " + std::to_string(index) + " has rank " + std::to_string(shape.size()));
  outputs_[index] = {};
  outputs_[index].type = type;
  outputs_[index].rank = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), outputs_[index].shape);
}

void* Run::allocate(size_t index, qn_type type, const Shape& shape) const {
  if (output_type(index) != type) {
    fail("output " + std::to_string(index) + " is " + qn_type_string(output_type(index)) + ", not " +
         qn_type_string(type));
  }
  check_size(shape);
  void* data = nullptr;
  const qn_status status = run_.allocate(&run_, index, static_cast<uint32_t>(shape.size()), shape.data(), &data);
  if (status != QN_OK) throw Fault{status, qn_last_message()};
  return data;
}

}  // namespace quern::extra
