#include "convert/common/layout.h"

#include <quern/extra.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "base/math.h"
#include "base/tensor.h"
#include "graph/backend/backend.h"
#include "graph/pass/passes.h"

namespace quern::convert {
namespace {

bool is_source_order(const Order& order) { return order == source_order(order.size()); }

size_t product(const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) {
    if (!checked_mul(n, d, &n)) throw Error("a tensor is too large");
  }
  return n;
}

template <class To, class From>
To converted(const From& from) {
  return To(from.begin(), from.end());
}

// Checks only the last node of `graph` and infers its output's shape. Builders do this after each node, so that
// importers can ask for shapes and messages name the node that is wrong.
void infer_last(Graph& graph) {
  const Node& node = graph.nodes.back();
  Graph one;
  Node copy = node;
  std::map<int, int> index;
  for (int& input : copy.inputs) {
    if (input == no_tensor) continue;
    const auto [at, fresh] = index.try_emplace(input, static_cast<int>(one.tensors.size()));
    if (fresh) {
      Tensor tensor = graph.tensors[static_cast<size_t>(input)];
      tensor.name = {};
      if (tensor.constant >= 0) {
        one.constants.push_back(graph.constants[static_cast<size_t>(tensor.constant)]);
        tensor.constant = static_cast<int>(one.constants.size()) - 1;
      } else {
        one.inputs.push_back({.tensor = at->second, .type = tensor.type});
      }
      one.tensors.push_back(std::move(tensor));
    }
    input = at->second;
  }
  const size_t first = one.tensors.size();
  for (int& output : copy.outputs) {
    const Tensor& made = graph.tensors[static_cast<size_t>(output)];
    Tensor& result = one.tensors.emplace_back();
    result.type = made.type;
    result.quantization = made.quantization;
    output = static_cast<int>(one.tensors.size() - 1);
    one.outputs.push_back({.tensor = output, .type = made.type});
  }
  one.nodes.push_back(std::move(copy));
  expect_ok(check_graph(one));
  expect_ok(infer_node(one, one.nodes[0]));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Tensor& made = graph.tensors[static_cast<size_t>(node.outputs[i])];
    made.shape = one.tensors[first + i].shape;
    made.quantization = one.tensors[first + i].quantization;
    made.sized_by_run = one.tensors[first + i].sized_by_run;
  }
}

}  // namespace

Order source_order(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

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

void UnsupportedList::add(const std::string& name, const std::string& type, const std::string& reason) {
  ++count_;
  text_ += (text_.empty() ? "" : ", ") + (name.empty() ? "unnamed" : name) + " (" + type;
  text_ += (reason.empty() ? "" : ": " + reason) + ")";
}

void UnsupportedList::throw_if_any() const {
  if (count_ == 0) return;
  throw Error((count_ == 1 ? "1 layer is" : std::to_string(count_) + " layers are") + " not supported: " + text_);
}

namespace {
// Returns the number of bytes of the character at the beginning of `text`; 0 if no valid character is there, or a
// control character.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f;
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc0 || byte(0) >= 0xf8 || text.size() < size) return 0;
  uint32_t code = byte(0) & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t smallest[] = {0, 0, 0xa0, 0x800, 0x10000};  // below 0xa0 are controls
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code >= smallest[size] && !surrogate && code <= 0x10ffff ? size : 0;
}
}  // namespace

std::string plain_name(const std::string& name, size_t limit) {
  std::string plain;
  for (std::string_view rest = name; !rest.empty();) {
    const size_t size = character_size(rest);
    if (plain.size() + std::max<size_t>(size, 1) > limit) break;
    size > 0 ? plain.append(rest.substr(0, size)) : plain.append("?");
    rest.remove_prefix(std::max<size_t>(size, 1));
  }
  return plain;
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const size_t d : shape) text.append(text.empty() ? "" : " x ").append(std::to_string(d));
  return text.empty() ? "one number" : text;
}

float finite(float value, const std::string& where) {
  if (!std::isfinite(value)) throw Error(where + " is not a finite number");
  return value;
}

Builder::Builder(const char* source) {
  expect_ok(qn_extra_register());  // the kinds that importers use
  graph_.source = source;
}

// ---- tensors ----------------------------------------------------------------------------------

// Makes a plain name that no other input or output has.
std::string Builder::port_name(const std::string& name) {
  std::string plain = plain_name(name);
  while (!port_names_.insert(plain).second) {
    const std::string number = std::string("_").append(std::to_string(++renamed_ports_));
    plain = plain_name(name, name_limit - number.size()) + number;
  }
  return plain;
}

