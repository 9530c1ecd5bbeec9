// Labels and detections: what outputs mean, in files and in what the command prints and draws.
#include "tool/output/detections.h"

#include <quern/extra.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "command_fixture.h"
#include "graph/ir/ir.h"
#include "tool/output/draw.h"
#include "tool/output/labels.h"

namespace quern {
namespace detections_test {

using nlohmann::json;

// Outputs that hold these floats.
struct Numbers {
  std::vector<size_t> shape;
  std::vector<float> values;
};

std::vector<Output> outputs_of(const std::vector<Numbers>& all) {
  std::vector<Output> outputs;
  for (const Numbers& n : all) {
    Output output = {fmt::format("y{}", outputs.size()), {}, n.values.data()};
    check(qn_tensor_init(&output.tensor, QN_F32, static_cast<uint32_t>(n.shape.size()), n.shape.data()));
    outputs.push_back(output);
  }
  return outputs;
}

Postprocessing way(const char* name, Vector<uint32_t> outputs) {
  Postprocessing p;
  p.detections = String(name);
  p.outputs = std::move(outputs);
  return p;
}

std::string text(const std::vector<Detection>& detections) {
  std::string result;
  for (const Detection& d : detections)
    result += fmt::format("{}:{} {:g} [{:g} {:g} {:g} {:g}]\n", d.image, d.label, d.score, d.box.left, d.box.top,
                          d.box.right, d.box.bottom);
  return result;
}

const float nan = std::nanf("");

TEST(Detections, OfRows) {
  const std::vector<Numbers> rows = {{{1, 1, 5, 7}, {0, 3,   0.5f,  0, 0.25f, 0.5f, 0.75f,  //
                                                     1, 2,   0.75f, 0, 0,     1,    1,      //
                                                     0, 1,   0.25f, 0, 0,     1,    1,      // below the threshold
                                                     0, nan, 0.9f,  0, 0,     1,    1,      // no class
                                                     0, 1,   nan,   0, 0,     1,    1}}};   // no score
  EXPECT_EQ(text(find_detections(way("rows", {0}), outputs_of(rows))),
            "1:2 0.75 [0 0 1 1]\n0:3 0.5 [0 0.25 0.5 0.75]\n");
  // What detectors give that have found nothing.
  EXPECT_EQ(text(find_detections(way("rows", {0}), outputs_of({{{1, 1, 1, 7}, {0, -1, -1, -1, -1, -1, -1}}}))), "");
  Postprocessing all = way("rows", {0});
  all.threshold = 0;
  EXPECT_EQ(text(find_detections(all, outputs_of({{{2, 7}, std::vector<float>(14, 0)}}))), "") << "rows of zeros";
}

TEST(Detections, OfLists) {
  const std::vector<Numbers> lists = {{{1}, {2}},
                                      {{1, 3, 4}, {0.25f, 0, 0.75f, 0.5f, 0, 0, 1, 1, 0, 0, 1, 1}},
                                      {{1, 3}, {7, 0, 5}},
                                      {{1, 3}, {0.5f, 0.75f, 0.9f}}};
  EXPECT_EQ(text(find_detections(way("lists", {1, 2, 3, 0}), outputs_of(lists))),
            "0:0 0.75 [0 0 1 1]\n0:7 0.5 [0 0.25 0.5 0.75]\n");
}

TEST(Detections, OfScoresWithoutDoubles) {
  const std::vector<Numbers> outputs = {{{1, 4, 4}, {0, 0, 10, 10, 0, 0, 10, 9, 20, 20, 30, 30, 0, 0, 10, 10}},
                                        {{1, 4, 3}, {0.1f, 0.75f, 0, 0, 0.9f, 0, 0.2f, 0.6f, 0, 0.9f, 0.1f, 0.8f}}};
  Postprocessing how = way("scores", {0, 1});
  how.background = 0;
  EXPECT_EQ(text(find_detections(how, outputs_of(outputs))),
            "0:1 0.9 [0 0 10 9]\n0:2 0.8 [0 0 10 10]\n0:1 0.6 [20 20 30 30]\n");
  how.overlap = 0.95f;  // boxes may overlap more
  EXPECT_EQ(find_detections(how, outputs_of(outputs)).size(), 4u);
  how.background = -1;
  EXPECT_EQ(find_detections(how, outputs_of(outputs)).size(), 5u);
}

TEST(Detections, RefuseOutputsThatDoNotFit) {
  const auto refuses = [](const Postprocessing& how, const std::vector<Numbers>& outputs, const std::string& message) {
    try {
      find_detections(how, outputs_of(outputs));
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  refuses(way("rows", {0}), {{{1, 6}, std::vector<float>(6)}}, "rows of 7 numbers");
  refuses(way("rows", {0}), {{{}, {1}}}, "rows of 7 numbers");
  refuses(way("rows", {1}), {{{1, 7}, std::vector<float>(7)}}, "the model has 1");
  refuses(way("rows", {0, 0}), {{{1, 7}, std::vector<float>(7)}}, "take 1 outputs, not 2");
  refuses(way("columns", {0}), {{{1, 7}, std::vector<float>(7)}}, "knows rows, lists and scores");
  refuses(way("scores", {0, 1}), {{{1, 4}, std::vector<float>(4)}, {{2, 3}, std::vector<float>(6)}},
          "\"y1\" describes 2 objects instead of 1");
}

TEST(Detections, DrawnIntoAPicture) {
  Image picture = {100, 80, 1, std::vector<uint8_t>(100 * 80, 9)};
  draw_detections(&picture, {{0, 1, 0.5, {10, 30, 60, 70}}, {0, 2, 0.5, {-1e30, -5, 1e30, 1e9}}}, {"", "cat"});
  const Image again = decode_image(encode_png(picture), "again");
  ASSERT_EQ(again.channels, 3u);
  EXPECT_EQ(again.pixels, picture.pixels);
  const auto pixel = [&](size_t x, size_t y) {
    return std::vector<uint8_t>(&again.pixels[3 * (y * 100 + x)], &again.pixels[3 * (y * 100 + x)] + 3);
  };
  const std::vector<uint8_t> gray = {9, 9, 9}, frame = pixel(10, 50);
  EXPECT_EQ(pixel(30, 50), gray) << "inside the frame";
  EXPECT_NE(frame, gray);
  EXPECT_EQ(pixel(59, 50), frame) << "right";
  EXPECT_EQ(pixel(30, 30), frame) << "top";
  EXPECT_EQ(pixel(30, 69), frame) << "bottom";
  EXPECT_EQ(pixel(11, 17), frame) << "the field of the label above";
  EXPECT_EQ(pixel(11, 75), gray) << "below";
}

// ---- the command

// A model of 8 x 8 pixels that hands two inputs through: rows of detections, and scores of classes.
void write_detector(const std::string& path) {
  zoo::Builder b("detector", 5);
  const zoo::Value x = b.conv("conv", b.input(8), {4, 3, 2, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("fc", x, 10).tensor, 1));
  Graph graph = b.finish();
  const float rows[] = {0, 1, 0.875f, 0.25f, 0.25f, 0.5f, 0.75f, 0, 2, 0.25f, 0, 0, 1, 1};
  graph.outputs.push_back({.tensor = add_constant(graph, "found", QN_F32, {1, 1, 2, 7}, rows), .type = QN_F32});
  check(infer_shapes(graph));
  check(write_model_file(graph, path.c_str()));
}

TEST_F(Command, LabelsAreStoredInTheModel) {
  spill(dir / "labels.txt", "zero\r\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n");
  succeeds({"convert", "tiny.qn", "-o", "named.qn", "--labels", "labels.txt"});
  const Result by_flag = quern({"run", "tiny.qn", "--input", "a.png", "--json", "--labels", "labels.txt"});
  const Result stored = quern({"run", "named.qn", "--input", "a.png", "--json"});
  ASSERT_EQ(stored.status, 0) << stored.err;
  const json best = json::parse(stored.out)["runs"][0]["classes"][0][0];
  EXPECT_EQ(best, json::parse(by_flag.out)["runs"][0]["classes"][0][0]);
  EXPECT_EQ(read_labels(path("labels.txt")).at(best["class"].get<size_t>()), best["label"].get<std::string>());
  spill(dir / "bad.txt", "one\n\x1b[2J\n");
  EXPECT_NE(fails({"convert", "tiny.qn", "-o", "x.qn", "--labels", "bad.txt"}).find("line 2"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir / "x.qn"));
}

TEST_F(Command, RunNeedsNoFlagsForADetector) {
  write_detector(path("plain.qn"));
  spill(dir / "labels.txt", "background\ncat\ndog\n");
  succeeds({"convert", "plain.qn", "-o", "d.qn", "--resize", "16", "--crop", "8", "--labels", "labels.txt",
            "--detections", "rows", "--detection-outputs", "found"});
  const Result r = quern({"run", "d.qn", "--input", "b.jpg", "--json", "--draw", "out.png"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json found = json::parse(r.out)["runs"][0]["detections"];
  ASSERT_EQ(found.size(), 1u) << found;
  EXPECT_EQ(found[0]["label"], "cat");
  EXPECT_EQ(found[0]["score"], 0.875);
  // 31 x 20 pixels become 25 x 16, of which the model sees 8 x 8 from (8, 4): 9.92 x 10 of the picture from (9.92, 5).
  const std::vector<double> box = found[0]["box"], expected = {12.4, 7.5, 14.88, 12.5};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(box.at(i), expected[i], 1e-9);
  const Image drawn = read_image(path("out.png"));
  EXPECT_EQ(drawn.width, 31u);
  const Result table = quern({"run", "d.qn", "--input", "b.jpg", "--threshold", "0.2"});
  EXPECT_NE(table.out.find("2 objects"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("cat"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("dog"), std::string::npos) << table.out;
}

TEST_F(Command, InfoSaysWhatResultsMean) {
  write_detector(path("plain.qn"));
  spill(dir / "labels.txt", "background\ncat\ndog\n");
  succeeds({"convert", "plain.qn", "-o", "d.qn", "--labels", "labels.txt", "--detections", "rows",
            "--detection-outputs", "found", "--threshold", "0.25"});
  const json results = json::parse(quern({"info", "d.qn", "--json"}).out)["postprocessing"];
  EXPECT_EQ(results["labels"], 3);
  EXPECT_EQ(results["detections"], "rows");
  EXPECT_EQ(results["outputs"], json::array({"found"}));
  EXPECT_EQ(results["threshold"], 0.25);
  EXPECT_NE(quern({"info", "d.qn"}).out.find("results"), std::string::npos);
  EXPECT_FALSE(json::parse(quern({"info", "plain.qn", "--json"}).out).contains("postprocessing"));
}

TEST_F(Command, InfoSaysWhatNeedsTheExtraLibrary) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, 4});
  graph.inputs.push_back({.tensor = x, .type = QN_F32});
  const int y = add_node(graph, OpKind::custom, "norm", {x}, {});
  graph.nodes[0].type = String("identity");
  graph.tensors[at(y)].name = String("y");
  graph.outputs.push_back({.tensor = y, .type = QN_F32});
  check(qn_extra_register());
  check(infer_shapes(graph));
  check(write_model_file(graph, path("extra.qn").c_str()));
  EXPECT_EQ(json::parse(quern({"info", "extra.qn", "--json"}).out)["extra_operators"], json::array({"identity"}));
  const Result r = quern({"info", "extra.qn"});
  EXPECT_NE(r.out.find("libquern-extra, for identity"), std::string::npos) << r.out << r.err;
  EXPECT_EQ(quern({"info", "tiny.qn"}).out.find("libquern-extra"), std::string::npos);
}

TEST_F(Command, DetectionFlagsExplainWhatIsWrong) {
  write_detector(path("d.qn"));
  const auto says = [&](std::vector<std::string> flags, const std::string& message) {
    flags.insert(flags.begin(), {"run", "d.qn", "--input", "a.png"});
    const std::string error = fails(flags);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  says({"--draw", "x.png"}, "the model does not describe detections; pass --detections");
  says({"--threshold", "0.5"}, "the model does not describe detections; pass --detections");
  says({"--detections", "rows", "--detection-outputs", "nonsense"}, "no output \"nonsense\"");
  says({"--detections", "lists"}, "take 4 outputs, but the model has 2");
  says({"--detections", "rows"}, "rows of 7 numbers");
  says({"--detections", "rows", "--detection-outputs", "found", "--draw", "no/such/x.png"}, "no/such/x.png");
  fails({"run", "d.qn", "--input", "a.png", "--detections", "columns"}, 2);
  fails({"run", "d.qn", "--input", "a.png", "--threshold", "1.5"}, 2);
  fails({"run", "d.qn", "--input", "a.png", "b.jpg", "--draw", "x.png"}, 2);
  EXPECT_FALSE(fs::exists(dir / "x.png"));
}

}  // namespace detections_test
}  // namespace quern
