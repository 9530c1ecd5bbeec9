// Passes that recognize functions of libquern-extra in what exporters make of them.
#include <gtest/gtest.h>
#include <quern/extra.h>

#include <cstdlib>
#include <sstream>

#include "convert/convert.h"
#include "graph/pass/passes.h"
#include "onnx_model.h"

namespace quern {
namespace recognize_test {

using test::Array;
using test::Dims;
using test::OnnxModel;

// An ONNX model in a few words. A line is a node, "y = Mul x 0.5 attribute=1"; numbers are constants. Outputs are named in
// the last line.
class Text {
 public:
  explicit Text(int64_t opset = 13) : model_(opset) {}

  Text& input(const std::string& name, const Dims& dims) {
    model_.input(name, dims);
    inputs_.push_back(test::random(dims, static_cast<uint32_t>(inputs_.size() + 1)));
    for (float& x : inputs_.back().data) x *= 3;
    return *this;
  }
  Text& constant(const std::string& name, const Array& array) {
    model_.floats(name, array);
    return *this;
  }
  Text& integers(const std::string& name, const std::vector<int64_t>& values) {
    model_.integers(name, values);
    return *this;
  }
  Text& nodes(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) add(line);
    return *this;
  }
  Text& output(const std::string& name) {
    model_.output(name);
    return *this;
  }

  // Sizes of the first input for which results are compared, too, where the model takes them.
  Text& sizes(const std::vector<Dims>& others) {
    others_ = others;
    return *this;
  }

  // Optimizes the model, compares results, and expects nodes of these kinds.
  void expect(const std::string& kinds) {
    static const test::Folder folder;
    const Graph before = import_onnx(folder.write("net.onnx", model_.bytes()), {});
    Graph after = before;
    ASSERT_EQ(optimize(after), QN_OK) << qn_last_message();
    std::string got;
    for (const Node& node : after.nodes) got += (got.empty() ? "" : " ") + std::string(kind_name(node));
    EXPECT_EQ(got, kinds);
    compare(test::run(before, inputs_), test::run(after, inputs_));
    for (const Dims& dims : others_) {
      SCOPED_TRACE(testing::PrintToString(dims));
      std::vector<Array> inputs = inputs_, want;
      inputs[0] = test::random(dims, 9);
      try {
        want = test::run(before, inputs);
      } catch (const Error&) {
        continue;
      }
      compare(want, test::run(after, inputs));
    }
  }

 private:
  static void compare(const std::vector<Array>& want, const std::vector<Array>& have) {
    ASSERT_EQ(have.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) test::expect_near(have[i], want[i]);
  }

  void add(const std::string& line) {
    std::istringstream words(line);
    std::string output, equals, type, attributes;
    std::vector<std::string> inputs;
    if (!(words >> output >> equals >> type)) return;
    for (std::string word; words >> word;) {
      char* end;
      const float number = std::strtof(word.c_str(), &end);
      if (word.find('=') != std::string::npos) {
        attributes += word + " ";
        continue;
      }
      if (*end == 0) model_.scalar(word = line + "#" + word, number);
      inputs.push_back(word);
    }
    model_.node(type, inputs, {output}, attributes);
  }

  OnnxModel model_;
  std::vector<Array> inputs_;
  std::vector<Dims> others_;
};

class Recognize : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message(); }
};

// ---- gelu

Text gelu_of(const std::string& nodes) { return Text().input("x", {2, 3, 4}).nodes(nodes).output("y"); }

TEST_F(Recognize, GeluWithErf) {
  gelu_of("a = Div x 1.41421356\n b = Erf a\n c = Add b 1\n d = Mul x c\n y = Mul d 0.5").expect("gelu");
  gelu_of("a = Mul x 0.70710678\n b = Erf a\n c = Add 1 b\n h = Mul 0.5 x\n y = Mul c h").expect("gelu");
  gelu_of("a = Mul x 0.70710678\n b = Erf a\n c = Add b 1\n h = Mul c 0.5\n y = Mul h x").expect("gelu");
  gelu_of("h = Mul x 0.5\n a = Div x 1.41421356\n b = Erf a\n c = Mul h b\n y = Add c h").expect("gelu");
}

