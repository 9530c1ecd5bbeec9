#include "op/pack.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"

namespace quern {
namespace {

// Strides of the user's weights, in elements.
struct Strides {
  size_t out, h, w, in;
};

Strides strides_of(qn_weights_layout layout, const WeightsShape& s) {
  const size_t all_out = s.groups * s.out;
  switch (layout) {
    case QN_WEIGHTS_OHWI: return {s.depth(), s.kernel.w * s.in, s.in, 1};
    case QN_WEIGHTS_OIHW: return {s.depth(), s.kernel.w, 1, s.taps()};
    case QN_WEIGHTS_HWIO: return {1, s.kernel.w * s.in * all_out, s.in * all_out, all_out};
  }
  return {};
}

// Rows of one panel: row i, column j from b[i * k_stride + j * n_stride]; columns from `count` on are left alone.
// In blocks of a cache line of weights, because either direction may have the long stride.
void pack_rows(size_t k, size_t count, size_t nr, const float* b, size_t k_stride, size_t n_stride, float* rows) {
  constexpr size_t block = 16;
  for (size_t i0 = 0; i0 < k; i0 += block) {
    const size_t i1 = std::min(k, i0 + block);
    for (size_t j = 0; j < count; ++j) {
      for (size_t i = i0; i < i1; ++i) rows[i * nr + j] = b[i * k_stride + j * n_stride];
    }
  }
}

// Sets the bias row of a panel, and zeros in the columns nobody uses.
void begin_panel(size_t k, size_t count, size_t nr, const float* bias, float* panel) {
  if (count < nr) std::memset(panel, 0, nr * (k + 1) * sizeof(float));
  for (size_t j = 0; j < count; ++j) panel[j] = bias == nullptr ? 0.0f : bias[j];
}

void pack_group(const PackKey& key, const Strides& s, size_t group, float* panel) {
  const WeightsShape& shape = key.shape;
  for (size_t j = 0; j < shape.out; j += key.nr, panel += key.nr * (shape.depth() + 1)) {
    const size_t o = group * shape.out + j, count = std::min(key.nr, shape.out - j);
    begin_panel(shape.depth(), count, key.nr, key.bias.data() + o, panel);
    float* rows = panel + key.nr;
    for (size_t y = 0; y < shape.kernel.h; ++y) {
      for (size_t x = 0; x < shape.kernel.w; ++x, rows += key.nr * shape.in) {
        const float* tap = static_cast<const float*>(key.data) + o * s.out + y * s.h + x * s.w;
        pack_rows(shape.in, count, key.nr, tap, s.in, s.out, rows);
      }
    }
  }
}

void pack_depthwise(const PackKey& key, const Strides& s, float* panel) {
  const WeightsShape& shape = key.shape;
  for (size_t c = 0; c < shape.groups; c += key.nr, panel += key.nr * (shape.taps() + 1)) {
    const size_t count = std::min(key.nr, shape.groups - c);
    begin_panel(shape.taps(), count, key.nr, key.bias.data() + c, panel);
    float* row = panel + key.nr;
    for (size_t x = 0; x < shape.kernel.w; ++x) {
      for (size_t y = 0; y < shape.kernel.h; ++y, row += key.nr) {
        const float* tap = static_cast<const float*>(key.data) + c * s.out + y * s.h + x * s.w;
        pack_rows(1, count, key.nr, tap, s.in, s.out, row);
      }
    }
  }
}

}  // namespace

std::shared_ptr<PackedWeights> pack_weights(const PackKey& key) {
  const WeightsShape& shape = key.shape;
  const Strides strides = strides_of(key.layout, shape);
  auto packed = make_shared<PackedWeights>();
  const bool panels = key.packing == Packing::panels;
  packed->panel_bytes = key.nr * ((panels ? shape.depth() : shape.taps()) + 1) * sizeof(float);
  packed->group_bytes = divide_up(panels ? shape.out : shape.groups, key.nr) * packed->panel_bytes;
  packed->data = Buffer(packed->group_bytes * (panels ? shape.groups : 1));
  auto* data = static_cast<float*>(packed->data.data());
  if (panels) {
    for (size_t g = 0; g < shape.groups; ++g) {
      pack_group(key, strides, g, data + g * packed->group_bytes / sizeof(float));
    }
  } else {
    pack_depthwise(key, strides, data);
  }
  return packed;
}

void pack_panels(size_t n, size_t k, size_t nr, const float* b, size_t k_stride, size_t n_stride, const float* bias,
                 float* panels) {
  for (size_t j = 0; j < n; j += nr, panels += nr * (k + 1)) {
    const size_t count = std::min(nr, n - j);
    begin_panel(k, count, nr, bias == nullptr ? nullptr : bias + j, panels);
    if (k > 0) pack_rows(k, count, nr, b + j * n_stride, k_stride, n_stride, panels + nr);
  }
}

}  // namespace quern
