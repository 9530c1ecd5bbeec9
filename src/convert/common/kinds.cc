#include "convert/common/kinds.h"

#include <limits>
#include <map>
#include <numbers>

#include "graph/ir/custom.h"

namespace quern::convert {
namespace {

// Kinds that read shapes from elements of inputs, and their forms that follow dimensions of tensors instead.
const char* sized_form(const std::string& kind) {
  static const std::map<std::string, const char*> forms = {
      {"expand", "expand_sizes"},  {"fill", "fill_sizes"},         {"pad_by", "pad_sizes"},
      {"range", "range_sizes"},    {"resample", "resample_sizes"}, {"reshape_to", "reshape_sizes"},
      {"slice_by", "slice_sizes"}, {"tile", "tile_sizes"},
  };
  const auto at = forms.find(kind);
  return at == forms.end() ? nullptr : at->second;
}

// The inputs of a node of a kind.
class Operands {
 public:
  Operands(const SourceNode& node, const char* kind) : node_(node), kind_(kind), found_(find_kind(kind)) {}

  void add(const Value& value) {
    const size_t index = views_.size();
    const std::string at = node_.name + "/input" + std::to_string(index);
    if (!value) {
      views_.emplace_back();
    } else if (value.integers == nullptr) {
      views_.push_back(node_.operand(value, at));
    } else if (!decides_shapes(index)) {
      views_.push_back(integers_in_run(node_.builder, at, *value.integers, value.type));
    } else if (follows(*value.integers, index)) {
      views_.emplace_back();
    } else {
      for (const Symbol symbol : value.integers->symbols) node_.fix(symbol);
      views_.push_back(node_.operand(value, at));
    }
  }

  Values make(Parameters parameters, const std::vector<ElementType>& types) {
    if (sized_.empty()) return node_.custom(kind_, views_, std::move(parameters), types);
    const auto own = static_cast<int64_t>(found_->max_inputs);
    views_.resize(found_->max_inputs);
    views_.insert(views_.end(), followed_.begin(), followed_.end());
    for (auto& [index, factors] : sized_) {
      count_from(own, &factors);
      parameters = std::move(parameters).integers(("sizes" + std::to_string(index)).c_str(), factors);
    }
    return node_.custom(sized_form(kind_), views_, std::move(parameters), types);
  }

 private:
  // Known integers follow the sizes of the model's inputs if they come from these. Where shapes of outputs depend on
  // them they stay constants, or dimensions take their place, so that these shapes are known before a run.
  bool decides_shapes(size_t index) const {
    return found_ == nullptr || (index < 64 && (found_->value_inputs >> index & 1) != 0);
  }

  // Notes how integers that come from open sizes follow from dimensions of tensors; false if they do not.
  bool follows(const Integers& integers, size_t index) {
    if (sized_form(kind_) == nullptr || integers.shape.size() > 1) return false;
    bool open = false;
    for (const Symbol symbol : integers.symbols) open |= node_.builder.is_open(symbol);
    if (!open) return false;
    std::vector<View> tensors = followed_;
    std::vector<int64_t> factors;
    bool infers = std::string(kind_) != "reshape_to";  // of one dimension, a reshape need not know the size
    for (size_t i = 0; i < integers.values.size(); ++i) infers |= integers.values[i] == -1;
    for (size_t i = 0; i < integers.values.size(); ++i) {
      if (node_.builder.factors(integers.at(i), &tensors, &factors)) continue;
      if (infers) return false;
      infers = true;
      factors.insert(factors.end(), {-1, 1, 0});
    }
    followed_ = std::move(tensors);
    sized_[index] = std::move(factors);
    return true;
  }

  // Factors name tensors by their place among `followed_`; these are inputs from `first` on.
  static void count_from(int64_t first, std::vector<int64_t>* factors) {
    for (size_t i = 0; i < factors->size();) {
      const int64_t count = (*factors)[i + 2];
      int64_t left = count < 0 ? ~count : count;
      for (i += 3; left > 0; --left, i += 2) (*factors)[i] += first;
    }
  }

