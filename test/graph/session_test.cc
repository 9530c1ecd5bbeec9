// Sessions: results against plain evaluation, resizing, threads, border types, cancelling, profiles, memory.
#include <fp16.h>
#include <pthreadpool.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "../check/flushing.h"
#include "base/cpu.h"
#include "base/cpus.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace session_test {

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ModelHandle = std::unique_ptr<qn_model, Release>;
using SessionHandle = std::unique_ptr<qn_session, Release>;

ModelHandle model_of(const Graph& graph, const qn_model_options* options = nullptr) {
  qn_model* model = nullptr;
  expect_ok(make_model(graph, options, &model));
  return ModelHandle(model);
}

SessionHandle session_of(const ModelHandle& model, const qn_session_options* options = nullptr) {
  qn_session* session = nullptr;
  expect_ok(qn_session_create(model.get(), options, &session));
  return SessionHandle(session);
}

std::vector<const void*> pointers(const Graph& graph, const Values& values) {
  std::vector<const void*> inputs;
  for (const Port& port : graph.inputs) inputs.push_back(values.at(port.tensor).data());
  return inputs;
}

const float* output(const SessionHandle& session, size_t index) {
  const void* data = nullptr;
  expect_ok(qn_session_output(session.get(), index, &data));
  return static_cast<const float*>(data);
}

// Levels without fused multiply-add round every product once more.
float tolerance() { return (cpu().isa & fused_levels) != 0 ? 2e-6f : 4e-6f; }

// Runs a session on random inputs and compares all outputs with the plain evaluation of the same graph.
void expect_right(const Graph& graph, const SessionHandle& session, unsigned seed) {
  Values values = random_inputs(graph, seed);
  ASSERT_EQ(qn_session_run(session.get(), pointers(graph, values).data()), QN_OK) << qn_last_message();
  Values expected = values;
  evaluate_naively(graph, expected);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    EXPECT_LE(difference(expected.at(graph.outputs[i].tensor), output(session, i)), tolerance()) << "output " << i;
  }
  for (const Port& port : graph.inputs) EXPECT_EQ(values.at(port.tensor), expected.at(port.tensor));
}

void expect_right(const Graph& graph, const qn_session_options* options = nullptr) {
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model, options);
  ASSERT_NE(session, nullptr);
  for (unsigned run = 0; run < 3; ++run) expect_right(graph, session, run);
}

TEST(Session, Sample) { expect_right(sample_graph()); }

class SessionKind : public ::testing::TestWithParam<int> {};
TEST_P(SessionKind, AgreesWithPlainEvaluation) { expect_right(graph_of_kind(static_cast<OpKind>(GetParam()))); }
INSTANTIATE_TEST_SUITE_P(All, SessionKind, ::testing::Range(0, static_cast<int>(OpKind::count)),
                         [](const auto& kind) { return op_name(static_cast<OpKind>(kind.param)); });

// ---- shapes

TEST(Session, Resize) {
  GraphBuilder b;
  const int x = b.input("x", {1, 8, 8, 3});
  const int c = b.node(OpKind::conv2d, {x, b.constant({4, 3, 3, 3})}, window(1, 2, 1));
  b.output(b.node(OpKind::reshape, {b.node(OpKind::global_average_pool, {c})}, values({0, -1})), "y");
  Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  const size_t before = qn_session_memory(session.get());
  const size_t shape[] = {3, 21, 17, 3};
  ASSERT_EQ(qn_session_resize(session.get(), 0, 4, shape), QN_OK) << qn_last_message();
  EXPECT_GT(qn_session_memory(session.get()), before);
  qn_tensor y;
  ASSERT_EQ(qn_session_output_tensor(session.get(), 0, &y), QN_OK);
  EXPECT_EQ(y.rank, 2u);
  EXPECT_EQ(y.shape[0], 3u);
  graph.tensors[static_cast<size_t>(x)].shape.assign(shape, shape + 4);
  expect_ok(infer_shapes(graph));
  expect_right(graph, session, 1);
}

TEST(Session, FailedResizeKeepsTheOldSizes) {
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  const size_t wrong_channels[] = {1, 8, 8, 4}, zero[] = {1, 0, 8, 3}, too_small[] = {1, 1, 1, 3};
  EXPECT_EQ(qn_session_resize(session.get(), 0, 4, wrong_channels), QN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(qn_last_message()).find("conv2d0"), std::string::npos) << qn_last_message();
  EXPECT_EQ(qn_session_resize(session.get(), 0, 4, zero), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_session_resize(session.get(), 0, 4, too_small), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_session_resize(session.get(), 0, QN_MAX_RANK + 1, wrong_channels), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_session_resize(session.get(), 2, 4, too_small), QN_INVALID_ARGUMENT);
  const size_t huge[] = {size_t{15} << (sizeof(size_t) > 4 ? 40 : 16), 8, 8, 3};  // for each tensor alone there is room
  EXPECT_EQ(qn_session_resize(session.get(), 0, 4, huge), QN_OUT_OF_MEMORY) << qn_last_message();
  expect_right(graph, session, 1);
}

TEST(Session, FixedDimensionsStay) {
  GraphBuilder b;
  b.output(b.node(OpKind::clamp, {b.input("x", {2, 5, 6})}), "y");
  b.graph.inputs[0].fixed = 2;
  b.graph.inputs[0].fixed_by = String("split");
  const ModelHandle model = model_of(b.done());
  const SessionHandle session = session_of(model);
  const size_t other[] = {2, 4, 6}, same[] = {3, 5, 9};
  EXPECT_EQ(qn_session_resize(session.get(), 0, 3, other), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(),
               "input 'x': expected size 5 in dimension 1, for which node 'split' of the source was converted, got 4");
  EXPECT_EQ(qn_session_resize(session.get(), 0, 3, same), QN_OK) << qn_last_message();
}

// A node behind the input finds the fault, but the input has the wrong shape.
TEST(Session, ShapesThatDoNotSuitTheModelAreNamed) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2}), y = b.input("y", {1, 4, 4, 2});
  b.output(b.node(OpKind::add, {x, y}), "sum");
  const ModelHandle model = model_of(b.done());
  const SessionHandle session = session_of(model);
  const size_t other[] = {1, 4, 5, 2};
  EXPECT_EQ(qn_session_resize(session.get(), 1, 4, other), QN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(qn_last_message()).rfind("input 'y' of 1x4x5x2: node 'add0'", 0), 0u) << qn_last_message();
  EXPECT_EQ(qn_session_resize(session.get(), 1, 3, other), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "input 'y': expected rank 4, got 3");
}

