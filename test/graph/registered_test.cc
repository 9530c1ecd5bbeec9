// Nodes of registered kinds (quern/kind.h), nodes that only a run can size, and nodes that run graphs.
#include <fp16.h>
#include <quern/quern.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "../check/flushing.h"
#include "graph/ir/custom.h"
#include "small_graphs.h"
#include "source_dir.h"

namespace quern::test {
namespace registered_test {

// ---- kinds of the tests

int made = 0, planned = 0;  // what is alive

size_t count(const qn_tensor& tensor) {
  size_t n = 1;
  for (uint32_t d = 0; d < tensor.rank; ++d) n *= tensor.shape[d];
  return n;
}

qn_status infer_same(const qn_node*, const qn_operand* inputs, size_t, qn_tensor* outputs, size_t) {
  const qn_type type = inputs[0].tensor.type;
  outputs[0] = inputs[0].tensor;
  outputs[0].type = type;
  return QN_OK;
}

// test_scaled: y = factor * x, with create() and plan().
qn_status create_scaled(const qn_node* node, const qn_operand*, size_t, void** result) {
  size_t n;
  const float* const factor = qn_node_floats(node, "factor", &n);
  if (n != 1) return qn_fail(QN_BAD_MODEL, "there is no factor");
  ++made;
  *result = new float(*factor);
  return QN_OK;
}
qn_status plan_scaled(const qn_node*, void*, const qn_operand* inputs, size_t, const qn_operand*, size_t, size_t,
                      void** result, size_t* workspace) {
  ++planned;
  *result = new size_t(count(inputs[0].tensor));
  *workspace = count(inputs[0].tensor) * sizeof(float);
  return QN_OK;
}
qn_status run_scaled(const qn_node_run* run) {
  const auto* const x = static_cast<const float*>(run->inputs[0].data);
  auto* const scratch = static_cast<float*>(run->workspace);
  const size_t n = *static_cast<const size_t*>(run->planned);
  for (size_t i = 0; i < n; ++i) scratch[i] = *static_cast<const float*>(run->made) * x[i];
  std::memcpy(run->outputs[0].data, scratch, n * sizeof(float));
  return QN_OK;
}

// test_repeated: x, how often (s64) -> [how often, ...x]
qn_status infer_repeated(const qn_node*, const qn_operand* inputs, size_t, qn_tensor* outputs, size_t) {
  const int64_t times = *static_cast<const int64_t*>(inputs[1].data);
  if (times < 0) return qn_fail(QN_INVALID_ARGUMENT, "repeated less than never");
  outputs[0].rank = inputs[0].tensor.rank + 1;
  outputs[0].shape[0] = static_cast<size_t>(times);
  std::copy_n(inputs[0].tensor.shape, inputs[0].tensor.rank, outputs[0].shape + 1);
  return QN_OK;
}
qn_status run_repeated(const qn_node_run* run) {
  const size_t bytes = count(run->inputs[0].tensor) * sizeof(float);
  for (size_t i = 0; i < run->outputs[0].tensor.shape[0]; ++i) {
    std::memcpy(static_cast<char*>(run->outputs[0].data) + i * bytes, run->inputs[0].data, bytes);
  }
  return QN_OK;
}

// test_positive: the elements above 0, as a vector.
qn_status run_positive(const qn_node_run* run) {
  const auto* const x = static_cast<const float*>(run->inputs[0].data);
  const size_t n = count(run->inputs[0].tensor);
  std::vector<float> found;
  for (size_t i = 0; i < n; ++i) {
    if (x[i] > 0) found.push_back(x[i]);
  }
  const size_t shape[] = {found.size()};
  void* data;
  QN_TRY(run->allocate(run, 0, 1, shape, &data));
  if (!found.empty()) std::memcpy(data, found.data(), found.size() * sizeof(float));
  return QN_OK;
}

// test_less: a, b of s64 -> bool; test_next: s64 + 1
qn_status infer_flag(const qn_node*, const qn_operand*, size_t, qn_tensor* outputs, size_t) {
  outputs[0].type = QN_BOOL;
  outputs[0].rank = 0;
  return QN_OK;
}
qn_status infer_no_flags(const qn_node*, const qn_operand*, size_t, qn_tensor* outputs, size_t) {
  outputs[0].type = QN_BOOL;
  outputs[0].rank = 1;
  outputs[0].shape[0] = 0;
  return QN_OK;
}
qn_status run_less(const qn_node_run* run) {
  *static_cast<bool*>(run->outputs[0].data) =
      *static_cast<const int64_t*>(run->inputs[0].data) < *static_cast<const int64_t*>(run->inputs[1].data);
  return QN_OK;
}

// test_less_asks: the same, but it cancels a session in one of its runs, and asks.
qn_session* to_cancel = nullptr;
int runs = 0, cancelled_run = 0;
qn_status run_less_asks(const qn_node_run* run) {
  if (++runs == cancelled_run) qn_session_cancel(to_cancel);
  if (qn_node_cancelled(run)) return qn_fail(QN_CANCELLED, "I was asked to stop");
  return run_less(run);
}

// test_image: a large image of no inputs.
qn_status infer_image(const qn_node*, const qn_operand*, size_t, qn_tensor* outputs, size_t) {
  outputs[0].rank = 4;
  std::copy_n(std::array<size_t, 4>{1, 512, 512, 2}.data(), 4, outputs[0].shape);
  return QN_OK;
}
qn_status run_image(const qn_node_run* run) {
  std::fill_n(static_cast<float*>(run->outputs[0].data), count(run->outputs[0].tensor), 3.0f);
  return QN_OK;
}

qn_kind kind(const char* name, uint32_t inputs, decltype(qn_kind::infer) infer = infer_same,
             decltype(qn_kind::run) run = nullptr) {
  qn_kind kind = {};
  kind.struct_size = sizeof kind;
  kind.name = name;
  kind.min_inputs = kind.max_inputs = inputs;
  kind.max_outputs = 1;
  kind.infer = infer;
  kind.run = run;
  return kind;
}

void register_kinds() {
  static const qn_kind kinds[] = {
      [] {
        qn_kind k = kind("test_scaled", 1);
        k.create = create_scaled;
        k.release = [](void* thing) { --made, delete static_cast<float*>(thing); };
        k.plan = plan_scaled;
        k.release_plan = [](void* thing) { --planned, delete static_cast<size_t*>(thing); };
        k.run = run_scaled;
        return k;
      }(),
      [] {
        qn_kind k = kind("test_repeated", 2);
        k.value_inputs = 1 << 1;
        k.infer = infer_repeated;
        k.run = run_repeated;
        return k;
      }(),
      [] {
        qn_kind k = kind("test_positive", 1);
        k.flags = QN_KIND_SIZED_BY_RUN;
        k.run = run_positive;
        return k;
      }(),
      kind("test_less", 2, infer_flag, run_less),
      kind("test_less_asks", 2, infer_flag, run_less_asks),
      kind("test_no_flags", 2, infer_no_flags, run_less),
      kind("test_image", 0, infer_image, run_image),
  };
  static const bool once = (expect_ok(qn_register_kinds(kinds, std::size(kinds))), true);
  (void)once;
}

int custom(GraphBuilder& b, const char* kind, Vector<int> inputs, qn_type type = QN_F32) {
  const int output = b.node(OpKind::custom, std::move(inputs));
  b.graph.nodes.back().type = kind;
  b.graph.tensors[at(output)].type = type;
  return output;
}

int scaled(GraphBuilder& b, int x, float factor) {
  const int output = custom(b, "test_scaled", {x});
  b.graph.nodes.back().parameters.push_back({"factor", {}, {factor}});
  return output;
}

int integer_input(GraphBuilder& b, const char* name, Shape shape) {
  const int tensor = b.input(name, std::move(shape), QN_S64);
  b.graph.tensors[at(tensor)].type = QN_S64;
  return tensor;
}

int flag_input(GraphBuilder& b, const char* name) {
  const int tensor = b.input(name, {}, QN_BOOL);
  b.graph.tensors[at(tensor)].type = QN_BOOL;
  return tensor;
}

// ---- models and sessions

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};

class Runner {
 public:
  // Through a file, as every model is.
  explicit Runner(const Graph& graph, const qn_session_options* options = nullptr) {
    expect_ok(write_model(graph, &file_));
    qn_model* model = nullptr;
    expect_ok(qn_model_load_memory(file_.data(), file_.size(), nullptr, &model));
    model_.reset(model);
    qn_session* session = nullptr;
    expect_ok(qn_session_create(model, options, &session));
    session_.reset(session);
  }

