// Models of TensorFlow Lite as its converter writes them of networks of open batch: sizes follow from SHAPE or are -1.
// They run with another batch than that of the file.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "convert/tflite/tflite_generated.h"
#include "tflite_model.h"

namespace quern {
namespace tflite_open_test {

namespace schema = tflite::schema;
using schema::Activation;
using schema::Padding;
using test::make;
using test::TfliteModel;
using Builder = TfliteModel::Builder;
using Type = TfliteModel::Type;

class TfliteOpen : public testing::Test {
 protected:
  // An input whose first dimension is open.
  int input(std::vector<size_t> dims, Type type = Type::float32) {
    const int x = model_.input(dims, type);
    std::vector<int32_t>& signature = model_.tensors[static_cast<size_t>(x)].signature;
    signature.assign(dims.begin(), dims.end());
    signature[0] = -1;
    return x;
  }
  int floats(const test::Dims& dims) { return model_.computed(dims); }
  int integers(const test::Dims& dims) { return model_.computed(dims, Type::int32); }
  int gather(int x, int indices, int to) {
    return model_.node(36, {x, indices}, {to}, [](Builder& b) { return schema::CreateGatherOptions(b); });
  }
  int reshape(int x, int shape, int to) {
    return model_.node(22, {x, shape}, {to}, [](Builder& b) { return schema::CreateReshapeOptions(b); });
  }
  int mean(int x, int to) {
    const int axes = model_.integers({1});
    return model_.node(40, {x, axes}, {to}, [](Builder& b) { return schema::CreateReducerOptions(b, false); });
  }
  void expect(const std::vector<test::Array>& inputs, const test::Array& want) {
    const Graph graph = import_tflite(folder_.write("net.tflite", model_.bytes()), {});
    test::expect_outputs(graph, inputs, {want}, 1e-5f);
  }

