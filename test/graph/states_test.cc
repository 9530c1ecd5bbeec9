// Tensors that sessions carry from run to run.
#include <fp16.h>

#include <cstring>
#include <quern/quern.hpp>

#include "small_graphs.h"

namespace quern::test {
namespace states_test {

using Floats = std::vector<float>;

qn::Model model_of(const Graph& graph) {
  qn::Model model;
  expect_ok(make_model(graph, nullptr, model.put()));
  return model;
}

Floats output(const qn::Session& session, size_t index) {
  const qn_tensor tensor = session.output_tensor(index);
  Floats values(qn_tensor_bytes(&tensor) / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), session.output(index), values.size() * sizeof(float));
  return values;
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const qn::Error& error) {
    return error.what();
  }
  return "";
}

// Adds up what it reads: total = x + sum, which the next run reads in `sum`. Another output is twice that.
Graph summing(Shape shape, qn_type type = QN_F32) {
  GraphBuilder b;
  const int x = b.input("x", shape), sum = b.input("sum", shape, type);
  const int total = b.node(OpKind::add, {x, sum});
  b.output(b.node(OpKind::add, {total, total}), "twice");
  b.output(total, "total", type);
  b.graph.states = {{1, 1}};
  return b.done();
}

Floats run(qn::Session& session, Floats x, const void* sum = nullptr, size_t index = 1) {
  session.run({x.data(), sum});
  return output(session, index);
}

TEST(States, AreCarried) {
  const qn::Model model = model_of(summing({2}));
  EXPECT_EQ(model.state_output(0), QN_NO_STATE);
  EXPECT_EQ(model.state_output(1), 1u);
  EXPECT_EQ(model.state_output(2), QN_NO_STATE);
  qn::Session session = qn::Session::create(model), other = qn::Session::create(model);
  EXPECT_EQ(run(session, {1, 2}), Floats({1, 2}));
  EXPECT_EQ(run(session, {10, 20}), Floats({11, 22}));
  EXPECT_EQ(run(other, {5, 5}), Floats({5, 5}));  // a session has states of its own
  EXPECT_EQ(run(session, {100, 200}), Floats({111, 222}));
  EXPECT_EQ(output(session, 0), Floats({222, 444}));
  session.reset_states();
  EXPECT_EQ(run(session, {1, 2}), Floats({1, 2}));
  EXPECT_EQ(run(other, {1, 1}), Floats({6, 6}));
}

// States of int8 begin with the byte that stands for 0.
TEST(States, OfBytesBeginWithTheirZeroPoint) {
  GraphBuilder b;
  const int x = b.input("x", {2}), state = b.input("state", {2}, QN_S8);
  b.graph.tensors[static_cast<size_t>(state)].type = QN_S8;
  const int before = b.node(OpKind::dequantize, {state}), next = b.node(OpKind::quantize, {x});
  for (const int tensor : {state, next}) {
    b.graph.tensors[static_cast<size_t>(tensor)].type = QN_S8;
    b.graph.tensors[static_cast<size_t>(tensor)].quantization = {{0.5f}, {-7}, -1};
  }
  b.output(before, "before");
  b.output(next, "next", QN_S8);
  b.graph.states = {{1, 1}};
  const qn::Model model = model_of(b.done());
  qn::Session session = qn::Session::create(model);
  EXPECT_EQ(run(session, {1, 2}, nullptr, 0), Floats({0, 0}));
  EXPECT_EQ(run(session, {3, 4}, nullptr, 0), Floats({1, 2}));
  session.reset_states();
  EXPECT_EQ(run(session, {1, 2}, nullptr, 0), Floats({0, 0}));
}

TEST(States, AreInFiles) {
  const Graph graph = summing({2});
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes));
  const qn::Model model = qn::Model::load_memory(bytes.data(), bytes.size());
  qn::Session session = qn::Session::create(model);
  run(session, {1, 2});
  EXPECT_EQ(run(session, {1, 2}), Floats({2, 4}));
}