  qn_session* session() { return session_.get(); }
  qn_model* model() { return model_.get(); }
  qn_status run(std::vector<const void*> inputs) { return qn_session_run(session_.get(), inputs.data()); }

  std::vector<size_t> shape(size_t output = 0) {
    qn_tensor tensor;
    expect_ok(qn_session_output_tensor(session_.get(), output, &tensor));
    return {tensor.shape, tensor.shape + tensor.rank};
  }
  template <class T = float>
  std::vector<T> output(size_t index = 0) {
    qn_tensor tensor;
    const void* data = nullptr;
    expect_ok(qn_session_output_tensor(session_.get(), index, &tensor));
    expect_ok(qn_session_output(session_.get(), index, &data));
    return {static_cast<const T*>(data), static_cast<const T*>(data) + count(tensor)};
  }

 private:
  Vector<unsigned char> file_;
  std::unique_ptr<qn_model, Release> model_;
  std::unique_ptr<qn_session, Release> session_;
};

using Floats = std::vector<float>;
using Sizes = std::vector<size_t>;

class Registered : public testing::Test {
 protected:
  void SetUp() override { register_kinds(); }
  void TearDown() override {
    EXPECT_EQ(made, 0);
    EXPECT_EQ(planned, 0);
  }
};

TEST_F(Registered, NodesRunBetweenOthers) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3});
  const int y = b.node(OpKind::clamp, {x}, range(0, 10));
  b.output(b.node(OpKind::clamp, {scaled(b, y, 2)}, range(-100, 5)), "y");
  Runner r(b.done());
  EXPECT_EQ(made, 1);
  const Floats data = {-1, 1, 2, 3, 4, 5};
  expect_ok(r.run({data.data()}));
  EXPECT_EQ(r.output(), (Floats{0, 2, 4, 5, 5, 5}));
  const size_t other[] = {1, 2};
  expect_ok(qn_session_resize(r.session(), 0, 2, other));
  expect_ok(r.run({data.data()}));
  EXPECT_EQ(r.output(), (Floats{0, 2}));
}

TEST_F(Registered, TensorsMayHaveNoElements) {
  GraphBuilder b;
  const int x = b.input("x", {0, 3});
  b.output(b.node(OpKind::exp, {scaled(b, x, 2)}), "y");
  Runner r(b.done());
  EXPECT_EQ(r.shape(), (Sizes{0, 3}));
  expect_ok(r.run({nullptr}));
  const size_t other[] = {1, 3};
  expect_ok(qn_session_resize(r.session(), 0, 2, other));
  const Floats data = {0, 0, 0};
  expect_ok(r.run({data.data()}));
  EXPECT_EQ(r.output(), (Floats{1, 1, 1}));
}

// Too large to become a constant, it meets all passes.
TEST_F(Registered, NodesMayHaveNoInputs) {
  GraphBuilder b;
  b.output(b.node(OpKind::clamp, {custom(b, "test_image", {})}, range(0, 2)), "y");
  Graph graph = b.done();
  expect_ok(optimize(graph));
  Runner r(graph);
  EXPECT_EQ(r.shape(), (Sizes{1, 512, 512, 2}));
  expect_ok(r.run({}));
  EXPECT_EQ(r.output()[0], 2);
}

// Shapes that depend on elements of an input; what comes before is planned, what comes after follows.
TEST_F(Registered, ShapesMayDependOnElements) {
  GraphBuilder b;
  const int x = b.input("x", {2}), times = integer_input(b, "times", {});
  const int y = custom(b, "test_repeated", {b.node(OpKind::exp, {x}), times});
  b.output(y, "y");
  b.output(b.node(OpKind::add, {y, b.constant_of({2}, {1, 2})}), "sum");
  b.output(b.node(OpKind::clamp, {x}, range(0, 1)), "planned");
  Runner r(b.done());
  EXPECT_EQ(r.shape(), (Sizes{0}));  // not known yet
  const Floats data = {0, 0};
  for (const int64_t n : {3, 3, 1, 0, 2}) {
    expect_ok(r.run({data.data(), &n}));
    EXPECT_EQ(r.shape(0), (Sizes{static_cast<size_t>(n), 2}));
    EXPECT_EQ(r.output(0), Floats(static_cast<size_t>(2 * n), 1));
    Floats sums;
    for (int64_t i = 0; i < n; ++i) sums.insert(sums.end(), {2, 3});
    EXPECT_EQ(r.output(1), sums);
    EXPECT_EQ(r.output(2), (Floats{0, 0}));
  }
  const int64_t never = -1;
  EXPECT_EQ(r.run({data.data(), &never}), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "node 'custom1': node 'custom1' (test_repeated): repeated less than never");
  float bound[4];
  EXPECT_EQ(qn_session_bind_output(r.session(), 0, bound, sizeof bound), QN_UNSUPPORTED);
  expect_ok(qn_session_bind_output(r.session(), 2, bound, sizeof bound));
}

