// Builds a graph: its tensors, their orders, and how nodes are added. The other files layout_*.cc have the operators.
#include "convert/common/layout.h"

#include <quern/extra.h>

#include <algorithm>

#include "base/math.h"
#include "base/tensor.h"
#include "graph/pass/passes.h"

namespace quern::convert {

Builder::Builder(const char* source) {
  expect_ok(qn_extra_register());  // the kinds that importers use
  graph_.source = source;
}

// ---- inputs and constants ---------------------------------------------------------------------

// Makes a plain name that no other input or output has.
std::string Builder::port_name(const std::string& of_source) {
  const std::string name = of_source.empty() ? "unnamed" : of_source;
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
  charge(element_count(shape) * qn_type_size(type));
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

size_t Builder::elements(const View& view) const { return element_count(shape(view)); }

bool Builder::is_constant(const View& view) const { return tensor(view).constant >= 0; }

const float* Builder::floats(const View& constant) {
  return constant_floats(graph_, in_order(constant, source_order(constant.rank())));
}

std::vector<uint8_t> Builder::bytes(const View& constant) {
  const Tensor& from = graph_.tensors[static_cast<size_t>(in_order(constant, source_order(constant.rank())))];
  const auto* const data = static_cast<const uint8_t*>(graph_.constants[static_cast<size_t>(from.constant)].data);
  const size_t size = element_count(from.shape) * qn_type_size(from.type);
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
    const size_t element = qn_type_size(from.type), bytes = element_count(from.shape) * element;
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
    attributes.values = Vector<int64_t>(permutation.begin(), permutation.end());
    at->second = add(OpKind::transpose, "transpose" + std::to_string(transposed_.size()), {view.tensor}, attributes);
  }
  return at->second;
}

int Builder::add(OpKind kind, const std::string& name, std::vector<int> inputs, const Attributes& attributes) {
  const int output =
      add_node(graph_, kind, plain_name(name).c_str(), Vector<int>(inputs.begin(), inputs.end()), attributes);
  infer_last();
  return output;
}

int Builder::add(OpKind kind, const std::string& name, int input, qn_type type, Quantization quantization) {
  const int output = add_node(graph_, kind, plain_name(name).c_str(), {input}, {});
  Tensor& made = graph_.tensors[static_cast<size_t>(output)];
  made.type = type;
  made.quantization = std::move(quantization);
  infer_last();
  return output;
}

bool Builder::is_input(int tensor) const {
  return std::any_of(graph_.inputs.begin(), graph_.inputs.end(), [&](const Port& p) { return p.tensor == tensor; });
}

// Replaces what a message begins with, our name and kind of a node.
std::string Builder::in_words_of_the_source(const Node& node, const std::string& message) const {
  const std::string ours = "node '" + std::string(node.name.c_str()).substr(0, 100) + "' (" + kind_name(node) + ")";
  return source_.empty() || message.rfind(ours, 0) != 0 ? message : source_ + message.substr(ours.size());
}

// Does so after each node, so that importers can ask for shapes and messages name the node that is wrong.
void Builder::infer_last() {
  const Node& node = graph_.nodes.back();
  Graph one;
  Node copy = node;
  std::map<int, int> index;
  for (int& input : copy.inputs) {
    if (input == no_tensor) continue;
    const auto [at, fresh] = index.try_emplace(input, static_cast<int>(one.tensors.size()));
    if (fresh) {
      Tensor tensor = graph_.tensors[static_cast<size_t>(input)];
      tensor.name = {};
      if (tensor.constant >= 0) {
        one.constants.push_back(graph_.constants[static_cast<size_t>(tensor.constant)]);
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
    const Tensor& made = graph_.tensors[static_cast<size_t>(output)];
    Tensor& result = one.tensors.emplace_back();
    result.type = made.type;
    result.quantization = made.quantization;
    output = static_cast<int>(one.tensors.size() - 1);
    one.outputs.push_back({.tensor = output, .type = made.type});
  }
  one.nodes.push_back(std::move(copy));
  qn_status status = check_graph(one);
  if (status == QN_OK) status = infer_node(one, one.nodes[0]);
  if (status != QN_OK) throw Error(in_words_of_the_source(node, qn_last_message()));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Tensor& made = graph_.tensors[static_cast<size_t>(node.outputs[i])];
    made.shape = one.tensors[first + i].shape;
    made.quantization = one.tensors[first + i].quantization;
    made.sized_by_run = one.tensors[first + i].sized_by_run;
  }
  symbols_.add_node(graph_, node);
}

}  // namespace quern::convert
