// Writes what the tests work with: FOLDER/mobilenet_v1.qn, the list of what it needs, an input for it;
// the same as a model of bytes, FOLDER/mobilenet_v1_qs8.qn and its list; FOLDER/recurrent.qn and its list, a model of
// kinds of libquern-extra; FOLDER/plain_kinds.needs, a list of the kinds that call no operator of libquern;
// FOLDER/other.qn, a model with an operator that is not on MobileNet's list; and models of a few small layers to run out
// of memory with: FOLDER/few.qn with operators of MobileNet alone, FOLDER/few_qs8.qn of bytes, FOLDER/more.qn with other
// operators, FOLDER/one.qn to be tuned.
#include <quern/extra.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "compress/quantize.h"
#include "convert/needs.h"
#include "convert/zoo/zoo.h"
#include "extra/node.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

void check(qn_status status) {
  if (status != QN_OK) throw Error(qn_last_message());
}

Graph other_model() {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {1, 4, 4, 2});
  Attributes pool;
  pool.kernel = pool.stride = {2, 2};
  const int y = add_node(graph, OpKind::max_pool, "shrink", {x}, pool);
  graph.tensors[static_cast<size_t>(y)].name = "y";
  graph.inputs = {{x}};
  graph.outputs = {{y}};
  check(check_graph(graph));
  check(infer_shapes(graph));
  return graph;
}

// A chain of layers of one image.
class Chain {
 public:
  Chain() { graph_.inputs = {{x_ = add_tensor(graph_, "x", QN_F32, {1, 16, 16, 3})}}; }

  // Every `step`-th weight is not zero.
  Chain& conv(size_t out, size_t in, size_t kernel, size_t groups, size_t step = 1) {
    std::vector<float> weights(out * kernel * kernel * in);
    for (size_t i = 0; i < weights.size(); i += step) weights[i] = 0.01f * static_cast<float>(1 + i % 7);
    Attributes a;
    a.kernel = {kernel, kernel};
    a.groups = groups;
    a.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    const int w = add_constant(graph_, "", QN_F32, {out, kernel, kernel, in}, weights.data());
    return node(OpKind::conv2d, {x_, w}, a);
  }
  Chain& node(OpKind kind, Vector<int> inputs, const Attributes& attributes = {}) {
    const auto number = std::to_string(graph_.nodes.size());
    x_ = add_node(graph_, kind, String(number), std::move(inputs), attributes);
    return *this;
  }
  int last() const { return x_; }
  Graph done() {
    graph_.tensors[static_cast<size_t>(x_)].name = "y";
    graph_.outputs = {{x_}};
    check(check_graph(graph_));
    check(infer_shapes(graph_));
    check(optimize(graph_));
    return std::move(graph_);
  }

 private:
  Graph graph_;
  int x_;
};

Graph few_layers() {
  Chain c;
  c.conv(16, 3, 3, 1).conv(16, 1, 3, 16).conv(32, 16, 1, 1);
  return c.node(OpKind::global_average_pool, {c.last()}).done();
}

Graph more_layers() {
  Chain c;
  const int first = c.conv(32, 3, 3, 1).last();
  const int sparse = c.conv(32, 1, 3, 32).conv(32, 32, 1, 1, 11).last();
  c.node(OpKind::add, {first, sparse}).conv(32, 32, 3, 1);
  Attributes pool, axis;
  pool.kernel = pool.stride = {2, 2};
  axis.axis = 3;
  const int small = c.node(OpKind::max_pool, {c.last()}, pool).last();
  c.node(OpKind::sigmoid, {small})
      .node(OpKind::concat, {small, c.last()}, axis)
      .node(OpKind::softmax, {c.last()}, axis);
  return c.done();
}

// Adds a node of a registered kind whose other inputs are constants.
int add_registered(Graph& graph, const char* kind, int input, const std::vector<Vector<size_t>>& constants = {}) {
  Vector<int> inputs = {input};
  for (const Vector<size_t>& shape : constants) {
    size_t count = 1;
    for (const size_t size : shape) count *= size;
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = 0.1f * static_cast<float>(i * 7 % 11) - 0.5f;
    inputs.push_back(add_constant(graph, "", QN_F32, shape, values.data()));
  }
  const int output = add_node(graph, OpKind::custom, kind, inputs, {}, 1);
  graph.nodes.back().type = kind;
  return output;
}

// A sequence of 6 steps of 8 features, a layer of 16 cells, a product, a function.
Graph recurrent() {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {6, 1, 8});
  int y = add_registered(graph, "lstm", x, {{1, 64, 8}, {1, 64, 16}});
  y = add_registered(graph, "matmul", y, {{16, 5}});
  y = add_registered(graph, "erf", y);
  graph.tensors[static_cast<size_t>(y)].name = "y";
  graph.inputs = {{x}};
  graph.outputs = {{y}};
  check(check_graph(graph));
  check(infer_shapes(graph));
  return graph;
}

// What all kinds need that do without op.h.
std::string needs_of_plain_kinds() {
  std::string all;
  for (const qn_kind& kind : extra::all_kinds()) {
    Graph graph;
    add_registered(graph, kind.name, add_tensor(graph, "x", QN_F32, {1}));
    const std::string needs = needs_of(graph);
    if (needs.find("api op") == std::string::npos) all += needs;
  }
  return all;
}

// Each tensor gets the same range, as good as any for weights of no meaning.
Graph quantized(Graph graph) {
  Vector<Range> ranges(tensors_to_observe(graph).size());
  for (Range& range : ranges) range = {-4, 4};
  check(quantize(graph, ranges));
  return graph;
}

void write_with_needs(const Graph& graph, const std::string& path) {
  check(write_model_file(graph, (path + ".qn").c_str()));
  std::ofstream(path + ".needs") << needs_of(graph);
}

void write(const std::string& folder) {
  Graph graph = build_zoo("mobilenet_v1", 1);
  check(check_graph(graph));
  check(infer_shapes(graph));
  check(optimize(graph));
  write_with_needs(graph, folder + "/mobilenet_v1");
  write_with_needs(quantized(graph), folder + "/mobilenet_v1_qs8");

  const Tensor& input = graph.tensors[static_cast<size_t>(graph.inputs[0].tensor)];
  std::ofstream numbers(folder + "/input.bin", std::ios::binary);
  uint32_t state = 1;
  for (size_t n = input.shape[0] * input.shape[1] * input.shape[2] * input.shape[3]; n > 0; --n) {
    state = state * 1664525 + 1013904223;
    const float value = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    numbers.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  write_with_needs(recurrent(), folder + "/recurrent");
  std::ofstream(folder + "/plain_kinds.needs") << needs_of_plain_kinds();
  check(write_model_file(other_model(), (folder + "/other.qn").c_str()));
  check(write_model_file(few_layers(), (folder + "/few.qn").c_str()));
  check(write_model_file(quantized(few_layers()), (folder + "/few_qs8.qn").c_str()));
  check(write_model_file(more_layers(), (folder + "/more.qn").c_str()));
  check(write_model_file(Chain().conv(16, 3, 3, 1).done(), (folder + "/one.qn").c_str()));
}

}  // namespace
}  // namespace quern

int main(int, char** arguments) {
  try {
    quern::check(qn_extra_register());
    quern::write(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
