// Constants of TensorFlow Lite that are stored without most of their zeros.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "convert/tflite/tflite_generated.h"
#include "tflite_model.h"

namespace quern {
namespace {

namespace schema = tflite::schema;
using test::make;
using test::TfliteModel;
using Level = TfliteModel::Level;
using Sparsity = TfliteModel::Sparsity;

class TfliteSparse : public testing::Test {
 protected:
  // Adds a constant of which the file has only some elements.
  static TfliteModel model_of(const test::Dims& dims, const std::vector<float>& stored, const Sparsity& sparsity,
                              bool densify = false) {
    TfliteModel model;
    const int x = model.input(dims);
    int w = model.floats(make({stored.size()}, stored));
    model.tensors[static_cast<size_t>(w)].shape.assign(dims.begin(), dims.end());
    model.tensors[static_cast<size_t>(w)].sparsity = sparsity;
    if (densify) w = model.node(124, {w}, {model.computed(dims)});
    model.output(model.node(0, {x, w}, {model.computed(dims)},
                            [](TfliteModel::Builder& b) { return schema::CreateAddOptions(b); }));
    return model;
  }
  Graph import(const TfliteModel& model) { return import_tflite(folder_.write("net.tflite", model.bytes()), {}); }
  std::string refusal(const Sparsity& sparsity, const std::vector<float>& stored = {1, 2, 3}) {
    return test::error_of([&] { import(model_of({2, 4}, stored, sparsity)); });
  }
  void expect(const TfliteModel& model, const test::Array& want) {
    test::expect_outputs(import(model), {make(want.dims, std::vector<float>(want.data.size(), 0))}, {want}, 0);
  }
  test::Folder folder_;
};

// Rows, of which each lists its columns.
Sparsity rows() { return {{0, 1}, {}, {{false, 2}, {true, 0, {0, 2, 3}, {1, 3, 0}}}}; }

TEST_F(TfliteSparse, Rows) {
  for (const bool densify : {false, true}) {
    expect(model_of({2, 4}, {1, 2, 3}, rows(), densify), make({2, 4}, {0, 1, 0, 2, 3, 0, 0, 0}));
  }
}

TEST_F(TfliteSparse, Columns) {
  const Sparsity columns = {{1, 0}, {}, {{false, 4}, {true, 0, {0, 1, 2, 2, 3}, {1, 0, 0}}}};
  expect(model_of({2, 4}, {1, 2, 3}, columns), make({2, 4}, {0, 2, 0, 3, 1, 0, 0, 0}));
}

// Two columns are a block, as converters make them.
TEST_F(TfliteSparse, Blocks) {
  const Sparsity blocks = {{0, 1, 2}, {1}, {{false, 2}, {true, 0, {0, 1, 2}, {1, 0}}, {false, 2}}};
  expect(model_of({2, 4}, {1, 2, 3, 4}, blocks), make({2, 4}, {0, 0, 1, 2, 3, 4, 0, 0}));
  const Sparsity both = {{0, 1, 2, 3}, {0, 1}, {{false, 1}, {true, 0, {0, 1}, {1}}, {false, 2}, {false, 2}}};
  expect(model_of({2, 4}, {1, 2, 3, 4}, both), make({2, 4}, {0, 0, 1, 2, 0, 0, 3, 4}));
}

// A damaged file is refused, and never read behind its lists.
TEST_F(TfliteSparse, DamagedLists) {
  struct Row {
    const char* message;
    void (*damage)(Sparsity& s);
  };
  const Row table[] = {
      {"not one level for each dimension", [](Sparsity& s) { s.order.pop_back(); }},
      {"not one level for each dimension", [](Sparsity& s) { s.levels.pop_back(); }},
      {"are no permutation",
       [](Sparsity& s) {
         s.order = {0, 0};
       }},
      {"are no permutation",
       [](Sparsity& s) {
         s.order = {-1, 0};
       }},
      {"another size than its dimension", [](Sparsity& s) { s.levels[0].size = 1000000; }},
      {"another size than its dimension", [](Sparsity& s) { s.levels[0].size = -1; }},
      {"lacks segments",
       [](Sparsity& s) {
         s.levels[1].segments = {0, 2};
       }},
      {"lacks segments", [](Sparsity& s) { s.levels[1].segments = {}; }},
      {"a segment of a sparse constant is out of range",
       [](Sparsity& s) {
         s.levels[1].segments = {0, 2, 9};
       }},
      {"a segment of a sparse constant is out of range",
       [](Sparsity& s) {
         s.levels[1].segments = {2, 0, 3};
       }},
      {"an index of a sparse constant is out of range",
       [](Sparsity& s) {
         s.levels[1].places = {1, 4, 0};
       }},
      {"do not ascend",
       [](Sparsity& s) {
         s.levels[1].places = {1, 1, 0};
       }},
  };
  for (const Row& row : table) {
    Sparsity damaged = rows();
    row.damage(damaged);
    EXPECT_NE(refusal(damaged).find(row.message), std::string::npos) << row.message << ": " << refusal(damaged);
  }
  EXPECT_NE(refusal(rows(), {1, 2}).find("does not have its tensor's size"), std::string::npos);
  for (const int32_t size : {0, 3, -2}) {
    const Sparsity blocks = {{0, 1, 2}, {1}, {{false, 2}, {true, 0, {0, 1, 2}, {1, 0}}, {false, size}}};
    EXPECT_NE(refusal(blocks).find("the blocks of a sparse constant do not divide it"), std::string::npos);
  }
  const Sparsity elsewhere = {{0, 1, 2}, {7}, {{false, 2}, {true, 0, {0, 1, 2}, {1, 0}}, {false, 2}}};
  EXPECT_NE(refusal(elsewhere).find("the blocks of a sparse constant do not divide it"), std::string::npos);
}

// A few bytes say that there are billions of zeros.
TEST_F(TfliteSparse, HugeOnes) {
  const Sparsity huge = {{0, 1}, {}, {{false, 1 << 20}, {true, 0, {0, 0}, {}}}};
  const TfliteModel model = model_of({1 << 20, 1 << 12}, {1}, huge);
  EXPECT_NE(test::error_of([&] { import(model); }).find("far beyond the size of the file"), std::string::npos);
}

}  // namespace
}  // namespace quern
