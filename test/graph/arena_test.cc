// Sessions that share an arena, or have the caller's.
#include <algorithm>
#include <memory>
#include <thread>

#include "meter.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace arena_test {

struct Release {
  void operator()(qn_arena* arena) const { qn_arena_release(arena); }
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ArenaHandle = std::unique_ptr<qn_arena, Release>;
using ModelHandle = std::unique_ptr<qn_model, Release>;
using SessionHandle = std::unique_ptr<qn_session, Release>;

ArenaHandle arena_of(void* memory = nullptr, size_t size = 0) {
  qn_arena* arena = nullptr;
  expect_ok(qn_arena_create(memory, size, &arena));
  return ArenaHandle(arena);
}

ModelHandle model_of(const Graph& graph) {
  qn_model* model = nullptr;
  expect_ok(make_model(graph, nullptr, &model));
  return ModelHandle(model);
}

qn_status make_session(const ModelHandle& model, const ArenaHandle& arena, SessionHandle* made,
                       const qn_parallel* parallel = nullptr) {
  qn_session_options options;
  qn_session_options_init(&options);
  options.arena = arena.get();
  options.parallel = parallel;
  options.threads = parallel == nullptr ? 1 : 2;
  qn_session* session = nullptr;
  const qn_status status = qn_session_create(model.get(), &options, &session);
  made->reset(session);
  return status;
}

SessionHandle session_of(const ModelHandle& model, const ArenaHandle& arena, const qn_parallel* parallel = nullptr) {
  SessionHandle session;
  expect_ok(make_session(model, arena, &session, parallel));
  return session;
}

// An image of this height and width, convolved and pooled; the larger it is, the more the session needs.
Graph image_graph(size_t side, unsigned seed) {
  GraphBuilder b(seed);
  const int x = b.input("x", {1, side, side, 8});
  const int c = b.node(OpKind::conv2d, {x, b.constant({16, 3, 3, 8}), b.constant({16})}, window(1, 1, 1));
  const int y = b.output(b.node(OpKind::max_pool, {c}, window(3, 2, 1)), "features");
  const int flat = b.node(OpKind::reshape, {b.node(OpKind::global_average_pool, {y})}, values({0, -1}));
  b.output(b.node(OpKind::softmax, {flat}, axis(1)), "probabilities");
  return b.done();
}

// A model with a session of its own, to compare with, and an input.
struct Net {
  explicit Net(size_t side, unsigned seed = 1)
      : graph(image_graph(side, seed)),
        model(model_of(graph)),
        alone(session_of(model, nullptr)),
        values(random_inputs(graph, seed)) {
    input[0] = values.at(graph.inputs[0].tensor).data();
    expect_ok(qn_session_run(alone.get(), input));
    for (const size_t i : {0, 1}) expected[i] = output(alone, i);
    need = qn_session_memory(alone.get());
  }

  static std::string output(const SessionHandle& session, size_t index) {
    qn_tensor tensor;
    const void* data = nullptr;
    expect_ok(qn_session_output_tensor(session.get(), index, &tensor));
    expect_ok(qn_session_output(session.get(), index, &data));
    return {static_cast<const char*>(data), qn_tensor_bytes(&tensor)};
  }

  void expect_right(const SessionHandle& session) const {
    ASSERT_EQ(qn_session_run(session.get(), input), QN_OK) << qn_last_message();
    for (const size_t i : {0, 1}) EXPECT_TRUE(output(session, i) == expected[i]) << "output " << i;
  }

