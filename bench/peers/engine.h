// The interface of a library of operators to quern-peers-bench.
//
// Each library is a module of its own that is opened at run time, because two libraries export the same BLAS functions,
// and another brings a pthreadpool unlike ours.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace quern::peers {

// What a layer computes with; the names are those of kernel/type.inc.
enum class Type {
  f32,
  qs8c,   // bytes to bytes; weights of 8 bits with a scale for each output channel
  qd8c,   // floats to floats; the library makes bytes of each row of the input while it runs; weights as of qs8c
  qd8c4,  // the same with weights of 4 bits
  qd8b4,  // the same with a scale for each `block` weights of an output channel
  qw8c,   // floats to floats, without such bytes; weights as of qs8c
};

constexpr size_t block = 32;

enum class Kind { fully_connected, conv2d, dwconv2d };

// The weights of a layer: O, kernel height, kernel width, I; fully connected O, I; depthwise O, kernel height, kernel
// width. Type f32 has floats. All other types have a byte for each weight, from -127 to 127 or, with 4 bits, from -8 to
// 7; a weight is its byte times the scale of its output channel. In qd8b4 all blocks of a channel have that scale.
struct Weights {
  const void* data;
  const float* scales;  // NULL for f32
};

// A layer that multiplies the rows of a matrix, or an image N,H,W,C as high as wide, padded with half the kernel. It
// has no bias and no clamp. Quantized numbers have the scales and zero points below.
struct Layer {
  Kind kind = Kind::fully_connected;
  Type type = Type::f32;
  size_t rows = 1;  // of the matrix; images: 1
  size_t size = 1;  // height and width of the image; matrices: 1
  size_t in = 1, out = 1;
  size_t kernel = 1, stride = 1;

  size_t padding() const { return kernel / 2; }
  size_t out_size() const { return (size + 2 * padding() - kernel) / stride + 1; }
  size_t terms() const { return kernel * kernel * (kind == Kind::dwconv2d ? 1 : in); }  // products that one output sums
  size_t inputs() const { return rows * size * size * in; }
  size_t weights() const { return terms() * out; }
  size_t outputs() const { return rows * out_size() * out_size() * out; }
  double macs() const { return static_cast<double>(outputs()) * static_cast<double>(terms()); }
  // Is the layer a product of an image's pixels, as rows of a matrix, and the weights?
  bool is_product() const { return kind != Kind::dwconv2d && kernel == 1 && stride == 1; }
  size_t product_rows() const { return rows * size * size; }

  // The size of an element of input and output, and of a weight.
  size_t element() const { return type == Type::qs8c ? 1 : sizeof(float); }
  size_t weight() const { return type == Type::f32 ? sizeof(float) : 1; }

  // Of qs8c. Input bytes stand for no negative numbers, as after a ReLU: as unsigned bytes their zero point is 0. The
  // scales of input and output are powers of two, so that no engine rounds the factor of a sum in its own way. The
  // output's scale spreads the sums of random numbers over the bytes.
  static constexpr int32_t input_zero_point = -128, output_zero_point = 0;
  static constexpr float input_scale = 0x1p-6f;
  float output_scale() const {
    return std::exp2(std::rint(std::log2(std::sqrt(static_cast<float>(terms())) * 0x1.6p-5f)));
  }
};

// A layer that an engine has made ready, with the weights packed as the engine likes best.
class Task {
 public:
  virtual ~Task() = default;
  // Says where the layer's data lie. The task may change its input there, which is a copy. Not timed.
  virtual void bind(void* input, void* output) = 0;
  virtual void run() = 0;
  // Converts the output of the last run to N,H,W,C if `run` leaves it in another layout. Not timed.
  virtual void finish() {}
  // The library's own name of the implementation that runs, if it tells.
  virtual std::string implementation() const { return ""; }
};

class Engine {
 public:
  explicit Engine(std::string name, bool is_rival = true) : name_(std::move(name)), is_rival_(is_rival) {}
  virtual ~Engine() = default;
  const std::string& name() const { return name_; }
  // Does the engine count when the fastest peer is looked for?
  bool is_rival() const { return is_rival_; }
  // Makes a layer ready. NULL if the library has no operator for it; throws std::runtime_error if the library fails.
  // The caller keeps the weights as long as the task lives.
  virtual std::unique_ptr<Task> prepare(const Layer& layer, const Weights& weights, size_t threads) const = 0;

 private:
  std::string name_;
  bool is_rival_;
};

struct Peer {
  std::string version;
  std::vector<std::unique_ptr<Engine>> engines;
};

}  // namespace quern::peers

// The one function of a module. Never returns NULL; the peer lives as long as the program.
#define QUERN_PEER extern "C" __attribute__((visibility("default"))) quern::peers::Peer* quern_peer()
