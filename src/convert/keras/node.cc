#include "convert/keras/node.h"

#include <algorithm>
#include <iterator>

namespace quern::keras {

// ---- weights ----------------------------------------------------------------------------------

// A path begins with the name of a layer of the whole model. Names may have slashes: the longest name counts.
Weights::Weights(const std::map<std::string, Weight>& weights, const std::vector<Call>& calls) : weights_(weights) {
  for (const Call& call : calls) paths_[call.top];
  for (const auto& [path, weight] : weights) {
    for (size_t end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
      const auto at = paths_.find(path.substr(0, end));
      if (at == paths_.end()) continue;
      at->second.push_back(path);
      break;
    }
  }
}

namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Whether a layer calls its weight so: by the last names of the path, of one or more, without the number of a result
// that Keras 2 appends. "conv/conv/kernel:0" is "kernel".
bool is_named(const std::string& path, const std::string& name) {
  return ends_with(path.substr(0, path.find(':', path.rfind('/') + 1)), "/" + name);
}

bool lies_in(const std::string& path, const std::string& folder) {
  return ends_with(path.substr(0, path.rfind('/')), "/" + folder);
}
// The same of a folder that may have folders of its own.
bool lies_below(const std::string& path, const std::string& folder) {
  return path.find("/" + folder + "/") != std::string::npos;
}

using Paths = std::vector<std::string>;
template <class Lies>
Paths those(const Paths& all, Lies&& lies, const std::string& folder) {
  Paths found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](auto& path) { return lies(path, folder); });
  return found;
}

