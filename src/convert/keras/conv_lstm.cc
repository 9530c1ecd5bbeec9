// Imports Keras' convolutional LSTMs. Each step becomes nodes of its own, so that all shapes are known before a run.
// Tensors have their channels last, and images a height, which is 1 for layers of one dimension.
#include <algorithm>

#include "base/math.h"
#include "convert/common/kinds.h"
#include "convert/common/layers.h"
#include "convert/keras/masks.h"
#include "convert/keras/recurrent.h"

namespace quern::keras {

size_t spatial_of_conv_lstm(const std::string& type) {
  static const std::map<std::string, size_t> layers = {{"ConvLSTM1D", 1}, {"ConvLSTM2D", 2}, {"ConvLSTM3D", 3}};
  const size_t* const spatial = find_in(layers, type);
  return spatial == nullptr ? 0 : *spatial;
}

namespace {

constexpr int64_t most_steps = many_inputs;  // each adds some 20 nodes

// One or more numbers from 1 on, one for each dimension of an image: of one dimension, the height is 1.
std::vector<int64_t> sizes_of(const KerasNode& node, const char* field, size_t spatial, bool may_miss) {
  std::vector<int64_t> sizes(spatial, 1);
  if (!may_miss || node.find(field) != nullptr) {
    const std::vector<int64_t> list = node.list(field);
    if (list.size() != 1 && list.size() != spatial) node.fail(std::string("'") + field + "' has too many numbers");
    for (size_t d = 0; d < spatial; ++d) {
      sizes[d] = static_cast<int64_t>(node.size(list[list.size() == 1 ? 0 : d], field));
    }
  }
  if (spatial == 1) sizes.insert(sizes.begin(), 1);
  return sizes;
}

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  bool is_same;
};

// The order of dimensions that moves the channels of a tensor to the second place, or from there to the last.
Order channels_second(size_t rank) {
  Order order = {0, static_cast<uint32_t>(rank - 1)};
  for (uint32_t d = 1; d + 1 < rank; ++d) order.push_back(d);
  return order;
}
Order channels_last(size_t rank) {
  Order order = {0};
  for (uint32_t d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}

// What is added before and behind each dimension of x, which has its channels second.
std::vector<int64_t> pads_of(const KerasNode& node, const View& x, const Window& window) {
  const Shape shape = node.builder.shape(x);
  const size_t spatial = window.kernel.size();
  std::vector<int64_t> pads(2 * spatial, 0);
  for (size_t d = 0; window.is_same && d < spatial; ++d) {
    size_t before = 0, after = 0;
    const auto number = [](int64_t value) { return static_cast<size_t>(value); };
    if (window.strides[d] > 1) node.builder.fix(node.builder.symbol(x, 2 + d), node.name);
    same_padding(SamePadding::odd_pixel_last, shape[2 + d], number(window.kernel[d]), number(window.strides[d]),
                 number(window.dilations[d]), &before, &after);
    pads[d] = static_cast<int64_t>(before);
    pads[spatial + d] = static_cast<int64_t>(after);
  }
  return pads;
}

// Convolves x by weights O, I, kernel. Both x and the result have their channels last.
View convolved(const KerasNode& node, const std::string& name, const View& x, const View& weights, const View& bias,
               const Window& window) {
  const View image = node.builder.permute(x, channels_second(x.rank()));
  if (window.kernel.size() == 2) {
    const auto pair = [](const std::vector<int64_t>& list) {
      return qn_hw{static_cast<size_t>(list[0]), static_cast<size_t>(list[1])};
    };
    Attributes a;
    a.kernel = pair(window.kernel);
    a.stride = pair(window.strides);
    a.dilation = pair(window.dilations);
    if (window.is_same) pad_same(node.builder, image, &a);
    return node.builder.permute(node.builder.conv2d(name, image, weights, bias, a), channels_last(x.rank()));
  }
  std::vector<View> inputs = {image, weights};
  if (bias) inputs.push_back(bias);
  Parameters parameters = Parameters()
                              .integers("strides", window.strides)
                              .integers("dilations", window.dilations)
                              .integers("pads", pads_of(node, image, window));
  const View y = node.builder.custom("conv", name, inputs, std::move(parameters), {QN_F32})[0];
  return node.builder.permute(y, channels_last(x.rank()));
}

// A layer's kernel as O, I, kernel.
View kernel_of(const KerasNode& node, const char* role, const Window& window, size_t spatial, size_t in, size_t out) {
  Shape shape;
  for (size_t d = window.kernel.size() - spatial; d < window.kernel.size(); ++d) {
    shape.push_back(static_cast<size_t>(window.kernel[d]));
  }
  shape.push_back(in);
  shape.push_back(out);
  View kernel = node.weight(role, shape);
  if (spatial == 1) kernel = node.builder.insert_dimension(node.name + "/" + role, kernel, 0);
  Order order = {static_cast<uint32_t>(kernel.rank() - 1), static_cast<uint32_t>(kernel.rank() - 2)};
  for (uint32_t d = 0; d + 2 < kernel.rank(); ++d) order.push_back(d);
  return node.builder.permute(kernel, order);
}

// What a layer computes in each step.
struct ConvLstm {
  const KerasNode& node;
  size_t filters;
  View recurrent;
  Window window;  // of the convolution of the state
  std::string activation, recurrent_activation;

  View gate(const std::string& name, const View& gates, size_t number, const std::string& function) const {
    const auto begin = static_cast<int64_t>(number * filters), end = static_cast<int64_t>((number + 1) * filters);
    const View part = node.builder.slice(name, gates, gates.rank() - 1, begin, number == 3 ? -1 : end);
    return activated(node, name + "/activation", part, function);
  }

  // Changes the states, of which there may be none yet: they are 0. Gates are input, forget, cell, output.
  void step(const std::string& name, View gates, View* h, View* c) const {
    Builder& builder = node.builder;
    if (*h) {
      const View more = convolved(node, name + "/recurrent", *h, recurrent, {}, window);
      gates = builder.binary(OpKind::add, name + "/gates", gates, more);
    }
    const View i = gate(name + "/input", gates, 0, recurrent_activation);
    const View g = gate(name + "/cell", gates, 2, activation);
    View cell = builder.binary(OpKind::mul, name + "/new", i, g);
    if (*c) {
      const View f = gate(name + "/forget", gates, 1, recurrent_activation);
      cell = builder.binary(OpKind::add, name + "/sum", builder.binary(OpKind::mul, name + "/kept", f, *c), cell);
    }
    const View o = gate(name + "/output", gates, 3, recurrent_activation);
    *h = builder.binary(OpKind::mul, name + "/state", o, activated(node, name + "/shown", cell, activation));
    *c = cell;
  }
};

// The convolutions of the inputs of all steps: [batch, time, ..., gates].
View input_gates(const KerasNode& node, const View& x, size_t spatial, const Window& window, size_t filters) {
  Builder& builder = node.builder;
  const Symbols::Number steps = {static_cast<int64_t>(builder.shape(x)[1]), builder.symbol(x, 1)};
  size_t width;
  if (!checked_mul(filters, size_t{4}, &width)) node.fail("'filters' is out of range");
  std::vector<int64_t> batch = {-1};
  for (size_t d = 2; d < x.rank(); ++d) batch.push_back(copy_dimension(d, d - 1));
  View images = builder.reshape(node.name + "/batch", x, batch);
  if (spatial == 1) images = builder.insert_dimension(node.name + "/images", images, 1);
  const View kernel = kernel_of(node, "kernel", window, spatial, builder.shape(x).back(), width);
  const View bias = node.flag("use_bias", true) ? node.weight("bias", {width}) : View{};
  const View y = convolved(node, node.name + "/kernel", images, kernel, bias, window);
  node.fix(steps.symbol);
  std::vector<int64_t> back = {-1, steps.value};
  for (size_t d = 1; d < y.rank(); ++d) back.push_back(copy_dimension(d, d + 1));
  return builder.reshape(node.name + "/inputs", y, back);
}

// A tensor as the layer has it from one with channels last: `outer` dimensions come before those of images.
View as_in_layer(const KerasNode& node, const std::string& name, View x, size_t spatial, size_t outer) {
  if (spatial == 1) x = node.builder.remove_dimension(name, x, outer);
  if (!node.has_channels_first()) return x;
  Order order;
  for (uint32_t d = 0; d < outer; ++d) order.push_back(d);
  order.push_back(static_cast<uint32_t>(x.rank() - 1));
  for (auto d = static_cast<uint32_t>(outer); d + 1 < x.rank(); ++d) order.push_back(d);
  return node.builder.permute(x, order);
}

View with_channels_last(const KerasNode& node, const View& x, size_t outer) {
  if (!node.has_channels_first()) return x;
  Order order;
  for (uint32_t d = 0; d < x.rank(); ++d) {
    if (d != outer) order.push_back(d);
  }
  order.push_back(static_cast<uint32_t>(outer));
  return node.builder.permute(x, order);
}

ConvLstm layer_of(const KerasNode& node, size_t spatial, const Window& window) {
  const size_t filters = node.size("filters");
  const std::vector<int64_t> ones(window.kernel.size(), 1);
  return {node,
          filters,
          kernel_of(node, "recurrent_kernel", window, spatial, filters, 4 * filters),
          {window.kernel, ones, ones, true},
          node.text("activation", "tanh"),
          node.text("recurrent_activation", "hard_sigmoid")};
}

Window window_of(const KerasNode& node, size_t spatial) {
  const std::string padding = node.text("padding", "valid");
  if (padding != "valid" && padding != "same") throw Unsupported{"padding '" + padding + "'"};
  return {sizes_of(node, "kernel_size", spatial, false), sizes_of(node, "strides", spatial, true),
          sizes_of(node, "dilation_rate", spatial, true), padding == "same"};
}

// The states that the layer begins with, hidden and of the cell; none are 0.
struct States {
  View h, c;
};
States first_states(const KerasNode& node, size_t spatial) {
  View states[2];
  for (size_t i = 1; i < node.input_count(); ++i) {
    View& state = states[i - 1];
    state = with_channels_last(node, node.view(i), 1);
    if (spatial == 1) state = node.builder.insert_dimension(node.name + "/state" + std::to_string(i), state, 1);
  }
  return {states[0], states[1]};
}

// `now` where the mask lets step t count, elsewhere `before`, which is 0 if it is empty.
View by_mask(const KerasNode& node, const Value* mask, int64_t t, const View& now, const View& before) {
  if (mask == nullptr) return now;
  const Value counts = as_bools(node, sliced(node, *mask, {t}, {t + 1}, {1}));
  return before ? chosen_rows(node, counts, now, before) : kept_rows(node, counts, now, 0);
}

}  // namespace

Outcome run_conv_lstm(const KerasNode& node, size_t spatial, const SequenceRun& run) {
  Builder& builder = node.builder;
  const View x = with_channels_last(node, node.view(0), 2);
  if (x.rank() != spatial + 3) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  read_sequence_fields(node, 2);
  const auto steps = static_cast<int64_t>(builder.shape(x)[1]);
  if (steps > most_steps) throw Unsupported{"more than " + std::to_string(most_steps) + " steps"};
  const Window window = window_of(node, spatial);
  const View gates = input_gates(node, x, spatial, window, node.size("filters"));
  const ConvLstm layer = layer_of(node, spatial, window);
  States states = first_states(node, spatial);
  View shown;
  std::vector<View> rows;
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = run.backwards ? steps - 1 - i : i;
    const std::string name = node.name + "/step" + std::to_string(t);
    const View own = builder.remove_dimension(name, builder.slice(name + "/x", gates, 1, t, t + 1), 1);
    States next = states;
    layer.step(name, own, &next.h, &next.c);
    shown = by_mask(node, run.mask, t, next.h, run.zeros ? View{} : shown);
    states = {by_mask(node, run.mask, t, next.h, states.h), by_mask(node, run.mask, t, next.c, states.c)};
    rows.push_back(builder.insert_dimension(name + "/row", shown, 1));
  }
  if (run.backwards && run.by_time) std::reverse(rows.begin(), rows.end());
  const bool all = node.flag("return_sequences", false);
  Outcome outcome;
  outcome.y = all ? as_in_layer(node, node.name + "/steps", builder.concat(node.name, rows, 1), spatial, 2)
                  : as_in_layer(node, node.name + "/last", shown, spatial, 1);
  outcome.states = {as_in_layer(node, node.name + "/last_h", states.h, spatial, 1),
                    as_in_layer(node, node.name + "/last_c", states.c, spatial, 1)};
  return outcome;
}

const KerasRow* find_conv_lstm(const std::string& type) {
  static const KerasTable kinds = {
      {"ConvLSTM1D", {recurrent, 1, 3}},
      {"ConvLSTM2D", {recurrent, 1, 3}},
      {"ConvLSTM3D", {recurrent, 1, 3}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras
