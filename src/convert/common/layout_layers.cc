// Operators that compute: on bytes, on each element, for each channel, on images, products.
#include "convert/common/layout.h"

#include <algorithm>
#include <cmath>

namespace quern::convert {

// ---- quantized numbers ------------------------------------------------------------------------

View Builder::quantize(const std::string& name, const View& x, float scale, int32_t zero) {
  return {add(OpKind::quantize, name, x.tensor, QN_S8, {{scale}, {zero}, -1}), x.order};
}

View Builder::dequantize(const std::string& name, const View& x) {
  return {add(OpKind::dequantize, name, x.tensor, QN_F32, {}), x.order};
}

bool Builder::is_dequantized(const View& x) const {
  return std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                     [&](const Node& node) { return node.kind == OpKind::dequantize && node.outputs[0] == x.tensor; });
}

bool Builder::set_scale(const View& x, float scale, int32_t zero) {
  Tensor& from = tensor(x);
  const Quantization given = {{scale}, {zero + (from.type == QN_U8 ? 128 : 0)}, -1};
  if (is_input(x.tensor) && from.quantization.scales.empty()) from.quantization = given;
  return from.quantization == given;
}

View Builder::as_quantized(const std::string& name, const View& x, float scale, int32_t zero) {
  if (!set_scale(x, scale, zero)) return {};
  if (tensor(x).type != QN_U8) return x;  // only inputs of the model are, and what moves their elements
  const auto [at, fresh] = signed_.try_emplace(x.tensor, no_tensor);
  if (fresh) at->second = add(OpKind::requantize, name + "/signed", x.tensor, QN_S8, {{scale}, {zero}, -1});
  return {at->second, x.order};
}

// ---- elementwise ------------------------------------------------------------------------------

View Builder::unary(OpKind kind, const std::string& name, const View& x, const Attributes& attributes) {
  return {add(kind, name, {x.tensor}, attributes), x.order};
}

View Builder::clamp(const std::string& name, const View& x, float min, float max) {
  Attributes attributes;
  attributes.min = min;
  attributes.max = max;
  return unary(OpKind::clamp, name, x, attributes);
}

View Builder::power(const std::string& name, const View& x, float scale, float shift, float power) {
  Attributes attributes;
  attributes.alpha = scale;
  attributes.beta = shift;
  attributes.gamma = power;
  return unary(OpKind::power, name, x, attributes);
}

// Adds dimensions of 1 in front until x has this rank.
View Builder::with_rank(const std::string& name, const View& x, size_t rank) {
  if (x.rank() == rank) return x;
  std::vector<int64_t> values(rank, 1);
  for (size_t d = rank - x.rank(); d < rank; ++d) values[d] = copy_dimension(d - (rank - x.rank()), d);
  return reshape(name + "/rank", x, values);
}

bool Builder::along_axis(const View& x, const View& constant, size_t* axis) const {
  const Shape c = shape(constant), shape_x = shape(x);
  const size_t n = element_count(c);
  if (c.size() > x.rank() || x.rank() == 0) return false;
  *axis = x.rank() > 1 ? 1 : 0;
  for (size_t d = 0; d < c.size(); ++d) {
    if (c[d] != 1) *axis = d + x.rank() - c.size();
  }
  return n == 1 || (n == c[*axis + c.size() - x.rank()] && n == shape_x[*axis]);
}

// Whether `c` is a constant along one axis of x, see along_axis(), and by_constant() needs no transpose, or only the
// one to channels last that a convolution needs anyway.
bool Builder::is_cheap_along(const View& x, const View& c, size_t* axis) {
  if (!is_constant(c) || is_constant(x) || !along_axis(x, c, axis)) return false;
  if (elements(c) == 1) return std::isfinite(*floats(c));  // by_constant() makes it an attribute, which must be finite
  return x.order.back() == *axis || (*axis == 1 && x.rank() == 4);
}

// Computes x (kind) constant without a tensor for the constant where is_cheap_along() is true.
View Builder::by_constant(OpKind kind, const std::string& name, const View& x, const View& constant, size_t axis) {
  const size_t n = elements(constant);
  const float* c = floats(constant);
  if (n == 1) {
    if (kind == OpKind::mul) return power(name, x, *c, 0, 1);
    return power(name, x, 1, kind == OpKind::sub ? -*c : *c, 1);
  }
  std::vector<float> values(c, c + n);
  if (kind == OpKind::mul) return scale(name, x, values, {}, axis);
  if (kind == OpKind::sub) {
    for (float& value : values) value = -value;
  }
  return scale(name, x, std::vector<float>(n, 1.0f), values, axis);
}

