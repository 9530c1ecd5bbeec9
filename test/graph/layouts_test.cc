// Which tensors become pixel-blocked, and that results stay what they are.
#include "graph/plan/layouts.h"

#include <algorithm>
#include <functional>

#include "base/cpu.h"
#include "graph/plan/placement.h"
#include "naive.h"
#include "op/core/machine.h"
#include "small_graphs.h"

namespace quern::test {
namespace layouts_test {

constexpr size_t channels = 128;

// A 1x1 convolution most of whose weights are 0.
int sparse_conv(GraphBuilder& b, int x) {
  std::mt19937 random(static_cast<unsigned>(b.graph.nodes.size()));
  std::vector<float> weights(channels * channels);
  for (float& w : weights) w = random() % 10 == 0 ? static_cast<float>(random() % 100) / 1000 - 0.05f : 0;
  return b.node(OpKind::conv2d, {x, b.constant_of({channels, 1, 1, channels}, weights)});
}

Graph graph_of(const std::function<int(GraphBuilder&, int)>& body) {
  GraphBuilder b;
  const int x = b.input("x", {1, 14, 14, channels});
  b.output(body(b, x), "y");
  return b.done();
}

size_t count_blocked(const Graph& graph) {
  return static_cast<size_t>(std::count_if(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& tensor) {
    return tensor.layout == QN_LAYOUT_PIXEL_BLOCKED;
  }));
}

void expect_results(const Graph& graph, qn_session* session) {
  Values values = random_inputs(graph, 1);
  evaluate_naively(graph, values);
  const void* const inputs[] = {values.at(graph.inputs[0].tensor).data()};
  ASSERT_EQ(qn_session_run(session, inputs), QN_OK) << qn_last_message();
  const void* data = nullptr;
  expect_ok(qn_session_output(session, 0, &data));
  EXPECT_LE(difference(values.at(graph.outputs[0].tensor), static_cast<const float*>(data)), 1e-5f);
}

class Layouts : public ::testing::Test {
 protected:
  ~Layouts() override {
    qn_session_release(session_);
    qn_model_release(model_);
  }

  void load(const Graph& graph, qn_algorithm algorithm) {
    ASSERT_EQ(make_model(graph, nullptr, &model_), QN_OK) << qn_last_message();
    qn_session_options options;
    qn_session_options_init(&options);
    options.algorithm = algorithm;
    ASSERT_EQ(qn_session_create(model_, &options, &session_), QN_OK) << qn_last_message();
  }

  qn_model* model_ = nullptr;
  qn_session* session_ = nullptr;
};

// The second convolution reads a pixel-blocked tensor and writes rows with gaps between them.
TEST_F(Layouts, APartAlongTheWidthIsWrittenRowByRow) {
  const Graph graph = graph_of([](GraphBuilder& b, int x) {
    const int c = sparse_conv(b, sparse_conv(b, x));
    return b.node(OpKind::concat, {c, b.node(OpKind::clamp, {x}, range(-1, 1))}, axis(2));
  });
  load(graph, QN_ALGORITHM_SPARSE);
  if (HasFatalFailure()) return;
  Graph planned = graph;
  assign_layouts(*model_->impl, {.algorithm = QN_ALGORITHM_SPARSE}, planned);
  EXPECT_EQ(count_blocked(planned), 1u);
  expect_results(graph, session_);
}

// Strides of an earlier placement do not matter, nor does the size a session had before.
TEST_F(Layouts, StayWhenAGraphIsPlannedAgain) {
  const auto body = [](GraphBuilder& b, int x) {
    const int left = sparse_conv(b, x), right = sparse_conv(b, x);
    const int joined = b.node(OpKind::concat, {sparse_conv(b, left), sparse_conv(b, right)}, axis(3));
    return b.node(OpKind::slice, {joined}, values({0, 0, 0, 0, -1, -1, -1, static_cast<int64_t>(channels)}));
  };
  const Graph graph = graph_of(body);
  load(graph, QN_ALGORITHM_SPARSE);
  if (HasFatalFailure()) return;
  Graph planned = graph;
  const ExecutionOptions options = {.algorithm = QN_ALGORITHM_SPARSE};
  assign_layouts(*model_->impl, options, planned);
  const size_t blocked = count_blocked(planned);
  EXPECT_GE(blocked, 2u);
  place_tensors(*model_->impl, planned);
  assign_layouts(*model_->impl, options, planned);
  EXPECT_EQ(count_blocked(planned), blocked);

  for (const size_t size : {9, 14}) {
    const size_t shape[] = {1, size, size, channels};
    ASSERT_EQ(qn_session_resize(session_, 0, 4, shape), QN_OK) << qn_last_message();
    Graph resized = graph;
    resized.tensors[static_cast<size_t>(resized.inputs[0].tensor)].shape = {1, size, size, channels};
    expect_ok(infer_shapes(resized));
    expect_results(resized, session_);
  }
}

// The bits of all outputs, with the tasks run on this thread, and how many steps a run has.
struct Ran {
  std::vector<uint32_t> bits;
  size_t steps = 0;
};

Ran run_with(qn_model* model, const std::vector<float>& x, size_t tasks) {
  const qn_parallel here = {nullptr,
                            [](void*, void (*task)(void*, size_t), void* arg, size_t count) {
                              for (size_t i = count; i-- > 0;) task(arg, i);
                            },
                            tasks,
                            {},
                            {}};
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = tasks;
  options.parallel = &here;
  options.profile = 1;
  qn_session* session = nullptr;
  expect_ok(qn_session_create(model, &options, &session));
  if (session == nullptr) return {};
  const void* const inputs[] = {x.data()};
  expect_ok(qn_session_run(session, inputs));
  const void* data = nullptr;
  expect_ok(qn_session_output(session, 0, &data));
  qn_tensor out;
  expect_ok(qn_session_output_tensor(session, 0, &out));
  Ran ran;
  ran.bits.resize(qn_tensor_bytes(&out) / sizeof(float));
  std::memcpy(ran.bits.data(), data, qn_tensor_bytes(&out));
  ran.steps = qn_session_profile_count(session);
  qn_session_release(session);
  return ran;
}

// Sparse convolutions around a depthwise one or a pooling, most of them too large for the cache: some stay NHWC and
// are chained, others become pixel-blocked.
class RandomBlock {
 public:
  explicit RandomBlock(unsigned seed) : b_(seed), random_(seed) {}

