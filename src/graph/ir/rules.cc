#include "graph/ir/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/math.h"
#include "base/needs.h"
#include "base/search.h"
#include "base/status.h"
#include "op/core/window.h"

namespace quern {

#ifndef QN_NO_MESSAGES
qn_status fail_node(const Node& node, const char* format, ...) {
  char text[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return fail(QN_BAD_MODEL, "node '%.100s' (%s): %s", node.name.c_str(), kind_name(node), text);
}
#endif

void same_padding(SamePadding kind, size_t size, size_t kernel, size_t stride, size_t dilation, size_t* before,
                  size_t* after) {
  const uint64_t span = uint64_t{divide_up(size, stride) - 1} * stride + window_extent(kernel, dilation);
  const size_t total = span > size ? static_cast<size_t>(span - size) : 0;
  *after = kind == SamePadding::odd_pixel_last ? total - total / 2 : total / 2;
  *before = total - *after;
}

namespace {

bool is_vector_of(const Shape& shape, size_t n) { return shape.size() == 1 && shape[0] == n; }

qn_status need_image(const NodeView& v) {
  if (v.shape(0).size() == 4) return QN_OK;
  return fail_node(v.node, "the input has rank %zu, not 4", v.shape(0).size());
}

// Checks that an input, if there is one, is a vector with one element per channel.
qn_status need_channels(const NodeView& v, size_t input, size_t channels, const char* what) {
  if (!v.has(input) || is_vector_of(v.shape(input), channels)) return QN_OK;
  return fail_node(v.node, "the %s is not a vector of %zu elements", what, channels);
}

qn_status check_clamp(const Node& node) {
  const Attributes& a = node.attributes;
  return a.min <= a.max ? QN_OK : fail_node(node, "min %g is above max %g", double{a.min}, double{a.max});
}

// ---- windows

// Checks the padding of a window. SAME padding must be what the present size of the image gives.
qn_status check_padding(const Node& node, const Shape& x, const qn_hw& kernel) {
  const Attributes& a = node.attributes;
  if (a.same_padding == SamePadding::no) return QN_OK;
  qn_padding p;
  same_padding(a.same_padding, x[1], kernel.h, a.stride.h, a.dilation.h, &p.top, &p.bottom);
  same_padding(a.same_padding, x[2], kernel.w, a.stride.w, a.dilation.w, &p.left, &p.right);
  const qn_padding& own = a.padding;
  if (p.top == own.top && p.left == own.left && p.bottom == own.bottom && p.right == own.right) return QN_OK;
  return fail_node(node, "SAME padding, but not for %zu x %zu pixels", x[1], x[2]);
}

qn_status infer_conv2d(const NodeView& v, Shape* out) {
  QN_TRY(need_image(v));
  const Attributes& a = v.node.attributes;
  const Shape& x = v.shape(0);
  const Shape& w = v.shape(1);
  if (w.size() != 4) return fail_node(v.node, "the weights have rank %zu, not 4", w.size());
  if (x[3] % a.groups != 0 || w[3] != x[3] / a.groups) {
    return fail_node(v.node, "weights for %zu input channels in each of %zu groups, but the input has %zu", w[3],
                     a.groups, x[3]);
  }
  if (w[0] % a.groups != 0) {
    return fail_node(v.node, "%zu output channels are not a multiple of %zu groups", w[0], a.groups);
  }
  QN_TRY(need_channels(v, 2, w[0], "bias"));
  QN_TRY(check_padding(v.node, x, {w[1], w[2]}));
  const size_t h = window_output(x[1], w[1], a.stride.h, a.dilation.h, a.padding.top, a.padding.bottom, false);
  const size_t width = window_output(x[2], w[2], a.stride.w, a.dilation.w, a.padding.left, a.padding.right, false);
  if (h == 0 || width == 0) return fail_node(v.node, "the kernel is larger than the padded input");
  *out = {x[0], h, width, w[0]};
  return QN_OK;
}

qn_status check_pool(const Node& node) {
  const Attributes& a = node.attributes;
  const uint64_t h = window_extent(a.kernel.h, a.dilation.h), w = window_extent(a.kernel.w, a.dilation.w);
  if (std::max(a.padding.top, a.padding.bottom) >= h || std::max(a.padding.left, a.padding.right) >= w) {
    return fail_node(node, "the padding is not smaller than the kernel");
  }
  return QN_OK;
}

qn_status check_pool_rounding(const Node& node) {
  const Attributes& a = node.attributes;
  const bool averages = node.kind == OpKind::average_pool || node.kind == OpKind::global_average_pool;
  const bool plain = !a.count_padding && a.dilation.h == 1 && a.dilation.w == 1;
  if (a.pool_rounding == QN_POOL_ROUND_REAL || (averages && plain)) return QN_OK;
  return fail_node(node, "pool_rounding is for averages without count_padding or dilation");
}

qn_status infer_pool(const NodeView& v, Shape* out) {
  QN_TRY(need_image(v));
  const Attributes& a = v.node.attributes;
  const Shape& x = v.shape(0);
  QN_TRY(check_padding(v.node, x, a.kernel));
  const size_t h =
      window_output(x[1], a.kernel.h, a.stride.h, a.dilation.h, a.padding.top, a.padding.bottom, a.ceil_mode);
  const size_t w =
      window_output(x[2], a.kernel.w, a.stride.w, a.dilation.w, a.padding.left, a.padding.right, a.ceil_mode);
  if (h == 0 || w == 0) return fail_node(v.node, "the kernel is larger than the padded input");
  *out = {x[0], h, w, x[3]};
  return QN_OK;
}

qn_status infer_global_pool(const NodeView& v, Shape* out) {
  QN_TRY(need_image(v));
  *out = {v.shape(0)[0], 1, 1, v.shape(0)[3]};
  return QN_OK;
}

qn_status check_resize(const Node& node) {
  const Attributes& a = node.attributes;
  if (a.values.empty()) {
    const auto valid = [](float scale) { return scale > 0 && scale <= static_cast<float>(max_extent); };
    if (!valid(a.alpha) || !valid(a.beta)) return fail_node(node, "the scales are out of range");
    return QN_OK;
  }
  const auto valid = [](int64_t size) { return size >= 1 && size <= int64_t{max_extent}; };
  if (a.values.size() != 2 || !valid(a.values[0]) || !valid(a.values[1])) {
    return fail_node(node, "the output size is not two positive numbers");
  }
  return QN_OK;
}

qn_status infer_resize(const NodeView& v, Shape* out) {
  QN_TRY(need_image(v));
  const Attributes& a = v.node.attributes;
  const Shape& x = v.shape(0);
  const float scales[2] = {a.alpha, a.beta};
  size_t size[2];
  for (size_t i = 0; i < 2; ++i) {
    if (!a.values.empty()) {
      size[i] = static_cast<size_t>(a.values[i]);
      continue;
    }
    const float scaled = std::floor(static_cast<float>(x[1 + i]) * scales[i]);  // as the operator does
    if (!(scaled >= 1 && scaled <= static_cast<float>(max_extent))) {
      return fail_node(v.node, "an output size of %g is out of range", double{scaled});
    }
    size[i] = static_cast<size_t>(scaled);
  }
  *out = {x[0], size[0], size[1], x[3]};
  return QN_OK;
}

// ---- elements and channels

qn_status infer_same(const NodeView& v, Shape* out) {
  *out = v.shape(0);
  return QN_OK;
}

qn_status infer_binary(const NodeView& v, Shape* out) {
  const Shape& a = v.shape(0);
  const Shape& b = v.shape(1);
  out->assign(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= out->size(); ++i) {  // counted from the innermost
    const size_t da = i <= a.size() ? a[a.size() - i] : 1;
    const size_t db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1) {
      return fail_node(v.node, "dimensions %zu and %zu do not broadcast", da, db);
    }
    (*out)[out->size() - i] = da == 1 ? db : da;
  }
  return QN_OK;
}

qn_status infer_fully_connected(const NodeView& v, Shape* out) {
  const Shape& x = v.shape(0);
  const Shape& w = v.shape(1);
  if (x.empty()) return fail_node(v.node, "the input is a scalar");
  if (w.size() != 2 || w[1] != x.back()) {
    return fail_node(v.node, "the weights are not a matrix with %zu columns", x.back());
  }
  QN_TRY(need_channels(v, 2, w[0], "bias"));
  *out = x;
  out->back() = w[0];
  return QN_OK;
}

qn_status infer_channels(const NodeView& v, Shape* out) {
  const Shape& x = v.shape(0);
  if (x.empty()) return fail_node(v.node, "the input is a scalar");
  QN_TRY(need_channels(v, 1, x.back(), v.node.kind == OpKind::prelu ? "slope" : "scale"));
  QN_TRY(need_channels(v, 2, x.back(), "bias"));
  return infer_same(v, out);
}

qn_status check_lrn(const Node& node) {
  const Attributes& a = node.attributes;
  if (a.size == 0) return fail_node(node, "the size is 0");
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta) || !std::isfinite(a.gamma)) {
    return fail_node(node, "a parameter is not finite");
  }
  return QN_OK;
}

