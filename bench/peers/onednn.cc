// oneDNN's primitives. Images are N,H,W,C or, to see what that layout costs oneDNN, in layouts of its own choice. They
// also run by Winograd's algorithm, which oneDNN never chooses by itself. Matrices run as an inner product and as a
// matmul. Weights are always in the layout that a primitive asks for. Layers of bytes run with an input of unsigned
// bytes, which is what oneDNN has the best kernels for, and with one of signed bytes and a zero point.
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "engine.h"

namespace quern::peers {
namespace {

using Descriptor = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Data = dnnl::memory::data_type;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream& stream() {
  static dnnl::stream stream(cpu());
  return stream;
}

dnnl::memory::dim dim(size_t n) { return static_cast<dnnl::memory::dim>(n); }

void reorder(dnnl::memory& from, dnnl::memory& to) {
  dnnl::reorder(from, to).execute(stream(), from, to);
  stream().wait();
}

// The types of a primitive's operands, and what it does with them besides.
struct Numbers {
  Data input = Data::f32, weights = Data::f32, output = Data::f32;
  dnnl::primitive_attr attributes;
};

Numbers numbers_of(const Layer& s, const Weights& weights, bool is_unsigned) {
  if (s.type == Type::f32) return {};
  Numbers numbers = {is_unsigned ? Data::u8 : Data::s8, Data::s8, Data::s8, {}};
  std::vector<float> factors(s.out);
  for (size_t o = 0; o < s.out; ++o) factors[o] = s.input_scale * weights.scales[o] / s.output_scale();
  constexpr int each_output_channel = 1 << 1;
  numbers.attributes.set_output_scales(each_output_channel, factors);
  static_assert(Layer::input_zero_point == -128 && Layer::output_zero_point == 0);  // so unsigned bytes have 0
  if (!is_unsigned) numbers.attributes.set_zero_points(DNNL_ARG_SRC, 0, {s.input_zero_point});
  return numbers;
}

// The caller's layouts. oneDNN cannot convert every layout of weights into every other directly; it goes through
// `between`.
struct Plain {
  Descriptor input, weights, between, output;
};

// A primitive and its operands. If it wants other layouts than the caller's, its input and output have buffers of their
// own; the reorders between the layouts are part of a run or not.
class DnnlTask : public Task {
 public:
  template <class PrimitiveDescriptor>
  DnnlTask(const Plain& plain, const PrimitiveDescriptor& chosen, const Weights& weights, size_t threads,
           bool times_reorders)
      : threads_(static_cast<int>(threads)),
        times_reorders_(times_reorders),
        name_(chosen.impl_info_str()),
        primitive_(chosen),
        user_input_(plain.input, cpu(), nullptr),
        user_output_(plain.output, cpu(), nullptr),
        weights_(chosen.weights_desc(), cpu()),
        unsigned_bytes_(plain.input.data_type() == Data::u8 ? plain.input.get_size() : 0) {
    if (name_.compare(0, 3, "ref") == 0) throw std::runtime_error("only its reference implementation can do this");
    dnnl::memory user_weights(plain.weights, cpu(), const_cast<void*>(weights.data)), between(plain.between, cpu());
    reorder(user_weights, between);
    reorder(between, weights_);
    input_ = chosen.src_desc() == plain.input ? user_input_ : dnnl::memory(chosen.src_desc(), cpu());
    output_ = chosen.dst_desc() == plain.output ? user_output_ : dnnl::memory(chosen.dst_desc(), cpu());
    if (input_.get() != user_input_.get()) before_ = dnnl::reorder(user_input_, input_);
    if (output_.get() != user_output_.get()) after_ = dnnl::reorder(output_, user_output_);
    arguments_ = {{DNNL_ARG_SRC, input_}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, output_}};
  }
  void bind(void* input, void* output) override {
    omp_set_num_threads(threads_);
    for (size_t i = 0; i < unsigned_bytes_; ++i) static_cast<uint8_t*>(input)[i] ^= 0x80;
    user_input_.set_data_handle(input);
    user_output_.set_data_handle(output);
    if (!times_reorders_) convert_input();
  }
  void run() override {
    if (times_reorders_) convert_input();
    primitive_.execute(stream(), arguments_);
    if (times_reorders_) convert_output();
    stream().wait();
  }
  void finish() override {
    if (!times_reorders_) convert_output();
    stream().wait();
  }
  std::string implementation() const override { return name_; }

 private:
  void convert_input() {
    if (before_) before_.execute(stream(), user_input_, input_);
  }
  void convert_output() {
    if (after_) after_.execute(stream(), output_, user_output_);
  }