// What follows is left; so is what comes before.
TEST_F(Recognize, GeluAmongOthers) {
  gelu_of("x2 = Exp x\n a = Div x2 1.41421356\n b = Erf a\n c = Add b 1\n d = Mul x2 c\n e = Mul d 0.5\n y = Mul e 3")
      .expect("exp gelu power");
}

TEST_F(Recognize, GeluWithTanh) {
  const std::string erf = "e = Erf x\n";  // without it the graph would need no kinds of libquern-extra
  const std::string power = "p = Pow x 3\n q = Mul p 0.044715\n s = Add x q\n";
  const std::string tail = "t = Mul s 0.7978845608\n u = Tanh t\n v = Add u 1\n w = Mul x v\n y = Mul w 0.5";
  gelu_of(erf + power + tail).output("e").expect("erf gelu_tanh");
  gelu_of(erf + "p = Mul x x\n p3 = Mul p x\n q = Mul p3 0.044715\n s = Add q x\n" + tail)
      .output("e")
      .expect("erf gelu_tanh");
  gelu_of(erf + "p = Mul x x\n q = Mul p 0.044715\n r = Add q 1\n s = Mul x r\n" + tail)
      .output("e")
      .expect("erf gelu_tanh");
  gelu_of(power + tail).expect("power power add power tanh power mul power");
}

TEST_F(Recognize, NoGeluOfOtherConstants) {
  gelu_of("a = Div x 1.4142\n b = Erf a\n c = Add b 1\n d = Mul x c\n y = Mul d 0.5").expect("div erf power mul power");
  gelu_of("a = Div x 1.41421356\n b = Erf a\n c = Add b 1.001\n d = Mul x c\n y = Mul d 0.5")
      .expect("div erf power mul power");
  gelu_of("a = Div x 1.41421356\n b = Erf a\n c = Sub 1 b\n d = Mul x c\n y = Mul d 0.5")
      .expect("div erf sub mul power");
  gelu_of(
      "e = Erf x\n p = Pow x 3\n q = Mul p 0.0447\n s = Add x q\n t = Mul s 0.7978845608\n u = Tanh t\n"
      "v = Add u 1\n w = Mul x v\n y = Mul w 0.5")
      .output("e")
      .expect("erf power power add power tanh power mul power");
}

TEST_F(Recognize, NoGeluWhereOthersReadItsParts) {
  const char* const nodes = "a = Div x 1.41421356\n b = Erf a\n c = Add b 1\n d = Mul x c\n y = Mul d 0.5";
  gelu_of(nodes).output("b").expect("div erf power mul power");
  gelu_of(std::string(nodes) + "\n z = Neg a").output("z").expect("div erf power mul power power");
  Text()
      .input("x", {2, 3})
      .input("z", {2, 3})
      .nodes("a = Div x 1.41421356\n b = Erf a\n c = Add b 1\n d = Mul z c\n y = Mul d 0.5")
      .output("y")
      .expect("div erf power mul power");
}

// ---- layer_norm, rms_norm

const std::string variance =
    "m = ReduceMean x axes=[-1]\n d = Sub x m\n p = Pow d 2\n v = ReduceMean p axes=[-1]\n"
    "w = Add v 0.01\n";
const std::string root = variance + "s = Sqrt w\n", normalized = root + "n = Div d s\n";
// "erf" and "e" are in these models because graphs that need no kinds of libquern-extra stay without them.
Text norm_of(const std::string& nodes, const Dims& dims = {2, 3, 8}) {
  return Text()
      .input("x", dims)
      .constant("gamma", test::random({dims.back()}, 11))
      .constant("beta", test::random({dims.back()}, 12))
      .nodes("e = Erf x\n" + nodes)
      .output("e")
      .output("y");
}

TEST_F(Recognize, LayerNorm) {
  for (const Dims& dims : {Dims{2, 3, 8}, Dims{5, 8}, Dims{2, 3, 4, 8}}) {
    SCOPED_TRACE(dims.size());
    norm_of(normalized + "g = Mul n gamma\n y = Add g beta", dims).expect("erf layer_norm");
    norm_of(root + "y = Div d s", dims).expect("erf layer_norm");
    norm_of(root + "i = Reciprocal s\n n = Mul d i\n y = Mul gamma n", dims).expect("erf layer_norm");
    norm_of(variance + "i = Pow w -0.5\n n = Mul d i\n g = Mul n gamma\n y = Sub g beta", dims)
        .expect("erf layer_norm");
  }
  norm_of(
      "m = ReduceMean x axes=[2]\n d = Sub x m\n p = Mul d d\n v = ReduceMean p axes=[2]\n w = Add v 0.01\n"
      "s = Sqrt w\n y = Div d s")
      .expect("erf layer_norm");
}

