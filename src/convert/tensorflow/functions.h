// The functions that nodes of a graph call, as graphs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convert/tensorflow/graph.h"

namespace quern::tensorflow {

struct Function {
  schema::GraphDef nodes;
  std::unique_ptr<const Graph> graph;  // of these
  std::vector<TensorName> inputs, outputs;
};

class Functions {
 public:
  explicit Functions(const schema::FunctionDefLibrary& library);

  // Throws Error if there is no such function. What is made of one is kept.
  const Function& find(const std::string& name);
  // Adds a function that the file does not have. Returns false if it has one of this name.
  bool add(const std::string& name, Function function);

 private:
  std::map<std::string, const schema::FunctionDef*> definitions_;
  std::map<std::string, Function> made_;
};

}  // namespace quern::tensorflow