  int threads_;
  bool times_reorders_;
  std::string name_;
  dnnl::primitive primitive_;
  dnnl::memory user_input_, user_output_, weights_, input_, output_;
  size_t unsigned_bytes_;         // of the input, which come as signed ones
  dnnl::reorder before_, after_;  // empty if the layouts are the same
  std::unordered_map<int, dnnl::memory> arguments_;
};

// How a convolution runs.
struct Way {
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_auto;
  Tag images = Tag::nhwc;  // or any
  bool times_reorders = true;
  bool is_unsigned = true;
};

std::unique_ptr<Task> convolution(const Layer& s, const Weights& weights, size_t threads, const Way& way) {
  const Numbers numbers = numbers_of(s, weights, way.is_unsigned);
  const bool depthwise = s.kind == Kind::dwconv2d;
  const auto k = dim(s.kernel), stride = dim(s.stride), padding = dim(s.padding());
  const Dims input = {1, dim(s.in), dim(s.size), dim(s.size)};
  const Dims output = {1, dim(s.out), dim(s.out_size()), dim(s.out_size())};
  const Dims taps = depthwise ? Dims{dim(s.out), 1, 1, k, k} : Dims{dim(s.out), dim(s.in), k, k};
  const Plain plain = {Descriptor(input, numbers.input, Tag::nhwc),
                       Descriptor(taps, numbers.weights, depthwise ? Tag::goihw : Tag::ohwi),
                       Descriptor(taps, numbers.weights, depthwise ? Tag::goihw : Tag::oihw),
                       Descriptor(output, numbers.output, Tag::nhwc)};
  const dnnl::convolution_forward::desc wanted(
      dnnl::prop_kind::forward_inference, way.algorithm, Descriptor(input, numbers.input, way.images),
      Descriptor(taps, numbers.weights, Tag::any), Descriptor(output, numbers.output, way.images), Dims{stride, stride},
      Dims{padding, padding}, Dims{padding, padding});
  return std::make_unique<DnnlTask>(plain, dnnl::convolution_forward::primitive_desc(wanted, numbers.attributes, cpu()),
                                    weights, threads, way.times_reorders);
}

Plain matrices(const Layer& s, const Numbers& numbers, bool inputs_first) {
  const Dims dims = inputs_first ? Dims{dim(s.in), dim(s.out)} : Dims{dim(s.out), dim(s.in)};
  const Descriptor weights(dims, numbers.weights, inputs_first ? Tag::ba : Tag::ab);
  return {Descriptor({dim(s.rows), dim(s.in)}, numbers.input, Tag::ab), weights, weights,
          Descriptor({dim(s.rows), dim(s.out)}, numbers.output, Tag::ab)};
}

std::unique_ptr<Task> inner_product(const Layer& s, const Weights& weights, size_t threads) {
  const Numbers numbers = numbers_of(s, weights, true);
  const Plain plain = matrices(s, numbers, false);
  const dnnl::inner_product_forward::desc wanted(dnnl::prop_kind::forward_inference, plain.input,
                                                 Descriptor(plain.weights.dims(), numbers.weights, Tag::any),
                                                 plain.output);
  return std::make_unique<DnnlTask>(
      plain, dnnl::inner_product_forward::primitive_desc(wanted, numbers.attributes, cpu()), weights, threads, true);
}

std::unique_ptr<Task> product(const Layer& s, const Weights& weights, size_t threads, bool is_unsigned) {
  const Numbers numbers = numbers_of(s, weights, is_unsigned);
  const Plain plain = matrices(s, numbers, true);
  const dnnl::matmul::desc wanted(plain.input, Descriptor(plain.weights.dims(), numbers.weights, Tag::any),
                                  plain.output);
  return std::make_unique<DnnlTask>(plain, dnnl::matmul::primitive_desc(wanted, numbers.attributes, cpu()), weights,
                                    threads, true);
}

std::unique_ptr<Task> matmul(const Layer& s, const Weights& weights, size_t threads) {
  return s.kind == Kind::fully_connected ? product(s, weights, threads, true) : nullptr;
}

std::unique_ptr<Task> plain_layouts(const Layer& s, const Weights& weights, size_t threads) {
  return s.kind == Kind::fully_connected ? inner_product(s, weights, threads) : convolution(s, weights, threads, {});
}

// Inner products have no zero points.
std::unique_ptr<Task> signed_input(const Layer& s, const Weights& weights, size_t threads) {
  if (s.type != Type::qs8c) return nullptr;
  return s.kind == Kind::fully_connected ? product(s, weights, threads, false)
                                         : convolution(s, weights, threads, {.is_unsigned = false});
}

std::unique_ptr<Task> own_layouts(const Layer& s, const Weights& weights, size_t threads) {
  if (s.kind == Kind::fully_connected || s.type != Type::f32) return nullptr;
  return convolution(s, weights, threads, {.images = Tag::any, .times_reorders = false});
}

std::unique_ptr<Task> winograd(const Layer& s, const Weights& weights, size_t threads, bool times_reorders) {
  if (s.type != Type::f32) return nullptr;
  if (s.kind != Kind::conv2d || s.kernel != 3 || s.stride != 1) return nullptr;
  return convolution(s, weights, threads, {dnnl::algorithm::convolution_winograd, Tag::any, times_reorders});
}

class OneDnn : public Engine {
 public:
  using Make = std::unique_ptr<Task> (*)(const Layer&, const Weights&, size_t threads);
  OneDnn(const char* name, Make make, bool is_rival) : Engine(name, is_rival), make_(make) {}
  std::unique_ptr<Task> prepare(const Layer& layer, const Weights& weights, size_t threads) const override {
    if (layer.type != Type::f32 && layer.type != Type::qs8c) return nullptr;
    omp_set_num_threads(static_cast<int>(threads));  // a primitive is made for a number of threads
    return make_(layer, weights, threads);
  }

 private:
  Make make_;
};

}  // namespace
}  // namespace quern::peers

QUERN_PEER {
  using namespace quern::peers;
  const dnnl_version_t& v = *dnnl_version();
  auto* peer = new Peer{std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch), {}};
  const auto add = [&](const char* name, OneDnn::Make make, bool is_rival) {
    peer->engines.push_back(std::make_unique<OneDnn>(name, make, is_rival));
  };
  add("onednn", plain_layouts, true);
  add("onednn-matmul", matmul, true);
  add("onednn-s8", signed_input, true);
  add(
      "onednn-winograd", [](auto& s, auto& w, auto threads) { return winograd(s, w, threads, true); }, true);
  add("onednn-blocked", own_layouts, false);
  add(
      "onednn-blocked-winograd", [](auto& s, auto& w, auto threads) { return winograd(s, w, threads, false); }, false);
  return peer;
}