  const SourceNode& node_;
  const char* const kind_;
  const qn_kind* const found_;
  std::vector<View> views_, followed_;
  std::map<size_t, std::vector<int64_t>> sized_;  // factors of the numbers of an input
};

}  // namespace

Values make_all(const SourceNode& node, const char* kind, const Values& inputs, Parameters parameters,
                const std::vector<ElementType>& types) {
  Operands operands(node, kind);
  for (const Value& input : inputs) operands.add(input);
  return operands.make(std::move(parameters), types);
}

Value make(const SourceNode& node, const char* kind, const Values& inputs, Parameters parameters,
           std::optional<ElementType> type) {
  return make_all(node, kind, inputs, std::move(parameters), {type.value_or(inputs.at(0).type)})[0];
}

Value integer_list(const std::vector<int64_t>& values, ElementType type) {
  return integer_value({{values.size()}, values, {}}, type);
}
Value integer_number(int64_t value, ElementType type) { return integer_value({{}, {value}, {}}, type); }

Value number_of(const SourceNode& node, float value, ElementType type) {
  if (!is_float(type)) return integer_number(static_cast<int64_t>(value), type);
  Value number = node.builder.constant({}, &value);
  number.type = type;
  return number;
}

Value cast_to(const SourceNode& node, const Value& x, ElementType type) {
  if (x.type == type) return x;
  return make(node, "cast", {x}, Parameters().integer("half", type == ElementType::f16 ? 1 : 0), type);
}

Value permuted(const SourceNode& node, const Value& x, const std::vector<int64_t>& order) {
  return make(node, "permute", {x}, Parameters().integers("perm", order));
}
Value reshaped(const SourceNode& node, const Value& x, const std::vector<int64_t>& shape) {
  return make(node, "reshape_to", {x, integer_list(shape)}, Parameters().integer("allow_zero", 1));
}
Value with_axis(const SourceNode& node, const Value& x, int64_t axis) {
  return make(node, "unsqueeze", {x, integer_list({axis})});
}

Value sliced(const SourceNode& node, const Value& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
             const std::vector<int64_t>& axes, const std::vector<int64_t>& steps) {
  Values inputs = {x, integer_list(begin), integer_list(end), integer_list(axes)};
  if (!steps.empty()) inputs.push_back(integer_list(steps));
  return make(node, "slice_by", inputs);
}

Value joined(const SourceNode& node, const Values& parts, int64_t axis) {
  return make(node, "join", parts, Parameters().integer("axis", axis));
}
Value filled(const SourceNode& node, const Value& shape, const Value& number) {
  return make(node, "fill", {shape, number}, {}, number.type);
}

Value shape_of(const SourceNode& node, const Value& x) { return make(node, "shape_of", {x}, {}, ElementType::i64); }

// Sizes have 64 bits, and the bounds of a range have one type: if some follow sizes, the range is made of long numbers.
Value range_of(const SourceNode& node, const Value& start, const Value& limit, const Value& step) {
  Values bounds = {start, limit, step};
  const auto is_open = [&](Symbol symbol) { return node.builder.is_open(symbol); };
  const auto follows = [&](const Value& bound) {
    return bound.integers != nullptr &&
           std::any_of(bound.integers->symbols.begin(), bound.integers->symbols.end(), is_open);
  };
  if (std::none_of(bounds.begin(), bounds.end(), follows)) return make(node, "range", bounds);
  for (Value& bound : bounds) {
    if (bound.type != start.type) node.fail("the bounds differ in type");
    if (bound.integers == nullptr) bound = cast_to(node, bound, ElementType::i64);
    bound.type = ElementType::i64;
  }
  return cast_to(node, make(node, "range", bounds), start.type);
}

// Whether the quotient that leaves this rest, which has the sign of the dividend, has been rounded up.
static Value rounds_up(const SourceNode& node, const Value& rest, const Value& divisor, const Value& zero) {
  const auto negative = [&](const Value& x) { return make(node, "less", {x, zero}, {}, ElementType::boolean); };
  const Value differs = make(node, "bitwise_xor", {negative(rest), negative(divisor)});
  const Value whole = make(node, "equal", {rest, zero}, {}, ElementType::boolean);
  return make(node, "bitwise_and", {differs, make(node, "not", {whole})});
}

// The remainder has the sign of the divisor.
Value floor_mod(const SourceNode& node, const Value& a, const Value& b) {
  if (!is_float(a.type)) return make(node, "mod", {a, b});
  const Value rest = make(node, "mod", {a, b}, Parameters().integer("truncates", 1));
  const Value zero = number_of(node, 0, a.type);
  const Value wrong = rounds_up(node, rest, b, zero);
  return make(node, "where", {wrong, make(node, "any_add", {rest, b}), rest}, {}, a.type);
}

Value floor_div(const SourceNode& node, const Value& a, const Value& b) {
  if (is_float(a.type)) return make(node, "floor", {make(node, "any_div", {a, b})});
  // The difference of the dividend and the remainder may overflow, but in a larger type.
  if (a.type != ElementType::i64) {
    const Value wide = cast_to(node, a, ElementType::i64), by = cast_to(node, b, ElementType::i64);
    const Value whole = make(node, "any_sub", {wide, floor_mod(node, wide, by)});
    return cast_to(node, make(node, "any_div", {whole, by}), a.type);
  }
  const Value rest = make(node, "mod", {a, b}, Parameters().integer("truncates", 1)), zero = number_of(node, 0, a.type);
  const Value quotient = make(node, "any_div", {a, b});
  const Value below = make(node, "any_sub", {quotient, number_of(node, 1, a.type)});
  return make(node, "where", {rounds_up(node, rest, b, zero), below, quotient}, {}, a.type);
}

// The angle in the first quadrant, mirrored into that of the point. Zeros have signs, too: those of their reciprocals.
Value atan2(const SourceNode& node, const Value& y, const Value& x) {
  const Value zero = number_of(node, 0, x.type), one = number_of(node, 1, x.type);
  const auto choose = [&](const Value& condition, const Value& yes, const Value& no) {
    return make(node, "where", {condition, yes, no}, {}, x.type);
  };
  const auto equal = [&](const Value& a, const Value& b) {
    return make(node, "equal", {a, b}, {}, ElementType::boolean);
  };
  const auto negative = [&](const Value& v) {
    const Value signed_number = choose(equal(v, zero), make(node, "reciprocal", {v}), v);
    return make(node, "less", {signed_number, zero}, {}, ElementType::boolean);
  };
  const Value height = make(node, "abs", {y}), width = make(node, "abs", {x});
  const Value same =
      choose(equal(height, zero), zero, one);  // the ratio of equals, of which 0 / 0 and infinities have none
  const Value ratio = choose(equal(height, width), same, make(node, "any_div", {height, width}));
  const Value angle = make(node, "atan", {ratio});
  const Value half_turn = number_of(node, std::numbers::pi_v<float>, x.type);
  const Value above = choose(negative(x), make(node, "any_sub", {half_turn, angle}), angle);
  return choose(negative(y), make(node, "neg", {above}), above);
}

Value transposed_if(const SourceNode& node, bool transposes, const Value& x) {
  if (!transposes) return x;
  const size_t rank = rank_of(node, x);
  if (rank < 2) node.fail("a factor has rank " + std::to_string(rank));
  std::vector<int64_t> order;
  for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  std::swap(order[rank - 1], order[rank - 2]);
  return permuted(node, x, order);
}

Value scattered(const SourceNode& node, const Value& indices, const Value& updates, const Value& shape) {
  const Value zeros = filled(node, shape, number_of(node, 0, updates.type));
  return make(node, "scatter_nd", {zeros, indices, updates}, Parameters().integer("reduction", 1));
}

Value one_hot(const SourceNode& node, const Value& indices, const Value& depth, const Value& on, const Value& off,
              int64_t axis) {
  const Value places = cast_to(node, indices, ElementType::i64);
  const Value negative = make(node, "less", {places, number_of(node, 0, places.type)}, {}, ElementType::boolean);
  const Value none = make(node, "where", {negative, cast_to(node, depth, places.type), places}, {}, places.type);
  const Value values = joined(node, {reshaped(node, off, {1}), reshaped(node, on, {1})}, 0);
  return make(node, "one_hot", {none, depth, values}, Parameters().integer("axis", axis), on.type);
}

Value gathered(const SourceNode& node, const Value& x, const Value& indices, int64_t axis, int64_t batch) {
  if (batch == 0) return make(node, "gather", {x, indices}, Parameters().integer("axis", axis));
  const auto index_rank = static_cast<int64_t>(rank_of(node, indices));
  const auto at = static_cast<int64_t>(node.axis(axis, rank_of(node, x)));
  if (batch < 0) batch += index_rank;
  if (batch < 0 || batch > at || batch > index_rank) node.fail("batch_dims is out of range");
  if (batch != at) throw Unsupported{"batch_dims with another axis"};
  const Value tuples = with_axis(node, indices, index_rank);
  return make(node, "gather_nd", {x, tuples}, Parameters().integer("batch_dims", batch));
}

Value sliced_sizes(const SourceNode& node, const Value& x, const std::vector<int64_t>& begin,
                   const std::vector<int64_t>& size) {
  if (begin.size() != size.size()) node.fail("begin and size differ in length");
  std::vector<int64_t> end, axes;
  for (size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] < 0 || size[d] < -1) node.fail("begin or size is negative");
    const bool all = size[d] < 0 || begin[d] > std::numeric_limits<int64_t>::max() - size[d];
    end.push_back(all ? std::numeric_limits<int64_t>::max() : begin[d] + size[d]);
    axes.push_back(static_cast<int64_t>(d));
  }
  return sliced(node, x, begin, end, axes);
}

