#include "harness.h"

#include <pthreadpool.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/memory.h"
#include "base/tensor.h"

namespace quern::test {
namespace {

constexpr uint32_t canary_bits = 0x7fa5a5a5;  // a signalling NaN nothing computes

bool is_canary(const float& value) { return std::memcmp(&value, &canary_bits, sizeof value) == 0; }

// Tasks may run in any order; real threads are slow to start and are tested where they matter.
void run_backwards(void*, void (*task)(void* arg, size_t index), void* arg, size_t count) {
  while (count-- > 0) task(arg, count);
}

}  // namespace

std::vector<float> integers(size_t count, uint32_t seed, int low, int high) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values)
    v = static_cast<float>(low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  return values;
}

std::vector<float> reals(size_t count, uint32_t seed, float low, float high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(random);
  return values;
}

std::vector<float> weights_with(size_t out, size_t depth, size_t block, float zeros, float zeros_within) {
  std::vector<float> weights = reals(out * depth, 1, 0.5f, 1);
  const std::vector<float> within = reals(out * depth, 2, 0, 1);
  for (size_t o = 0; o < out; ++o) {
    const std::vector<float> keep = reals(depth, static_cast<uint32_t>(10 + o / block), 0, 1);
    for (size_t k = 0; k < depth; ++k) {
      if (keep[k] < zeros || within[o * depth + k] < zeros_within) weights[o * depth + k] = 0;
    }
  }
  return weights;
}

size_t count_of(const Shape& shape) {
  size_t count = 1;
  for (const size_t s : shape) count *= s;
  return count;
}

Strided::Strided(const Shape& shape, size_t gap, qn_layout layout) : tensor_(dense(shape)) {
  tensor_.layout = layout;
  const bool blocked = is_blocked(tensor_);
  const qn_tensor memory = in_memory(tensor_);
  size_t stride = sizeof(float);
  for (size_t i = shape.size(); i-- > 0;) {
    tensor_.stride[i] = stride;
    const bool within = blocked && i == 3;  // pixels of one channel lie together
    stride = stride * std::max<size_t>(memory.shape[i], 1) + (within ? 0 : gap * sizeof(float));
  }
  buffer_.assign(qn_tensor_bytes(&tensor_) / sizeof(float) + 2 * margin, 0);
  for (float& v : buffer_) std::memcpy(&v, &canary_bits, sizeof v);
}

// Visits the elements row by row: in a row, the last dimension's stride leads from one to the next.
template <class Visit>
void Strided::each(Visit&& visit) const {
  if (tensor_.rank == 0) return visit(size_t{0}, margin);
  const uint32_t last = tensor_.rank - 1;
  const size_t columns = tensor_.shape[last], stride = tensor_.stride[is_blocked(tensor_) ? 2 : last];
  const size_t count = count_of(Shape(tensor_.shape, tensor_.shape + tensor_.rank));
  std::vector<size_t> row(tensor_.rank, 0);
  for (size_t i = 0; i < count; i += columns) {
    size_t at = margin + place(row) / sizeof(float);
    for (size_t j = 0; j < columns; ++j, at += stride / sizeof(float)) visit(i + j, at);
    for (uint32_t d = last; d-- > 0 && ++row[d] == tensor_.shape[d];) row[d] = 0;
  }
}

size_t Strided::place(const std::vector<size_t>& row) const {
  if (is_blocked(tensor_)) {
    const size_t pixel = row[1] * tensor_.shape[2] + row[2], block = qn_pixel_block();
    return row[0] * tensor_.stride[0] + pixel / block * tensor_.stride[1] + pixel % block * sizeof(float);
  }
  size_t offset = 0;
  for (uint32_t d = 0; d + 1 < tensor_.rank; ++d) offset += row[d] * tensor_.stride[d];
  return offset;
}

// Places behind the last pixel of each image.
void Strided::beyond(const std::function<void(size_t)>& visit) const {
  if (!is_blocked(tensor_) || is_empty(tensor_)) return;
  const size_t* const shape = tensor_.shape;
  const size_t pixels = shape[1] * shape[2], block = qn_pixel_block(), used = (pixels - 1) % block + 1;
  for (size_t n = 0; n < shape[0]; ++n) {
    for (size_t c = 0; c < shape[3]; ++c) {
      const size_t last = n * tensor_.stride[0] + (pixels - 1) / block * tensor_.stride[1] + c * tensor_.stride[2];
      for (size_t p = used; p < block; ++p) visit(margin + last / sizeof(float) + p);
    }
  }
}

void Strided::set(const std::vector<float>& values) {
  each([&](size_t i, size_t at) { buffer_[at] = values[i]; });
}

std::vector<float> Strided::get() const {
  std::vector<float> values(count_of(Shape(tensor_.shape, tensor_.shape + tensor_.rank)));
  each([&](size_t i, size_t at) { values[i] = buffer_[at]; });
  return values;
}

bool Strided::canaries_intact() const {
  std::vector<char> inside(buffer_.size(), false);
  each([&](size_t, size_t at) { inside[at] = true; });
  beyond([&](size_t at) { inside[at] = true; });
  for (size_t i = 0; i < buffer_.size(); ++i) {
    if (!inside[i] && !is_canary(buffer_[i])) return false;
  }
  return true;
}

