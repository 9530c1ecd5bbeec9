// Buffers of the caller's that sessions read and write.
#include <algorithm>
#include <memory>

#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace bind_test {

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using SessionHandle = std::unique_ptr<qn_session, Release>;

SessionHandle session_of(const Graph& graph, const qn_session_options* options = nullptr) {
  qn_model* model = nullptr;
  qn_session* session = nullptr;
  expect_ok(make_model(graph, nullptr, &model));
  expect_ok(qn_session_create(model, options, &session));
  qn_model_release(model);
  return SessionHandle(session);
}

size_t output_bytes(const SessionHandle& session, size_t index) {
  qn_tensor tensor;
  expect_ok(qn_session_output_tensor(session.get(), index, &tensor));
  return qn_tensor_bytes(&tensor);
}

const char* output(const SessionHandle& session, size_t index) {
  const void* data = nullptr;
  expect_ok(qn_session_output(session.get(), index, &data));
  return static_cast<const char*>(data);
}

std::string copy_of(const SessionHandle& session, size_t index) {
  return {output(session, index), output_bytes(session, index)};
}

// `size` bytes at an address that is a multiple of 4 and no more, among others that must stay as they are.
class Guarded {
 public:
  explicit Guarded(size_t size) : bytes_(size + 256, mark), begin_(0), size_(size) {
    while (reinterpret_cast<uintptr_t>(bytes_.data() + begin_) % 64 != 4) ++begin_;
  }
  char* data() { return bytes_.data() + begin_; }
  size_t size() const { return size_; }
  std::string content() const { return bytes_.substr(begin_, size_); }
  bool intact() const {
    const auto is_mark = [](char c) { return c == mark; };
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_), is_mark) &&
           std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(begin_ + size_), bytes_.end(), is_mark);
  }

 private:
  static constexpr char mark = 0x5a;
  std::string bytes_;
  size_t begin_, size_;
};

// Outputs of all kinds: what a view shows, read again by others, written over another tensor, joined of parts, of
// another type, an input, a constant, the same twice.
Graph all_kinds() {
  GraphBuilder b;
  const int x = b.input("x", {1, 6, 6, 8});
  const int half = b.input("half", {1, 6, 6, 8}, QN_F16);
  const int conv = b.node(OpKind::conv2d, {x, b.constant({16, 3, 3, 8}), b.constant({16})}, window(1, 1, 1));
  b.output(b.node(OpKind::sigmoid, {conv}), "written over another");
  const int again = b.output(b.node(OpKind::max_pool, {x}, window(3, 1, 1)), "read again");
  const int left = b.node(OpKind::conv2d, {again, b.constant({8, 1, 1, 8})});
  const int right = b.node(OpKind::clamp, {half}, range(-0.5, 0.5));
  const int joined = b.output(b.node(OpKind::concat, {left, right}, axis(3)), "joined");
  b.output(b.node(OpKind::tanh, {b.node(OpKind::slice, {joined}, values({0, 0, 0, 2, -1, -1, -1, 9}))}), "of a part");
  const int flat = b.node(OpKind::reshape, {joined}, values({0, -1}));
  const int scores = b.node(OpKind::fully_connected, {flat, b.constant({10, 576}), b.constant({10})});
  b.output(b.node(OpKind::reshape, {b.node(OpKind::softmax, {scores}, axis(1))}, values({5, 2})), "a view");
  b.output(scores, "half precision", QN_F16);
  b.graph.outputs.push_back({.tensor = again});
  b.output(b.node(OpKind::reshape, {again}, values({36, 8})), "a view of another output");
  b.graph.outputs.push_back({.tensor = x});
  b.graph.outputs.push_back({.tensor = half, .type = QN_F16});
  b.output(b.constant({3, 3}), "a constant");
  return b.done();
}

struct Inputs {
  Values values;
  std::vector<uint16_t> half = std::vector<uint16_t>(6 * 6 * 8, 0x3555);
  const void* all[2];

