// Random graphs: sessions, and sessions of the optimised graph, agree with plain evaluation. Whatever the memory plan,
// running in place, views or a pass get wrong shows here.
#include <algorithm>
#include <cmath>

#include "graph/plan/layouts.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace random_test {

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : b_(seed), random_(seed) {}

  Graph make() {
    tensors_.push_back(b_.input("x", {1 + below(2), 4 + below(5), 4 + below(5), 1 + below(6)}));
    tensors_.push_back(b_.input("y", shape(tensors_[0]), below(4) == 0 ? QN_F16 : QN_F32));
    const size_t nodes = 5 + below(20);
    for (size_t i = 0; i < nodes; ++i) grow();
    const char* const names[] = {"out0", "out1", "out2"};
    for (size_t i = 0; i < 3; ++i) {
      const int tensor = i == 0 ? tensors_.back() : tensors_[2 + below(tensors_.size() - 2)];
      if (b_.graph.tensors[static_cast<size_t>(tensor)].name.empty()) b_.output(tensor, names[i]);
    }
    return b_.done();
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  float uniform() { return std::uniform_real_distribution<float>(-1, 1)(random_); }
  int any() { return tensors_[tensors_.size() - 1 - below(std::min<size_t>(tensors_.size(), 4))]; }
  const Shape& shape(int tensor) { return b_.graph.tensors[static_cast<size_t>(tensor)].shape; }

  Attributes clamped() {
    return below(3) != 0 ? Attributes() : range(below(2) != 0 ? 0 : -2, below(2) != 0 ? 1.5f : infinity_);
  }

  // Adds a node that suits some tensor; where it does not after all, another try comes.
  void grow() {
    for (;;) {
      Graph before = b_.graph;
      const size_t known = tensors_.size();
      const int output = candidate(any());
      if (output != no_tensor && infer_node(b_.graph, b_.graph.nodes.back()) == QN_OK && elements(output) < 5000) {
        tensors_.push_back(output);
        return;
      }
      b_.graph = std::move(before);
      tensors_.resize(known);
    }
  }

  size_t elements(int tensor) {
    size_t n = 1;
    for (const size_t d : shape(tensor)) n *= d;
    return n;
  }

  int candidate(int x) {
    const Shape s = shape(x);
    const size_t rank = s.size(), channels = s.empty() ? 1 : s.back();
    switch (below(22)) {
      case 0: return rank == 4 ? conv(x, channels) : no_tensor;
      case 1: return rank == 4 ? depthwise(x, channels) : no_tensor;
      case 2: return b_.node(OpKind::fully_connected, {x, b_.constant({1 + below(8), channels})}, clamped());
      case 3: return rank == 4 ? pool(x) : no_tensor;
      case 4:
        return rank == 4 ? b_.node(below(2) != 0 ? OpKind::global_max_pool : OpKind::global_average_pool, {x})
                         : no_tensor;
      case 5: return b_.node(static_cast<OpKind>(static_cast<size_t>(OpKind::add) + below(3)), {x, any()}, clamped());
      case 6: return b_.node(below(2) != 0 ? OpKind::add : OpKind::mul, {x, b_.constant({channels})});
      case 7: return b_.node(OpKind::clamp, {x}, range(-1, 2));
      case 8: return b_.node(below(2) != 0 ? OpKind::sigmoid : OpKind::hard_swish, {x});
      case 9: return b_.node(OpKind::power, {x}, power(below(2) != 0 ? -1 : 0.5f, 1, 1));
      case 10: return b_.node(OpKind::prelu, {x, b_.constant({channels})});
      case 11: return b_.node(OpKind::scale, {x, b_.constant({channels}), b_.constant({channels})}, clamped());
      case 12: return b_.node(OpKind::concat, {x, any(), x}, axis(static_cast<int>(below(rank))));
      case 13: return pad(x, rank);
      case 14: return reshape(x, s);
      case 15: return transpose(x, rank);
      case 16: return slice(x, s);
      case 17: return b_.node(OpKind::concat, {any(), any(), any()}, axis(static_cast<int>(below(rank))));
      case 18: return fire(x, rank);
      case 19:
      case 20: return rank == 4 ? between_convolutions(x, channels) : no_tensor;
      default: return b_.node(OpKind::softmax, {x}, axis(static_cast<int>(below(rank))));
    }
  }

  // Parts that are computed where the concat wants them, in a concat of a concat; somebody else reads one, too.
  int fire(int x, size_t rank) {
    const int at = static_cast<int>(below(rank));
    const auto keep = [&](int output) {
      expect_ok(infer_node(b_.graph, b_.graph.nodes.back()));
      tensors_.push_back(output);
      return output;
    };
    const int left = keep(b_.node(OpKind::sigmoid, {x})), right = keep(b_.node(OpKind::power, {x}, power(2, 1, 1)));
    const int inner = keep(b_.node(OpKind::concat, {left, right}, axis(at)));
    const int other = keep(b_.node(OpKind::clamp, {below(2) != 0 ? x : left}, range(-1, 1)));
    return b_.node(OpKind::concat, {other, inner, x}, axis(at));
  }

  // What may keep the layout that convolutions write.
  int between_convolutions(int x, size_t channels) {
    const auto keep = [&](int output) {
      if (infer_node(b_.graph, b_.graph.nodes.back()) != QN_OK) return no_tensor;
      tensors_.push_back(output);
      return output;
    };
    const auto channels_of = [&](int tensor) { return shape(tensor)[3]; };
    const int first = keep(conv(x, channels));
    if (first == no_tensor) return no_tensor;
    int middle = no_tensor;
    switch (below(6)) {
      case 0: middle = keep(b_.node(OpKind::sigmoid, {first})); break;
      case 1:
        middle = keep(b_.node(OpKind::concat, {first, keep(b_.node(OpKind::clamp, {first}, range(-1, 1)))}, axis(3)));
        break;
      case 2: middle = keep(slice(first, shape(first))); break;
      case 3: middle = keep(b_.node(OpKind::mul, {first, keep(b_.node(OpKind::sigmoid, {first}))})); break;
      case 4: middle = keep(depthwise(first, channels_of(first))); break;
      default: middle = keep(pool(first)); break;
    }
    return middle == no_tensor ? no_tensor : conv(middle, channels_of(middle));
  }

  int conv(int x, size_t channels) {
    Attributes a = clamped();
    const size_t k = 1 + below(3);
    a.stride = {1 + below(2), 1 + below(2)};
    a.padding = {below(2), below(2), below(2), below(2)};
    a.groups = channels % 2 == 0 ? 1 + below(2) : 1;
    const size_t outputs = a.groups * (1 + below(5));
    Vector<int> inputs = {x, b_.constant({outputs, k, k, channels / a.groups}, -0.5f, 0.5f)};
    if (below(2) != 0) inputs.push_back(b_.constant({outputs}));
    return b_.node(OpKind::conv2d, inputs, a);
  }

  int depthwise(int x, size_t channels) {
    Attributes a = clamped();
    a.groups = channels;
    a.padding = {1, 1, 1, 1};
    return b_.node(OpKind::conv2d, {x, b_.constant({channels, 3, 3, 1}, -0.5f, 0.5f)}, a);
  }

  int pool(int x) {
    Attributes a = window(2 + below(2), 1 + below(3), below(2));
    a.dilation = {1 + below(3) / 2, 1 + below(3)};
    a.ceil_mode = below(2) != 0;
    a.count_padding = below(2) != 0;
    if (below(2) != 0) return b_.node(OpKind::average_pool, {x}, a);
    if (a.dilation.h + a.dilation.w > 2) a.min = -4;  // the maximum of padding alone is too large for most that follows
    return b_.node(OpKind::max_pool, {x}, a);
  }

  int pad(int x, size_t rank) {
    Attributes a;
    const bool image = rank == 4 && below(2) != 0;
    for (size_t i = 0; i < 2 * rank; ++i) {
      const bool outer = i % rank == 0 || i % rank == rank - 1;
      a.values.push_back(image && outer ? 0 : static_cast<int64_t>(below(2)));
    }
    return b_.node(OpKind::pad, {x}, a);
  }

  int reshape(int x, const Shape& s) {
    switch (below(4)) {
      case 0: return b_.node(OpKind::reshape, {x}, values({0, -1}));
      case 1: return b_.node(OpKind::reshape, {x}, values({-1, 1, 1, static_cast<int64_t>(s.back())}));
      case 2: return b_.node(OpKind::reshape, {x}, values({1, -1, 2, 2}));
      default: {
        Attributes a;
        for (size_t i = s.size(); i-- > 0;) a.values.push_back(static_cast<int64_t>(s[i]));
        return b_.node(OpKind::reshape, {x}, a);
      }
    }
  }

  int transpose(int x, size_t rank) {
    Attributes a;
    for (size_t i = 0; i < rank; ++i) a.values.push_back(static_cast<int64_t>(i));
    std::shuffle(a.values.begin(), a.values.end(), random_);
    if (rank == 4 && below(2) != 0) a = below(2) != 0 ? values({0, 3, 1, 2}) : values({0, 2, 3, 1});
    return b_.node(OpKind::transpose, {x}, a);
  }

  int slice(int x, const Shape& s) {
    Attributes a;
    for (const size_t d : s) a.values.push_back(static_cast<int64_t>(below(std::min<size_t>(d, 2))));
    for (size_t i = 0; i < s.size(); ++i) a.values.push_back(-1);
    return b_.node(OpKind::slice, {x}, a);
  }

  static constexpr float infinity_ = std::numeric_limits<float>::infinity();
  GraphBuilder b_;
  std::mt19937 random_;
  std::vector<int> tensors_;
};