TEST_F(Registered, RunsMaySizeOutputs) {
  GraphBuilder b;
  const int x = b.input("x", {4}, QN_F16);
  const int y = custom(b, "test_positive", {x});
  b.output(y, "y");
  b.output(b.node(OpKind::power, {y}, power(2, 0, 1)), "twice", QN_F16);
  Runner r(b.done());
  uint16_t data[4];
  for (const Floats& list : {Floats{1, -1, 2, -2}, Floats{-1, -1, -1, -1}, Floats{4, 3, 2, 1}}) {
    Floats wanted, twice;
    for (size_t i = 0; i < 4; ++i) data[i] = fp16_ieee_from_fp32_value(list[i]);
    for (const float value : list) {
      if (value > 0) wanted.push_back(value), twice.push_back(2 * value);
    }
    expect_ok(r.run({data}));
    EXPECT_EQ(r.output(), wanted);
    Floats got;
    for (const uint16_t half : r.output<uint16_t>(1)) got.push_back(fp16_ieee_to_fp32_value(half));
    EXPECT_EQ(got, twice);
  }
}

// The kind of examples/custom_operator.c, which has its functions; a model can only be written if there is such a kind.
TEST_F(Registered, TheModelOfTheExample) {
  static const qn_kind average = [] {
    qn_kind k = kind("example_moving_average", 1);
    k.run = run_positive;  // nobody runs it here
    return k;
  }();
  // Once for all iterations of --gtest_repeat.
  [[maybe_unused]] static const bool once = (expect_ok(qn_register_kinds(&average, 1)), true);
  GraphBuilder b;
  b.output(custom(b, "example_moving_average", {b.input("x", {2, 4})}), "y");
  b.graph.nodes.back().parameters.push_back({"window", {3}, {}});
  Vector<unsigned char> bytes;
  expect_ok(write_model(b.done(), &bytes));
  std::ifstream file(QUERN_SOURCE_DIR "/examples/custom/average.qn", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text == std::string(bytes.begin(), bytes.end())) return;
  const std::string path = ::testing::TempDir() + "average.qn";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  ADD_FAILURE() << "examples/custom/average.qn should be " << path;
}

// A model that needs kinds which nobody has registered: the message says where they may be.
TEST_F(Registered, AModelThatNeedsAnotherLibrarySaysSo) {
  GraphBuilder b;
  b.output(scaled(b, b.input("x", {2}), 2), "y");
  Vector<unsigned char> file;
  expect_ok(write_model(b.done(), &file));
  const std::string name = "test_scaled", other = "lost_kind_1";
  const auto at = std::search(file.begin(), file.end(), name.begin(), name.end());
  ASSERT_NE(at, file.end());
  std::copy(other.begin(), other.end(), at);
  qn_model* model;
  EXPECT_EQ(qn_model_load_memory(file.data(), file.size(), nullptr, &model), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("unknown operator 'lost_kind_1'; libquern-extra may have it"),
            std::string::npos)
      << qn_last_message();
}

TEST_F(Registered, FilesThatAreWrongAreRefused) {
  const auto message = [](auto&& spoil) {
    GraphBuilder b;
    b.output(scaled(b, b.input("x", {2}), 2), "y");
    spoil(b.graph);
    const bool good = check_graph(b.graph) == QN_OK && infer_shapes(b.graph) == QN_OK;
    return good ? std::string("good") : std::string(qn_last_message());
  };
  EXPECT_EQ(message([](Graph&) {}), "good");
  EXPECT_EQ(message([](Graph& g) { g.nodes[0].type = "nobody's"; }),
            "node 'custom0' (nobody's): no kind of this name is registered; libquern-extra may have it");
  EXPECT_EQ(message([](Graph& g) {
              g.nodes[0].parameters.push_back({"factor", {}, {3}});
            }),
            "node 'custom0' (test_scaled): parameter 1 has the name of another");
  EXPECT_EQ(message([](Graph& g) {
              for (int i = 0; i < 256; ++i) g.nodes[0].parameters.push_back({std::to_string(i).c_str(), {}, {}});
            }),
            "node 'custom0' (test_scaled): 257 parameters are too many");
  EXPECT_EQ(message([](Graph& g) { g.nodes[0].inputs.push_back(0); }),
            "node 'custom0' (test_scaled): 2 inputs instead of 1 to 1");
  EXPECT_EQ(message([](Graph& g) { g.nodes[0].inputs[0] = no_tensor; }),
            "node 'custom0' (test_scaled): input 0 is absent");
  EXPECT_EQ(message([](Graph& g) { g.tensors[1].type = QN_S64, g.outputs[0].type = QN_S64; }),
            "node 'custom0' (test_scaled): output 0 is s64, not f32");
  GraphBuilder b;
  b.output(custom(b, "test_scaled", {b.input("x", {2})}), "y");  // without its factor
  Vector<unsigned char> file;
  expect_ok(write_model(b.done(), &file));
  qn_model* model;
  EXPECT_EQ(qn_model_load_memory(file.data(), file.size(), nullptr, &model), QN_BAD_MODEL);
  EXPECT_STREQ(qn_last_message(), "node 'custom0': there is no factor");
}