// Within a model, weights have the name of their layer and, from Keras 3 on, before it that of the model. Where a layer
// has parts, these have folders within the layer's.
Paths nested_paths(const Paths& all, const Call& call) {
  const std::string in_model = call.model + "/" + call.layer;
  for (auto* const lies : {lies_in, lies_below}) {
    for (const std::string& folder : {in_model, call.layer}) {
      Paths found = those(all, lies, folder);
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace

Paths Weights::of(const Call& call) const {
  const Paths& all = paths_.at(call.top);
  const Paths own = call.is_nested ? nested_paths(all, call) : all;
  return call.part.empty() ? own : those(own, lies_below, call.part);
}

std::string Weights::find(const SourceNode& node, const Call& call, const std::string& name) const {
  std::string found;
  for (const std::string& path : of(call)) {
    if (!is_named(path, name)) continue;
    if (!found.empty()) node.fail("the weights '" + found + "' and '" + path + "' both may be its " + name);
    found = path;
  }
  return found;
}

View Weights::constant(Builder& builder, const std::string& path) {
  const auto [at, fresh] = constants_.try_emplace(path);
  if (fresh) at->second = builder.constant(weights_.at(path).shape, weights_.at(path).data.data());
  return at->second;
}

// ---- the configuration ------------------------------------------------------------------------

const Json* KerasNode::find(const char* field) const {
  read_.insert(field);
  const auto at = call.config->find(field);
  return at == call.config->end() || at->is_null() ? nullptr : &*at;
}

namespace {
[[noreturn]] void fail_field(const KerasNode& node, const char* field, const char* what) {
  node.fail("'" + std::string(field) + "' " + what);
}
}  // namespace

bool KerasNode::flag(const char* field, bool otherwise) const {
  const Json* value = find(field);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail_field(*this, field, "is neither true nor false");
  return value->get<bool>();
}

bool KerasNode::is_null(const char* field) const {
  read_.insert(field);
  const auto at = call.config->find(field);
  return at != call.config->end() && at->is_null();
}

std::string KerasNode::text(const char* field, const char* otherwise) const {
  const Json* value = find(field);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) throw Unsupported{"'" + std::string(field) + "' that is not a string"};
  return value->get<std::string>();
}

// Old files have {"type": "ndarray", "value": 6.0} for some numbers.
float KerasNode::number(const Json& found, const char* field) const {
  const Json& value = found.is_object() && found.contains("value") ? found["value"] : found;
  if (!value.is_number()) fail_field(*this, field, "must be a number");
  return finite(static_cast<float>(value.get<double>()), field);
}

float KerasNode::number(const char* field, std::optional<float> otherwise) const {
  const Json* value = find(field);
  if (value != nullptr) return number(*value, field);
  if (!otherwise) fail_field(*this, field, "is missing");
  return *otherwise;
}

std::vector<int64_t> KerasNode::list(const char* field) const {
  const Json* value = find(field);
  if (value == nullptr) fail_field(*this, field, "is missing");
  const std::string where = "layer '" + name + "': '" + field + "'";
  if (!value->is_array()) return {integer_of(*value, where)};
  std::vector<int64_t> numbers;
  for (const Json& item : *value) numbers.push_back(integer_of(item, where));
  return numbers;
}

int64_t KerasNode::whole(const char* field, std::optional<int64_t> otherwise) const {
  if (otherwise && find(field) == nullptr) return *otherwise;
  const std::vector<int64_t> numbers = list(field);
  if (numbers.size() != 1) fail_field(*this, field, "is not one number");
  return numbers[0];
}

size_t KerasNode::size(int64_t value, const char* field) const {
  if (value < 1 || value > static_cast<int64_t>(max_extent)) fail_field(*this, field, "is out of range");
  return static_cast<size_t>(value);
}

size_t KerasNode::size(const char* field, std::optional<size_t> otherwise) const {
  if (otherwise && find(field) == nullptr) return *otherwise;
  return size(whole(field), field);
}

qn_hw KerasNode::pair(const char* field, size_t spatial, std::optional<qn_hw> otherwise) const {
  if (otherwise && find(field) == nullptr) return *otherwise;
  const std::vector<int64_t> numbers = list(field);
  if (numbers.size() != 1 && numbers.size() != spatial) fail_field(*this, field, "has too many numbers");
  return {spatial == 1 ? 1 : size(numbers[0], field), size(numbers.back(), field)};
}

bool KerasNode::has_channels_first() const {
  const std::string format = text("data_format", "channels_last");
  if (format != "channels_last" && format != "channels_first") fail_field(*this, "data_format", "is unknown");
  return format == "channels_first";
}

// ---- weights of a layer -----------------------------------------------------------------------

std::string KerasNode::only_weight() const {
  const Paths paths = weights_.of(call);
  if (paths.size() != 1) fail("the file has " + std::to_string(paths.size()) + " weights for it instead of one");
  const std::string last = paths[0].substr(paths[0].rfind('/') + 1);
  return last.substr(0, last.find(':'));
}

View KerasNode::weight(const std::string& role, const Shape& shape) const {
  return weights_.constant(builder, path_of(role, shape));
}

const std::vector<float>& KerasNode::numbers(const std::string& role, const Shape& shape) const {
  return weights_.at(path_of(role, shape)).data;
}

const std::string& KerasNode::path_of(const std::string& role, const Shape& shape) const {
  const std::string path = weights_.find(*this, call, role);
  if (path.empty()) fail("the file has no weights '" + role + "' for it");
  const Shape& found = weights_.at(path).shape;
  if (found != shape) fail("its " + role + " is " + text_of(found) + ", the layer needs " + text_of(shape));
  return *read_weights_.insert(path).first;
}

// ---- what has been read -----------------------------------------------------------------------

namespace {

// Fields that say how to train or to begin.
bool is_for_training(const std::string& field) {
  static const std::set<std::string> fields = {"name", "trainable", "dtype", "batch_input_shape", "batch_shape"};
  for (const char* end : {"_initializer", "_regularizer", "_constraint"}) {
    if (ends_with(field, end)) return true;
  }
  return fields.count(field) > 0;
}

}  // namespace

void KerasNode::expect_fields_read() const {
  if (ignores_all_) return;
  for (const auto& [field, value] : call.config->items()) {
    const bool is_known = read_.count(field) > 0 || is_for_training(field);
    if (!is_known && !value.is_null()) throw Unsupported{"'" + field + "'"};
  }
}

void KerasNode::end_part(const KerasNode& part) const {
  part.expect_fields_read();
  read_weights_.insert(part.read_weights_.begin(), part.read_weights_.end());
  ignores_all_ = ignores_all_ || part.ignores_all_;
}

void KerasNode::expect_all_read() const {
  expect_fields_read();
  if (ignores_all_) return;
  for (const std::string& path : weights_.of(call)) {
    if (read_weights_.count(path) == 0) fail("nothing reads its weights '" + path + "'");
  }
}

// ---- masks ------------------------------------------------------------------------------------

const Value* KerasNode::mask(size_t input) const {
  if (call.masks.empty()) return own_mask(input);
  return input < operands_.given_masks.size() ? operands_.given_masks[input] : nullptr;
}

const Value* KerasNode::call_mask(size_t rank) const {
  const Value* const found = call.masks.empty() && is_keras_3 && input_count() > 1 ? nullptr : mask(0);
  if (found == nullptr) return nullptr;
  const size_t own = found->view.rank();
  if (own != rank) throw Unsupported{"a mask of rank " + std::to_string(own)};
  return found;
}

// ---- images -----------------------------------------------------------------------------------

View KerasNode::image(size_t spatial) const {
  View x = view(0);
  if (x.rank() != spatial + 2) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const bool channels_first = has_channels_first();
  if (spatial == 1 && channels_first) x = builder.reshape(name + "/image", x, {0, 0, 1, copy_dimension(2, 3)});
  if (spatial == 1 && !channels_first) {
    x = builder.reshape(name + "/image", x, {0, 1, copy_dimension(1, 2), copy_dimension(2, 3)});
  }
  return channels_first ? x : builder.permute(x, {0, 3, 1, 2});
}

View KerasNode::from_image(const View& y, size_t spatial) const {
  const bool channels_first = has_channels_first();
  const View out = channels_first ? y : builder.permute(y, {0, 2, 3, 1});
  if (spatial == 2) return out;
  if (channels_first) return builder.reshape(name + "/sequence", out, {0, 0, copy_dimension(3, 2)});
  return builder.reshape(name + "/sequence", out, {0, copy_dimension(2, 1), copy_dimension(3, 2)});
}

}  // namespace quern::keras