constexpr float tolerance = 3e-5f;

// Runs again with all outputs and inputs in buffers of the test's, aligned to 4 and no more, then with every other
// output there.
void expect_same_bits_in_bound_buffers(qn_session* session, const std::vector<const void*>& inputs) {
  const auto shifted = [](size_t bytes) { return std::vector<float>(bytes / 4 + 2); };  // begins at its second element
  std::vector<std::vector<float>> copies, bound;
  std::vector<std::string> expected;
  qn_tensor tensor;
  for (size_t i = 0; qn_session_output_tensor(session, i, &tensor) == QN_OK; ++i) {
    const void* data = nullptr;
    expect_ok(qn_session_output(session, i, &data));
    expected.emplace_back(static_cast<const char*>(data), qn_tensor_bytes(&tensor));
    bound.push_back(shifted(expected[i].size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_ok(qn_session_input_tensor(session, i, &tensor));
    const size_t bytes = qn_tensor_bytes(&tensor);
    std::memcpy(copies.emplace_back(shifted(bytes)).data() + 1, inputs[i], bytes);
    expect_ok(qn_session_bind_input(session, i, copies[i].data() + 1, bytes));
  }
  for (const size_t step : {1, 2}) {
    for (size_t i = 0; i < bound.size(); ++i) {
      float* const data = i % step == 0 ? bound[i].data() + 1 : nullptr;
      expect_ok(qn_session_bind_output(session, i, data, expected[i].size()));
      std::fill(bound[i].begin(), bound[i].end(), -77.0f);
    }
    ASSERT_EQ(qn_session_run(session, nullptr), QN_OK) << qn_last_message();
    for (size_t i = 0; i < bound.size(); ++i) {
      const void* data = nullptr;
      expect_ok(qn_session_output(session, i, &data));
      EXPECT_EQ(data == bound[i].data() + 1, i % step == 0);
      EXPECT_EQ(std::memcmp(data, expected[i].data(), expected[i].size()), 0) << "output " << i << ", step " << step;
    }
  }
}

// Runs `graph` in a session on the given inputs and compares with the values of `expected`'s outputs. Inputs of type
// f16 have values that f16 can hold.
void expect_same_results(const Graph& graph, const Graph& expected, const Values& values, size_t threads,
                         qn_algorithm algorithm = QN_ALGORITHM_AUTO) {
  qn_model* model = nullptr;
  ASSERT_EQ(make_model(graph, nullptr, &model), QN_OK) << qn_last_message();
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = threads;
  options.algorithm = algorithm;
  qn_session* session = nullptr;
  ASSERT_EQ(qn_session_create(model, &options, &session), QN_OK) << qn_last_message();
  std::vector<std::vector<uint16_t>> halves;
  std::vector<const void*> inputs;
  for (const Port& port : expected.inputs) {
    const std::vector<float>& x = values.at(port.tensor);
    inputs.push_back(x.data());
    if (port.type != QN_F16) continue;
    std::vector<uint16_t>& half = halves.emplace_back(x.size());
    for (size_t i = 0; i < x.size(); ++i) half[i] = x[i] == 0 ? 0 : x[i] < 0 ? 0xb800 : 0x3800;  // +-0.5
    inputs.back() = half.data();
  }
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(qn_session_run(session, inputs.data()), QN_OK) << qn_last_message();
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      const void* data = nullptr;
      expect_ok(qn_session_output(session, i, &data));
      EXPECT_LE(difference(values.at(expected.outputs[i].tensor), static_cast<const float*>(data)), tolerance)
          << "output " << i << " in run " << run;
    }
  }
  expect_same_bits_in_bound_buffers(session, inputs);
  qn_session_release(session);
  qn_model_release(model);
}

