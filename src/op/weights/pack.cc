#include "op/weights/pack.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernel/dequantize.h"
#include "kernel/tapgemm.h"
#include "kernel/winograd_math.h"
#include "op/weights/pack_sparse.h"
#include "op/weights/weight_rows.h"

namespace quern {
namespace {

// Packs k rows into a panel: row i, column j is b[i * k_stride + j * n_stride]. Columns from `count` on stay as they are.
// Works in blocks of a cache line of weights, because either direction may have the long stride.
template <class T>
void pack_rows(size_t k, size_t count, size_t nr, const T* b, size_t k_stride, size_t n_stride, T* rows) {
  constexpr size_t block = 64 / sizeof(T);
  for (size_t i0 = 0; i0 < k; i0 += block) {
    const size_t i1 = std::min(k, i0 + block);
    for (size_t j = 0; j < count; ++j) {
      for (size_t i = i0; i < i1; ++i) rows[i * nr + j] = b[i * k_stride + j * n_stride];
    }
  }
}

// How many successive rows of a panel lie together (kr of gemm.h). It is 1 for floats, which are all that a small build
// has.
size_t interleave(const PackKey& key) { return has_integers ? key.panel.format.kr : 1; }

// Rows from one tap of a panel to the next.
size_t rows_of_tap(const PackKey& key) {
  return has_integers && key.packing == Packing::tap_panels ? round_up(key.shape.in, interleave(key)) : key.shape.in;
}

// The same from one row of taps to the next.
size_t rows_of_tap_row(const PackKey& key) {
  const size_t rows = key.shape.kernel.w * rows_of_tap(key);
  return has_taps && key.packing == Packing::row_panels ? round_up(rows, interleave(key)) : rows;
}

bool has_blocks(const PackKey& key) { return has_integers && has_block_scales(key.panel.type); }

// All rows of a panel, including those of padding.
size_t panel_rows(const PackKey& key) {
  const size_t together = has_blocks(key) ? scale_block : interleave(key);
  return has_integers ? round_up(key.shape.kernel.h * rows_of_tap_row(key), together) : key.shape.depth();
}

// Packs one tap, of `depth` input channels, of a panel in which `kr` successive rows lie together. Its first row is row
// `first` of the panel.
template <class T>
void pack_interleaved(const PackKey& key, size_t first, size_t depth, size_t count, const T* b,
                      const WeightStrides& stride, T* panel) {
  const size_t nr = key.panel.nr, kr = key.panel.format.kr;
  constexpr size_t word = 4 / sizeof(T);
  const bool words =
      kr == word && stride.input() == 1 && first % word == 0;  // the elements of a word lie together, too
  const size_t whole = words ? depth / word * word : 0;
  for (size_t j = 0; j < count; ++j) {
    const T* const from = b + j * stride.out;
    for (size_t i = 0; i < whole; i += word) std::memcpy(panel + (first + i) * nr + j * word, from + i, 4);
    for (size_t i = whole; i < depth; ++i) {
      const size_t row = first + i;
      panel[(row / kr * nr + j) * kr + row % kr] = from[i * stride.input()];
    }
  }
}

constexpr size_t bias_bytes = 4;

// Bytes of a panel with k rows of weights, elements of type T.
template <class T>
size_t panel_bytes(size_t k, size_t nr) {
  return nr * (bias_bytes + k * sizeof(T));
}

// Writes the bias row of a panel, and zeros into its unused columns. Returns where its weights begin.
template <class T>
T* begin_panel(size_t k, size_t count, size_t nr, const void* bias, void* panel) {
  const size_t used = count * bias_bytes;
  if (count < nr) std::memset(panel, 0, panel_bytes<T>(k, nr));
  bias == nullptr ? std::memset(panel, 0, used) : std::memcpy(panel, bias, used);
  return reinterpret_cast<T*>(static_cast<char*>(panel) + nr * bias_bytes);
}

// Subtracts `factor` times the sum of a channel's weights from its bias; on the way, sums may wrap around.
void subtract_sums(const PackKey& key, int32_t factor, size_t k, size_t count, const int8_t* rows, void* panel) {
  const size_t kr = interleave(key);
  auto* const bias = static_cast<uint32_t*>(panel);
  for (size_t i = 0; i < k; i += kr, rows += key.panel.nr * kr) {
    for (size_t j = 0; j < count; ++j) {
      for (size_t lane = 0; lane < kr; ++lane) bias[j] -= static_cast<uint32_t>(factor * rows[j * kr + lane]);
    }
  }
}

// Takes the zero point of the input off the sums: a sum of (a - zero) * w is one of a * w, less zero times the sum of w.
// Likewise what a kernel adds to the input. The result wraps around, as sums do. Where each row has a zero point of its
// own, panels have the sums of weights in the place of biases (gemm.h).
void absorb_zero(const PackKey& key, size_t k, size_t count, const int8_t* rows, void* panel) {
  if (has_blocks(key)) return;  // join_blocks()
  const int32_t factor = quantizes_inputs && dequantizes(key.panel.type) ? -1 : key.absorbed_zero();
  if (factor != 0) subtract_sums(key, factor, k, count, rows, panel);
}
void absorb_zero(const PackKey&, size_t, size_t, const float*, void*) {}

template <class T>
bool has_halves(const PackKey& key) {
  return has_integers && sizeof(T) == 1 && info_of(key.panel.type).weights == Element::s4;
}

// Copies k rows of bytes, all of which fit 4 bits. They become halves of bytes (panel.h), after `raise` is added.
void join_rows(const PackKey& key, size_t k, int raise, const char* rows, char* to) {
  const size_t nr = key.panel.nr, kr = interleave(key), columns = nr / 2;
  for (size_t i = 0; i < k; i += kr, rows += nr * kr) {
    for (size_t j = 0; j < columns * kr; ++j) {
      *to++ = static_cast<char>(((rows[j] + raise) & 0xf) | (rows[columns * kr + j] + raise) << 4);
    }
  }
}

// The same for a whole panel.
void join_halves(const PackKey& key, size_t k, const char* panel, char* to) {
  const size_t biases = key.panel.nr * bias_bytes;
  std::memcpy(to, panel, biases);
  join_rows(key, k, 0, panel + biases, to + biases);
}

// The same for a panel of type qd8b4 or qw4b (gemm.h), whose first output channel is number o.
void join_blocks(const PackKey& key, size_t k, size_t o, size_t count, const char* panel, char* to) {
  const size_t nr = key.panel.nr, kr = interleave(key), runs = runs_of(key.weights, key.shape);
  const char* rows = panel + nr * bias_bytes;
  auto* const of_weights = reinterpret_cast<float*>(to);
  std::memset(to, 0, nr * sizeof(float));
  to += nr * sizeof(float);
  for (size_t i = 0; i < k; i += scale_block, rows += scale_block * nr, to += nr * sizeof(float)) {
    join_rows(key, scale_block, 8, rows, to);
    to += scale_block * nr / 2;
    std::memset(to, 0, nr * sizeof(float));
    for (size_t j = 0; j < count; ++j) {
      const float scale = key.weights.scales[(o + j) * runs + i / key.weights.block_length];
      int32_t sum = 0;
      for (size_t row = 0; row < scale_block; ++row)
        sum += static_cast<int8_t>(rows[(row / kr * nr + j) * kr + row % kr]);
      of_weights[j] += static_cast<float>(sum) * scale;
      std::memcpy(to + j * sizeof scale, &scale, sizeof scale);
    }
  }
}

// Puts the channels of a panel with k rows of bytes into the places that its format gives them.
void order_channels(const PanelShape& shape, size_t k, void* panel) {
  if (shape.format.lanes == 1) return;
  const size_t kr = shape.format.kr;
  Vector<char> row(shape.nr * std::max(kr, bias_bytes));
  const auto order = [&](char* of, size_t bytes) {
    std::memcpy(row.data(), of, shape.nr * bytes);
    for (size_t i = 0; i < shape.nr; ++i) {
      std::memcpy(of + place_in_panel(shape.format, shape.nr, i) * bytes, row.data() + i * bytes, bytes);
    }
  };
  auto* at = static_cast<char*>(panel);
  order(at, bias_bytes);
  at += shape.nr * bias_bytes;
  for (size_t i = 0; i < k; i += kr, at += shape.nr * kr) order(at, kr);
}

bool is_depthwise(const PackKey& key) {
  return has_algorithm(QN_ALGORITHM_DEPTHWISE) && key.packing == Packing::depthwise;
}

// How the rows of a panel lie: how many there are, and from one row of taps, and one tap, to the next.
struct PanelRows {
  size_t all, tap_row, tap;
};
PanelRows rows_of(const PackKey& key) {
  if (!is_depthwise(key)) return {panel_rows(key), rows_of_tap_row(key), rows_of_tap(key)};
  // Depthwise panels have their taps column by column.
  const size_t column = has_integers ? round_up(key.shape.kernel.h, interleave(key)) : key.shape.kernel.h;
  return {key.shape.kernel.w * column, 1, column};
}

// Bytes of a panel, as a kernel reads it, with k rows of weights.
template <class T>
size_t stored_bytes(const PackKey& key, size_t k) {
  const size_t nr = key.panel.nr;
  const size_t scales = has_blocks(key) ? nr * k / scale_block * sizeof(float) : 0;
  return has_halves<T>(key) ? nr * bias_bytes + nr * k / 2 + scales : panel_bytes<T>(k, nr);
}

// Packs `channels` output channels from `first` on.
template <class T>
void pack_channels(const PackKey& key, const PanelRows& rows, WeightRows& weights, size_t first, size_t channels,
                   char* to) {
  const WeightsShape& shape = key.shape;
  const size_t nr = key.panel.nr, k = rows.all;
  const bool halves = has_halves<T>(key);
  const Buffer whole(halves ? panel_bytes<T>(k, nr) : 0);  // where a panel is made whose weights become halves
  for (size_t j = 0; j < channels; j += nr, to += stored_bytes<T>(key, k)) {
    char* const panel = halves ? static_cast<char*>(whole.data()) : to;
    const size_t o = first + j, count = std::min(nr, channels - j);
    if (has_integers && k != shape.depth()) std::memset(panel, 0, panel_bytes<T>(k, nr));  // some rows are padding
    T* const begin =
        begin_panel<T>(k, count, nr, quantizes_inputs && key.bias.empty() ? nullptr : key.bias.data() + o, panel);
    const Strip strip = weights.rows(o, count);
    const T* const data = static_cast<const T*>(strip.data);
    const WeightStrides& stride = strip.stride;
    for (size_t y = 0; y < shape.kernel.h; ++y) {
      for (size_t x = 0; x < shape.kernel.w; ++x) {
        const T* const tap = data + y * stride.h + x * stride.w;
        const size_t row = y * rows.tap_row + x * rows.tap;
        if (interleave(key) == 1 && !(small && sizeof(T) == 1)) {
          pack_rows(shape.in, count, nr, tap, stride.input(), stride.out, begin + row * nr);
        } else {
          pack_interleaved(key, row, shape.in, count, tap, stride, begin);
        }
      }
    }
    absorb_zero(key, k, count, begin, panel);
    if (has_integers && has_lanes) order_channels(key.panel, k, panel);
    if (halves) has_blocks(key) ? join_blocks(key, k, o, count, panel, to) : join_halves(key, k, panel, to);
    if (!is_depthwise(key)) weights.tell_read(o, count);
  }
}

// Packs weights whose elements are of type T as panels of gemm.h, igemm.h and tapgemm.h, or of dwconv.h.
template <class T>
Shared<PackedWeights> pack_dense(const PackKey& key) {
  const WeightsShape& shape = key.shape;
  const PanelRows rows = rows_of(key);
  WeightRows weights(key.weights, shape);
  auto packed = make_shared<PackedWeights>();
  // The channels of depthwise panels are groups of their own.
  const bool depthwise = is_depthwise(key);
  const size_t groups = depthwise ? 1 : shape.groups, channels = depthwise ? shape.groups : shape.out;
  packed->panel_bytes = stored_bytes<T>(key, rows.all);
  packed->group_bytes = divide_up(channels, key.panel.nr) * packed->panel_bytes;
  packed->data = Buffer(packed->group_bytes * groups);
  auto* data = static_cast<char*>(packed->data.data());
  for (size_t g = 0; g < groups; ++g, data += packed->group_bytes)
    pack_channels<T>(key, rows, weights, g * channels, channels, data);
  if (depthwise) weights.tell_read(0, channels);  // they are few
  return packed;
}

// ---- winograd ----

constexpr size_t winograd_taps = 3;
constexpr size_t winograd_block = 16;  // output channels that are transformed at once

// The matrix G that transforms the weights: `taps` of winograd_math.h.
struct WinogradTaps {
  size_t inputs;
  const double (*rows)[winograd_taps];
};
WinogradTaps winograd_taps_of(Packing packing) {
  switch (packing) {
    case Packing::winograd2: return {4, Winograd<2>::taps};
    case Packing::winograd4: return {6, Winograd<4>::taps};
    case Packing::winograd6: return {8, Winograd<6>::taps};
    default: return {0, nullptr};
  }
}

using WinogradVector = double[winograd_block];

// Computes the sum of the taps times g, for every output channel of a block.
template <class T>
void weigh_taps(const double* g, const WinogradVector* taps, T* __restrict result) {
#pragma GCC unroll 8
  for (size_t o = 0; o < winograd_block; ++o) {
    result[o] = static_cast<T>(g[0] * taps[0][o] + g[1] * taps[1][o] + g[2] * taps[2][o]);
  }
}

// Computes G w G' in double precision, for `count` neighbouring output channels. Writes one row to the panel of each
// point; a panel has `panel` floats.
void transform_weights(const WinogradTaps& g, const float* w, const WeightStrides& s, size_t count, float* to,
                       size_t panel) {
  const size_t n = g.inputs;
  WinogradVector columns[winograd_taps][winograd_taps] = {};  // of w
  for (size_t x = 0; x < winograd_taps; ++x) {
    for (size_t y = 0; y < winograd_taps; ++y) {
      for (size_t o = 0; o < count; ++o) columns[x][y][o] = static_cast<double>(w[o * s.out + y * s.h + x * s.w]);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    WinogradVector row[winograd_taps];
    for (size_t x = 0; x < winograd_taps; ++x) weigh_taps(g.rows[i], columns[x], row[x]);
    for (size_t j = 0; j < n; ++j, to += panel) {
      float sums[winograd_block];
      const bool whole = count == winograd_block;
      weigh_taps(g.rows[j], row, whole ? to : sums);
      if (!whole) std::memcpy(to, sums, count * sizeof(float));
    }
  }
}

Shared<PackedWeights> pack_winograd(const PackKey& key, const WinogradTaps& taps) {
  const WeightsShape& shape = key.shape;
  WeightRows weights(key.weights, shape);
  const size_t points = taps.inputs * taps.inputs, panel = key.panel.nr * (shape.in + 1);
  auto packed = make_shared<PackedWeights>();
  packed->panel_bytes = panel * sizeof(float);
  packed->group_bytes = divide_up(shape.out, key.panel.nr) * points * packed->panel_bytes;
  packed->data = Buffer(packed->group_bytes);
  auto* panels = static_cast<float*>(packed->data.data());
  for (size_t j = 0; j < shape.out; j += key.panel.nr, panels += points * panel) {
    // The bias and the unused columns must be 0. The rest is cleared, too: then the panels, which are written in turns,
    // are in the cache.
    std::memset(panels, 0, points * panel * sizeof(float));
    const size_t columns = std::min(key.panel.nr, shape.out - j);
    const Strip strip = weights.rows(j, columns);
    const float* const data = strip.floats();
    const WeightStrides& stride = strip.stride;
    for (size_t i = 0; i < shape.in; ++i) {
      for (size_t o = 0; o < columns; o += winograd_block) {
        const size_t count = std::min(winograd_block, columns - o);
        transform_weights(taps, data + o * stride.out + i * stride.in, stride, count,
                          panels + (i + 1) * key.panel.nr + o, panel);
      }
    }
    weights.tell_read(j, columns);
  }
  return packed;
}

}  // namespace

Shared<PackedWeights> pack_weights(const PackKey& key) {
  if (has_algorithm(QN_ALGORITHM_WINOGRAD)) {
    if (const WinogradTaps taps = winograd_taps_of(key.packing); taps.rows != nullptr) return pack_winograd(key, taps);
  }
  if (has_sparse && (key.packing == Packing::sparse || key.packing == Packing::sparse_fours)) return pack_sparse(key);
  const bool bytes = has_integers && (!has_float_products || key.weights.type == QN_S8);
  return bytes ? pack_dense<int8_t>(key) : pack_dense<float>(key);
}

void pack_panels(size_t n, size_t k, size_t nr, const float* b, size_t k_stride, size_t n_stride, const float* bias,
                 float* panels) {
  for (size_t j = 0; j < n; j += nr, panels += nr * (k + 1)) {
    const size_t count = std::min(nr, n - j);
    float* const rows = begin_panel<float>(k, count, nr, bias == nullptr ? nullptr : bias + j, panels);
    if (k > 0) pack_rows(k, count, nr, b + j * n_stride, k_stride, n_stride, rows);
  }
}

}  // namespace quern
