// XNNPACK, linked from a build tree of it. Layers of floats and of bytes run as single operators. Layers that quantize
// their input run as a graph of two nodes, one of which quantizes: only for a graph does XNNPACK choose between signed
// and unsigned bytes, which on some CPUs have the better kernels.
#include <pthreadpool.h>
#include <xnnpack.h>

#include <cstring>
#include <limits>
#include <map>

#include "engine.h"

namespace quern::peers {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

void check(xnn_status status, const char* what) {
  if (status != xnn_status_success) throw std::runtime_error(std::string(what) + ": status " + std::to_string(status));
}

// Makes a pool; for one thread it is NULL, and work runs on the calling thread.
pthreadpool_t pool_of(size_t threads) {
  static std::map<size_t, pthreadpool_t> pools;
  if (threads == 1) return nullptr;
  pthreadpool_t& pool = pools[threads];
  if (pool == nullptr) pool = pthreadpool_create(threads);
  if (pool == nullptr) throw std::runtime_error("pthreadpool_create failed");
  return pool;
}

class XnnTask : public Task {
 public:
  explicit XnnTask(size_t threads) : pool_(pool_of(threads)) {}
  ~XnnTask() override { xnn_delete_operator(op_); }
  void run() override { check(xnn_run_operator(op_, pool_), "run"); }

 protected:
  xnn_operator_t op_ = nullptr;
  pthreadpool_t pool_;
};

class FullyConnected : public XnnTask {
 public:
  FullyConnected(const Layer& s, const float* weights, size_t threads) : XnnTask(threads) {
    check(xnn_create_fully_connected_nc_f32(s.in, s.out, s.in, s.out, weights, nullptr, -inf, inf, 0, nullptr, &op_),
          "create");
    check(xnn_reshape_fully_connected_nc_f32(op_, s.rows, pool_), "reshape");
  }
  void bind(void* input, void* output) override {
    check(xnn_setup_fully_connected_nc_f32(op_, static_cast<const float*>(input), static_cast<float*>(output)),
          "setup");
  }
};

class FullyConnectedOfBytes : public XnnTask {
 public:
  FullyConnectedOfBytes(const Layer& s, const Weights& weights, size_t threads) : XnnTask(threads) {
    check(xnn_create_fully_connected_nc_qs8_qc8w(s.in, s.out, s.in, s.out, s.input_zero_point, s.input_scale,
                                                 weights.scales, static_cast<const int8_t*>(weights.data), nullptr,
                                                 s.output_zero_point, s.output_scale(), INT8_MIN, INT8_MAX, 0, nullptr,
                                                 &op_),
          "create");
    check(xnn_reshape_fully_connected_nc_qs8_qc8w(op_, s.rows, pool_), "reshape");
  }
  void bind(void* input, void* output) override {
    check(xnn_setup_fully_connected_nc_qs8_qc8w(op_, static_cast<const int8_t*>(input), static_cast<int8_t*>(output)),
          "setup");
  }
};

struct Window {
  uint32_t kernel, stride, padding, groups;
  explicit Window(const Layer& s)
      : kernel(static_cast<uint32_t>(s.kernel)),
        stride(static_cast<uint32_t>(s.stride)),
        padding(static_cast<uint32_t>(s.padding())),
        groups(static_cast<uint32_t>(s.kind == Kind::dwconv2d ? s.in : 1)) {}
};

class Workspace {
 public:
  void resize(size_t bytes) { lines_.resize(bytes / sizeof(Line) + 1); }
  void* data() { return lines_.data(); }

 private:
  struct alignas(128) Line {
    char bytes[128];
  };
  std::vector<Line> lines_;
};

class Convolution : public XnnTask {
 public:
  Convolution(const Layer& s, const float* weights, size_t threads) : XnnTask(threads) {
    const Window w(s);
    check(xnn_create_convolution2d_nhwc_f32(w.padding, w.padding, w.padding, w.padding, w.kernel, w.kernel, w.stride,
                                            w.stride, 1, 1, w.groups, s.in / w.groups, s.out / w.groups, s.in, s.out,
                                            weights, nullptr, -inf, inf, 0, nullptr, &op_),
          "create");
    size_t workspace = 0, height = 0, width = 0;
    check(xnn_reshape_convolution2d_nhwc_f32(op_, 1, s.size, s.size, &workspace, &height, &width, pool_), "reshape");
    workspace_.resize(workspace);
  }
  void bind(void* input, void* output) override {
    check(xnn_setup_convolution2d_nhwc_f32(op_, workspace_.data(), static_cast<const float*>(input),
                                           static_cast<float*>(output)),
          "setup");
  }

 private:
  Workspace workspace_;
};

class ConvolutionOfBytes : public XnnTask {
 public:
  ConvolutionOfBytes(const Layer& s, const Weights& weights, size_t threads) : XnnTask(threads) {
    const Window w(s);
    check(xnn_create_convolution2d_nhwc_qs8_qc8w(w.padding, w.padding, w.padding, w.padding, w.kernel, w.kernel,
                                                 w.stride, w.stride, 1, 1, w.groups, s.in / w.groups, s.out / w.groups,
                                                 s.in, s.out, s.input_zero_point, s.input_scale, weights.scales,
                                                 static_cast<const int8_t*>(weights.data), nullptr, s.output_zero_point,
                                                 s.output_scale(), INT8_MIN, INT8_MAX, 0, nullptr, &op_),
          "create");
    size_t workspace = 0, height = 0, width = 0;
    check(xnn_reshape_convolution2d_nhwc_qs8_qc8w(op_, 1, s.size, s.size, &workspace, &height, &width, pool_),
          "reshape");
    workspace_.resize(workspace);
  }
  void bind(void* input, void* output) override {
    check(xnn_setup_convolution2d_nhwc_qs8_qc8w(op_, workspace_.data(), static_cast<const int8_t*>(input),
                                                static_cast<int8_t*>(output)),
          "setup");
  }

