// Runs operators on strided tensors between canaries and compares with references.
#pragma once

#include <gtest/gtest.h>
#include <quern/quern.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace quern::test {

#define ASSERT_QN_OK(expression) ASSERT_EQ((expression), QN_OK) << qn_last_message()
#define EXPECT_QN_OK(expression) EXPECT_EQ((expression), QN_OK) << qn_last_message()

// Small integers: sums of products of them are exact, so results can be compared bit for bit whatever the order.
// Deterministic for a seed.
std::vector<float> integers(size_t count, uint32_t seed, int low = -4, int high = 4);
// Uniform in [low, high).
std::vector<float> reals(size_t count, uint32_t seed, float low = -1, float high = 1);

// Weights of a convolution, some of them zero: all of a block, and some within the others.
std::vector<float> weights_with(size_t out, size_t depth, size_t block, float zeros, float zeros_within = 0);

using Shape = std::vector<size_t>;
size_t count_of(const Shape& shape);

// A tensor with gaps of `gap` elements after every row of every dimension, filled with a signalling canary; a
// pixel-blocked one with gaps after blocks and images, and canaries behind an image's last pixel, too.
class Strided {
 public:
  Strided(const Shape& shape, size_t gap, qn_layout layout = QN_LAYOUT_NHWC);

  const qn_tensor& tensor() const { return tensor_; }
  void* data() { return buffer_.data() + margin; }
  void set(const std::vector<float>& values);
  std::vector<float> get() const;
  // Is every element outside the tensor as it was? What lies behind the last pixel of a pixel-blocked image may change.
  bool canaries_intact() const;

 private:
  static constexpr size_t margin = 32;
  template <class Visit>
  void each(Visit&& visit) const;                      // visit(index of a dense element, its place in the buffer)
  size_t place(const std::vector<size_t>& row) const;  // in bytes: where the first element of this row lies
  void beyond(const std::function<void(size_t at)>& visit) const;
  qn_tensor tensor_;
  std::vector<float> buffer_;
};

struct Options {
  size_t tasks = 1;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  std::string kernel = {};  // empty: any
  size_t in_gap = 0, out_gap = 0;
  qn_layout in_layout = QN_LAYOUT_NHWC, out_layout = QN_LAYOUT_NHWC;
  bool infer_output = false;              // leave the output to the plan (then it is dense)
  size_t in_place = SIZE_MAX;             // the input that is the output
  const qn_parallel* parallel = nullptr;  // NULL: on this thread, several tasks in an unusual order
};

struct Result {
  qn_status status = QN_OK;
  std::string message;
  Shape shape;
  std::vector<float> values;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  std::string kernel;
};

struct Input {
  Shape shape;
  std::vector<float> values;
};

// Plans and runs. Checks canaries. A plan or run that fails gives its status and message.
Result run(const qn_operator* op, const std::vector<Input>& inputs, const Options& options = {});

// Every pair of layouts of input and output.
inline constexpr std::pair<qn_layout, qn_layout> layouts[] = {
    {QN_LAYOUT_NHWC, QN_LAYOUT_NHWC},
    {QN_LAYOUT_NHWC, QN_LAYOUT_PIXEL_BLOCKED},
    {QN_LAYOUT_PIXEL_BLOCKED, QN_LAYOUT_NHWC},
    {QN_LAYOUT_PIXEL_BLOCKED, QN_LAYOUT_PIXEL_BLOCKED},
};
inline const char* layout_text(qn_layout layout) { return layout == QN_LAYOUT_NHWC ? "NHWC" : "pixel-blocked"; }

// The same bits, NaN included.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

// Dense OHWI weights of `out` output channels in another order.
template <class T>
std::vector<T> reordered(const std::vector<T>& ohwi, size_t out, size_t in, qn_weights_layout layout) {
  std::vector<T> result(ohwi.size());
  const size_t depth = ohwi.size() / out, taps = depth / in;
  for (size_t at = 0; at < ohwi.size(); ++at) {
    const size_t i = at % in, tap = at / in % taps, o = at / depth;
    const size_t to = layout == QN_WEIGHTS_OHWI   ? at
                      : layout == QN_WEIGHTS_OIHW ? (o * in + i) * taps + tap
                                                  : (tap * in + i) * out + o;
    result[to] = ohwi[at];
  }
  return result;
}

// Dense OHWI weights as QN_WEIGHTS_SPARSE: positions where any of `block` channels has other bits than 0.
struct SparseWeights {
  std::vector<uint32_t> starts, positions;
  std::vector<float> values;
  uint32_t block;

  // `out` output channels in each group, `depth` weights in each channel.
  SparseWeights(const std::vector<float>& dense, size_t groups, size_t out, size_t depth, uint32_t block);
  qn_weights get() const;
};

// The same through QN_WEIGHTS_DECODED. Refuses to decode when `left` calls have been made.
struct DecodedWeights {
  const std::vector<float>& dense;
  size_t depth;
  std::atomic<size_t> calls{0}, longest{0};  // decode calls, most channels in one
  size_t left = SIZE_MAX;

  DecodedWeights(const std::vector<float>& values, size_t row) : dense(values), depth(row) {}
  qn_weights get();
};

// Releases an operator at the end of a scope.
struct Op {
  qn_operator* handle = nullptr;
  Op() = default;
  Op(const Op&) = delete;
  ~Op() { qn_operator_release(handle); }
  operator const qn_operator*() const { return handle; }
  qn_operator** operator&() { return &handle; }
};

qn_tensor dense(const Shape& shape);

// A pool of `threads` behind the C interface.
class Threads {
 public:
  explicit Threads(size_t threads);
  ~Threads();
  const qn_parallel* parallel() const { return &parallel_; }

 private:
  struct pthreadpool* pool_;
  qn_parallel parallel_;
};

}  // namespace quern::test
