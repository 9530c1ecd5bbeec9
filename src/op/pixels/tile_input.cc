#include "op/pixels/tile_input.h"

#include <cstring>

#include "base/math.h"
#include "base/tensor.h"
#include "kernel/deal.h"
#include "kernel/select.h"
#include "kernel/transpose.h"
#include "op/pixels/gather_table.h"

namespace quern {
namespace {

// Splits k = begin .. end-1 into runs of channels that belong to the same tap. k counts the taps, and for each tap all
// channels.
template <class Each>
void walk_taps(size_t begin, size_t end, size_t channels, Each&& each) {
  for (size_t k = begin; k < end;) {
    const size_t tap = k / channels, i = k % channels, count = std::min(channels - i, end - k);
    each(tap, i, count);
    k += count;
  }
}

}  // namespace

void transpose_rows_of(const TransposeRow& transpose, size_t rows, size_t elements, size_t bytes,
                       const void* const* from, char* to, size_t stride) {
  constexpr size_t column = sizeof(float);
  const size_t whole = elements * bytes / column, left = elements * bytes % column;
  if (whole > 0) transpose.run(rows, whole, from, to, stride);
  if (!has_integers || left == 0) return;
  to += whole * stride;
  const size_t before = whole > 0 ? column - left : 0;  // bytes of the column before, for whole words are read faster
  for (size_t i = 0; i < rows; ++i) {
    const char* const last = static_cast<const char*>(from[i]) + whole * column;
    uint32_t some = 0;
    if (before > 0) {
      std::memcpy(&some, last - before, column);
      some >>= 8 * before;
    } else {
      std::memcpy(&some, last, left);
    }
    std::memcpy(to + i * column, &some, column);
  }
}

void store_bytes(const TransposeRow& transpose, const char* sums, size_t sums_stride, size_t channels, size_t pixels,
                 char* to, size_t stride) {
  constexpr size_t most = 64;
  const void* rows[most];
  const size_t whole = channels / 4, left = channels % 4;
  for (size_t i = 0; i < whole; ++i) rows[i] = sums + 4 * i * sums_stride;
  if (whole > 0) transpose.run(whole, pixels, rows, to, stride);
  if (left == 0) return;
  const char* last = sums + 4 * whole * sums_stride;
  to += 4 * whole;
  for (size_t p = 0; p < pixels; ++p, to += stride, last += 4) {
    if ((left & 2) != 0) std::memcpy(to, last, 2);
    if ((left & 1) != 0) to[left - 1] = last[left - 1];
  }
}

namespace {

// ---- NHWC: pixels are transposed

size_t size_of(Span span) { return span.end - span.begin; }

class TransposedInput final : public TileInput {
 public:
  TransposedInput(const ConvRequest& conv, const SpmmRow& row, const Window& window)
      : transpose_(best(transpose_rows(), KernelType::f32)),
        deal_(has_integers ? select(deal_rows(), KernelType::qs8, nullptr,
                                    [&](const DealRow& deal) { return deal.lanes == row.lanes; })
                           : nullptr),
        window_(window),
        in_(conv.weights.shape().in),
        inputs_(has_integers ? row.inputs : 1),
        bytes_(spmm_bytes(row)),
        channels_(divide_up(in_, inputs_)),
        row_stride_(static_cast<int64_t>(window.row_stride)),
        pixel_stride_(static_cast<int64_t>(window.pixel_stride)),
        image_stride_(conv.problem.matrix ? 0 : conv.request.ins[0].stride[0]),
        inside_rows_(columns_inside(window.h)),
        inside_columns_(columns_inside(window.w)),
        padded_(size_of(inside_rows_) < window.h.out || size_of(inside_columns_) < window.w.out),
        zero_(row.type, in_, static_cast<int8_t>(conv.input_zero())) {}

