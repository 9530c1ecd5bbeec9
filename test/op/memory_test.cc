// The user's allocator sees every byte, a failing one leaves nothing behind, and runs do not allocate.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "harness.h"

namespace quern::test {
namespace memory_test {

// Counts, and fails at the n-th allocation.
struct Counter {
  std::atomic<size_t> blocks{0}, bytes{0}, allocations{0};
  size_t fail_at = SIZE_MAX;
};

void* allocate(void* context, size_t size, size_t alignment) {
  auto* counter = static_cast<Counter*>(context);
  if (counter->allocations++ >= counter->fail_at) return nullptr;
  void* pointer = nullptr;
  if (posix_memalign(&pointer, std::max(alignment, sizeof(void*)), size) != 0) return nullptr;
  ++counter->blocks;
  counter->bytes += size;
  return pointer;
}

void release(void* context, void* pointer, size_t size) {
  auto* counter = static_cast<Counter*>(context);
  --counter->blocks;
  counter->bytes -= size;
  std::free(pointer);
}

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    const qn_allocator allocator = {&counter, allocate, release, {}};
    ASSERT_QN_OK(qn_set_allocator(&allocator));
  }
  void TearDown() override { qn_set_allocator(nullptr); }

  Counter counter;
};

const float zeros[8 * 1024] = {};
const std::vector<float> ones(8 * 1024, 1);  // weights: with zeros they would be sparse
const qn_weights weights = [] {
  qn_weights w;
  qn_weights_init(&w);
  w.layout = QN_WEIGHTS_OIHW;
  w.data = ones.data();
  return w;
}();

// One of each kind of plan.
struct Sample {
  const char* name;
  std::vector<Shape> inputs;
  qn_algorithm algorithm;
  std::function<qn_status(qn_weights_cache*, qn_operator**)> create;
};

qn_status conv(size_t channels, size_t groups, size_t kernel, qn_weights_cache* cache, qn_operator** op,
               const qn_weights& w = weights) {
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = p.out_channels = channels;
  p.groups = groups;
  p.kernel = {kernel, kernel};
  p.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  return qn_conv2d_create(&p, &w, zeros, cache, op);
}

template <class Params, class Create>
auto simple(void (*init)(Params*), Create create) {
  return [=](qn_weights_cache*, qn_operator** op) {
    Params p;
    init(&p);
    return create(p, op);
  };
}

