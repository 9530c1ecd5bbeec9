#include "op/weights/encoding.h"

#include <cstring>

namespace quern {
namespace {

qn_status dense_rows(const WeightSource& source, size_t first, size_t, void*, const void** data) {
  const bool together = source.weights.layout != QN_WEIGHTS_HWIO;  // do the weights of an output channel lie together?
  const size_t before = first * (together ? source.shape.depth() : 1);
  *data = static_cast<const char*>(source.weights.data) + before * source.item();
  return QN_OK;
}

// Calls visit(position, value) for every stored weight of an output channel.
template <class Visit>
void each_stored(const WeightSource& source, size_t channel, Visit&& visit) {
  const qn_weights& w = source.weights;
  const size_t block = w.block, in_group = channel % source.shape.out;
  const size_t row = channel / source.shape.out * source.shape.block_rows(block) + in_group / block;
  const float* const values = static_cast<const float*>(w.data) + in_group % block;
  for (size_t j = w.starts[row]; j < w.starts[row + 1]; ++j) visit(w.positions[j], values[j * block]);
}

qn_status sparse_rows(const WeightSource& source, size_t first, size_t count, void* room, const void** data) {
  const size_t depth = source.shape.depth();
  auto* to = static_cast<float*>(room);
  *data = room;
  std::memset(to, 0, count * depth * sizeof(float));
  for (size_t o = first; o < first + count; ++o, to += depth) {
    each_stored(source, o, [&](size_t position, float value) { to[position] = value; });
  }
  return QN_OK;
}

void sparse_nonzeros(const WeightSource& source, size_t first, size_t count, Nonzeros* to) {
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

qn_status decoded_rows(const WeightSource& source, size_t first, size_t count, void* room, const void** data) {
  *data = room;
  const qn_status status = call_host(source.weights.decode, source.weights.context, first, count, room);
  if (status == QN_OK) return QN_OK;
  return fail(status, "output channels %zu to %zu: decoding the weights failed: %s", first, first + count - 1,
              qn_status_string(status));
}

constexpr WeightEncoding dense = {dense_rows, nullptr, true};
// In the order of qn_weights_encoding.
constexpr WeightEncoding sparse = {sparse_rows, sparse_nonzeros, false}, decoded = {decoded_rows, nullptr, false};
// A build without op.h has no entry for sparse weights: graphs hand theirs over as decoded ones.
constexpr WeightEncoding encodings[] = {dense, has_api("op") ? sparse : dense, decoded};

}  // namespace

const WeightEncoding& encoding_of(const qn_weights& weights) {
  return has_encodings ? encodings[weights.encoding] : dense;
}

}  // namespace quern