qn_status infer_lrn(const NodeView& v, Shape* out) {
  if (v.shape(0).empty()) return fail_node(v.node, "the input is a scalar");
  return infer_same(v, out);
}

qn_status check_power(const Node& node) {
  const Attributes& a = node.attributes;
  if (!std::isfinite(a.alpha) || !std::isfinite(a.beta) || !std::isfinite(a.gamma)) {
    return fail_node(node, "a parameter is not finite");
  }
  return QN_OK;
}

// ---- shapes

qn_status need_axis(const NodeView& v) {
  const size_t rank = v.shape(0).size();
  if (static_cast<size_t>(v.node.attributes.axis) < rank) return QN_OK;
  return fail_node(v.node, "axis %d of a tensor of rank %zu", v.node.attributes.axis, rank);
}

qn_status infer_softmax(const NodeView& v, Shape* out) {
  QN_TRY(need_axis(v));
  return infer_same(v, out);
}

qn_status infer_concat(const NodeView& v, Shape* out) {
  QN_TRY(need_axis(v));
  const size_t axis = static_cast<size_t>(v.node.attributes.axis);
  *out = v.shape(0);
  for (size_t i = 1; i < v.node.inputs.size(); ++i) {
    const Shape& x = v.shape(i);
    bool equal = x.size() == out->size();
    for (size_t d = 0; equal && d < x.size(); ++d) equal = d == axis || x[d] == (*out)[d];
    if (!equal) return fail_node(v.node, "input %zu does not have the shape of the first", i);
    if (!checked_add((*out)[axis], x[axis], &(*out)[axis])) return fail_node(v.node, "the size overflows");
  }
  return QN_OK;
}

