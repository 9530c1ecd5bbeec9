// A of spmm.h: what some successive k see of the input for a tile of output pixels, each k's pixels side by side.
#pragma once

#include "base/shared.h"
#include "kernel/spmm.h"
#include "op/conv/conv.h"

namespace quern {

// Successive output pixels of an image, or of another line of pixels at equal distances.
struct Tile {
  const char* a;  // the input's image, or the line's first pixel, at the first channel of the group
  size_t first;   // of them all: y * width + x
  size_t count;
};

// What is found once for all k of a tile.
struct TilePixels {
  static constexpr size_t max = 64;
  const char* first[max];  // where each pixel's first tap is, which may lie outside of the image
  int64_t y[max], x[max];  // of that tap
  bool inside;             // all taps of all pixels
};

struct TileRows {
  const char* first;
  size_t stride;  // in bytes
};

class TileInput {
 public:
  virtual void find(const Tile&, TilePixels*) const {}
  // Rows of k = begin .. end-1, as wide as whole vectors. `scratch` has room for them, `stride` bytes each, and may be
  // left unused.
  virtual TileRows rows(const Tile& tile, const TilePixels& pixels, size_t begin, size_t end, char* scratch,
                        size_t stride) const = 0;

 protected:
  ~TileInput() = default;  // make_shared() knows what it made
};

// `pixels`: of all tiles together. Tiles of a pixel-blocked input begin at multiples of the kernel's pixels.
Shared<const TileInput> make_tile_input(const ConvRequest& conv, const SpmmRow& row, const Window& window,
                                        size_t pixels);

}  // namespace quern
