#include "convert/common/kind_symbols.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "base/math.h"
#include "convert/common/shown_node.h"
#include "graph/ir/custom.h"

namespace quern::convert {
namespace {

using Number = Symbols::Number;
using Dimensions = Symbols::Dimensions;
using List = std::vector<int64_t>;

// The node has been checked, so axes are valid; a rule that does not fit gives another rank, which is refused below.
size_t place(int64_t axis, size_t rank) {
  const int64_t from_begin = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (from_begin < 0 || from_begin >= static_cast<int64_t>(rank)) throw Unknown{};
  return static_cast<size_t>(from_begin);
}

void append(Dimensions* to, const Dimensions& from, size_t first, size_t last) {
  if (first > last || last > from.size()) throw Unknown{};
  to->insert(to->end(), from.begin() + static_cast<std::ptrdiff_t>(first),
             from.begin() + static_cast<std::ptrdiff_t>(last));
}

Number known(int64_t value) { return {value}; }
Number named(Symbol symbol) { return {0, symbol}; }

// ---- rules --------------------------------------------------------------------------------------

Dimensions first(const Shown& node) { return node.dimensions(0); }
Dimensions second(const Shown& node) { return node.dimensions(1); }

Dimensions broadcast(const Shown& node) {
  Dimensions all = node.dimensions(0);
  for (size_t i = 1; i < node.inputs(); ++i) {
    Dimensions next;
    const Dimensions other = node.dimensions(i);
    const std::vector<Symbol> both = node.symbols.broadcast(all, other);
    for (size_t d = 0; d < both.size(); ++d) {  // from the right
      const size_t back = both.size() - d;
      const int64_t a = back <= all.size() ? all[all.size() - back].value : 1;
      const int64_t b = back <= other.size() ? other[other.size() - back].value : 1;
      next.push_back({a == 1 ? b : a, both[d]});
    }
    all = next;
  }
  return all;
}

Dimensions gather(const Shown& node) {
  const Dimensions x = node.dimensions(0), indices = node.dimensions(1);
  const size_t axis = place(node.integer("axis", 0), x.size());
  Dimensions out;
  append(&out, x, 0, axis);
  append(&out, indices, 0, indices.size());
  append(&out, x, axis + 1, x.size());
  return out;
}

Dimensions gather_nd(const Shown& node) {
  const Dimensions x = node.dimensions(0), indices = node.dimensions(1);
  if (indices.empty()) throw Unknown{};
  // The length of a tuple says how many dimensions there are (symbol_of_rank).
  const int64_t taken = node.integer("batch_dims", 0) + indices.back().value;
  Dimensions out;
  append(&out, indices, 0, indices.size() - 1);
  append(&out, x, static_cast<size_t>(taken), x.size());
  return out;
}

Dimensions permute(const Shown& node) {
  const Dimensions x = node.dimensions();
  Dimensions out(x.rbegin(), x.rend());
  const List order = node.list("perm");
  for (size_t d = 0; d < order.size() && d < x.size(); ++d) out[d] = x[place(order[d], x.size())];
  return out;
}

// What a reshape infers (-1): the input's elements divided by those of the other dimensions.
Number left_over(const Shown& node, size_t dimension, const Dimensions& x, const Dimensions& others) {
  if (const std::optional<Number> exact = node.symbols.quotient(x, others)) return *exact;
  Dimensions all = x;
  append(&all, others, 0, others.size());
  return named(node.made_of(dimension, all));
}

// A computed number below 0 would not be the size that it stands for.
Dimensions reshape(const Shown& node) {
  const Dimensions x = node.dimensions(), wanted = node.numbers(1);
  Dimensions out, others;
  std::optional<size_t> inferred;
  for (size_t d = 0; d < wanted.size(); ++d) {
    const bool follows = wanted[d].symbol != no_symbol;
    if (follows && !node.symbols.is_size(wanted[d])) throw Unknown{};
    const bool zero = wanted[d].value == 0 && !follows;
    const bool copies = zero && node.integer("allow_zero", 0) == 0 && d < x.size();
    if (zero && !copies) throw Unknown{};
    const bool infers = !follows && wanted[d].value < 0;
    if (infers) inferred = d;
    out.push_back(copies ? x[d] : wanted[d]);
    if (!infers) others.push_back(out[d]);
  }
  if (inferred) out[*inferred] = left_over(node, *inferred, x, others);
  return out;
}

Dimensions squeeze(const Shown& node) {
  Dimensions out = node.dimensions();
  if (!node.has(1)) throw Unknown{};  // what is 1 now may be another number later
  std::vector<bool> dropped(out.size(), false);
  for (const int64_t axis : node.constant(1)) dropped[place(axis, out.size())] = true;
  size_t kept = 0;
  for (size_t d = 0; d < out.size(); ++d) {
    if (!dropped[d]) out[kept++] = out[d];
  }
  out.resize(kept);
  return out;
}

Dimensions unsqueeze(const Shown& node) {
  const Dimensions x = node.dimensions();
  const List axes = node.constant(1);
  std::vector<bool> is_new(x.size() + axes.size(), false);
  for (const int64_t axis : axes) is_new[place(axis, is_new.size())] = true;
  Dimensions out;
  size_t next = 0;
  for (const bool fresh : is_new) out.push_back(fresh || next == x.size() ? known(1) : x[next++]);
  return out;
}

Dimensions reduce(const Shown& node) {
  const Dimensions x = node.dimensions();
  const List axes = node.has(1) ? node.constant(1) : node.list("axes");
  std::vector<bool> reduced(x.size(), axes.empty() && node.integer("none_without_axes", 0) == 0);
  for (const int64_t axis : axes) reduced[place(axis, x.size())] = true;
  Dimensions out;
  for (size_t d = 0; d < x.size(); ++d) {
    if (!reduced[d]) out.push_back(x[d]);
    if (reduced[d] && node.integer("keep_dimensions", 1) != 0) out.push_back(known(1));
  }
  return out;
}

Dimensions place_of_extreme(const Shown& node) {
  Dimensions out = node.dimensions();
  const size_t axis = place(node.integer("axis", 0), out.size());
  if (node.integer("keep_dimensions", 1) == 0) {
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  } else {
    out[axis] = known(1);
  }
  return out;
}

Dimensions matmul(const Shown& node) {
  Dimensions a = node.dimensions(0), b = node.dimensions(1), out;
  if (a.size() < 2 || b.size() < 2) throw Unknown{};
  const Number rows = a[a.size() - 2], columns = b.back();
  for (Dimensions* of : {&a, &b}) of->resize(of->size() - 2);
  for (const Symbol symbol : node.symbols.broadcast(a, b)) out.push_back(named(symbol));
  out.push_back(rows);
  out.push_back(columns);
  return out;
}

// The result has the shape of the queries, but for the size of a head, which is that of the values.
Dimensions attention(const Shown& node) {
  Dimensions out = node.dimensions(0);
  const Dimensions v = node.dimensions(2);
  if (out.size() != v.size() || out.empty()) throw Unknown{};
  const bool as_many = out.size() == 4 || node.integer("q_heads", 0) == node.integer("kv_heads", 0);
  if (as_many) out.back() = v.back();
  if (!as_many && node.dimensions(1).back().value != v.back().value) throw Unknown{};
  return out;
}

Dimensions join(const Shown& node) {
  Dimensions out = node.dimensions(), parts;
  const size_t axis = place(node.integer("axis", 0), out.size());
  for (size_t i = 0; i < node.inputs(); ++i) {
    const Dimensions part = node.dimensions(i);
    if (part.size() != out.size()) throw Unknown{};
    for (size_t d = 0; d < part.size(); ++d) {
      if (d == axis) parts.push_back(part[d]);
      if (d != axis && part[d].symbol == no_symbol) out[d] = part[d];  // all inputs have this size
    }
  }
  out[axis] = named(node.made_of(axis, parts));
  return out;
}

Dimensions split(const Shown& node) {
  Dimensions out = node.dimensions();
  const size_t axis = place(node.integer("axis", 0), out.size());
  const bool evenly = !node.has(1);
  node.constant(1);  // sizes that are given have to be known
  out[axis] = evenly ? named(node.made_of(axis, {out[axis]})) : known(0);
  return out;
}

Dimensions slice(const Shown& node) {
  Dimensions out = node.dimensions();
  const Dimensions begin = node.numbers(1);
  List axes = node.constant(3);
  Dimensions places = begin;  // all have to be known, or to follow sizes
  for (const size_t list : {2, 4}) {
    const Dimensions more = node.numbers(list);
    append(&places, more, 0, more.size());
  }
  for (size_t d = 0; !node.has(3) && d < begin.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  for (const int64_t axis : axes) {
    const size_t d = place(axis, out.size());
    Dimensions sizes = places;
    sizes.push_back(out[d]);
    out[d] = named(node.made_of(d, sizes));
  }
  return out;
}

Dimensions pad(const Shown& node) {
  Dimensions out = node.dimensions();
  const Dimensions pads = node.numbers(1);
  List axes = node.constant(3);
  for (size_t d = 0; !node.has(3) && d < out.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (pads.size() != 2 * axes.size()) throw Unknown{};
  const auto is_zero = [](const Number& pad) { return pad.symbol == no_symbol && pad.value == 0; };
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = place(axes[i], out.size());
    const Number before = pads[i], after = pads[axes.size() + i];
    if (!is_zero(before) || !is_zero(after)) out[d] = named(node.made_of(d, {out[d], before, after}));
  }
  return out;
}

Dimensions tile(const Shown& node) {
  Dimensions out = node.dimensions();
  const Dimensions repeats = node.numbers(1);
  if (repeats.size() != out.size()) throw Unknown{};
  for (size_t d = 0; d < out.size(); ++d) out[d] = named(node.symbols.product(out[d], repeats[d]));
  return out;
}

Dimensions expand(const Shown& node) {
  Dimensions out;
  for (const Symbol symbol : node.symbols.broadcast(node.dimensions(), node.numbers(1))) out.push_back(named(symbol));
  return out;
}

// A size that is given is the result, unless the policy makes others of them all. A factor of 1 keeps a size.
Dimensions resample(const Shown& node) {
  Dimensions out = node.dimensions();
  const bool by_scale = node.has(2);
  const Dimensions sizes = by_scale ? Dimensions() : node.numbers(3);
  const std::vector<float> scales = by_scale ? node.floats(2) : std::vector<float>();
  List axes = node.list("axes");
  for (size_t d = 0; axes.empty() && d < out.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (node.integer("policy", 0) != 0 || (by_scale ? scales.size() : sizes.size()) != axes.size()) throw Unknown{};
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = place(axes[i], out.size());
    if (!by_scale) {
      out[d] = sizes[i];
    } else if (scales[i] != 1 || node.has(1)) {
      out[d] = named(node.made_of(d, {out[d]}));
    }
  }
  return out;
}

Dimensions fill(const Shown& node) { return node.numbers(0); }

// The numbers below a limit.
Dimensions range(const Shown& node) {
  const Dimensions start = node.numbers(0), limit = node.numbers(1), step = node.numbers(2);
  const auto is = [](const Dimensions& x, int64_t n) {
    return x.size() == 1 && x[0].symbol == no_symbol && x[0].value == n;
  };
  const bool counts = limit.size() == 1 && is(start, 0) && is(step, 1);
  if (!counts || !node.symbols.is_size(limit[0])) throw Unknown{};
  return limit;
}

Dimensions one_hot(const Shown& node) {
  Dimensions out = node.dimensions();
  node.constant(1);
  const size_t axis = place(node.integer("axis", -1), out.size() + 1);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), known(0));
  return out;
}

Dimensions top_k(const Shown& node) {
  Dimensions out = node.dimensions();
  const List k = node.constant(1);
  out[place(node.integer("axis", -1), out.size())] = known(k.empty() ? 0 : k[0]);
  return out;
}

// Windows on images N, C, ...: the weights, if there are any, say how many channels there are, and their size.
Dimensions windows(const Shown& node) {
  Dimensions out = node.dimensions(0);
  const Dimensions weights = node.dimensions(1);
  for (size_t d = 1; d < out.size(); ++d) {
    if (d == 1 && weights.empty()) continue;
    Dimensions from = weights;
    if (d > 1) from.push_back(out[d]);
    out[d] = named(node.made_of(d, from));
  }
  return out;
}

// Each size follows from that of the input alone, if all else is known.
Dimensions each_alone(const Shown& node) {
  Dimensions out = node.dimensions();
  for (size_t d = 0; d < out.size(); ++d) {
    if (d != 0) out[d] = named(node.made_of(d, {out[d]}));
  }
  return out;
}

Dimensions depth_to_space(const Shown& node) {
  Dimensions out = node.dimensions();
  const Number block = known(node.integer("block", 1));
  if (out.size() != 4) throw Unknown{};
  out[1] = named(node.made_of(1, {out[1]}));
  for (const size_t d : {2, 3}) out[d] = named(node.symbols.product(out[d], block));
  return out;
}

// A layer's results at all steps, and its last states.
Dimensions recurrent(const Shown& node) {
  const Dimensions x = node.dimensions(0), weights = node.dimensions(2);
  if (x.size() != 3 || weights.size() != 3) throw Unknown{};
  const bool batch_first = node.integer("layout", 0) != 0;
  const Number batch = x[batch_first ? 0 : 1], steps = x[batch_first ? 1 : 0], both = weights[0], size = weights[2];
  if (node.rank() == 4) {
    return batch_first ? Dimensions{batch, steps, both, size} : Dimensions{steps, both, batch, size};
  }
  return batch_first ? Dimensions{batch, both, size} : Dimensions{both, batch, size};
}

Dimensions spectrum(const Shown& node) {
  Dimensions out = node.dimensions();
  if (node.has(2) || out.empty()) throw Unknown{};
  const size_t axis = place(node.integer("axis", -2), out.size());
  const bool is_half = node.integer("onesided", 0) != 0;
  if (const auto length = node.constant(1); !length.empty()) {
    out[axis] = known(is_half ? length[0] / 2 + 1 : length[0]);
  } else if (is_half) {
    out[axis] = named(node.made_of(axis, {out[axis]}));
  }
  out.back() = known(2);
  return out;
}

// The labels of an operand of an einsum: letters, and -1, -2, ... for the dimensions of "..." from the last one on.
List labels_of(const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  const size_t letters = dots == std::string::npos ? term.size() : term.size() - 3;
  if (letters > rank) throw Unknown{};
  List labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (i != dots) {
      labels.push_back(term[i]);
      continue;
    }
    for (size_t d = rank - letters; d > 0; --d) labels.push_back(-static_cast<int64_t>(d));
    i += 2;
  }
  if (labels.size() != rank) throw Unknown{};
  return labels;
}

