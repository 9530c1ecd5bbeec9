// quern.hpp: who owns what, and that each member calls its function.
#include <quern/quern.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <type_traits>

#include "small_graphs.h"

namespace quern::test {
namespace cpp_test {

// ---- handles in general --------------------------------------------------------------------------

int released[3];  // how often each of the objects was given up
void release_number(int* object) {
  if (object != nullptr) ++released[*object];
}
using Number = qn::Handle<int, release_number>;

static_assert(!std::is_copy_constructible_v<qn::Model> && !std::is_copy_assignable_v<qn::Session>);
static_assert(std::is_nothrow_move_constructible_v<qn::Plan> && std::is_nothrow_move_assignable_v<qn::Operator>);
static_assert(sizeof(qn::Arena) == sizeof(void*));

TEST(Cpp, HandlesReleaseOnce) {
  std::fill(std::begin(released), std::end(released), 0);
  int objects[3] = {0, 1, 2};
  {
    Number first(&objects[0]);
    EXPECT_TRUE(first);
    EXPECT_EQ(first.get(), &objects[0]);
    Number second(std::move(first));
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), &objects[0]);

    Number third(&objects[1]);
    third = std::move(second);
    EXPECT_EQ(released[1], 1) << "what it owned before";
    Number& same = third;
    third = std::move(same);
    EXPECT_EQ(third.get(), &objects[0]);
    EXPECT_EQ(released[0], 0);

    *third.put() = &objects[2];
    EXPECT_EQ(released[0], 1);
    EXPECT_EQ(third.release(), &objects[2]);
    EXPECT_FALSE(third);
    third.reset(&objects[2]);
    EXPECT_EQ(released[2], 0);
  }
  EXPECT_EQ(released[0], 1);
  EXPECT_EQ(released[1], 1);
  EXPECT_EQ(released[2], 1);
}

// ---- errors --------------------------------------------------------------------------------------

// The status that a call throws.
template <class Call>
qn_status thrown(Call call) {
  try {
    call();
  } catch (const qn::Error& error) {
    EXPECT_STREQ(error.what(), qn_last_message());
    return error.status();
  }
  return QN_OK;
}

TEST(Cpp, FailuresThrow) {
  EXPECT_EQ(thrown([] { qn::Model::load_file("quern-no-such-file"); }), QN_IO_ERROR);
  EXPECT_EQ(thrown([] { qn::Model::load_fd(-1); }), QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([] { qn::Model::load_memory("no model", 8); }), QN_BAD_MODEL);
  EXPECT_EQ(thrown([] { qn::tensor({SIZE_MAX, 2}); }), QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([] { qn::Operator::create(qn_conv2d_create, nullptr, nullptr, nullptr, nullptr); }),
            QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([] { qn::Tuning::create().load_file("quern-no-such-file"); }), QN_IO_ERROR);
  EXPECT_EQ(thrown([] { qn::Tuning::create().save_file("/quern-no-such-folder/file"); }), QN_IO_ERROR);
  EXPECT_EQ(thrown([] { qn::Arena::create(nullptr, SIZE_MAX); }), QN_OUT_OF_MEMORY);

  EXPECT_STREQ(qn::Error(QN_BAD_MODEL, "").what(), "bad model") << "a library without messages";
}

// ---- operators -----------------------------------------------------------------------------------

struct Calls {
  std::atomic<int> count{0};
  static void run(void* context, void (*task)(void*, size_t), void* arg, size_t count) {
    ++static_cast<Calls*>(context)->count;
    for (size_t i = 0; i < count; ++i) task(arg, i);
  }
};

TEST(Cpp, OperatorsAndPlans) {
  constexpr size_t side = 66, channels = 16;  // enough for more than one task
  std::array<float, channels * 9> taps;
  taps.fill(1);
  std::array<float, channels * channels> mix;
  mix.fill(0.5f);
  std::array<float, channels> bias;
  std::iota(bias.begin(), bias.end(), 0.0f);
  const qn::WeightsCache cache = qn::WeightsCache::create();

  auto depthwise_params = qn::init(qn_dwconv2d_params_init);
  depthwise_params.channels = channels;
  depthwise_params.kernel = {3, 3};
  auto weights = qn::init(qn_weights_init);
  weights.data = taps.data();
  const qn::Operator depthwise =
      qn::Operator::create(qn_dwconv2d_create, &depthwise_params, &weights, nullptr, cache.get());
  auto params = qn::init(qn_conv2d_params_init);
  params.in_channels = params.out_channels = channels;
  weights.data = mix.data();
  const qn::Operator pointwise = qn::Operator::create(qn_conv2d_create, &params, &weights, bias.data(), cache.get());

  const qn_tensor in = qn::tensor({1, side, side, channels}), between = qn::tensor({1, side - 2, side - 2, channels});
  const std::vector<float> image(side * side * channels, 1);
  std::vector<float> middle((side - 2) * (side - 2) * channels), result(middle.size());

  const qn::Plan first = qn::Plan::create(depthwise, {in});
  EXPECT_EQ(std::memcmp(first.output(0).shape, between.shape, sizeof between.shape), 0);
  EXPECT_EQ(first.macs(), middle.size() * 9);
  first.run({image.data()}, {middle.data()}, qn::Workspace(first.workspace_size()));
  EXPECT_EQ(middle, std::vector<float>(middle.size(), 9));

  auto options = qn::init(qn_plan_options_init);
  options.algorithm = QN_ALGORITHM_IGEMM;
  options.tasks = 2;
  const qn::Plan second = qn::Plan::create(pointwise, {between}, {between}, &options);
  EXPECT_EQ(second.algorithm(), QN_ALGORITHM_IGEMM);
  EXPECT_STRNE(second.kernel(), "");
  EXPECT_GT(cache.bytes(), 0u);
  Calls calls;
  const qn_parallel parallel = {&calls, Calls::run, 2, {}, {}};
  second.run({middle.data()}, {result.data()}, qn::Workspace(second.workspace_size()), &parallel);
  EXPECT_GT(calls.count, 0);
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 0.5f * 9 * channels + bias[i % channels]);

  EXPECT_EQ(thrown([&] { first.output(1); }), QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([&] { first.run({nullptr}, {middle.data()}, qn::Workspace(first.workspace_size())); }),
            QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([&] { qn::Plan::create(depthwise, {in, in}); }), QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([&] { qn::Plan::chain(pointwise, depthwise, in); }), QN_UNSUPPORTED);
}