TEST(Session, ResizeAll) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3}), y = b.input("y", {2, 3});
  b.output(b.node(OpKind::concat, {x, y}, axis(1)), "z");
  Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  qn_tensor tensors[2];
  const size_t a[] = {5, 3}, c[] = {5, 4};
  EXPECT_EQ(qn_session_resize(session.get(), 0, 2, a), QN_INVALID_ARGUMENT) << "one alone does not fit";
  ASSERT_EQ(qn_tensor_init(&tensors[0], QN_F32, 2, a), QN_OK);
  ASSERT_EQ(qn_tensor_init(&tensors[1], QN_F32, 2, c), QN_OK);
  ASSERT_EQ(qn_session_resize_all(session.get(), tensors), QN_OK) << qn_last_message();
  graph.tensors[static_cast<size_t>(x)].shape = {5, 3};
  graph.tensors[static_cast<size_t>(y)].shape = {5, 4};
  expect_ok(infer_shapes(graph));
  expect_right(graph, session, 1);
  tensors[1].type = QN_F16;
  EXPECT_EQ(qn_session_resize_all(session.get(), tensors), QN_INVALID_ARGUMENT);
}

// ---- where tensors lie

TEST(Session, OutputsThatAreInputsOrConstantsOrViews) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 1, 1});
  b.output(b.node(OpKind::reshape, {x}, values({3, 2})), "view of an input");
  b.output(b.constant({4}), "a constant");
  b.graph.outputs.push_back({.tensor = x});
  const int r = b.node(OpKind::clamp, {x}, range(0, 1));
  b.output(r, "relu");
  b.output(b.node(OpKind::transpose, {r}, values({2, 0, 1, 3})), "view of an output");
  b.output(b.node(OpKind::sigmoid, {r}), "sigmoid");
  const Graph graph = b.done();
  expect_right(graph);

  // What the user gets does not depend on the user's own buffer afterwards.
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  std::vector<float> input = {1, 2, 3, 4, 5, 6};
  const void* inputs[] = {input.data()};
  ASSERT_EQ(qn_session_run(session.get(), inputs), QN_OK);
  input.assign(6, {});
  EXPECT_EQ(output(session, 0)[5], 6);
  EXPECT_EQ(output(session, 2)[0], 1);
}

TEST(Session, InPlaceOnlyWhereNobodyReadsAfterwards) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 8});
  const int r = b.node(OpKind::clamp, {x}, range(0, 1));           // not over the user's buffer
  const int s = b.node(OpKind::sigmoid, {r});                      // r is read later
  const int flat = b.node(OpKind::reshape, {r}, values({16, 8}));  // a view keeps r alive
  const int t = b.node(OpKind::tanh, {s});                         // over s
  const int u = b.node(OpKind::add, {t, t});                       // over t, both inputs
  const int row = b.node(OpKind::reshape, {u}, values({1, 16, 8}));
  const int v = b.node(OpKind::mul, {flat, row});
  b.output(b.node(OpKind::sub, {v, b.constant({8})}), "y");
  const Graph graph = b.done();
  expect_right(graph);
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  // x is the user's; r has a block, s, t and u share another, v and y lie over one of the two
  EXPECT_EQ(qn_session_memory(session.get()), 2u * 4 * 4 * 8 * 4);
}

TEST(Session, ArenaOfAChainIsTwoTensors) {
  GraphBuilder b;
  int x = b.input("x", {1, 8, 8, 16});
  for (int i = 0; i < 10; ++i) x = b.node(OpKind::max_pool, {x}, window(3, 1, 1));
  b.output(x, "y");
  const ModelHandle model = model_of(b.done());
  const SessionHandle session = session_of(model);
  EXPECT_LT(qn_session_memory(session.get()), 2u * 8 * 8 * 16 * 4 + 4096) << "two tensors and a little workspace";
}

// A few nodes, and each in its way would take gigabytes.
TEST(Session, RefusesASmallModelThatWantsGigabytes) {
  const size_t wide = size_t{1} << 26;
  const auto pooled = [](GraphBuilder& b, OpKind kind, const Shape& shape, const Attributes& a) {
    const int x = b.input("x", shape);
    for (int i = 0; i < 20; ++i) b.output(b.node(kind, {x}, a), ("y" + std::to_string(i)).c_str());
  };
  const std::pair<const char*, std::function<void(GraphBuilder&)>> models[] = {
      {"activations",
       [](GraphBuilder& b) {
         const int x = b.input("x", {1, 1, 1, 1});
         b.output(b.node(OpKind::pad, {x}, values({0, 0, 0, 0, 0, 20000, 20000, 0})), "y");
       }},
      {"positions of a resize",
       [](GraphBuilder& b) {
         b.output(b.node(OpKind::resize, {b.input("x", {1, 1, 1, 1})}, values({1, 200000000})), "y");
       }},
      {"windows as large as images",
       [&](GraphBuilder& b) {
         pooled(b, OpKind::global_max_pool, {1, 8192, 8192, 1}, {});
       }},
      {"many windows",
       [&](GraphBuilder& b) {
         pooled(b, OpKind::max_pool, {1, wide, 1, 1}, window(1, 1, 0));
       }},
      {"packed weights",
       [](GraphBuilder& b) {
         const int x = b.input("x", {1, 262144}), w = b.constant({1, 262144});
         for (int i = 0; i < 300; ++i) {  // the narrowest panels have 8 outputs
           b.output(b.node(OpKind::fully_connected, {x, w, b.constant({1})}), ("y" + std::to_string(i)).c_str());
         }
       }},
  };
  for (const auto& [what, build] : models) {
    SCOPED_TRACE(what);
    GraphBuilder b;
    build(b);
    const ModelHandle model = model_of(b.done());
    qn_session* session = nullptr;
    EXPECT_EQ(qn_session_create(model.get(), nullptr, &session), QN_OUT_OF_MEMORY);
    EXPECT_NE(std::string(qn_last_message()).find("limit"), std::string::npos) << qn_last_message();
    qn_session_release(session);
  }
}

TEST(Session, MemoryLimit) {
  GraphBuilder b;
  const int x = b.input("x", {1, 100, 100, 16});
  b.output(b.node(OpKind::exp, {x}), "y");
  const ModelHandle model = model_of(b.done());
  qn_session_options options;
  qn_session_options_init(&options);
  options.memory_limit = 500000;  // the output alone takes 640000
  qn_session* session = nullptr;
  EXPECT_EQ(qn_session_create(model.get(), &options, &session), QN_OUT_OF_MEMORY);
  EXPECT_EQ(session, nullptr);
  options.memory_limit = 1000000;
  const SessionHandle made = session_of(model, &options);
  const size_t larger[] = {1, 200, 200, 16}, smaller[] = {1, 50, 50, 16};
  EXPECT_EQ(qn_session_resize(made.get(), 0, 4, larger), QN_OUT_OF_MEMORY);
  EXPECT_EQ(qn_session_resize(made.get(), 0, 4, smaller), QN_OK) << qn_last_message();
  const SessionHandle unlimited = session_of(model);
  EXPECT_EQ(qn_session_resize(unlimited.get(), 0, 4, larger), QN_OK) << qn_last_message();
}

