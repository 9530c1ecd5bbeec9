// Layers that share weights, as the two halves of a siamese net do.
#include <gtest/gtest.h>

#include "caffe_model.h"

namespace quern {
namespace caffe_shared_test {

using test::Array;
using test::make;

class CaffeShared : public test::CaffeNets {
 protected:
  static std::string net(const std::string& first, const std::string& second) {
    const auto layer = [](const std::string& suffix, const std::string& names) {
      return "layer { name: \"fc" + suffix + "\" type: \"InnerProduct\" bottom: \"x" + suffix + "\" top: \"y" + suffix +
             "\" " + names + " inner_product_param { num_output: 1 } }\n";
    };
    const std::string input = "input_shape { dim: 1 dim: 2 }\n";
    return "input: \"x\" " + input + "input: \"x_p\" " + input + layer("", first) + layer("_p", second);
  }
  const std::vector<Array> blobs_ = {make({1, 2}, {1, 10}), make({1}, {100})};
  const std::vector<Array> inputs_ = {make({1, 2}, {1, 2}), make({1, 2}, {3, 4})};
};

const char *const names = "param { name: \"w\" } param { name: \"b\" }",
                  *const others = "param { name: \"w\" } param { name: \"c\" }";

TEST_F(CaffeShared, WeightsThatTheFileHasOnce) {
  for (const char* owner : {"fc", "fc_p"}) {
    test::expect_outputs(import(net(names, names), {{owner, blobs_}}), inputs_,
                         {make({1, 1}, {121}), make({1, 1}, {143})}, 1e-6f);
  }
}

TEST_F(CaffeShared, OwnWeightsGoFirst) {
  const std::vector<Array> own = {make({1, 2}, {1, 1}), make({1}, {0})};
  test::expect_outputs(import(net(names, names), {{"fc", blobs_}, {"fc_p", own}}), inputs_,
                       {make({1, 1}, {121}), make({1, 1}, {7})}, 1e-6f);
}

TEST_F(CaffeShared, OtherNamesShareNothing) {
  for (const char* second : {others, "param { name: \"w\" } param { lr_mult: 2 }", ""}) {
    EXPECT_NE(refusal(net(names, second), {{"fc", blobs_}}).find("layer 'fc_p': the .caffemodel has no weights for it"),
              std::string::npos);
  }
}

}  // namespace caffe_shared_test
}  // namespace quern
