// Which tensors become pixel-blocked, and that results stay what they are.
#include "graph/layouts.h"

#include <algorithm>
#include <functional>

#include "graph/placement.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace {

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

}  // namespace
}  // namespace quern::test