// ---- half precision at the border

TEST(Session, F16Ports) {
  GraphBuilder b;
  const int x = b.input("x", {1, 2, 2, 3}, QN_F16);
  const int y = b.node(OpKind::clamp, {x}, range(-0.25, 0.5));
  b.output(y, "y", QN_F16);
  b.output(b.node(OpKind::exp, {y}), "z");
  b.graph.outputs.push_back({.tensor = x, .type = QN_F16});
  const Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  qn_tensor tensor;
  ASSERT_EQ(qn_session_input_tensor(session.get(), 0, &tensor), QN_OK);
  EXPECT_EQ(tensor.type, QN_F16);
  std::vector<uint16_t> halves;
  for (int i = 0; i < 12; ++i) halves.push_back(fp16_ieee_from_fp32_value(static_cast<float>(i) / 8 - 0.5f));
  const void* inputs[] = {halves.data()};
  ASSERT_EQ(qn_session_run(session.get(), inputs), QN_OK) << qn_last_message();
  const void *half_out, *float_out, *same;
  expect_ok(qn_session_output(session.get(), 0, &half_out));
  expect_ok(qn_session_output(session.get(), 1, &float_out));
  expect_ok(qn_session_output(session.get(), 2, &same));
  for (size_t i = 0; i < 12; ++i) {
    const float expected = std::min(std::max(static_cast<float>(i) / 8 - 0.5f, -0.25f), 0.5f);
    EXPECT_EQ(fp16_ieee_to_fp32_value(static_cast<const uint16_t*>(half_out)[i]), expected);
    EXPECT_NEAR(static_cast<const float*>(float_out)[i], std::exp(expected), 1e-6);
    EXPECT_EQ(static_cast<const uint16_t*>(same)[i], halves[i]);
  }
}

// ---- threads

// Large enough to be shared between threads.
Graph convolutions() {
  GraphBuilder b;
  int x = b.input("x", {1, 32, 32, 16});
  for (int i = 0; i < 4; ++i) x = b.node(OpKind::conv2d, {x, b.constant({16, 3, 3, 16})}, window(1, 1, 1));
  b.output(x, "y");
  return b.done();
}

TEST(Session, ThreadsGiveTheSameBits) {
  const Graph graph = convolutions();
  const Values values = random_inputs(graph, 5);
  const ModelHandle model = model_of(graph);
  std::vector<std::vector<float>> results;
  for (const size_t threads : {1, 2, 3, 4}) {
    qn_session_options options;
    qn_session_options_init(&options);
    options.threads = threads;
    const SessionHandle session = session_of(model, &options);
    ASSERT_EQ(qn_session_run(session.get(), pointers(graph, values).data()), QN_OK);
    results.emplace_back(output(session, 0), output(session, 0) + 32 * 32 * 16);
    EXPECT_EQ(results.back(), results.front()) << threads << " threads";
  }
}

// The bits of a run by `threads` threads, which were started while their starter flushed denormals (`started`) or did not.
// The caller of the run does (`runs`) or does not.
std::vector<float> run_flushing(size_t threads, bool started, bool runs) {
  constexpr size_t count = 1 << 18;
  GraphBuilder b;
  const int x = b.input("x", {1, 64, 64, 64});
  b.output(b.node(OpKind::mul, {x, x}), "y");
  const ModelHandle model = model_of(b.done());
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = threads;
  SessionHandle session;
  {
    const check::Flushing flushing(started);
    session = session_of(model, &options);
  }
  const std::vector<float> data(count, 1e-20f);
  const void* const inputs[] = {data.data()};
  {
    const check::Flushing flushing(runs);
    expect_ok(qn_session_run(session.get(), inputs));
  }
  return {output(session, 0), output(session, 0) + count};
}

// What a thread of a pool or of the host does with denormals is not seen: the caller's mode counts.
TEST(Session, ThreadsFlushDenormalsAsTheCallerDoes) {
  for (const bool runs : {false, true}) {
    const std::vector<float> one = run_flushing(1, runs, runs);
    const bool flushes = runs || flushing_levels != 0;
    EXPECT_EQ(one[0], flushes ? 0.0f : 1e-20f * 1e-20f);
    for (const bool started : {false, true}) {
      EXPECT_TRUE(run_flushing(4, started, runs) == one) << "started " << started << ", runs " << runs;
    }
  }
}

