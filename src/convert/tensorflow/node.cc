#include "convert/tensorflow/node.h"

#include <algorithm>
#include <array>

namespace quern::tensorflow {

using schema::AttrValue;

namespace {

// Attributes that name types of inputs and outputs, which their values have anyway, or say how to run a node. Names
// that begin with '_' are annotations.
constexpr std::array without_effect = {
    "Index",           "N",       "SrcT",   "T",          "T1",       "T2",       "Taxis",
    "Tblock_shape",    "Tcrops",  "Tdim",   "Tidx",       "Tindices", "Tlen",     "Tmultiples",
    "Tpaddings",       "Tparams", "Tperm",  "Tshape",     "U",        "dtype",    "grad_a",
    "grad_b",          "grad_x",  "grad_y", "index_type", "message",  "out_type", "use_cudnn_on_gpu",
    "validate_indices"};

}  // namespace

// ---- attributes -------------------------------------------------------------------------------

const AttrValue* TfNode::find(const char* attribute, AttrValue::ValueCase kind) const {
  read_.insert(attribute);
  const auto at = proto.attr().find(attribute);
  if (at == proto.attr().end()) return nullptr;
  if (at->second.value_case() != kind) fail(std::string("attribute ") + attribute + " has a value of another type");
  return &at->second;
}

const AttrValue& TfNode::get(const char* attribute, AttrValue::ValueCase kind) const {
  const AttrValue* value = find(attribute, kind);
  if (value == nullptr) fail(std::string("attribute ") + attribute + " is missing");
  return *value;
}

bool TfNode::flag(const char* attribute) const { return get(attribute, AttrValue::kB).b(); }
bool TfNode::flag(const char* attribute, bool otherwise) const {
  const AttrValue* value = find(attribute, AttrValue::kB);
  return value == nullptr ? otherwise : value->b();
}

int64_t TfNode::integer(const char* attribute) const { return get(attribute, AttrValue::kI).i(); }
int64_t TfNode::integer(const char* attribute, int64_t otherwise) const {
  const AttrValue* value = find(attribute, AttrValue::kI);
  return value == nullptr ? otherwise : value->i();
}

float TfNode::number(const char* attribute) const { return finite(get(attribute, AttrValue::kF).f(), attribute); }
float TfNode::number(const char* attribute, float otherwise) const {
  const AttrValue* value = find(attribute, AttrValue::kF);
  return value == nullptr ? otherwise : finite(value->f(), attribute);
}

std::string TfNode::text(const char* attribute) const { return get(attribute, AttrValue::kS).s(); }
std::string TfNode::text(const char* attribute, const std::string& otherwise) const {
  const AttrValue* value = find(attribute, AttrValue::kS);
  return value == nullptr ? otherwise : value->s();
}

std::vector<int64_t> TfNode::integer_list(const char* attribute) const {
  const AttrValue* value = find(attribute, AttrValue::kList);
  if (value == nullptr) return {};
  return std::vector<int64_t>(value->list().i().begin(), value->list().i().end());
}

schema::DataType TfNode::type(const char* attribute, schema::DataType otherwise) const {
  const schema::AttrValue* const value = find(attribute, schema::AttrValue::kType);
  return value == nullptr ? otherwise : value->type();
}

schema::DataType TfNode::type(const char* attribute) const { return get(attribute, AttrValue::kType).type(); }

std::string TfNode::function(const char* attribute) const { return get(attribute, AttrValue::kFunc).func().name(); }

ElementType TfNode::index_type(const char* attribute, ElementType otherwise) const {
  const AttrValue* const value = find(attribute, AttrValue::kType);
  if (value == nullptr) return otherwise;
  const std::optional<ElementType> type = element_type(value->type());
  if (type != ElementType::s32 && type != ElementType::i64) throw Unsupported{std::string("attribute ") + attribute};
  return *type;
}

std::string TfNode::unread_attribute() const {
  std::string unread;  // the first by name: the order of a map of protobuf is random
  for (const auto& [key, value] : proto.attr()) {
    const bool matters = !key.empty() && key[0] != '_' && read_.count(key) == 0 &&
                         std::find(without_effect.begin(), without_effect.end(), key) == without_effect.end();
    if (matters && (unread.empty() || key < unread)) unread = key;
  }
  return unread;
}

// ---- inputs and results -----------------------------------------------------------------------

bool TfNode::channels_first() const {
  const std::string format = text("data_format", "NHWC");
  if (format != "NHWC" && format != "NCHW") throw Unsupported{"data_format " + format};
  return format == "NCHW";
}

View TfNode::image(size_t input) const {
  const View& x = view(input);
  if (x.rank() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  return channels_first() ? x : builder.permute(x, {0, 3, 1, 2});
}

Value TfNode::image_result(const View& y) const {
  return result(channels_first() ? y : builder.permute(y, {0, 2, 3, 1}));
}

int64_t TfNode::only_integer(size_t input) const {
  const std::vector<int64_t>& values = integers(input).values;
  if (values.size() != 1) fail("input " + std::to_string(input) + " is not one number");
  return values[0];
}

}  // namespace quern::tensorflow