Result run(const qn_operator* op, const std::vector<Input>& inputs, const Options& options) {
  Result result;
  const auto failed = [&](qn_status status) {
    result.status = status;
    result.message = qn_last_message();
    return status != QN_OK;
  };
  std::vector<Strided> ins;
  std::vector<qn_tensor> in_tensors;
  for (const Input& input : inputs) {
    ins.emplace_back(input.shape, options.in_gap, options.in_layout);
    ins.back().set(input.values);
    in_tensors.push_back(ins.back().tensor());
  }
  qn_plan_options o;
  qn_plan_options_init(&o);
  o.tasks = options.tasks;
  o.algorithm = options.algorithm;
  o.kernel = options.kernel.empty() ? nullptr : options.kernel.c_str();
  qn_plan* plan;
  if (failed(qn_operator_plan(op, in_tensors.data(), in_tensors.size(), nullptr, 0, &o, &plan))) return result;
  qn_tensor out;
  qn_plan_output(plan, 0, &out);
  EXPECT_EQ(out.layout, options.in_layout) << "what an output is where nobody says";
  result.shape.assign(out.shape, out.shape + out.rank);
  Strided y(result.shape, options.infer_output ? 0 : options.out_gap, options.out_layout);
  if (!options.infer_output) {
    qn_plan_release(plan);
    if (failed(qn_operator_plan(op, in_tensors.data(), in_tensors.size(), &y.tensor(), 1, &o, &plan))) return result;
  }
  result.algorithm = qn_plan_algorithm(plan);
  result.kernel = qn_plan_kernel(plan);
  // The workspace begins as rubbish and ends at a canary.
  const size_t workspace_size = qn_plan_workspace_size(plan);
  Buffer workspace(workspace_size + cache_line);
  std::memset(workspace.data(), 0xff, workspace_size + cache_line);
  std::vector<const void*> addresses;
  for (Strided& in : ins) addresses.push_back(in.data());
  if (options.in_place < ins.size()) {
    y.set(inputs[options.in_place].values);
    addresses[options.in_place] = y.data();
  }
  void* outputs[] = {y.data()};
  const qn_parallel backwards = {nullptr, run_backwards, options.tasks, {}, {}};
  const qn_parallel* parallel = options.tasks > 1 ? &backwards : nullptr;
  failed(qn_plan_run(plan, addresses.data(), outputs, workspace.data(), workspace_size,
                     options.parallel ? options.parallel : parallel));
  qn_plan_release(plan);
  result.values = y.get();
  EXPECT_TRUE(y.canaries_intact()) << "the output's gaps were written";
  for (size_t i = 0; i < cache_line; ++i) {
    EXPECT_EQ(static_cast<const unsigned char*>(workspace.data())[workspace_size + i], 0xff) << "workspace overrun";
  }
  for (size_t i = 0; i < ins.size(); ++i) {
    EXPECT_TRUE(ins[i].canaries_intact() && same_bits(ins[i].get(), inputs[i].values)) << "an input was written";
  }
  return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

SparseWeights::SparseWeights(const std::vector<float>& dense, size_t groups, size_t out, size_t depth, uint32_t width)
    : starts{0}, block(width) {
  constexpr float beyond = 1e30f;  // the value of channels that do not exist
  for (size_t g = 0; g < groups; ++g) {
    for (size_t c = 0; c < out; c += width) {
      const size_t channels = std::min<size_t>(width, out - c);
      const float* rows = dense.data() + (g * out + c) * depth;
      for (size_t p = 0; p < depth; ++p) {
        std::vector<float> column(width, beyond);
        for (size_t i = 0; i < channels; ++i) column[i] = rows[i * depth + p];
        if (std::all_of(column.begin(), column.begin() + static_cast<std::ptrdiff_t>(channels),
                        [](float v) { return v == 0 && !std::signbit(v); })) {
          continue;
        }
        positions.push_back(static_cast<uint32_t>(p));
        values.insert(values.end(), column.begin(), column.end());
      }
      starts.push_back(static_cast<uint32_t>(positions.size()));
    }
  }
}

qn_weights SparseWeights::get() const {
  qn_weights w;
  qn_weights_init(&w);
  w.encoding = QN_WEIGHTS_SPARSE;
  w.block = block;
  w.starts = starts.data();
  w.positions = positions.data();
  w.data = values.data();
  w.stored = positions.size();
  return w;
}

qn_weights DecodedWeights::get() {
  qn_weights w;
  qn_weights_init(&w);
  w.encoding = QN_WEIGHTS_DECODED;
  w.context = this;
  w.decode = [](void* context, size_t first, size_t count, void* to) {
    auto* self = static_cast<DecodedWeights*>(context);
    if (self->calls++ >= self->left) return QN_IO_ERROR;
    size_t most = self->longest;
    while (most < count && !self->longest.compare_exchange_weak(most, count)) {}
    std::memcpy(to, self->dense.data() + first * self->depth, count * self->depth * sizeof(float));
    return QN_OK;
  };
  return w;
}

qn_tensor dense(const Shape& shape) {
  qn_tensor tensor = {};
  EXPECT_QN_OK(qn_tensor_init(&tensor, QN_F32, static_cast<uint32_t>(shape.size()), shape.data()));
  return tensor;
}

Threads::Threads(size_t threads) : pool_(threads > 1 ? pthreadpool_create(threads) : nullptr) {
  qn_parallel_from_pthreadpool(pool_, &parallel_);
}

Threads::~Threads() {
  if (pool_ != nullptr) pthreadpool_destroy(pool_);
}

}  // namespace quern::test