  void find(const Tile& tile, TilePixels* pixels) const override {
    const size_t width = window_.w.out, image_pixels = window_.h.out * width;
    const size_t image = tile.first / image_pixels, at = tile.first % image_pixels;
    size_t y = at / width, x = at % width;
    const char* a = tile.a + image * image_stride_;
    pixels->inside = true;
    for (size_t i = 0; i < tile.count;) {
      const size_t end = std::min(tile.count, i + width - x);  // where this row ends
      const bool inside = inside_rows_.has(y) && x >= inside_columns_.begin && x + end - i <= inside_columns_.end;
      pixels->inside = pixels->inside && inside;
      const int64_t first_y = window_.h.at(y, 0);
      int64_t first_x = window_.w.at(x, 0);
      const char* from = a + first_y * row_stride_ + first_x * pixel_stride_;
      const int64_t step = static_cast<int64_t>(window_.w.stride) * pixel_stride_;
      for (size_t j = i; j < end; ++j, from += step) pixels->first[j] = from;
      for (size_t j = i; padded_ && j < end; ++j, first_x += static_cast<int64_t>(window_.w.stride)) {
        pixels->y[j] = first_y;
        pixels->x[j] = first_x;
      }
      i = end;
      x = 0;
      if (++y < window_.h.out) continue;
      y = 0;
      a += image_stride_;
    }
  }

  TileRows rows(const Tile& tile, const TilePixels& pixels, size_t begin, size_t end, char* scratch,
                size_t stride) const override {
    // The channels of a single pixel already lie as the kernel needs them.
    if (tile.count == 1 && window_.taps() == 1 && pixels.inside && in_ % inputs_ == 0) {
      return {pixels.first[0] + begin * bytes_, bytes_};
    }
    char* to = scratch;
    walk_taps(begin, end, channels_, [&](size_t tap, size_t i, size_t count) {
      const void* from[TilePixels::max];
      find_tap(pixels, tile.count, tap, i * bytes_, from);
      if (has_integers && bytes_ == 1) {
        deal(from, tile.count, count, to, stride);
        to += count * stride;
        return;
      }
      transpose_rows_of(transpose_, tile.count, std::min(count * inputs_, in_ - i * inputs_), bytes_ / inputs_, from,
                        to, stride);
      to += count * stride;
    });
    return {scratch, stride};
  }

 private:
  // Lays out `count` channels of single bytes. The rows of up to three more get anything.
  void deal(const void** from, size_t pixels, size_t count, char* to, size_t stride) const {
    if (pixels == 1) {
      std::memcpy(to, from[0], count);
      return;
    }
    constexpr size_t most = 64, row_bytes = TilePixels::max * sizeof(float);
    char fours[most / 4 * row_bytes];
    for (size_t i = 0; i < count; i += most) {
      const size_t channels = std::min(most, count - i);
      transpose_rows_of(transpose_, pixels, channels, 1, from, fours, row_bytes);
      deal_->run(divide_up(channels, size_t{4}), divide_up(pixels, dealt_pixels(deal_->lanes)), fours, row_bytes, to,
                 stride);
      to += channels * stride;
      for (size_t p = 0; p < pixels; ++p) from[p] = static_cast<const char*>(from[p]) + most;
    }
  }

  // Finds the address of a tap for each pixel, plus `bytes`.
  void find_tap(const TilePixels& pixels, size_t count, size_t tap, size_t bytes, const void** from) const {
    const auto y = static_cast<int64_t>(tap / window_.w.kernel * window_.h.dilation);
    const auto x = static_cast<int64_t>(tap % window_.w.kernel * window_.w.dilation);
    const int64_t distance = y * row_stride_ + x * pixel_stride_ + static_cast<int64_t>(bytes);
    if (pixels.inside) {
      for (size_t p = 0; p < count; ++p) from[p] = pixels.first[p] + distance;
      return;
    }
    const char* const zero = static_cast<const char*>(zero_.data());
    for (size_t p = 0; p < count; ++p) {  // without branches, because processors cannot predict where the edges are
      const bool in_rows = static_cast<uint64_t>(pixels.y[p] + y) < window_.h.in;
      const bool in_columns = static_cast<uint64_t>(pixels.x[p] + x) < window_.w.in;
      from[p] = (in_rows & in_columns) != 0 ? pixels.first[p] + distance : zero;
    }
  }