qn_status check_pad(const Node& node) {
  for (const int64_t value : node.attributes.values) {
    if (value < 0 || value > int64_t{max_extent}) return fail_node(node, "a width of padding is out of range");
  }
  return QN_OK;
}

// `values` holds `per_dimension` numbers for each dimension.
qn_status need_values(const NodeView& v, size_t per_dimension) {
  const size_t want = v.shape(0).size() * per_dimension;
  if (v.node.attributes.values.size() == want) return QN_OK;
  return fail_node(v.node, "%zu values where the input of rank %zu needs %zu", v.node.attributes.values.size(),
                   v.shape(0).size(), want);
}

qn_status infer_pad(const NodeView& v, Shape* out) {
  QN_TRY(need_values(v, 2));
  const Vector<int64_t>& values = v.node.attributes.values;
  const size_t rank = v.shape(0).size();
  *out = v.shape(0);
  for (size_t d = 0; d < rank; ++d) {
    (*out)[d] += static_cast<size_t>(values[d]) + static_cast<size_t>(values[rank + d]);
  }
  return QN_OK;
}

qn_status check_reshape(const Node& node) {
  const Vector<int64_t>& values = node.attributes.values;
  if (values.size() > QN_MAX_RANK) return fail_node(node, "rank %zu is above %d", values.size(), QN_MAX_RANK);
  if (any_of(values, [](int64_t x) { return x < -1 - QN_MAX_RANK; })) {
    return fail_node(node, "a dimension is negative");
  }
  if (std::count(values.begin(), values.end(), -1) > 1) return fail_node(node, "two dimensions are to be inferred");
  return QN_OK;
}

