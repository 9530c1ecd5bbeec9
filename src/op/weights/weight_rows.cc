#include "op/weights/weight_rows.h"

#include <algorithm>

namespace quern {
namespace {

WeightStrides strides_of(qn_weights_layout layout, const WeightsShape& s) {
  const size_t all_out = s.groups * s.out;
  switch (layout) {
    case QN_WEIGHTS_OHWI: return {s.depth(), s.kernel.w * s.in, s.in, 1};
    case QN_WEIGHTS_OIHW: return {s.depth(), s.kernel.w, 1, s.taps()};
    case QN_WEIGHTS_HWIO: return {1, s.kernel.w * s.in * all_out, s.in * all_out, all_out};
  }
  return {};
}

}  // namespace

WeightRows::WeightRows(const qn_weights& weights, const WeightsShape& shape)
    : weights_(weights), shape_(shape), stride_(strides_of(weights.layout, shape)) {}

Strip WeightRows::rows(size_t first, size_t count) {
  if (!has_encodings || weights_.encoding == QN_WEIGHTS_DENSE) {
    return {static_cast<const float*>(weights_.data) + first * stride_.out, stride_};
  }
  const size_t bytes = count * shape_.depth() * sizeof(float);
  if (strip_.size() < bytes) strip_ = Buffer(), strip_ = Buffer(bytes);
  auto* to = static_cast<float*>(strip_.data());
  if (weights_.encoding == QN_WEIGHTS_SPARSE) {
    expand(first, count, to);
  } else if (const qn_status status = call_host(weights_.decode, weights_.context, first, count, to); status != QN_OK) {
    fail(status, "output channels %zu to %zu: decoding the weights failed: %s", first, first + count - 1,
         qn_status_string(status));
    give_up(status);
  }
  return {to, stride_};
}

// Sparse weights as rows.
void WeightRows::expand(size_t first, size_t count, float* to) const {
  const size_t block = weights_.block, rows_of_group = shape_.block_rows(block);
  const auto* values = static_cast<const float*>(weights_.data);
  std::fill_n(to, count * shape_.depth(), 0.0f);
  for (size_t o = first; o < first + count; ++o, to += shape_.depth()) {
    const size_t channel = o % shape_.out;
    const size_t row = o / shape_.out * rows_of_group + channel / block;
    const float* value = values + channel % block;
    for (size_t j = weights_.starts[row]; j < weights_.starts[row + 1]; ++j) {
      to[weights_.positions[j]] = value[j * block];
    }
  }
}

void WeightRows::tell_read(size_t first, size_t count) const {
  if (weights_.encoding != QN_WEIGHTS_DENSE || weights_.was_read == nullptr) return;
  const bool together = weights_.layout != QN_WEIGHTS_HWIO;  // an output channel's weights
  const size_t all = shape_.groups * shape_.out;
  if (!together && first + count < all) return;
  const size_t begin = together ? first * shape_.depth() : 0, end = (first + count) * shape_.depth();
  const auto* from = static_cast<const float*>(weights_.data) + begin;
  call_host(weights_.was_read, weights_.context, static_cast<const void*>(from), (end - begin) * sizeof(float));
}

}  // namespace quern