// The child of a fork has none of the parent's threads: it uses sessions without, and makes sessions with threads anew.
TEST(Session, RunInAForkedChild) {
  const Graph graph = convolutions();
  const Values values = random_inputs(graph, 5);
  const ModelHandle model = model_of(graph);
  qn_session_options options;
  qn_session_options_init(&options);
  const SessionHandle alone = session_of(model, &options);
  options.threads = 3;
  const SessionHandle threaded = session_of(model, &options);
  ASSERT_EQ(qn_session_run(threaded.get(), pointers(graph, values).data()), QN_OK);
  const auto same = [&](const SessionHandle& session) {
    const bool done = session != nullptr && qn_session_run(session.get(), pointers(graph, values).data()) == QN_OK;
    return done && std::memcmp(output(session, 0), output(threaded, 0), 32 * 32 * 16 * sizeof(float)) == 0;
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!same(alone)) _exit(1);
    // qemu (7.2) fails an assertion when a forked child starts a thread.
    _exit(QUERN_EMULATED || same(session_of(model, &options)) ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A host that runs tasks backwards on the caller, and what it was asked for.
struct CountingHost {
  std::vector<size_t> counts;

  qn_parallel of(size_t threads) {
    return {this,
            [](void* context, void (*task)(void*, size_t), void* arg, size_t count) {
              static_cast<CountingHost*>(context)->counts.push_back(count);
              for (size_t i = count; i-- > 0;) task(arg, i);
            },
            threads,
            {},
            {}};
  }
};

TEST(Session, RunsOnTheHostsThreads) {
  CountingHost host;
  const qn_parallel parallel = host.of(2);
  qn_session_options options;
  qn_session_options_init(&options);
  options.parallel = &parallel;
  options.algorithm = QN_ALGORITHM_IGEMM;  // exact enough for expect_right
  expect_right(convolutions(), &options);
  EXPECT_GT(host.counts.size(), 0u);
}

// What a run of convolutions() asks a host of `threads` threads for.
std::vector<size_t> asked_for(size_t host_threads, std::optional<size_t> threads) {
  CountingHost host;
  const qn_parallel parallel = host.of(host_threads);
  qn_session_options options;
  qn_session_options_init(&options);
  options.parallel = &parallel;
  if (threads) options.threads = *threads;
  options.algorithm = QN_ALGORITHM_IGEMM;  // has tasks enough for three threads, at every level
  const Graph graph = convolutions();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model, &options);
  expect_ok(qn_session_run(session.get(), pointers(graph, random_inputs(graph, 5)).data()));
  return host.counts;
}

TEST(Session, HasAsManyTasksAsTheHostHasThreads) {
  const std::vector<size_t> one, two = asked_for(0, 2), three = asked_for(0, 3);
  ASSERT_GT(two.size(), 0u);
  ASSERT_NE(two, three);
  EXPECT_EQ(asked_for(2, {}), two);
  EXPECT_EQ(asked_for(3, QN_THREADS_DEFAULT), three);
  EXPECT_EQ(asked_for(3, 0), three);
  EXPECT_EQ(asked_for(3, 2), two) << "who says a number means it";
  EXPECT_EQ(asked_for(2, 1), one);
  EXPECT_EQ(asked_for(1, {}), one);
  const std::vector<size_t> fast = asked_for(0, usable_cores());
  EXPECT_EQ(asked_for(0, {}), fast) << "the host does not know";
  EXPECT_EQ(asked_for(0, 0), fast);
  EXPECT_EQ(asked_for(SIZE_MAX, {}), asked_for(0, 1024));
}

const std::filesystem::path threads_folder = "/proc/self/task";

std::set<std::string> threads_of_this_process() {
  std::set<std::string> names;
  for (const auto& thread : std::filesystem::directory_iterator(threads_folder)) names.insert(thread.path().filename());
  return names;
}

// Threads that were joined are the process's until the system has taken them away.
bool comes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 10000 && !condition(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

TEST(Session, WithoutAHostMakesThreadsWhereAskedTo) {
  const ModelHandle model = model_of(convolutions());
  std::thread([] {}).join();  // ThreadSanitizer makes a thread of its own when the first one starts
  const std::set<std::string> before = threads_of_this_process();
  // Threads of earlier tests may still be there, and go at any time.
  const auto made = [&] {
    const std::set<std::string> now = threads_of_this_process();
    return std::count_if(now.begin(), now.end(), [&](const std::string& name) { return before.count(name) == 0; });
  };
  const auto started = [&](std::optional<size_t> threads) {
    qn_session_options options;
    qn_session_options_init(&options);
    if (threads) options.threads = *threads;
    SessionHandle session = session_of(model, &options);
    const auto count = static_cast<size_t>(made());
    session.reset();
    EXPECT_TRUE(comes_true([&] { return made() == 0; }));
    return count;
  };
  EXPECT_EQ(started({}), 0u);
  EXPECT_EQ(started(3), std::min<size_t>(usable_cpus(), 3) - 1);
  EXPECT_EQ(started(0), usable_cores() - 1);
  if (cpu().cpus != 0) return;  // QUERN_CPUS says how many, whatever is allowed
  cpu_set_t before_set, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before_set, &before_set), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(started(0), 0u) << "one CPU is allowed";
  ASSERT_EQ(sched_setaffinity(0, sizeof before_set, &before_set), 0);
}

TEST(Session, TwoSessionsOfOneModelAtTheSameTime) {
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      qn_session_options options;
      qn_session_options_init(&options);
      options.threads = 1 + t % 2;
      const SessionHandle session = session_of(model, &options);  // planned at the same time, too
      for (unsigned run = 0; run < 20; ++run) expect_right(graph, session, t * 100 + run);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Session, KeepsTheModelAlive) {
  const Graph graph = sample_graph();
  ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  model.reset();
  expect_right(graph, session, 1);
}

TEST(Session, ModelsShareAWeightsCache) {
  const Graph graph = sample_graph();
  qn_weights_cache* cache;
  ASSERT_EQ(qn_weights_cache_create(&cache), QN_OK);
  qn_model_options options;
  qn_model_options_init(&options);
  options.cache = cache;
  {
    const ModelHandle first = model_of(graph, &options);
    const SessionHandle a = session_of(first);
    const size_t bytes = qn_weights_cache_bytes(cache);
    EXPECT_GT(bytes, 0u);
    const ModelHandle second = model_of(graph, &options);  // the same weights, at the same addresses
    const SessionHandle b = session_of(second);
    EXPECT_EQ(qn_weights_cache_bytes(cache), bytes);
    expect_right(graph, b, 1);
  }
  EXPECT_EQ(qn_weights_cache_bytes(cache), 0u);
  qn_weights_cache_release(cache);
}

// ---- options and control

TEST(Session, ForcedAlgorithmWhereItApplies) {
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  for (const qn_algorithm algorithm :
       {QN_ALGORITHM_DIRECT, QN_ALGORITHM_GEMM, QN_ALGORITHM_IGEMM, QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_WINOGRAD,
        QN_ALGORITHM_SPARSE, QN_ALGORITHM_DENSE}) {
    qn_session_options options;
    qn_session_options_init(&options);
    options.algorithm = algorithm;
    options.profile = 1;
    const SessionHandle session = session_of(model, &options);
    expect_right(graph, session, 1);
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    ASSERT_EQ(qn_session_profile(session.get(), 0, &entry), QN_OK);
    if (algorithm == QN_ALGORITHM_IGEMM) {
      EXPECT_STREQ(entry.algorithm, "igemm");
    }
  }
}

// The algorithm of each step that has one, in order.
std::vector<std::string> algorithms_of(const Graph& graph, qn_algorithm asked) {
  qn_session_options options;
  qn_session_options_init(&options);
  options.algorithm = asked;
  options.profile = 1;
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model, &options);
  expect_right(graph, session, 1);
  std::vector<std::string> algorithms;
  for (size_t i = 0; i < qn_session_profile_count(session.get()); ++i) {
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    expect_ok(qn_session_profile(session.get(), i, &entry));
    if (*entry.algorithm != '\0') algorithms.emplace_back(entry.algorithm);
  }
  return algorithms;
}

