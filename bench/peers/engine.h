// The interface of a library of operators to quern-peers-bench.
//
// Each library is a module of its own that is opened at run time, because two libraries export the same BLAS functions,
// and another brings a pthreadpool unlike ours.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace quern::peers {

enum class Type { f32 };

enum class Kind { fully_connected, conv2d, dwconv2d };

// A layer that multiplies the rows of a matrix, or an image N,H,W,C as high as wide, padded with half the kernel. It
// has no bias and no clamp. Weights are O, kernel height, kernel width, I; fully connected O, I; depthwise O, kernel
// height, kernel width.
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
};

// A layer that an engine has made ready, with the weights packed as the engine likes best.
class Task {
 public:
  virtual ~Task() = default;
  // Says where the layer's data lie. Not timed.
  virtual void bind(const void* input, void* output) = 0;
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
  virtual std::unique_ptr<Task> prepare(const Layer& layer, const void* weights, size_t threads) const = 0;

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
