#include "op/weights/weights.h"

#include <bit>
#include <cstring>
#include <tuple>

#include "base/math.h"
#include "base/search.h"
#include "op/weights/density.h"
#include "op/weights/pack.h"

namespace quern {
namespace {

// The most channels of a kernel's panel.
constexpr size_t max_panel_channels = 1024;

bool fits_memory(const WeightsShape& s, qn_type type) {
  size_t size = s.groups;
  for (const size_t factor : {s.kernel.h, s.kernel.w, s.in}) {
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
  return std::tuple(k.panel.type, k.panel.kr, k.input_zero, w.type, w.scales, w.zero_points, w.scale_count,
                    w.block_length, w.bias_type);
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
  if (!has_encodings || w.encoding == QN_WEIGHTS_DENSE) return check_array(who, "weights.data", w.data);
  if (w.layout != QN_WEIGHTS_OHWI) {
    return fail(QN_UNSUPPORTED, "%s: only dense weights may have another layout than QN_WEIGHTS_OHWI", who);
  }
  if (w.encoding == QN_WEIGHTS_SPARSE) return check_sparse(who, w, shape);
  return w.decode != nullptr ? QN_OK : fail(QN_INVALID_ARGUMENT, "%s: weights.decode is NULL", who);
}

// Fails for elements that this version does not compute with.
qn_status check_elements(const char* who, const qn_weights& w) {
  QN_TRY(check_moved_type(who, w.type));
  if (w.type != QN_F32) {
    return fail(QN_UNSUPPORTED, "%s: weights of type %s; only QN_F32 is supported", who, qn_type_string(w.type));
  }
  if (w.bias_type != QN_F32) {
    return fail(QN_UNSUPPORTED, "%s: weights.bias_type is %s; only QN_F32 is supported", who,
                qn_type_string(w.bias_type));
  }
  if (w.scales == nullptr && w.zero_points == nullptr && w.scale_count == 0 && w.block_length == 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: the weights have scales, but f32 is not quantized", who);
}

}  // namespace

qn_status read_weights(const char* who, const qn_weights* user, const WeightsShape& shape, qn_weights* weights) {
  if (!has_api("op")) {  // the weights come from a graph, which has checked them
    *weights = *user;
    return fits_memory(shape, weights->type) ? QN_OK
                                             : fail(QN_INVALID_ARGUMENT, "%s: the size of the weights overflows", who);
  }
  QN_TRY(read_struct(who, user, qn_weights_init, weights));
  QN_TRY(check_elements(who, *weights));
  if (weights->layout < QN_WEIGHTS_OHWI || weights->layout > QN_WEIGHTS_HWIO) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown layout %d of the weights", who, static_cast<int>(weights->layout));
  }
  if (weights->encoding < QN_WEIGHTS_DENSE || weights->encoding > QN_WEIGHTS_DECODED) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown encoding %d of the weights", who,
                static_cast<int>(weights->encoding));
  }
  if (!fits_memory(shape, weights->type))
    return fail(QN_INVALID_ARGUMENT, "%s: the size of the weights overflows", who);
  return check_content(who, *weights, shape);
}

Vector<float> copy_floats(const float* values, size_t count) {
  return values == nullptr ? Vector<float>() : Vector<float>(values, values + count);
}

bool PackKey::operator==(const PackKey& other) const {
  return as_tuple(*this) == as_tuple(other) &&
         (!has_encodings || encoding_as_tuple(*this) == encoding_as_tuple(other)) &&
         (!has_integers || quantization_as_tuple(*this) == quantization_as_tuple(other)) &&
         (bias.empty() || std::memcmp(bias.data(), other.bias.data(), bias.size() * sizeof(float)) == 0);
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

Weights::Weights(const qn_weights& weights, const WeightsShape& shape, const void* bias, qn_weights_cache* cache)
    : weights_(weights),
      shape_(shape),
      bias_(copy_floats(static_cast<const float*>(bias), shape.groups * shape.out)),
      cache_(cache == nullptr ? make_shared<WeightsCache>() : cache->impl),
      density_(has_sparse ? make_shared<LazyDensity>() : nullptr) {
  bias_.resize(shape.groups * shape.out);
}

Weights Weights::unshared() const {
  Weights weights(weights_, shape_, bias_.data(), nullptr);
  weights.density_ = density_;
  return weights;
}

const WeightsDensity& Weights::density() const {
  const Lock lock(density_->mutex);
  if (!density_->counted) density_->density = count_density(weights_, shape_);
  density_->counted = true;
  return density_->density;
}

Packed Weights::pack(Packing packing, const PanelShape& panel, size_t depth, const SparsePlaces& places) const {
  return cache_->get({packing, panel, shape_, weights_, bias_, depth, places}, &uses_);
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
