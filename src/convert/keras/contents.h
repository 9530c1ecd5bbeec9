// What a Keras file holds, and the form in which the process that reads the file sends it.
//
// The sender is not trusted: a hostile file may have taken it over. So read_contents() checks everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convert/common/error.h"
#include "graph/ir/rules.h"

namespace quern::keras {

struct Weight {
  Shape shape;
  std::vector<float> data;
};

struct Contents {
  std::string config;                     // JSON: the architecture
  std::string version;                    // of Keras; empty if the file does not say
  std::map<std::string, Weight> weights;  // by path within the file's group of weights
};

// Takes or gives this many bytes, or throws an Error.
using Write = std::function<void(const void*, size_t)>;
using Read = std::function<void(void*, size_t)>;

// Sends the parts of a file, in any order.
class Sender {
 public:
  explicit Sender(Write write) : write_(std::move(write)) {}

  void config(const std::string& text) { record('C', text); }
  void version(const std::string& text) { record('V', text); }
  void weight(const std::string& path, const Weight& weight);
  // Ends the transfer, well or with a message.
  void end() { record('.', ""); }
  void fail(const std::string& message) { record('!', message); }

 private:
  void record(char kind, const std::string& text);
  void number(uint64_t value) { write_(&value, sizeof value); }

  Write write_;
};

// Receives what a Sender sends. Throws what it reports as an Error, and refuses what has more bytes than `limit`.
Contents read_contents(const Read& read, uint64_t limit);

}  // namespace quern::keras