// The number of elements if dimensions of 0 were 1.
size_t count_of_one(const Shape& shape) {
  size_t count = 1;
  for (const size_t d : shape) count *= std::max<size_t>(d, 1);
  return count;
}

qn_status infer_reshape(const NodeView& v, Shape* out) {
  const Vector<int64_t>& values = v.node.attributes.values;
  const Shape& x = v.shape(0);
  size_t total = 1, known = 1;
  for (const size_t d : x) total *= d;  // a tensor's size does not overflow
  out->resize(values.size());
  for (size_t d = 0; d < values.size(); ++d) {
    const int64_t copied = copied_dimension(values[d], d);
    if (copied >= static_cast<int64_t>(x.size())) {
      return fail_node(v.node, "dimension %d is to be copied, but absent", static_cast<int>(copied));
    }
    const bool fits = values[d] <= 0 || std::in_range<size_t>(values[d]);
    (*out)[d] = values[d] > 0 ? static_cast<size_t>(values[d]) : copied >= 0 ? x[static_cast<size_t>(copied)] : 1;
    if (!fits || !checked_mul(known, (*out)[d], &known)) return fail_node(v.node, "the size overflows");
  }
  const size_t inferred = place_of(values, [](int64_t value) { return value == -1; });
  bool equal = total == known;
  if (inferred < values.size()) {
    const bool any = total == 0 && known == 0;  // any size would do: take that for a batch of one
    const size_t of = any ? count_of_one(x) : total, to = any ? count_of_one(*out) : known;
    equal = to != 0 && of % to == 0;
    if (equal) (*out)[inferred] = of / to;
  }
  if (!equal) return fail_node(v.node, "%zu elements cannot take the new shape", total);
  return QN_OK;
}

qn_status infer_transpose(const NodeView& v, Shape* out) {
  QN_TRY(need_values(v, 1));
  const Vector<int64_t>& order = v.node.attributes.values;
  const Shape& x = v.shape(0);
  out->resize(x.size());
  unsigned seen = 0;
  for (size_t d = 0; d < x.size(); ++d) {
    if (order[d] < 0 || order[d] >= static_cast<int64_t>(x.size()) || (seen >> order[d] & 1) != 0) {
      return fail_node(v.node, "the values are not a permutation");
    }
    seen |= 1u << order[d];
    (*out)[d] = x[static_cast<size_t>(order[d])];
  }
  return QN_OK;
}

qn_status infer_slice(const NodeView& v, Shape* out) {
  QN_TRY(need_values(v, 2));
  const Vector<int64_t>& values = v.node.attributes.values;
  const Shape& x = v.shape(0);
  out->resize(x.size());
  for (size_t d = 0; d < x.size(); ++d) {
    const int64_t begin = slice_bound(values[d], x[d]), end = slice_bound(values[x.size() + d], x[d]);
    if (begin < 0 || begin > end || end > static_cast<int64_t>(x[d])) {
      return fail_node(v.node, "dimension %zu: expected bounds in 0..%zu, got %lld, %lld", d, x[d],
                       static_cast<long long>(begin), static_cast<long long>(end));
    }
    (*out)[d] = static_cast<size_t>(end - begin);
  }
  return QN_OK;
}

