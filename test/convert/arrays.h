// Dense arrays in the source's order of dimensions, and plain computations on them: what an imported model must equal.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <quern/quern.hpp>
#include <string>
#include <vector>

#include "graph/ir/ir.h"

namespace quern::test {

using Dims = std::vector<size_t>;

struct Array {
  Dims dims;
  std::vector<float> data;

  float& at(const Dims& index);
  float at(const Dims& index) const { return const_cast<Array*>(this)->at(index); }
};

size_t count(const Dims& dims);
Array make(const Dims& dims, const std::vector<float>& data);
// Numbers in [-1, 1), the same for the same seed.
Array random(const Dims& dims, uint32_t seed);
// Calls f with every index of an array of these dimensions, in order.
void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& f);
// An array whose elements are f(index).
Array generate(const Dims& dims, const std::function<float(const Dims&)>& f);

// Functions for map() and combine().
inline constexpr std::plus<float> plus{};
inline constexpr std::minus<float> minus{};
inline constexpr std::multiplies<float> times{};
inline constexpr std::divides<float> over{};
inline float sigmoid(float v) { return 1 / (1 + std::exp(-v)); }
inline float tanh_of(float v) { return std::tanh(v); }

Array map(const Array& x, const std::function<float(float)>& f);
// With NumPy's broadcasting.
Array combine(const Array& a, const Array& b, const std::function<float(float, float)>& f);
Array transpose(const Array& x, const std::vector<size_t>& permutation);
Array reshape(const Array& x, const Dims& dims);
Array concat(const std::vector<Array>& parts, size_t axis);
Array slice(const Array& x, const Dims& begin, const Dims& end);
Array pad(const Array& x, const Dims& before, const Dims& after, float value);
Array softmax(const Array& x, size_t axis);
Array matmul(const Array& a, const Array& b);

struct Window {
  size_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  size_t begin[2] = {0, 0}, end[2] = {0, 0};  // padding
  bool ceil = false;
};
// N, H, W, C as N, C, H, W, and back.
inline Array nchw(const Array& x) { return transpose(x, {0, 3, 1, 2}); }
inline Array nhwc(const Array& x) { return transpose(x, {0, 2, 3, 1}); }
// N, C, H, W; weights O, I, kh, kw.
Array conv(const Array& x, const Array& weights, const std::vector<float>& bias, const Window& window, size_t groups);
Array max_pool(const Array& x, const Window& window);
Array average_pool(const Array& x, const Window& window, bool count_padding);
Array lrn(const Array& x, size_t size, float alpha, float beta, float k);

// A session of a graph, which resizes its inputs to the arrays' dimensions. Bytes are given and returned as they are.
class Runs {
 public:
  explicit Runs(Graph graph);
  // NULL: the input is a state of the session.
  std::vector<Array> run(const std::vector<const Array*>& inputs);

 private:
  qn::Model model_;
  qn::Session session_;
};

// Runs a graph once.
std::vector<Array> run(Graph graph, const std::vector<Array>& inputs);

// Every element within `tolerance` times the largest magnitude (at least 1), and equal dimensions.
void expect_near(const Array& got, const Array& want, float tolerance = 1e-5f);
// The same for the outputs of a graph, as it is and after the optimizer.
void expect_outputs(Graph graph, const std::vector<Array>& inputs, const std::vector<Array>& want, float tolerance);

// With QUERN_KEEP_MODELS=FOLDER in the environment, FOLDER/FORMAT gets a copy of the model, for fuzzing to begin with.
// Formats are the names of the readers of test/fuzz.
void keep_model(const std::string& format, const std::string& bytes);

// A folder that lives as long as the object.
class Folder {
 public:
  Folder();
  ~Folder();
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

// The message of the quern::Error that `body` throws; fails the test when it throws none.
std::string error_of(const std::function<void()>& body);
// Whether a message has a part.
void expect_in(const std::string& message, const std::string& part);

}  // namespace quern::test