View Builder::input(const std::string& name, const Shape& shape, qn_type type, const qn_preprocessing& preprocessing) {
  if (ports_.count(name) > 0) throw Error("input '" + name + "' is named twice");
  const bool is_empty = std::find(shape.begin(), shape.end(), 0u) != shape.end();
  if (is_empty && !takes_empty_) throw Error("input '" + name + "': a dimension is 0");
  qn_tensor checked;
  const qn_type kept = type == QN_F16 ? QN_F32 : type;
  expect_ok(qn_tensor_init(&checked, kept, static_cast<uint32_t>(shape.size()), shape.data()));
  const int tensor = add_tensor(graph_, port_name(name).c_str(), kept, shape);
  symbols_.add_input(graph_.inputs.size(), tensor, shape.size());
  graph_.inputs.push_back({.tensor = tensor, .type = type, .preprocessing = preprocessing});
  ports_[name] = {tensor, tensor};
  return {tensor, source_order(shape.size())};
}

View Builder::unsized_input(const std::string& name, qn_type type) {
  const View view = input(name, {0}, type, {});
  tensor(view).sized_by_run = true;
  graph_.inputs.back().unsized = true;
  return {view.tensor, {}};
}

View Builder::copy_constant(Builder& from, const View& constant) {
  const int source = from.in_order(constant, source_order(constant.rank()));
  const Tensor& tensor = from.graph_.tensors[static_cast<size_t>(source)];
  return this->constant(tensor.shape, tensor.type, from.graph_.constants[static_cast<size_t>(tensor.constant)].data,
                        tensor.quantization);
}

void Builder::leave_open(const View& input, size_t dimension, const std::string& name) {
  const size_t place = position(input.order, dimension);
  const auto has_tensor = [&](const Port& port) { return port.tensor == input.tensor; };
  Port& port = *std::find_if(graph_.inputs.begin(), graph_.inputs.end(), has_tensor);
  port.open = static_cast<uint8_t>(port.open | 1u << place);
  if (port.dimensions.size() <= place) port.dimensions.resize(place + 1);
  port.dimensions[place] = plain_name(name, name_limit).c_str();
}

bool Builder::is_open(Symbol symbol) const {
  const Symbols::Sources& sources = symbols_.sources(symbol);
  return std::any_of(sources.begin(), sources.end(),
                     [&](const auto& source) { return (graph_.inputs[source.first].open >> source.second & 1) != 0; });
}

void Builder::allow(size_t bytes_read) {
  size_t more;
  if (!checked_mul(bytes_read, size_t{16}, &more) || !checked_add(*budget_, more, budget_.get()))
    throw Error("too large");
}

void Builder::charge(size_t bytes, const char* otherwise) {
  if (bytes > *budget_) throw Error(otherwise);
  *budget_ -= bytes;
}

View Builder::constant(const Shape& shape, qn_type type, const void* data, Quantization quantization) {
  charge(product(shape) * qn_type_size(type));
  const View view = {add_constant(graph_, "", type, shape, data), source_order(shape.size())};
  tensor(view).quantization = std::move(quantization);
  return view;
}

Shape Builder::shape(const View& view) const {
  if (!is_sized(view)) throw Unsupported{"the shape of an input is known only when the model runs"};
  Shape shape(view.rank());
  for (size_t i = 0; i < shape.size(); ++i) shape[view.order[i]] = tensor(view).shape[i];
  return shape;
}

Symbol Builder::symbol(const View& view, size_t dimension) const {
  return symbols_.of(view.tensor, position(view.order, dimension));
}

void Builder::fix(Symbol symbol, const std::string& name) {
  if (symbol == no_symbol) return;
  for (const auto& source : symbols_.sources(symbol)) fixed_.try_emplace(source, name);
}

bool Builder::factors(const Symbols::Number& number, std::vector<View>* inputs, std::vector<int64_t>* factors) const {
  if (number.symbol == no_symbol) {
    factors->insert(factors->end(), {number.value, 1, 0});
    return true;
  }
  const std::vector<Symbols::Product> terms = symbols_.sum_of(number);
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto count = static_cast<int64_t>(terms[i].symbols.size());
    const bool is_last = i + 1 == terms.size();
    factors->insert(factors->end(), {terms[i].numerator, terms[i].denominator, is_last ? count : ~count});
    for (const Symbol symbol : terms[i].symbols) add_factor(symbols_.find(symbol), inputs, factors);
  }
  return !terms.empty();
}