View Builder::binary(OpKind kind, const std::string& name, const View& a, const View& b) {
  const bool commutes = kind == OpKind::add || kind == OpKind::mul;
  size_t axis;
  if (kind != OpKind::div && is_cheap_along(a, b, &axis)) return by_constant(kind, name, a, b, axis);
  if (commutes && is_cheap_along(b, a, &axis)) return by_constant(kind, name, b, a, axis);

  const size_t rank = std::max(a.rank(), b.rank());
  const View wide_a = with_rank(name, a, rank), wide_b = with_rank(name, b, rank);
  const bool follow_b = is_constant(wide_a) || (is_source_order(wide_a.order) && !is_constant(wide_b));
  const Order order = follow_b ? wide_b.order : wide_a.order;
  return {add(kind, name, {in_order(wide_a, order), in_order(wide_b, order)}, {}), order};
}

// ---- per channel ------------------------------------------------------------------------------

namespace {
std::vector<float> spread(const std::vector<float>& values, size_t count, const std::string& name) {
  if (values.size() == count) return values;
  if (values.size() != 1) {
    throw Error(name + ": " + std::to_string(values.size()) + " numbers for " + std::to_string(count) + " channels");
  }
  if (count > (1u << 20)) throw Unsupported{"more than 2^20 channels"};  // bounds the memory
  return std::vector<float>(count, values[0]);
}
}  // namespace

View Builder::prelu(const std::string& name, const View& x, const std::vector<float>& slope, size_t axis) {
  if (axis >= x.rank()) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const Order order = axis_last(x.rank(), axis);
  const size_t count = shape(x)[axis];
  fix(symbol(x, axis), name);
  const View slopes = constant({count}, spread(slope, count, name).data());
  return {add(OpKind::prelu, name, {in_order(x, order), slopes.tensor}, {}), order};
}

View Builder::scale(const std::string& name, const View& x, const std::vector<float>& scale,
                    const std::vector<float>& bias, size_t axis) {
  if (axis >= x.rank()) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const Order order = axis_last(x.rank(), axis);
  const size_t count = shape(x)[axis];
  fix(symbol(x, axis), name);
  std::vector<int> inputs = {in_order(x, order), constant({count}, spread(scale, count, name).data()).tensor};
  if (!bias.empty()) inputs.push_back(constant({count}, spread(bias, count, name).data()).tensor);
  return {add(OpKind::scale, name, inputs, {}), order};
}

View Builder::leaky_relu(const std::string& name, const View& x, float slope) {
  // As all slopes are equal, any dimension may have them: best one that keeps its size, channels before others.
  if (x.rank() == 0) return prelu(name, x, {slope}, 0);  // which refuses scalars
  size_t axis = x.rank() > 1 ? 1 : 0;
  for (size_t d = 0; d < x.rank() && symbol(x, axis) != no_symbol; ++d) axis = d;
  if (symbol(x, axis) == no_symbol || x.rank() == QN_MAX_RANK) return prelu(name, x, {slope}, axis);
  const View wide = insert_dimension(name + "/wide", x, x.rank());
  return remove_dimension(name, prelu(name + "/wide", wide, {slope}, x.rank()), x.rank());
}

View Builder::lrn(const std::string& name, const View& x, size_t size, float alpha, float beta, float k) {
  if (x.rank() < 2) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  Attributes attributes;
  attributes.size = size;
  attributes.alpha = alpha;
  attributes.beta = beta;
  attributes.gamma = k;
  const Order order = channels_last(x.rank());
  return {add(OpKind::lrn, name, {in_order(x, order)}, attributes), order};
}

// ---- images -----------------------------------------------------------------------------------

namespace {
void require_image(const View& x) {
  if (x.rank() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
}
}  // namespace

View Builder::conv2d(const std::string& name, const View& x, const View& weights, const View& bias,
                     const Attributes& attributes) {
  require_image(x);
  const Order order = channels_last(4);
  std::vector<int> inputs = {in_order(x, order), in_order(weights, order)};
  if (bias) inputs.push_back(in_order(bias, source_order(1)));
  return {add(OpKind::conv2d, name, inputs, attributes), order};
}

View Builder::pool(OpKind kind, const std::string& name, const View& x, const Attributes& attributes) {
  require_image(x);
  return {add(kind, name, {in_order(x, channels_last(4))}, attributes), channels_last(4)};
}

View Builder::resize(const std::string& name, const View& x, const Attributes& attributes) {
  require_image(x);
  return {add(OpKind::resize, name, {in_order(x, channels_last(4))}, attributes), channels_last(4)};
}

// ---- products and softmax ---------------------------------------------------------------------

View Builder::fully_connected(const std::string& name, const View& x, const View& weights, const View& bias,
                              const Attributes& attributes) {
  const Order order = source_order(x.rank());
  std::vector<int> inputs = {in_order(x, order), in_order(weights, source_order(2))};
  if (bias) inputs.push_back(in_order(bias, source_order(1)));
  return {add(OpKind::fully_connected, name, inputs, attributes), order};
}

View Builder::softmax(const std::string& name, const View& x, size_t axis) {
  Attributes attributes;
  attributes.axis = static_cast<int>(position(x.order, axis));
  return unary(OpKind::softmax, name, x, attributes);
}

}  // namespace quern::convert
