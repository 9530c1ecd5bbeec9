// Backends with memory of their own beside the CPU: the bits stay the same, and failures leave nothing behind.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "convert/zoo/zoo.h"
#include "naive.h"
#include "remote.h"
#include "small_graphs.h"

namespace quern::test {
namespace second_memory_test {

struct Release {
  void operator()(qn_arena* arena) const { qn_arena_release(arena); }
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ArenaHandle = std::unique_ptr<qn_arena, Release>;
using ModelHandle = std::unique_ptr<qn_model, Release>;
using SessionHandle = std::unique_ptr<qn_session, Release>;

ModelHandle model_of(const Graph& graph) {
  qn_model* model = nullptr;
  EXPECT_EQ(make_model(graph, nullptr, &model), QN_OK) << qn_last_message();
  return ModelHandle(model);
}

qn_session_options options_of(size_t threads = 1, qn_arena* arena = nullptr) {
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = threads;
  options.arena = arena;
  return options;
}

qn_status make_session(const ModelHandle& model, const qn_session_options& options, SessionHandle* made) {
  qn_session* session = nullptr;
  const qn_status status = qn_session_create(model.get(), &options, &session);
  made->reset(session);
  return status;
}

SessionHandle session_of(const ModelHandle& model, const qn_session_options& options = options_of()) {
  SessionHandle session;
  EXPECT_EQ(make_session(model, options, &session), QN_OK) << qn_last_message();
  return session;
}

std::string output(const SessionHandle& session, size_t index) {
  qn_tensor tensor;
  const void* data = nullptr;
  expect_ok(qn_session_output_tensor(session.get(), index, &tensor));
  expect_ok(qn_session_output(session.get(), index, &data));
  return {static_cast<const char*>(data), qn_tensor_bytes(&tensor)};
}

// The network with images of another size.
Graph zoo_of(const char* name, size_t side) {
  Graph graph = build_zoo(name, 1);
  Vector<size_t>& shape = graph.tensors[static_cast<size_t>(graph.inputs[0].tensor)].shape;
  shape[2] = shape[3] = side;
  expect_ok(infer_shapes(graph));
  return graph;
}

// A graph, inputs for it, and what the CPU alone makes of them.
struct Net {
  explicit Net(Graph g) : graph(std::move(g)), values(random_inputs(graph, 5)) {
    for (const Port& port : graph.inputs) inputs.push_back(values.at(port.tensor).data());
    const ModelHandle model = model_of(graph);
    const SessionHandle session = session_of(model);
    expect_ok(qn_session_run(session.get(), inputs.data()));
    for (size_t i = 0; i < graph.outputs.size(); ++i) expected.push_back(output(session, i));
  }

  void expect_right(const SessionHandle& session) const {
    ASSERT_EQ(qn_session_run(session.get(), inputs.data()), QN_OK) << qn_last_message();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(output(session, i) == expected[i]) << "output " << i;
  }