void Builder::add_factor(const std::pair<int, size_t>& place, std::vector<View>* inputs,
                         std::vector<int64_t>* factors) const {
  const auto has_tensor = [&](const View& view) { return view.tensor == place.first; };
  const auto at = std::find_if(inputs->begin(), inputs->end(), has_tensor);
  factors->insert(factors->end(), {at - inputs->begin(), static_cast<int64_t>(place.second)});
  if (at != inputs->end()) return;
  inputs->push_back({place.first, source_order(graph_.tensors[static_cast<size_t>(place.first)].shape.size())});
}

size_t Builder::elements(const View& view) const { return product(shape(view)); }

bool Builder::is_constant(const View& view) const { return tensor(view).constant >= 0; }

const float* Builder::floats(const View& constant) {
  return constant_floats(graph_, in_order(constant, source_order(constant.rank())));
}

std::vector<uint8_t> Builder::bytes(const View& constant) {
  const Tensor& from = graph_.tensors[static_cast<size_t>(in_order(constant, source_order(constant.rank())))];
  const auto* const data = static_cast<const uint8_t*>(graph_.constants[static_cast<size_t>(from.constant)].data);
  const size_t size = product(from.shape) * qn_type_size(from.type);
  charge(size);
  return {data, data + size};
}

View Builder::join_constants(const std::vector<View>& constants, size_t axis, size_t grown) {
  const View first = {in_order(constants.at(0), source_order(constants[0].rank())), source_order(constants[0].rank())};
  Shape all = shape(first);
  size_t outer = 1, inner = qn_type_size(tensor(first).type);
  for (size_t d = 0; d < all.size(); ++d) (d < axis ? outer : inner) *= all[d];
  all[grown] *= constants.size();
  charge(outer * inner * constants.size());
  std::vector<uint8_t> joined(outer * inner * constants.size());
  for (size_t i = 0; i < constants.size(); ++i) {
    const auto part = static_cast<size_t>(in_order(constants[i], first.order));
    const auto* data =
        static_cast<const uint8_t*>(graph_.constants[static_cast<size_t>(graph_.tensors[part].constant)].data);
    for (size_t o = 0; o < outer; ++o) {
      std::copy_n(data + o * inner, inner, &joined[(o * constants.size() + i) * inner]);
    }
  }
  return constant(all, tensor(first).type, joined.data(), tensor(first).quantization);
}

View Builder::permute(const View& x, const Order& permutation) const {
  return {x.tensor, permuted(x.order, permutation)};
}

int Builder::in_order(const View& view, const Order& order) {
  if (view.order == order) return view.tensor;
  const Order permutation = permutation_between(view.order, order);
  const auto [at, fresh] = transposed_.try_emplace({view.tensor, permutation}, no_tensor);
  if (!fresh) return at->second;
  if (is_constant(view)) {
    const Tensor& from = tensor(view);
    const size_t element = qn_type_size(from.type), bytes = product(from.shape) * element;
    charge(bytes);  // for the copy
    std::vector<uint8_t> data(bytes);
    permute_elements(graph_.constants[static_cast<size_t>(from.constant)].data, element, from.shape, permutation,
                     data.data());
    Shape new_shape;
    for (const uint32_t d : permutation) new_shape.push_back(from.shape[d]);
    Quantization quantization = from.quantization;
    if (quantization.axis >= 0) {
      quantization.axis = static_cast<int>(position(permutation, static_cast<size_t>(quantization.axis)));
    }
    at->second = constant(new_shape, from.type, data.data(), std::move(quantization)).tensor;
  } else {
    Attributes attributes;
    attributes.values = converted<Vector<int64_t>>(permutation);
    at->second = add(OpKind::transpose, "transpose" + std::to_string(transposed_.size()), {view.tensor}, attributes);
  }
  return at->second;
}

int Builder::add(OpKind kind, const std::string& name, std::vector<int> inputs, const Attributes& attributes) {
  const int output = add_node(graph_, kind, plain_name(name).c_str(), converted<Vector<int>>(inputs), attributes);
  infer_last(graph_);
  symbols_.add_node(graph_, graph_.nodes.back());
  return output;
}

// ---- quantized numbers ------------------------------------------------------------------------

int Builder::add(OpKind kind, const std::string& name, int input, qn_type type, Quantization quantization) {
  const int output = add_node(graph_, kind, plain_name(name).c_str(), {input}, {});
  Tensor& made = graph_.tensors[static_cast<size_t>(output)];
  made.type = type;
  made.quantization = std::move(quantization);
  infer_last(graph_);
  symbols_.add_node(graph_, graph_.nodes.back());
  return output;
}

bool Builder::is_input(int tensor) const {
  return std::any_of(graph_.inputs.begin(), graph_.inputs.end(), [&](const Port& p) { return p.tensor == tensor; });
}

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