const std::vector<Sample>& samples() {
  using namespace std::placeholders;
  static const std::vector<Sample> list = {
      {"gemm", {{1, 9, 9, 20}}, QN_ALGORITHM_GEMM, [](auto* c, auto** op) { return conv(20, 1, 1, c, op); }},
      {"igemm", {{2, 9, 9, 8}}, QN_ALGORITHM_IGEMM, [](auto* c, auto** op) { return conv(8, 1, 3, c, op); }},
      {"direct", {{2, 9, 9, 8}}, QN_ALGORITHM_DIRECT, [](auto* c, auto** op) { return conv(8, 2, 3, c, op); }},
      {"depthwise", {{2, 9, 9, 40}}, QN_ALGORITHM_DEPTHWISE, [](auto* c, auto** op) { return conv(40, 40, 3, c, op); }},
      {"winograd", {{2, 9, 9, 8}}, QN_ALGORITHM_WINOGRAD, [](auto* c, auto** op) { return conv(8, 1, 3, c, op); }},
      {"fully_connected",
       {{3, 50}},
       QN_ALGORITHM_AUTO,
       [](auto* cache, auto** op) {
         qn_fully_connected_params p;
         qn_fully_connected_params_init(&p);
         p.in_channels = 50;
         p.out_channels = 33;
         return qn_fully_connected_create(&p, &weights, nullptr, cache, op);
       }},
      {"conv2d, sparse weights",
       {{2, 9, 9, 8}},
       QN_ALGORITHM_IGEMM,
       [](auto* cache, auto** op) {
         static const std::vector<float> dense(8 * 72);
         static const SparseWeights sparse(dense, 1, 8, 72, 4);
         return conv(8, 1, 3, cache, op, sparse.get());
       }},
      {"conv2d, decoded weights",
       {{2, 9, 9, 8}},
       QN_ALGORITHM_WINOGRAD,
       [](auto* cache, auto** op) {
         static const std::vector<float> dense(8 * 72);
         static DecodedWeights decoded(dense, 72);
         return conv(8, 1, 3, cache, op, decoded.get());
       }},
      {"pool2d",
       {{1, 8, 8, 5}},
       QN_ALGORITHM_AUTO,
       simple(qn_pool2d_params_init,
              [](auto& p, auto** op) {
                p.kind = QN_POOL_AVERAGE;
                p.kernel = {3, 3};
                return qn_pool2d_create(&p, op);
              })},
      {"binary",
       {{2, 5, 7}, {5, 1}},
       QN_ALGORITHM_AUTO,
       simple(qn_binary_params_init, [](auto& p, auto** op) { return qn_binary_create(&p, op); })},
      {"unary",
       {{2, 5, 7}},
       QN_ALGORITHM_AUTO,
       simple(qn_unary_params_init, [](auto& p, auto** op) { return qn_unary_create(&p, op); })},
      {"batch_norm",
       {{2, 5, 7}},
       QN_ALGORITHM_AUTO,
       simple(qn_channel_params_init,
              [](auto& p, auto** op) {
                p.channels = 7;
                return qn_batch_norm_create(&p, zeros, zeros, zeros, zeros, 1, op);
              })},
      {"softmax",
       {{2, 5, 7}},
       QN_ALGORITHM_AUTO,
       simple(qn_softmax_params_init,
              [](auto& p, auto** op) {
                p.axis = 1;
                return qn_softmax_create(&p, op);
              })},
      {"concat",
       {{2, 5, 7}, {2, 5, 3}},
       QN_ALGORITHM_AUTO,
       simple(qn_concat_params_init, [](auto& p, auto** op) { return qn_concat_create(&p, op); })},
      {"lrn",
       {{2, 5, 7}},
       QN_ALGORITHM_AUTO,
       simple(qn_lrn_params_init, [](auto& p, auto** op) { return qn_lrn_create(&p, op); })},
      {"pad",
       {{1, 5, 7, 2}},
       QN_ALGORITHM_AUTO,
       simple(qn_pad_params_init,
              [](auto& p, auto** op) {
                p.before[1] = p.after[2] = 2;
                return qn_pad_create(&p, op);
              })},
      {"resize2d",
       {{1, 5, 7, 2}},
       QN_ALGORITHM_AUTO,
       simple(qn_resize2d_params_init,
              [](auto& p, auto** op) {
                p.kind = QN_RESIZE_BILINEAR;
                p.scale_h = 2;
                return qn_resize2d_create(&p, op);
              })},
      {"transpose",
       {{3, 50, 20}},
       QN_ALGORITHM_AUTO,
       simple(qn_transpose_params_init,
              [](auto& p, auto** op) {
                p.rank = 3;
                p.permutation[0] = 2, p.permutation[2] = 1;
                return qn_transpose_create(&p, op);
              })},
      {"slice",
       {{3, 5}},
       QN_ALGORITHM_AUTO,
       simple(qn_slice_params_init,
              [](auto& p, auto** op) {
                p.rank = 2;
                p.begin[1] = 2;
                return qn_slice_create(&p, op);
              })},
  };
  return list;
}

// Creates, plans and runs; what was made is released again whatever happens. Buffers are this test's own.
qn_status use(const Sample& sample, const Counter& counter) {
  qn_weights_cache* cache = nullptr;
  qn_operator* op = nullptr;
  qn_plan* plan = nullptr;
  qn_status status = qn_weights_cache_create(&cache);
  if (status == QN_OK) status = sample.create(cache, &op);
  std::vector<qn_tensor> ins;
  std::vector<std::vector<float>> values;
  std::vector<const void*> addresses;
  for (const Shape& shape : sample.inputs) {
    ins.push_back(dense(shape));
    values.emplace_back(count_of(shape));
  }
  for (const auto& v : values) addresses.push_back(v.data());
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tasks = 3;
  options.algorithm = sample.algorithm;
  if (status == QN_OK) status = qn_operator_plan(op, ins.data(), ins.size(), nullptr, 0, &options, &plan);
  // Plans keep what they need.
  qn_operator_release(op);
  qn_weights_cache_release(cache);
  if (status == QN_OK) {
    qn_tensor out;
    qn_plan_output(plan, 0, &out);
    std::vector<float> y(qn_tensor_bytes(&out) / sizeof(float));
    const size_t size = (qn_plan_workspace_size(plan) + 63) / 64 * 64;
    void* workspace = size == 0 ? nullptr : std::aligned_alloc(64, size);
    void* outputs[] = {y.data()};
    const size_t before = counter.allocations;
    status = qn_plan_run(plan, addresses.data(), outputs, workspace, size, nullptr);
    EXPECT_EQ(counter.allocations, before) << "a run allocated";
    std::free(workspace);
  }
  qn_plan_release(plan);
  return status;
}

