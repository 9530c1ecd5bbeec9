// The form in which functions that import Keras' layers see a layer, and the tables of these functions.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convert/common/source_node.h"
#include "convert/common/table.h"
#include "convert/keras/contents.h"
#include "convert/keras/network.h"

namespace quern::keras {

using namespace convert;

// The weights of a file, by the layers that have them. A layer that is used several times gets the same constants.
class Weights {
 public:
  Weights(const std::map<std::string, Weight>& weights, const std::vector<Call>& calls);

  // Returns the path of the weight that a layer calls `name`; empty if there is none. Messages begin with `node`.
  std::string find(const SourceNode& node, const Call& call, const std::string& name) const;
  const Weight& at(const std::string& path) const { return weights_.at(path); }
  View constant(Builder& builder, const std::string& path);
  // The paths of all weights of a layer.
  std::vector<std::string> of(const Call& call) const;

 private:
  const std::map<std::string, Weight>& weights_;
  std::map<std::string, std::vector<std::string>> paths_;  // by the layer of the whole model to which they belong
  std::map<std::string, View> constants_;
};

class KerasNode : public SourceNode {
 public:
  KerasNode(Builder& to, const Call& from, Weights& weights, bool keras_3, std::vector<const Value*> inputs)
      : SourceNode(to, from.name, "layer '" + from.name + "' (" + from.type + ")", std::move(inputs)),
        call(from),
        is_keras_3(keras_3),
        weights_(weights) {}

  const Call& call;
  const bool is_keras_3;  // some functions have changed

  // ---- the configuration. Without a default, a field must be there. null is the same as no field.

  const Json* find(const char* field) const;
  bool flag(const char* field, bool otherwise) const;
  std::string text(const char* field, const char* otherwise) const;
  float number(const char* field, std::optional<float> otherwise = std::nullopt) const;
  float number(const Json& value, const char* field) const;
  // One or more whole numbers.
  std::vector<int64_t> list(const char* field) const;
  int64_t whole(const char* field, std::optional<int64_t> otherwise = std::nullopt) const;
  // A number from 1 on.
  size_t size(const char* field, std::optional<size_t> otherwise = std::nullopt) const;
  size_t size(int64_t value, const char* field) const;
  // A height and a width, from 1 on. Layers for sequences have a width alone.
  qn_hw pair(const char* field, size_t spatial, std::optional<qn_hw> otherwise = std::nullopt) const;
  bool has_channels_first() const;

  // Says that these fields have no effect here.
  void ignore(std::initializer_list<const char*> fields) const { read_.insert(fields.begin(), fields.end()); }
  void ignore_all() const { ignores_all_ = true; }

  // ---- weights, of exactly this shape

  bool has_weight(const std::string& role) const { return !weights_.find(*this, call, role).empty(); }
  View weight(const std::string& role, const Shape& shape) const;
  const std::vector<float>& numbers(const std::string& role, const Shape& shape) const;

  // Throws if a field or a weight has not been read.
  void expect_all_read() const;

  // ---- tensors

  // The first input as an image N, C, H, W, and a result in the layer's order of dimensions. Layers for sequences
  // (`spatial` is 1) see an image of height 1.
  View image(size_t spatial) const;
  View from_image(const View& y, size_t spatial) const;

 private:
  const std::string& path_of(const std::string& role, const Shape& shape) const;

  Weights& weights_;
  mutable std::set<std::string> read_, read_weights_;
  mutable bool ignores_all_ = false;
};

using KerasRow = ImportRow<KerasNode>;
using KerasTable = ImportTable<KerasNode>;

// Returns y with the function that the layer's field `activation` names; that function alone is activated().
View with_activation(const KerasNode& node, const View& y);
View activated(const KerasNode& node, const std::string& name, const View& x, const std::string& function);

// Each finds the function that imports a layer, in the table of one file. Returns null if the table has none.
const KerasRow* find_layer(const std::string& type);     // layers.cc: layers with weights, windows
const KerasRow* find_function(const std::string& type);  // functions.cc: activations, arithmetic
const KerasRow* find_shape(const std::string& type);     // shapes.cc: layers that move elements

}  // namespace quern::keras