TEST(Cpp, WorkspacesAreAlignedAndLargeEnough) {
  for (const size_t size : {1, 63, 64, 65, 1000}) {
    const qn::Workspace workspace(size);
    EXPECT_GE(workspace.size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace.data()) % 64, 0u);
    std::memset(workspace.data(), 1, workspace.size());
  }
  EXPECT_EQ(qn::Workspace(0).size(), 0u);
}

TEST(Cpp, Tunings) {
  qn::Tuning tuning = qn::Tuning::create();
  const std::string text = "quern-tuning 2\n";
  tuning.load_memory(text.data(), text.size());
  EXPECT_EQ(thrown([&] { tuning.load_memory(text.data(), 5); }), QN_INVALID_ARGUMENT);
  const std::string path = ::testing::TempDir() + "quern_cpp_test.tuning";
  tuning.save_file(path.c_str());
  tuning.load_file(path.c_str());
  EXPECT_EQ(tuning.count(), 0u);
  std::remove(path.c_str());
}

// ---- models --------------------------------------------------------------------------------------

// y = max(x, 0) of two rows of four.
std::string relu_file() {
  GraphBuilder b;
  b.output(b.node(OpKind::clamp, {b.input("x", {2, 4})}, range(0, std::numeric_limits<float>::infinity())), "y");
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = ::testing::TempDir() + "quern_cpp_" + test + ".qn";  // tests run at the same time
  expect_ok(write_model_file(b.done(), path.c_str()));
  return path;
}

TEST(Cpp, Models) {
  const std::string path = relu_file();
  std::FILE* file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  const qn::Model models[] = {qn::Model::load_file(path.c_str()), qn::Model::load_fd(fileno(file))};
  std::fclose(file);
  std::remove(path.c_str());
  for (const qn::Model& model : models) {
    EXPECT_EQ(model.input_count(), 1u);
    EXPECT_EQ(model.output_count(), 1u);
    EXPECT_STREQ(model.input(0).name, "x");
    EXPECT_STREQ(model.output(0).name, "y");
    EXPECT_EQ(model.input(0).tensor.shape[1], 4u);
    EXPECT_FALSE(model.preprocessing(0).present);
    EXPECT_EQ(thrown([&] { model.input(1); }), QN_INVALID_ARGUMENT);
  }
}

TEST(Cpp, Sessions) {
  const std::string path = relu_file();
  const qn::Arena arena = qn::Arena::create();
  auto options = qn::init(qn_session_options_init);
  options.arena = arena.get();
  options.profile = 1;
  qn::Session session = qn::Session::create(qn::Model::load_file(path.c_str()), &options);
  std::remove(path.c_str());
  EXPECT_GE(arena.bytes(), session.memory());

  const float x[8] = {-1, 2, -3, 4, -5, 6, -7, 8};
  session.run({x});
  const auto* y = static_cast<const float*>(session.output(0));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(y[i], std::fmax(x[i], 0.0f));
  EXPECT_EQ(session.profile_count(), 1u);
  EXPECT_STREQ(session.profile(0).op, "clamp");

  session.resize(0, {1, 4});
  EXPECT_EQ(session.input_tensor(0).shape[0], 1u);
  EXPECT_EQ(session.output_tensor(0).shape[0], 1u);
  session.resize_all({qn::tensor({2, 3})});
  EXPECT_EQ(session.output_tensor(0).shape[1], 3u);

  float bound[6];
  session.bind_input(0, x, sizeof x);
  session.bind_output(0, bound, sizeof bound);
  session.run();
  EXPECT_EQ(session.output(0), bound);
  EXPECT_EQ(bound[1], 2);

  session.cancel();
  EXPECT_EQ(thrown([&] { session.run({x}); }), QN_CANCELLED);
  EXPECT_EQ(thrown([&] { session.bind_output(0, bound, 1); }), QN_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([&] { session.profile(1); }), QN_INVALID_ARGUMENT);
}

TEST(Cpp, ArenasInMemoryOfTheCaller) {
  const qn::Workspace memory(4096);
  EXPECT_EQ(qn::Arena::create(memory.data(), memory.size()).bytes(), 4096u);
}

}  // namespace cpp_test
}  // namespace quern::test