  Graph graph;
  ModelHandle model;
  SessionHandle alone;
  Values values;
  const void* input[1];
  std::string expected[2];
  size_t need;
};

TEST(Arena, SessionsRunInTurn) {
  const Net small(8, 1), large(20, 2);
  const ArenaHandle arena = arena_of();
  EXPECT_EQ(qn_arena_bytes(arena.get()), 0u);
  const SessionHandle a = session_of(small.model, arena);
  EXPECT_EQ(qn_arena_bytes(arena.get()), small.need);
  small.expect_right(a);
  const SessionHandle b = session_of(large.model, arena);  // the arena moves
  EXPECT_EQ(qn_arena_bytes(arena.get()), large.need);
  EXPECT_EQ(qn_session_memory(a.get()), small.need);
  const SessionHandle c = session_of(small.model, arena);
  for (int run = 0; run < 3; ++run) {
    small.expect_right(a);
    large.expect_right(b);
    small.expect_right(c);
  }
  EXPECT_EQ(qn_arena_bytes(arena.get()), large.need);
}

TEST(Arena, OutputsAreThereUntilAnotherSessionRuns) {
  const Net net(8), large(20);
  const ArenaHandle arena = arena_of();
  const SessionHandle a = session_of(net.model, arena), b = session_of(net.model, arena);
  std::vector<char> probabilities(net.expected[1].size());
  expect_ok(qn_session_bind_output(a.get(), 1, probabilities.data(), probabilities.size()));
  const void* data = nullptr;
  net.expect_right(a);
  EXPECT_EQ(qn_session_output(b.get(), 0, &data), QN_INVALID_ARGUMENT) << "has not run";
  net.expect_right(b);
  EXPECT_EQ(qn_session_output(a.get(), 0, &data), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_output: another session has used the arena since");
  EXPECT_TRUE(Net::output(a, 1) == net.expected[1]) << "bound, it stays";
  net.expect_right(b);
  const SessionHandle c = session_of(net.model, arena);  // nothing grows
  EXPECT_TRUE(Net::output(b, 0) == net.expected[0]);
  const SessionHandle d = session_of(large.model, arena);
  EXPECT_EQ(qn_session_output(b.get(), 0, &data), QN_INVALID_ARGUMENT) << "the arena has grown";
}

TEST(Arena, ResizesMakeItGrowAndNothingMakesItShrink) {
  const Net net(8), large(20);
  const ArenaHandle arena = arena_of();
  SessionHandle a = session_of(net.model, arena);
  const SessionHandle b = session_of(net.model, arena);
  const size_t more[] = {1, 20, 20, 8}, less[] = {1, 8, 8, 8};
  ASSERT_EQ(qn_session_resize(a.get(), 0, 4, more), QN_OK) << qn_last_message();
  EXPECT_EQ(qn_arena_bytes(arena.get()), large.need);
  large.expect_right(a);
  net.expect_right(b);
  ASSERT_EQ(qn_session_resize(a.get(), 0, 4, less), QN_OK);
  EXPECT_EQ(qn_session_memory(a.get()), net.need);
  net.expect_right(a);
  a.reset();
  EXPECT_EQ(qn_arena_bytes(arena.get()), large.need);
  net.expect_right(b);
}

TEST(Arena, OfTheCallersMemory) {
  const Net net(8), large(20);
  std::vector<char> room(net.need + 4 * 64, 'x');
  const size_t begin = (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64 + 64;
  char* const memory = room.data() + begin;
  const auto outside = [&] {
    return std::count(room.data(), memory, 'x') + std::count(memory + net.need, room.data() + room.size(), 'x');
  };
  const long before = outside();
  {
    SessionHandle none;
    EXPECT_EQ(make_session(net.model, arena_of(memory, net.need - 1), &none), QN_OUT_OF_MEMORY);
    const std::string needed = std::to_string(net.need) + " bytes";
    EXPECT_NE(std::string(qn_last_message()).find(needed), std::string::npos) << qn_last_message();
    EXPECT_EQ(make_session(net.model, arena_of(memory, 0), &none), QN_OUT_OF_MEMORY);
    EXPECT_EQ(none, nullptr);
    const ArenaHandle arena = arena_of(memory, net.need);
    EXPECT_EQ(qn_arena_bytes(arena.get()), net.need);
    const SessionHandle a = session_of(net.model, arena), b = session_of(net.model, arena);
    net.expect_right(a);
    std::fill_n(memory, net.need, '\xff');  // between runs it may hold anything
    net.expect_right(b);
    net.expect_right(a);
    const void* data = nullptr;
    expect_ok(qn_session_output(a.get(), 0, &data));
    EXPECT_TRUE(data >= memory && data < memory + net.need);
    EXPECT_EQ(make_session(large.model, arena, &none), QN_OUT_OF_MEMORY);
    const size_t more[] = {1, 20, 20, 8};
    EXPECT_EQ(qn_session_resize(a.get(), 0, 4, more), QN_OUT_OF_MEMORY);
    net.expect_right(a);
    EXPECT_EQ(qn_arena_bytes(arena.get()), net.need);
  }
  EXPECT_EQ(outside(), before) << "nothing beside it was written";
}

TEST(Arena, LivesAsLongAsItsSessions) {
  static Meter meter;
  const qn_allocator allocator = {&meter, Meter::allocate, Meter::release, {}};
  ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
  {
    const Net net(8);
    ArenaHandle arena = arena_of();
    SessionHandle a = session_of(net.model, arena), b = session_of(net.model, arena);
    arena.reset();
    net.expect_right(a);
    a.reset();
    net.expect_right(b);
  }
  EXPECT_EQ(meter.now, 0u);
  ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
}

TEST(Arena, BeginsWithTheBytesItIsGiven) {
  const Net net(8);
  const ArenaHandle arena = arena_of(nullptr, 1 << 20);
  EXPECT_EQ(qn_arena_bytes(arena.get()), size_t{1} << 20);
  net.expect_right(session_of(net.model, arena));
  EXPECT_EQ(qn_arena_bytes(arena.get()), size_t{1} << 20);
}

// A host in whose task another session runs, and grows.
struct Host {
  const Net* net;
  SessionHandle* other;
  int calls = 0;

  static void run(void* context, void (*task)(void*, size_t), void* arg, size_t count) {
    auto* h = static_cast<Host*>(context);
    for (size_t i = 0; i < count; ++i) task(arg, i);
    if (h->calls++ > 0) return;
    std::thread([&] {
      const size_t more[] = {1, 90, 90, 8};  // for which no workspace left over is large enough
      EXPECT_EQ(qn_session_run(h->other->get(), h->net->input), QN_INVALID_ARGUMENT);
      EXPECT_NE(std::string(qn_last_message()).find("arena"), std::string::npos) << qn_last_message();
      EXPECT_EQ(qn_session_resize(h->other->get(), 0, 4, more), QN_INVALID_ARGUMENT);
    }).join();
  }
};

TEST(Arena, IsUsedByOneRunAtATime) {
  const Net net(20);
  const ArenaHandle arena = arena_of();
  SessionHandle b = session_of(net.model, arena);
  Host host = {&net, &b};
  const qn_parallel parallel = {&host, Host::run, 2, {}, {}};
  const SessionHandle a = session_of(net.model, arena, &parallel);
  net.expect_right(a);
  EXPECT_GT(host.calls, 0);
  net.expect_right(b);  // with its old sizes
  net.expect_right(a);
  qn_session_cancel(b.get());
  EXPECT_EQ(qn_session_run(b.get(), net.input), QN_CANCELLED);
  EXPECT_EQ(qn_session_run(b.get(), nullptr), QN_INVALID_ARGUMENT);
  net.expect_right(a);  // a run that fails leaves it, too
}

TEST(Arena, BuffersMustLieOutside) {
  GraphBuilder b;
  const int x = b.input("x", {1, 64});
  b.output(b.node(OpKind::clamp, {x}, range(-10, 10)), "y");
  const Graph graph = b.done();
  const ModelHandle model = model_of(graph);
  const std::vector<float> given(64, 3);
  const ArenaHandle shared = arena_of();
  for (qn_arena* arena : {shared.get(), static_cast<qn_arena*>(nullptr)}) {
    const ArenaHandle none;
    const SessionHandle first = session_of(model, arena == nullptr ? none : shared);
    const SessionHandle second = arena == nullptr ? nullptr : session_of(model, shared);
    const void* inputs[] = {given.data()};
    ASSERT_EQ(qn_session_run(first.get(), inputs), QN_OK);
    expect_ok(qn_session_output(first.get(), 0, inputs));
    qn_session* const next = arena == nullptr ? first.get() : second.get();
    EXPECT_EQ(qn_session_run(next, inputs), QN_INVALID_ARGUMENT);
    EXPECT_STREQ(qn_last_message(), "qn_session_run: input 0 lies in the session's arena");
    expect_ok(qn_session_bind_input(next, 0, inputs[0], 256));
    EXPECT_EQ(qn_session_run(next, nullptr), QN_INVALID_ARGUMENT);
    expect_ok(qn_session_bind_input(next, 0, given.data(), 256));
    expect_ok(qn_session_bind_output(next, 0, const_cast<void*>(inputs[0]), 256));
    EXPECT_EQ(qn_session_run(next, nullptr), QN_INVALID_ARGUMENT);
    EXPECT_STREQ(qn_last_message(), "qn_session_run: the buffer bound to output 0 lies in the session's arena");
    expect_ok(qn_session_bind_output(next, 0, nullptr, 0));
    EXPECT_EQ(qn_session_run(next, nullptr), QN_OK) << qn_last_message();
  }
}

TEST(Arena, BadArguments) {
  alignas(64) static char memory[256];
  qn_arena* arena = nullptr;
  EXPECT_EQ(qn_arena_create(nullptr, 0, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_arena_create(memory + 4, 128, &arena), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_arena_create: memory is not aligned to 64");
  EXPECT_EQ(qn_arena_create(memory, SIZE_MAX, &arena), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_arena_create(nullptr, SIZE_MAX / 2, &arena), QN_OUT_OF_MEMORY);
  EXPECT_EQ(arena, nullptr);
  EXPECT_EQ(qn_arena_bytes(nullptr), 0u);
  qn_arena_release(nullptr);
}

}  // namespace arena_test
}  // namespace quern::test