// A label that several operands have is broadcast among them.
Dimensions einsum(const Shown& node) {
  std::string text;
  for (const int64_t code : node.list("equation")) {
    if (code != ' ') text += static_cast<char>(code);
  }
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) throw Unknown{};
  std::map<int64_t, Number> sizes;
  size_t begin = 0;
  for (size_t i = 0; i < node.inputs(); ++i) {
    const size_t end = std::min(text.find(',', begin), arrow);
    const Dimensions x = node.dimensions(i);
    const List labels = labels_of(text.substr(begin, end - begin), x.size());
    for (size_t d = 0; d < labels.size(); ++d) {
      const auto [at, fresh] = sizes.emplace(labels[d], x[d]);
      if (fresh) continue;
      const Symbol both = node.symbols.broadcast(Dimensions{at->second}, Dimensions{x[d]})[0];
      at->second = {at->second.value == 1 ? x[d].value : at->second.value, both};
    }
    begin = std::min(end + 1, arrow);
  }
  Dimensions out;
  for (const int64_t label : labels_of(text.substr(arrow + 2), node.rank())) {
    const auto at = sizes.find(label);
    if (at == sizes.end()) throw Unknown{};
    out.push_back(at->second);
  }
  return out;
}

struct Rule {
  const char* kind;
  Dimensions (*apply)(const Shown& node);
};