View Builder::as_quantized(const std::string& name, const View& x, float scale, int32_t zero) {
  Tensor& from = tensor(x);
  const bool shifts = from.type == QN_U8;  // only inputs of the model are
  const Quantization wanted = {{scale}, {zero}, -1}, given = {{scale}, {zero + (shifts ? 128 : 0)}, -1};
  if (is_input(x.tensor) && from.quantization.scales.empty()) from.quantization = given;
  if (!(from.quantization == given)) return {};
  if (!shifts) return x;
  const auto [at, fresh] = signed_.try_emplace(x.tensor, no_tensor);
  if (fresh) at->second = add(OpKind::requantize, name + "/signed", x.tensor, QN_S8, wanted);
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
  const size_t n = product(c);
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

// ---- shapes and axes --------------------------------------------------------------------------

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
  attributes.values = converted<Vector<int64_t>>(shape);
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

// ---- registered kinds -------------------------------------------------------------------------

Parameters&& Parameters::integers(const char* name, const std::vector<int64_t>& values) && {
  list.push_back({name, converted<Vector<int64_t>>(values), {}});
  return std::move(*this);
}

Parameters&& Parameters::floats(const char* name, const std::vector<float>& values) && {
  list.push_back({name, {}, converted<Vector<float>>(values)});
  return std::move(*this);
}

std::vector<View> Builder::custom(const std::string& kind, const std::string& name, const std::vector<View>& inputs,
                                  Parameters parameters, const std::vector<qn_type>& types) {
  Vector<int> tensors;
  for (const View& input : inputs) {
    tensors.push_back(input ? in_order(input, source_order(input.rank())) : no_tensor);
  }
  const auto first = static_cast<size_t>(
      add_node(graph_, OpKind::custom, plain_name(name).c_str(), std::move(tensors), {}, types.size()));
  graph_.nodes.back().type = kind.c_str();
  graph_.nodes.back().parameters = std::move(parameters.list);
  for (size_t i = 0; i < types.size(); ++i) graph_.tensors[first + i].type = types[i];
  infer_last(graph_);
  symbols_.add_node(graph_, graph_.nodes.back());
  compute_if_constant(first);
  std::vector<View> outputs;
  for (size_t i = first; i < first + types.size(); ++i) {
    outputs.push_back({static_cast<int>(i), source_order(graph_.tensors[i].shape.size())});
  }
  return outputs;
}

// Computes the last node now, whose outputs begin with tensor `first`: the nodes that follow may be better ones if they
// know its elements.
void Builder::compute_if_constant(size_t first) {
  constexpr size_t limit = size_t{1} << 20;  // bytes
  const Node& node = graph_.nodes.back();
  for (const int input : node.inputs) {
    if (input != no_tensor && graph_.tensors[static_cast<size_t>(input)].constant < 0) return;
  }
  size_t bytes = 0;
  for (size_t i = first; i < graph_.tensors.size(); ++i) {
    const Tensor& output = graph_.tensors[i];
    size_t size;
    if (output.sized_by_run || !tensor_size(output.type, output.shape, &size) || size > limit) return;
    if (size == 0 && output.type == QN_F32) return;
    bytes += size;
  }
  charge(bytes);
  if (evaluate(graph_, node) == QN_OK) return graph_.nodes.pop_back();
  for (size_t i = first; i < graph_.tensors.size(); ++i)
    graph_.tensors[i].constant = -1;  // a run may say what is wrong
}

std::vector<View> Builder::control(OpKind kind, const std::string& name, const std::vector<View>& inputs,
                                   std::vector<Graph> graphs, size_t size, const std::vector<qn_type>& types) {
  Vector<int> tensors;
  for (const View& input : inputs) {
    tensors.push_back(input ? in_order(input, source_order(input.rank())) : no_tensor);
  }
  Attributes attributes;
  attributes.size = size;
  const auto first = static_cast<size_t>(
      add_node(graph_, kind, plain_name(name).c_str(), std::move(tensors), attributes, types.size()));
  for (Graph& graph : graphs) {
    graph_.nodes.back().subgraphs.push_back(static_cast<uint32_t>(graph_.subgraphs.size()));
    graph_.subgraphs.push_back(std::move(graph));
  }
  std::vector<View> outputs;
  for (size_t i = 0; i < types.size(); ++i) {
    Tensor& output = graph_.tensors[first + i];
    output.type = types[i];
    output.sized_by_run = true;
    outputs.push_back({static_cast<int>(first + i), {}});
  }
  return outputs;
}

// ---- the whole --------------------------------------------------------------------------------

void Builder::output(const View& view, const std::string& name, qn_type type) {
  View as_type = view;
  if (type == QN_U8 && tensor(view).type == QN_S8) {
    Quantization quantization = tensor(view).quantization;
    for (int32_t& zero : quantization.zero_points) zero += 128;
    as_type.tensor = add(OpKind::requantize, name + "/unsigned", view.tensor, QN_U8, std::move(quantization));
  }
  const int shown = in_order(as_type, source_order(view.rank()));
  const auto [at, fresh] = ports_.try_emplace(name, NamedPort{shown, shown});
  NamedPort& port = at->second;
  if (port.shows != shown) throw Error("output '" + name + "' is also the name of another input or output");
  if (fresh) {
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(shown)];
    const bool is_taken = !tensor.name.empty() || tensor.constant >= 0, is_real = tensor.type == QN_F32;
    if (is_taken && is_real && is_sized(view)) {
      port.tensor = add(OpKind::clamp, name, {shown}, {});
    } else if (is_taken && view.rank() > 0) {  // a transpose that leaves all elements where they are
      Attributes same;
      for (size_t d = 0; d < view.rank(); ++d) same.values.push_back(static_cast<int64_t>(d));
      port.tensor = add(OpKind::transpose, name, {shown}, same);
    } else if (is_taken) {
      port.tensor = custom("identity", name, {view}, {}, {tensor.type})[0].tensor;
    }
    graph_.tensors[static_cast<size_t>(port.tensor)].name = port_name(name).c_str();
  }
  graph_.outputs.push_back({.tensor = port.tensor, .type = type, .preprocessing = {}});
}

