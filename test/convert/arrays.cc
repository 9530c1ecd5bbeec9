#include "arrays.h"

#include <fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "../write_file.h"
#include "convert/common/error.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"

namespace quern::test {

size_t count(const Dims& dims) {
  size_t n = 1;
  for (const size_t d : dims) n *= d;
  return n;
}

float& Array::at(const Dims& index) {
  size_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) offset = offset * dims[d] + index[d];
  return data[offset];
}

Array make(const Dims& dims, const std::vector<float>& data) {
  EXPECT_EQ(count(dims), data.size());
  return {dims, data};
}

Array random(const Dims& dims, uint32_t seed) {
  std::mt19937 engine(seed);
  Array array{dims, std::vector<float>(count(dims))};
  for (float& value : array.data) value = static_cast<float>(static_cast<double>(engine()) / 2147483648.0 - 1);
  return array;
}

void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& f) {
  Dims index(dims.size(), 0);
  for (size_t n = count(dims); n > 0; --n) {
    f(index);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

Array generate(const Dims& dims, const std::function<float(const Dims&)>& f) {
  Array array{dims, {}};
  for_each_index(dims, [&](const Dims& index) { array.data.push_back(f(index)); });
  return array;
}

Array map(const Array& x, const std::function<float(float)>& f) {
  return generate(x.dims, [&](const Dims& i) { return f(x.at(i)); });
}

Array combine(const Array& a, const Array& b, const std::function<float(float, float)>& f) {
  Dims dims(std::max(a.dims.size(), b.dims.size()), 1);
  for (const Array* x : {&a, &b}) {
    for (size_t i = 0; i < x->dims.size(); ++i) {
      size_t& d = dims[dims.size() - x->dims.size() + i];
      d = std::max(d, x->dims[i]);
    }
  }
  const auto element = [&](const Array& x, const Dims& index) {
    Dims own(index.end() - static_cast<std::ptrdiff_t>(x.dims.size()), index.end());
    for (size_t d = 0; d < own.size(); ++d) own[d] = x.dims[d] == 1 ? 0 : own[d];
    return x.at(own);
  };
  return generate(dims, [&](const Dims& i) { return f(element(a, i), element(b, i)); });
}

Array transpose(const Array& x, const std::vector<size_t>& permutation) {
  Dims dims;
  for (const size_t d : permutation) dims.push_back(x.dims[d]);
  return generate(dims, [&](const Dims& i) {
    Dims from(i.size());
    for (size_t d = 0; d < i.size(); ++d) from[permutation[d]] = i[d];
    return x.at(from);
  });
}

Array reshape(const Array& x, const Dims& dims) { return make(dims, x.data); }

Array concat(const std::vector<Array>& parts, size_t axis) {
  Dims dims = parts[0].dims;
  dims[axis] = 0;
  for (const Array& part : parts) dims[axis] += part.dims[axis];
  return generate(dims, [&](Dims i) {
    size_t p = 0;
    while (i[axis] >= parts[p].dims[axis]) i[axis] -= parts[p++].dims[axis];
    return parts[p].at(i);
  });
}

Array slice(const Array& x, const Dims& begin, const Dims& end) {
  Dims dims;
  for (size_t d = 0; d < begin.size(); ++d) dims.push_back(end[d] - begin[d]);
  return generate(dims, [&](Dims i) {
    for (size_t d = 0; d < i.size(); ++d) i[d] += begin[d];
    return x.at(i);
  });
}

Array pad(const Array& x, const Dims& before, const Dims& after, float value) {
  Dims dims;
  for (size_t d = 0; d < x.dims.size(); ++d) dims.push_back(before[d] + x.dims[d] + after[d]);
  return generate(dims, [&](Dims i) {
    for (size_t d = 0; d < i.size(); ++d) {
      if (i[d] < before[d] || i[d] >= before[d] + x.dims[d]) return value;
      i[d] -= before[d];
    }
    return x.at(i);
  });
}

Array softmax(const Array& x, size_t axis) {
  return generate(x.dims, [&](const Dims& i) {
    double sum = 0;
    for (size_t k = 0; k < x.dims[axis]; ++k) {
      Dims other = i;
      other[axis] = k;
      sum += std::exp(static_cast<double>(x.at(other)) - x.at(i));
    }
    return static_cast<float>(1 / sum);
  });
}

Array matmul(const Array& a, const Array& b) {
  Dims dims = a.dims;
  dims.back() = b.dims[1];
  return generate(dims, [&](const Dims& i) {
    double sum = 0;
    for (size_t k = 0; k < b.dims[0]; ++k) {
      Dims row = i;
      row.back() = k;
      sum += static_cast<double>(a.at(row)) * b.at({k, i.back()});
    }
    return static_cast<float>(sum);
  });
}

// ---- windows ----------------------------------------------------------------------------------

namespace {

size_t out_size(size_t in, const Window& w, size_t d) {
  const size_t span = (w.kernel[d] - 1) * w.dilation[d] + 1;
  size_t out = (in + w.begin[d] + w.end[d] + (w.ceil ? w.stride[d] - 1 : 0) - span) / w.stride[d] + 1;
  if (w.ceil && (out - 1) * w.stride[d] >= in + w.begin[d]) --out;
  return out;
}

Dims out_dims(const Array& x, const Window& w, size_t channels) {
  return {x.dims[0], channels, out_size(x.dims[2], w, 0), out_size(x.dims[3], w, 1)};
}

// Calls f(kernel row, kernel column, pixel row, pixel column) for the pixels of a window that lie in the image.
template <class F>
void for_window(const Array& x, const Window& w, const Dims& out, F&& f) {
  for (size_t r = 0; r < w.kernel[0]; ++r) {
    for (size_t s = 0; s < w.kernel[1]; ++s) {
      const size_t i = out[2] * w.stride[0] + r * w.dilation[0], j = out[3] * w.stride[1] + s * w.dilation[1];
      const bool inside =
          i >= w.begin[0] && j >= w.begin[1] && i < w.begin[0] + x.dims[2] && j < w.begin[1] + x.dims[3];
      if (inside) f(r, s, i - w.begin[0], j - w.begin[1]);
    }
  }
}

}  // namespace

Array conv(const Array& x, const Array& weights, const std::vector<float>& bias, const Window& window, size_t groups) {
  Window w = window;
  w.kernel[0] = weights.dims[2];
  w.kernel[1] = weights.dims[3];
  const size_t outputs = weights.dims[0], inputs = weights.dims[1];
  return generate(out_dims(x, w, outputs), [&](const Dims& out) {
    double sum = bias.empty() ? 0 : bias[out[1]];
    const size_t first = out[1] / (outputs / groups) * inputs;
    for_window(x, w, out, [&](size_t r, size_t s, size_t i, size_t j) {
      for (size_t c = 0; c < inputs; ++c) {
        sum += static_cast<double>(x.at({out[0], first + c, i, j})) * weights.at({out[1], c, r, s});
      }
    });
    return static_cast<float>(sum);
  });
}

Array max_pool(const Array& x, const Window& w) {
  return generate(out_dims(x, w, x.dims[1]), [&](const Dims& out) {
    float best = std::numeric_limits<float>::lowest();
    for_window(x, w, out, [&](size_t, size_t, size_t i, size_t j) {
      best = std::max(best, x.at({out[0], out[1], i, j}));
    });
    return best;
  });
}

Array average_pool(const Array& x, const Window& w, bool count_padding) {
  return generate(out_dims(x, w, x.dims[1]), [&](const Dims& out) {
    double sum = 0, pixels = 0;
    for_window(x, w, out, [&](size_t, size_t, size_t i, size_t j) {
      sum += x.at({out[0], out[1], i, j});
      ++pixels;
    });
    if (count_padding) {
      Array padded{{1, 1, x.dims[2] + w.begin[0] + w.end[0], x.dims[3] + w.begin[1] + w.end[1]}, {}};
      Window unpadded = w;
      for (size_t d = 0; d < 2; ++d) unpadded.begin[d] = unpadded.end[d] = 0;
      pixels = 0;
      for_window(padded, unpadded, out, [&](size_t, size_t, size_t, size_t) { ++pixels; });
    }
    return static_cast<float>(pixels == 0 ? 0 : sum / pixels);
  });
}

Array lrn(const Array& x, size_t size, float alpha, float beta, float k) {
  const size_t channels = x.dims[1];
  return generate(x.dims, [&](const Dims& i) {
    double sum = 0;
    const size_t first = i[1] < (size - 1) / 2 ? 0 : i[1] - (size - 1) / 2;
    for (size_t c = first; c <= std::min(channels - 1, i[1] + size / 2); ++c) {
      Dims other = i;
      other[1] = c;
      sum += static_cast<double>(x.at(other)) * x.at(other);
    }
    return static_cast<float>(x.at(i) / std::pow(k + alpha / static_cast<double>(size) * sum, beta));
  });
}

// ---- running ----------------------------------------------------------------------------------

namespace {

void check(qn_status status) {
  if (status != QN_OK) throw Error(qn_last_message());
}

std::vector<unsigned char> to_bytes(const Array& array, qn_type type) {
  std::vector<unsigned char> bytes(array.data.size() * qn_type_size(type));
  if (type == QN_F32 && !bytes.empty()) std::memcpy(bytes.data(), array.data.data(), bytes.size());
  for (size_t i = 0; type == QN_F16 && i < array.data.size(); ++i) {
    const uint16_t half = fp16_ieee_from_fp32_value(array.data[i]);
    std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  for (size_t i = 0; type == QN_S32 && i < array.data.size(); ++i) {
    const auto integer = static_cast<int32_t>(array.data[i]);
    std::memcpy(bytes.data() + 4 * i, &integer, 4);
  }
  for (size_t i = 0; type == QN_S64 && i < array.data.size(); ++i) {
    const auto integer = static_cast<int64_t>(array.data[i]);
    std::memcpy(bytes.data() + 8 * i, &integer, 8);
  }
  for (size_t i = 0; qn_type_size(type) == 1 && i < array.data.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(static_cast<int>(array.data[i]));
  }
  return bytes;
}

Array from_bytes(const void* data, const qn_tensor& tensor) {
  Array array{Dims(tensor.shape, tensor.shape + tensor.rank), {}};
  array.data.resize(count(array.dims));
  if (array.data.empty()) return array;  // without elements there may be no address
  if (tensor.type == QN_F32 && !array.data.empty()) std::memcpy(array.data.data(), data, 4 * array.data.size());
  for (size_t i = 0; tensor.type == QN_F16 && i < array.data.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, static_cast<const char*>(data) + 2 * i, 2);
    array.data[i] = fp16_ieee_to_fp32_value(half);
  }
  for (size_t i = 0; qn_type_size(tensor.type) == 1 && i < array.data.size(); ++i) {
    array.data[i] = static_cast<float>(tensor.type == QN_S8 ? static_cast<const int8_t*>(data)[i]
                                                            : static_cast<const uint8_t*>(data)[i]);
  }
  for (size_t i = 0; tensor.type == QN_S32 && i < array.data.size(); ++i) {
    array.data[i] = static_cast<float>(static_cast<const int32_t*>(data)[i]);
  }
  for (size_t i = 0; tensor.type == QN_S64 && i < array.data.size(); ++i) {
    array.data[i] = static_cast<float>(static_cast<const int64_t*>(data)[i]);
  }
  return array;
}

void keep_graph(const Graph& graph) {
  Vector<unsigned char> bytes;
  if (std::getenv("QUERN_KEEP_MODELS") == nullptr) return;
  check(write_model(graph, &bytes));
  keep_model("qn", {bytes.begin(), bytes.end()});
}

}  // namespace

Runs::Runs(Graph graph) {
  keep_graph(graph);
  check(make_model(std::move(graph), nullptr, model_.put()));
  check(qn_session_create(model_.get(), nullptr, session_.put()));
}

std::vector<Array> Runs::run(const std::vector<const Array*>& inputs) {
  std::vector<qn_tensor> tensors(inputs.size());
  std::vector<std::vector<unsigned char>> bytes(inputs.size());
  std::vector<const void*> pointers(inputs.size());
  EXPECT_EQ(model_.input_count(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(qn_session_input_tensor(session_.get(), i, &tensors[i]));
    if (inputs[i] == nullptr) continue;
    const Array& input = *inputs[i];
    const qn_type type = tensors[i].type;
    check(qn_tensor_init(&tensors[i], type, static_cast<uint32_t>(input.dims.size()), input.dims.data()));
    bytes[i] = to_bytes(input, type);
    pointers[i] = bytes[i].data();
  }
  check(qn_session_resize_all(session_.get(), tensors.data()));
  check(qn_session_run(session_.get(), pointers.data()));

  std::vector<Array> outputs;
  for (size_t i = 0; i < model_.output_count(); ++i) {
    qn_tensor tensor;
    const void* data = nullptr;
    check(qn_session_output_tensor(session_.get(), i, &tensor));
    check(qn_session_output(session_.get(), i, &data));
    outputs.push_back(from_bytes(data, tensor));
  }
  return outputs;
}

std::vector<Array> run(Graph graph, const std::vector<Array>& inputs) {
  std::vector<const Array*> given;
  for (const Array& input : inputs) given.push_back(&input);
  return Runs(std::move(graph)).run(given);
}

void expect_near(const Array& got, const Array& want, float tolerance) {
  ASSERT_EQ(got.dims, want.dims);
  float largest = 1;
  for (const float value : want.data) largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
  for (size_t i = 0; i < want.data.size(); ++i) {
    // Infinities and NaN are equal or wrong.
    if (got.data[i] == want.data[i] || (std::isnan(got.data[i]) && std::isnan(want.data[i]))) continue;
    ASSERT_NEAR(got.data[i], want.data[i], tolerance * largest) << "element " << i;
  }
}

void expect_outputs(Graph graph, const std::vector<Array>& inputs, const std::vector<Array>& want, float tolerance) {
  for (const bool optimized : {false, true}) {
    SCOPED_TRACE(optimized ? "optimized" : "as imported");
    if (optimized) {
      ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
    }
    const std::vector<Array> got = run(graph, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i], tolerance);
  }
}

void keep_model(const std::string& format, const std::string& bytes) {
  const char* kept = std::getenv("QUERN_KEEP_MODELS");
  if (kept == nullptr || bytes.size() > 10000) return;  // fuzzing is fast with small ones
  const std::filesystem::path folder = std::filesystem::path(kept) / format;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / std::to_string(std::hash<std::string>()(bytes)), std::ios::binary) << bytes;
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "quern-convert-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw Error("no temporary folder");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, const std::string& content) const {
  write_file(path(name), content);
  for (const char* format : {"onnx", "tflite", "pb", "pbtxt"}) {
    if (std::filesystem::path(name).extension() == std::string(".").append(format)) keep_model(format, content);
  }
  return path(name);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_FALSE(message.empty());
    return message;
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace quern::test
