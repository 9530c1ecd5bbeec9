#include "base/tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>

#include "base/cpu.h"
#include "base/math.h"
#include "base/search.h"
#include "base/status.h"

namespace quern {
namespace {

// Fails unless the rank is in range. A pixel-blocked tensor also needs rank 4.
qn_status check_shape(const qn_tensor& tensor, const char* who) {
  if (tensor.rank > QN_MAX_RANK)
    return fail(QN_INVALID_ARGUMENT, "%s: rank %u is above %d", who, tensor.rank, QN_MAX_RANK);
  size_t pixels;
  if (!is_blocked(tensor)) return QN_OK;
  if (tensor.rank != 4) return fail(QN_INVALID_ARGUMENT, "%s: pixel-blocked, of rank %u, not 4", who, tensor.rank);
  if (!checked_mul(tensor.shape[1], tensor.shape[2], &pixels)) {
    return fail(QN_INVALID_ARGUMENT, "%s: the size overflows", who);
  }
  return QN_OK;
}

bool names_strides(const qn_tensor& tensor) {
  return any_of(std::span(tensor.stride, tensor.rank), [](size_t stride) { return stride != 0; });
}

// Checks the strides of a row-major tensor.
qn_status check_strides(const qn_tensor& tensor, const char* who) {
  const size_t element = qn_type_size(tensor.type);
  const bool dense = !names_strides(tensor);
  size_t span = element;
  for (uint32_t i = tensor.rank; i-- > 0;) {
    const size_t stride = dense ? span : tensor.stride[i];
    if (i == tensor.rank - 1 && stride != element) {
      return fail(QN_INVALID_ARGUMENT, "%s: innermost stride %zu is not the element size %zu", who, stride, element);
    }
    if (stride < span) return fail(QN_INVALID_ARGUMENT, "%s: stride %zu of dimension %u overlaps", who, stride, i);
    if (stride % element != 0) {
      return fail(QN_INVALID_ARGUMENT, "%s: stride %zu of dimension %u is not a multiple of the element", who, stride,
                  i);
    }
    size_t extent;
    const size_t count = std::max(tensor.shape[i], size_t{1});
    if (!checked_mul(stride, count, &extent) || extent > PTRDIFF_MAX) {
      return fail(QN_INVALID_ARGUMENT, "%s: the size overflows", who);
    }
    span = stride * (count - 1) + span;
    if (dense) span = extent;
  }
  return QN_OK;
}

// ---- quantization

struct IntegerRange {
  int32_t low, high;
};

// The range of a type that may be quantized; for other types it is empty.
IntegerRange range_of(qn_type type) {
  switch (type) {
    case QN_S8: return {INT8_MIN, INT8_MAX};
    case QN_U8: return {0, UINT8_MAX};
    case QN_S32: return {INT32_MIN, INT32_MAX};
    default: return {0, -1};
  }
}

bool is_scale(float scale) { return scale > 0 && scale <= std::numeric_limits<float>::max(); }

qn_status check_scale(float scale, const char* who) {
  if (is_scale(scale)) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: the scale is %g, not finite and above 0", who, static_cast<double>(scale));
}

qn_status check_zero_point(int32_t zero_point, qn_type type, const char* who) {
  const IntegerRange range = range_of(type);
  if (zero_point >= range.low && zero_point <= range.high) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: zero point %d is outside %s, which is %d to %d", who, zero_point,
              qn_type_string(type), range.low, range.high);
}

qn_status check_channels(const qn_tensor& tensor, const char* who) {
  const qn_quantization& q = tensor.quantization;
  if (q.scale != 0 || q.zero_point != 0) {
    return fail(QN_INVALID_ARGUMENT, "%s: it has both one scale and scales per channel", who);
  }
  if (q.axis >= tensor.rank) {
    return fail(QN_INVALID_ARGUMENT, "%s: quantized along axis %u of a tensor of rank %u", who, q.axis, tensor.rank);
  }
  if (q.count != tensor.shape[q.axis]) {
    return fail(QN_INVALID_ARGUMENT, "%s: %zu scales for the %zu channels of axis %u", who, q.count,
                tensor.shape[q.axis], q.axis);
  }
  for (size_t i = 0; i < q.count; ++i) {
    QN_TRY(check_scale(q.scales[i], who));
    if (q.zero_points != nullptr) QN_TRY(check_zero_point(q.zero_points[i], tensor.type, who));
  }
  return QN_OK;
}

// A part of a row-major tensor at an address: all elements whose indices in the dimensions before `from` are fixed.
class Part {
 public:
  Part(int64_t first, const qn_tensor& tensor, uint32_t from) : begin(first), tensor_(&tensor), dimension_(from) {
    while (dimension_ < tensor.rank && tensor.shape[dimension_] == 1) ++dimension_;
    span = qn_type_size(tensor.type);
    int64_t bytes = span;
    for (uint32_t i = dimension_; i < tensor.rank; ++i) {
      const auto shape = static_cast<int64_t>(tensor.shape[i]);
      span += (shape - 1) * static_cast<int64_t>(tensor.stride[i]);
      bytes *= shape;
    }
    dense = span == bytes;
  }

