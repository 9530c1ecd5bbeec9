#include "op/tile_input.h"

#include "base/math.h"
#include "base/tensor.h"
#include "kernel/gather.h"
#include "kernel/select.h"
#include "kernel/transpose.h"

namespace quern {
namespace {

// Splits k = begin .. end-1, which counts taps and of each all channels, into runs of channels of one tap.
template <class Each>
void walk_taps(size_t begin, size_t end, size_t channels, Each&& each) {
  for (size_t k = begin; k < end;) {
    const size_t tap = k / channels, i = k % channels, count = std::min(channels - i, end - k);
    each(tap, i, count);
    k += count;
  }
}

// ---- NHWC: pixels are transposed

class TransposedInput final : public TileInput {
 public:
  TransposedInput(const ConvPlan& conv, const Window& window)
      : transpose_(*select(transpose_rows(), nullptr, [](const TransposeRow&) { return true; })),
        window_(window),
        channels_(conv.weights.shape().in),
        row_stride_(static_cast<int64_t>(window.row_stride)),
        pixel_stride_(static_cast<int64_t>(window.pixel_stride)),
        image_stride_(conv.problem.matrix ? 0 : conv.request.ins[0].stride[0]),
        inside_rows_(columns_inside(window.h)),
        inside_columns_(columns_inside(window.w)),
        zero_(channels_) {}

  void find(const Tile& tile, TilePixels* pixels) const override {
    const size_t width = window_.w.out, image_pixels = window_.h.out * width;
    const size_t image = tile.first / image_pixels, at = tile.first % image_pixels;
    size_t y = at / width, x = at % width;
    const char* a = tile.a + image * image_stride_;
    pixels->inside = true;
    for (size_t i = 0; i < tile.count;) {
      const size_t end = std::min(tile.count, i + width - x);  // of this row
      const bool inside = inside_rows_.has(y) && x >= inside_columns_.begin && x + end - i <= inside_columns_.end;
      pixels->inside = pixels->inside && inside;
      const int64_t first_y = window_.h.at(y, 0);
      int64_t first_x = window_.w.at(x, 0);
      const char* row = a + first_y * row_stride_;
      for (; i < end; ++i, first_x += static_cast<int64_t>(window_.w.stride)) {
        pixels->first[i] = row + first_x * pixel_stride_;
        pixels->y[i] = first_y;
        pixels->x[i] = first_x;
      }
      x = 0;
      if (++y < window_.h.out) continue;
      y = 0;
      a += image_stride_;
    }
  }

  TileRows rows(const Tile& tile, const TilePixels& pixels, size_t begin, size_t end, char* scratch,
                size_t stride) const override {
    // The channels of a single pixel lie as they should.
    if (tile.count == 1 && window_.taps() == 1 && pixels.inside) {
      return {pixels.first[0] + begin * sizeof(float), sizeof(float)};
    }
    char* to = scratch;
    walk_taps(begin, end, channels_, [&](size_t tap, size_t i, size_t count) {
      const void* from[TilePixels::max];
      find_tap(pixels, tile.count, tap, i * sizeof(float), from);
      transpose_.run(tile.count, count, from, to, stride);
      to += count * stride;
    });
    return {scratch, stride};
  }

 private:
  // Where a tap of each pixel is, and some bytes beyond.
  void find_tap(const TilePixels& pixels, size_t count, size_t tap, size_t bytes, const void** from) const {
    const auto y = static_cast<int64_t>(tap / window_.w.kernel * window_.h.dilation);
    const auto x = static_cast<int64_t>(tap % window_.w.kernel * window_.w.dilation);
    const int64_t distance = y * row_stride_ + x * pixel_stride_ + static_cast<int64_t>(bytes);
    if (pixels.inside) {
      for (size_t p = 0; p < count; ++p) from[p] = pixels.first[p] + distance;
      return;
    }
    const char* const zero = reinterpret_cast<const char*>(zero_.data());
    for (size_t p = 0; p < count; ++p) {  // without a branch: where the edges are, no processor foresees
      const bool in_rows = static_cast<uint64_t>(pixels.y[p] + y) < window_.h.in;
      const bool in_columns = static_cast<uint64_t>(pixels.x[p] + x) < window_.w.in;
      from[p] = (in_rows & in_columns) != 0 ? pixels.first[p] + distance : zero;
    }
  }

