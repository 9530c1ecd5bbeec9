// Small TensorFlow graphs for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "convert/tensorflow/graph.pb.h"

namespace quern::test {

using Ints = std::vector<int64_t>;

// The name of a function, as an attribute.
struct TfFunction {
  std::string name;
};

// An attribute of a node.
struct TfAttribute {
  std::string name;
  tensorflow::schema::AttrValue value;

  TfAttribute(const char* its_name, const char* text) : name(its_name) { value.set_s(text); }
  TfAttribute(const char* its_name, bool flag) : name(its_name) { value.set_b(flag); }
  TfAttribute(const char* its_name, int number) : name(its_name) { value.set_i(number); }
  TfAttribute(const char* its_name, float number) : name(its_name) { value.set_f(number); }
  TfAttribute(const char* its_name, tensorflow::schema::DataType type) : name(its_name) { value.set_type(type); }
  TfAttribute(const char* its_name, const TfFunction& function) : name(its_name) {
    value.mutable_func()->set_name(function.name);
  }
  TfAttribute(const char* its_name, const std::vector<tensorflow::schema::DataType>& types) : name(its_name) {
    for (const auto type : types) value.mutable_list()->add_type(type);
  }
  TfAttribute(const char* its_name, const Ints& numbers) : name(its_name) {
    value.mutable_list();
    for (const int64_t number : numbers) value.mutable_list()->add_i(number);
  }
};
using TfAttributes = std::vector<TfAttribute>;

class TfGraph {
 public:
  tensorflow::schema::GraphDef graph;

  TfGraph& node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                const TfAttributes& attributes = {}) {
    tensorflow::schema::NodeDef* node = graph.add_node();
    node->set_op(op);
    node->set_name(name);
    for (const std::string& input : inputs) node->add_input(input);
    for (const TfAttribute& attribute : attributes) (*node->mutable_attr())[attribute.name] = attribute.value;
    return *this;
  }
  // A size of -1 is not known.
  TfGraph& placeholder(const std::string& name, const Ints& dims,
                       tensorflow::schema::DataType type = tensorflow::schema::DT_FLOAT) {
    node("Placeholder", name, {}, {{"dtype", type}});
    tensorflow::schema::TensorShapeProto* shape = last("shape").mutable_shape();
    for (const int64_t d : dims) shape->add_dim()->set_size(d);
    return *this;
  }
  TfGraph& floats(const std::string& name, const Array& array) {
    tensorflow::schema::TensorProto* tensor = constant(name, tensorflow::schema::DT_FLOAT, array.dims);
    for (const float x : array.data) tensor->add_float_val(x);
    return *this;
  }
  TfGraph& integers(const std::string& name, const Dims& dims, const Ints& values) {
    tensorflow::schema::TensorProto* tensor = constant(name, tensorflow::schema::DT_INT32, dims);
    for (const int64_t x : values) tensor->add_int_val(static_cast<int32_t>(x));
    return *this;
  }
  TfGraph& integers(const std::string& name, const Ints& values) { return integers(name, {values.size()}, values); }
  TfGraph& integer(const std::string& name, int64_t value) { return integers(name, {}, {value}); }

  // A constant without elements yet, and an attribute of the node that was added last.
  tensorflow::schema::TensorProto* constant(const std::string& name, tensorflow::schema::DataType type,
                                            const Dims& dims) {
    node("Const", name, {}, {{"dtype", type}});
    tensorflow::schema::TensorProto* tensor = last("value").mutable_tensor();
    tensor->set_dtype(type);
    for (const size_t d : dims) tensor->mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(d));
    return tensor;
  }
  tensorflow::schema::NodeDef* mutable_node(const std::string& name) {
    for (tensorflow::schema::NodeDef& node : *graph.mutable_node()) {
      if (node.name() == name) return &node;
    }
    return nullptr;
  }
  tensorflow::schema::AttrValue& last(const std::string& attribute) {
    return (*graph.mutable_node(graph.node_size() - 1)->mutable_attr())[attribute];
  }

  // Adds a function to the library: the nodes of `body`, which read the arguments by their names. Inputs of its nodes and
  // results are an argument or "node:name of an output:number".
  tensorflow::schema::FunctionDef& function(const std::string& name, const std::vector<std::string>& arguments,
                                            const TfGraph& body, const std::vector<std::string>& results) {
    tensorflow::schema::FunctionDef* made = graph.mutable_library()->add_function();
    made->mutable_signature()->set_name(name);
    for (const std::string& argument : arguments) made->mutable_signature()->add_input_arg()->set_name(argument);
    *made->mutable_node_def() = body.graph.node();
    for (const std::string& result : results) {
      const std::string argument = "result" + std::to_string(made->ret_size());
      made->mutable_signature()->add_output_arg()->set_name(argument);
      (*made->mutable_ret())[argument] = result;
    }
    return *made;
  }

  std::string bytes() const { return graph.SerializeAsString(); }
};

}  // namespace quern::test