Value reversed(const SourceNode& node, const Value& x, const std::vector<int64_t>& axes) {
  const std::vector<int64_t> last(axes.size(), -1), before(axes.size(), std::numeric_limits<int64_t>::min());
  return sliced(node, x, last, before, axes, last);
}

Value padded(const SourceNode& node, const Value& x, size_t pads, PadMode mode, const Value& filler) {
  const Integers& pairs = node.integers(pads);
  if (pairs.shape.size() != 2 || pairs.shape[1] != 2) node.fail("pads are not pairs");
  std::vector<int64_t> list;
  for (const size_t side : {0, 1}) {
    for (size_t d = 0; d < pairs.shape[0]; ++d) list.push_back(pairs.values[2 * d + side]);
  }
  Values inputs = {x, integer_list(list)};
  if (filler) inputs.push_back(filler);
  return make(node, "pad_by", inputs, Parameters().integer("mode", static_cast<int64_t>(mode)));
}

Values unique_elements(const SourceNode& node, const Value& x) {
  const std::vector<ElementType> types = {x.type, ElementType::i64, ElementType::i64, ElementType::i64};
  const Values found = make_all(node, "unique", {x}, Parameters().integer("sorted", 0), types);
  return {found[0], found[2]};
}

Value places_of_nonzero(const SourceNode& node, const Value& x) {
  return permuted(node, make(node, "nonzero", {x}, {}, ElementType::i64), {1, 0});
}

Value selected(const SourceNode& node, Value condition, const Value& yes, const Value& no) {
  const size_t rank = rank_of(node, yes);
  if (rank_of(node, condition) == 1 && rank > 1) {
    std::vector<int64_t> shape(rank, 1);
    shape[0] = static_cast<int64_t>(shape_at_import(node, condition)[0]);
    if (condition.view) node.fix(node.builder.symbol(condition.view, 0));
    condition = reshaped(node, condition, shape);
  }
  return make(node, "where", {condition, yes, no}, {}, yes.type);
}

Shape shape_at_import(const SourceNode& node, const Value& x) {
  if (x.integers != nullptr) return x.integers->shape;
  if (!node.builder.is_sized(x.view)) throw Unsupported{"the shape of an input is known only in a run"};
  return node.builder.shape(x.view);
}
std::optional<Shape> expected_shape(const Builder& builder, const Value& x) {
  return x.integers != nullptr ? std::optional(x.integers->shape) : builder.expected_shape(x.view);
}
size_t rank_of(const SourceNode& node, const Value& x) {
  const std::optional<Shape> expected = expected_shape(node.builder, x);
  return (expected ? *expected : shape_at_import(node, x)).size();
}

}  // namespace quern::convert
