// Models of TensorFlow Lite whose inputs are bytes, and are moved before anything computes with them.
#include <gtest/gtest.h>

#include <limits>

#include "convert/convert.h"
#include "convert/tflite/tflite_generated.h"
#include "graph/pass/passes.h"
#include "tflite_model.h"

namespace quern {
namespace tflite_input_test {

namespace schema = tflite::schema;
using test::TfliteModel;
using Builder = TfliteModel::Builder;
using Type = TfliteModel::Type;

class TfliteInput : public testing::TestWithParam<bool> {  // are the bytes unsigned?
 protected:
  int bytes(TfliteModel& model, int tensor) const { return model.scaled(tensor, {0.5f}, {zero()}); }
  Type type() const { return GetParam() ? Type::uint8 : Type::int8; }
  int64_t zero() const { return GetParam() ? 130 : 2; }
  test::Array stored(const test::Dims& dims, const std::vector<float>& reals) const {
    return test::map(test::make(dims, reals), [&](float v) { return v * 2 + static_cast<float>(zero()); });
  }
  // A list of sounds, as a microphone gives it, that becomes an image.
  TfliteModel reshaped() const {
    TfliteModel model;
    const int x = bytes(model, model.input({1, 6}, type()));
    const int image = bytes(model, model.computed({1, 3, 2}, type()));
    const int sum = bytes(model, model.computed({1, 3, 2}, type()));
    const int shape = model.integers({1, 3, 2});
    model.node(22, {x, shape}, {image}, [](Builder& b) { return schema::CreateReshapeOptions(b); });
    model.node(0, {image, image}, {sum}, [](Builder& b) { return schema::CreateAddOptions(b); });
    model.output(sum);
    return model;
  }
  Graph import(const TfliteModel& model) { return import_tflite(folder_.write("net.tflite", model.bytes()), {}); }
  test::Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(Signs, TfliteInput, testing::Bool(),
                         [](const auto& test) { return test.param ? "uint8" : "int8"; });

TEST_P(TfliteInput, BytesAreReshaped) {
  Graph graph = import(reshaped());
  test::expect_outputs(std::move(graph), {stored({1, 6}, {0, 1, -2, 3.5f, 4, -5})},
                       {stored({1, 3, 2}, {0, 2, -4, 7, 8, -10})}, 0);
  Graph optimized = import(reshaped());
  ASSERT_EQ(optimize(optimized), QN_OK) << qn_last_message();
  for (const Node& node : optimized.nodes) EXPECT_NE(node.kind, OpKind::dequantize);
}

// What is no scale is refused where the bytes are read, not where they enter.
TEST_P(TfliteInput, ScalesThatAreNone) {
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    TfliteModel model = reshaped();
    for (auto& tensor : model.tensors) {
      if (!tensor.scales.empty()) tensor.scales = {scale};
    }
    EXPECT_NE(test::error_of([&] { import(model); }).find("a scale is not a positive number"), std::string::npos);
  }
  TfliteModel model = reshaped();
  for (auto& tensor : model.tensors) {
    if (!tensor.scales.empty()) tensor.zero_points = {int64_t{1} << 40};
  }
  EXPECT_NE(test::error_of([&] { import(model); }).find("a zero point is out of range"), std::string::npos);
}

}  // namespace tflite_input_test
}  // namespace quern