  // The outermost dimension of a part that is not dense.
  int64_t stride() const { return static_cast<int64_t>(tensor_->stride[dimension_]); }
  int64_t count() const { return static_cast<int64_t>(tensor_->shape[dimension_]); }
  // One of the count() equal parts that lie stride() bytes apart, at an address.
  Part block(int64_t first) const { return {first, *tensor_, dimension_ + 1}; }

  int64_t begin, span;
  bool dense;

 private:
  const qn_tensor* tensor_;
  uint32_t dimension_;
};

// Do two parts overlap? Takes the part with the larger stride to pieces, and compares only the pieces within the range
// of the other part: mostly two in each dimension.
bool overlap(const Part& a, const Part& b) {
  if (a.begin >= b.begin + b.span || b.begin >= a.begin + a.span) return false;
  if (a.dense && b.dense) return true;
  if (a.dense || (!b.dense && b.stride() > a.stride())) return overlap(b, a);
  const int64_t stride = a.stride();
  int64_t begin = a.begin, count = a.count();
  Part other = b;
  if (!b.dense && b.stride() == stride) {  // only the distance of two blocks matters: one block of b stands for all
    begin -= (b.count() - 1) * stride;
    count += b.count() - 1;
    other = b.block(b.begin);
  }
  const int64_t before = other.begin - begin - a.block(begin).span;  // blocks up to this distance end before `other`
  for (int64_t i = before < 0 ? 0 : before / stride + 1; i < count && begin + i * stride < other.begin + other.span;
       ++i) {
    if (overlap(a.block(begin + i * stride), other)) return true;
  }
  return false;
}

}  // namespace

bool is_quantized(const qn_tensor& tensor) {
  return tensor.quantization.scales != nullptr || tensor.quantization.scale != 0;
}

bool same_quantization(const qn_tensor& a, const qn_tensor& b) {
  if (!has_integers) return true;
  const qn_quantization &x = a.quantization, &y = b.quantization;
  if (x.scale != y.scale || x.zero_point != y.zero_point || x.count != y.count || x.axis != y.axis) return false;
  const auto zero = [](const qn_quantization& q, size_t i) { return q.zero_points == nullptr ? 0 : q.zero_points[i]; };
  for (size_t i = 0; i < x.count; ++i) {
    if (x.scales[i] != y.scales[i] || zero(x, i) != zero(y, i)) return false;
  }
  return true;
}

qn_status check_quantization(const qn_tensor& tensor, const char* who) {
  const qn_quantization& q = tensor.quantization;
  if (!has_integers) return is_quantized(tensor) ? fail(QN_UNSUPPORTED, "%s: it is quantized", who) : QN_OK;
  if (!is_quantized(tensor)) {
    if (q.zero_point == 0 && q.zero_points == nullptr && q.count == 0 && q.axis == 0) return QN_OK;
    return fail(QN_INVALID_ARGUMENT, "%s: it has a zero point, an axis or a number of channels, but no scale", who);
  }
  if (range_of(tensor.type).high < 0) {
    return fail(QN_INVALID_ARGUMENT, "%s: it has a scale, but %s is not quantized", who, qn_type_string(tensor.type));
  }
  if (q.scales != nullptr) return check_channels(tensor, who);
  if (q.zero_points != nullptr || q.count != 0 || q.axis != 0) {
    return fail(QN_INVALID_ARGUMENT, "%s: it has zero points, an axis or a number of channels, but no scales", who);
  }
  QN_TRY(check_scale(q.scale, who));
  return check_zero_point(q.zero_point, tensor.type, who);
}

qn_status check_tensor(const qn_tensor& tensor, const char* who) {
  const size_t element = qn_type_size(tensor.type);
  if (element == 0) return fail(QN_INVALID_ARGUMENT, "%s: unknown type %d", who, static_cast<int>(tensor.type));
  if (tensor.layout != QN_LAYOUT_NHWC && tensor.layout != QN_LAYOUT_PIXEL_BLOCKED) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown layout %d", who, static_cast<int>(tensor.layout));
  }
  QN_TRY(check_shape(tensor, who));
  const size_t channel = element * qn_pixel_block();
  if (is_blocked(tensor) && names_strides(tensor) && tensor.stride[2] != channel) {
    return fail(QN_INVALID_ARGUMENT, "%s: pixel-blocked, with a channel's stride of %zu, not %zu", who,
                tensor.stride[2], channel);
  }
  QN_TRY(check_strides(in_memory(tensor), who));
  if (tensor.quantization.reserved != 0 || any_of(tensor.reserved, [](size_t word) { return word != 0; })) {
    return fail(QN_INVALID_ARGUMENT, "%s: a reserved word is not 0; was the struct initialised?", who);
  }
  return check_quantization(tensor, who);
}