TEST(States, BeginWithWhatTheUserGives) {
  qn::Session session = qn::Session::create(model_of(summing({2})));
  const Floats begin = {1000, 2000};
  EXPECT_EQ(run(session, {1, 2}, begin.data()), Floats({1001, 2002}));
  EXPECT_EQ(run(session, {1, 2}), Floats({1002, 2004}));
  EXPECT_EQ(begin, Floats({1000, 2000}));
  EXPECT_EQ(run(session, {1, 2}, session.output(1)), Floats({1003, 2006}));  // as a user does who carries it himself
  const Floats x = {1, 1};
  session.bind_input(0, x.data(), sizeof(float) * 2);
  session.run();
  EXPECT_EQ(output(session, 1), Floats({1004, 2007}));
}

TEST(States, GoThroughBoundBuffers) {
  qn::Session session = qn::Session::create(model_of(summing({2})));
  Floats bound(2);
  session.bind_output(1, bound.data(), sizeof(float) * 2);
  EXPECT_EQ(run(session, {1, 2}), Floats({1, 2}));
  EXPECT_EQ(session.output(1), bound.data());
  bound = {-1, -1};  // the session's own, not the user's to change
  EXPECT_EQ(run(session, {1, 2}), Floats({2, 4}));
  session.bind_output(1, nullptr, 0);
  EXPECT_EQ(run(session, {1, 2}), Floats({3, 6}));
  EXPECT_NE(session.output(1), bound.data());
  const Floats input = {50, 60};
  session.bind_input(1, input.data(), sizeof(float) * 2);
  EXPECT_EQ(run(session, {1, 2}), Floats({51, 62}));
  session.bind_input(1, nullptr, 0);
  EXPECT_EQ(run(session, {1, 2}), Floats({52, 64}));
}

TEST(States, StayWhenARunFails) {
  qn::Session session = qn::Session::create(model_of(summing({2})));
  run(session, {1, 2});
  session.cancel();
  EXPECT_NE(message_of([&] { run(session, {10, 10}); }), "");
  EXPECT_EQ(message_of([&] { session.run({nullptr, nullptr}); }), "qn_session_run: input 0 is NULL");
  EXPECT_EQ(run(session, {1, 2}), Floats({2, 4}));
}

TEST(States, OfAnotherShapeBeginAnew) {
  qn::Session session = qn::Session::create(model_of(summing({2})));
  run(session, {1, 2});
  session.resize_all({qn::tensor({2}), qn::tensor({2})});
  EXPECT_EQ(run(session, {1, 2}), Floats({2, 4}));
  EXPECT_NE(message_of([&] { session.resize(1, {3}); }), "");  // without x, which the state is added to
  EXPECT_EQ(run(session, {1, 2}), Floats({3, 6}));
  session.resize_all({qn::tensor({3}), qn::tensor({3})});
  EXPECT_EQ(run(session, {1, 2, 3}), Floats({1, 2, 3}));
  EXPECT_EQ(run(session, {1, 2, 3}), Floats({2, 4, 6}));
  session.resize_all({qn::tensor({0}), qn::tensor({0})});
  EXPECT_EQ(run(session, {}), Floats());
  session.resize_all({qn::tensor({2}), qn::tensor({2})});
  EXPECT_EQ(run(session, {1, 2}), Floats({1, 2}));
}

TEST(States, HalfPrecision) {
  qn::Session session = qn::Session::create(model_of(summing({2}, QN_F16)));
  EXPECT_EQ(run(session, {1, 2}, nullptr, 0), Floats({2, 4}));
  EXPECT_EQ(run(session, {1, 2}, nullptr, 0), Floats({4, 8}));
  EXPECT_EQ(fp16_ieee_to_fp32_value(static_cast<const uint16_t*>(session.output(1))[1]), 4);
}