// TensorFlow's order: x * (gamma / root) + (beta - mean * (gamma / root)).
TEST_F(Recognize, LayerNormOfTensorFlow) {
  const std::string factor = variance + "s = Sqrt w\n i = Reciprocal s\n f = Mul i gamma\n a = Mul x f\n b = Mul m f\n";
  norm_of(factor + "c = Sub beta b\n y = Add a c").expect("erf layer_norm");
  norm_of(factor + "y = Sub a b").expect("erf layer_norm");
}

TEST_F(Recognize, RmsNorm) {
  const std::string squares = "p = Pow x 2\n v = ReduceMean p axes=[-1]\n w = Add v 0.01\n s = Sqrt w\n";
  norm_of(squares + "n = Div x s\n y = Mul n gamma").expect("erf rms_norm");
  norm_of(squares + "i = Div 1 s\n n = Mul x i\n y = Mul gamma n").expect("erf rms_norm");
  norm_of(squares + "n = Div x s\n g = Mul n gamma\n y = Add g beta").expect("erf rms_norm scale");
}

TEST_F(Recognize, NormsAmongOthers) {
  norm_of(
      "u = Exp x\n e1 = Erf u\n m = ReduceMean u axes=[-1]\n d = Sub u m\n p = Pow d 2\n v = ReduceMean p axes=[-1]\n"
      "w = Add v 0.01\n s = Sqrt w\n n = Div d s\n g = Mul n gamma\n h = Add g u\n y = Add h e1")
      .expect("erf exp erf layer_norm add add");
}

constexpr const char* first_mean = "reshape global_average_pool reshape ";

TEST_F(Recognize, NoNormOverOtherDimensions) {
  const std::string means = first_mean;
  norm_of(
      "m = ReduceMean x axes=[1]\n d = Sub x m\n p = Pow d 2\n v = ReduceMean p axes=[1]\n w = Add v 0.01\n"
      "s = Sqrt w\n y = Div d s")
      .expect("erf " + means + "sub power " + means + "power power div");
  norm_of(
      "m = ReduceMean x axes=[-1]\n d = Sub x m\n p = Pow d 2\n v = ReduceMean p axes=[1,2]\n w = Add v 0.01\n"
      "s = Sqrt w\n y = Div d s")
      .expect("erf " + means + "sub power " + means + "power power div");
}

TEST_F(Recognize, NoNormOfOtherParts) {
  const std::string means = first_mean, sum = "erf " + means + "sub power " + means;
  norm_of(
      "m = ReduceMean x axes=[-1]\n d = Sub x m\n p = Pow d 3\n v = ReduceMean p axes=[-1]\n w = Add v 9999\n"
      "s = Sqrt w\n y = Div d s")
      .expect(sum + "power power div");
  norm_of(variance + "s = Sqrt w\n y = Div e s").expect(sum + "power power div");
  norm_of(variance + "s = Sqrt w\n a = Mul d 2\n y = Div a s").expect("erf layer_norm");
  norm_of(variance + "y = Div d w").expect(sum + "power div");
  norm_of(root + "n = Div d s\n y = Add n x").expect("erf layer_norm add");
}

TEST_F(Recognize, NoNormWhereOthersReadItsParts) {
  const std::string means = first_mean;
  for (const char* part : {"m", "d", "v"}) {
    SCOPED_TRACE(part);
    norm_of(normalized + "y = Mul n gamma")
        .output(part)
        .expect("erf " + means + "sub power " + means + "power power div scale");
  }
  norm_of(normalized + "y = Mul n gamma").output("n").expect("erf layer_norm scale");
}

// ---- attention

// Heads of 3 inputs [2, rows, 8]: q and v [2, 4, rows, 2], k [2, 4, 2, rows].
const std::string heads =
    "q1 = Reshape x split\n q = Transpose q1 perm=[0,2,1,3]\n k1 = Reshape z split\n"
    "k = Transpose k1 perm=[0,2,3,1]\n v1 = Reshape u split\n v = Transpose v1 perm=[0,2,1,3]\n";