struct Rule {
  qn_status (*infer)(const NodeView& view, Shape* outputs);
  qn_status (*check)(const Node& node) = nullptr;  // checks more than the clamp; NULL: there is no more to check
  constexpr bool checks_more() const { return check != nullptr; }
};

constexpr Rule conv2d_rule = {infer_conv2d};
constexpr Rule fully_connected_rule = {infer_fully_connected};
constexpr Rule max_pool_rule = {infer_pool, check_pool};
constexpr Rule average_pool_rule = max_pool_rule;
constexpr Rule global_max_pool_rule = {infer_global_pool};
constexpr Rule global_average_pool_rule = global_max_pool_rule;
constexpr Rule add_rule = {infer_binary};
constexpr Rule sub_rule = add_rule;
constexpr Rule mul_rule = add_rule;
constexpr Rule div_rule = add_rule;
constexpr Rule clamp_rule = {infer_same};
constexpr Rule sigmoid_rule = clamp_rule;
constexpr Rule tanh_rule = clamp_rule;
constexpr Rule hard_swish_rule = clamp_rule;
constexpr Rule exp_rule = clamp_rule;
constexpr Rule power_rule = {infer_same, check_power};
constexpr Rule prelu_rule = {infer_channels};
constexpr Rule scale_rule = {infer_channels};
constexpr Rule softmax_rule = {infer_softmax};
constexpr Rule concat_rule = {infer_concat};
constexpr Rule lrn_rule = {infer_lrn, check_lrn};
constexpr Rule pad_rule = {infer_pad, check_pad};
constexpr Rule resize_rule = {infer_resize, check_resize};
constexpr Rule reshape_rule = {infer_reshape, check_reshape};
constexpr Rule transpose_rule = {infer_transpose};
constexpr Rule slice_rule = {infer_slice};
#ifndef QN_NO_INTEGERS
constexpr Rule quantize_rule = {infer_same};
constexpr Rule dequantize_rule = {infer_same};
constexpr Rule requantize_rule = {infer_same};
#endif

}  // namespace

// Branches, not a table: the loader would have to relocate its addresses.

qn_status check_rule(const Node& node) {
  if (kind_of(node.kind).has(Kind::clamps)) QN_TRY(check_clamp(node));
  if (has_integers) QN_TRY(check_pool_rounding(node));
  switch (node.kind) {
#define QN_OP(kind, ...)                                                                            \
  case OpKind::kind:                                                                                \
    if constexpr (has_operator(#kind) && kind##_rule.checks_more()) return kind##_rule.check(node); \
    break;
#include "graph/ir/op.inc"
#undef QN_OP
    default: break;
  }
  return QN_OK;
}

qn_status check_parameters(const NodeView& view) {
  const Node& node = view.node;
  const Kind& kind = kind_of(node.kind);
  const size_t values = node.attributes.values.size();
  if (node.kind == OpKind::transpose && values > QN_MAX_RANK) return fail_node(node, "%zu values are too many", values);
  if (!kind.has(Kind::parameters)) return QN_OK;
  const size_t rank = !kind.has_weights() ? 1 : node.kind == OpKind::fully_connected ? 2 : 4;
  const Shape& first = view.shape(1);
  if (first.size() != rank) return fail_node(node, "input 1 has rank %zu, not %zu", first.size(), rank);
  return need_channels(view, 2, first[0], "bias");
}

qn_status infer_outputs(const NodeView& view, Shape* outputs) {
  if (has_backends && view.node.kind == OpKind::copy) return infer_same(view, outputs);
  switch (view.node.kind) {
#define QN_OP(kind, ...)                                                        \
  case OpKind::kind:                                                            \
    if constexpr (has_operator(#kind)) return kind##_rule.infer(view, outputs); \
    break;
#include "graph/ir/op.inc"
#undef QN_OP
    default: break;
  }
  return QN_UNSUPPORTED;
}

}  // namespace quern
