// Kinds for which ONNX has no operator: exported as several, and imported again, they give the same outputs.
#include <gtest/gtest.h>
#include <quern/extra.h>

#include <algorithm>
#include <limits>

#include "arrays.h"
#include "convert/convert.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace export_parts_test {

using test::Array;
using test::Dims;
using test::random;

// A node of a kind. Inputs are arrays of floats, then constant integers.
struct OneKind {
  const char* kind;
  std::vector<Array> inputs;
  Vector<Parameter> parameters;
  std::vector<qn_type> outputs = {QN_F32};
  std::vector<Vector<int64_t>> integers = {};  // an empty one stands for an input that is not there
  std::vector<Array> behind = {};              // inputs behind these
};

Graph graph_of(const OneKind& one) {
  Graph graph;
  graph.source = "test";
  Vector<int> inputs;
  const auto add_input = [&](const Array& array) {
    const std::string name = "x" + std::to_string(graph.inputs.size());
    inputs.push_back(add_tensor(graph, name.c_str(), QN_F32, Vector<size_t>(array.dims.begin(), array.dims.end())));
    graph.inputs.push_back({.tensor = inputs.back()});
  };
  for (const Array& array : one.inputs) add_input(array);
  for (const Vector<int64_t>& list : one.integers) {
    inputs.push_back(list.empty() ? no_tensor : add_constant(graph, "", QN_S64, {list.size()}, list.data()));
  }
  for (const Array& array : one.behind) add_input(array);
  Node node = {OpKind::custom, "node", std::move(inputs), {}, {}};
  node.type = one.kind;
  node.parameters = one.parameters;
  for (size_t i = 0; i < one.outputs.size(); ++i) {
    node.outputs.push_back(add_tensor(graph, ("y" + std::to_string(i)).c_str(), one.outputs[i], {}));
    graph.outputs.push_back({.tensor = node.outputs.back(), .type = one.outputs[i]});
  }
  graph.nodes.push_back(std::move(node));
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  return graph;
}

class ExportParts : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message(); }

  // Returns what the graph gives.
  std::vector<Array> expect_same(const OneKind& one) {
    const Graph graph = graph_of(one);
    std::vector<Array> inputs = one.inputs;
    inputs.insert(inputs.end(), one.behind.begin(), one.behind.end());
    export_onnx(graph, folder_.path("net.onnx"));
    const std::vector<Array> want = test::run(graph, inputs),
                             got = test::run(import_onnx(folder_.path("net.onnx")), inputs);
    EXPECT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) test::expect_near(got.at(i), want[i]);
    return want;
  }
  std::string refused(const OneKind& one) {
    return test::error_of([&] { export_onnx(graph_of(one), folder_.path("net.onnx")); });
  }

  test::Folder folder_;
};

size_t others_than_0(const Array& x) {
  return static_cast<size_t>(std::count_if(x.data.begin(), x.data.end(), [](float value) { return value != 0; }));
}

TEST_F(ExportParts, SymmetricPads) {
  const Array x = random({2, 3, 4}, 1), value = test::make({1}, {0});
  const Vector<Parameter> symmetric = {{"mode", {4}, {}}};
  for (const Vector<int64_t>& pads : std::vector<Vector<int64_t>>{{0, 2, 1, 0, 3, 2},   // as far as there are elements
                                                                  {0, 7, 0, 5, 0, 13},  // several times to and fro
                                                                  {-1, 2, -2, 3, -1, 3}}) {
    expect_same({"pad_by", {x}, symmetric, {QN_F32}, {pads}});
  }
  expect_same({"pad_by", {x}, symmetric, {QN_F32}, {{2, 1, 3, 4}, {}, {2, 0}}});
  const std::vector<Array> padded =
      expect_same({"pad_by", {test::make({3}, {1, 2, 3})}, symmetric, {QN_F32}, {{2, 4}}});
  EXPECT_EQ(padded.at(0).data, (std::vector<float>{2, 1, 1, 2, 3, 3, 2, 1, 1}));
}

