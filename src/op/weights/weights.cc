#include "op/weights/weights.h"

#include <bit>
#include <cstring>
#include <tuple>

#include "base/math.h"
#include "base/search.h"
#include "kernel/dequantize.h"
#include "kernel/tapgemm.h"
#include "op/weights/density.h"
#include "op/weights/pack.h"

namespace quern {
namespace {

// The most channels of a kernel's panel, and the most successive k of bytes that lie together there, or share a scale.
constexpr size_t max_panel_channels = 1024, max_interleave = scale_block;

bool fits_memory(const WeightsShape& s, qn_type type) {
  size_t size = s.groups, in = s.in;
  if (has_integers && type == QN_S8 && !checked_add(in, max_interleave - 1, &in)) return false;
  for (const size_t factor : {s.kernel.h, s.kernel.w, in}) {
    if (!checked_mul(size, factor, &size)) return false;
  }
  // In panels the channels are rounded up, and there is one more row for the bias, whose type may be larger than that
  // of the weights.
  size_t panels, out;
  return checked_add(size, s.groups, &panels) && checked_add(s.out, max_panel_channels, &out) &&
         checked_mul(panels, out, &panels) &&
         checked_mul(panels, std::max(qn_type_size(type), sizeof(float)), &panels) && panels <= PTRDIFF_MAX;
}

auto as_tuple(const PackKey& k) {
  const qn_weights& w = k.weights;
  return std::tuple(k.packing, k.panel.nr, w.data, w.layout, k.shape.groups, k.shape.out, k.shape.in, k.shape.kernel.h,
                    k.shape.kernel.w, k.bias.size());
}

// The members that have their default values for floats.
auto quantization_as_tuple(const PackKey& k) {
  const qn_weights& w = k.weights;
  return std::tuple(k.panel.type, k.panel.format.kr, k.panel.format.lanes, k.panel.format.plus_128, k.input_zero,
                    w.type, w.scales, w.zero_points, w.scale_count, w.block_length, w.bias_type);
}

// The members that have their default values for dense weights.
auto encoding_as_tuple(const PackKey& k) {
  const qn_weights& w = k.weights;
  const void* decoded = w.encoding == QN_WEIGHTS_DECODED ? w.context : nullptr;
  return std::tuple(k.depth, k.places, w.encoding, w.block, w.starts, w.positions, w.decode, decoded);
}

qn_status check_array(const char* who, const char* what, const void* array) {
  if (array == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: %s is NULL", who, what);
  return check_aligned(who, what, array);
}

// Checks the positions of one row of blocks.
qn_status check_positions(const char* who, const qn_weights& w, size_t row, size_t depth) {
  for (size_t j = w.starts[row]; j < w.starts[row + 1]; ++j) {
    if (w.positions[j] >= depth) {
      return fail(QN_INVALID_ARGUMENT, "%s: weights.positions[%zu] is %u, but rows have %zu elements", who, j,
                  w.positions[j], depth);
    }
    if (j > w.starts[row] && w.positions[j] <= w.positions[j - 1]) {
      return fail(QN_INVALID_ARGUMENT, "%s: weights.positions[%zu] is %u, not above the one before it", who, j,
                  w.positions[j]);
    }
  }
  return QN_OK;
}

qn_status check_sparse(const char* who, const qn_weights& w, const WeightsShape& shape) {
  if (!std::has_single_bit(w.block) || w.block > 16) {
    return fail(QN_INVALID_ARGUMENT, "%s: weights.block is %u, not 1, 2, 4, 8 or 16", who, w.block);
  }
  QN_TRY(check_array(who, "weights.starts", w.starts));
  if (w.stored != 0) {
    QN_TRY(check_array(who, "weights.positions", w.positions));
    QN_TRY(check_array(who, "weights.data", w.data));
  }
  const size_t rows = shape.groups * shape.block_rows(w.block);
  if (w.starts[0] != 0) return fail(QN_INVALID_ARGUMENT, "%s: weights.starts[0] is %u, not 0", who, w.starts[0]);
  for (size_t row = 0; row < rows; ++row) {
    if (w.starts[row + 1] < w.starts[row] || w.starts[row + 1] > w.stored) {
      return fail(QN_INVALID_ARGUMENT, "%s: weights.starts[%zu] is %u, not from %u to the %zu stored", who, row + 1,
                  w.starts[row + 1], w.starts[row], w.stored);
    }
    QN_TRY(check_positions(who, w, row, shape.depth()));
  }
  if (w.starts[rows] == w.stored) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: weights.stored is %zu, but the last of weights.starts is %u", who, w.stored,
              w.starts[rows]);
}

qn_status check_content(const char* who, const qn_weights& w, const WeightsShape& shape) {
  if (!has_encodings || w.encoding == QN_WEIGHTS_DENSE) {
    if (w.data == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: weights.data is NULL", who);
    return w.type == QN_F32 ? check_aligned(who, "weights.data", w.data) : QN_OK;
  }
  if (w.layout != QN_WEIGHTS_OHWI) {
    return fail(QN_UNSUPPORTED, "%s: only dense weights may have another layout than QN_WEIGHTS_OHWI", who);
  }
  if (w.encoding == QN_WEIGHTS_SPARSE && w.type == QN_F32) return check_sparse(who, w, shape);
  if (w.encoding == QN_WEIGHTS_SPARSE) return fail(QN_UNSUPPORTED, "%s: sparse weights of integers", who);
  return w.decode != nullptr ? QN_OK : fail(QN_INVALID_ARGUMENT, "%s: weights.decode is NULL", who);
}

// Checks how many scales there are: one for all, or one for each output channel; or, where operators of floats take
// that, one for each run of its elements.
qn_status check_scale_count(const char* who, const qn_weights& w, qn_type type, const WeightsShape& shape,
                            Activations activations) {
  size_t count = shape.groups * shape.out;
  if (w.block_length == 0) {
    if (w.scale_count == 1 || w.scale_count == count) return QN_OK;
    return fail(QN_INVALID_ARGUMENT, "%s: weights.scale_count is %zu, not 1 or %zu", who, w.scale_count, count);
  }
  if (!has_scaled_blocks || type != QN_F32) {
    return fail(QN_UNSUPPORTED, "%s: weights.block_length is %zu; only 0 is supported", who, w.block_length);
  }
  if (activations == Activations::by_the_row && w.block_length % scale_block != 0) {
    return fail(QN_UNSUPPORTED, "%s: weights.block_length is %zu, not a multiple of %zu", who, w.block_length,
                scale_block);
  }
  if (checked_mul(count, runs_of(w, shape), &count) && w.scale_count == count) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: weights.scale_count is %zu, not %zu", who, w.scale_count, count);
}

// Checks the scales of quantized weights.
qn_status check_scales(const char* who, const qn_weights& w, qn_type type, const WeightsShape& shape,
                       Activations activations) {
  if (w.scales == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: weights of type s8 without weights.scales", who);
  QN_TRY(check_scale_count(who, w, type, shape, activations));
  for (size_t i = 0; i < w.scale_count; ++i) {
    const bool of_block = has_scaled_blocks && w.block_length != 0;
    if (!((of_block || w.scales[i] > 0) && __builtin_fabsf(w.scales[i]) < __builtin_inff())) {
      return fail(QN_INVALID_ARGUMENT, "%s: weights.scales[%zu] is %g, not a %s number", who, i,
                  static_cast<double>(w.scales[i]), of_block ? "finite" : "positive");
    }
    if (w.zero_points != nullptr && w.zero_points[i] != 0) {
      return fail(QN_UNSUPPORTED, "%s: weights.zero_points[%zu] is %d; only 0 is supported", who, i, w.zero_points[i]);
    }
  }
  return QN_OK;
}

// Does an operator of floats get weights of bytes, which it reads as the real numbers that they stand for?
bool stands_for_floats(const qn_weights& w, qn_type type) { return has_integers && type == QN_F32 && w.type == QN_S8; }

// Fails for elements that an operator of this type does not compute with.
qn_status check_elements(const char* who, const qn_weights& w, qn_type type, const WeightsShape& shape,
                         Activations activations) {
  QN_TRY(check_moved_type(who, w.type));
  if (quantizes_inputs && activations == Activations::by_the_row) {
    if (w.type != QN_S8) {
      return fail(QN_UNSUPPORTED, "%s: quantize_input with weights of type %s, not s8", who, qn_type_string(w.type));
    }
  } else if (stands_for_floats(w, type)) {
    if (w.encoding == QN_WEIGHTS_SPARSE || w.layout != QN_WEIGHTS_OHWI) {
      return fail(QN_UNSUPPORTED, "%s: weights of type s8 that are sparse, or not of layout QN_WEIGHTS_OHWI", who);
    }
  } else if (w.type != type) {
    return fail(QN_UNSUPPORTED, "%s: weights of type %s, not %s as the operator", who, qn_type_string(w.type),
                qn_type_string(type));
  }
  const qn_type bias = type == QN_F32 ? QN_F32 : QN_S32;
  if (w.bias_type != bias) {
    return fail(QN_UNSUPPORTED, "%s: weights.bias_type is %s, not %s", who, qn_type_string(w.bias_type),
                qn_type_string(bias));
  }
  if (has_integers && w.type != QN_F32) return check_scales(who, w, type, shape, activations);
  if (w.scales == nullptr && w.zero_points == nullptr && w.scale_count == 0 && w.block_length == 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: the weights have scales, but f32 is not quantized", who);
}

}  // namespace

qn_status read_weights(const char* who, const qn_weights* user, qn_type type, const WeightsShape& shape,
                       qn_weights* weights, Activations activations) {
  if (!has_api("op")) {  // the weights come from a graph, which has checked them
    *weights = *user;
    return fits_memory(shape, weights->type) ? QN_OK
                                             : fail(QN_INVALID_ARGUMENT, "%s: the size of the weights overflows", who);
  }
  QN_TRY(read_struct(who, user, qn_weights_init, weights));
  QN_TRY(check_elements(who, *weights, type, shape, activations));
  if (weights->layout < QN_WEIGHTS_OHWI || weights->layout > QN_WEIGHTS_HWIO) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown layout %d of the weights", who, static_cast<int>(weights->layout));
  }
  if (weights->encoding < QN_WEIGHTS_DENSE || weights->encoding > QN_WEIGHTS_DECODED) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown encoding %d of the weights", who,
                static_cast<int>(weights->encoding));
  }
  if (!fits_memory(shape, weights->type))
    return fail(QN_INVALID_ARGUMENT, "%s: the size of the weights overflows", who);
  QN_TRY(check_content(who, *weights, shape));
  if ((!quantizes_inputs || activations == Activations::given) && stands_for_floats(*weights, type)) {
    weights->type = QN_F32;
  }
  return QN_OK;
}

bool PackKey::operator==(const PackKey& other) const {
  return as_tuple(*this) == as_tuple(other) &&
         (!has_encodings || encoding_as_tuple(*this) == encoding_as_tuple(other)) &&
         (!has_integers || quantization_as_tuple(*this) == quantization_as_tuple(other)) &&
         (bias.empty() || std::memcmp(bias.data(), other.bias.data(), bias.size() * sizeof bias[0]) == 0);
}

Packed WeightsCache::find(const PackKey& key) const {
  const size_t found = place_of(entries_, [&](const Entry& entry) { return entry.first == key; });
  return found == entries_.size() ? nullptr : entries_[found].second.lock();
}

// Makes room for one more entry and one more use. Removes the entries of packings that no longer exist.
void WeightsCache::make_room(PackUses* uses) {
  const auto grow = [this](auto& list) {
    if (list.size() == list.capacity()) publish(block_of(this), [&] { list.reserve(2 * list.size() + 1); });
  };
  erase_if(entries_, [](const Entry& entry) { return entry.second.is_gone(); });
  grow(entries_);
  grow(uses->packed);
}

Packed WeightsCache::get(const PackKey& key, PackUses* uses) {
  const Lock lock(mutex_);
  make_room(uses);
  publish(block_of(this), [&] {
    Packed packed = find(key);
    if (packed == nullptr) {
      PackKey copy = key;
      packed = pack_weights(key);
      entries_.emplace_back(std::move(copy), packed);
    }
    if (!contains(uses->packed, packed)) uses->packed.push_back(std::move(packed));
  });
  return find(key);
}

size_t WeightsCache::bytes() const {
  const Lock lock(mutex_);
  size_t bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (const Packed packed = entry.lock(); packed != nullptr) bytes += packed->data.size();
  }
  return bytes;
}

