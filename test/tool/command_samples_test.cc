// quantize and eval with files of many samples.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "command_fixture.h"
#include "data_sets.h"

namespace quern {
namespace command_samples_test {

using nlohmann::json;

constexpr size_t count = 12, side = 8;

uint8_t pixel(size_t i, size_t x, size_t y, size_t c) {
  return static_cast<uint8_t>(x * (9 + 5 * i) + y * (7 + 11 * i) + c * 40 * i + 17 * i);
}

// Pixels of all images, in one order of the dimensions.
std::string pixels(size_t channels, bool channels_first) {
  std::string data;
  for (size_t i = 0; i < count; ++i) {
    std::string image(side * side * channels, '\0');
    for (size_t y = 0; y < side; ++y)
      for (size_t x = 0; x < side; ++x)
        for (size_t c = 0; c < channels; ++c)
          image[channels_first ? (c * side + y) * side + x : (y * side + x) * channels + c] =
              static_cast<char>(pixel(i, x, y, c));
    data += image;
  }
  return data;
}

class Data : public Command {
 protected:
  // Writes the images one by one into folders, and in all forms of arrays; and labels, of which some are right.
  void SetUp() override {
    Command::SetUp();
    for (const size_t channels : {1, 3}) {
      const std::string name = channels == 1 ? "gray" : "rgb";
      fs::create_directory(dir / name);
      for (size_t i = 0; i < count; ++i)
        spill(dir / name / file_name(i),
              make_png(side, side, {8, channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB},
                       [&](size_t x, size_t y, size_t c) { return pixel(i, x, y, c); }));
    }
    std::string table = "file,label\n";
    for (size_t i = 0; i < count; ++i) {
      labels += static_cast<char>(i * 5 % 10);
      table += fmt::format("{},{}\n", file_name(i), i * 5 % 10);
    }
    spill(dir / "truth.csv", table);
    spill(dir / "labels.idx", make_idx(8, {count}, labels));
    spill(dir / "labels.npy", make_npy("|u1", {count, 1}, labels));
    const std::string last = make_npy("|u1", {count, side, side, 3}, pixels(3, false));
    spill(dir / "last.npy", last);
    spill(dir / "first.npy", make_npy("|u1", {count, 3, side, side}, pixels(3, true)));
    spill(dir / "images.idx", make_idx(8, {count, side, side, 3}, pixels(3, false)));
    const std::string answers = make_npy("|u1", {count}, labels);
    spill(dir / "deflated.npz", make_zip({{"images.npy", last}, {"labels.npy", answers}, {"names.npy", "?"}}, true));
    spill(dir / "stored.npz", make_zip({{"y_test.npy", answers}, {"x_test.npy", last}, {"x_train.npy", last}}, false));
    spill(dir / "gray.idx", make_idx(8, {count, side, side}, pixels(1, false)));
  }