TEST_F(Registered, KindsThatAreWrongAreRefused) {
  const auto refused = [](auto&& spoil) {
    qn_kind k = kind("test_other", 1);
    k.run = run_positive;
    spoil(k);
    EXPECT_EQ(qn_register_kinds(&k, 1), QN_INVALID_ARGUMENT);
    return std::string(qn_last_message());
  };
  EXPECT_EQ(refused([](qn_kind& k) { k.struct_size = 8; }),
            "qn_register_kinds: struct_size is 8, not " + std::to_string(sizeof(qn_kind)));
  EXPECT_EQ(refused([](qn_kind& k) { k.name = "conv2d"; }), "qn_register_kinds: kind 'conv2d' is the library's own");
  EXPECT_EQ(refused([](qn_kind& k) { k.name = "test_scaled"; }),
            "qn_register_kinds: kind 'test_scaled' is registered already");
  EXPECT_EQ(refused([](qn_kind& k) { k.run = nullptr; }),
            "qn_register_kinds: kind 'test_other' has no infer() or run()");
  EXPECT_EQ(refused([](qn_kind& k) { k.create = create_scaled; }),
            "qn_register_kinds: kind 'test_other' makes what it does not free, or the other way round");
  EXPECT_EQ(refused([](qn_kind& k) { k.max_outputs = 0; }),
            "qn_register_kinds: kind 'test_other' has no outputs, or too many");
}

TEST_F(Registered, TwoKindsOfOneNameAreRefused) {
  qn_kind two[] = {kind("test_twin", 1), kind("test_twin", 2)};
  two[0].run = two[1].run = run_positive;
  EXPECT_EQ(qn_register_kinds(two, 2), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_register_kinds: kind 'test_twin' is registered already");
  EXPECT_EQ(find_kind("test_twin"), nullptr) << "a call that fails registers none of the kinds";
}

// Often enough that they would no longer fit beside each other.
TEST_F(Registered, KindsCanBeUnregistered) {
  qn_kind passing = kind("test_passing", 1);
  passing.run = [](const qn_node_run* run) {
    std::memcpy(run->outputs[0].data, run->inputs[0].data, count(run->inputs[0].tensor) * sizeof(float));
    return QN_OK;
  };
  Vector<unsigned char> file;
  for (int i = 0; i < 100; ++i) {
    expect_ok(qn_register_kinds(&passing, 1));
    GraphBuilder b;
    b.output(custom(b, "test_passing", {custom(b, "test_positive", {b.input("x", {2})})}), "y");
    b.output(custom(b, "test_passing", {b.input("z", {2})}), "of z");
    const Graph graph = b.done();
    expect_ok(write_model(graph, &file));
    {
      Runner r(graph);
      const Floats data = {1, 2};
      expect_ok(r.run({data.data(), data.data()}));
      EXPECT_EQ(r.output(), data);
      EXPECT_EQ(qn_unregister_kinds(&passing), QN_INVALID_ARGUMENT);
      EXPECT_STREQ(qn_last_message(), "qn_unregister_kinds: 2 nodes of models use kinds");
    }
    expect_ok(qn_unregister_kinds(&passing));
  }
  qn_model* model;
  EXPECT_EQ(qn_model_load_memory(file.data(), file.size(), nullptr, &model), QN_BAD_MODEL);
  for (const qn_kind* const none : {static_cast<const qn_kind*>(nullptr), static_cast<const qn_kind*>(&passing)}) {
    EXPECT_EQ(qn_unregister_kinds(none), QN_INVALID_ARGUMENT);
    EXPECT_STREQ(qn_last_message(), "qn_unregister_kinds: kinds is not registered");
  }
}

// A model that fails to load uses no kinds.
TEST_F(Registered, FailedModelsDoNotKeepKinds) {
  qn_kind failing = kind("test_failing", 1);
  failing.create = [](const qn_node*, const qn_operand*, size_t, void**) { return qn_fail(QN_BAD_MODEL, "no"); };
  failing.release = [](void*) {};
  failing.run = run_positive;
  expect_ok(qn_register_kinds(&failing, 1));
  GraphBuilder b;
  b.output(custom(b, "test_failing", {b.input("x", {2})}), "y");
  qn_model* model;
  EXPECT_EQ(make_model(b.done(), nullptr, &model), QN_BAD_MODEL);
  expect_ok(qn_unregister_kinds(&failing));
}

// What a kind asks for is a number of a host's: near SIZE_MAX it would become a few bytes once it is aligned.
TEST_F(Registered, HugeWorkspacesAreRefused) {
  static size_t asked;
  qn_kind greedy = kind("test_greedy", 1);
  greedy.plan = [](const qn_node*, void*, const qn_operand*, size_t, const qn_operand*, size_t, size_t, void**,
                   size_t* workspace) {
    *workspace = asked;
    return QN_OK;
  };
  greedy.release_plan = [](void*) {};
  greedy.run = [](const qn_node_run*) { return QN_OK; };
  expect_ok(qn_register_kinds(&greedy, 1));
  const Floats data = {1, 2};
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 62, SIZE_MAX - 63, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, SIZE_MAX / 2}) {
    asked = size;
    GraphBuilder first, later;
    first.output(custom(first, "test_greedy", {first.input("x", {2})}), "y");
    later.output(custom(later, "test_greedy", {custom(later, "test_positive", {later.input("x", {2})})}), "y");
    qn_model* model = nullptr;
    expect_ok(make_model(first.done(), nullptr, &model));
    qn_session* session = nullptr;
    EXPECT_EQ(qn_session_create(model, nullptr, &session), QN_OUT_OF_MEMORY) << size;
    if (size > SIZE_MAX / 2) {
      EXPECT_EQ(std::string(qn_last_message()),
                "node 'custom0': kind 'test_greedy': a workspace of " + std::to_string(size) + " bytes is too large");
    }
    qn_model_release(model);
    EXPECT_EQ(Runner(later.done()).run({data.data()}), QN_OUT_OF_MEMORY) << size;
  }
  expect_ok(qn_unregister_kinds(&greedy));
}