  Graph make() {
    const size_t c = 8 * (1 + below(12)), w = 6 + below(40);
    const size_t h = cpu().l2_bytes / 2 / sizeof(float) / (c * w) + below(9);
    int x = b_.input("x", {1, h + 2, w + 2, c});
    if (below(2) == 0) x = pointwise(x, c, c);
    x = between(x, c);
    x = pointwise(x, c, 8 + below(64));
    b_.output(x, "y");
    return b_.done();
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  int pointwise(int x, size_t in, size_t out) {
    const size_t block = size_t{1} << below(5), zeros = below(98);
    std::vector<float> weights(in * out);
    for (size_t first = 0; first < out; first += block) {
      for (size_t k = 0; k < in; ++k) {
        const bool zero = below(100) < zeros;
        for (size_t o = first; o < std::min(first + block, out); ++o) {
          weights[o * in + k] = zero ? 0 : static_cast<float>(below(2000)) / 1000 - 1;
        }
      }
    }
    return b_.node(OpKind::conv2d, {x, b_.constant_of({out, 1, 1, in}, weights), b_.constant({out})});
  }

  int between(int x, size_t c) {
    Attributes a;
    if (below(3) == 0) {
      a.kernel = {3, 3};
      return b_.node(below(2) == 0 ? OpKind::max_pool : OpKind::average_pool, {x}, a);
    }
    a.groups = c;
    return b_.node(OpKind::conv2d, {x, b_.constant({c, 3, 3, 1})}, a);
  }

  GraphBuilder b_;
  std::mt19937 random_;
};

// Costs are those of one machine, so that as many layouts are blocked on all.
class OneMachine {
 public:
  OneMachine() { replace_machine(&row_); }
  ~OneMachine() { replace_machine(nullptr); }

 private:
  MachineRow row_;
};

TEST(Threads, NumberOfThemChangesNoBitInEitherLayout) {
  const OneMachine machine;
  size_t chained = 0, blocked = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomBlock(seed).make();
    qn_model* model = nullptr;
    ASSERT_EQ(make_model(graph, nullptr, &model), QN_OK) << qn_last_message();
    Graph planned = graph;
    assign_layouts(*model->impl, {}, planned);
    blocked += count_blocked(planned) > 0;
    const std::vector<float> x = random_inputs(graph, seed).at(graph.inputs[0].tensor);
    const Ran one = run_with(model, x, 1);
    chained += graph.nodes.size() - one.steps;
    for (const size_t tasks : {2, 3, 4, 7, 16}) {
      const Ran several = run_with(model, x, tasks);
      EXPECT_TRUE(one.bits == several.bits) << tasks << " tasks";
      EXPECT_EQ(one.steps, several.steps);
    }
    qn_model_release(model);
  }
  EXPECT_GE(chained, 120u);
  // Without vectors for sparse weights no layout gains by them.
  if (std::string(qn_cpu_level()) != "sse41") {
    EXPECT_GE(blocked, 30u);
  }
}

}  // namespace layouts_test
}  // namespace quern::test