  static std::string file_name(size_t i) { return fmt::format("{:02}.png", i); }
  // The first output of the command, which succeeds.
  json run(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const Result r = quern(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r.status == 0 ? json::parse(r.out) : json();
  }
  json eval(const std::string& images, const std::string& truth) const {
    std::vector<std::string> arguments = {"eval", "tiny.qn", "--images", images};
    if (!truth.empty()) arguments.insert(arguments.end(), {"--truth", truth});
    return run(arguments);
  }

  std::string labels;
};

TEST_F(Data, EvalCountsTheSameWhateverHoldsTheImages) {
  const json want = eval("rgb", "truth.csv");
  EXPECT_EQ(want["images"], count);
  EXPECT_GT(want["top5"], 0);
  EXPECT_LT(want["top5"], 1) << "labels that are all right or all wrong compare nothing";
  const std::vector<std::array<const char*, 2>> others = {
      {"images.idx", "labels.idx"}, {"last.npy", "labels.npy"},        {"first.npy", "truth.csv"},
      {"deflated.npz", ""},         {"deflated.npz", "labels.idx"},    {"deflated.npz:images", "deflated.npz:labels"},
      {"stored.npz:x_test", ""},    {"last.npy", "stored.npz:y_test"}, {"rgb", "labels.idx"},
  };
  for (const auto& [images, truth] : others) EXPECT_EQ(eval(images, truth), want) << images << " " << truth;
  EXPECT_EQ(eval("gray.idx", "labels.idx"), eval("gray", "truth.csv"));
}

// Flags and sizes, too, are those of images.
TEST_F(Data, ImagesOfArraysArePreprocessed) {
  const auto with = [&](const char* images, const char* truth, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"eval", "tiny.qn", "--images", images, "--truth", truth};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run(arguments);
  };
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--bgr", "--mean", "10,100,200", "--scale", "0.1"}, {"--resize", "20", "--crop", "11"}})
    EXPECT_EQ(with("last.npy", "labels.idx", flags), with("rgb", "truth.csv", flags)) << flags[0];
}

TEST_F(Data, QuantizeTakesTheSameSamplesWhateverHoldsThem) {
  const auto quantize = [&](const std::string& samples) {
    const json report = run({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", samples});
    EXPECT_EQ(report["samples"], count) << samples;
    EXPECT_EQ(report["measured_samples"], count / 5) << samples;
    return read_whole(dir / "q.qn");
  };
  const std::string want = quantize("rgb");
  for (const char* samples :
       {"input=rgb", "images.idx", "last.npy", "first.npy", "deflated.npz", "input=stored.npz:x_train"})
    EXPECT_TRUE(quantize(samples) == want) << samples;
  EXPECT_TRUE(quantize("gray.idx") == quantize("gray"));
}

// Real numbers are the input as it is: one by one in files, or all in one.
TEST_F(Data, ArraysOfFloatsAreTheInput) {
  fs::create_directory(dir / "floats");
  std::vector<float> all;
  std::string table;
  for (size_t i = 0; i < count; ++i) {
    std::vector<float> values;
    for (size_t k = 0; k < 3 * side * side; ++k)
      values.push_back(static_cast<float>(pixel(i, k % side, k / side % side, k / side / side)) / 64 - 2);
    write_array(fmt::format("floats/{:02}.npy", i), {1, 3, side, side}, values);
    table += fmt::format("{:02}.npy,{}\n", i, i * 5 % 10);
    all.insert(all.end(), values.begin(), values.end());
  }
  spill(dir / "floats.csv", table);
  write_array("all.npy", {count, 3, side, side}, all);
  write_array("flat.npy", {count, 3 * side * side}, all);
  const json want = eval("floats", "floats.csv");
  for (const char* images : {"all.npy", "flat.npy"}) EXPECT_EQ(eval(images, "labels.idx"), want);
  fs::create_directory(dir / "one");
  spill(dir / "one.idx", make_idx(8, {1}, "\3"));
  write_array("one/a.npy", {1, 3 * side * side}, {all.begin(), all.begin() + 3 * side * side});
  EXPECT_EQ(eval("one", "one.idx"), eval("one/a.npy", "one.idx"));
  const auto with_batch = [&](const char* batch) {
    return run({"eval", "tiny.qn", "--images", "all.npy", "--truth", "labels.idx", "--shape", batch});
  };
  EXPECT_EQ(with_batch("4x3x8x8"), want);
  EXPECT_EQ(with_batch("12x3x8x8"), want);
  const auto quantize = [&](const char* samples) {
    run({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", samples});
    return read_whole(dir / "q.qn");
  };
  EXPECT_TRUE(quantize("all.npy") == quantize("floats"));
}

// One archive for all inputs: each reads the array that is called like it.
TEST_F(Data, InputsTakeArraysOfTheirNames) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, 2}), b = add_tensor(graph, "b", QN_F32, {1, 2});
  graph.inputs = {{.tensor = x}, {.tensor = b}};
  const float weights[] = {1, 0.25f, -0.5f, 1};
  const int y = add_node(graph, OpKind::fully_connected, "fc",
                         {x, add_constant(graph, "", QN_F32, {2, 2}, weights), no_tensor}, {});
  graph.outputs = {{.tensor = add_node(graph, OpKind::add, "add", {y, b}, {})}};
  graph.tensors.back().name = "out";
  check(infer_shapes(graph));
  check(write_model_file(graph, path("two.qn").c_str()));
  const auto floats = [](std::vector<float> values) {
    std::string data(values.size() * sizeof(float), '\0');
    std::memcpy(data.data(), values.data(), data.size());
    return make_npy("<f4", {values.size() / 2, 2}, data);
  };
  const auto archive = [&](const std::string& a, const std::string& c) {
    spill(dir / "two.npz", make_zip({{"x.npy", a}, {"b.npy", c}}, true));
  };
  const std::vector<std::string> command = {"quantize",    "two.qn",    "-o",        "q.qn",
                                            "--calibrate", "x=two.npz", "b=two.npz", "--json"};
  archive(floats({1, 2, 3, 4, 5, 6, 7, 8}), floats({1, 1}));  // b is the same for all
  const Result r = quern(command);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["samples"], 4);
  archive(floats({1, 2, 3, 4, 5, 6, 7, 8}), floats({1, 1, 2, 2}));
  EXPECT_NE(fails(command, 2).find("expected the same number of files or samples for each input, got 4 and 2"),
            std::string::npos);
}

TEST_F(Data, ErrorsNameTheFileAndWhatIsWrong) {
  spill(dir / "few.idx", make_idx(8, {count - 1}, labels.substr(1)));
  spill(dir / "far.idx", make_idx(8, {count}, std::string(count - 1, '\1') + '\x0a'));
  spill(dir / "short.idx", make_idx(8, {count + 1, side, side}, pixels(1, false)));
  spill(dir / "packed.gz", "\x1f\x8b\x08 and so on");
  spill(dir / "empty.npy", make_npy("<f4", {0, 3, side, side}, ""));
  spill(dir / "nan.npy", make_npy("<f4", {2, 3, side, side}, std::string(2 * 3 * side * side * 4, '\xff')));
  spill(dir / "bad.npz", read_whole(dir / "deflated.npz").replace(200, 10, "0123456789"));
  spill(dir / "two.csv", "file,label\n00.png,1\nall.npy,2\n");
  const struct {
    std::vector<const char*> flags;
    const char* part;
  } cases[] = {
      {{"gray.idx", "few.idx"}, "few.idx: expected 12 labels, one for each sample, got 11"},
      {{"gray.idx", "far.idx"}, "far.idx: sample 11: expected a label below 10, the number of classes, got 10"},
      {{"gray.idx", "images.idx"}, "images.idx: expected labels, a 1-D array of integers, got shape 12x8x8x3"},
      {{"gray.idx", "packed.gz"}, "packed.gz: compressed with gzip; decompress it first: gunzip"},
      {{"gray.idx", "missing.npy"}, "missing.npy: cannot open"},
      {{"packed.gz", "labels.idx"}, "packed.gz: compressed with gzip"},
      {{"short.idx", "labels.idx"}, "short.idx: expected 832 bytes of elements for shape 13x8x8, got 768"},
      {{"labels.idx", "labels.idx"}, "labels.idx: expected uint8 images, N x H x W"},
      {{"empty.npy", "labels.idx"}, "empty.npy: expected samples, got an array without elements"},
      {{"stored.npz", "labels.idx"},
       "stored.npz: expected an array input or images or x or data, or only one, got y_test, x_test, x_train"},
      {{"stored.npz:z", "labels.idx"}, "stored.npz: no array \"z\"; the archive has y_test, x_test, x_train"},
      {{"bad.npz", "labels.idx"}, "bad.npz: images.npy: damaged archive: "},
      {{"deflated.npz:names", "labels.idx"}, "deflated.npz:names: not a .npy file"},
      {{"truth.csv", "labels.idx"}, "truth.csv: expected a .npy array, a .npz archive or an idx file"},
      {{"rgb", "two.csv"}, "rgb/all.npy: cannot open"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(
        fails({"eval", "tiny.qn", "--images", c.flags[0], "--truth", c.flags[1]}).find(std::string("quern: ") + c.part),
        0u)
        << fails({"eval", "tiny.qn", "--images", c.flags[0], "--truth", c.flags[1]});
  EXPECT_NE(fails({"eval", "tiny.qn", "--images", "gray.idx"}, 2).find("--truth is required"), std::string::npos);
  EXPECT_NE(fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", "nan.npy"}).find("not finite"),
            std::string::npos);
  for (const char* samples : {"packed.gz", "short.idx", "labels.idx", "empty.npy", "stored.npz", "bad.npz"})
    fails({"quantize", "tiny.qn", "-o", "q.qn", "--calibrate", samples});
  EXPECT_FALSE(fs::exists(dir / "q.qn"));
}

// A model that is fed bytes without knowing images would ignore what flags say about images.
TEST_F(Data, FlagsOfImagesNeedImages) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, side * side});
  graph.inputs = {{.tensor = x}};
  const std::vector<float> weights(10 * side * side, 0.5f);
  graph.outputs = {
      {.tensor = add_node(graph, OpKind::fully_connected, "y",
                          {x, add_constant(graph, "", QN_F32, {10, side * side}, weights.data()), no_tensor}, {})}};
  graph.tensors.back().name = "y";
  check(infer_shapes(graph));
  check(write_model_file(graph, path("flat.qn").c_str()));
  const std::vector<std::string> command = {"eval", "flat.qn", "--images", "gray.idx", "--truth", "labels.idx"};
  EXPECT_EQ(run(command)["images"], count);
  std::vector<std::string> scaled = command;
  scaled.insert(scaled.end(), {"--scale", "0.1"});
  EXPECT_NE(fails(scaled).find("gray.idx: input \"x\" of shape 1x64 takes no images"), std::string::npos);
}

}  // namespace command_samples_test
}  // namespace quern
