// Writes what trim_test.py works with: FOLDER/mobilenet_v1.qn, the list of what it needs, an input for it, and
// FOLDER/other.qn, a model with an operator that is not on the list.
#include <cstdio>
#include <fstream>
#include <string>

#include "convert/needs.h"
#include "convert/zoo.h"
#include "graph/format.h"
#include "graph/passes.h"

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
  graph.tensors[static_cast<size_t>(y)].name = String("y", 1);  // GCC 12 warns of the assignment of a literal
  graph.inputs = {{x}};
  graph.outputs = {{y}};
  check(check_graph(graph));
  check(infer_shapes(graph));
  return graph;
}

void write(const std::string& folder) {
  Graph graph = build_zoo("mobilenet_v1", 1);
  check(check_graph(graph));
  check(infer_shapes(graph));
  check(optimize(graph));
  check(write_model_file(graph, (folder + "/mobilenet_v1.qn").c_str()));
  std::ofstream(folder + "/mobilenet_v1.needs") << needs_of(graph);

  const Tensor& input = graph.tensors[static_cast<size_t>(graph.inputs[0].tensor)];
  std::ofstream numbers(folder + "/input.bin", std::ios::binary);
  uint32_t state = 1;
  for (size_t n = input.shape[0] * input.shape[1] * input.shape[2] * input.shape[3]; n > 0; --n) {
    state = state * 1664525 + 1013904223;
    const float value = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    numbers.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  check(write_model_file(other_model(), (folder + "/other.qn").c_str()));
}

}  // namespace
}  // namespace quern

int main(int, char** arguments) {
  try {
    quern::write(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