  TfliteModel model_;
  test::Folder folder_;
};

// Words become vectors, whose mean says what the text is about.
TEST_F(TfliteOpen, MeanOfAnEmbedding) {
  const int words = input({1, 2}, Type::int32), table = model_.floats(make({3, 2}, {1, 2, 3, 4, 5, 6}));
  model_.output(mean(gather(table, words, floats({1, 2, 2})), floats({1, 2})));
  expect({make({3, 2}, {0, 1, 1, 2, 2, 2})}, make({3, 2}, {2, 3, 4, 5, 5, 6}));
}

TEST_F(TfliteOpen, RangeToASize) {
  const int x = input({1, 2}), shape = model_.node(77, {x}, {integers({2})});
  const int size = gather(shape, model_.integer(0), integers({}));
  const int numbers = model_.node(96, {model_.integer(1), size, model_.integer(2)}, {integers({1})});
  model_.output(model_.node(53, {numbers}, {floats({1})}));
  expect({make({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, make({2}, {1, 3}));
}

// Signals are cut into frames as tf.signal.frame does it: the shape is split, frames are counted, the rest is left out.
TEST_F(TfliteOpen, Frames) {
  const auto join = [](Builder& b) { return schema::CreateConcatenationOptions(b, 0); };
  const int x = input({1, 5}), shape = model_.node(77, {x}, {integers({2})}), two = model_.integer(2);
  const int batch = integers({1}), length = integers({1}), none = model_.computed({0}, Type::int32);
  model_.node(102, {shape, model_.integers({1, 1, 0}), model_.integer(0)}, {batch, length, none});  // SPLIT_V
  const int size = reshape(length, model_.computed({0}, Type::int32), integers({}));
  const int frames = model_.node(90, {size, two}, {integers({})});                                       // FLOOR_DIV
  const int used = model_.node(18, {model_.node(55, {frames, model_.integer(0)}, {integers({})}), two},  // MAXIMUM
                               {integers({})}, [](Builder& b) { return schema::CreateMulOptions(b); });
  const int end = model_.node(2, {batch, reshape(used, model_.integers({1}), integers({1}))}, {integers({2})}, join);
  const int cut = model_.node(45, {x, model_.integers({0, 0}), end, model_.integers({1, 1})}, {floats({1, 4})},
                              [](Builder& b) { return schema::CreateStridedSliceOptions(b); });
  const int sizes =
      model_.node(83, {frames, two}, {integers({2})}, [](Builder& b) { return schema::CreatePackOptions(b, 2, 0); });
  model_.output(reshape(cut, model_.node(2, {batch, sizes}, {integers({3})}, join), floats({1, 2, 2})));
  expect({make({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})}, make({2, 2, 2}, {1, 2, 3, 4, 6, 7, 8, 9}));
  expect({make({1, 5}, {1, 2, 3, 4, 5})}, make({1, 2, 2}, {1, 2, 3, 4}));
}

// A dense layer on each vector of a sequence: all become rows of a matrix, as many as the product of two sizes.
TEST_F(TfliteOpen, DenseOnEachVector) {
  const int x = input({1, 2, 2}), shape = model_.node(77, {x}, {integers({3})});
  const int outer = gather(shape, model_.integers({0, 1}), integers({2}));
  const int axes = model_.integers({0});
  const auto keeps_none = [](Builder& b) { return schema::CreateReducerOptions(b, false); };
  const int rows = model_.node(81, {outer, axes}, {integers({})}, keeps_none);
  const int depth =
      model_.node(81, {gather(shape, model_.integers({2}), integers({1})), axes}, {integers({})}, keeps_none);
  const int matrix =
      model_.node(83, {rows, depth}, {integers({2})}, [](Builder& b) { return schema::CreatePackOptions(b, 2, 0); });
  const int weights = model_.floats(make({1, 2}, {1, 10}));
  const int y = model_.node(9, {reshape(x, matrix, floats({2, 2})), weights, -1}, {floats({2, 1})},
                            [](Builder& b) { return schema::CreateFullyConnectedOptions(b); });
  const int sizes = model_.node(2, {outer, model_.integers({1})}, {integers({3})},
                                [](Builder& b) { return schema::CreateConcatenationOptions(b, 0); });
  model_.output(reshape(y, sizes, floats({1, 2, 1})));
  expect({make({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, make({2, 2, 1}, {21, 43, 65, 87}));
}

// The batch of a transposed convolution's output is that of the input.
TEST_F(TfliteOpen, TransposedConvolution) {
  const int x = input({1, 1, 2, 1}), shape = model_.node(77, {x}, {integers({4})});
  const int batch =
      model_.node(45, {shape, model_.integers({0}), model_.integers({1}), model_.integers({1})}, {integers({})},
                  [](Builder& b) { return schema::CreateStridedSliceOptions(b, 0, 0, 0, 0, 1); });
  const int size = model_.node(83, {batch, model_.integer(1), model_.integer(4), model_.integer(1)}, {integers({4})},
                               [](Builder& b) { return schema::CreatePackOptions(b, 4, 0); });
  const int weights = model_.floats(make({1, 1, 2, 1}, {1, 10}));
  model_.output(model_.node(67, {size, weights, x}, {floats({1, 1, 4, 1})},
                            [](Builder& b) { return schema::CreateTransposeConvOptions(b, Padding::valid, 2, 1); }));
  expect({make({2, 1, 2, 1}, {1, 2, 3, 4})}, make({2, 1, 4, 1}, {1, 10, 2, 20, 3, 30, 4, 40}));
}

// Padding SAME, and an output that is the input times the stride: height and width are open as well.
TEST_F(TfliteOpen, TransposedConvolutionOfAnImageOfAnySize) {
  const int x = input({1, 1, 2, 1}), shape = model_.node(77, {x}, {integers({4})});
  model_.tensors[0].signature = {-1, -1, -1, 1};
  const int factors = model_.integers({1, 2, 2, 1});
  const int size =
      model_.node(18, {shape, factors}, {integers({4})}, [](Builder& b) { return schema::CreateMulOptions(b); });
  const int weights = model_.floats(make({1, 2, 2, 1}, {1, 10, 100, 1000}));
  model_.output(model_.node(67, {size, weights, x}, {floats({1, 2, 4, 1})},
                            [](Builder& b) { return schema::CreateTransposeConvOptions(b, Padding::same, 2, 2); }));
  expect({make({1, 1, 2, 1}, {1, 2})}, make({1, 2, 4, 1}, {1, 10, 2, 20, 100, 1000, 200, 2000}));
  expect({make({2, 2, 1, 1}, {1, 2, 3, 4})},
         make({2, 4, 2, 1}, {1, 10, 100, 1000, 2, 20, 200, 2000, 3, 30, 300, 3000, 4, 40, 400, 4000}));
}

// A picture is made twice and three times as large, by sizes that follow from its own.
TEST_F(TfliteOpen, ResizesAnImageOfAnySize) {
  const int x = input({1, 1, 1, 1}), shape = model_.node(77, {x}, {integers({4})});
  model_.tensors[0].signature = {1, -1, -1, 1};
  const int sizes = model_.node(65, {shape, model_.integers({1}), model_.integers({2})}, {integers({2})});
  const int size = model_.node(18, {sizes, model_.integers({2, 3})}, {integers({2})},
                               [](Builder& b) { return schema::CreateMulOptions(b); });
  model_.output(model_.node(97, {x, size}, {floats({1, 2, 3, 1})},
                            [](Builder& b) { return schema::CreateResizeNearestNeighborOptions(b, false, true); }));
  expect({make({1, 1, 2, 1}, {1, 2})}, make({1, 2, 6, 1}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
}

// A dilated convolution along time, of which the converter makes one on every second step.
TEST_F(TfliteOpen, DilatedConvolutionOfASequence) {
  const int x = input({1, 4, 1}), block = model_.integers({2});
  const int pads = model_.steps(Type::int32, {1, 2}, {2, 0}), crops = model_.steps(Type::int32, {1, 2}, {0, 0});
  const int divided = model_.node(38, {x, block, pads}, {floats({2, 3, 1})});
  const int image = model_.node(70, {divided, model_.integer(1)}, {floats({2, 1, 3, 1})});
  const int weights = model_.floats(make({1, 1, 2, 1}, {1, 10})), bias = model_.floats(make({1}, {0}));
  const int y = model_.node(3, {image, weights, bias}, {floats({2, 1, 2, 1})}, [](Builder& b) {
    return schema::CreateConv2DOptions(b, Padding::valid, 1, 1, Activation::none, 1, 1);
  });
  const int sequence = reshape(y, model_.integers({-1, 2, 1}), floats({2, 2, 1}));
  model_.output(mean(model_.node(37, {sequence, block, crops}, {floats({1, 4, 1})}), floats({1, 1})));
  expect({make({2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8})},
         make({2, 1}, {(10 + 20 + 31 + 42) / 4.f, (50 + 60 + 75 + 86) / 4.f}));
}

}  // namespace tflite_open_test
}  // namespace quern