TEST_F(Memory, RunsDoNotAllocateAndNothingLeaks) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    EXPECT_QN_OK(use(sample, counter));
    EXPECT_EQ(counter.blocks, 0u);
    EXPECT_EQ(counter.bytes, 0u);
  }
  EXPECT_GT(counter.allocations, samples().size());
}

TEST_F(Memory, FailingAtAnyAllocationIsReportedAndLeavesNothing) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    size_t n = 0;
    for (;; ++n) {
      counter.allocations = 0;
      counter.fail_at = n;
      const qn_status status = use(sample, counter);
      ASSERT_EQ(counter.blocks, 0u) << "leak when allocation " << n << " fails";
      ASSERT_EQ(counter.bytes, 0u);
      if (status == QN_OK) break;
      ASSERT_EQ(status, QN_OUT_OF_MEMORY) << qn_last_message();
      ASSERT_LT(n, 1000u);
    }
    EXPECT_GE(n, 3u);  // operator, handle, plan
    counter.fail_at = SIZE_MAX;
  }
}

TEST_F(Memory, GemmReleasesItsPanels) {
  std::vector<float> a(64), b(64), c(64);
  const auto call = [&] {
    return qn_gemm_f32(8, 8, 8, a.data(), 8, b.data(), 8, 0, nullptr, 0, 1, c.data(), 8, nullptr);
  };
  EXPECT_QN_OK(call());
  EXPECT_EQ(counter.blocks, 0u);
  counter.allocations = 0;
  counter.fail_at = 0;
  EXPECT_EQ(call(), QN_OUT_OF_MEMORY);
  EXPECT_EQ(counter.blocks, 0u);
}

// A folder for files that a test writes, empty at first; nothing may be left in it but what remove() takes.
class Folder {
 public:
  Folder() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Folder() { EXPECT_EQ(rmdir(path_.c_str()), 0) << path_ << ": " << std::strerror(errno); }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_ = testing::TempDir() + "quern_memory_XXXXXX";
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The text and the names of files are the allocator's too, and a save that gets no memory leaves the folder as it was.
TEST_F(Memory, SavingATuningFailsAtAnyAllocationAndLeavesNothing) {
  std::string text = "quern-tuning 3\n";
  for (size_t tasks = 100; tasks < 400; ++tasks) {
    text += "conv2d inputs=1 input=" + std::to_string(SIZE_MAX) +
            "x14x14x8 channels=8 groups=1 kernel=3x3 stride=1x1 dilation=1x1 padding=1,1,1,1 stored=100,1 tasks=" +
            std::to_string(tasks) + " strides=dense isa=" + qn_cpu_level() + " type=f32 direct qn_gemm_f32_4x8_ref\n";
  }
  const Folder folder;
  const std::string path = folder.file("tuning"), before = "what was there before";
  qn_tuning* tuning = nullptr;
  ASSERT_QN_OK(qn_tuning_create(&tuning));
  ASSERT_QN_OK(qn_tuning_load_memory(tuning, text.data(), text.size()));
  std::ofstream(path) << before;
  const size_t blocks = counter.blocks, bytes = counter.bytes;
  size_t n = 0;
  for (;; ++n) {
    counter.allocations = 0;
    counter.fail_at = n;
    const qn_status status = qn_tuning_save_file(tuning, path.c_str());
    ASSERT_EQ(counter.blocks, blocks) << "leak when allocation " << n << " fails";
    ASSERT_EQ(counter.bytes, bytes);
    if (status == QN_OK) break;
    ASSERT_EQ(status, QN_OUT_OF_MEMORY) << qn_last_message();
    ASSERT_EQ(content_of(path), before);
    ASSERT_LT(n, 100u);
  }
  EXPECT_GT(n, 3u);  // the text grows, and there are the names of two files
  EXPECT_EQ(content_of(path), text);
  counter.fail_at = SIZE_MAX;
  qn_tuning_release(tuning);
  EXPECT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(counter.blocks, 0u);
}

TEST_F(Memory, CacheSharesPackingsAsLongAsTheyAreUsed) {
  qn_weights_cache* cache;
  ASSERT_QN_OK(qn_weights_cache_create(&cache));
  EXPECT_EQ(qn_weights_cache_bytes(cache), 0u);
  const qn_tensor in = dense({1, 4, 4, 16});
  qn_operator *first, *second, *other;
  ASSERT_QN_OK(conv(16, 1, 1, cache, &first));
  ASSERT_QN_OK(conv(16, 1, 1, cache, &second));
  // The same weights with another bias make other panels.
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = p.out_channels = 16;
  const std::vector<float> bias(16, 1.0f);
  ASSERT_QN_OK(qn_conv2d_create(&p, &weights, bias.data(), cache, &other));
  EXPECT_EQ(qn_weights_cache_bytes(cache), 0u) << "packed before a plan needs it";

  const auto plan = [&](const qn_operator* op) {
    qn_plan* made = nullptr;
    EXPECT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, nullptr, &made));
    return made;
  };
  qn_plan* one = plan(first);
  const size_t bytes = qn_weights_cache_bytes(cache);
  EXPECT_GE(bytes, 17u * 16 * sizeof(float));
  qn_plan* two = plan(second);
  EXPECT_EQ(qn_weights_cache_bytes(cache), bytes);
  qn_plan* three = plan(other);
  EXPECT_EQ(qn_weights_cache_bytes(cache), 2 * bytes);
  qn_plan_release(three);
  EXPECT_EQ(qn_weights_cache_bytes(cache), 2 * bytes) << "an operator keeps its packings for the next plan";
  qn_operator_release(other);
  EXPECT_EQ(qn_weights_cache_bytes(cache), bytes);
  qn_operator_release(first);
  qn_plan_release(one);
  qn_operator_release(second);
  EXPECT_EQ(qn_weights_cache_bytes(cache), bytes) << "a plan keeps its packing";
  qn_plan_release(two);
  EXPECT_EQ(qn_weights_cache_bytes(cache), 0u);
  qn_weights_cache_release(cache);
  EXPECT_EQ(counter.blocks, 0u);
}