  Graph graph;
  Values values;
  std::vector<const void*> inputs;
  std::vector<std::string> expected;
};

bool all(const Graph&, size_t) { return true; }

// The convolutions with an odd number, or an even one.
bool every_second(const Graph& graph, size_t node, bool odd = true) {
  const auto is_conv = [](const Node& n) { return n.kind == OpKind::conv2d; };
  const auto before = std::count_if(graph.nodes.begin(), graph.nodes.begin() + node, is_conv);
  return is_conv(graph.nodes[node]) && (before % 2 == 1) == odd;
}

// ---- the same bits

void check_mobilenet(size_t side, bool odd) {
  const Net net(zoo_of("mobilenet_v1", side));
  Remote remote(0, [=](const Graph& graph, size_t node) { return every_second(graph, node, odd); });
  const ModelHandle model = model_of(net.graph);
  const size_t runs = odd ? 13 : 14;
  for (const size_t threads : {1, 2}) {
    const Remote::Counts before = remote.counts();
    const SessionHandle session = session_of(model, options_of(threads));
    net.expect_right(session);
    net.expect_right(session);
    const Remote::Counts now = remote.counts();
    EXPECT_EQ(now.runs - before.runs, 2 * runs);
    EXPECT_EQ(now.writes - before.writes, 2 * runs);
    EXPECT_EQ(now.reads - before.reads, 2 * runs);
    EXPECT_EQ(now.allocations - before.allocations, 1u);
  }
  EXPECT_EQ(remote.blocks(), 0u);
}

TEST(SecondMemory, RunsEverySecondConvolutionOfMobileNet) { check_mobilenet(224, true); }
TEST(SecondMemory, RunsTheOtherConvolutionsOfMobileNet) { check_mobilenet(64, false); }

// Two memories and the host's, in any order: nodes are anywhere, or in runs of several.
TEST(SecondMemory, NodesMayBeAnywhere) {
  for (const char* const name : {"mobilenet_v3_large", "squeezenet_v1.1", "shufflenet_v2", "resnet18"}) {
    const Net net(zoo_of(name, 64));
    for (unsigned seed = 0; seed < 4; ++seed) {
      std::mt19937 random(seed);
      std::vector<unsigned> where(net.graph.nodes.size());
      unsigned last = 0;
      for (unsigned& w : where)
        w = last = seed % 2 == 0 || random() % 4 == 0 ? static_cast<unsigned>(random()) % 3 : last;
      Remote near(0, [&](const Graph&, size_t node) { return where[node] == 0; });
      Remote far(1, [&](const Graph&, size_t node) { return where[node] == 1; });
      const ModelHandle model = model_of(net.graph);
      net.expect_right(session_of(model));
      EXPECT_GT(near.counts().runs, 0u);
      EXPECT_GT(far.counts().runs, 0u);
    }
  }
}

// What is read there and here, is an output and read again, is seen in another shape, is a constant, is half precision.
Graph corners() {
  GraphBuilder b;
  const int x = b.input("x", {1, 6, 6, 8});
  const int half = b.input("half", {1, 6, 6, 8}, QN_F16);
  const int c = b.constant({1, 6, 6, 8});
  const int sum = b.output(b.node(OpKind::add, {x, c}), "read again");
  const int scaled = b.node(OpKind::scale, {half, b.constant({8}), b.constant({8})});
  const int joined = b.output(b.node(OpKind::concat, {sum, scaled, x}, axis(3)), "joined");
  b.output(b.node(OpKind::tanh, {b.node(OpKind::slice, {joined}, values({0, 0, 0, 2, -1, -1, -1, 9}))}), "of a part");
  b.output(b.node(OpKind::reshape, {joined}, values({36, 24})), "a view");
  b.output(b.node(OpKind::reshape, {b.node(OpKind::exp, {scaled})}, values({0, -1})), "half precision", QN_F16);
  b.output(b.node(OpKind::mul, {c, b.constant({8})}), "of constants");
  b.graph.outputs.push_back({.tensor = sum});
  b.graph.outputs.push_back({.tensor = x});
  return b.done();
}

TEST(SecondMemory, CornersOfGraphs) {
  Net net(corners());
  const std::vector<uint16_t> half(6 * 6 * 8, 0x3555);
  net.inputs[1] = half.data();
  const SessionHandle alone = session_of(model_of(net.graph));
  expect_ok(qn_session_run(alone.get(), net.inputs.data()));
  for (size_t i = 0; i < net.expected.size(); ++i) net.expected[i] = output(alone, i);
  for (unsigned which = 0; which < 1u << net.graph.nodes.size(); which += which % 3 + 1) {
    Remote near(0, [=](const Graph&, size_t node) { return (which >> node & 1) != 0; });
    Remote far(1, [=](const Graph&, size_t node) { return node % 3 == 0; });
    net.expect_right(session_of(model_of(net.graph)));
    if (HasFailure()) FAIL() << "where the nodes of these bits are remote: " << which;
  }
}

TEST(SecondMemory, PortsStayAsTheyAre) {
  Remote remote(0, all);
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  qn_port port;
  qn_port_init(&port);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    expect_ok(qn_model_output(model.get(), i, &port));
    EXPECT_STREQ(port.name, graph.tensors[static_cast<size_t>(graph.outputs[i].tensor)].name.c_str());
  }
}

// ---- sessions

TEST(SecondMemory, BoundBuffersAreReadAndWrittenInPlace) {
  const Net net(sample_graph());
  Remote remote(0, all);
  const ModelHandle model = model_of(net.graph);
  const SessionHandle session = session_of(model);
  std::vector<std::string> outputs;
  for (const std::string& expected : net.expected) outputs.emplace_back(expected.size(), 'x');
  for (size_t i = 0; i < outputs.size(); ++i) {
    expect_ok(qn_session_bind_output(session.get(), i, outputs[i].data(), outputs[i].size()));
  }
  for (size_t i = 0; i < net.inputs.size(); ++i) {
    const size_t bytes = net.values.at(net.graph.inputs[i].tensor).size() * sizeof(float);
    expect_ok(qn_session_bind_input(session.get(), i, net.inputs[i], bytes));
  }
  ASSERT_EQ(qn_session_run(session.get(), nullptr), QN_OK) << qn_last_message();
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(outputs[i] == net.expected[i]);
}

TEST(SecondMemory, SessionsResize) {
  const Net small(zoo_of("mobilenet_v1", 64)), large(zoo_of("mobilenet_v1", 96));
  Remote remote(0, [](const Graph& graph, size_t node) { return every_second(graph, node); });
  const SessionHandle session = session_of(model_of(small.graph));
  for (const Net* net : {&large, &small, &large}) {
    const Vector<size_t>& shape = net->graph.tensors[static_cast<size_t>(net->graph.inputs[0].tensor)].shape;
    ASSERT_EQ(qn_session_resize(session.get(), 0, 4, shape.data()), QN_OK) << qn_last_message();
    net->expect_right(session);
    EXPECT_EQ(remote.blocks(), 1u);
  }
}

TEST(SecondMemory, SessionsShareArenas) {
  const Net small(zoo_of("mobilenet_v1", 64)), large(zoo_of("mobilenet_v1", 96)), other(sample_graph());
  Remote near(0, [](const Graph& graph, size_t node) { return every_second(graph, node); });
  Remote far(1, [](const Graph& graph, size_t node) { return graph.nodes[node].kind == OpKind::softmax; });
  for (const bool fixed : {false, true}) {
    const Buffer memory(size_t{64} << 20);
    qn_arena* arena = nullptr;
    expect_ok(qn_arena_create(fixed ? memory.data() : nullptr, fixed ? memory.size() : 0, &arena));
    const ArenaHandle shared(arena);
    const SessionHandle a = session_of(model_of(small.graph), options_of(1, arena));
    const SessionHandle b = session_of(model_of(large.graph), options_of(2, arena));
    const SessionHandle c = session_of(model_of(other.graph), options_of(1, arena));
    const SessionHandle d = session_of(model_of(small.graph), options_of(1, arena));
    for (int run = 0; run < 2; ++run) {
      small.expect_right(a);
      large.expect_right(b);
      other.expect_right(c);
      small.expect_right(d);
    }
    EXPECT_EQ(near.blocks(), 1u);
    EXPECT_EQ(far.blocks(), 1u);
  }
}

TEST(SecondMemory, SessionsRunAtTheSameTime) {
  const Net net(zoo_of("mobilenet_v1", 64));
  Remote remote(0, [](const Graph& graph, size_t node) { return every_second(graph, node); });
  const ModelHandle model = model_of(net.graph);
  const SessionHandle sessions[] = {session_of(model), session_of(model, options_of(2))};
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) net.expect_right(sessions[1]);
  });
  for (int i = 0; i < 3; ++i) net.expect_right(sessions[0]);
  other.join();
}

