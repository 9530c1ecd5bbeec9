// Checks and arithmetic on qn_tensor.
#pragma once

#include <quern/base.h>

#include "base/needs.h"

namespace quern {

// Fails with a message that begins with `who` unless the tensor is valid. A valid tensor has a known type and layout, a
// rank in range, and a size that does not overflow. Its strides are all 0, or the innermost one is the size of an
// element and each outer one is at least as long as the inner dimensions together; a dimension of 0 counts as 1 there.
// Its quantization passes check_quantization(). A pixel-blocked tensor has rank 4, and blocks of qn_pixel_block()
// elements in each channel.
qn_status check_tensor(const qn_tensor& tensor, const char* who);

// Fails with a message that begins with `who` unless the quantization suits the tensor's type, rank and shape.
qn_status check_quantization(const qn_tensor& tensor, const char* who);
bool is_quantized(const qn_tensor& tensor);
// Do equal elements of both tensors stand for equal numbers? Both must have the same type.
bool same_quantization(const qn_tensor& a, const qn_tensor& b);

// Returns the tensor with its strides written out: strides of 0 become those of a dense tensor.
qn_tensor with_strides(const qn_tensor& tensor);

// Describes the tensor's memory as a row-major tensor. For the pixel-blocked layout its dimensions are image, block of
// pixels, channel, pixel; any other tensor stays as it is.
qn_tensor in_memory(const qn_tensor& tensor);
inline bool is_blocked(const qn_tensor& tensor) { return has_sparse && tensor.layout == QN_LAYOUT_PIXEL_BLOCKED; }
// Bytes from one channel of an image of floats to the next. The image is NHWC or pixel-blocked.
inline size_t channel_stride(const qn_tensor& image) { return is_blocked(image) ? image.stride[2] : sizeof(float); }
// Bytes from the beginning of a channel to its pixel `index`, in a pixel-blocked image of floats whose blocks lie
// `block_stride` bytes apart.
inline size_t pixel_offset(size_t block_stride, size_t index) {
  const size_t block = qn_pixel_block();
  return index / block * block_stride + index % block * sizeof(float);
}
bool is_dense(const qn_tensor& tensor);

// Number of elements of a valid tensor.
size_t element_count(const qn_tensor& tensor);
inline bool is_empty(const qn_tensor& tensor) { return element_count(tensor) == 0; }
bool same_shape(const qn_tensor& a, const qn_tensor& b);
// Do two tensors at these addresses have a byte in common? Both must have their strides written out. Gaps between rows
// do not count: two slices of a larger tensor may be interleaved without overlap.
bool overlap(const void* a_data, const qn_tensor& a, const void* b_data, const qn_tensor& b);

// A tensor's shape as messages show it: "1x224x224x3".
struct ShapeText {
#ifdef QN_NO_MESSAGES  // there are no messages that could show it
  explicit ShapeText(const qn_tensor&) {}
  const char* text = "";
#else
  explicit ShapeText(const qn_tensor& tensor);
  char text[QN_MAX_RANK * 21 + 1];
#endif
};

}  // namespace quern