// Every byte of the weights once, in order, whatever the algorithm and the order of the elements.
TEST(Weights, TellWhatWasRead) {
  struct Heard {
    const char* next;
    size_t times;
  };
  for (const qn_algorithm algorithm :
       {QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT, QN_ALGORITHM_WINOGRAD, QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_SPARSE}) {
    for (const qn_weights_layout layout : {QN_WEIGHTS_OHWI, QN_WEIGHTS_OIHW, QN_WEIGHTS_HWIO}) {
      SCOPED_TRACE(testing::Message() << qn_algorithm_string(algorithm) << ", layout " << layout);
      const bool depthwise = algorithm == QN_ALGORITHM_DEPTHWISE;
      qn_conv2d_params p;
      qn_conv2d_params_init(&p);
      p.in_channels = depthwise ? 70 : 5;
      p.out_channels = 70;
      p.groups = depthwise ? 70 : 1;
      p.kernel = {3, 3};
      Heard heard = {reinterpret_cast<const char*>(ones.data()), 0};
      qn_weights w = weights;
      w.layout = layout;
      w.context = &heard;
      w.was_read = [](void* context, const void* read, size_t bytes) {
        auto* h = static_cast<Heard*>(context);
        EXPECT_EQ(h->next, read);
        h->next += bytes;
        ++h->times;
      };
      qn_operator* op;
      ASSERT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
      const size_t shape[] = {1, 9, 9, p.in_channels};
      qn_tensor in;
      qn_tensor_init(&in, QN_F32, 4, shape);
      qn_plan_options options;
      qn_plan_options_init(&options);
      options.algorithm = algorithm;
      qn_plan* plan;
      ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
      EXPECT_EQ(reinterpret_cast<const char*>(ones.data()) + 70 * 9 * (depthwise ? 1 : 5) * sizeof(float), heard.next);
      const bool at_once = depthwise || layout == QN_WEIGHTS_HWIO;
      EXPECT_EQ(at_once, heard.times == 1) << heard.times;
      qn_plan_release(plan);
      qn_operator_release(op);
    }
  }
}

}  // namespace memory_test
}  // namespace quern::test
