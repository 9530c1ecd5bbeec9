// Normalizations.
#include "near.h"

namespace quern::test {
namespace normalization_test {

struct Moments {
  double mean, variance;
};
Moments moments_of(const std::vector<double>& x) {
  Moments m = {0, 0};
  for (const double value : x) m.mean += value / static_cast<double>(x.size());
  for (const double value : x) m.variance += (value - m.mean) * (value - m.mean) / static_cast<double>(x.size());
  return m;
}

TEST(ExtraNormalization, Batch) {
  const Elements scale = floats({2}, {1, 2}), bias = floats({2}, {0.5, -1}), mean = floats({2}, {1, 3});
  const Elements variance = floats({2}, {3, 8});
  for (const std::vector<size_t>& shape : {std::vector<size_t>{1, 2}, {1, 2, 1}, {1, 2, 1, 1}}) {
    expect_near({"batch_norm_computed",
                 {floats(shape, {3, 9}), scale, bias, mean, variance},
                 {floats(shape, {1.5, 3})},
                 {numbers("epsilon", {1})}});
  }
  const Elements one = floats({1}, {2});
  expect_near({"batch_norm_computed",
               {floats({2}, {1, 4}), one, one, one, floats({1}, {3})},
               {floats({2}, {1, 4})},
               {numbers("epsilon", {1})}});
}

TEST(ExtraNormalization, Groups) {
  const size_t batch = 2, channels = 6, pixels = 5;
  const Elements x = random_floats({batch, channels, pixels}, 1);
  for (const size_t groups : {size_t{1}, size_t{2}, size_t{3}, size_t{6}}) {
    for (const bool by_group : {false, true}) {
      const size_t parameters = by_group ? groups : channels, part = channels / groups * pixels;
      const Elements scale = random_floats({parameters}, 2), bias = random_floats({parameters}, 3);
      Elements y = x;
      for (size_t i = 0; i < y.values.size(); i += part) {
        const Moments m = moments_of(
            {x.values.begin() + static_cast<ptrdiff_t>(i), x.values.begin() + static_cast<ptrdiff_t>(i + part)});
        for (size_t k = i; k < i + part; ++k) {
          const size_t c = k / pixels % channels, at = by_group ? c / (channels / groups) : c;
          y.values[k] = (x.values[k] - m.mean) / std::sqrt(m.variance + 0.125) * scale.values[at] + bias.values[at];
        }
      }
      std::vector<Parameter> all = {numbers("epsilon", {0.125f}), integers("scale_groups", {by_group})};
      if (groups != channels || by_group) all.push_back(integers("groups", {static_cast<int64_t>(groups)}));
      expect_near({"group_norm", {x, scale, bias}, {y}, all});
    }
  }
}

// Rows that are longer than what sums are split into, and have a rest; and scales that are longer than a row.
TEST(ExtraNormalization, LongRowsAndScales) {
  for (const std::vector<size_t>& shape : {std::vector<size_t>{3, 67}, {300, 128}, {1, 20000}}) {
    for (const bool longer : {false, true}) {
      const Elements x = random_floats(shape, 1);
      const Elements scale = random_floats(longer ? shape : std::vector<size_t>{shape[1]}, 2), bias = scale;
      Elements y = x, rms = x;
      for (size_t i = 0; i < x.values.size(); i += shape[1]) {
        const Moments m = moments_of(
            {x.values.begin() + static_cast<ptrdiff_t>(i), x.values.begin() + static_cast<ptrdiff_t>(i + shape[1])});
        for (size_t k = i; k < i + shape[1]; ++k) {
          const double s = scale.values[longer ? k : k - i];
          y.values[k] = (x.values[k] - m.mean) / std::sqrt(m.variance + 1e-5) * s + s;
          rms.values[k] = x.values[k] / std::sqrt(m.variance + m.mean * m.mean + 1e-5) * s;
        }
      }
      expect_near({"layer_norm", {x, scale, bias}, {y}});
      expect_near({"rms_norm", {x, scale}, {rms}});
    }
  }
}

TEST(ExtraNormalization, RowsWithoutElements) {
  const Elements x = floats({2, 0}, {}), scale = floats({0}, {});
  std::vector<Elements> outputs;
  ASSERT_EQ(NodeModel({"layer_norm", {x, scale}, {x, floats({2, 1}, {}), floats({2, 1}, {})}}, 1).run(&outputs), "");
  ASSERT_EQ(outputs[1].values.size(), 2u);
  EXPECT_TRUE(std::isnan(outputs[1].values[1])) << "there is no mean";
}

TEST(ExtraNormalization, Layers) {
  const std::vector<size_t> shape = {2, 3, 4};
  const Elements x = random_floats(shape, 1);
  for (const int64_t axis : {0, 1, 2, -1}) {
    const size_t first = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
    std::vector<size_t> outer = shape, inner(shape.begin() + static_cast<ptrdiff_t>(first), shape.end());
    std::fill(outer.begin() + static_cast<ptrdiff_t>(first), outer.end(), 1);
    const size_t part = size_of(inner);
    const Elements scale = random_floats(inner, 2), bias = random_floats({4}, 3);
    Elements y = x, rms = x, mean = floats(outer, {}), inverse = floats(outer, {});
    for (size_t i = 0; i < x.values.size(); i += part) {
      const Moments m = moments_of(
          {x.values.begin() + static_cast<ptrdiff_t>(i), x.values.begin() + static_cast<ptrdiff_t>(i + part)});
      mean.values.push_back(m.mean);
      inverse.values.push_back(1 / std::sqrt(m.variance + 0.5));
      for (size_t k = i; k < i + part; ++k) {
        y.values[k] = (x.values[k] - m.mean) * inverse.values.back() * scale.values[k - i] + bias.values[k % 4];
        rms.values[k] = x.values[k] / std::sqrt(m.variance + m.mean * m.mean + 0.5) * scale.values[k - i];
      }
    }
    const std::vector<Parameter> parameters = {integers("axis", {axis}), numbers("epsilon", {0.5f})};
    expect_near({"layer_norm", {x, scale, bias}, {y, mean, inverse}, parameters});
    expect_near({"rms_norm", {x, scale}, {rms}, parameters});
  }
}

TEST(ExtraNormalization, AxesAndNorms) {
  const Elements x = floats({1, 2, 2}, {1, 3, 5, 9});
  expect_near({"mean_variance_norm", {x}, {floats({1, 2, 2}, {-1, 1, -1, 1})}, {integers("axes", {0, 2})}});
  expect_near({"mean_variance_norm", {x}, {floats({1, 2, 2}, {-1, -1, 1, 1})}, {integers("axes", {-2})}});
  const Elements y = floats({2, 2}, {3, -4, 4, 0});
  expect_near({"lp_norm", {y}, {floats({2, 2}, {0.6, -0.8, 1, 0})}});
  expect_near({"lp_norm", {y}, {floats({2, 2}, {0.6, -1, 0.8, 0})}, {integers("axis", {0})}});
  expect_near(
      {"lp_norm", {y}, {floats({2, 2}, {3.0 / 7, -1, 4.0 / 7, 0})}, {integers("axis", {0}), integers("p", {1})}});
  expect_near({"lp_norm", {floats({2, 2}, {3, -4, 0, 0})}, {floats({2, 2}, {0.6, -0.8, 0, 0})}});
  expect_near({"global_lp_pool", {floats({1, 2, 2}, {3, -4, 4, 0})}, {floats({1, 2, 1}, {5, 4})}});
  expect_near(
      {"global_lp_pool", {floats({1, 2, 2}, {3, -4, 4, 0})}, {floats({1, 2, 1}, {7, 4})}, {integers("p", {1})}});
  expect_near({"global_lp_pool", {floats({1, 1, 3}, {3, 4, -5})}, {floats({1, 1, 1}, {6})}, {integers("p", {3})}});
}

TEST(ExtraNormalization, Refusals) {
  const Elements x = random_floats({2, 4, 3}), four = random_floats({4}), y = floats({}, {});
  const auto refused = [&](const char* kind, std::vector<Elements> inputs, std::vector<Parameter> parameters,
                           const char* why) {
    expect_refused({kind, std::move(inputs), {y}, std::move(parameters)}, why);
  };
  refused("batch_norm_computed", {x, four, four, four, random_floats({3})}, {}, "input 4 is [3], not [4]");
  refused("batch_norm_computed", {x, four, four, four, list({1, 1, 1, 1})}, {}, "input 4 is s64, not f32");
  refused("group_norm", {x, four, four}, {integers("groups", {3})}, "3 groups of 4 channels");
  refused("group_norm", {x, four, four}, {integers("groups", {0})}, "0 groups of 4 channels");
  refused("group_norm", {x, four, four}, {integers("groups", {2}), integers("scale_groups", {1})},
          "input 1 is [4], not [2]");
  refused("group_norm", {four, four, four}, {}, "an input of rank 1");
  refused("layer_norm", {x, four}, {}, "do not broadcast");
  refused("layer_norm", {x, random_floats({1, 2, 4, 3})}, {}, "does not broadcast to what is normalized");
  refused("layer_norm", {x, random_floats({3})}, {integers("axis", {3})}, "axis 3 of a tensor of rank 3");
  refused("mean_variance_norm", {x}, {integers("axes", {1, -2})}, "an axis is given twice");
  refused("lp_norm", {x}, {integers("p", {0})}, "a norm of order 0");
  refused("global_lp_pool", {four}, {}, "an input of rank 1");
}

}  // namespace normalization_test
}  // namespace quern::test