TEST_F(ExportParts, AveragesOfRegionsByPlace) {
  const Array images = random({2, 12, 7, 9}, 1);
  // Halves, regions that reach beyond the image, lie outside, and have no size.
  const Array regions = test::make(
      {5, 5}, {0, 1, 2, 6, 5, 1, 0.5f, 2.5f, 12.5f, 9.5f, 1, -6, -8, 5, 30, 0, 90, 90, 99, 99, 1, 4, 4, 3, 3});
  for (const float scale : {1.0f, 0.5f, 0.0625f}) {
    const std::vector<Array> found =
        expect_same({"roi_average_by_place", {images, regions}, {{"size", {2, 3}, {}}, {"scale", {}, {scale}}}});
    EXPECT_EQ(found.at(0).dims, (Dims{5, 2, 2, 3}));
    EXPECT_GT(others_than_0(found.at(0)), 20u);
  }
}

// Regions that lie within the image, beyond it, backwards, on pixels and between them (halves for `nearest`), on one
// point, and nowhere.
TEST_F(ExportParts, RegionsCutOutAndResized) {
  const Array images = random({2, 3, 5, 9}, 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array regions =
      test::make({6, 4}, {0,    0,    1,     1,    0.125f, 0.0625f, 0.625f, 0.9f, -0.5f, 0.25f, 0.75f, 1.5f,
                          0.9f, 0.8f, 0.25f, 0.1f, 0.5f,   0.5f,    0.5f,   0.5f, nan,   0,     1,     1});
  for (const Vector<int64_t>& size : std::vector<Vector<int64_t>>{{4, 5}, {1, 3}, {9, 1}}) {
    for (const int64_t nearest : {0, 1}) {
      const Array found = expect_same({"crop_and_resize",
                                       {images, regions},
                                       {{"size", size, {}}, {"nearest", {nearest}, {}}, {"extrapolation", {}, {-7}}},
                                       {QN_F32},
                                       {{1, 0, 1, 0, 1, 0}}})
                              .at(0);
      EXPECT_EQ(found.dims, (Dims{6, 3, static_cast<size_t>(size[0]), static_cast<size_t>(size[1])}));
      EXPECT_GT(std::count(found.data.begin(), found.data.end(), -7), 3 * size[0] * size[1]);
      EXPECT_LT(std::count(found.data.begin(), found.data.end(), -7), 9 * size[0] * size[1]);
    }
  }
  const Array one_pixel = random({1, 2, 1, 1}, 2), all = test::make({1, 4}, {0, 0, 1, 1});
  expect_same({"crop_and_resize", {one_pixel, all}, {{"size", {2, 2}, {}}}, {QN_F32}, {{0}}});
}

// All that an LSTM can have, in each of its directions.
TEST_F(ExportParts, LstmsOfLimitedCells) {
  const size_t steps = 5, batch = 2, depth = 3, hidden = 4;
  for (const int64_t direction : {0, 1, 2}) {
    for (const bool batch_first : {false, true}) {
      const size_t directions = direction == 2 ? 2 : 1;
      const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
      OneKind lstm = {
          "lstm",
          {random(batch_first ? Dims{batch, steps, depth} : Dims{steps, batch, depth}, 1),
           random({directions, 4 * hidden, depth}, 2), random({directions, 4 * hidden, hidden}, 3),
           random({directions, 8 * hidden}, 4)},
          {{"cell_clip", {}, {0.1f}}, {"direction", {direction}, {}}, {"layout", {batch_first ? 1 : 0}, {}}},
          {QN_F32, QN_F32, QN_F32}};
      const Array limited = expect_same(lstm).at(2);
      EXPECT_EQ(*std::max_element(limited.data.begin(), limited.data.end()), 0.1f);
      lstm.integers = {{5, 3}};
      lstm.behind = {random(state, 5), random(state, 6), random({directions, 3 * hidden}, 7)};
      lstm.parameters.push_back({"clip", {}, {0.5f}});
      expect_same(lstm);
      lstm.parameters.push_back({"input_forget", {1}, {}});
      Vector<int64_t> functions = {3, 6, 7};  // affine, scaled tanh, hard sigmoid
      Vector<float> alpha = {0.5f, 0.75f, 0.25f}, beta = {0.125f, 1.5f, 0.5f};
      if (directions == 2) {
        functions = {3, 6, 7, 8, 9, 10};
        alpha = {0.5f, 0.75f, 0.25f, 0.5f, 0, 0};
        beta = {0.125f, 1.5f, 0.5f, 0, 0, 0};
      }
      lstm.parameters.push_back({"activations", functions, {}});
      lstm.parameters.push_back({"alpha", {}, alpha});
      lstm.parameters.push_back({"beta", {}, beta});
      expect_same(lstm);
    }
  }
}

// Boxes of which neighbours overlap.
Array boxes_in_a_row(size_t count) {
  return test::generate({count, 4}, [](const Dims& i) {
    const float at = 0.3f * static_cast<float>(i[0]);
    return i[1] < 2 ? at : at + 1;
  });
}

TEST_F(ExportParts, SuppressedBoxes) {
  const Array boxes = boxes_in_a_row(12), scores = test::map(random({12}, 1), [](float x) { return std::abs(x); });
  const auto one = [](float value) { return test::make({}, {value}); };
  for (const int64_t wanted : {3, 20}) {
    for (const float sigma : {0.0f, 0.5f}) {
      for (const int64_t above : {0, 1}) {
        const std::vector<Array> kept = expect_same({"suppress_boxes",
                                                     {boxes, scores},
                                                     {{"most", {8}, {}}, {"above", {above}, {}}},
                                                     {QN_S32, QN_F32, QN_S32},
                                                     {{wanted}},
                                                     {one(0.4f), one(0.1f), one(sigma)}});
        EXPECT_EQ(kept.at(2).data.at(0), static_cast<float>(others_than_0(kept.at(1))));
        EXPECT_GE(kept.at(2).data.at(0), 3);
      }
    }
  }
  EXPECT_EQ(refused({"suppress_boxes",
                     {boxes, scores},
                     {{"most", {0}, {}}},
                     {QN_S32, QN_F32, QN_S32},
                     {{1}},
                     {one(0.4f), one(0.1f)}}),
            "ONNX cannot express: suppress_boxes: that keeps none (1 node: node)");
}

TEST_F(ExportParts, DetectionsOfAnchors) {
  const size_t boxes = 10;
  const Array changes = random({2, boxes, 4}, 1),
              scores = test::map(random({2, boxes, 4}, 2), [](float x) { return std::abs(x); });
  Array anchors =
      test::generate({boxes, 4}, [](const Dims& i) { return i[1] < 2 ? 0.4f * static_cast<float>(i[0]) : 1; });
  anchors.at({3, 2}) = -1;  // a height below 0: such a box overlaps nothing
  for (const int64_t by_class : {0, 1}) {
    for (const int64_t most : {4, 50}) {
      const std::vector<Array> found = expect_same({"anchor_detections",
                                                    {changes, scores, anchors},
                                                    {{"scales", {}, {10, 10, 5, 5}},
                                                     {"classes", {3}, {}},
                                                     {"most", {most}, {}},
                                                     {"classes_of_each", {by_class == 1 ? 1 : 2}, {}},
                                                     {"most_of_class", {3}, {}},
                                                     {"by_class", {by_class}, {}},
                                                     {"threshold", {}, {0.2f}},
                                                     {"overlap", {}, {0.3f}}},
                                                    {QN_F32, QN_F32, QN_F32, QN_F32}});
      EXPECT_GE(found.at(3).data.at(0), 4);
      EXPECT_GT(others_than_0(found.at(1)), 2u);
    }
  }
}

}  // namespace export_parts_test
}  // namespace quern
