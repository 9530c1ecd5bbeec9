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

// What a layer is called on. Masks are bools; null stands for none.
struct Operands {
  std::vector<const Value*> inputs;
  std::vector<const Value*> masks;             // of these inputs
  std::vector<const Value*> given_masks = {};  // those that the call names, in the place of these; see Call::masks
  const Value* attention_mask = nullptr;
};

class KerasNode : public SourceNode {
 public:
  KerasNode(Builder& to, const Call& from, Weights& weights, bool keras_3, Operands operands)
      : SourceNode(to, from.name, "layer '" + from.name + "' (" + from.type + ")", operands.inputs),
        call(from),
        is_keras_3(keras_3),
        weights_(weights),
        operands_(std::move(operands)) {}

  // A layer that lies within `outer`, a wrapper, as `from` says.
  KerasNode(const KerasNode& outer, const Call& from, Operands operands)
      : KerasNode(outer.builder, from, outer.weights_, outer.is_keras_3, std::move(operands)) {}

  const Call& call;
  const bool is_keras_3;  // some functions have changed
  // Whether this is a function rather than a layer.
  bool is_function() const { return call.is_function || call.type == "TFOpLambda"; }

  // ---- the configuration. Without a default, a field must be there. null is the same as no field.

  const Json* find(const char* field) const;
  bool is_null(const char* field) const;  // whether the field is there, and null
  bool flag(const char* field, bool otherwise) const;
  std::string text(const char* field, const char* otherwise) const;
  float number(const char* field, std::optional<float> otherwise = std::nullopt) const;
  float number(const Json& found, const char* field) const;
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

  // ---- weights, of exactly this shape, as the layer names them: "kernel", "query/kernel"

  bool has_weight(const std::string& role) const { return !weights_.find(*this, call, role).empty(); }
  // How the file names the layer's only weight, to which the layer gives no name.
  std::string only_weight() const;
  View weight(const std::string& role, const Shape& shape) const;
  const std::vector<float>& numbers(const std::string& role, const Shape& shape) const;

  // Throws if a field or a weight has not been read.
  void expect_all_read() const;
  // Throws if `part`, a layer within this one, has not read a field. Weights that it has read are read.
  void end_part(const KerasNode& part) const;

  // ---- masks

  const Operands& operands() const { return operands_; }
  // The mask of an input: that which the call names, or its own.
  const Value* mask(size_t input) const;
  const Value* own_mask(size_t input) const {
    return input < operands_.masks.size() ? operands_.masks[input] : nullptr;
  }
  // The mask that function `call` of the layer gets for the first input. It must have this rank. Keras 3 gives one of
  // the input's own only where there is no other tensor.
  const Value* call_mask(size_t rank) const;

  // Gives a result a mask, in the place of that which MaskRule gives it.
  void set_mask(size_t output, const Value& mask) const { result_masks_.emplace_back(output, mask); }
  const std::vector<std::pair<size_t, Value>>& result_masks() const { return result_masks_; }
  // Says that the inputs have no masks any more.
  void take_masks() const { takes_masks_ = true; }
  bool takes_masks() const { return takes_masks_; }

  // ---- tensors

  // The first input as an image N, C, H, W, and a result in the layer's order of dimensions. Layers for sequences
  // (`spatial` is 1) see an image of height 1.
  View image(size_t spatial) const;
  View from_image(const View& y, size_t spatial) const;

 private:
  const std::string& path_of(const std::string& role, const Shape& shape) const;
  void expect_fields_read() const;

  Weights& weights_;
  const Operands operands_;
  mutable std::set<std::string> read_, read_weights_;
  mutable bool ignores_all_ = false, takes_masks_ = false;
  mutable std::vector<std::pair<size_t, Value>> result_masks_;
};

// Whether a layer's first result has the mask of its first input. Layers without a rule set masks themselves, or drop
// them.
enum class MaskRule : uint8_t { none, pass, pass_in_3 };

struct KerasRow {
  Values (*import)(const KerasNode&);
  size_t min_inputs, max_inputs;
  MaskRule masks = MaskRule::none;
};
using KerasTable = std::map<std::string, KerasRow>;

// Returns y with the function that the layer's field `activation` names; that function alone is activated().
View with_activation(const KerasNode& node, const View& y);
View activated(const KerasNode& node, const std::string& name, const View& x, const std::string& function);
// The slope of hard_sigmoid, a line between 0 and 1.
float hard_sigmoid_slope(const KerasNode& node);
// Divides x by its length along `axes`. Keras takes a length of at least `least` from version 3 on, and before of 1e-6.
View unit_length(const KerasNode& node, const std::string& name, const View& x, const std::vector<size_t>& axes,
                 float least);

// The function that imports a layer. Returns null if there is none.
const KerasRow* find_row(const std::string& type);

// Each looks in the table of one file.
const KerasRow* find_layer(const std::string& type);          // layers.cc: layers with weights, windows
const KerasRow* find_function(const std::string& type);       // functions.cc: activations, arithmetic
const KerasRow* find_shape(const std::string& type);          // shapes.cc: layers that move elements
const KerasRow* find_normalization(const std::string& type);  // normalization.cc: by statistics of the input
const KerasRow* find_product(const std::string& type);        // attention.cc: attention, products of inputs, lookups
const KerasRow* find_einsum_dense(const std::string& type);   // einsum_dense.cc
const KerasRow* find_recurrent(const std::string& type);      // recurrent.cc: layers of sequences
const KerasRow* find_wrapper(const std::string& type);        // wrappers.cc: layers around others
const KerasRow* find_conv_lstm(const std::string& type);      // conv_lstm.cc
const KerasRow* find_mask(const std::string& type);           // masks.cc: what makes masks

}  // namespace quern::keras
