// check_tensors() and what it checks of a single tensor: name, size, constant, scales.
#include <algorithm>
#include <cstdio>

#include "base/math.h"
#include "base/search.h"
#include "base/tensor.h"
#include "graph/ir/check.h"

namespace quern {

constexpr size_t max_name = 1024;

bool is_name(std::string_view name) {
  if (name.size() > max_name) return false;
  for (size_t i = 0; i < name.size();) {
    const auto byte = [&](size_t at) { return at < name.size() ? static_cast<unsigned char>(name[at]) : 0u; };
    const unsigned first = byte(i++);
    if (first < 0x20 || first == 0x7f) return false;
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const size_t continuations = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    unsigned code = first & (0x3fu >> continuations);
    for (size_t k = 0; k < continuations; ++k, ++i) {
      if ((byte(i) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i) & 0x3f);
    }
    const unsigned least[] = {0xa0, 0x800, 0x10000};  // a lower code has a shorter form, or is a control character
    if (code < least[continuations - 1] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

qn_status check_shape(const Shape& shape, qn_type type, const char* what, size_t index) {
  size_t bytes;
  if (!tensor_size(type, shape, &bytes)) return fail(QN_BAD_MODEL, "%s %zu: the size overflows", what, index);
  return QN_OK;
}

#ifndef QN_NO_INTEGERS
// Checks the scales of blocks.
static qn_status check_blocks(const Tensor& tensor, const char* who) {
  const Quantization& q = tensor.quantization;
  if (tensor.constant < 0 || tensor.type != QN_S8 || tensor.shape.empty() || q.axis != 0 || !q.zero_points.empty()) {
    return fail(QN_BAD_MODEL, "%s: expected scales for blocks of an s8 constant quantized along axis 0", who);
  }
  size_t elements = 1, scales;
  for (size_t d = 1; d < tensor.shape.size(); ++d) elements *= tensor.shape[d];  // their product is known to fit
  if (!checked_mul(tensor.shape[0], divide_up(elements, q.block), &scales) || scales != q.scales.size()) {
    return fail(QN_BAD_MODEL, "%s: it has %zu scales, which is not one for each block of %zu", who, q.scales.size(),
                q.block);
  }
  for (const float scale : q.scales) {
    if (!(__builtin_fabsf(scale) < __builtin_inff())) {
      return fail(QN_BAD_MODEL, "%s: expected finite scales, got %g", who, static_cast<double>(scale));
    }
  }
  return QN_OK;
}

qn_status check_quantized(const Graph& graph, size_t index) {
  const Tensor& tensor = graph.tensors[index];
  const Quantization& q = tensor.quantization;
  char who[160];
  who[0] = '\0';
  if (!trimmed) std::snprintf(who, sizeof who, "tensor %zu ('%.100s')", index, tensor.name.c_str());
  if (has_blocks(tensor)) return check_blocks(tensor, who);
  if (q.scales.empty()) {
    if (q.zero_points.empty() && q.axis == -1) return QN_OK;
    return fail(QN_BAD_MODEL, "%s: it has a zero point or an axis, but no scale", who);
  }
  if (!q.zero_points.empty() && q.zero_points.size() != q.scales.size()) {
    return fail(QN_BAD_MODEL, "%s: it has %zu scales, but %zu zero points", who, q.scales.size(), q.zero_points.size());
  }
  if (q.axis < -1) return fail(QN_BAD_MODEL, "%s: quantized along axis %d", who, q.axis);
  if (q.axis == -1 && q.scales.size() > 1) {
    return fail(QN_BAD_MODEL, "%s: it has %zu scales, but no axis", who, q.scales.size());
  }
  if (q.axis == -1 && q.scales[0] == 0) return fail(QN_BAD_MODEL, "%s: the scale is 0", who);
  qn_tensor described = {};
  described.type = tensor.type;
  described.rank = static_cast<uint32_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), described.shape);
  described.quantization = quantization_of(tensor);
  return check_quantization(described, who) == QN_OK ? QN_OK : QN_BAD_MODEL;
}
#endif

static qn_status check_constant(const Graph& graph, size_t index) {
  const Tensor& tensor = graph.tensors[index];
  if (tensor.constant < 0 || static_cast<size_t>(tensor.constant) >= graph.constants.size()) {
    return fail(QN_BAD_MODEL, "tensor %zu: constant %d does not exist", index, tensor.constant);
  }
  QN_TRY(check_shape(tensor.shape, tensor.type, "constant tensor", index));
  const Constant& constant = graph.constants[static_cast<size_t>(tensor.constant)];
  size_t bytes;
  if (!tensor_size(tensor.type, tensor.shape, &bytes) || bytes != constant.bytes) {
    return fail(QN_BAD_MODEL, "tensor %zu ('%.100s'): its constant has %zu bytes, which is not its size", index,
                tensor.name.c_str(), constant.bytes);
  }
  if (has_encoded && constant.encoded != nullptr) {
    const size_t rows = constant.encoded->rows(), item = constant.encoded->item();
    if (item == qn_type_size(tensor.type) && !tensor.shape.empty() && tensor.shape[0] == rows) {
      return check_quantized(graph, index);
    }
    return fail(QN_BAD_MODEL,
                "tensor %zu ('%.100s'): its constant has %zu rows of elements of %zu bytes, the tensor has not", index,
                tensor.name.c_str(), rows, item);
  }
  if (constant.data == nullptr || reinterpret_cast<uintptr_t>(constant.data) % cache_line != 0) {
    return fail(QN_BAD_MODEL, "tensor %zu ('%.100s'): its constant is not aligned", index, tensor.name.c_str());
  }
  const auto* const first = static_cast<const unsigned char*>(constant.data);
  if (tensor.type == QN_BOOL && std::any_of(first, first + bytes, [](unsigned char byte) { return byte > 1; })) {
    return fail(QN_BAD_MODEL, "tensor %zu ('%.100s'): a boolean is neither 0 nor 1", index, tensor.name.c_str());
  }
  return check_quantized(graph, index);
}

qn_status check_tensors(const Graph& graph) {
  Vector<std::string_view> names;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (!is_name(tensor.name)) return fail(QN_BAD_MODEL, "tensor %zu: the name is not plain text", i);
    if (qn_type_size(tensor.type) == 0) return fail(QN_BAD_MODEL, "tensor %zu: unknown type", i);
    if (tensor.shape.size() > QN_MAX_RANK) {
      return fail(QN_BAD_MODEL, "tensor %zu: rank %zu is above %d", i, tensor.shape.size(), QN_MAX_RANK);
    }
    if (tensor.constant != -1) QN_TRY(check_constant(graph, i));
    if (!tensor.name.empty()) names.push_back(tensor.name);
  }
  heap_sort(names.begin(), names.end(), std::less<>());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return QN_OK;
  return fail(QN_BAD_MODEL, "two tensors are named '%.*s'", static_cast<int>(std::min<size_t>(twice->size(), 100)),
              twice->data());
}

}  // namespace quern
