// Measured choices: their text, line by line, and what planning makes of them.
#include "op/conv/tuning.h"

#include <cstring>
#include <memory>
#include <set>

#include "base/cpu.h"
#include "harness.h"
#include "kernel/select.h"
#include "kernel/winograd.h"
#include "op/conv/choose.h"

namespace quern::test {
namespace tuning_test {

struct ReleaseTuning {
  void operator()(qn_tuning* tuning) const { qn_tuning_release(tuning); }
};
using TuningHandle = std::unique_ptr<qn_tuning, ReleaseTuning>;

TuningHandle make_tuning(const std::string& text = "quern-tuning 3\n") {
  qn_tuning* tuning = nullptr;
  EXPECT_QN_OK(qn_tuning_create(&tuning));
  EXPECT_QN_OK(qn_tuning_load_memory(tuning, text.data(), text.size()));
  return TuningHandle(tuning);
}

std::string text_of(const TuningHandle& tuning) { return std::string(tuning->impl->text()); }

TunedChoice only_choice(const TuningHandle& tuning) {
  const Tuning::Entries entries = tuning->impl->entries();
  EXPECT_EQ(entries.size(), 1u);
  return entries.front().choice;
}

// A level of this architecture and one of another.
constexpr const char* our_level = QN_ARCH_X86_64 ? "avx2" : "neon";
constexpr const char* their_level = QN_ARCH_X86_64 ? "neon" : "avx2";

std::string numbers(const std::string& input = "1x14x14x8") {
  return "conv2d inputs=1 input=" + input +
         " channels=8 groups=1 kernel=3x3 stride=1x1 dilation=1x1 padding=1,1,1,1 stored=100,1 tasks=1";
}
std::string problem() { return numbers() + " strides=dense isa=" + our_level + " type=f32"; }

// ---- text

TEST(TuningText, WhatIsReadIsWritten) {
  const std::string text = "quern-tuning 3\n" + numbers("10x14x14x8") + " strides=dense isa=" + our_level +
                           " type=f32 direct qn_gemm_f32_4x8_ref\n" + numbers(std::to_string(SIZE_MAX) + "x1x1x8") +
                           " strides=strided isa=" + their_level +
                           " type=qs8c igemm qn_igemm_qs8c_of_another_machine\n" + "fully_connected" +
                           numbers("1x1x9x8").substr(6) + " strides=dense isa=" + our_level +
                           " type=f32 gemm qn_gemm_f32_4x8_ref\n";
  const TuningHandle tuning = make_tuning(text);
  EXPECT_EQ(text_of(tuning), text);
  EXPECT_EQ(qn_tuning_count(tuning.get()), 3u);
  EXPECT_EQ(text_of(make_tuning(text.substr(0, text.size() - 1))), text) << "the last line needs no end";
  EXPECT_EQ(text_of(make_tuning("quern-tuning 3")), "quern-tuning 3\n");
}

// Files of version 2 know no types: their problems are of f32.
TEST(TuningText, FilesWithoutTypesAreOfFloats) {
  const std::string lines = numbers() + " strides=dense isa=" + our_level, choice = " igemm qn_igemm_f32_4x8_ref\n";
  EXPECT_EQ(text_of(make_tuning("quern-tuning 2\n" + lines + choice)),
            "quern-tuning 3\n" + lines + " type=f32" + choice);
}

TEST(TuningText, LaterTextsReplaceAndAdd) {
  const TuningHandle tuning = make_tuning("quern-tuning 3\n" + problem() + " direct qn_gemm_f32_4x8_ref\n");
  const std::string more = "quern-tuning 3\n" + numbers("2x14x14x8") + " strides=dense isa=ref type=f32 winograd " +
                           "qn_winograd_f32_2x2_ref\n" + problem() + " igemm qn_igemm_f32_4x8_ref\n";
  ASSERT_QN_OK(qn_tuning_load_memory(tuning.get(), more.data(), more.size()));
  EXPECT_EQ(qn_tuning_count(tuning.get()), 2u);
  EXPECT_EQ(text_of(tuning).find("direct"), std::string::npos);
  EXPECT_EQ(text_of(tuning), text_of(make_tuning(text_of(tuning))));
}

TEST(TuningText, HostileLinesAreRefused) {
  const std::string good = problem() + " igemm qn_igemm_f32_4x8_ref";
  const auto with = [&](const std::string& what, const std::string& instead) {
    const size_t at = good.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return std::string(good).replace(at, what.size(), instead);
  };
  const struct {
    std::string line, words;
  } wrong[] = {
      {"", "unknown operator"},
      {"# a comment", "unknown operator"},
      {" " + good, "unknown operator"},
      {with("conv2d", "conv3d"), "conv3d"},
      {with("conv2d ", "conv2d  "), "inputs="},
      {"conv2d", "inputs="},
      {with("inputs=1", "inputs=one"), "inputs"},
      {with("inputs=1", "inputs="), "inputs"},
      {with("inputs=1", "inputs=-1"), "inputs"},
      {with("inputs=1", "inputs=+1"), "inputs"},
      {with("inputs=1", "inputs=01"), "inputs"},
      {with("inputs=1", "inputs=1.5"), "input="},
      {with("inputs=1", "inputs=0x1"), "input="},
      {with("inputs=1", "inputs=18446744073709551616"), "too large"},
      {with("inputs=1", "inputs=" + std::string(400, '9')), "too large"},
      {with("1x14x14x8", "1x14x14"), "4 numbers"},
      {with("1x14x14x8", "1x14x14x8x1"), "channels="},
      {with("1x14x14x8", "1,14,14,8"), "'x'"},
      {with("padding=1,1,1,1", "padding=1x1x1x1"), "','"},
      {with(" tasks=1", ""), "tasks="},
      {with("stride=1x1 dilation=1x1", "dilation=1x1 stride=1x1"), "stride="},
      {with("strides=dense", "strides=any"), "any"},
      {with(" strides=dense", ""), "strides="},
      {with(std::string("isa=") + our_level, "isa=mmx"), "mmx"},
      {with(std::string("isa=") + our_level, "isa="), "level"},
      {with(std::string(" isa=") + our_level, ""), "isa="},
      {with(" type=f32", ""), "type="},
      {with("type=f32", "type=f33"), "f33"},
      {with("type=f32", "type="), "type"},
      {with("igemm qn", "auto qn"), "\"auto\""},
      {with("igemm qn", "fastest qn"), "fastest"},
      {with("igemm qn", "winograd qn"), "unknown kernel"},
      {with(" igemm qn_igemm_f32_4x8_ref", ""), "algorithm"},
      {with(" qn_igemm_f32_4x8_ref", ""), "unknown kernel"},
      {with("4x8_ref", "4x8_fast"), "4x8_fast"},
      {good + " ", "after the kernel"},
      {good + " more", "more"},
      {good + "\r", "unknown kernel"},
      {good + std::string(1, '\0'), "unknown kernel"},
      {problem() + " igemm qn_" + std::string(70, 'a'), "unknown kernel"},
      {with(our_level, their_level) + "%s", "unknown kernel"},
      {good + std::string(2000, ' '), "longer"},
  };
  const std::string header = "quern-tuning 3\n",
                    first = numbers("5x5x5x8") + " strides=dense isa=ref type=f32 igemm " + "qn_igemm_f32_4x8_ref\n";
  const TuningHandle tuning = make_tuning();
  const auto refused = [&](const std::string& text, const std::string& words) {
    EXPECT_EQ(qn_tuning_load_memory(tuning.get(), text.data(), text.size()), QN_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(qn_last_message()).find(words), std::string::npos) << text << ": " << qn_last_message();
    EXPECT_EQ(qn_tuning_count(tuning.get()), 0u) << "all or nothing";
  };
  for (const auto& w : wrong) {
    refused(header + first + w.line + "\n", w.words);
    EXPECT_EQ(std::string(qn_last_message()).find("qn_tuning_load_memory:3: "), 0u) << qn_last_message();
  }
  refused(header + good + "\n" + first + good + "\n", ":4: an earlier line");
  refused("", ":1: the first line");
  refused("quern-tuning 1\n", ":1: the first line");
  refused("quern-tuning 3 \n" + good, ":1: the first line");
  refused("\n" + header + good, ":1: the first line");
  refused(header + header, ":2: unknown operator");
  ASSERT_QN_OK(qn_tuning_load_memory(tuning.get(), (header + good).data(), header.size() + good.size()));
}

TEST(TuningText, NullIsRefused) {
  EXPECT_EQ(qn_tuning_create(nullptr), QN_INVALID_ARGUMENT);
  const TuningHandle tuning = make_tuning();
  EXPECT_EQ(qn_tuning_load_memory(nullptr, "", 0), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tuning_load_memory(tuning.get(), nullptr, 0), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tuning_count(nullptr), 0u);
  qn_tuning_release(nullptr);
}

// ---- planning

struct PlanHandle {
  qn_plan* plan = nullptr;
  ~PlanHandle() { qn_plan_release(plan); }
};

struct Conv {
  explicit Conv(size_t channels = 8, size_t out_channels = 8, size_t edge = 14) {
    weights = reals(out_channels * 9 * channels, 1);
    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = channels;
    p.out_channels = out_channels;
    p.kernel = {3, 3};
    p.padding = {1, 1, 1, 1};
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights.data();
    EXPECT_QN_OK(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
    in = dense({1, edge, edge, channels});
  }
  // "algorithm kernel" of the plan.
  std::string choice(const qn_plan_options& options) const {
    PlanHandle handle;
    if (qn_operator_plan(op, &in, 1, nullptr, 0, &options, &handle.plan) != QN_OK) return qn_last_message();
    return std::string(qn_algorithm_string(qn_plan_algorithm(handle.plan))) + " " + qn_plan_kernel(handle.plan);
  }

  std::vector<float> weights;
  Op op;
  qn_tensor in;
};

qn_plan_options options_with(const TuningHandle& tuning, bool tune = false) {
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tuning = tuning.get();
  options.tune = tune;
  return options;
}

// The text with its only choice replaced.
std::string replace_choice(std::string text, const std::string& choice) {
  const size_t type = text.find(" type="), at = text.find(' ', type + 1);
  return text.replace(at, std::string::npos, " " + choice + "\n");
}

TEST(Tuning, MeasuresOnceAndKeepsTheFastest) {
  const Conv conv;
  const TuningHandle tuning = make_tuning();
  EXPECT_EQ(conv.choice(options_with(tuning)), conv.choice(options_with(make_tuning()))) << "nothing measured";
  EXPECT_EQ(qn_tuning_count(tuning.get()), 0u);
  const std::string choice = conv.choice(options_with(tuning, true));
  ASSERT_EQ(qn_tuning_count(tuning.get()), 1u) << choice;
  EXPECT_EQ(replace_choice(text_of(tuning), choice), text_of(tuning));

  const TunedChoice entry = only_choice(tuning);
  ASSERT_GE(entry.measured.size(), 2u);
  double best = __builtin_inf();
  for (const Measured& m : entry.measured) best = std::min(best, m.seconds);
  EXPECT_GT(best, 0);
  for (const Measured& m : entry.measured) EXPECT_LT(m.seconds, 1) << m.kernel << " was not run";
  for (const Measured& m : entry.measured) {
    if (m.algorithm != entry.algorithm || entry.kernel != m.kernel) continue;
    EXPECT_LE(m.seconds, best / 0.97);
  }

  // With another tuning of the same text, and with this one again, nothing is measured and the choice is the same.
  const TuningHandle copy = make_tuning(text_of(tuning));
  EXPECT_EQ(conv.choice(options_with(copy)), choice);
  EXPECT_EQ(conv.choice(options_with(copy, true)), choice);
  EXPECT_TRUE(only_choice(copy).measured.empty());
}

TEST(Tuning, ProblemsDifferByAllThatMatters) {
  const Conv conv;
  const TuningHandle tuning = make_tuning();
  qn_plan_options options = options_with(tuning, true);
  conv.choice(options);
  options.tasks = 2;
  conv.choice(options);
  EXPECT_EQ(qn_tuning_count(tuning.get()), 2u);
  conv.choice(options);
  EXPECT_EQ(qn_tuning_count(tuning.get()), 2u);

  Conv strided;
  for (size_t d : {0, 1, 2})
    strided.in.stride[d] = strided.in.shape[3] * sizeof(float) * (d == 2 ? 2 : d == 1 ? 30 : 600);
  strided.in.stride[3] = sizeof(float);
  strided.choice(options_with(tuning, true));
  EXPECT_EQ(qn_tuning_count(tuning.get()), 3u) << qn_last_message();
  EXPECT_NE(text_of(tuning).find("strides=strided"), std::string::npos);

  const std::vector<float> weights = reals(6, 1);
  qn_fully_connected_params p;
  qn_fully_connected_params_init(&p);
  p.in_channels = 2, p.out_channels = 3;
  qn_weights w;
  qn_weights_init(&w);
  w.data = weights.data();
  Op op;
  ASSERT_QN_OK(qn_fully_connected_create(&p, &w, nullptr, nullptr, &op));
  const qn_tensor in = dense({5, 7, 2});
  PlanHandle handle;
  options = options_with(tuning, true);
  ASSERT_QN_OK(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &handle.plan));
  EXPECT_NE(text_of(tuning).find("\nfully_connected inputs=1 input=1x1x35x2 channels=3 groups=1 kernel=1x1 "),
            std::string::npos)
      << text_of(tuning);
}

// Whatever can be chosen can be written and read: problems that all algorithms apply to, each row in turn.
TEST(Tuning, EveryCandidateHasAText) {
  Window window;
  window.h = window.w = {.kernel = 3, .before = 1, .after = 1, .in = 14, .out = 14};
  Problem conv, depthwise, product;
  conv.pixels = depthwise.pixels = 196;
  conv.kernel = depthwise.kernel = {3, 3};
  conv.height = conv.width = depthwise.height = depthwise.width = 14;
  conv.undilated = depthwise.undilated = true;
  conv.window = depthwise.window = &window;
  conv.in = conv.out = depthwise.groups = product.in = product.out = 32;
  product.pointwise = true;
  const WeightsDensity density = {32 * 32, {{100, 60, 30, 16, 8}, {}}};
  product.density = &density;
  const TuningHandle tuning = make_tuning();
  std::set<qn_algorithm> algorithms;
  for (const Problem* p : {&conv, &depthwise, &product}) {
    for (const Choice& c : candidates(*p, QN_ALGORITHM_AUTO, nullptr)) {
      const std::string text =
          "quern-tuning 3\n" + problem() + " " + qn_algorithm_string(c.algorithm) + " " + c.row->name;
      EXPECT_QN_OK(qn_tuning_load_memory(tuning.get(), text.data(), text.size()));
      algorithms.insert(c.algorithm);
    }
  }
  EXPECT_EQ(algorithms.size(), static_cast<size_t>(QN_ALGORITHM_SPARSE)) << "an algorithm has no problem here";
}

TEST(Tuning, ATextDecides) {
  const Conv conv;
  const TuningHandle measured = make_tuning();
  conv.choice(options_with(measured, true));
  const std::string text = text_of(measured);
  size_t tried = 0;
  const TunedChoice entry = only_choice(measured);
  for (const Measured& m : entry.measured) {
    const std::string choice = std::string(qn_algorithm_string(m.algorithm)) + " " + m.kernel;
    const TuningHandle tuning = make_tuning(replace_choice(text, choice));
    EXPECT_EQ(conv.choice(options_with(tuning)), choice);
    ++tried;
    // What is forced has precedence.
    qn_plan_options options = options_with(tuning);
    options.algorithm = QN_ALGORITHM_DIRECT;
    EXPECT_EQ(conv.choice(options).find("direct "), 0u);
    options = options_with(tuning);
    options.kernel = "qn_igemm_f32_4x8_ref";
    EXPECT_EQ(conv.choice(options), "igemm qn_igemm_f32_4x8_ref");
  }
  EXPECT_GE(tried, 2u);
}

TEST(Tuning, WhatDoesNotApplyIsIgnored) {
  const Conv conv;
  qn_plan_options plain;
  qn_plan_options_init(&plain);
  const std::string unasked = conv.choice(plain);
  const TuningHandle measured = make_tuning();
  conv.choice(options_with(measured, true));
  for (const char* choice : {"gemm qn_gemm_f32_4x8_ref", "depthwise qn_dwconv_f32_np8_ref"}) {
    const TuningHandle tuning = make_tuning(replace_choice(text_of(measured), choice));
    EXPECT_EQ(conv.choice(options_with(tuning)), unasked);
    EXPECT_EQ(text_of(tuning), replace_choice(text_of(measured), choice)) << "and stays";
    conv.choice(options_with(tuning, true));
    EXPECT_EQ(text_of(tuning).find(choice), std::string::npos) << "measuring replaces it";
  }
}

// Neither measuring nor a text gets beyond the limits that hold for the cost model.
TEST(Tuning, KeepsTheBoundOfErrors) {
  const Conv conv(512, 8, 6);  // too many channels for 6x6
  const TuningHandle tuning = make_tuning();
  conv.choice(options_with(tuning, true));
  size_t winograd = 0;
  const TunedChoice entry = only_choice(tuning);
  for (const Measured& m : entry.measured) {
    EXPECT_EQ(std::string(m.kernel).find("winograd_f32_6x6"), std::string::npos);
    winograd += m.algorithm == QN_ALGORITHM_WINOGRAD;
  }
  EXPECT_GT(winograd, 0u) << "others are tried";
  const WinogradRow* six =
      select(winograd_rows(), KernelType::f32, nullptr, [](const WinogradRow& row) { return row.outputs == 6; });
  ASSERT_NE(six, nullptr);
  const std::string hasty = std::string("winograd ") + six->name;
  const TuningHandle text = make_tuning(replace_choice(text_of(tuning), hasty));
  EXPECT_NE(conv.choice(options_with(text)), hasty);
  qn_plan_options forced;
  qn_plan_options_init(&forced);
  forced.kernel = six->name;
  EXPECT_EQ(conv.choice(forced), hasty) << "it would apply if it was asked for";
}

TEST(Tuning, MeasuresOnThreadsBetweenOtherData) {
  const Threads threads(2);
  const Conv conv;
  const TuningHandle tuning = make_tuning();
  qn_plan_options options = options_with(tuning, true);
  options.tasks = 2;
  options.parallel = threads.parallel();
  options.traffic = size_t{1} << 20;
  conv.choice(options);
  const TunedChoice entry = only_choice(tuning);
  EXPECT_GE(entry.measured.size(), 2u);
  for (const Measured& m : entry.measured) EXPECT_LT(m.seconds, 1) << m.kernel;
}

TEST(Tuning, NeedsSomewhereToStore) {
  const Conv conv;
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tune = 1;
  EXPECT_NE(conv.choice(options).find("options.tuning is NULL"), std::string::npos);
}

// A caller that was built before there was tuning.
TEST(Tuning, OlderCallersHaveNone) {
  const Conv conv;
  qn_plan_options options;
  std::memset(&options, 0xff, sizeof options);
  options.struct_size = offsetof(qn_plan_options, tuning);
  options.tasks = 1;
  options.algorithm = QN_ALGORITHM_IGEMM;
  options.kernel = nullptr;
  EXPECT_EQ(conv.choice(options).find("igemm "), 0u);
}

}  // namespace tuning_test
}  // namespace quern::test
