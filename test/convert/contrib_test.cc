// Operators of com.microsoft compute what standard operators do in their place. contrib_ort.py compares them with ONNX Runtime.
#include <gtest/gtest.h>
#include <quern/extra.h>

#include "convert/convert.h"
#include "onnx_model.h"

namespace quern {
namespace contrib_test {

using test::Array;
using test::Dims;
using test::OnnxModel;

class Contrib : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message(); }

  static Graph import(const OnnxModel& model) {
    static const test::Folder folder;
    return import_onnx(folder.write("net.onnx", model.bytes()), {});
  }
};

// A model of inputs x and z [2, 3, 4] and constants g, b [4], w [4, 12] and wb [12]. The output is y.
OnnxModel base(const std::string& output = "y") {
  OnnxModel model(23);
  model.input("x", {2, 3, 4}).input("z", {2, 3, 4}).output(output);
  model.floats("g", test::random({4}, 1)).floats("b", test::random({4}, 2));
  return model.floats("w", test::random({4, 12}, 3)).floats("wb", test::random({12}, 4));
}

OnnxModel with(const std::string& type, const std::vector<std::string>& inputs, const std::string& attributes = "",
               const std::vector<std::string>& outputs = {"y"}) {
  OnnxModel model = base(outputs.back());
  model.node(type, inputs, outputs, attributes);
  onnx::schema::GraphProto& graph = *model.model.mutable_graph();
  graph.mutable_node(graph.node_size() - 1)->set_domain("com.microsoft");
  return model;
}

void expect_same(const Graph& got, const Graph& want) {
  const std::vector<Array> inputs = {test::random({2, 3, 4}, 5), test::random({2, 3, 4}, 6)};
  const std::vector<Array> a = test::run(got, inputs), b = test::run(want, inputs);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) test::expect_near(a[i], b[i]);
}

TEST_F(Contrib, Activations) {
  expect_same(import(with("Gelu", {"x"})), import(base().node("Gelu", {"x"}, {"y"})));
  OnnxModel sum = base();
  sum.node("Add", {"x", "b"}, {"s"});
  expect_same(import(with("BiasGelu", {"x", "b"})), import(OnnxModel(sum).node("Gelu", {"s"}, {"y"})));
  expect_same(import(with("FastGelu", {"x", "b"})),
              import(OnnxModel(sum).node("Gelu", {"s"}, {"y"}, "approximate='tanh'")));
  OnnxModel quick = base();
  quick.scalar("a", 1.5f).node("Mul", {"x", "a"}, {"t"}).node("Sigmoid", {"t"}, {"u"}).node("Mul", {"x", "u"}, {"y"});
  expect_same(import(with("QuickGelu", {"x"}, "alpha=1.5f")), import(quick));
}

TEST_F(Contrib, Normalizations) {
  OnnxModel sum = base();
  sum.node("Add", {"x", "z"}, {"s"});
  const std::string attributes = "axis=-1 epsilon=0.001f";
  expect_same(import(with("SkipLayerNormalization", {"x", "z", "g", "b"}, "epsilon=0.001f")),
              import(OnnxModel(sum).node("LayerNormalization", {"s", "g", "b"}, {"y"}, attributes)));
  expect_same(import(with("SkipSimplifiedLayerNormalization", {"x", "z", "g"}, "epsilon=0.001f")),
              import(OnnxModel(sum).node("RMSNormalization", {"s", "g"}, {"y"}, attributes)));
  expect_same(import(with("SimplifiedLayerNormalization", {"x", "g"}, attributes)),
              import(base().node("RMSNormalization", {"x", "g"}, {"y"}, attributes)));
  expect_same(import(with("SkipLayerNormalization", {"x", "z", "g", "", "b"}, "", {"n", "", "", "y"})),
              import(OnnxModel(sum).node("Add", {"s", "b"}, {"y"})));
}

TEST_F(Contrib, Products) {
  OnnxModel transposed = base();
  transposed.scalar("a", 0.5f).node("Transpose", {"z"}, {"t"}, "perm=[0,2,1]");
  transposed.node("MatMul", {"x", "t"}, {"p"}).node("Mul", {"p", "a"}, {"y"});
  expect_same(import(with("FusedMatMul", {"x", "z"}, "transB=1 alpha=0.5f")), import(transposed));
}

TEST_F(Contrib, Attention) {
  OnnxModel standard = base();
  standard.node("MatMul", {"x", "w"}, {"p"}).node("Add", {"p", "wb"}, {"s"});
  standard.node("Split", {"s"}, {"q", "k", "v"}, "axis=-1 num_outputs=3");
  standard.node("Attention", {"q", "k", "v"}, {"y"}, "q_num_heads=2 kv_num_heads=2 is_causal=1");
  expect_same(import(with("Attention", {"x", "w", "wb"}, "num_heads=2 unidirectional=1")), import(standard));
  expect_same(import(with("MultiHeadAttention", {"x", "z", "z"}, "num_heads=2 scale=0.3f")),
              import(base().node("Attention", {"x", "z", "z"}, {"y"}, "q_num_heads=2 kv_num_heads=2 scale=0.3f")));
}

// What is left out is said by its name.
TEST_F(Contrib, Refusals) {
  const auto refused = [](const OnnxModel& model, const std::string& words) {
    try {
      import(model);
      ADD_FAILURE() << "expected a refusal: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused(with("Attention", {"x", "w", "wb"}, "num_heads=2 do_rotary=1"), "Attention: do_rotary (1 node: y)");
  refused(with("Attention", {"x", "w", "wb", "", "", "", "g"}, "num_heads=2"),
          "Attention: past_sequence_length (1 node: y)");
  refused(with("Attention", {"x", "w", "wb"}, "num_heads=2 qkv_hidden_sizes=[4,4]"),
          "expected 3 qkv_hidden_sizes, got 2");
  refused(with("MultiHeadAttention", {"x", "z", "z", "", "", "", "", "", "", "g"}, "num_heads=2"),
          "MultiHeadAttention: cache_indirection (1 node: y)");
  refused(with("SkipSimplifiedLayerNormalization", {"x", "z", "g"}, "", {"n", "y"}), "statistics");
  refused(with("FusedConv", {"x", "w"}, "activation='Softmax'"), "activation Softmax");
  refused(with("BeamSearch", {"x"}), "BeamSearch: of domain com.microsoft (1 node: y)");
}

}  // namespace contrib_test
}  // namespace quern
