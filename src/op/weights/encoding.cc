#include "op/weights/encoding.h"

#include <cstring>

namespace quern {
namespace {

const void* dense_rows(const WeightSource& source, size_t first) {
  const bool together = source.weights.layout != QN_WEIGHTS_HWIO;  // do the weights of an output channel lie together?
  const size_t before = first * (together ? source.shape.depth() : 1);
  return static_cast<const char*>(source.weights.data) + before * source.item();
}

// Calls visit(position, value) for every stored weight of an output channel.
template <class Visit>
void each_stored(const WeightSource& source, size_t channel, Visit&& visit) {
  const qn_weights& w = source.weights;
  const size_t block = w.block, in_group = channel % source.shape.out;
  const size_t row = channel / source.shape.out * source.shape.block_rows(block) + in_group / block;
  const auto* values = static_cast<const float*>(w.data);  // NULL if none is stored
  for (size_t j = w.starts[row]; j < w.starts[row + 1]; ++j)
    visit(w.positions[j], values[j * block + in_group % block]);
}

void sparse_rows(const WeightSource& source, size_t first, size_t count, float* to) {
  const size_t depth = source.shape.depth();
  std::memset(to, 0, count * depth * sizeof(float));
  for (size_t o = first; o < first + count; ++o, to += depth) {
    each_stored(source, o, [&](size_t position, float value) { to[position] = value; });
  }
}

qn_status decode_rows(const WeightSource& source, size_t first, size_t count, void* room) {
  const qn_status status = call_host(source.weights.decode, source.weights.context, first, count, room);
  if (status == QN_OK) return QN_OK;
  return fail(status, "output channels %zu to %zu: decoding the weights failed: %s", first, first + count - 1,
              qn_status_string(status));
}

// Multiplies bytes by the scales of their rows, which are at the end of the room for the products unless they are dense
// weights: no product overwrites a byte that comes later.
qn_status dequantize_rows(const WeightSource& source, size_t first, size_t count, float* to) {
  const qn_weights& w = source.weights;
  const size_t depth = source.shape.depth();
  const int8_t* from;
  if (w.encoding == QN_WEIGHTS_DECODED) {
    auto* const bytes = reinterpret_cast<int8_t*>(to + count * depth) - count * depth;
    QN_TRY(decode_rows(source, first, count, bytes));
    from = bytes;
  } else {
    from = static_cast<const int8_t*>(w.data) + first * depth;
  }
  for (size_t o = first; o < first + count; ++o) {
    for (size_t i = 0; i < depth; ++i) {
      const size_t run =
          !has_scaled_blocks || w.block_length == 0 ? o : o * runs_of(w, source.shape) + i / w.block_length;
      *to++ = static_cast<float>(*from++) * w.scales[w.scale_count == 1 ? 0 : run];
    }
  }
  return QN_OK;
}

// A build without op.h has no code for sparse weights: graphs hand theirs over as decoded ones.
qn_weights_encoding encoding(const WeightSource& source) {
  if (!has_encodings) return QN_WEIGHTS_DENSE;
  const qn_weights_encoding given = source.weights.encoding;
  return has_api("op") || given != QN_WEIGHTS_SPARSE ? given : QN_WEIGHTS_DENSE;
}

}  // namespace

bool stays_in_place(const WeightSource& source) {
  return encoding(source) == QN_WEIGHTS_DENSE && !are_steps(source.weights);
}

bool gives_nonzeros(const WeightSource& source) { return has_api("op") && encoding(source) == QN_WEIGHTS_SPARSE; }

qn_status rows_of(const WeightSource& source, size_t first, size_t count, void* room, const void** data) {
  if (are_steps(source.weights)) {
    *data = room;
    return dequantize_rows(source, first, count, static_cast<float*>(room));
  }
  switch (encoding(source)) {
    case QN_WEIGHTS_DENSE: *data = dense_rows(source, first); return QN_OK;
    case QN_WEIGHTS_SPARSE: sparse_rows(source, first, count, static_cast<float*>(room)); break;
    case QN_WEIGHTS_DECODED: QN_TRY(decode_rows(source, first, count, room)); break;
  }
  *data = room;
  return QN_OK;
}

void nonzeros_of(const WeightSource& source, size_t first, size_t count, Nonzeros* to) {
  for (size_t c = 0; c < count; ++c) {
    uint32_t* const positions = to->positions(c);
    float* const values = to->floats(c);
    size_t& n = to->count[c] = 0;
    each_stored(source, first + c, [&](uint32_t position, float value) {
      if (value == 0) return;
      to->masks[position] |= Nonzeros::Mask{1} << c;
      positions[n] = position;
      values[n++] = value;
    });
  }
}

}  // namespace quern