const std::string joined = "o1 = Transpose o perm=[0,2,1,3]\n y = Reshape o1 join\n";
Text attention_of(const std::string& nodes) {
  return Text()
      .input("x", {2, 5, 8})
      .input("z", {2, 6, 8})
      .input("u", {2, 6, 8})
      .integers("split", {0, 0, 4, 2})
      .integers("join", {0, 0, 8})
      .nodes(nodes)
      .output("y");
}

TEST_F(Recognize, Attention) {
  attention_of(heads + "s = MatMul q k\n c = Div s 1.5\n p = Softmax c axis=-1\n o = MatMul p v\n" + joined)
      .expect("attention");
  attention_of(heads + "s = MatMul q k\n p = Softmax s axis=3\n o = MatMul p v\n" + joined).expect("attention");
  attention_of(heads + "s = MatMul q k\n p = Softmax s axis=-1\n y = MatMul p v\n")
      .expect("reshape reshape reshape transpose transpose transpose attention");
}

TEST_F(Recognize, AttentionWithMask) {
  const std::string tail = "p = Softmax t axis=-1\n o = MatMul p v\n" + joined;
  for (const Dims& dims : {Dims{5, 6}, Dims{2, 1, 1, 6}, Dims{2, 4, 5, 6}}) {
    // The mask gets dimensions of one element before the others.
    const std::string kinds = dims.size() == 4 ? "attention" : "reshape attention";
    attention_of(heads + "s = MatMul q k\n c = Mul 0.5 s\n t = Add c mask\n" + tail).input("mask", dims).expect(kinds);
    attention_of(heads + "s = MatMul q k\n t = Add mask s\n" + tail)
        .constant("mask", test::random(dims, 4))
        .expect("attention");
  }
}

// Rows of one head, and a product of k that only exchanges its last dimensions.
TEST_F(Recognize, AttentionOfOneHead) {
  attention_of(
      "k = Transpose z perm=[0,2,1]\n s = MatMul x k\n c = Mul s 0.25\n p = Softmax c axis=-1\n y = MatMul p u")
      .expect("attention");
}

TEST_F(Recognize, NoAttentionOfOtherParts) {
  const std::string moved = "reshape reshape reshape transpose transpose matmul ";
  const std::string back = "softmax transpose matmul transpose reshape";
  const std::string end = "o = MatMul p v\n" + joined;
  attention_of(heads + "s = MatMul q k\n p = Softmax s axis=2\n" + end).expect(moved + back);
  attention_of(heads + "s = MatMul q k\n c = Add s 2\n d = Tanh c\n p = Softmax d axis=-1\n" + end)
      .expect(moved + "power tanh " + back);
  attention_of(heads + "s = MatMul q k\n c = Add s mask\n d = Mul c 0.5\n p = Softmax d axis=-1\n" + end)
      .input("mask", {5, 6})
      .expect(moved + "reshape add power " + back);
  attention_of(heads + "s = MatMul q k\n c = Add s mask\n p = Softmax c axis=-1\n" + end)
      .input("mask", {5, 1})
      .expect(moved + "reshape add " + back);
}

// Products broadcast a constant over a larger batch.
TEST_F(Recognize, NoAttentionOfConstants) {
  for (const char* part : {"q", "v"}) {
    SCOPED_TRACE(part);
    const bool constant_q = *part == 'q';
    Text()
        .input("x", {1, 5, 8})
        .sizes({{2, 5, 8}})
        .constant("c", test::random({1, 5, 8}, 4))
        .nodes(std::string("k = Transpose x perm=[0,2,1]\n s = MatMul ") + (constant_q ? "c" : "x") +
               " k\n p = Softmax s axis=-1\n y = MatMul p " + (constant_q ? "x" : "c"))
        .output("y")
        .expect("transpose matmul softmax matmul");
  }
}

