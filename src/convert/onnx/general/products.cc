// Products of matrices and convolutions.
#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

Values gemm(const OnnxNode& node) {
  Parameters parameters;
  parameters = std::move(parameters)
                   .number("alpha", node.number("alpha", 1))
                   .number("beta", node.number("beta", 1))
                   .integer("trans_a", node.integer("transA", 0))
                   .integer("trans_b", node.integer("transB", 0));
  return of_kind(node, "gemm", std::move(parameters), {node.value(0).type});
}

Values einsum(const OnnxNode& node) {
  const std::string equation = node.text("equation", "");
  return of_kind(node, "einsum", Parameters().integers("equation", {equation.begin(), equation.end()}),
                 {node.value(0).type});
}

// ---- windows

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
};

// Reads an attribute with a number for each dimension of space.
std::vector<int64_t> numbers(const OnnxNode& node, const char* attribute, size_t count, int64_t otherwise) {
  std::vector<int64_t> list = node.integer_list(attribute);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count) node.fail(std::string(attribute) + " has " + std::to_string(list.size()) + " numbers");
  constexpr int64_t limit = int64_t{1} << 31;
  for (const int64_t number : list) {
    if (number < 0 || number >= limit) node.fail(std::string(attribute) + " is out of range");
  }
  return list;
}

// Reads the attributes of a convolution with the weights of input 1, except for auto_pad.
Window window_of(const OnnxNode& node) {
  const Shape weights = node.builder.shape(node.view(1));
  if (weights.size() < 3) node.fail("weights of rank " + std::to_string(weights.size()));
  const size_t rank = weights.size() - 2;
  Window window = {{weights.begin() + 2, weights.end()},
                   numbers(node, "strides", rank, 1),
                   numbers(node, "dilations", rank, 1),
                   numbers(node, "pads", 2 * rank, 0)};
  if (numbers(node, "kernel_shape", rank, 0) != window.kernel && node.has_attribute("kernel_shape")) {
    node.fail("kernel_shape differs from the weights");
  }
  return window;
}

std::string auto_pad(const OnnxNode& node) {
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    node.fail("auto_pad is '" + mode + "'");
  }
  return mode;
}

// Divides the padding of dimension d between its two sides.
void divide(Window* window, size_t d, int64_t padding, bool more_behind) {
  const int64_t smaller = padding / 2;
  window->pads[d] = more_behind ? smaller : padding - smaller;
  window->pads[window->kernel.size() + d] = more_behind ? padding - smaller : smaller;
}

// So many pads that there is an output for every stride of the input.
void pad_as_input(const OnnxNode& node, const std::string& mode, Window* window) {
  const Shape x = node.builder.shape(node.view(0));
  if (x.size() != window->kernel.size() + 2) node.fail("input and weights differ in rank");
  for (size_t d = 0; d < window->kernel.size(); ++d) {
    const auto pixels = static_cast<int64_t>(x[d + 2]);
    const int64_t stride = std::max<int64_t>(window->strides[d], 1), places = (pixels + stride - 1) / stride;
    const int64_t reach = (places - 1) * stride + (window->kernel[d] - 1) * window->dilations[d] + 1;
    if (stride != 1) node.fix(node.dimension(0, d + 2).symbol);  // other sizes may need other pads
    divide(window, d, std::max<int64_t>(reach - pixels, 0), mode == "SAME_UPPER");
  }
}

Parameters with_window(const OnnxNode& node, const Window& window) {
  return Parameters()
      .integers("strides", window.strides)
      .integers("dilations", window.dilations)
      .integers("pads", window.pads)
      .integer("groups", node.integer("group", 1));
}

Values conv(const OnnxNode& node) {
  Window window = window_of(node);
  const std::string mode = auto_pad(node);
  if (mode == "VALID") std::fill(window.pads.begin(), window.pads.end(), 0);
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") pad_as_input(node, mode, &window);
  return of_kind(node, "conv", with_window(node, window), {node.value(0).type});
}

// Sets the padding that gives a transposed convolution the output that output_shape or auto_pad demand.
void pad_to_output(const OnnxNode& node, const std::string& mode, std::vector<int64_t>* more, Window* window) {
  const std::vector<int64_t> wanted = node.integer_list("output_shape");
  const size_t rank = window->kernel.size();
  const Shape x = node.builder.shape(node.view(0));
  if (x.size() != rank + 2) node.fail("input and weights differ in rank");
  if (!wanted.empty() && wanted.size() != rank && wanted.size() != rank + 2)
    node.fail("output_shape does not fit the rank");
  for (size_t d = 0; d < rank; ++d) {
    const auto pixels = static_cast<int64_t>(x[d + 2]);
    const int64_t whole =
        (pixels - 1) * window->strides[d] + (*more)[d] + (window->kernel[d] - 1) * window->dilations[d] + 1;
    const int64_t size = wanted.empty() ? pixels * window->strides[d] : wanted[wanted.size() - rank + d];
    if (size < 0 || size > INT32_MAX) node.fail("output_shape is out of range");
    if (!wanted.empty()) node.fix(node.dimension(0, d + 2).symbol);
    divide(window, d, std::max<int64_t>(whole - size, 0), mode == "SAME_UPPER");
    (*more)[d] += std::max<int64_t>(size - whole, 0);  // no window reaches there
  }
}

Values conv_transpose(const OnnxNode& node) {
  Window window = window_of(node);
  std::vector<int64_t> more = numbers(node, "output_padding", window.kernel.size(), 0);
  const std::string mode = auto_pad(node);
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (mode == "VALID") std::fill(window.pads.begin(), window.pads.end(), 0);
  if (same || !node.integer_list("output_shape").empty()) pad_to_output(node, mode, &more, &window);
  return of_kind(node, "conv_transposed", with_window(node, window).integers("output_padding", more),
                 {node.value(0).type});
}

Values deform_conv(const OnnxNode& node) {
  return of_kind(node, "deform_conv",
                 with_window(node, window_of(node)).integer("offset_groups", node.integer("offset_group", 1)),
                 {node.value(0).type});
}

}  // namespace

const OnnxTable& general_products() {
  static const OnnxTable table = {
      {"Conv", {conv, 2, 3}},
      {"ConvTranspose", {conv_transpose, 2, 3}},
      {"DeformConv", {deform_conv, 3, 5}},
      {"Einsum", {einsum, 1, 64}},
      {"Gemm", {gemm, 2, 3}},
      {"MatMul", {plain<"matmul">, 2, 2}},
  };
  return table;
}

}  // namespace quern::onnx
