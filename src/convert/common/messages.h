// What importers say about operators that they do not support, and names and numbers of files as our graphs may have them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace quern::convert {

// Thrown for a node that is valid, but that our operators cannot express. Importers collect these exceptions and report
// all of them at once.
struct Unsupported {
  std::string reason;  // "" if the type of the node is reason enough
};

// Collects a message by operator and reason: "2 operators are not supported: LSTM (1 node: a), Pooling: stochastic (3
// nodes, first: b)".
class UnsupportedList {
 public:
  void add(const std::string& name, const std::string& type, const std::string& reason);
  // Adds something that is no node: an input, an output, a variable.
  void add_part(const std::string& part, const std::string& reason);
  bool empty() const { return operators_.empty() && parts_.empty(); }
  // The message behind "not supported: "; "" if there is nothing.
  std::string text() const;
  void throw_if_any() const;

 private:
  struct Operator {
    std::string what, first;  // type and reason, and the name of the first node
    size_t nodes = 0;
  };
  std::vector<Operator> operators_;      // in the order of their first nodes
  std::map<std::string, size_t> index_;  // of an operator in this list, by what it is
  std::string parts_;
};

// What to do with a SavedModel, which is a folder or the graph in it.
inline constexpr const char* saved_model_recipe =
    "a SavedModel keeps its weights in other files: freeze it to a .pb (README, From TensorFlow, Keras and PyTorch)";

// Turns a name of a file into one that our graphs may have: UTF-8 without control characters, of at most `limit` bytes.
// Bytes that are not a valid character become '?'.
constexpr size_t name_limit = 1024;
std::string plain_name(const std::string& name, size_t limit = name_limit);

// Returns a number of a file. Throws Error if it is not finite; the message says `where`.
float finite(float value, const std::string& where);

}  // namespace quern::convert