struct Weights::LazyDensity {
  Mutex mutex;
  bool counted = false;
  WeightsDensity density;
};

Weights::Weights(const qn_weights& weights, const WeightsShape& shape, const void* bias, qn_weights_cache* cache,
                 Activations activations)
    : weights_(weights),
      shape_(shape),
      activations_(activations),
      bias_(shape.groups * shape.out),
      cache_(cache == nullptr ? make_shared<WeightsCache>() : cache->impl),
      density_(has_sparse ? make_shared<LazyDensity>() : nullptr) {
  if (bias != nullptr) std::memcpy(bias_.data(), bias, bias_.size() * sizeof bias_[0]);
}

Vector<float> Weights::float_bias() const {
  Vector<float> floats(bias_.size());
  std::memcpy(floats.data(), bias_.data(), bias_.size() * sizeof bias_[0]);
  return floats;
}

Weights Weights::unshared() const {
  Weights weights(weights_, shape_, bias_.data(), nullptr, activations_);
  weights.density_ = density_;
  weights.facts_ = facts_;
  return weights;
}

const WeightsDensity& Weights::density() const {
  const Lock lock(density_->mutex);
  if (!density_->counted) density_->density = density_of(weights_, shape_);
  density_->counted = true;
  return density_->density;
}

Packed Weights::pack(Packing packing, const PanelShape& panel, size_t depth, const SparsePlaces& places,
                     int32_t input_zero) const {
  // Algorithms share panels wherever these are the same: where no tap, and no row of taps, ends in padding.
  const size_t together = has_taps && packing == Packing::row_panels ? shape_.kernel.w * shape_.in : shape_.in;
  const bool padded = has_integers && together % panel.format.kr != 0;
  if ((packing == Packing::tap_panels || (has_taps && packing == Packing::row_panels)) && !padded)
    packing = Packing::panels;
  // Floats are added behind the sums, not by the panels.
  const Vector<uint32_t> bias = quantizes_inputs && dequantizes(panel.type) ? Vector<uint32_t>() : bias_;
  PackKey key = {packing, panel, shape_, weights_, bias, depth, places, input_zero};
  const bool steps =
      (has_byte_weights && panel.type == KernelType::qw8c) || (has_scaled_blocks && panel.type == KernelType::qw4b);
  if (steps) key.weights = as_steps(key.weights);
  return cache_->get(key, &uses_);
}

}  // namespace quern

extern "C" {

void qn_weights_init_sized(qn_weights* weights, size_t size) {
  qn_weights p = {};
  p.type = QN_F32;
  p.layout = QN_WEIGHTS_OHWI;
  p.block = 1;
  p.bias_type = QN_F32;
  quern::init_struct(weights, size, p);
}

qn_status qn_weights_cache_create(qn_weights_cache** cache) {
  return quern::guarded([=] {
    if (cache == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_weights_cache_create: cache is NULL");
    *cache = new qn_weights_cache;
    return QN_OK;
  });
}

size_t qn_weights_cache_bytes(const qn_weights_cache* cache) { return cache == nullptr ? 0 : cache->impl->bytes(); }

void qn_weights_cache_release(qn_weights_cache* cache) { delete cache; }

}  // extern "C"