 private:
  Workspace workspace_;
};

// A graph of a fully connected node, and before it one that quantizes each row of the input, unless the type is qw8c.
class GraphTask : public Task {
 public:
  GraphTask(const Layer& s, const Weights& weights, size_t threads) {
    const size_t input_shape[] = {s.rows, s.in}, output_shape[] = {s.rows, s.out};
    check(xnn_create_subgraph(2, 0, &graph_), "create a graph");
    uint32_t in = 0, out = 0;
    check(xnn_define_tensor_value(graph_, xnn_datatype_fp32, 2, input_shape, nullptr, input_id,
                                  XNN_VALUE_FLAG_EXTERNAL_INPUT, &in),
          "define the input");
    check(xnn_define_tensor_value(graph_, xnn_datatype_fp32, 2, output_shape, nullptr, output_id,
                                  XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &out),
          "define the output");
    const uint32_t rows = s.type == Type::qw8c ? in : define_quantized(in, input_shape);
    const uint32_t filter = define_weights(s, weights);
    check(xnn_define_fully_connected(graph_, -inf, inf, rows, filter, XNN_INVALID_VALUE_ID, out, 0),
          "define the product");
    check(xnn_create_runtime_v4(graph_, nullptr, nullptr, pool_of(threads), 0, &runtime_), "create a runtime");
    check(xnn_reshape_runtime(runtime_), "reshape");
  }
  ~GraphTask() override {
    xnn_delete_runtime(runtime_);
    xnn_delete_subgraph(graph_);
  }
  void bind(void* input, void* output) override {
    const xnn_external_value values[] = {{input_id, input}, {output_id, output}};
    check(xnn_setup_runtime_v2(runtime_, 2, values), "setup");
  }
  void run() override { check(xnn_invoke_runtime(runtime_), "run"); }

 private:
  static constexpr uint32_t input_id = 0, output_id = 1;

  uint32_t define_quantized(uint32_t in, const size_t* shape) {
    uint32_t bytes = 0;
    check(xnn_define_dynamically_quantized_tensor_value(graph_, xnn_datatype_qdint8, 2, 1, shape, XNN_INVALID_VALUE_ID,
                                                        0, &bytes),
          "define the quantized input");
    check(xnn_define_unary(graph_, xnn_unary_convert, nullptr, in, bytes, 0), "define the quantization");
    return bytes;
  }
  uint32_t define_weights(const Layer& s, const Weights& weights) {
    const size_t shape[] = {s.out, s.in};
    uint32_t id = 0;
    if (s.type == Type::qd8c || s.type == Type::qw8c) {
      check(xnn_define_channelwise_quantized_tensor_value(graph_, xnn_datatype_qcint8, weights.scales, 2, 0, shape,
                                                          weights.data, XNN_INVALID_VALUE_ID, 0, &id),
            "define the weights");
      return id;
    }
    constexpr int zero_point = 8;
    for (size_t i = 0; i < s.weights(); i += 2) {
      const auto* const pair = static_cast<const int8_t*>(weights.data) + i;
      nibbles_.push_back(static_cast<uint8_t>((pair[0] + zero_point) | (pair[1] + zero_point) << 4));
    }
    if (s.type == Type::qd8c4) {
      check(xnn_define_channelwise_quantized_tensor_value_v2(graph_, xnn_datatype_qcint4, zero_point, weights.scales, 2,
                                                             0, shape, nibbles_.data(), XNN_INVALID_VALUE_ID, 0, &id),
            "define the weights");
      return id;
    }
    for (size_t o = 0; o < s.out; ++o) {
      uint32_t bits = 0;
      std::memcpy(&bits, &weights.scales[o], sizeof(bits));
      block_scales_.insert(block_scales_.end(), s.in / block, static_cast<uint16_t>(bits >> 16));  // bfloat16
    }
    check(xnn_define_blockwise_quantized_tensor_value(graph_, xnn_datatype_qbint4, zero_point, block_scales_.data(), 2,
                                                      0, block, shape, nibbles_.data(), XNN_INVALID_VALUE_ID, 0, &id),
          "define the weights");
    return id;
  }

  std::vector<uint8_t> nibbles_;
  std::vector<uint16_t> block_scales_;
  xnn_subgraph_t graph_ = nullptr;
  xnn_runtime_t runtime_ = nullptr;
};

class Xnnpack : public Engine {
 public:
  Xnnpack() : Engine("xnnpack") {}
  std::unique_ptr<Task> prepare(const Layer& layer, const Weights& weights, size_t threads) const override {
    const bool is_product = layer.kind == Kind::fully_connected;
    if (layer.type == Type::qs8c) {
      if (is_product) return std::make_unique<FullyConnectedOfBytes>(layer, weights, threads);
      return std::make_unique<ConvolutionOfBytes>(layer, weights, threads);
    }
    if (layer.type != Type::f32) return is_product ? std::make_unique<GraphTask>(layer, weights, threads) : nullptr;
    const auto* data = static_cast<const float*>(weights.data);
    if (is_product) return std::make_unique<FullyConnected>(layer, data, threads);
    return std::make_unique<Convolution>(layer, data, threads);
  }
};

}  // namespace
}  // namespace quern::peers

QUERN_PEER {
  using namespace quern::peers;
  check(xnn_initialize(nullptr), "xnn_initialize");
  auto* peer = new Peer{QUERN_XNNPACK_VERSION, {}};
  peer->engines.push_back(std::make_unique<Xnnpack>());
  return peer;
}
