// Nodes with several outputs, which no kind of op.inc has so far.
#include <algorithm>

#include "graph/plan/execution.h"
#include "small_graphs.h"

namespace quern::test {
namespace outputs_test {

// Writes the input, plus 1 for the first output, plus 2 for the second, and so on.
class CountingPlan : public NodePlan {
 public:
  explicit CountingPlan(size_t elements) : elements_(elements) {}
  size_t workspace_size() const override { return 0; }
  PlanInfo info() const override { return {}; }
  qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location&,
                const qn_parallel*) const override {
    EXPECT_EQ(inputs.size(), 1u);
    const auto* x = static_cast<const float*>(address(inputs[0]));
    for (size_t k = 0; k < outputs.size(); ++k) {
      auto* y = static_cast<float*>(address(outputs[k]));
      for (size_t i = 0; i < elements_; ++i) y[i] = x[i] + static_cast<float>(k + 1);
    }
    return QN_OK;
  }

 private:
  size_t elements_;
};

class CountingOperator : public NodeOperator {
 public:
  bool in_place(size_t) const override { return true; }  // which holds for one output only
  bool strided() const override { return false; }
  Layouts layouts() const override { return Layouts::any; }
  double cost(const Graph&, const Node&, const ExecutionOptions&) const override { return 0; }
  qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions&,
                 std::unique_ptr<NodePlan>* plan) const override {
    const qn_tensor tensor = describe(shapes.tensors[static_cast<size_t>(node.inputs[0])]);
    plan->reset(new CountingPlan(qn_tensor_bytes(&tensor) / sizeof(float)));
    return QN_OK;
  }
  qn_status plan_chain(const Graph&, const Node&, const NodeOperator&, const Node&, const ExecutionOptions&,
                       std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }
  qn_status plan_residual(const Graph&, const Node&, const Residual&, const ExecutionOptions&,
                          std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }
};

constexpr size_t elements = 1 * 5 * 4 * 8;

// exp -> counting -> three outputs: one the graph's, one read later, one read by nobody.
Graph three_outputs() {
  GraphBuilder b;
  const int x = b.input("x", {1, 5, 4, 8});
  const int y = b.node(OpKind::clamp, {x}, range(-100, 100));
  const int first = b.node(OpKind::exp, {y});
  const int second = add_tensor(b.graph, String(), QN_F32, {1, 5, 4, 8});
  const int third = add_tensor(b.graph, String(), QN_F32, {1, 5, 4, 8});
  const int clamped = b.node(OpKind::clamp, {first}, range(-1000, 1000));
  b.output(b.node(OpKind::add, {clamped, third}), "sum");
  b.output(first, "first");
  expect_ok(infer_shapes(b.graph));
  b.graph.nodes[1].outputs = {first, second, third};
  return std::move(b.graph);
}

TEST(Outputs, OfANodeAreSeveral) {
  Shared<Model> model = quern::make_shared<Model>();
  model->graph = three_outputs();
  const Graph& graph = model->graph;
  for (const Node& node : graph.nodes) {
    ModelOperator& made = model->operators.emplace_back();
    made.backend = &cpu_backend;
    if (node.outputs.size() > 1) {
      made.op.reset(new CountingOperator);
    } else {
      expect_ok(cpu_backend.create(graph, node, nullptr, &made.op));
    }
  }
  Shared<Execution> execution;
  ASSERT_EQ(Execution::make(model, graph, {}, &execution), QN_OK) << qn_last_message();
  const Buffer arena(execution->arena_bytes());
  std::vector<float> x(elements);
  for (size_t i = 0; i < elements; ++i) x[i] = static_cast<float>(i);
  const Location inputs[] = {{x.data()}};
  const Bound bound[2] = {};
  void* const arenas[max_memories] = {arena.data()};
  std::vector<Location> scratch(execution->most_operands());
  EXPECT_EQ(scratch.size(), 4u);
  const Execution::Buffers buffers = {inputs, bound, arenas, scratch.data()};
  execution->begin(buffers);
  for (size_t i = 0; i < execution->steps().size(); ++i) expect_ok(execution->run(i, buffers, nullptr));
  execution->end(buffers);
  const auto* sum = static_cast<const float*>(execution->output(0, buffers));
  const auto* first = static_cast<const float*>(execution->output(1, buffers));
  for (size_t i = 0; i < elements; ++i) {
    const float clamped = std::min(x[i], 100.0f);
    EXPECT_EQ(first[i], clamped + 1);
    EXPECT_EQ(sum[i], clamped + 1 + clamped + 3);
  }
}

}  // namespace outputs_test
}  // namespace quern::test