constexpr Rule rules[] = {
    {"all_true", first},
    {"any_exp", first},
    {"any_hard_swish", first},
    {"any_lrn", first},
    {"any_sigmoid", first},
    {"any_softmax", first},
    {"any_tanh", first},
    {"arg_max", place_of_extreme},
    {"arg_min", place_of_extreme},
    {"attention", attention},
    {"batch_norm_computed", first},
    {"conv", windows},
    {"conv_transposed", windows},
    {"cumulative_product", first},
    {"cumulative_sum", first},
    {"depth_to_space", depth_to_space},
    {"dft", spectrum},
    {"einsum", einsum},
    {"expand", expand},
    {"expand_sizes", expand},
    {"fill", fill},
    {"fill_sizes", fill},
    {"gather", gather},
    {"gather_elements", second},
    {"gather_nd", gather_nd},
    {"group_norm", first},
    {"gru", recurrent},
    {"identity", first},
    {"join", join},
    {"l2_normalize", first},
    {"layer_norm", first},
    {"log_softmax", first},
    {"lp_norm", first},
    {"lstm", recurrent},
    {"mat_mul_integer", matmul},
    {"matmul", matmul},
    {"mean_variance_norm", first},
    {"one_hot", one_hot},
    {"pad_by", pad},
    {"pad_sizes", pad},
    {"permute", permute},
    {"random_like", first},
    {"range_sizes", range},
    {"resample", resample},
    {"resample_sizes", resample},
    {"reshape_to", reshape},
    {"reshape_sizes", reshape},
    {"reverse_sequence", first},
    {"rms_norm", first},
    {"rnn", recurrent},
    {"rotary_embedding", first},
    {"scatter_elements", first},
    {"scatter_nd", first},
    {"slice_by", slice},
    {"slice_sizes", slice},
    {"space_to_depth", each_alone},
    {"split_to", split},
    {"squeeze", squeeze},
    {"tensor_scatter", first},
    {"tile", tile},
    {"tile_sizes", tile},
    {"top_k", top_k},
    {"trilu", first},
    {"unsqueeze", unsqueeze},
    {"window_average", windows},
    {"window_norm", windows},
};