  explicit Inputs(const Graph& graph) : values(random_inputs(graph, 3)) {
    all[0] = values.at(graph.inputs[0].tensor).data();
    all[1] = half.data();
  }
};

// Of a run.
std::vector<std::string> outputs_of(const SessionHandle& session, const Graph& graph, const void* const* inputs) {
  expect_ok(qn_session_run(session.get(), inputs));
  std::vector<std::string> outputs;
  for (size_t i = 0; i < graph.outputs.size(); ++i) outputs.push_back(copy_of(session, i));
  return outputs;
}

TEST(Bind, OutputsOfAllKindsHaveTheSameBits) {
  const Graph graph = all_kinds();
  const Inputs inputs(graph);
  const SessionHandle session = session_of(graph);
  const std::vector<std::string> expected = outputs_of(session, graph, inputs.all);

  for (size_t which = 0; which < size_t{1} << graph.outputs.size(); which += which < 32 ? 1 : 37) {
    std::vector<Guarded> buffers;
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      Guarded& buffer = buffers.emplace_back(expected[i].size());
      ASSERT_EQ(qn_session_bind_output(session.get(), i, which >> i & 1 ? buffer.data() : nullptr, buffer.size()),
                QN_OK)
          << qn_last_message();
    }
    ASSERT_EQ(qn_session_run(session.get(), inputs.all), QN_OK) << qn_last_message();
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      EXPECT_TRUE(copy_of(session, i) == expected[i]) << "output " << i << " where these are bound: " << which;
      EXPECT_TRUE(buffers[i].intact()) << "output " << i;
      EXPECT_EQ(output(session, i) == buffers[i].data(), (which >> i & 1) != 0);
      if (which >> i & 1) {
        EXPECT_TRUE(buffers[i].content() == expected[i]);
      }
    }
    // The next buffers may lie where some of these did.
    for (size_t i = 0; i < expected.size(); ++i) expect_ok(qn_session_bind_output(session.get(), i, nullptr, 0));
  }
}

TEST(Bind, InputsHaveTheSameBits) {
  const Graph graph = all_kinds();
  const Inputs inputs(graph);
  const SessionHandle session = session_of(graph);
  const std::vector<std::string> expected = outputs_of(session, graph, inputs.all);

  Guarded x(6 * 6 * 8 * 4), half(6 * 6 * 8 * 2);
  std::memcpy(x.data(), inputs.all[0], x.size());
  std::memcpy(half.data(), inputs.all[1], half.size());
  expect_ok(qn_session_bind_input(session.get(), 0, x.data(), x.size()));
  const void* second[] = {nullptr, inputs.all[1]};
  EXPECT_EQ(qn_session_run(session.get(), nullptr), QN_INVALID_ARGUMENT) << "one is neither bound nor given";
  const void* none[] = {nullptr, nullptr};
  EXPECT_EQ(qn_session_run(session.get(), none), QN_INVALID_ARGUMENT);
  ASSERT_EQ(qn_session_run(session.get(), second), QN_OK) << qn_last_message();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(copy_of(session, i) == expected[i]) << i;
  expect_ok(qn_session_bind_input(session.get(), 1, half.data(), half.size()));
  for (const void* const* given : {static_cast<const void* const*>(nullptr), static_cast<const void* const*>(none)}) {
    ASSERT_EQ(qn_session_run(session.get(), given), QN_OK) << qn_last_message();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(copy_of(session, i) == expected[i]) << i;
  }
  std::fill_n(reinterpret_cast<float*>(x.data()), 6 * 6 * 8, 7.0f);
  ASSERT_EQ(qn_session_run(session.get(), inputs.all), QN_OK);
  EXPECT_TRUE(copy_of(session, 0) == expected[0]) << "what a run is given goes before what is bound";
  ASSERT_EQ(qn_session_run(session.get(), nullptr), QN_OK);
  EXPECT_FALSE(copy_of(session, 0) == expected[0]) << "what is bound is read by each run anew";
  expect_ok(qn_session_bind_input(session.get(), 0, nullptr, 0));
  EXPECT_EQ(qn_session_run(session.get(), nullptr), QN_INVALID_ARGUMENT) << "no longer bound";
}