qn_tensor in_memory(const qn_tensor& tensor) {
  if (!is_blocked(tensor)) return tensor;
  const size_t block = qn_pixel_block(), pixels = tensor.shape[1] * tensor.shape[2];
  qn_tensor result = tensor;
  result.layout = QN_LAYOUT_NHWC;
  result.shape[1] = pixels == 0 ? 0 : (pixels - 1) / block + 1;
  result.shape[2] = tensor.shape[3];
  result.shape[3] = block;
  return result;
}

qn_tensor with_strides(const qn_tensor& tensor) {
  qn_tensor result = tensor;
  if (names_strides(tensor)) return result;
  const qn_tensor memory = in_memory(tensor);
  size_t stride = qn_type_size(tensor.type);
  for (uint32_t i = tensor.rank; i-- > 0;) {
    result.stride[i] = stride;
    stride *= std::max(memory.shape[i], size_t{1});
  }
  return result;
}

bool is_dense(const qn_tensor& tensor) {
  if (is_empty(tensor)) return true;
  const qn_tensor t = in_memory(with_strides(tensor));
  size_t stride = qn_type_size(t.type);
  for (uint32_t i = t.rank; i-- > 0;) {
    if (t.shape[i] != 1 && t.stride[i] != stride) return false;
    stride *= t.shape[i];
  }
  return true;
}

size_t element_count(const qn_tensor& tensor) {
  size_t count = 1;
  for (uint32_t i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

bool same_shape(const qn_tensor& a, const qn_tensor& b) {
  if (a.rank != b.rank) return false;
  for (uint32_t i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

bool overlap(const void* a_data, const qn_tensor& a, const void* b_data, const qn_tensor& b) {
  if (is_empty(a) || is_empty(b)) return false;
  const qn_tensor a_memory = in_memory(a), b_memory = in_memory(b);
  return overlap(Part(reinterpret_cast<intptr_t>(a_data), a_memory, 0),
                 Part(reinterpret_cast<intptr_t>(b_data), b_memory, 0));
}

#ifndef QN_NO_MESSAGES
ShapeText::ShapeText(const qn_tensor& tensor) {
  text[0] = '\0';
  size_t used = 0;
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    used +=
        static_cast<size_t>(std::snprintf(text + used, sizeof text - used, i == 0 ? "%zu" : "x%zu", tensor.shape[i]));
  }
}
#endif

}  // namespace quern

extern "C" {

size_t qn_pixel_block(void) { return quern::cpu().pixel_block; }

size_t qn_type_size(qn_type type) {
  static constexpr uint8_t sizes[] = {0, 4, 2, 8, 1, 1, 4, 1};  // in the order of qn_type
  static_assert(std::size(sizes) == QN_BOOL + 1);
  return static_cast<size_t>(type) < std::size(sizes) ? sizes[type] : 0;
}

const char* qn_type_string(qn_type type) {
  static constexpr char names[][5] = {"?", "f32", "f16", "s64", "s8", "u8", "s32", "bool"};
  static_assert(std::size(names) == QN_BOOL + 1);
  return static_cast<size_t>(type) < std::size(names) ? names[type] : names[0];
}

qn_status qn_tensor_init(qn_tensor* tensor, qn_type type, uint32_t rank, const size_t* shape) {
  return quern::guarded([=] {
    if (tensor == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_tensor_init: tensor is NULL");
    if (rank > QN_MAX_RANK) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_tensor_init: rank %u is above %d", rank, QN_MAX_RANK);
    }
    if (rank > 0 && shape == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_tensor_init: shape is NULL");
    qn_tensor result = {};
    result.type = type;
    result.layout = QN_LAYOUT_NHWC;
    result.rank = rank;
    for (uint32_t i = 0; i < rank; ++i) result.shape[i] = shape[i];
    QN_TRY(quern::check_tensor(result, "qn_tensor_init"));
    *tensor = result;
    return QN_OK;
  });
}

size_t qn_tensor_bytes(const qn_tensor* tensor) {
  if (tensor == nullptr) return 0;
  if (quern::guarded([=] { return quern::check_tensor(*tensor, "qn_tensor_bytes"); }) != QN_OK) return 0;
  if (quern::is_empty(*tensor)) return 0;
  const qn_tensor t = quern::in_memory(quern::with_strides(*tensor));
  size_t bytes = qn_type_size(t.type);
  for (uint32_t i = 0; i < t.rank; ++i) bytes += (t.shape[i] - 1) * t.stride[i];
  return bytes;
}

}  // extern "C"