// Kinds whose rule is that of a group.
decltype(Rule::apply) find_rule(const Node& node) {
  const std::string_view name = node.type.c_str();
  const auto at = std::find_if(std::begin(rules), std::end(rules), [&](const Rule& rule) { return name == rule.kind; });
  if (at != std::end(rules)) return at->apply;
  if (name.starts_with("reduce_")) return reduce;
  const qn_kind* const kind = find_kind(node.type.c_str());
  return kind != nullptr && (kind->flags & QN_KIND_ELEMENTWISE) != 0 ? broadcast : nullptr;
}

}  // namespace

std::optional<std::vector<Symbol>> symbols_of_kind(Symbols& symbols, const Graph& graph, const Node& node,
                                                   size_t output) {
  const auto rule = find_rule(node);
  const Shown shown(symbols, graph, node, output);
  // The statistics of a normalization have another shape than its first output.
  if (rule == nullptr || ((rule == first || rule == attention) && output != 0)) return std::nullopt;
  try {
    std::vector<Symbol> out;
    for (const Number& size : rule(shown)) out.push_back(size.symbol);
    if (out.size() == shown.rank()) return out;
  } catch (const Unknown&) {}
  return std::nullopt;
}

Symbol symbol_of_rank(const Symbols& symbols, const Graph& graph, const Node& node) {
  if (node.type != "gather_nd") return no_symbol;
  const Symbols::Dimensions tuples = symbols.dimensions(graph, node.inputs[1]);
  return tuples.empty() ? no_symbol : tuples.back().symbol;
}

}  // namespace quern::convert