// Nearly all weights are 0, so that the cost model would leave them out.
TEST(Session, ZerosAreLeftOutEverywhereOrNowhere) {
  const auto mostly_zero = [](size_t count) {
    std::vector<float> weights(count);
    for (size_t i = 0; i < count; i += 37) weights[i] = i % 2 == 0 ? 1.0f : -1.0f;
    return weights;
  };
  GraphBuilder b;
  const int x = b.input("image", {1, 12, 12, 64});
  const int conv = b.node(OpKind::conv2d, {x, b.constant_of({96, 1, 1, 64}, mostly_zero(96 * 64))});
  Attributes window3 = window(1, 1, 1);
  window3.groups = 96;
  const int depthwise = b.node(OpKind::conv2d, {conv, b.constant_of({96, 3, 3, 1}, mostly_zero(96 * 9))}, window3);
  const int flat = b.node(OpKind::reshape, {depthwise}, values({0, -1}));
  const size_t length = 12 * 12 * 96;
  const int fc = b.node(OpKind::fully_connected, {flat, b.constant_of({10, length}, mostly_zero(10 * length))});
  b.output(fc, "scores");
  const Graph graph = b.done();

  const std::vector<std::string> sparse = algorithms_of(graph, QN_ALGORITHM_SPARSE);
  ASSERT_EQ(sparse.size(), 3u);
  EXPECT_EQ(sparse[0], "sparse");
  EXPECT_NE(sparse[1], "sparse") << "depthwise";
  EXPECT_EQ(sparse[2], "sparse");
  const std::vector<std::string> dense = algorithms_of(graph, QN_ALGORITHM_DENSE);
  ASSERT_FALSE(dense.empty());
  EXPECT_EQ(std::count(dense.begin(), dense.end(), "sparse") + std::count(dense.begin(), dense.end(), "dense"), 0);
  const std::vector<std::string> open = algorithms_of(graph, QN_ALGORITHM_AUTO);
  EXPECT_NE(std::count(open.begin(), open.end(), "sparse"), 0);
}

size_t count_steps(const Graph& graph) {
  qn_session_options options;
  qn_session_options_init(&options);
  options.profile = 1;
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model, &options);
  expect_right(graph, session, 1);
  return qn_session_profile_count(session.get());
}

TEST(Session, PartsOfAConcatAreComputedInPlace) {
  GraphBuilder b;
  const int x = b.input("x", {2, 5, 6, 4});
  const int conv = b.node(OpKind::conv2d, {x, b.constant({7, 5, 5, 4})}, window(1, 1, 2));
  const int pool = b.node(OpKind::max_pool, {x}, window(3, 1, 1));
  const int inner = b.node(OpKind::concat, {conv, pool}, axis(3));
  const int slope = b.node(OpKind::prelu, {conv, b.constant({7})});
  const int outer = b.node(OpKind::concat, {slope, inner}, axis(3));
  b.output(b.node(OpKind::tanh, {outer}), "y");
  EXPECT_EQ(count_steps(b.done()), 4u) << "no concat";
}

TEST(Session, PartsThatCannotBeAreCopied) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 4});
  const int twice = b.node(OpKind::sigmoid, {x});
  const int put_out = b.output(b.node(OpKind::tanh, {x}), "t");
  const int reshaped = b.node(OpKind::exp, {x});
  b.output(b.node(OpKind::reshape, {reshaped}, values({1, 64})), "r");
  const int part = b.node(OpKind::clamp, {x}, range(0, 1));
  b.output(b.node(OpKind::concat, {twice, x, put_out, reshaped, part, twice}, axis(3)), "y");
  EXPECT_EQ(count_steps(b.done()), 5u);
}

// The past of a model that generates text has no elements at first.
TEST(Session, PartsWithoutElementsAreLeftOut) {
  GraphBuilder b;
  const int past = b.input("past", {2, 3, 4}), present = b.input("present", {2, 1, 4});
  const int computed = b.node(OpKind::tanh, {past});
  b.output(b.node(OpKind::concat, {past, present, past}, axis(1)), "of inputs");
  b.output(b.node(OpKind::concat, {computed, b.node(OpKind::tanh, {present})}, axis(1)), "of results");
  Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  for (const size_t length : {size_t{0}, size_t{2}, size_t{0}}) {
    const size_t shape[] = {2, length, 4};
    ASSERT_EQ(qn_session_resize(session.get(), 0, 3, shape), QN_OK) << qn_last_message();
    graph.tensors[at(past)].shape.assign(shape, shape + 3);
    expect_ok(infer_shapes(graph));
    expect_right(graph, session, 1);
  }
}

// A pad makes elements of nothing; the convolution behind it must not take its padding over then.
TEST(Session, PadsOfNothingAreFilled) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 5, 4});
  const int padded = b.node(OpKind::pad, {x}, values({0, 1, 1, 0, 0, 1, 1, 0}));
  b.output(b.node(OpKind::conv2d, {padded, b.constant({2, 2, 2, 4}), b.constant({2})}), "y");
  b.output(b.node(OpKind::pad, {b.node(OpKind::tanh, {x})}, values({1, 0, 0, 0, 0, 2, 0, 0})), "z");
  Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  for (const size_t height : {size_t{0}, size_t{3}, size_t{0}}) {
    const size_t shape[] = {1, height, 5, 4};
    ASSERT_EQ(qn_session_resize(session.get(), 0, 4, shape), QN_OK) << qn_last_message();
    graph.tensors[at(x)].shape.assign(shape, shape + 4);
    expect_ok(infer_shapes(graph));
    expect_right(graph, session, 1);
  }
  expect_ok(optimize(graph));  // with a height of 0
  EXPECT_EQ(graph.nodes[0].kind, OpKind::pad);
}

TEST(Session, SlicesOfNothingHaveNoElements) {
  GraphBuilder b;
  const int x = b.input("x", {2, 5, 4});
  const int part = b.node(OpKind::slice, {x}, values({0, 1, 2, -1, 3, -1}));
  b.output(b.node(OpKind::tanh, {part}), "y");
  b.output(b.node(OpKind::slice, {b.node(OpKind::tanh, {x})}, values({0, 2, -1, -1, 2, -1})), "z");
  Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  for (const size_t batch : {size_t{0}, size_t{2}}) {
    const size_t shape[] = {batch, 5, 4};
    ASSERT_EQ(qn_session_resize(session.get(), 0, 3, shape), QN_OK) << qn_last_message();
    graph.tensors[at(x)].shape.assign(shape, shape + 3);
    expect_ok(infer_shapes(graph));
    expect_right(graph, session, 1);
  }
}

TEST(Session, SlicesAreReadWhereTheyLie) {
  GraphBuilder b;
  const int x = b.input("x", {2, 5, 6, 9});
  const int all = b.node(OpKind::sigmoid, {x});
  const int left = b.node(OpKind::slice, {all}, values({0, 0, 0, 0, -1, -1, -1, 4}));
  const int right = b.node(OpKind::slice, {all}, values({0, 1, 0, 4, -1, 4, -1, -1}));
  const int corner = b.node(OpKind::slice, {right}, values({1, 0, 1, 1, -1, 2, 4, -1}));
  const int users = b.node(OpKind::slice, {x}, values({0, 0, 2, 2, -1, -1, -1, 5}));
  b.output(b.node(OpKind::conv2d, {left, b.constant({5, 3, 3, 4})}), "a");
  b.output(b.node(OpKind::clamp, {right}, range(0.4f, 0.6f)), "b");
  b.output(b.node(OpKind::tanh, {corner}), "c");
  b.output(b.node(OpKind::max_pool, {users}, window(2, 2, 0)), "d");
  b.output(b.node(OpKind::slice, {all}, values({0, 0, 0, 1, -1, -1, -1, 2})), "the user's");
  EXPECT_EQ(count_steps(b.done()), 6u) << "the last slice is copied";
}