TEST_F(Recognize, NoAttentionWhereOthersReadItsParts) {
  const std::string end = "o = MatMul p v\n" + joined;
  attention_of(heads + "s = MatMul q k\n p = Softmax s axis=-1\n" + end)
      .output("p")
      .expect("reshape reshape reshape transpose transpose matmul softmax transpose matmul transpose reshape");
  attention_of(heads + "s = MatMul q k\n p = Softmax s axis=-1\n" + end)
      .output("k")
      .expect("reshape reshape reshape transpose transpose matmul softmax transpose matmul transpose reshape");
  attention_of(heads + "s = MatMul q k\n p = Softmax s axis=-1\n" + end)
      .output("o")
      .expect("reshape reshape reshape transpose transpose transpose attention transpose reshape");
}

// Attention of the heads of x, in rows of 8 numbers as they are or as a layer makes them. `tail` may make "w" of its
// result.
Text joined_of(const std::vector<int64_t>& split, const std::vector<int64_t>& join, bool layer,
               const std::string& tail = "") {
  Text text;
  text.input("x", {1, 5, 8}).integers("split", split).integers("join", join);
  text.sizes({{2, 5, 8}, {1, 3, 8}, {1, 10, 8}, {3, 2, 8}, {1, 5, 16}, {2, 5, 4}});
  text.constant("weights", test::random({8, 8}, 5)).constant("keys", test::random({8, 8}, 6));
  const std::string input = layer ? "x0 = MatMul x weights\n z0 = MatMul x keys\n" : "x0 = Tanh x\n z0 = Exp x\n";
  return text
      .nodes(input +
             "q1 = Reshape x0 split\n q = Transpose q1 perm=[0,2,1,3]\n k1 = Reshape z0 split\n"
             "k = Transpose k1 perm=[0,2,3,1]\n v = Transpose q1 perm=[0,2,1,3]\n s = MatMul q k\n"
             "p = Softmax s axis=-1\n o = MatMul p v\n" +
             joined + tail)
      .output(tail.empty() ? "y" : "w");
}

TEST_F(Recognize, HeadsJoinIfAllSizesAgree) {
  const std::string layers = "fully_connected fully_connected attention";
  joined_of({0, 0, 4, 2}, {0, 0, 8}, false).expect("tanh exp attention");
  joined_of({0, 0, 4, -1}, {0, 0, -1}, false).expect("tanh exp attention");
  joined_of({0, 0, -1, 2}, {0, 0, -1}, true).expect(layers);
  joined_of({0, -1, 4, 2}, {0, -1, 8}, true).expect(layers);
  joined_of({-1, 0, 4, 2}, {-1, 0, 8}, true).expect(layers);
  joined_of({0, 5, 4, 2}, {0, 5, 8}, true).expect(layers);
  joined_of({-1, 0, 4, 2}, {1, 5, 8}, true).expect(layers);
  joined_of({1, 5, 4, 2}, {1, 5, 8}, true).expect(layers);
  joined_of({1, 5, -1, 2}, {1, 5, 8}, true).expect(layers);
  joined_of({1, 5, -1, 2}, {1, 5, -1}, true, "w = MatMul y weights").expect(layers + " fully_connected");
}

// With another batch, number of rows or size of rows, the nodes would give other results than attention over rows.
TEST_F(Recognize, HeadsStayIfSomeSizeDiffers) {
  const std::string layers = "fully_connected fully_connected ", others = "tanh exp ";
  const std::string stays = "reshape reshape transpose transpose attention transpose reshape";
  for (const bool layer : {false, true}) {
    SCOPED_TRACE(layer);
    const std::string kinds = (layer ? layers : others) + stays;
    joined_of({1, -1, 4, 2}, {1, -1, 8}, layer).expect(kinds);
    joined_of({-1, 5, 4, 2}, {-1, 5, 8}, layer).expect(kinds);
    joined_of({0, 5, -1, 2}, {0, 0, 8}, layer).expect(kinds);
    joined_of({1, 5, -1, 2}, {1, 5, -1}, layer).expect(kinds);
    joined_of({1, 5, -1, 2}, {1, 5, -1}, layer, "w = Tanh y").expect(kinds + " tanh");
    joined_of({0, 0, 4, 2}, {1, -1, 8}, layer).expect(kinds);
    joined_of({0, 0, 4, 2}, {0, 5, -1}, layer).expect(kinds);
  }
  joined_of({0, 0, -1, 2}, {0, 0, -1}, false).expect(others + stays);
  joined_of({0, -1, 4, 2}, {0, -1, 8}, false).expect(others + stays);
  joined_of({0, 0, 4, 2}, {0, -1, 8}, false).expect(others + stays);
  joined_of({1, 5, 4, 2}, {1, 5, 8}, false).expect(others + stays);
}

