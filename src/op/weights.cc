#include "op/weights.h"

#include <cstring>
#include <tuple>

#include "base/math.h"
#include "op/pack.h"

namespace quern {
namespace {

// Kernels' panels are padded to at most so many channels.
constexpr size_t max_panel_channels = 1024;

bool fits_memory(const WeightsShape& s) {
  size_t size = s.groups;
  for (const size_t factor : {s.kernel.h, s.kernel.w, s.in}) {
    if (!checked_mul(size, factor, &size)) return false;
  }
  // Panels: channels rounded up, one more row for the bias.
  size_t panels, out;
  return checked_add(size, s.groups, &panels) && checked_add(s.out, max_panel_channels, &out) &&
         checked_mul(panels, out, &panels) && checked_mul(panels, sizeof(float), &panels) && panels <= PTRDIFF_MAX;
}

auto as_tuple(const PackKey& k) {
  return std::tuple(k.packing, k.nr, k.weights.data, k.weights.layout, k.shape.groups, k.shape.out, k.shape.in,
                    k.shape.kernel.h, k.shape.kernel.w, k.bias.size());
}

}  // namespace

qn_status read_weights(const char* who, const qn_weights* user, const WeightsShape& shape, qn_weights* weights) {
  QN_TRY(read_struct(who, user, qn_weights_init, weights));
  QN_TRY(check_type(who, weights->type));
  if (weights->layout < QN_WEIGHTS_OHWI || weights->layout > QN_WEIGHTS_HWIO) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown layout %d of the weights", who, static_cast<int>(weights->layout));
  }
  if (weights->data == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: weights.data is NULL", who);
  if (reinterpret_cast<uintptr_t>(weights->data) % sizeof(float) != 0) {
    return fail(QN_INVALID_ARGUMENT, "%s: weights.data is not aligned to floats", who);
  }
  if (!fits_memory(shape)) return fail(QN_INVALID_ARGUMENT, "%s: the size of the weights overflows", who);
  return QN_OK;
}

Vector<float> copy_floats(const float* values, size_t count) {
  return values == nullptr ? Vector<float>() : Vector<float>(values, values + count);
}

bool PackKey::operator<(const PackKey& other) const {
  const auto a = as_tuple(*this), b = as_tuple(other);
  if (a != b) return a < b;
  // As bytes, which order NaN too.
  return !bias.empty() && std::memcmp(bias.data(), other.bias.data(), bias.size() * sizeof(float)) < 0;
}

Packed WeightsCache::get(const PackKey& key, PackUses* uses) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
  Packed packed;
  if (const auto found = entries_.find(key); found != entries_.end()) packed = found->second.lock();
  if (packed == nullptr) {
    packed = pack_weights(key);
    entries_.insert_or_assign(key, packed);
  }
  for (const Packed& used : uses->packed) {
    if (used == packed) return packed;
  }
  uses->packed.push_back(packed);
  return packed;
}

size_t WeightsCache::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (const Packed packed = entry.lock()) bytes += packed->data.size();
  }
  return bytes;
}

Weights::Weights(const qn_weights& weights, const WeightsShape& shape, const float* bias, qn_weights_cache* cache)
    : weights_(weights),
      shape_(shape),
      bias_(copy_floats(bias, shape.groups * shape.out)),
      cache_(cache == nullptr ? make_shared<WeightsCache>() : cache->impl) {
  bias_.resize(shape.groups * shape.out);
}

Packed Weights::pack(Packing packing, size_t nr) const {
  return cache_->get({packing, nr, shape_, weights_, bias_}, &uses_);
}

}  // namespace quern

extern "C" {

void qn_weights_init_sized(qn_weights* weights, size_t size) {
  qn_weights p = {};
  p.type = QN_F32;
  p.layout = QN_WEIGHTS_OHWI;
  quern::init_struct(weights, size, p);
}

qn_status qn_weights_cache_create(qn_weights_cache** cache) {
  return quern::guarded([&] {
    if (cache == nullptr) return quern::fail(QN_INVALID_ARGUMENT, "qn_weights_cache_create: cache is NULL");
    *cache = new qn_weights_cache;
    return QN_OK;
  });
}

size_t qn_weights_cache_bytes(const qn_weights_cache* cache) { return cache == nullptr ? 0 : cache->impl->bytes(); }

void qn_weights_cache_release(qn_weights_cache* cache) { delete cache; }

}  // extern "C"
