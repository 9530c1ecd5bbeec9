// Sparse constants of TensorFlow Lite's models.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "tflite_model.h"

namespace quern {
namespace tflite_sparse_test {

using test::Array;
using test::Dims;
using test::TfliteModel;
using Sparsity = TfliteModel::Sparsity;

constexpr int32_t add = 0, densify = 124;

class TfliteSparse : public ::testing::Test {
 protected:
  // x + the constant, which is a sparse one, with x = 0.
  TfliteModel sum(const Dims& dims, const std::vector<float>& stored, const Sparsity& sparsity) {
    TfliteModel model;
    const int x = model.input(dims), c = model.floats({{stored.size()}, stored});
    TfliteModel::Tensor& tensor = model.tensors[static_cast<size_t>(c)];
    tensor.shape.assign(dims.begin(), dims.end());
    tensor.sparsity = sparsity;
    const int dense = model.node(densify, {c}, {model.computed(dims)});
    model.output(model.node(add, {x, dense}, {model.computed(dims)},
                            [](auto& b) { return tflite::schema::CreateAddOptions(b); }));
    return model;
  }

  void expect(const Dims& dims, const std::vector<float>& stored, const Sparsity& sparsity,
              const std::vector<float>& dense) {
    const Graph graph = import_tflite(folder_.write("net.tflite", sum(dims, stored, sparsity).bytes()));
    const Array zeros{dims, std::vector<float>(dense.size())};
    EXPECT_EQ(test::run(graph, {zeros}).at(0).data, dense);
  }

  std::string refusal(const Dims& dims, const std::vector<float>& stored, const Sparsity& sparsity) {
    try {
      import_tflite(folder_.write("net.tflite", sum(dims, stored, sparsity).bytes()));
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  test::Folder folder_;
};

// Rows of a matrix, in indices of each width.
TEST_F(TfliteSparse, Rows) {
  for (const int bits : {8, 16, 32}) {
    expect({3, 4}, {1, 2, 3}, {{0, 1}, {}, {{3}, {4, {0, 2, 2, 3}, {0, 3, 2}, bits}}},
           {1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0});
  }
}

// Columns first: the second dimension is the first level.
TEST_F(TfliteSparse, Columns) {
  expect({3, 4}, {1, 2, 3}, {{1, 0}, {}, {{4}, {3, {0, 1, 1, 3, 3}, {2, 0, 1}}}}, {0, 0, 2, 0, 0, 0, 3, 0, 1, 0, 0, 0});
}

// Blocks of 1 x 2: levels count blocks, and a dense level lies within each.
TEST_F(TfliteSparse, Blocks) {
  expect({2, 6}, {1, 2, 3, 4, 5, 6}, {{0, 1, 2}, {1}, {{2}, {3, {0, 1, 3}, {2, 0, 1}}, {2}}},
         {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0});
}

// Blocks along both dimensions, and empty rows of blocks.
TEST_F(TfliteSparse, BlocksOfTwoDimensions) {
  expect({4, 4}, {1, 2, 3, 4}, {{0, 1, 2, 3}, {0, 1}, {{2}, {2, {0, 0, 1}, {1}}, {2}, {2}}},
         {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4});
}

TEST_F(TfliteSparse, SparseLevelsWithinEachOther) {
  expect({2, 2, 3}, {7, 8}, {{0, 1, 2}, {}, {{2, {0, 1}, {1}}, {2, {0, 2}, {0, 1}}, {3, {0, 1, 2}, {2, 0}}}},
         {0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 0, 0});
}

TEST_F(TfliteSparse, WhatIsWrong) {
  const auto rows = [](std::vector<int32_t> segments, std::vector<int32_t> indices) {
    return Sparsity{{0, 1}, {}, {{2}, {4, std::move(segments), std::move(indices)}}};
  };
  const struct {
    const char* message;
    Sparsity sparsity;
  } faults[] = {
      {"has 0 levels", {}},
      {"has 1 levels", {{0}, {}, {{2}}}},
      {"has 3 levels", {{0, 1, 2}, {}, {{2}, {4}, {1}}}},
      {"has no dimension 2", {{0, 2}, {}, {{2}, {4}}}},
      {"has no dimension -1", {{0, 1, 2}, {-1}, {{2}, {4}, {1}}}},
      {"has a dimension twice", {{0, 0}, {}, {{2}, {2}}}},
      {"blocks in another order", {{0, 1, 3, 2}, {0, 1}, {{2}, {4}, {1}, {1}}}},
      {"does not fit its shape", {{0, 1}, {}, {{3}, {4}}}},
      {"does not fit its shape", {{0, 1}, {}, {{-2}, {4}}}},
      {"blocks do not divide", {{0, 1, 2}, {1}, {{2}, {4}, {3}}}},
      {"blocks do not divide", {{0, 1, 2}, {1}, {{2}, {4}, {0}}}},
      {"sparse blocks", {{0, 1, 2}, {1}, {{2}, {4}, {1, {0, 1}, {0}}}}},
      {"segments", rows({0, 2}, {0, 1})},
      {"segments", rows({1, 1, 2}, {0, 1})},
      {"segments", rows({0, 1, 3}, {0, 1})},
      {"segments", rows({0, 3, 2}, {0, 1})},
      {"is out of range", rows({0, 1, 2}, {0, 4})},
      {"negative index", rows({0, 1, 2}, {0, -1})},
      {"do not ascend", rows({0, 2, 2}, {1, 1})},
      {"stores 2 elements", rows({0, 1, 3}, {0, 0, 1})},
  };
  for (const auto& [message, sparsity] : faults) {
    const std::string text = refusal({2, 4}, {1, 2}, sparsity);
    EXPECT_NE(text.find(message), std::string::npos) << message << ": " << text;
  }
  const Sparsity empty = {{0, 1}, {}, {{1 << 20}, {1 << 20, std::vector<int32_t>((1 << 20) + 1), {}}}};
  EXPECT_NE(refusal({1 << 20, 1 << 20}, {1, 2}, empty).find("far beyond the size"), std::string::npos);
}

}  // namespace tflite_sparse_test
}  // namespace quern