TEST(Session, SumsBecomePartOfAConvolution) {
  GraphBuilder b;
  const int x = b.input("x", {2, 6, 5, 8});
  const int first = b.node(OpKind::conv2d, {x, b.constant({8, 5, 5, 8}), b.constant({8})}, window(1, 1, 2));
  const int sum = b.node(OpKind::add, {first, x}, range(0, 2));
  const int left = b.node(OpKind::conv2d, {sum, b.constant({12, 1, 1, 8})});
  const int right = b.node(OpKind::conv2d, {sum, b.constant({12, 5, 5, 8})}, window(1, 1, 2));
  const int both = b.node(OpKind::add, {left, right});
  b.output(b.node(OpKind::sigmoid, {both}), "y");
  EXPECT_EQ(count_steps(b.done()), 4u) << "no add";
}

// Large enough that what is between would not stay in the cache.
TEST(Session, DepthwiseAndPointwiseRunInOnePass) {
  GraphBuilder b;
  const int x = b.input("x", {1, 112, 112, 48});
  Attributes by_channel = window(1, 1, 1);
  by_channel.groups = 48;
  const int depthwise = b.node(OpKind::conv2d, {x, b.constant({48, 3, 3, 1})}, by_channel);
  const int point = b.node(OpKind::conv2d, {depthwise, b.constant({16, 1, 1, 48}), b.constant({16})}, range(0, 6));
  const int pool = b.node(OpKind::max_pool, {x}, window(3, 1, 1));
  const int joined = b.node(OpKind::concat, {pool, point}, axis(3));
  b.output(b.node(OpKind::conv2d, {joined, b.constant({4, 1, 1, 64})}), "y");
  EXPECT_EQ(count_steps(b.done()), 3u);
}

TEST(Session, OtherSumsStayAlone) {
  GraphBuilder b;
  const int x = b.input("x", {1, 6, 6, 8});
  const int read_twice = b.node(OpKind::conv2d, {x, b.constant({8, 1, 1, 8})});
  const int put_out = b.output(b.node(OpKind::conv2d, {x, b.constant({8, 1, 1, 8})}), "c");
  const int depthwise = b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 1})}, [] {
    Attributes a = window(1, 1, 1);
    a.groups = 8;
    return a;
  }());
  const int pooled = b.node(OpKind::global_max_pool, {b.node(OpKind::conv2d, {x, b.constant({8, 1, 1, 8})})});
  int y = b.node(OpKind::add, {read_twice, put_out});
  y = b.node(OpKind::add, {y, read_twice});
  y = b.node(OpKind::add, {y, depthwise});
  y = b.node(OpKind::add, {y, pooled});
  b.output(b.node(OpKind::add, {y, y}), "y");
  EXPECT_EQ(count_steps(b.done()), 10u);
}

TEST(Session, Profile) {
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  qn_session_options options;
  qn_session_options_init(&options);
  EXPECT_EQ(qn_session_profile_count(session_of(model, &options).get()), 0u);
  options.profile = 1;
  const SessionHandle session = session_of(model, &options);
  ASSERT_EQ(qn_session_profile_count(session.get()), graph.nodes.size() - 2) << "all but the reshape and the concat";
  expect_right(graph, session, 1);
  uint64_t end = 0;
  for (size_t i = 0; i < qn_session_profile_count(session.get()); ++i) {
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    ASSERT_EQ(qn_session_profile(session.get(), i, &entry), QN_OK);
    EXPECT_GE(entry.start_ns, end);
    end = entry.start_ns + entry.time_ns;
    EXPECT_EQ(entry.macs > 0, std::string(entry.op) == "conv2d" || std::string(entry.op) == "fully_connected");
  }
  qn_profile_entry entry;
  qn_profile_entry_init(&entry);
  ASSERT_EQ(qn_session_profile(session.get(), 0, &entry), QN_OK);
  EXPECT_STREQ(entry.name, "conv2d0");
  EXPECT_STREQ(entry.op, "conv2d");
  EXPECT_EQ(entry.macs, 4u * 4 * 16 * 27);
  EXPECT_NE(std::string(entry.kernel), "");
  EXPECT_EQ(qn_session_profile(session.get(), 99, &entry), QN_INVALID_ARGUMENT);
}

TEST(Session, Cancel) {
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model);
  const Values values = random_inputs(graph, 1);
  qn_session_cancel(session.get());
  EXPECT_EQ(qn_session_run(session.get(), pointers(graph, values).data()), QN_CANCELLED);
  const void* data;
  EXPECT_EQ(qn_session_output(session.get(), 0, &data), QN_INVALID_ARGUMENT) << "there is no result";
  expect_right(graph, session, 1);  // and the next run works
}

// From another thread, while the run goes on: the host's threads make the moment certain.
TEST(Session, CancelBetweenOperators) {
  struct Host {
    qn_session* session = nullptr;
    int calls = 0;
  } host;
  const qn_parallel parallel = {&host,
                                [](void* context, void (*task)(void*, size_t), void* arg, size_t count) {
                                  auto* h = static_cast<Host*>(context);
                                  for (size_t i = 0; i < count; ++i) task(arg, i);
                                  if (h->calls++ == 0) std::thread(qn_session_cancel, h->session).join();
                                },
                                0,
                                {},
                                {}};
  const Graph graph = convolutions();
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = 2;
  options.parallel = &parallel;
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model, &options);
  host.session = session.get();
  const Values values = random_inputs(graph, 1);
  EXPECT_EQ(qn_session_run(session.get(), pointers(graph, values).data()), QN_CANCELLED);
  EXPECT_EQ(host.calls, 1);
}