  const TransposeRow& transpose_;
  Window window_;
  size_t channels_;
  int64_t row_stride_, pixel_stride_;  // of the window, with a sign
  size_t image_stride_;
  Span inside_rows_, inside_columns_;  // outputs that need no padding
  Vector<float> zero_;                 // a pixel of padding
};

// ---- pixel-blocked

// Where pixel `index` of an image lies in one channel.
size_t place_of(const qn_tensor& blocked, size_t index) {
  const size_t block = qn_pixel_block();
  return index / block * blocked.stride[1] + index % block * sizeof(float);
}

// 1x1: rows are where they should be.
class BlockedInput final : public TileInput {
 public:
  explicit BlockedInput(const ConvPlan& conv) : in_(conv.request.ins[0]) {}

  TileRows rows(const Tile& tile, const TilePixels&, size_t begin, size_t, char*, size_t) const override {
    return {tile.a + place_of(in_, tile.first) + begin * in_.stride[2], in_.stride[2]};
  }

 private:
  qn_tensor in_;
};

// Other windows: pixels are gathered, by tables of which lie side by side there and here.
class GatheredInput final : public TileInput {
 public:
  GatheredInput(const ConvPlan& conv, const Window& window, size_t pixels)
      : row_(*select(gather_rows(), nullptr,
                     [&](const GatherRow& row) { return row.lanes == conv.choice.spmm->lanes; })),
        tile_pixels_(conv.choice.spmm->pixels),
        window_(window),
        in_(conv.request.ins[0]),
        channels_(conv.weights.shape().in) {
    for (size_t first = 0; first < pixels; first += tile_pixels_) {
      for (size_t tap = 0; tap < window_.taps(); ++tap) {
        starts_.push_back(pieces_.size());
        for (size_t p = first; p < std::min(first + tile_pixels_, pixels); p += row_.lanes) add_vector(p, pixels, tap);
      }
    }
  }

  TileRows rows(const Tile& tile, const TilePixels&, size_t begin, size_t end, char* scratch,
                size_t stride) const override {
    const size_t* const starts = &starts_[tile.first / tile_pixels_ * window_.taps()];
    char* to = scratch;
    walk_taps(begin, end, channels_, [&](size_t tap, size_t i, size_t count) {
      row_.run(count, divide_up(tile.count, row_.lanes), &pieces_[starts[tap]], tile.a + i * in_.stride[2],
               in_.stride[2], to, stride);
      to += count * stride;
    });
    return {scratch, stride};
  }

 private:
  // What a tap sees of the pixels of one vector, from `first` on.
  void add_vector(size_t first, size_t pixels, size_t tap) {
    const size_t ky = tap / window_.w.kernel, kx = tap % window_.w.kernel, begin = pieces_.size();
    for (size_t lane = 0; lane < std::min(row_.lanes, pixels - first); ++lane) {
      const size_t p = first + lane;
      const int64_t y = window_.h.at(p / window_.w.out, ky), x = window_.w.at(p % window_.w.out, kx);
      if (!window_.h.inside(y) || !window_.w.inside(x)) continue;
      const size_t place = place_of(in_, static_cast<size_t>(y) * window_.w.in + static_cast<size_t>(x));
      const auto offset = static_cast<int32_t>(place) - static_cast<int32_t>(lane * sizeof(float));
      if (pieces_.size() == begin || pieces_.back().offset != offset) pieces_.push_back({offset, 0, 0});
      pieces_.back().lanes |= static_cast<uint16_t>(1u << lane);
    }
    if (pieces_.size() == begin) pieces_.push_back({0, 0, 0});
    pieces_.back().last = 1;
  }

  const GatherRow& row_;
  size_t tile_pixels_;
  Window window_;
  qn_tensor in_;
  size_t channels_;
  Vector<qn_gather_piece> pieces_;
  Vector<size_t> starts_;  // of each tile and tap
};

}  // namespace

std::unique_ptr<TileInput> make_tile_input(const ConvPlan& conv, const Window& window, size_t pixels) {
  if (!is_blocked(conv.request.ins[0])) return std::make_unique<TransposedInput>(conv, window);
  if (conv.problem.pointwise) return std::make_unique<BlockedInput>(conv);
  return std::make_unique<GatheredInput>(conv, window, pixels);
}

}  // namespace quern
