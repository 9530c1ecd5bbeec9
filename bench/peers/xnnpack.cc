// XNNPACK's operators, linked from a build tree of XNNPACK.
#include <pthreadpool.h>
#include <xnnpack.h>

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
  void bind(const void* input, void* output) override {
    check(xnn_setup_fully_connected_nc_f32(op_, static_cast<const float*>(input), static_cast<float*>(output)),
          "setup");
  }
};

class Convolution : public XnnTask {
 public:
  Convolution(const Layer& s, const float* weights, size_t threads) : XnnTask(threads) {
    const auto kernel = static_cast<uint32_t>(s.kernel), stride = static_cast<uint32_t>(s.stride);
    const auto padding = static_cast<uint32_t>(s.padding());
    const size_t groups = s.kind == Kind::dwconv2d ? s.in : 1;
    check(xnn_create_convolution2d_nhwc_f32(padding, padding, padding, padding, kernel, kernel, stride, stride, 1, 1,
                                            static_cast<uint32_t>(groups), s.in / groups, s.out / groups, s.in, s.out,
                                            weights, nullptr, -inf, inf, 0, nullptr, &op_),
          "create");
    size_t workspace = 0, height = 0, width = 0;
    check(xnn_reshape_convolution2d_nhwc_f32(op_, 1, s.size, s.size, &workspace, &height, &width, pool_), "reshape");
    workspace_.resize(workspace / sizeof(Line) + 1);
  }
  void bind(const void* input, void* output) override {
    check(xnn_setup_convolution2d_nhwc_f32(op_, workspace_.data(), static_cast<const float*>(input),
                                           static_cast<float*>(output)),
          "setup");
  }

 private:
  struct alignas(128) Line {
    char bytes[128];
  };
  std::vector<Line> workspace_;
};

class Xnnpack : public Engine {
 public:
  Xnnpack() : Engine("xnnpack") {}
  std::unique_ptr<Task> prepare(const Layer& layer, const void* weights, size_t threads) const override {
    if (layer.type != Type::f32) return nullptr;
    const auto* data = static_cast<const float*>(weights);
    if (layer.kind == Kind::fully_connected) return std::make_unique<FullyConnected>(layer, data, threads);
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
