#include "convert/common/images.h"

#include "base/math.h"

namespace quern::convert {

void fix_dimension(const SourceNode& node, const Value& x, size_t dimension) {
  if (x.view) node.fix(node.builder.symbol(x.view, dimension));
}

Value of_channels_last(const SourceNode& node, const char* kind, const Value& x, Parameters parameters) {
  const auto rank = static_cast<int64_t>(rank_of(node, x));
  if (rank < 3) node.fail("expected an image tensor of rank 3 or more, got rank " + std::to_string(rank));
  std::vector<int64_t> in = {0, rank - 1}, out = {0};
  for (int64_t d = 1; d < rank - 1; ++d) {
    in.push_back(d);
    out.push_back(d + 1);
  }
  out.push_back(1);
  return permuted(node, make(node, kind, {permuted(node, x, in)}, std::move(parameters)), out);
}

// ---- blocks -----------------------------------------------------------------------------------

namespace {

// Returns the shape of an image that is divided, or put together. Its batch may change with the size of inputs.
Shape divided_shape(const SourceNode& node, const Value& x, const std::vector<int64_t>& block,
                    const std::vector<int64_t>& pairs) {
  const Shape shape = shape_at_import(node, x);
  if (pairs.size() != 2 * block.size() || shape.size() <= block.size()) node.fail("blocks do not fit");
  for (size_t d = 1; d < shape.size(); ++d) fix_dimension(node, x, d);
  for (const int64_t size : block) {
    if (size < 1 || size > (1 << 20)) node.fail("a block has " + std::to_string(size) + " elements");
  }
  for (const int64_t size : pairs) {
    if (size < 0 || size > (1 << 30)) node.fail("pads or crops are out of range");
  }
  return shape;
}

}  // namespace

Value space_to_batch(const SourceNode& node, const Value& x, const std::vector<int64_t>& block,
                     const std::vector<int64_t>& pairs) {
  const Shape in = divided_shape(node, x, block, pairs);
  const size_t n = block.size(), rank = in.size();
  std::vector<int64_t> pads(2 * rank, 0), shape = {-1}, order, inner = {0}, out = {-1};
  for (size_t d = 0; d < n; ++d) {
    pads[1 + d] = pairs[2 * d];
    pads[rank + 1 + d] = pairs[2 * d + 1];
    const int64_t size = static_cast<int64_t>(in[1 + d]) + pairs[2 * d] + pairs[2 * d + 1];
    if (size % block[d] != 0) node.fail("blocks do not divide dimension " + std::to_string(1 + d));
    shape.insert(shape.end(), {size / block[d], block[d]});
    order.push_back(static_cast<int64_t>(2 + 2 * d));
    inner.push_back(static_cast<int64_t>(1 + 2 * d));
    out.push_back(size / block[d]);
  }
  order.insert(order.end(), inner.begin(), inner.end());
  for (size_t d = 1 + n; d < rank; ++d) {
    order.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(static_cast<int64_t>(in[d]));
    out.push_back(static_cast<int64_t>(in[d]));
  }
  const Value padded = make(node, "pad_by", {x, integer_list(pads)});
  return reshaped(node, permuted(node, reshaped(node, padded, shape), order), out);
}

Value batch_to_space(const SourceNode& node, const Value& x, const std::vector<int64_t>& block,
                     const std::vector<int64_t>& pairs) {
  const Shape in = divided_shape(node, x, block, pairs);
  const size_t n = block.size(), rank = in.size();
  std::vector<int64_t> shape = block, order = {static_cast<int64_t>(n)}, out = {-1}, begin, end, axes;
  size_t blocks = 1;
  for (const int64_t size : block) {
    if (!checked_mul(blocks, static_cast<size_t>(size), &blocks)) node.fail("the blocks are too large");
  }
  if (in[0] % blocks != 0) node.fail("blocks do not divide the batch");
  shape.push_back(-1);
  for (size_t d = 0; d < n; ++d) {
    const int64_t size = static_cast<int64_t>(in[1 + d]) * block[d];
    if (pairs[2 * d] + pairs[2 * d + 1] > size) node.fail("crops are larger than dimension " + std::to_string(d));
    shape.push_back(static_cast<int64_t>(in[1 + d]));
    order.insert(order.end(), {static_cast<int64_t>(n + 1 + d), static_cast<int64_t>(d)});
    out.push_back(size);
    begin.push_back(pairs[2 * d]);
    end.push_back(size - pairs[2 * d + 1]);
    axes.push_back(static_cast<int64_t>(1 + d));
  }
  for (size_t d = 1 + n; d < rank; ++d) {
    order.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(static_cast<int64_t>(in[d]));
    out.push_back(static_cast<int64_t>(in[d]));
  }
  const Value whole = reshaped(node, permuted(node, reshaped(node, x, shape), order), out);
  return sliced(node, whole, begin, end, axes);
}

// ---- transposed convolution -------------------------------------------------------------------

namespace {

// Fixes a dimension of the input and of the output, unless the padding is the same for all: where it follows the
// output, and this is the input times the stride.
void fix_pads(const SourceNode& node, const Value& x, const TransposedConvolution& c, size_t d, int64_t reach) {
  const Symbol from = x.view ? node.builder.symbol(x.view, 1 + d) : no_symbol;
  const Symbol scaled = node.builder.symbols().product({0, from}, {c.strides[d]});
  if (c.same && c.size[d].symbol == scaled && reach >= c.strides[d]) return;
  node.fix(from);
  node.fix(c.size[d].symbol);
}

}  // namespace

Value transposed_convolution(const SourceNode& node, const Value& x, const Value& weights, const Value& bias,
                             const TransposedConvolution& c) {
  const Shape image = shape_at_import(node, x), taps = shape_at_import(node, weights);
  if (image.size() != 4 || taps.size() != 4) node.fail("tensors are not of rank 4");
  std::vector<int64_t> pads = c.pads, more(2, 0);
  for (size_t d = 0; d < 2; ++d) {
    constexpr int64_t most = 1 << 20;
    const int64_t size = c.size[d].value;
    if (c.strides[d] < 1 || c.strides[d] > most) node.fail("a stride is out of range");
    if (c.dilations[d] < 1 || c.dilations[d] > most) node.fail("a dilation is out of range");
    if (size < 1 || size >= int64_t{1} << 31) node.fail("the shape of the output is out of range");
    if (taps[2 + d] < 1 || taps[2 + d] > most) node.fail("the weights have no such window");
    const auto pixels = static_cast<int64_t>(image[1 + d]);
    const int64_t reach = static_cast<int64_t>(taps[2 + d] - 1) * c.dilations[d] + 1;
    fix_pads(node, x, c, d, reach);
    const int64_t whole = (pixels - 1) * c.strides[d] + reach;
    // How far windows reach beyond the output, half of it before.
    const int64_t beyond = std::max<int64_t>(whole - size, 0);
    if (c.same) pads[d] = beyond / 2;
    const int64_t read = c.same ? size + c.strides[d] - 1 : size + pads[d] + pads[2 + d] - reach + c.strides[d];
    if (read < c.strides[d] || read / c.strides[d] != pixels) {
      node.fail("an output of " + std::to_string(size) + " pixels does not fit an input of " + std::to_string(pixels));
    }
    pads[2 + d] = whole - pads[d] - size;
    if (pads[2 + d] < 0) more[d] = -std::exchange(pads[2 + d], 0);
  }
  Values inputs = {permuted(node, x, {0, 3, 1, 2}), weights};
  if (bias) inputs.push_back(bias);
  Parameters parameters = Parameters()
                              .integers("strides", c.strides)
                              .integers("dilations", c.dilations)
                              .integers("pads", pads)
                              .integers("output_padding", more)
                              .integer("groups", 1);
  return permuted(node, make(node, "conv_transposed", inputs, std::move(parameters)), {0, 2, 3, 1});
}

}  // namespace quern::convert
