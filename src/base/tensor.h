// Checks and arithmetic on qn_tensor.
#pragma once

#include <quern/base.h>

#include "base/needs.h"

namespace quern {

// Fails with a message that begins with `who` unless the tensor is valid: known type and layout, rank in range, no zero
// dimension, strides all zero or (innermost equal to the element size, each outer one at least what the inner
// dimensions span), no overflow, a quantization as below. In the pixel-blocked layout also rank 4 and a channel's
// stride of P elements.
qn_status check_tensor(const qn_tensor& tensor, const char* who);

// Fails with a message that begins with `who` unless type, rank, shape and quantization go together.
qn_status check_quantization(const qn_tensor& tensor, const char* who);
bool is_quantized(const qn_tensor& tensor);
// Do equal elements of both stand for equal numbers? The types are the same.
bool same_quantization(const qn_tensor& a, const qn_tensor& b);

// The same tensor with dense strides written out.
qn_tensor with_strides(const qn_tensor& tensor);

// What lies in memory, as a row-major tensor: the tensor itself, or of the pixel-blocked layout image, block of pixels,
// channel, pixel.
qn_tensor in_memory(const qn_tensor& tensor);
inline bool is_blocked(const qn_tensor& tensor) { return has_sparse && tensor.layout == QN_LAYOUT_PIXEL_BLOCKED; }
// From one channel of an image to the next, in bytes: of NHWC floats, or pixel-blocked.
inline size_t channel_stride(const qn_tensor& image) { return is_blocked(image) ? image.stride[2] : sizeof(float); }
// Where pixel `index` of a pixel-blocked image of floats lies in one channel, with blocks so many bytes apart.
inline size_t pixel_offset(size_t block_stride, size_t index) {
  const size_t block = qn_pixel_block();
  return index / block * block_stride + index % block * sizeof(float);
}
bool is_dense(const qn_tensor& tensor);

// Number of elements.  Valid tensors only.
size_t element_count(const qn_tensor& tensor);
bool same_shape(const qn_tensor& a, const qn_tensor& b);
// Do tensors whose first elements lie at these addresses have a byte in common? Both with strides. Gaps do not count:
// two slices of a larger tensor may be interleaved.
bool overlap(const void* a_data, const qn_tensor& a, const void* b_data, const qn_tensor& b);

}  // namespace quern