TEST(SecondMemory, ProfilesShowCopies) {
  const Net net(sample_graph());
  Remote remote(0, [](const Graph& graph, size_t node) { return graph.nodes[node].kind == OpKind::max_pool; });
  qn_session_options options = options_of();
  options.profile = 1;
  const SessionHandle session = session_of(model_of(net.graph), options);
  net.expect_right(session);
  std::vector<std::string> copies;
  for (size_t i = 0; i < qn_session_profile_count(session.get()); ++i) {
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    expect_ok(qn_session_profile(session.get(), i, &entry));
    if (std::string(entry.op) == "copy") copies.push_back(entry.name);
  }
  EXPECT_EQ(copies, (std::vector<std::string>{"max_pool5: to near", "max_pool5: to host"}));
}

// ---- failures

TEST(SecondMemory, NoRoomInIt) {
  const Net small(zoo_of("mobilenet_v1", 64)), large(zoo_of("mobilenet_v1", 96));
  Remote remote(0, [](const Graph& graph, size_t node) { return every_second(graph, node); });
  const ModelHandle model = model_of(small.graph);
  SessionHandle session;
  remote.failing_allocation = 0;
  EXPECT_EQ(make_session(model, options_of(), &session), QN_OUT_OF_MEMORY);
  EXPECT_STREQ(qn_last_message(), "the memory is full");
  EXPECT_EQ(session, nullptr);
  session = session_of(model);
  remote.failing_allocation = 0;
  const size_t shape[] = {1, 3, 96, 96};
  EXPECT_EQ(qn_session_resize(session.get(), 0, 4, shape), QN_OUT_OF_MEMORY);
  small.expect_right(session);
  EXPECT_EQ(qn_session_resize(session.get(), 0, 4, shape), QN_OK);
  large.expect_right(session);
}

