// What the cost models of several algorithms share.
#pragma once

#include "op/conv/choose.h"
#include "op/core/machine.h"

namespace quern {

// ---- limits of what is chosen unasked

// Of winograd's transformed weights, which are 1.8, 4 or 7.1 times the weights, and of winograd_error(). The first
// leaves 4x4 for 512 to 512 channels, the second 6x6 for up to 225 channels.
constexpr size_t max_transformed_bytes = size_t{40} << 20;
constexpr double max_winograd_error = 3e-5;

// A bound of the error of a whole convolution by winograd: its largest by the largest output, without clamp. Measured
// against exact sums on uniform values, of both signs and of one (test/op/winograd_test.cc), with room for a half more.
double winograd_error(size_t outputs, size_t channels);

// igemm keeps an offset per output pixel and tap, sparse as much where it gathers: beyond so much another algorithm is
// better though slower.
constexpr size_t max_table_bytes = size_t{64} << 20;
bool table_fits(const Problem& p, size_t entry_bytes);

// Blocks of weights that are mostly full are as good as single weights, and faster.
constexpr double full_enough = 0.9;
inline bool mostly_full(const WeightsDensity& density, size_t block) {
  return density.stored(1) >= full_enough * density.stored(block);
}

// ---- vectors

struct Level {
  double lanes;     // floats of a vector
  double multiply;  // instructions of a multiply-add
};
Level level_of(const Row& row);

inline bool is_arm(const Row& row) { return (row.isa & (isa_neon | isa_neonfma)) != 0; }

// ---- products of matrices

// The tile of a kernel of gemm or igemm, or as many rows of it as are multiplied at a time.
struct ProductTile {
  const Row& row;
  size_t mr, nr;

  template <class TileRow>
  ProductTile(const TileRow& tile) : row(tile), mr(std::min(tile.mr, most_rows(tile, tile.nr))), nr(tile.nr) {}
  static size_t most_rows(const Row& row, size_t nr);

  bool one_row() const { return mr == 1; }
  // Rows that are multiplied in a call with so many: on ARM those of the whole tile.
  size_t computed(size_t rows) const { return is_arm(row) ? mr : rows; }
  size_t together() const { return one_row() ? 4 : 1; }  // panels side by side
};

// Cycles of one k for a tile of so many rows and channels, where loads wait for so many. Multiplications hide that.
double step_cycles(const ProductTile& tile, size_t rows, size_t channels, double stalls = 0);

// Cycles until one row of a panel has arrived, at so many bytes per cycle.
double arrival(const ProductTile& tile, double bytes_per_cycle);

// Do weights come from memory? The last cache keeps them from one run to the next if nothing else passes it meanwhile.
bool far_weights(const Problem& p, double bytes);

// Cycles of all tiles of all groups and images, each `depth` steps deep. Kernels of x86 run the rows of a call only, so
// the last tile of an image costs what it has. To the first the weights come from where the other layers of a model
// have left them, to the others from the L2 cache.
double tiles_cycles(const Problem& p, const ProductTile& tile, double per_tile, double stalls = 0);

}  // namespace quern