// The tasks of the only operator ask. After the operator it is too late, and the next run is another.
TEST(Session, CancelWithinAnOperator) {
  struct Host {
    qn_session* session = nullptr;
    bool before = false, after = false;
  } host;
  const qn_parallel parallel = {&host,
                                [](void* context, void (*task)(void*, size_t), void* arg, size_t count) {
                                  const auto* h = static_cast<const Host*>(context);
                                  if (h->before) qn_session_cancel(h->session);
                                  for (size_t i = 0; i < count; ++i) task(arg, i);
                                  if (h->after) qn_session_cancel(h->session);
                                },
                                0,
                                {},
                                {}};
  GraphBuilder b;
  b.output(b.node(OpKind::conv2d, {b.input("x", {1, 40, 40, 16}), b.constant({32, 3, 3, 16})}), "y");
  const Graph graph = b.done();
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = 2;
  options.parallel = &parallel;
  options.algorithm = QN_ALGORITHM_IGEMM;  // exact enough for expect_right
  const ModelHandle model = model_of(graph);
  const SessionHandle session = session_of(model, &options);
  host.session = session.get();
  expect_right(graph, session, 1);
  const Values inputs = random_inputs(graph, 2);
  for (const bool before : {false, true}) {
    host.before = before, host.after = !before;
    EXPECT_EQ(qn_session_run(session.get(), pointers(graph, inputs).data()), QN_CANCELLED);
    EXPECT_STREQ(qn_last_message(), "node 'conv2d0': cancelled");
    host = {session.get()};
    expect_right(graph, session, 2);
  }
}

TEST(Session, BadArguments) {
  const Graph graph = sample_graph();
  const ModelHandle model = model_of(graph);
  qn_session* none = nullptr;
  qn_session_options options;
  EXPECT_EQ(qn_session_create(nullptr, nullptr, &none), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_session_create(model.get(), nullptr, nullptr), QN_INVALID_ARGUMENT);
  qn_session_options_init(&options);
  for (const size_t threads : {size_t{1025}, QN_THREADS_DEFAULT - 1}) {
    options.threads = threads;
    EXPECT_EQ(qn_session_create(model.get(), &options, &none), QN_INVALID_ARGUMENT);
  }
  qn_session_options_init(&options);
  options.struct_size = 3;
  EXPECT_EQ(qn_session_create(model.get(), &options, &none), QN_INVALID_ARGUMENT);
  qn_session_options_init(&options);
  options.algorithm = static_cast<qn_algorithm>(3) /* igemm */;
  EXPECT_EQ(qn_session_create(model.get(), &options, &none), QN_OK);
  qn_session_release(none);
  const SessionHandle session = session_of(model);
  const Values values = random_inputs(graph, 1);
  std::vector<const void*> inputs = pointers(graph, values);
  const void* data;
  EXPECT_EQ(qn_session_output(session.get(), 0, &data), QN_INVALID_ARGUMENT) << "before any run";
  EXPECT_EQ(qn_session_run(session.get(), nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_session_run(nullptr, inputs.data()), QN_INVALID_ARGUMENT);
  inputs[1] = static_cast<const char*>(inputs[1]) + 1;
  EXPECT_EQ(qn_session_run(session.get(), inputs.data()), QN_INVALID_ARGUMENT);
  inputs[1] = nullptr;
  EXPECT_EQ(qn_session_run(session.get(), inputs.data()), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_session_output(session.get(), 7, &data), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_model_input_count(model.get()), 2u);
  EXPECT_EQ(qn_model_output_count(model.get()), 2u);
  qn_port port;
  qn_port_init(&port);
  EXPECT_EQ(qn_model_input(model.get(), 2, &port), QN_INVALID_ARGUMENT);
  ASSERT_EQ(qn_model_input(model.get(), 0, &port), QN_OK);
  EXPECT_STREQ(port.name, "image");
  EXPECT_EQ(port.tensor.rank, 4u);
  qn_preprocessing how;
  qn_preprocessing_init(&how);
  EXPECT_EQ(qn_model_preprocessing(model.get(), 2, &how), QN_INVALID_ARGUMENT);
  ASSERT_EQ(qn_model_preprocessing(model.get(), 0, &how), QN_OK);
  EXPECT_EQ(how.present, 1);
  EXPECT_EQ(how.resize, 256u);
  ASSERT_EQ(qn_model_preprocessing(model.get(), 1, &how), QN_OK);
  EXPECT_EQ(how.present, 0);
  qn_model_release(nullptr);
  qn_session_release(nullptr);
}

// ---- structs that the library fills, of callers of other versions

// A call that fills a struct, what the struct is called, how long it is now, and how long one without its last members.
struct OutputStruct {
  const char* who;
  size_t size, shorter;
  std::function<qn_status(void*)> fill;
};

std::vector<OutputStruct> output_structs(const qn_model* model, const qn_session* session) {
  return {{"qn_model_input", sizeof(qn_port), offsetof(qn_port, tensor),
           [=](void* port) { return qn_model_input(model, 0, static_cast<qn_port*>(port)); }},
          {"qn_model_output", sizeof(qn_port), offsetof(qn_port, tensor),
           [=](void* port) { return qn_model_output(model, 0, static_cast<qn_port*>(port)); }},
          {"qn_model_preprocessing", sizeof(qn_preprocessing), offsetof(qn_preprocessing, resize),
           [=](void* how) { return qn_model_preprocessing(model, 0, static_cast<qn_preprocessing*>(how)); }},
          {"qn_session_profile", sizeof(qn_profile_entry), offsetof(qn_profile_entry, macs),
           [=](void* entry) { return qn_session_profile(session, 0, static_cast<qn_profile_entry*>(entry)); }}};
}

// Memory full of 0x55, at the beginning of which a caller's struct says that it has so many bytes.
struct CallersStruct {
  explicit CallersStruct(size_t struct_size) {
    std::memset(bytes, 0x55, sizeof bytes);
    std::memcpy(bytes, &struct_size, sizeof struct_size);
  }
  bool holds(unsigned char value, size_t from, size_t to) const {
    return std::all_of(bytes + from, bytes + to, [=](unsigned char byte) { return byte == value; });
  }
  size_t struct_size() const {
    size_t size;
    std::memcpy(&size, bytes, sizeof size);
    return size;
  }
  alignas(8) unsigned char bytes[512];
};

class OutputStructs : public ::testing::Test {
 protected:
  void SetUp() override {
    qn_session_options options;
    qn_session_options_init(&options);
    options.profile = 1;
    model = model_of(sample_graph());
    session = session_of(model, &options);
  }
  std::vector<OutputStruct> all() const { return output_structs(model.get(), session.get()); }

  ModelHandle model;
  SessionHandle session;
};

TEST_F(OutputStructs, OlderAndNewerCallersGetWhatTheyHaveRoomFor) {
  for (const OutputStruct& c : all()) {
    SCOPED_TRACE(c.who);
    CallersStruct current(c.size), older(c.shorter), newer(c.size + 16);
    for (CallersStruct* caller : {&current, &older, &newer}) {
      const size_t size = caller->struct_size();
      ASSERT_EQ(c.fill(caller), QN_OK) << qn_last_message();
      EXPECT_EQ(caller->struct_size(), size);
      EXPECT_TRUE(caller->holds(0x55, size, sizeof caller->bytes)) << "what is not the library's";
    }
    const size_t first = sizeof(size_t);
    EXPECT_FALSE(current.holds(0x55, first, c.size));
    EXPECT_EQ(std::memcmp(older.bytes + first, current.bytes + first, c.shorter - first), 0);
    EXPECT_EQ(std::memcmp(newer.bytes + first, current.bytes + first, c.size - first), 0);
    EXPECT_TRUE(newer.holds(0, c.size, c.size + 16)) << "what this version does not know";
  }
}

TEST_F(OutputStructs, UnlikelySizesAreRefused) {
  for (const OutputStruct& c : all()) {
    SCOPED_TRACE(c.who);
    for (const size_t size : {size_t{0}, sizeof(size_t), size_t{30}, size_t{1} << 20, SIZE_MAX}) {
      CallersStruct caller(size);
      EXPECT_EQ(c.fill(&caller), QN_INVALID_ARGUMENT);
      EXPECT_EQ(qn_last_message(),
                std::string(c.who) + ": struct_size is " + std::to_string(size) + "; was the struct initialised?");
      EXPECT_TRUE(caller.holds(0x55, sizeof size, sizeof caller.bytes));
    }
    EXPECT_EQ(c.fill(nullptr), QN_INVALID_ARGUMENT);
    EXPECT_EQ(qn_last_message(), std::string(c.who) + ": a struct is NULL");
  }
}

// ---- messages

// What is tried inside, nodes as one and algorithms, and does not apply is nobody's failure.
TEST(Message, IsThatOfTheLastFailingCall) {
  GraphBuilder b;
  Attributes depthwise = window(3, 1, 1);
  depthwise.groups = 8;
  const int x = b.input("x", {1, 9, 9, 8});
  const int c = b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 1})}, depthwise);
  b.output(b.node(OpKind::conv2d, {c, b.constant({8, 1, 1, 8})}), "y");
  const Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  qn_tuning* tuning = nullptr;
  expect_ok(qn_tuning_create(&tuning));
  const std::vector<float> data(9 * 9 * 8);
  const void* inputs[] = {data.data()};
  const size_t larger[] = {1, 12, 9, 8};
  qn_port port;
  qn_port_init(&port);
  for (const int tune : {0, 1}) {
    qn_session_options options;
    qn_session_options_init(&options);
    options.tuning = tuning;
    options.tune = tune;
    qn_session* session = nullptr;
    ASSERT_EQ(qn_model_input(model.get(), 7, &port), QN_INVALID_ARGUMENT);
    const std::string message = qn_last_message();
    EXPECT_NE(message.find("index 7"), std::string::npos);
    ASSERT_EQ(qn_session_create(model.get(), &options, &session), QN_OK);
    EXPECT_EQ(qn_last_message(), message);
    ASSERT_EQ(qn_session_run(session, inputs), QN_OK);
    EXPECT_EQ(qn_last_message(), message);
    ASSERT_EQ(qn_session_resize(session, 0, 4, larger), QN_OK);
    EXPECT_EQ(qn_last_message(), message);
    qn_session_release(session);
  }
  qn_tuning_release(tuning);
}

