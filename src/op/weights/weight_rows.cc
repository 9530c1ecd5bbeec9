#include "op/weights/weight_rows.h"

namespace quern {
namespace {

WeightStrides strides_of(qn_weights_layout layout, const WeightsShape& s) {
  const size_t all_out = s.groups * s.out;
  if (!has_api("op")) layout = QN_WEIGHTS_OHWI;  // a graph has no other one
  switch (layout) {
    case QN_WEIGHTS_OHWI: return {s.depth(), s.kernel.w * s.in, s.in, 1};
    case QN_WEIGHTS_OIHW: return {s.depth(), s.kernel.w, 1, s.taps()};
    case QN_WEIGHTS_HWIO: return {1, s.kernel.w * s.in * all_out, s.in * all_out, all_out};
  }
  return {};
}

void make_room(size_t bytes, Buffer* buffer) {
  if (buffer->size() < bytes) *buffer = Buffer(), *buffer = Buffer(bytes);
}

}  // namespace

WeightRows::WeightRows(const qn_weights& weights, const WeightsShape& shape)
    : source_{weights, shape}, stride_(strides_of(weights.layout, shape)) {}

Strip WeightRows::rows(size_t first, size_t count) {
  const size_t bytes = stays_in_place(source_) ? 0 : count * source_.shape.depth() * source_.item();
  make_room(bytes, &strip_);
  const void* data;
  const qn_status status = rows_of(source_, first, count, strip_.data(), &data);
  if (has_encodings && status != QN_OK) give_up(status);
  return {data, stride_};
}

const Nonzeros& WeightNonzeros::nonzeros(size_t first, size_t count) {
  nonzeros_.depth = source_.shape.depth();
  nonzeros_.masks.assign(nonzeros_.depth, 0);
  const size_t most = count * nonzeros_.depth;
  make_room(most * sizeof(uint32_t), &nonzeros_.positions_room);
  make_room(most * sizeof(float), &nonzeros_.values);
  if (direct()) {
    nonzeros_of(source_, first, count, &nonzeros_);
  } else {
    find_nonzeros(float_rows(first, count), count);
  }
  return nonzeros_;
}

#ifndef QN_NO_INTEGERS
namespace {

// Compilers make vectors of this loop. Within the loops around its call they would do so for every distance of elements,
// which takes four times the memory.
[[gnu::noinline]] void to_floats(const int8_t* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace

Strip WeightNonzeros::float_rows(size_t first, size_t count) {
  const Strip strip = rows(first, count);
  if (source_.weights.type == QN_F32) return strip;
  const WeightsShape& s = source_.shape;
  make_room(count * s.depth() * sizeof(float), &floats_);
  auto* to = static_cast<float*>(floats_.data());
  const size_t run = stride_.input() == 1 ? s.in : 1;
  for (size_t c = 0; c < count; ++c) {
    for (size_t tap = 0; tap < s.taps(); ++tap) {
      const auto* const from = static_cast<const int8_t*>(strip.data) + c * stride_.out + tap / s.kernel.w * stride_.h +
                               tap % s.kernel.w * stride_.w;
      for (size_t i = 0; i < s.in; i += run) to_floats(from + i * stride_.in, run, to + i);
      to += s.in;
    }
  }
  return {floats_.data(), strides_of(QN_WEIGHTS_OHWI, s)};
}
#endif

void WeightNonzeros::find_nonzeros(const Strip& strip, size_t count) {
  const WeightsShape& shape = source_.shape;
  const WeightStrides& stride = has_integers ? strip.stride : stride_;
  for (size_t c = 0; c < count; ++c) {
    uint32_t* const positions = nonzeros_.positions(c);
    float* const values = nonzeros_.floats(c);
    size_t n = 0;
    uint32_t position = 0;
    for (size_t y = 0; y < shape.kernel.h; ++y) {
      for (size_t x = 0; x < shape.kernel.w; ++x) {
        const float* from = strip.floats() + c * stride.out + y * stride.h + x * stride.w;
        for (size_t i = 0; i < shape.in; ++i, ++position) {
          const float value = from[i * stride.in];
          const bool other = value != 0;
          positions[n] = position, values[n] = value;  // the next value overwrites them if this one is 0
          n += other;
          nonzeros_.masks[position] |= static_cast<Nonzeros::Mask>(other) << c;
        }
      }
    }
    nonzeros_.count[c] = n;
  }
}

void WeightRows::tell_read(size_t first, size_t count) const {
  const qn_weights& weights = source_.weights;
  const WeightsShape& shape = source_.shape;
  if (!stays_in_place(source_) || weights.was_read == nullptr) return;
  const bool together = weights.layout != QN_WEIGHTS_HWIO;  // do the weights of an output channel lie together?
  const size_t all = shape.groups * shape.out;
  if (!together && first + count < all) return;
  const size_t begin = together ? first * shape.depth() : 0, end = (first + count) * shape.depth();
  const void* from = static_cast<const char*>(weights.data) + begin * source_.item();
  call_host(weights.was_read, weights.context, from, (end - begin) * source_.item());
}

}  // namespace quern