// ---- transposes around registered kinds

Text moved_of(const std::string& nodes) {
  return Text()
      .input("x", {1, 4, 5, 3})
      .input("z", {1, 4, 5, 3})
      .nodes("t = Transpose x perm=[0,3,1,2]\n u = Transpose z perm=[0,3,1,2]\n" + nodes +
             "y = Transpose w perm=[0,2,3,1]")
      .output("y");
}

TEST_F(Recognize, TransposesMoveBehindRegisteredKinds) {
  moved_of("w = Erf t\n").expect("erf");
  moved_of("a = Erf t\n b = Mish u\n c = Mul a b\n w = Elu c\n").expect("erf mish mul elu");
  moved_of("a = Erf t\n w = PRelu a slope\n").constant("slope", test::random({3, 1, 1}, 4)).expect("erf prelu");
  moved_of("a = Max t u line\n w = Erf a\n").constant("line", test::random({1, 1, 1, 5}, 4)).expect("max erf");
  moved_of("a = Erf t\n w = Concat a u axis=1\n").expect("erf concat");
  moved_of("w = ReduceL1 t axes=[1,-1]\n").expect("reduce_l1");
}

TEST_F(Recognize, TransposesStayBeforeOtherKinds) {
  moved_of("w = CumSum t axis\n").integers("axis", {1}).expect("transpose cumulative_sum transpose");
  moved_of("w = Max t plane\n").constant("plane", test::random({4, 5}, 4)).expect("transpose max transpose");
}

// ---- a product and a sum become a fully connected layer

Text product_of(const Dims& x, const Array& bias) {
  return Text()
      .input("x", x)
      .constant("weights", test::random({8, 4}, 5))
      .constant("bias", bias)
      .nodes("p = MatMul x weights\n y = Add bias p")
      .output("y");
}

TEST_F(Recognize, BiasOfProducts) {
  for (const Dims& x : {Dims{3, 8}, Dims{2, 3, 8}, Dims{2, 5, 3, 8}}) {
    SCOPED_TRACE(x.size());
    for (const Dims& bias : {Dims{4}, Dims{1, 4}, Dims{}, Dims{1}}) {
      product_of(x, test::random(bias, 6)).expect("fully_connected");
    }
  }
}

// A bias for each row, or one that makes the result larger.
TEST_F(Recognize, NoBiasOfOtherShapes) {
  product_of({3, 8}, test::random({3, 1}, 6)).expect("fully_connected add");
  product_of({3, 8}, test::random({3, 4}, 6)).expect("fully_connected add");
  product_of({1, 8}, test::random({3, 4}, 6)).expect("fully_connected add");
  product_of({2, 4, 8}, test::random({2, 1, 4}, 6)).expect("fully_connected add");
  product_of({2, 4, 8}, test::random({4, 1}, 6)).expect("fully_connected add");
}

// Add and Div become one step, unless the result reaches an operator that jumps, directly or through others that move
// elements or compute each from its own inputs.
TEST_F(Recognize, NothingIsMergedBeforeAJump) {
  const auto steps = [](const std::string& behind) {
    return Text().input("x", {2, 3}).integers("one", {1}).nodes("a = Add x 1\nb = Div a 41\n" + behind).output("y");
  };
  steps("y = Tanh b").expect("power tanh");
  steps("y = TopK b one").expect("power top_k");
  steps("y = Floor b").expect("power div floor");
  steps("y = Ceil b").expect("power div ceil");
  steps("y = Round b").expect("power div round");
  steps("y = Sign b").expect("power div sign");
  steps("y = Cast b to=6").expect("power div cast");
  steps("y = Mod b 0.01 fmod=1").expect("power div mod");
  steps("g = Greater b 0.5\ny = Cast g to=1").expect("power div greater cast");
  steps("t = Transpose b\nu = Tanh t\ny = Floor u").expect("power div tanh floor transpose");
  steps("g = Gather b one\ny = Floor g").expect("power div slice floor");
  // A sum over several elements ends the search.
  steps("s = ReduceSum b\ny = Floor s").expect("power reduce_sum floor");
}

}  // namespace recognize_test
}  // namespace quern