// Drops nodes, tensors and constants on which no output depends, for example constants that were copied to another
// order.
Graph Builder::finish() {
  std::vector<char> live(graph_.tensors.size(), 0);
  for (const auto* ports : {&graph_.inputs, &graph_.outputs}) {
    for (const Port& port : *ports) live[static_cast<size_t>(port.tensor)] = 1;
  }
  Vector<Node> nodes;
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    Node& node = graph_.nodes[i];
    const auto is_live = [&](int output) { return live[static_cast<size_t>(output)] != 0; };
    if (std::none_of(node.outputs.begin(), node.outputs.end(), is_live)) continue;
    for (const int output : node.outputs) live[static_cast<size_t>(output)] = 1;
    for (const int input : node.inputs) {
      if (input != no_tensor) live[static_cast<size_t>(input)] = 1;
    }
    nodes.push_back(std::move(node));
  }
  std::reverse(nodes.begin(), nodes.end());

  Graph graph;
  graph.source = graph_.source;
  graph.name = graph_.name;
  std::vector<int> tensor_at(graph_.tensors.size(), no_tensor), constant_at(graph_.constants.size(), -1);
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (!live[i]) continue;
    tensor_at[i] = static_cast<int>(graph.tensors.size());
    Tensor& tensor = graph.tensors.emplace_back(std::move(graph_.tensors[i]));
    if (tensor.constant < 0) continue;
    int& at = constant_at[static_cast<size_t>(tensor.constant)];
    if (at < 0) {
      at = static_cast<int>(graph.constants.size());
      graph.constants.push_back(std::move(graph_.constants[static_cast<size_t>(tensor.constant)]));
    }
    tensor.constant = at;
  }
  const auto move_to = [&](int& tensor) {
    tensor = tensor == no_tensor ? tensor : tensor_at[static_cast<size_t>(tensor)];
  };
  for (Node& node : nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), move_to);
    std::for_each(node.outputs.begin(), node.outputs.end(), move_to);
  }
  for (auto* ports : {&graph_.inputs, &graph_.outputs}) {
    for (Port& port : *ports) move_to(port.tensor);
  }
  for (const auto& [source, name] : fixed_) {
    Port& port = graph_.inputs[source.first];
    port.fixed = static_cast<uint8_t>(port.fixed | 1u << source.second);
    if (port.fixed_by.empty()) port.fixed_by = plain_name(name).c_str();
  }
  for (Node& node : nodes) {  // those of dropped nodes go
    for (uint32_t& index : node.subgraphs) {
      graph.subgraphs.push_back(std::move(graph_.subgraphs[index]));
      index = static_cast<uint32_t>(graph.subgraphs.size() - 1);
    }
  }
  graph.nodes = std::move(nodes);
  graph.inputs = std::move(graph_.inputs);
  graph.outputs = std::move(graph_.outputs);
  *this = Builder(graph.source.c_str());
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  return graph;
}

}  // namespace quern::convert