// A kind computes on the threads of its run: they do with denormals what the caller's thread does.
TEST_F(Registered, ThreadsFlushDenormalsAsTheCallerDoes) {
  qn_kind square = kind("test_square", 1);
  square.run = [](const qn_node_run* run) {
    const auto task = [](void* of, size_t i) {
      const auto& node = *static_cast<const qn_node_run*>(of);
      const float x = static_cast<const float*>(node.inputs[0].data)[i];
      static_cast<float*>(node.outputs[0].data)[i] = x * x;
    };
    run->parallel->run(run->parallel->context, task, const_cast<qn_node_run*>(run), count(run->inputs[0].tensor));
    return QN_OK;
  };
  expect_ok(qn_register_kinds(&square, 1));
  {
    // Every task runs on a thread of its own that does not flush, or does where the caller does not.
    struct Host {
      bool flushes;
    } host = {};
    const qn_parallel parallel = {&host,
                                  [](void* context, void (*task)(void*, size_t), void* arg, size_t n) {
                                    for (size_t i = 0; i < n; ++i) {
                                      std::thread([&] {
                                        const check::Flushing flushing(static_cast<Host*>(context)->flushes);
                                        task(arg, i);
                                      }).join();
                                    }
                                  },
                                  2,
                                  {},
                                  {}};
    GraphBuilder b;
    b.output(custom(b, "test_square", {b.input("x", {3})}), "y");
    const Graph graph = b.done();
    qn_session_options options;
    qn_session_options_init(&options);
    options.parallel = &parallel;
    Runner r(graph, &options);
    const Floats data = {1e-20f, 1e-21f, 2};
    const float denormal = 1e-20f * 1e-20f;
    ASSERT_GT(denormal, 0);
    for (const bool caller : {false, true}) {
      host.flushes = !caller;
      {
        const check::Flushing flushing(caller);
        expect_ok(r.run({data.data()}));
      }
      EXPECT_EQ(r.output()[0] == 0, caller);
      EXPECT_EQ(r.output()[2], 4);
    }
  }
  expect_ok(qn_unregister_kinds(&square));
}

// ---- booleans, whose bytes come from hosts, kinds and files: those other than 0 are true

using Bytes = std::vector<unsigned char>;

// test_ones: bool -> s64, how many bytes are 1.
qn_status infer_ones(const qn_node*, const qn_operand*, size_t, qn_tensor* outputs, size_t) {
  outputs[0].type = QN_S64;
  outputs[0].rank = 0;
  return QN_OK;
}
qn_status run_ones(const qn_node_run* run) {
  const auto* const x = static_cast<const unsigned char*>(run->inputs[0].data);
  *static_cast<int64_t*>(run->outputs[0].data) = std::count(x, x + count(run->inputs[0].tensor), 1);
  return QN_OK;
}
// test_wild: bytes that are no booleans, given as such; test_wild_later: the same, sized by the run.
constexpr unsigned char wild[] = {2, 0, 128, 1};
qn_status infer_wild(const qn_node*, const qn_operand*, size_t, qn_tensor* outputs, size_t) {
  outputs[0].type = QN_BOOL;
  outputs[0].rank = 1;
  outputs[0].shape[0] = std::size(wild);
  return QN_OK;
}

class Booleans : public Registered {
 protected:
  void SetUp() override {
    Registered::SetUp();
    kinds_[0] = kind("test_ones", 1, infer_ones, run_ones);
    kinds_[1] = kind("test_wild", 1, infer_wild, [](const qn_node_run* run) {
      std::memcpy(run->outputs[0].data, wild, sizeof wild);
      return QN_OK;
    });
    kinds_[2] = kind("test_wild_later", 1, infer_wild, [](const qn_node_run* run) {
      const size_t shape[] = {std::size(wild)};
      void* data;
      QN_TRY(run->allocate(run, 0, 1, shape, &data));
      std::memcpy(data, wild, sizeof wild);
      return QN_OK;
    });
    kinds_[2].flags = QN_KIND_SIZED_BY_RUN;
    expect_ok(qn_register_kinds(kinds_, std::size(kinds_)));
  }
  void TearDown() override {
    expect_ok(qn_unregister_kinds(kinds_));
    Registered::TearDown();
  }

  static int flags(GraphBuilder& b, const char* name, Shape shape) {
    const int tensor = b.input(name, std::move(shape), QN_BOOL);
    b.graph.tensors[at(tensor)].type = QN_BOOL;
    return tensor;
  }
  // Outputs the booleans, the same in another shape, and how many bytes are 1.
  static void give(GraphBuilder& b, int tensor) {
    b.output(tensor, "x", QN_BOOL);
    b.output(b.node(OpKind::reshape, {tensor}, values({2, 2})), "y", QN_BOOL);
    b.output(custom(b, "test_ones", {tensor}, QN_S64), "ones", QN_S64);
  }
  static void expect(Runner& r, const Bytes& wanted) {
    EXPECT_EQ(r.output<unsigned char>(0), wanted);
    EXPECT_EQ(r.output<unsigned char>(1), wanted);
    EXPECT_EQ(r.output<int64_t>(2)[0], std::count(wanted.begin(), wanted.end(), 1));
  }

 private:
  qn_kind kinds_[3];
};

