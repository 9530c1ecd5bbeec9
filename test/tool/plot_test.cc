// Charts: pixels of what is drawn, and the chart of a model's layers.
#include "tool/output/plot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "../variable.h"
#include "command_fixture.h"
#include "tool/input/image.h"
#include "tool/output/layer_chart.h"
#include "tool/output/size_text.h"

namespace quern {
namespace plot_test {

using nlohmann::json;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// The first colors of charts.
using Color = std::array<uint8_t, 3>;
constexpr Color white = {255, 255, 255}, first = {0, 115, 179}, second = {230, 158, 0}, third = {0, 158, 115},
                pale = {194, 217, 238};

bool has_cairo() {
  try {
    expect_charts();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Image drawn(const std::vector<Chart>& charts) { return decode_image(draw_charts(charts), "chart"); }

Color color_at(const Image& image, size_t x, size_t y) {
  Color color;
  for (size_t c = 0; c < 3; ++c) color[c] = image.pixels[(y * image.width + x) * image.channels + c];
  return color;
}

size_t count(const Image& image, size_t y, const Color& color) {
  size_t pixels = 0;
  for (size_t x = 0; x < image.width; ++x) pixels += color_at(image, x, y) == color;
  return pixels;
}

size_t count(const Image& image, const Color& color) {
  size_t pixels = 0;
  for (size_t y = 0; y < image.height; ++y) pixels += count(image, y, color);
  return pixels;
}

// The lengths of bars, by the pixels of the color in a row of pixels; a legend's box is shorter than 11.
std::vector<size_t> bars(const Image& image, const Color& color) {
  std::vector<size_t> lengths;
  size_t before = 0;
  for (size_t y = 0; y < image.height; ++y) {
    const size_t length = count(image, y, color);
    if (length > 11 && length != before) lengths.push_back(length);
    before = length;
  }
  return lengths;
}

struct Plot : testing::Test {
  void SetUp() override {
    if (!has_cairo()) GTEST_SKIP() << "this build has no cairo";
  }
};

struct InfoPlot : Command {
  void SetUp() override {
    Command::SetUp();
    if (!has_cairo()) GTEST_SKIP() << "this build has no cairo";
  }
};

TEST_F(Plot, BarsAreAsLongAsTheirValues) {
  const Image image = drawn({BarChart{"title", "MiB", {"a"}, {{"one", {4}}, {"two", {2}}, {"three", {1}}}, false, {}}});
  const std::vector<size_t> lengths = bars(image, first);
  ASSERT_EQ(lengths.size(), 3u);
  EXPECT_GT(lengths[0], image.width / 2);
  EXPECT_NEAR(static_cast<double>(lengths[0]), 2.0 * static_cast<double>(lengths[1]), 3);
  EXPECT_NEAR(static_cast<double>(lengths[1]), 2.0 * static_cast<double>(lengths[2]), 3);
  EXPECT_EQ(color_at(image, 0, 0), white);
}

TEST_F(Plot, FirstSeriesLiesInFront) {
  const Image image = drawn({BarChart{"title", "", {"file", "f32"}, {{"a", {1, 4}}, {"b", {2, 2}}}, false, {}}});
  const std::vector<size_t> front = bars(image, first), back = bars(image, pale);
  ASSERT_EQ(front.size(), 2u);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_NEAR(static_cast<double>(back[0]), 3.0 * static_cast<double>(front[0]), 4);
  EXPECT_NEAR(static_cast<double>(front[1]), 2.0 * static_cast<double>(front[0]), 4);
}

TEST_F(Plot, SharesFollowEachOther) {
  const Image image = drawn({BarChart{"t", "", {"prune", "quantize", "code"}, {{"r", {1, 2, 3}}}, true, {}}});
  const std::vector<size_t> a = bars(image, first), b = bars(image, second), c = bars(image, third);
  ASSERT_EQ(a.size() + b.size() + c.size(), 3u);
  EXPECT_NEAR(static_cast<double>(b[0]), 2.0 * static_cast<double>(a[0]), 4);
  EXPECT_NEAR(static_cast<double>(c[0]), 3.0 * static_cast<double>(a[0]), 5);
}

TEST_F(Plot, PointsLieInOrder) {
  const LineChart chart = {"t", "accuracy", "ratio", {{"points", {{0.70, 4, ""}, {0.65, 8, "here"}}, false}}};
  const Image image = drawn({chart});
  std::vector<std::pair<size_t, size_t>> points;  // the topmost pixel comes first, of the larger ratio
  for (size_t y = 0; y < image.height; ++y) {
    for (size_t x = 0; x < image.width; ++x) {
      if (color_at(image, x, y) == first) points.emplace_back(x, y);
    }
  }
  ASSERT_FALSE(points.empty());
  EXPECT_LT(points.front().first, points.back().first);
  EXPECT_GT(points.back().second - points.front().second, 200u);
  EXPECT_LT(points.size(), 140u);  // two dots
  LineChart lines = chart;
  lines.series[0].connected = true;
  EXPECT_GT(count(drawn({lines}), first), points.size() + 500);
}

TEST_F(Plot, ChartsLieBelowEachOther) {
  const BarChart bar = {"t", "", {"a"}, {{"x", {1}}}, false, {}};
  const LineChart line = {"t", "x", "y", {{"s", {{0, 0, ""}, {1, 1, ""}}}}};
  const Image one = drawn({bar}), two = drawn({bar, line});
  EXPECT_GT(two.height, one.height + 300);
  EXPECT_TRUE(std::equal(one.pixels.begin(), one.pixels.end() - static_cast<ptrdiff_t>(16 * one.width * one.channels),
                         two.pixels.begin()));
}

TEST_F(Plot, DrawsWhateverItIsGiven) {
  const std::string endless(10'000, 'x'), bytes = "\xff\xfe\x80\n\t\x01 caf\xc3\xa9 \xe5\xb1\x82\xf0";
  const std::vector<double> odd = {0, 1, -1, inf, -inf, nan, 1e308, -1e308, 5e-324, 1 / 3.0, 1e99, 1e101};
  std::vector<Chart> charts = {BarChart{}, LineChart{}, LineChart{"", "", "", {{}}}};
  BarChart bar = {endless, bytes, {endless, bytes, ""}, {}, false, [&](const auto&) { return endless; }};
  LineChart line = {bytes, endless, bytes, {}};
  for (const double value : odd) {
    bar.bars.push_back({value > 0 ? endless : bytes, {value, 1, value}});
    bar.bars.push_back({"", {}});
    bar.bars.push_back({"", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}});
    charts.push_back(BarChart{"", "", {"one"}, {{"", {value}}}, true, {}});
    charts.push_back(LineChart{"", "", "", {{"", {{value, value, ""}}}}});
    for (const double other : {-1.0, 1e99, nan}) {
      line.series.push_back({bytes, {{value, other, endless}, {other, value, bytes}}});
      charts.push_back(LineChart{"", "", "", {{"", {{value, 0, ""}, {other, 1, ""}}}}});
    }
  }
  charts.push_back(bar);
  bar.stacked = true;
  charts.push_back(bar);
  charts.push_back(line);
  for (const Chart& chart : charts) {
    const Image image = drawn({chart});
    EXPECT_EQ(image.width, 1000u);
    EXPECT_LT(image.height, 1500u);
  }
  EXPECT_EQ(drawn({}).width, 1000u);
}

TEST_F(Plot, OnlyTheFirstBarsAreDrawn) {
  BarChart chart = {"many", "", {"a"}, {}, false, [](const auto& values) { return fmt::format("{}", values[0]); }};
  for (int i = 0; i < 10'000; ++i) chart.bars.push_back({fmt::format("layer{}", i), {1}});
  const Image image = drawn({chart});
  EXPECT_LT(image.height, 1500u);
  const std::vector<size_t> lengths = bars(image, first);  // with white between them
  EXPECT_EQ(lengths.size(), 60u);
  EXPECT_GT(lengths.back(), image.width / 2);
}

TEST(SizeText, ChoosesAUnit) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1.00 KiB");
  EXPECT_EQ(size_text(3.25 * (1 << 20)), "3.25 MiB");
  EXPECT_EQ(size_text(5e12), "4656.61 GiB");
}

TEST(LayerChart, SortsAndSumsUp) {
  const BarChart chart = layer_chart("net.qn", {{"a", 10, 0, 40}, {"b", 100, 0, 100}, {"c", 25, 0, 60}});
  EXPECT_EQ(chart.title, "net.qn: 200 bytes of weights in 3 layers, 540 bytes as f32");
  ASSERT_EQ(chart.bars.size(), 3u);
  EXPECT_EQ(chart.bars[0].label, "b");
  EXPECT_EQ(chart.bars[1].label, "c");
  EXPECT_EQ(chart.bars[1].values, (std::vector<double>{60, 100}));
  EXPECT_EQ(chart.note({50, 0}), "50 bytes, 25.0%");
  EXPECT_EQ(layer_chart("x", {}).title, "x: 0 bytes of weights in 0 layers");
  EXPECT_EQ(layer_chart("x", {{"a", 0, 0, 0}}).note({0, 0}), "0 bytes, 0.0%");
}

TEST_F(InfoPlot, DrawsLayers) {
  const Result r = quern({"info", "tiny.qn", "--plot", "layers.png", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["layers"].size(), 2u);
  const std::vector<size_t> lengths = bars(read_image(path("layers.png")), first);
  ASSERT_EQ(lengths.size(), 2u);
  EXPECT_NEAR(static_cast<double>(lengths[0]) * 108, static_cast<double>(lengths[1]) * 640, 2 * 640);
  succeeds({"info", "tiny.qn", "--plot", "again.png"});
  EXPECT_EQ(read_whole(dir / "again.png"), read_whole(dir / "layers.png"));
}

TEST_F(InfoPlot, CompressDrawsACurve) {
  const Result r = quern({"compress", "tiny.qn", "-o", "small.qn", "--calibrate", "a.png", "--target-ratio", "1.5",
                          "--plot", "curve.png", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json report = json::parse(r.out);
  const double before = report["input_bytes"];
  bool made = false;
  double largest = 0;
  for (const json& point : report["curve"]) {
    EXPECT_GT(point["file_bytes"], largest) << "by size";
    largest = point["file_bytes"];
    made = made || point["file_bytes"] == report["file_bytes"];
    double sum = point["file_bytes"];
    for (const char* step : {"zeros", "integers", "coding"}) sum += point["saved_bytes"][step].get<double>();
    EXPECT_NEAR(sum, before, 0.6 * before) << "but for the description, of which a small file has much";
  }
  EXPECT_TRUE(made);
  EXPECT_GE(report["curve"].size(), 3u);
  EXPECT_GE(read_image(path("curve.png")).width, 500u);
  EXPECT_NE(fails({"compress", "tiny.qn", "-o", "s.qn", "--plot", "x.png"}, 2).find("needs a target"),
            std::string::npos);
  for (const char* flag : {"--plot", "--save-plan"}) {
    EXPECT_NE(
        fails({"compress", "tiny.qn", "-o", "s.qn", "--calibrate", "a.png", "--target-ratio", "1.5", flag, "tiny.qn"})
            .find("would be lost"),
        std::string::npos);
  }
}

// Labels need neither fonts nor the configuration of fonts.
TEST_F(InfoPlot, NeedsNoFonts) {
  succeeds({"info", "tiny.qn", "--plot", "layers.png"});
  const Variable file("FONTCONFIG_FILE", "/dev/null"), folder("FONTCONFIG_PATH", "/nowhere"), home("HOME", "/nowhere");
  succeeds({"info", "tiny.qn", "--plot", "bare.png"});
  EXPECT_EQ(read_whole(dir / "bare.png"), read_whole(dir / "layers.png"));
}

TEST_F(InfoPlot, WritesAWholeFileOrNone) {
  const std::set<std::string> before = files();
  EXPECT_NE(fails({"info", "tiny.qn", "--plot", "no/folder/x.png"}).find("no/folder/x.png: cannot write"),
            std::string::npos);
  EXPECT_NE(fails({"info", "tiny.qn", "--plot", "./tiny.qn"}).find("would be lost"), std::string::npos);
  EXPECT_EQ(files(), before);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0666), 0);
  EXPECT_NE(fails({"info", "tiny.qn", "--plot", "pipe"}).find("not a regular file"), std::string::npos);
}

// A chain of fully-connected layers of 2 x 2 weights.
Graph chain(const std::vector<std::string>& names) {
  Graph graph;
  const float weights[4] = {1, 2, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  int x = add_tensor(graph, "x", QN_F32, {1, 2});
  graph.inputs = {{.tensor = x}};
  for (const std::string& name : names) {
    const int w = add_constant(graph, String(), QN_F32, {2, 2}, weights);
    x = add_node(graph, OpKind::fully_connected, name.c_str(), {x, w}, {});
  }
  if (names.empty()) x = add_node(graph, OpKind::exp, "exp", {x}, {});
  graph.tensors[at(x)].name = "y";
  graph.outputs = {{.tensor = x}};
  check(infer_shapes(graph));
  return graph;
}

TEST_F(InfoPlot, DrawsAnyModel) {
  std::vector<std::string> many;
  for (int i = 0; i < 10'000; ++i) many.push_back(fmt::format("layer{}", i));
  const std::vector<std::vector<std::string>> models = {
      {}, {"one"}, {std::string(1000, 'n'), "\xe5\xb1\x82", ""}, many};
  for (const std::vector<std::string>& names : models) {
    check(write_model_file(chain(names), path("odd.qn").c_str()));
    succeeds({"info", "odd.qn", "--plot", "odd.png"});
    const Image image = read_image(path("odd.png"));
    EXPECT_LT(image.height, 1500u);
    EXPECT_EQ(bars(image, first).size(), std::min<size_t>(names.size(), 60)) << names.size();
    EXPECT_EQ(quern({"info", "odd.qn", "--json"}).status, 0);
  }
}

TEST_F(Command, InfoMeasuresLoading) {
  const json info = json::parse(quern({"info", "tiny.qn", "--load", "--json"}).out);
  EXPECT_GT(info["load_ms"], 0);
  EXPECT_GT(info["load_peak_bytes"], 4 * (4 * 27 + 640));  // packed weights
  EXPECT_LT(info["load_peak_bytes"], 1 << 20);
  const json bench = json::parse(quern({"bench", "tiny.qn", "--runs", "1", "--json"}).out);
  EXPECT_NEAR(bench["load_peak_bytes"].get<double>() / info["load_peak_bytes"].get<double>(), 1, 0.1);
  EXPECT_NE(quern({"info", "tiny.qn", "--load"}).out.find("\nload       "), std::string::npos);
  EXPECT_FALSE(json::parse(quern({"info", "tiny.qn", "--json"}).out).contains("load_ms"));
}

// Activations of 8 MB and more.
TEST_F(Command, LoadingCountsNoActivations) {
  Graph graph;
  int x = add_tensor(graph, "x", QN_F32, {1 << 20});
  graph.inputs = {{.tensor = x}};
  for (const char* name : {"a", "b"}) x = add_node(graph, OpKind::exp, name, {x}, {});
  graph.tensors[at(x)].name = "y";
  graph.outputs = {{.tensor = x}};
  check(infer_shapes(graph));
  check(write_model_file(graph, path("large.qn").c_str()));
  const json info = json::parse(quern({"info", "large.qn", "--load", "--json"}).out);
  EXPECT_GT(info["load_peak_bytes"], 0);
  EXPECT_LT(info["load_peak_bytes"], 1 << 18);
}

TEST_F(Command, InfoCountsTheBytesOfCodedWeights) {
  succeeds({"compress", "tiny.qn", "-o", "coded.qn"});
  const json info = json::parse(quern({"info", "coded.qn", "--json"}).out);
  uint64_t sum = 0;
  for (const json& layer : info["layers"]) {
    EXPECT_EQ(layer["f32_bytes"], 4 * layer["elements"].get<uint64_t>());
    EXPECT_LT(layer["file_bytes"], layer["f32_bytes"]);
    EXPECT_GT(layer["file_bytes"], layer["elements"]);
    sum += layer["file_bytes"].get<uint64_t>();
  }
  EXPECT_LT(sum, info["file_bytes"]);
}

}  // namespace plot_test
}  // namespace quern