// Outputs that the arena does not hold: an input, the other state's tensor, a constant; and states that change places.
TEST(States, OfTensorsThatAreSomethingElse) {
  GraphBuilder b;
  const int x = b.input("x", {2});
  const char* const names[] = {"a", "b", "c", "d"};
  Vector<int> inputs;
  for (const char* name : names) inputs.push_back(b.input(name, {2}));
  b.output(b.node(OpKind::add, {x, inputs[3]}), "y");
  b.graph.outputs.push_back({.tensor = x, .type = QN_F32});          // a <- x
  b.graph.outputs.push_back({.tensor = inputs[0], .type = QN_F32});  // b <- a
  b.graph.outputs.push_back({.tensor = inputs[1], .type = QN_F32});  // c <- b
  b.output(b.constant_of({2}, {7, 8}), "seven");                     // d <- a constant
  b.graph.states = {{1, 1}, {2, 2}, {3, 3}, {4, 4}};
  qn::Session session = qn::Session::create(model_of(b.done()));
  for (float i = 1; i < 6; ++i) {
    const Floats now = {i, -i};
    session.run({now.data(), nullptr, nullptr, nullptr, nullptr});
    const auto before = [i](float runs) { return i > runs ? Floats({i - runs, runs - i}) : Floats({0, 0}); };
    EXPECT_EQ(output(session, 0), i > 1 ? Floats({i + 7, 8 - i}) : now);
    EXPECT_EQ(output(session, 1), now);
    EXPECT_EQ(output(session, 2), before(1));
    EXPECT_EQ(output(session, 3), before(2));
    EXPECT_EQ(output(session, 4), Floats({7, 8}));
  }
}

TEST(States, OutliveOtherSessionsOfTheArena) {
  const qn::Model model = model_of(summing({2}));
  const qn::Arena arena = qn::Arena::create();
  auto options = qn::init(qn_session_options_init);
  options.arena = arena.get();
  qn::Session one = qn::Session::create(model, &options), two = qn::Session::create(model, &options);
  run(one, {1, 2});
  run(two, {10, 20});
  EXPECT_EQ(output(one, 1), Floats({1, 2}));  // of a state, not of the arena
  EXPECT_NE(message_of([&] { one.output(0); }), "");
  EXPECT_EQ(run(one, {1, 2}), Floats({2, 4}));
  EXPECT_EQ(run(two, {10, 20}), Floats({20, 40}));
}

// A graph whose state only a run can size: it is sum + x, or x[0:1], as a condition says.
Graph choosing() {
  const auto part = [](bool sums) {
    GraphBuilder b;
    const int x = b.input("x", {2}), sum = b.input("sum", {2});
    b.output(sums ? b.node(OpKind::add, {x, sum}) : b.node(OpKind::slice, {x}, values({0, 1})), "y");
    return b.done();
  };
  GraphBuilder b;
  const int condition = add_tensor(b.graph, "sums", QN_BOOL, {});
  b.graph.inputs.push_back({.tensor = condition, .type = QN_BOOL});
  const int x = b.input("x", {2}), sum = b.input("sum", {2});
  b.graph.subgraphs.push_back(part(true));
  b.graph.subgraphs.push_back(part(false));
  b.output(b.node(OpKind::branch, {condition, x, sum}), "total");
  b.graph.tensors[at(b.graph.outputs[0].tensor)].type = QN_F32;
  b.graph.nodes.back().subgraphs = {0, 1};
  b.graph.states = {{2, 0}};
  return b.done();
}

TEST(States, OfNodesThatOnlyARunCanSize) {
  qn::Session session = qn::Session::create(model_of(choosing()));
  const bool yes = true, no = false;
  const Floats x = {1, 2};
  session.run({&yes, x.data(), nullptr});
  session.run({&yes, x.data(), nullptr});
  EXPECT_EQ(output(session, 0), Floats({2, 4}));
  EXPECT_EQ(message_of([&] {
              session.run({&no, x.data(), nullptr});
            }),
            "output 0 has another shape than input 2, which reads it in the next run");
  session.run({&yes, x.data(), nullptr});
  EXPECT_EQ(output(session, 0), Floats({3, 6}));
  session.reset_states();
  session.run({&yes, x.data(), nullptr});
  EXPECT_EQ(output(session, 0), Floats({1, 2}));
}

TEST(States, OfShapesThatDiffer) {
  GraphBuilder b;
  const int x = b.input("x", {2}), s = b.input("s", {1});
  b.output(b.node(OpKind::add, {x, s}), "y");
  b.graph.states = {{1, 0}};
  qn_model* model = nullptr;
  EXPECT_EQ(make_model(b.graph, nullptr, &model), QN_BAD_MODEL);
  EXPECT_EQ(std::string(qn_last_message()), "state 0: input and output differ in type, shape or quantization");
}

TEST(States, ArgumentsAreChecked) {
  EXPECT_EQ(qn_session_reset_states(nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_model_state_output(nullptr, 0), QN_NO_STATE);
}

}  // namespace states_test
}  // namespace quern::test
