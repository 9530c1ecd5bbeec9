// Nodes whose results are compared with those of plain loops of doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "run_node.h"

namespace quern::test {

inline size_t size_of(const std::vector<size_t>& shape) {
  size_t n = 1;
  for (const size_t d : shape) n *= d;
  return n;
}

inline Elements floats(std::vector<size_t> shape, std::vector<double> values) {
  return {QN_F32, std::move(shape), std::move(values)};
}
// Numbers of -1 .. 1 that a float holds exactly, always the same ones for a seed.
inline Elements random_floats(std::vector<size_t> shape, unsigned seed = 1) {
  std::minstd_rand random(seed);
  std::vector<double> values(size_of(shape));
  for (double& value : values) value = static_cast<double>(static_cast<int>(random() % 257) - 128) / 128;
  return floats(std::move(shape), std::move(values));
}
inline Parameter numbers(const char* name, Vector<float> values) { return {name, {}, std::move(values)}; }

// Runs the node with inputs that are all computed, then with all but the first constant. Floats may differ from the
// expected ones by `tolerance`, absolute and relative.
inline void expect_near(const NodeCase& node, double tolerance = 1e-5) {
  for (const size_t computed : {node.inputs.size(), size_t{1}}) {
    SCOPED_TRACE(std::string(node.kind) + ", " + std::to_string(computed) + " inputs are computed");
    std::vector<Elements> outputs;
    ASSERT_EQ(NodeModel(node, computed).run(&outputs), "");
    ASSERT_EQ(outputs.size(), node.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_EQ(outputs[i].shape, node.outputs[i].shape) << "output " << i;
      for (size_t k = 0; k < outputs[i].values.size(); ++k) {
        const double expected = node.outputs[i].values[k];
        ASSERT_NEAR(outputs[i].values[k], expected, tolerance * std::max(1.0, std::fabs(expected)))
            << "output " << i << ", element " << k;
      }
    }
  }
}

}  // namespace quern::test
