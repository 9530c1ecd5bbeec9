// oneDNN's primitives: images as N,H,W,C or, to know what that costs it, in layouts of its own choice; matrices as an
// inner product and as a matmul. Weights are always in the layout that a primitive asks for.
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "engine.h"

namespace quern::peers {
namespace {

using Descriptor = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
constexpr auto f32 = dnnl::memory::data_type::f32;

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

// A primitive and its operands. `plain` are the layouts of the caller's data; where the primitive wants others, input
// and output have buffers of the primitive's own.
class DnnlTask : public Task {
 public:
  struct Plain {
    Descriptor input, weights, output;
  };
  template <class PrimitiveDescriptor>
  DnnlTask(const Plain& plain, const PrimitiveDescriptor& chosen, const void* weights, size_t threads)
      : threads_(static_cast<int>(threads)),
        name_(chosen.impl_info_str()),
        primitive_(chosen),
        user_input_(plain.input, cpu(), nullptr),
        user_output_(plain.output, cpu(), nullptr),
        weights_(chosen.weights_desc(), cpu()) {
    dnnl::memory user_weights(plain.weights, cpu(), const_cast<void*>(weights));
    reorder(user_weights, weights_);
    input_ = chosen.src_desc() == plain.input ? user_input_ : dnnl::memory(chosen.src_desc(), cpu());
    output_ = chosen.dst_desc() == plain.output ? user_output_ : dnnl::memory(chosen.dst_desc(), cpu());
    arguments_ = {{DNNL_ARG_SRC, input_}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, output_}};
  }
  void bind(const void* input, void* output) override {
    omp_set_num_threads(threads_);
    user_input_.set_data_handle(const_cast<void*>(input));
    user_output_.set_data_handle(output);
    if (input_.get() != user_input_.get()) reorder(user_input_, input_);
  }
  void run() override {
    primitive_.execute(stream(), arguments_);
    stream().wait();
  }
  void finish() override {
    if (output_.get() != user_output_.get()) reorder(output_, user_output_);
  }
  std::string implementation() const override { return name_; }

 private:
  int threads_;
  std::string name_;
  dnnl::primitive primitive_;
  dnnl::memory user_input_, user_output_, weights_, input_, output_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

// `images` is the layout asked for: nhwc, or any.
std::unique_ptr<Task> convolution(const Layer& s, const void* weights, size_t threads, Tag images) {
  const bool depthwise = s.kind == Kind::dwconv2d;
  const auto k = dim(s.kernel), stride = dim(s.stride), padding = dim(s.padding());
  const Dims input = {1, dim(s.in), dim(s.size), dim(s.size)};
  const Dims output = {1, dim(s.out), dim(s.out_size()), dim(s.out_size())};
  const Dims taps = depthwise ? Dims{dim(s.out), 1, 1, k, k} : Dims{dim(s.out), dim(s.in), k, k};
  const dnnl::convolution_forward::desc wanted(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_auto,
                                               Descriptor(input, f32, images), Descriptor(taps, f32, Tag::any),
                                               Descriptor(output, f32, images), Dims{stride, stride},
                                               Dims{padding, padding}, Dims{padding, padding});
  return std::make_unique<DnnlTask>(
      DnnlTask::Plain{Descriptor(input, f32, Tag::nhwc), Descriptor(taps, f32, depthwise ? Tag::goihw : Tag::ohwi),
                      Descriptor(output, f32, Tag::nhwc)},
      dnnl::convolution_forward::primitive_desc(wanted, cpu()), weights, threads);
}

DnnlTask::Plain matrices(const Layer& s, bool inputs_first) {
  const Dims weights = inputs_first ? Dims{dim(s.in), dim(s.out)} : Dims{dim(s.out), dim(s.in)};
  return {Descriptor({dim(s.rows), dim(s.in)}, f32, Tag::ab),
          Descriptor(weights, f32, inputs_first ? Tag::ba : Tag::ab),
          Descriptor({dim(s.rows), dim(s.out)}, f32, Tag::ab)};
}

std::unique_ptr<Task> inner_product(const Layer& s, const void* weights, size_t threads) {
  const DnnlTask::Plain plain = matrices(s, false);
  const dnnl::inner_product_forward::desc wanted(dnnl::prop_kind::forward_inference, plain.input,
                                                 Descriptor(plain.weights.dims(), f32, Tag::any), plain.output);
  return std::make_unique<DnnlTask>(plain, dnnl::inner_product_forward::primitive_desc(wanted, cpu()), weights,
                                    threads);
}

std::unique_ptr<Task> matmul(const Layer& s, const void* weights, size_t threads) {
  if (s.kind != Kind::fully_connected) return nullptr;
  const DnnlTask::Plain plain = matrices(s, true);
  const dnnl::matmul::desc wanted(plain.input, Descriptor(plain.weights.dims(), f32, Tag::any), plain.output);
  return std::make_unique<DnnlTask>(plain, dnnl::matmul::primitive_desc(wanted, cpu()), weights, threads);
}

std::unique_ptr<Task> plain_layouts(const Layer& s, const void* weights, size_t threads) {
  return s.kind == Kind::fully_connected ? inner_product(s, weights, threads)
                                         : convolution(s, weights, threads, Tag::nhwc);
}

std::unique_ptr<Task> own_layouts(const Layer& s, const void* weights, size_t threads) {
  return s.kind == Kind::fully_connected ? nullptr : convolution(s, weights, threads, Tag::any);
}

class OneDnn : public Engine {
 public:
  using Make = std::unique_ptr<Task> (*)(const Layer&, const void* weights, size_t threads);
  OneDnn(const char* name, Make make, bool is_rival) : Engine(name, is_rival), make_(make) {}
  std::unique_ptr<Task> prepare(const Layer& layer, const void* weights, size_t threads) const override {
    if (layer.type != Type::f32) return nullptr;
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
  peer->engines.push_back(std::make_unique<OneDnn>("onednn", plain_layouts, true));
  peer->engines.push_back(std::make_unique<OneDnn>("onednn-matmul", matmul, true));
  peer->engines.push_back(std::make_unique<OneDnn>("onednn-blocked", own_layouts, false));
  return peer;
}
