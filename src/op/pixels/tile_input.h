// The operand A of spmm.h: for a tile of output pixels and some successive k, the input pixels that each k reads, side
// by side. (k counts the taps of the window, and for each tap all channels.)
#pragma once

#include "base/shared.h"
#include "base/tensor.h"
#include "kernel/spmm.h"
#include "kernel/transpose.h"
#include "op/conv/conv.h"

namespace quern {

// Successive output pixels of an image, or of another line of pixels at equal distances.
struct Tile {
  const char* a;  // the input's image, or the line's first pixel, at the first channel of the group
  size_t first;   // number of the tile's first pixel: y * width + x
  size_t count;   // pixels
};

// Facts about the pixels of a tile that are found once for all k.
struct TilePixels {
  static constexpr size_t max = 64;
  const char* first[max];  // address of each pixel's first tap, which may lie outside the image
  int64_t y[max], x[max];  // position of that tap
  bool inside;             // all taps of all pixels are inside the image
};

struct TileRows {
  const char* first;
  size_t stride;  // in bytes
};

class TileInput {
 public:
  virtual void find(const Tile&, TilePixels*) const {}
  // Returns the rows of k = begin .. end-1, each rounded up to whole vectors. `scratch` has room for them, `stride`
  // bytes each; rows that can be read where they lie are not copied there. If pixels are single bytes, `scratch` has room
  // for three rows more.
  virtual TileRows rows(const Tile& tile, const TilePixels& pixels, size_t begin, size_t end, char* scratch,
                        size_t stride) const = 0;

 protected:
  ~TileInput() = default;  // not virtual: make_shared() knows the class that it made
};

// Bytes from one channel of an image to the next.
inline size_t channel_stride(const SpmmRow& row, const qn_tensor& image) {
  return of_bytes(row) ? 1 : channel_stride(image);
}

// The number of blocks of channels (pack_sparse.h) that are brought to the output at a time: with two, each pixel gets
// a whole cache line of bytes.
inline size_t finished_blocks(const SpmmRow& row) { return of_bytes(row) ? 2 : 1; }

// Transposes `rows` rows of `elements` numbers, of `bytes` bytes each, in columns of four bytes. If a row does not fill
// the last column, the rest of that may be anything.
void transpose_rows_of(const TransposeRow& transpose, size_t rows, size_t elements, size_t bytes,
                       const void* const* from, char* to, size_t stride);

// Brings bytes of `channels` channels from where kernels of spmm.h leave them to pixels that lie `stride` bytes apart.
void store_bytes(const TransposeRow& transpose, const char* sums, size_t sums_stride, size_t channels, size_t pixels,
                 char* to, size_t stride);

// `pixels` is the number of pixels of all tiles together. Tiles of a pixel-blocked input must begin at multiples of the
// kernel's pixels.
Shared<const TileInput> make_tile_input(const ConvRequest& conv, const SpmmRow& row, const Window& window,
                                        size_t pixels);

}  // namespace quern