// What was computed in the arena before stays as it was: a run with a bound output writes nothing there. (A workspace
// could lie in the same place at another time, so the algorithm has none.)
TEST(Bind, OutputsAreComputedWhereTheyBelong) {
  GraphBuilder b;
  const int x = b.input("x", {1, 6, 6, 8});
  const int conv = b.node(OpKind::conv2d, {x, b.constant({16, 3, 3, 8})}, window(1, 1, 1));
  b.output(b.node(OpKind::sigmoid, {conv}), "y");
  b.output(b.node(OpKind::reshape, {b.node(OpKind::max_pool, {x}, window(3, 1, 1))}, values({36, 8})), "a view");
  const Graph graph = b.done();
  const Values values = random_inputs(graph, 1);
  const void* inputs[] = {values.at(x).data()};
  qn_session_options options;
  qn_session_options_init(&options);
  options.algorithm = QN_ALGORITHM_IGEMM;
  const SessionHandle session = session_of(graph, &options);
  expect_ok(qn_session_run(session.get(), inputs));
  std::vector<std::pair<char*, size_t>> places;
  std::vector<Guarded> buffers;
  for (const size_t i : {0, 1}) {
    places.emplace_back(const_cast<char*>(output(session, i)), output_bytes(session, i));
    Guarded& buffer = buffers.emplace_back(places[i].second);
    expect_ok(qn_session_bind_output(session.get(), i, buffer.data(), buffer.size()));
  }
  for (const auto& [data, size] : places) std::fill_n(data, size, 'x');
  expect_ok(qn_session_run(session.get(), inputs));
  for (const auto& [data, size] : places) EXPECT_EQ(std::count(data, data + size, 'x'), static_cast<long>(size));
}