  const TransposeRow& transpose_;
  const DealRow* deal_;  // for kernels that take single bytes
  Window window_;
  size_t in_;                          // input channels
  size_t inputs_, bytes_;              // channels of a row of A, and bytes of its pixels
  size_t channels_;                    // rows of A for each tap
  int64_t row_stride_, pixel_stride_;  // the strides of the window, as signed numbers
  size_t image_stride_;
  Span inside_rows_, inside_columns_;  // outputs that need no padding
  bool padded_;                        // are there others?
  Padding zero_;                       // a pixel
};

// ---- pixel-blocked

// For 1x1: the kernel can read the rows where they lie.
class BlockedInput final : public TileInput {
 public:
  explicit BlockedInput(const ConvRequest& conv) : in_(conv.request.ins[0]) {}

  TileRows rows(const Tile& tile, const TilePixels&, size_t begin, size_t, char*, size_t) const override {
    return {tile.a + pixel_offset(in_.stride[1], tile.first) + begin * in_.stride[2], in_.stride[2]};
  }

 private:
  qn_tensor in_;
};

// For other windows: pixels are gathered. The tables know which pixels lie side by side both in the input and in the
// row.
class GatheredInput final : public TileInput {
 public:
  GatheredInput(const ConvRequest& conv, const SpmmRow& row, const Window& window, size_t pixels)
      : tile_pixels_(row.pixels),
        taps_(window.taps()),
        in_(conv.request.ins[0]),
        channels_(conv.weights.shape().in),
        tables_(row.lanes) {
    for (size_t first = 0; first < pixels; first += tile_pixels_) {
      for (size_t tap = 0; tap < taps_; ++tap) {
        tables_.begin();
        for (size_t p = first; p < std::min(first + tile_pixels_, pixels); ++p) tables_.add(offset(window, p, tap));
        tables_.end();
      }
    }
  }

  TileRows rows(const Tile& tile, const TilePixels&, size_t begin, size_t end, char* scratch,
                size_t stride) const override {
    char* to = scratch;
    walk_taps(begin, end, channels_, [&](size_t tap, size_t i, size_t count) {
      const char* const from = tile.a + i * in_.stride[2];
      tables_.run(tile.first / tile_pixels_ * taps_ + tap, count, from, in_.stride[2], to, stride);
      to += count * stride;
    });
    return {scratch, stride};
  }

 private:
  // The offset of the input pixel that a tap reads for an output pixel.
  size_t offset(const Window& window, size_t pixel, size_t tap) const {
    const int64_t y = window.h.at(pixel / window.w.out, tap / window.w.kernel);
    const int64_t x = window.w.at(pixel % window.w.out, tap % window.w.kernel);
    if (!window.h.inside(y) || !window.w.inside(x)) return GatherTables::nowhere;
    return pixel_offset(in_.stride[1], static_cast<size_t>(y) * window.w.in + static_cast<size_t>(x));
  }

  size_t tile_pixels_, taps_;
  qn_tensor in_;
  size_t channels_;
  GatherTables tables_;  // one for each tile and tap
};

}  // namespace

Shared<const TileInput> make_tile_input(const ConvRequest& conv, const SpmmRow& row, const Window& window,
                                        size_t pixels) {
  if (!is_blocked(conv.request.ins[0])) return make_shared<TransposedInput>(conv, row, window);
  if (conv.problem.pointwise) return make_shared<BlockedInput>(conv);
  return make_shared<GatheredInput>(conv, row, window, pixels);
}

}  // namespace quern