// Tensors that are pixel-blocked where convolutions are sparse.
size_t count_blocked(const Graph& graph) {
  qn_model* model = nullptr;
  expect_ok(make_model(graph, nullptr, &model));
  Graph planned = graph;
  assign_layouts(*model->impl, {.algorithm = QN_ALGORITHM_SPARSE}, planned);
  qn_model_release(model);
  return static_cast<size_t>(std::count_if(planned.tensors.begin(), planned.tensors.end(), [](const Tensor& tensor) {
    return tensor.layout == QN_LAYOUT_PIXEL_BLOCKED;
  }));
}

class Random : public ::testing::TestWithParam<unsigned> {};

TEST_P(Random, SessionsAndOptimiserAgreeWithPlainEvaluation) {
  size_t blocked = 0;
  for (unsigned seed = GetParam(); seed < GetParam() + 40; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = RandomGraph(seed).make();
    Values values = random_inputs(graph, seed);
    for (const Port& port : graph.inputs) {
      if (port.type != QN_F16) continue;
      for (float& x : values[port.tensor]) x = x < 0 ? -0.5f : 0.5f;
    }
    evaluate_naively(graph, values);
    expect_same_results(graph, graph, values, 1 + seed % 3);
    expect_same_results(graph, graph, values, 1 + seed % 3, QN_ALGORITHM_SPARSE);
    blocked += count_blocked(graph);
    Graph optimized = graph;
    ASSERT_EQ(optimize(optimized), QN_OK) << qn_last_message();
    EXPECT_LE(optimized.nodes.size(), graph.nodes.size());
    expect_same_results(optimized, graph, values, 1);
    if (HasFailure()) return;
  }
  EXPECT_GE(blocked, 10u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Random, ::testing::Values(1000, 2000, 3000, 4000, 5000));

}  // namespace random_test
}  // namespace quern::test