// ---- measured choices

Graph two_convolutions() {
  GraphBuilder b;
  const int x = b.node(OpKind::conv2d, {b.input("x", {1, 9, 9, 4}), b.constant({8, 3, 3, 4})});
  b.output(b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 8})}), "y");
  return b.done();
}

TEST(Tuning, ASessionMeasuresWhatIsMissing) {
  qn_model* model = nullptr;
  ASSERT_EQ(make_model(two_convolutions(), nullptr, &model), QN_OK) << qn_last_message();
  qn_tuning* tuning = nullptr;
  ASSERT_EQ(qn_tuning_create(&tuning), QN_OK);
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = 2;
  options.tune = 1;
  qn_session* session = nullptr;
  EXPECT_EQ(qn_session_create(model, &options, &session), QN_INVALID_ARGUMENT) << "no tuning to add to";
  options.tuning = tuning;
  ASSERT_EQ(qn_session_create(model, &options, &session), QN_OK) << qn_last_message();
  EXPECT_EQ(qn_tuning_count(tuning), 2u);
  const size_t shape[] = {3, 9, 9, 4};
  ASSERT_EQ(qn_session_resize(session, 0, 4, shape), QN_OK);
  EXPECT_EQ(qn_tuning_count(tuning), 4u);

  const std::string path = ::testing::TempDir() + "quern_tuning_test";
  ASSERT_EQ(qn_tuning_save_file(tuning, path.c_str()), QN_OK) << qn_last_message();
  qn_tuning_release(tuning);  // the session keeps its own reference
  ASSERT_EQ(qn_session_resize(session, 0, 4, shape), QN_OK);
  qn_session_release(session);

  ASSERT_EQ(qn_tuning_create(&tuning), QN_OK);
  ASSERT_EQ(qn_tuning_load_file(tuning, path.c_str()), QN_OK) << qn_last_message();
  EXPECT_EQ(qn_tuning_count(tuning), 4u);
  options.tuning = tuning;
  options.tune = 0;
  ASSERT_EQ(qn_session_create(model, &options, &session), QN_OK) << qn_last_message();
  EXPECT_EQ(qn_tuning_count(tuning), 4u);
  qn_session_release(session);
  qn_tuning_release(tuning);
  qn_model_release(model);
  std::remove(path.c_str());
}

TEST(Tuning, FilesThatAreNone) {
  qn_tuning* tuning = nullptr;
  ASSERT_EQ(qn_tuning_create(&tuning), QN_OK);
  const std::string folder = ::testing::TempDir(), missing = folder + "no/such/file";
  EXPECT_EQ(qn_tuning_load_file(tuning, missing.c_str()), QN_IO_ERROR);
  EXPECT_EQ(qn_tuning_load_file(tuning, folder.c_str()), QN_IO_ERROR);
  EXPECT_EQ(qn_tuning_save_file(tuning, missing.c_str()), QN_IO_ERROR);
  EXPECT_EQ(qn_tuning_save_file(tuning, folder.c_str()), QN_IO_ERROR);
  EXPECT_EQ(qn_tuning_load_file(nullptr, folder.c_str()), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tuning_load_file(tuning, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tuning_save_file(nullptr, folder.c_str()), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tuning_save_file(tuning, nullptr), QN_INVALID_ARGUMENT);

  const std::string path = folder + "quern_tuning_damaged";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("quern-tuning 2\nconv2d\n", file);
  std::fclose(file);
  EXPECT_EQ(qn_tuning_load_file(tuning, path.c_str()), QN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(qn_last_message()).find(path + ":2: "), 0u) << qn_last_message();
  std::remove(path.c_str());
  qn_tuning_release(tuning);
}

}  // namespace session_test
}  // namespace quern::test