TEST_F(Booleans, OfInputs) {
  GraphBuilder b;
  give(b, flags(b, "flags", {4}));
  Runner r(b.done());
  const Bytes given = {0, 1, 2, 255};
  Bytes data = given;
  expect_ok(r.run({data.data()}));
  expect(r, {0, 1, 1, 1});
  Bytes bound(4);
  expect_ok(qn_session_bind_input(r.session(), 0, data.data(), data.size()));
  expect_ok(qn_session_bind_output(r.session(), 0, bound.data(), bound.size()));
  expect_ok(qn_session_run(r.session(), nullptr));
  expect(r, {0, 1, 1, 1});
  EXPECT_EQ(bound, (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(data, given);
}

TEST_F(Booleans, OfInputsThatLaterNodesRead) {
  GraphBuilder b;
  b.output(custom(b, "test_ones", {flags(b, "flags", {4})}, QN_S64), "ones", QN_S64);
  b.output(custom(b, "test_positive", {b.input("z", {1})}), "later");
  b.output(custom(b, "test_ones", {flags(b, "flags2", {4})}, QN_S64), "ones2", QN_S64);
  Runner r(b.done());
  const Bytes data = {0, 1, 2, 255};
  const float z = 1;
  expect_ok(r.run({data.data(), &z, data.data()}));
  EXPECT_EQ(r.output<int64_t>(0)[0], 3);
  EXPECT_EQ(r.output<int64_t>(2)[0], 3);
}

TEST_F(Booleans, OfKinds) {
  for (const char* wild_kind : {"test_wild", "test_wild_later"}) {
    GraphBuilder b;
    give(b, custom(b, wild_kind, {b.input("z", {1})}, QN_BOOL));
    Runner r(b.done());
    const float z = 1;
    expect_ok(r.run({&z}));
    expect(r, {1, 0, 1, 1});
  }
}

// The bytes of one segment of a file may be booleans and integers.
TEST_F(Booleans, OfConstants) {
  GraphBuilder b;
  const Bytes tame(64, 1), given(64, 77);
  const int truths = add_constant(b.graph, "truths", QN_BOOL, {64}, tame.data());
  b.output(b.node(OpKind::reshape, {truths}, values({8, 8})), "y", QN_BOOL);
  b.output(custom(b, "test_ones", {truths}, QN_S64), "ones", QN_S64);
  const int integers = add_tensor(b.graph, "integers", QN_U8, {64});
  b.graph.tensors[at(integers)].constant = b.graph.tensors[at(truths)].constant;
  b.output(b.node(OpKind::reshape, {integers}, values({8, 8})), "z", QN_U8);
  Vector<unsigned char> file;
  expect_ok(write_model(b.done(), &file));
  const auto segment = std::search(file.begin(), file.end(), tame.begin(), tame.end());
  ASSERT_NE(segment, file.end());
  std::copy(given.begin(), given.end(), segment);
  const Buffer image(file.size());  // is aligned
  std::memcpy(image.data(), file.data(), file.size());
  Graph graph;
  expect_ok(read_model(image.data(), image.size(), nullptr, "a file", &graph));
  Runner r(graph);
  expect_ok(r.run({}));
  EXPECT_EQ(r.output<unsigned char>(0), tame);
  EXPECT_EQ(r.output<int64_t>(1)[0], 64);
  EXPECT_EQ(r.output<unsigned char>(2), given);
}

// Nodes of the library's own kinds behind one that only a run sizes: their constants are checked all the same.
TEST_F(Registered, ConstantsOfLaterNodesAreChecked) {
  const auto message = [](OpKind kind, const std::vector<Shape>& constants, const Attributes& attributes = {}) {
    GraphBuilder b;
    Vector<int> inputs = {custom(b, "test_positive", {b.input("x", {4})})};
    for (const Shape& shape : constants) inputs.push_back(b.constant(shape));
    b.output(b.node(kind, inputs, attributes), "y");
    qn_model* model = nullptr;
    const bool good = make_model(std::move(b.graph), nullptr, &model) == QN_OK;
    qn_model_release(model);
    return good ? std::string("good") : std::string(qn_last_message());
  };
  EXPECT_EQ(message(OpKind::fully_connected, {{2, 3}, {2}}), "good");
  EXPECT_EQ(message(OpKind::fully_connected, {{4}}),
            "node 'fully_connected1' (fully_connected): input 1 has rank 1, not 2");
  EXPECT_EQ(message(OpKind::fully_connected, {{2, 3}, {1}}),
            "node 'fully_connected1' (fully_connected): the bias is not a vector of 2 elements");
  EXPECT_EQ(message(OpKind::conv2d, {{4}}), "node 'conv2d1' (conv2d): input 1 has rank 1, not 4");
  EXPECT_EQ(message(OpKind::prelu, {{}}), "node 'prelu1' (prelu): input 1 has rank 0, not 1");
  EXPECT_EQ(message(OpKind::scale, {{3}, {2}}), "node 'scale1' (scale): the bias is not a vector of 3 elements");
  Attributes a;
  a.values.assign(12, 1);
  EXPECT_EQ(message(OpKind::transpose, {}, a), "node 'transpose1' (transpose): 12 values are too many");
  EXPECT_EQ(message(OpKind::pad, {}, a), "good");
}

// What a file says of tensors that nodes compute.
TEST_F(Registered, ComputedTensorsAreChecked) {
  const auto message = [](auto&& spoil) {
    GraphBuilder b;
    const int x = b.input("x", {1000});
    b.output(scaled(b, x, 2), "sized");
    b.output(custom(b, "test_positive", {x}), "unsized");
    for (const Port& port : b.graph.outputs) spoil(b.graph.tensors[at(port.tensor)]);
    const qn_status status = check_graph(b.graph);
    return status == QN_OK && infer_shapes(b.graph) == QN_OK ? std::string("good") : std::string(qn_last_message());
  };
  EXPECT_EQ(message([](Tensor&) {}), "good");
  EXPECT_EQ(message([](Tensor& t) { t.shape.assign(500, 1); }), "tensor 1: rank 500 is above 8");
  for (const char* name : {"sized", "unsized"}) {
    const auto found = message([&](Tensor& t) {
      if (t.name == String(name)) t.quantization.scales = {1};
    });
    EXPECT_NE(found.find(std::string("('") + name + "'): it has a scale, but f32 is not quantized"), std::string::npos)
        << found;
  }
}

// ---- graphs that nodes run

// The graph x -> x + addend.
Graph adding(float addend) {
  GraphBuilder b;
  const int x = b.input("x", {2});
  b.output(b.node(OpKind::add, {x, b.constant_of({2}, {addend, addend})}), "y");
  return b.done();
}

GraphBuilder branching() {
  GraphBuilder b;
  const int condition = flag_input(b, "condition"), x = b.input("x", {2});
  b.output(b.node(OpKind::branch, {condition, x}), "y");
  b.graph.tensors[at(b.graph.outputs[0].tensor)].type = QN_F32;
  b.graph.nodes[0].subgraphs = {0, 1};
  b.graph.subgraphs.push_back(adding(1));
  b.graph.subgraphs.push_back(adding(-1));
  return b;
}

TEST_F(Registered, ABranchRunsOneOfTwoGraphs) {
  Runner r(branching().done());
  const Floats data = {5, 6};
  for (const bool condition : {true, false, true}) {
    expect_ok(r.run({&condition, data.data()}));
    EXPECT_EQ(r.output(), condition ? (Floats{6, 7}) : (Floats{4, 5}));
  }
  const unsigned char yes = 2;  // a boolean of a file may be any byte
  expect_ok(r.run({&yes, data.data()}));
  EXPECT_EQ(r.output(), (Floats{6, 7}));
  const size_t other[] = {4, 2};                                                // the graphs follow
  EXPECT_EQ(qn_session_resize(r.session(), 1, 2, other), QN_INVALID_ARGUMENT);  // another rank
}

TEST_F(Registered, BranchesThatAreWrongAreRefused) {
  const auto message = [](auto&& spoil) {
    GraphBuilder b = branching();
    spoil(b.graph);
    return check_graph(b.graph) == QN_OK ? std::string("good") : std::string(qn_last_message());
  };
  EXPECT_EQ(message([](Graph&) {}), "good");
  EXPECT_EQ(message([](Graph& g) { g.nodes[0].subgraphs[1] = 2; }),
            "node 'branch0' (branch): subgraph 2 does not exist");
  EXPECT_EQ(message([](Graph& g) { g.nodes[0].subgraphs.pop_back(); }),
            "node 'branch0' (branch): 1 subgraphs instead of two");
  EXPECT_EQ(message([](Graph& g) { g.nodes[0].inputs.pop_back(); }),
            "node 'branch0' (branch): a subgraph has 1 inputs or outputs where the node has 1");
  EXPECT_EQ(message([](Graph& g) { g.tensors[0].type = g.inputs[0].type = QN_F32; }),
            "node 'branch0' (branch): the condition is not bool");
  EXPECT_EQ(message([](Graph& g) { g.subgraphs[0].outputs[0].type = QN_F16; }),
            "node 'branch0' (branch): a subgraph has another type than the node for tensor 0");
}

// Inputs: how often, x. Outputs: x + how often, and all sums on the way. The numbers of `times` have a shape.
Graph looping(const char* condition = "test_less", const Shape& times_shape = {}, size_t rank = 1) {
  GraphBuilder body;
  integer_input(body, "run", {});
  const int goes_on = flag_input(body, "goes_on"), x = body.input("x", {2});
  const int limit = body.input("limit", {}, QN_S64);
  body.graph.tensors[at(limit)].type = QN_S64;
  const int sum = body.node(OpKind::add, {x, body.constant_of({2}, {1, 1})});
  body.output(custom(body, condition, {0, limit}, QN_BOOL), "next", QN_BOOL);
  body.output(sum, "sum");
  Attributes to;
  to.values.assign(rank, 1);
  to.values[0] = 2;
  body.output(body.node(OpKind::reshape, {body.node(OpKind::clamp, {sum}, range(-100, 100))}, to), "row");
  (void)goes_on;
  GraphBuilder b;
  const int times = integer_input(b, "times", times_shape), start = b.input("x", {2}),
            last = integer_input(b, "last", {});
  Attributes a;
  a.size = 1;
  const int first = add_node(b.graph, OpKind::loop, "loop", {times, no_tensor, start, last}, a, 2);
  b.graph.nodes[0].subgraphs = {0};
  for (const int t : {first, first + 1}) b.graph.tensors[at(t)].type = QN_F32;
  b.output(first, "sum");
  b.output(first + 1, "rows");
  b.graph.subgraphs.push_back(body.done());
  return b.done();
}

TEST_F(Registered, ALoopCarriesAndGathers) {
  Runner r(looping());
  const Floats data = {1, 2};
  const auto run = [&](int64_t times, int64_t last, size_t expected) {
    expect_ok(r.run({&times, data.data(), &last}));
    const auto n = static_cast<float>(expected);
    EXPECT_EQ(r.output(0), (Floats{1 + n, 2 + n}));
    EXPECT_EQ(r.shape(1), (Sizes{expected, 2}));
    Floats rows;
    for (size_t i = 1; i <= expected; ++i)
      rows.insert(rows.end(), {1 + static_cast<float>(i), 2 + static_cast<float>(i)});
    EXPECT_EQ(r.output(1), rows);
  };
  run(3, 100, 3);
  run(0, 100, 0);
  run(-1, 100, 0);
  run(100, 2, 3);  // the condition ends it after run 2
  run(1, 100, 1);
}

// ---- profiles

// A session that profiles, and its entries.
class Profiled {
 public:
  explicit Profiled(const Graph& graph) : runner(graph, &options_) {}

  std::vector<qn_profile_entry> entries() {
    std::vector<qn_profile_entry> list(qn_session_profile_count(runner.session()));
    for (size_t i = 0; i < list.size(); ++i) {
      qn_profile_entry_init(&list[i]);
      expect_ok(qn_session_profile(runner.session(), i, &list[i]));
    }
    return list;
  }

 private:
  qn_session_options options_ = [] {
    qn_session_options options;
    qn_session_options_init(&options);
    options.profile = 1;
    return options;
  }();

 public:
  Runner runner;
};

// The graph x -> weights * x, as often as `layers` says.
Graph multiplying(size_t layers) {
  GraphBuilder b;
  int x = b.input("x", {1, 2});
  for (size_t i = 0; i < layers; ++i) x = b.node(OpKind::fully_connected, {x, b.constant({2, 2}), no_tensor});
  b.output(x, "y");
  return b.done();
}

TEST_F(Registered, AProfileShowsWhatOnlyARunCanSize) {
  GraphBuilder b;
  const int condition = flag_input(b, "condition"), x = b.input("x", {1, 2});
  const int positive = custom(b, "test_positive", {b.node(OpKind::clamp, {x}, range(-9, 9))});
  b.output(b.node(OpKind::exp, {positive}), "exp");
  b.output(b.node(OpKind::branch, {condition, x}), "y");
  b.graph.tensors[at(b.graph.outputs[1].tensor)].type = QN_F32;
  b.graph.nodes.back().subgraphs = {0, 1};
  b.graph.subgraphs.push_back(multiplying(1));
  b.graph.subgraphs.push_back(multiplying(3));
  Profiled p(b.done());
  ASSERT_EQ(p.entries().size(), 4u) << "before a run";
  const Floats data = {5, 6};
  for (const bool first : {true, false, true}) {
    expect_ok(p.runner.run({&first, data.data()}));
    const std::vector<qn_profile_entry> entries = p.entries();
    const char* const expected[] = {"clamp", "test_positive", "exp", "branch"};
    uint64_t end = 0;
    ASSERT_EQ(entries.size(), first ? 5u : 7u) << "and what ran inside";
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_STREQ(entries[i].op, expected[i]);
      EXPECT_EQ(entries[i].depth, 0u);
      EXPECT_EQ(entries[i].runs, 1u);
      EXPECT_GE(entries[i].start_ns, end);
      EXPECT_GT(entries[i].time_ns, 0u) << expected[i];
      end = entries[i].start_ns + entries[i].time_ns;
    }
    EXPECT_STRNE(entries[2].kernel, "") << "planned in the run";
    EXPECT_EQ(entries[3].macs, first ? 4u : 12u) << "of the graph that ran";
    EXPECT_STREQ(entries[3].name, "branch3");
    for (size_t i = 4; i < entries.size(); ++i) {
      EXPECT_STREQ(entries[i].op, "fully_connected");
      EXPECT_EQ(entries[i].depth, 1u);
      EXPECT_EQ(entries[i].runs, 1u);
      EXPECT_LE(entries[i].time_ns, entries[3].time_ns);
    }
    EXPECT_EQ(qn_session_profile(p.runner.session(), entries.size(), nullptr), QN_INVALID_ARGUMENT);
  }
}

TEST_F(Registered, AProfileCountsEveryIterationOfALoop) {
  Graph graph = looping();
  Graph& body = graph.subgraphs[0];
  Node& add = body.nodes[0];
  ASSERT_EQ(add.kind, OpKind::add);
  const float weights[] = {1, 2, 3, 4};
  add.kind = OpKind::fully_connected;
  add.inputs = {add.inputs[0], add_constant(body, "", QN_F32, {2, 2}, weights), no_tensor};
  Profiled p(graph);
  ASSERT_EQ(p.entries().size(), 1u);
  EXPECT_EQ(p.entries()[0].macs, 0u) << "before a run";
  const Floats data = {1, 2};
  const int64_t last = 100;
  for (const int64_t times : {3, 0, 5}) {
    expect_ok(p.runner.run({&times, data.data(), &last}));
    EXPECT_STREQ(p.entries()[0].op, "loop");
    const std::vector<qn_profile_entry> entries = p.entries();
    EXPECT_EQ(entries[0].macs, static_cast<uint64_t>(4 * times));
    EXPECT_EQ(entries[0].runs, 1u);
    uint64_t inside = 0;
    for (const qn_profile_entry& entry : entries) {
      if (entry.depth == 0) continue;
      EXPECT_EQ(entry.depth, 1u);
      EXPECT_EQ(entry.runs, static_cast<uint32_t>(times));
      inside += entry.time_ns;
    }
    EXPECT_EQ(inside == 0, times == 0);
    EXPECT_LE(inside, entries[0].time_ns);
  }
}

// Scan outputs have the shape that the body infers from its first inputs, or else the declared one.
TEST_F(Registered, ALoopThatDoesNotRunKnowsItsRows) {
  const auto rows = [](const Graph& graph) {
    Runner r(graph);
    const Floats data = {1, 2};
    const int64_t none = 0;
    expect_ok(r.run({&none, data.data(), &none}));
    EXPECT_EQ(r.output(0), data);
    return r.shape(1);
  };
  Graph unsized = looping();
  unsized.subgraphs[0].inputs[2].unsized = true;
  EXPECT_EQ(rows(unsized), (Sizes{0, 2}));
  Graph by_run = looping();
  Node& row = by_run.subgraphs[0].nodes.back();
  row.kind = OpKind::custom;
  row.type = "test_positive";
  row.attributes = {};
  EXPECT_EQ(rows(by_run), (Sizes{0}));
  by_run.nodes[0].attributes.values = {2, 5, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(rows(by_run), (Sizes{0, 5, 0}));
  by_run.nodes[0].attributes.values = {0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(rows(by_run), (Sizes{0}));
}

TEST_F(Registered, WhatALoopSaysOfItsRowsIsChecked) {
  const auto message = [](const Vector<int64_t>& values) {
    Graph graph = looping();
    graph.nodes[0].attributes.values = values;
    EXPECT_EQ(check_graph(graph), QN_BAD_MODEL);
    return std::string(qn_last_message());
  };
  const int64_t half = int64_t{1} << 32;
  EXPECT_EQ(message({1, 2, 3}), "node 'loop' (loop): expected 8 values for 1 scan outputs, got 3");
  EXPECT_EQ(message({8, 1, 1, 1, 1, 1, 1, 1}), "node 'loop' (loop): scan output 0: expected a rank of 0 to 7, got 8");
  EXPECT_EQ(message({-1, 1, 1, 1, 1, 1, 1, 1}), "node 'loop' (loop): scan output 0: expected a rank of 0 to 7, got -1");
  EXPECT_EQ(message({2, 1, -5, 1, 1, 1, 1, 1}),
            "node 'loop' (loop): scan output 0: expected a size of 0 or more, got -5");
  EXPECT_EQ(message({2, half, half, 1, 1, 1, 1, 1}), "node 'loop' (loop): scan output 0: the declared size overflows");
}

TEST_F(Registered, LoopsThatAreWrongAreRefused) {
  const auto message = [](const Graph& graph, int64_t times) {
    Runner r(graph);
    const Floats data = {1, 2};
    EXPECT_EQ(r.run({&times, data.data(), &times}), QN_INVALID_ARGUMENT);
    return std::string(qn_last_message());
  };
  EXPECT_EQ(message(looping("test_less", {0}), 3), "node 'loop': the number of runs of the loop is empty");
  EXPECT_EQ(message(looping("test_no_flags"), 3), "node 'loop': the condition of the loop is empty");
  EXPECT_EQ(message(looping("test_less", {}, 8), 3), "node 'loop': an output of the loop has rank 9");
  EXPECT_EQ(message(looping("test_less", {}, 8), 0), "node 'loop': an output of the loop has rank 9");
}

TEST_F(Registered, ALoopThatDoesNotEndCanBeCancelled) {
  Runner r(looping());
  const Floats data = {1, 2};
  const int64_t forever = INT64_MAX;
  qn_session_cancel(r.session());
  EXPECT_EQ(r.run({&forever, data.data(), &forever}), QN_CANCELLED);
}

// A node of a graph that a node runs hears that the session of the whole was cancelled, and the next run is another.
TEST_F(Registered, AKindOfAHostHearsThatItsRunIsCancelled) {
  Runner r(looping("test_less_asks"));
  to_cancel = r.session();
  const Floats data = {1, 2};
  const int64_t forever = INT64_MAX, three = 3;
  for (const int round : {1, 5}) {
    runs = 0, cancelled_run = round;
    EXPECT_EQ(r.run({&forever, data.data(), &forever}), QN_CANCELLED);
    EXPECT_EQ(runs, round);
    EXPECT_NE(std::string(qn_last_message()).find("I was asked to stop"), std::string::npos) << qn_last_message();
    cancelled_run = 0;
    expect_ok(r.run({&three, data.data(), &forever}));
    EXPECT_EQ(r.output(), (Floats{4, 5}));
  }
}

}  // namespace registered_test
}  // namespace quern::test