// Fails at the n-th allocation of the library.
struct Counter {
  std::atomic<size_t> blocks{0}, left{0};

  static void* allocate(void* context, size_t size, size_t alignment) {
    auto* self = static_cast<Counter*>(context);
    if (self->left == 0) return nullptr;
    --self->left;
    ++self->blocks;
    void* pointer = nullptr;
    return posix_memalign(&pointer, std::max(alignment, sizeof(void*)), size) == 0 ? pointer : nullptr;
  }
  static void release(void* context, void* pointer, size_t) {
    --static_cast<Counter*>(context)->blocks;
    std::free(pointer);
  }
};

TEST(SecondMemory, NoRoomOnTheHost) {
  Counter counter;
  const qn_allocator allocator = {&counter, Counter::allocate, Counter::release, {}};
  Remote near(0, [](const Graph&, size_t node) { return node % 3 == 0; });
  Remote far(1, [](const Graph&, size_t node) { return node % 3 == 1; });
  {
    Vector<unsigned char> image;
    expect_ok(write_model(sample_graph(), &image));
    expect_ok(qn_set_allocator(&allocator));
    qn_status status = QN_OUT_OF_MEMORY;
    for (size_t point = 0; status != QN_OK; ++point) {
      counter.left = point;
      qn_model* model = nullptr;
      qn_session* session = nullptr;
      status = qn_model_load_memory(image.data(), image.size(), nullptr, &model);
      const qn_session_options options = options_of();
      if (status == QN_OK) status = qn_session_create(model, &options, &session);
      const size_t larger[] = {1, 10, 10, 3};
      if (status == QN_OK) status = qn_session_resize(session, 0, 4, larger);
      if (status == QN_INVALID_ARGUMENT) status = QN_OK;  // the fully connected layer is for one size
      EXPECT_TRUE(status == QN_OK || status == QN_OUT_OF_MEMORY) << qn_last_message();
      qn_session_release(session);
      qn_model_release(model);
      ASSERT_EQ(counter.blocks, 0u) << "at allocation " << point;
      ASSERT_EQ(near.blocks() + far.blocks(), 0u) << "at allocation " << point;
    }
    qn_set_allocator(nullptr);
  }
}

TEST(SecondMemory, RunsThatFail) {
  const Net net(zoo_of("mobilenet_v1", 64));
  Remote remote(0, [](const Graph& graph, size_t node) { return every_second(graph, node); });
  const SessionHandle session = session_of(model_of(net.graph));
  const void* data = nullptr;
  for (const size_t at : {0, 5, 12}) {
    remote.failing_run = at;
    EXPECT_EQ(qn_session_run(session.get(), net.inputs.data()), QN_IO_ERROR);
    EXPECT_TRUE(std::string_view(qn_last_message()).ends_with("': the machine is gone")) << qn_last_message();
    EXPECT_EQ(qn_session_output(session.get(), 0, &data), QN_INVALID_ARGUMENT);
    EXPECT_EQ(remote.waiting(), 0u) << "stopped";
    net.expect_right(session);
    remote.failing_work = at;
    EXPECT_EQ(qn_session_run(session.get(), net.inputs.data()), QN_IO_ERROR);
    EXPECT_TRUE(std::string_view(qn_last_message()).ends_with("': the machine got lost")) << qn_last_message();
    net.expect_right(session);
  }
}

TEST(SecondMemory, RunsThatAreCancelled) {
  const Net net(sample_graph());
  Remote remote(0, all);
  const SessionHandle session = session_of(model_of(net.graph));
  remote.when_asked = [&] { qn_session_cancel(session.get()); };
  EXPECT_EQ(qn_session_run(session.get(), net.inputs.data()), QN_CANCELLED);
  EXPECT_EQ(remote.waiting(), 0u) << "nothing works on after the run";
  remote.when_asked = [] {};
  net.expect_right(session);
}

TEST(SecondMemory, BackendsAreAFew) {
  std::vector<Backend> others(max_backends, cpu_backend);
  for (size_t i = 0; i + 1 < max_backends; ++i) expect_ok(add_backend(others[i]));
  EXPECT_EQ(add_backend(others.back()), QN_INVALID_ARGUMENT);
  const Graph graph = sample_graph();
  EXPECT_EQ(find_backend(graph, graph.nodes[0]), &others[max_backends - 2]) << "the last is asked first";
  for (size_t i = 0; i + 1 < max_backends; ++i) remove_backend(others[i]);
  EXPECT_EQ(find_backend(graph, graph.nodes[0]), &cpu_backend);
}

}  // namespace second_memory_test
}  // namespace quern::test