TEST(Bind, ResizeKeepsWhatHasRoom) {
  GraphBuilder b;
  const int x = b.input("x", {2, 4});
  b.output(b.node(OpKind::clamp, {x}, range(-10, 10)), "y");
  const SessionHandle session = session_of(b.done());
  std::vector<float> in(12, 3), out(12, 0);
  expect_ok(qn_session_bind_input(session.get(), 0, in.data(), 48));
  expect_ok(qn_session_bind_output(session.get(), 0, out.data(), 48));
  const size_t three[] = {3, 4}, four[] = {4, 4}, one[] = {1, 4};
  ASSERT_EQ(qn_session_run(session.get(), nullptr), QN_OK);
  EXPECT_EQ(std::count(out.begin(), out.end(), 3.0f), 8);
  ASSERT_EQ(qn_session_resize(session.get(), 0, 2, three), QN_OK) << qn_last_message();
  const void* data;
  EXPECT_EQ(qn_session_output(session.get(), 0, &data), QN_INVALID_ARGUMENT) << "before a run";
  ASSERT_EQ(qn_session_run(session.get(), nullptr), QN_OK);
  EXPECT_EQ(std::count(out.begin(), out.end(), 3.0f), 12);

  EXPECT_EQ(qn_session_resize(session.get(), 0, 2, four), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_resize: input 0 takes 64 bytes, but its buffer has 48");
  expect_ok(qn_session_bind_input(session.get(), 0, nullptr, 0));
  EXPECT_EQ(qn_session_resize(session.get(), 0, 2, four), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_resize: output 0 takes 64 bytes, but its buffer has 48");
  std::fill(in.begin(), in.end(), 5.0f);
  const void* inputs[] = {in.data()};
  ASSERT_EQ(qn_session_run(session.get(), inputs), QN_OK) << "with the old sizes";
  EXPECT_EQ(std::count(out.begin(), out.end(), 5.0f), 12);
  ASSERT_EQ(qn_session_resize(session.get(), 0, 2, one), QN_OK);
  ASSERT_EQ(qn_session_run(session.get(), inputs), QN_OK);
  expect_ok(qn_session_bind_output(session.get(), 0, nullptr, 0));
  ASSERT_EQ(qn_session_resize(session.get(), 0, 2, four), QN_OK);
}

TEST(Bind, RefusesWhatCannotBe) {
  GraphBuilder b;
  const int x = b.input("x", {4}), y = b.input("y", {4});
  b.output(b.node(OpKind::add, {x, y}), "sum");
  b.output(b.node(OpKind::mul, {x, y}), "product");
  const SessionHandle session = session_of(b.done());
  qn_session* const s = session.get();
  alignas(64) char room[256] = {};
  char* const far = room + 128;
  const auto bind_in = qn_session_bind_input;
  const auto bind_out = qn_session_bind_output;
  EXPECT_EQ(bind_in(nullptr, 0, room, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_out(nullptr, 0, room, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_in(s, 2, room, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_out(s, 2, room, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_out(s, SIZE_MAX, nullptr, 0), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_in(s, 0, room, 15), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_bind_input: input 0 takes 16 bytes, but its buffer has 15");
  EXPECT_EQ(bind_out(s, 0, room, 0), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_in(s, 0, room + 2, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_out(s, 1, room + 1, 16), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_bind_output: output 1 is not aligned to its elements");
  EXPECT_EQ(bind_in(s, 0, nullptr, 0), QN_OK) << "nothing was bound";
  EXPECT_EQ(bind_out(s, 1, nullptr, 99), QN_OK);

  ASSERT_EQ(bind_out(s, 0, room + 32, 16), QN_OK);
  ASSERT_EQ(bind_out(s, 0, room + 40, 16), QN_OK) << "in place of itself";
  ASSERT_EQ(bind_out(s, 0, room + 32, 16), QN_OK);
  EXPECT_EQ(bind_out(s, 1, room + 44, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_out(s, 1, room + 20, 16), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_bind_output: output 1 overlaps the buffer bound to output 0");
  EXPECT_EQ(bind_out(s, 1, room, 256), QN_INVALID_ARGUMENT) << "within the larger one";
  EXPECT_EQ(bind_in(s, 1, room + 32, 16), QN_INVALID_ARGUMENT);
  EXPECT_EQ(bind_in(s, 0, room + 16, 32), QN_INVALID_ARGUMENT) << "with what it may be resized to";
  EXPECT_EQ(bind_in(s, 0, room + 16, SIZE_MAX), QN_INVALID_ARGUMENT);
  ASSERT_EQ(bind_in(s, 0, room + 16, 16), QN_OK) << "side by side";
  ASSERT_EQ(bind_in(s, 1, room + 12, 16), QN_OK) << "inputs may overlap";
  EXPECT_EQ(bind_out(s, 1, room + 8, 16), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_bind_output: output 1 overlaps the buffer bound to input 0");
  ASSERT_EQ(bind_out(s, 1, room + 48, 16), QN_OK);
  EXPECT_EQ(bind_out(s, 1, room + 36, 16), QN_INVALID_ARGUMENT) << "and keeps what it had";

  const void* inputs[] = {far, room + 60};
  EXPECT_EQ(qn_session_run(s, inputs), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_session_run: input 1 overlaps the buffer bound to output 1");
  inputs[1] = room + 64;
  const float two = 2, three = 3;
  for (size_t i = 0; i < 4; ++i) {
    std::memcpy(far + 4 * i, &two, 4);
    std::memcpy(room + 64 + 4 * i, &three, 4);
  }
  ASSERT_EQ(qn_session_run(s, inputs), QN_OK) << qn_last_message();
  const float expected[] = {5, 5, 5, 5, 6, 6, 6, 6};
  EXPECT_EQ(std::memcmp(room + 32, expected, sizeof expected), 0);
}

}  // namespace bind_test
}  // namespace quern::test
