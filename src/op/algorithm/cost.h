// Functions and limits that the cost models of several algorithms share.
#pragma once

#include "base/math.h"
#include "op/conv/choose.h"
#include "op/core/machine.h"

namespace quern {

// ---- limits for kernels that nobody asked for by name

// The most bytes of winograd's transformed weights, and the largest winograd_error(). For tiles of 2x2, 4x4 and 6x6 the
// transformed weights take 1.8, 4 and 7.1 times the memory of the weights. The first limit still allows 4x4 for 512
// input and 512 output channels, the second 6x6 for up to 225 input channels.
constexpr size_t max_transformed_bytes = size_t{40} << 20;
constexpr double max_winograd_error = 3e-5;

// A bound for the error of a whole convolution by winograd: the largest error divided by the largest output, without
// clamp. It follows from measurements against exact sums, with uniformly distributed values of both signs or of one
// sign (test/op/winograd_test.cc); the bound is one and a half times the measured error.
double winograd_error(size_t outputs, size_t channels);

// The largest table of igemm, which has an entry for each output pixel and tap, and of sparse where it gathers pixels.
// A problem with a larger table goes to another algorithm, even if that is slower.
constexpr size_t max_table_bytes = size_t{64} << 20;
bool table_fits(const Problem& p, size_t entry_bytes);

// If at least this part of the stored blocks' weights is not 0, blocks are stored instead of single weights: the few
// zeros cost little, and kernels for blocks are faster.
constexpr double full_enough = 0.9;
inline bool mostly_full(const WeightsDensity& density, size_t outputs, size_t inputs = 1) {
  return density.stored(1) >= full_enough * density.stored(outputs, inputs);
}

// ---- vectors

struct Level {
  double lanes;     // floats of a vector
  double multiply;  // number of instructions for a multiply-add
};
Level level_of(const Row& row);

inline bool is_arm(const Row& row) { return (row.isa & (isa_neon | isa_neonfma)) != 0; }

// ---- products of matrices

// Rows that a kernel of gemm multiplies by all panels before it reads them again: those of a block, if it uses tiles.
inline size_t pass_rows(const Row& row) { return of_tiles(row) ? tile_engine.block_rows() : SIZE_MAX; }

// The tile of a kernel of gemm or igemm. If the kernel multiplies only some rows of its tile at a time, `mr` is that
// number of rows, and it passes over each panel several times.
//
// The cost models count in steps of four bytes of a row of A: a float, or four bytes that dot products take together.
struct ProductTile {
  const Row& row;
  size_t mr, nr, kr, passes;
  bool flips;  // the signs of A

  template <class TileRow>
  ProductTile(const TileRow& tile)
      : row(tile),
        mr(std::min<size_t>(tile.mr, most_rows(tile, tile.nr))),
        nr(tile.nr),
        kr(tile.panel.kr),
        passes(small ? 1 : tile.mr / mr),  // small builds know no machine on which it matters
        flips(has_plus_128 && tile.panel.plus_128 && !std::is_same_v<TileRow, TapgemmRow>) {}
  static size_t most_rows(const Row& row, size_t nr);

  // Does it multiply tiles? Then its cost is matrix_cycles().
  bool of_tiles() const { return quern::of_tiles(row); }

  bool one_row() const { return mr == 1; }
  bool of_bytes() const { return quern::of_bytes(row); }
  // Does it make floats of weights of 4 bits?
  bool unpacks() const { return has_block_scales(row.type) && !of_bytes(); }
  // Bytes of an output channel's weights for one step.
  double weight_bytes() const {
    if (has_byte_weights && row.type == KernelType::qw8c) return 1;
    return unpacks() ? 0.5 + sizeof(float) / double{scale_block} : 4;
  }
  // The number of steps for so many elements of A that lie together; kernels of bytes fill up the last kr of them.
  double steps(size_t elements) const {
    return of_bytes() ? static_cast<double>(round_up(elements, kr)) / 4 : static_cast<double>(elements);
  }
  // Instructions to multiply and add a vector of channels in one step.
  double multiply() const;
  // Cycles to end a vector of sums and to store it.
  double end_cycles() const { return of_bytes() ? double{machine().end_cycles} : 1; }
  // The number of rows that a call with `rows` rows multiplies. Kernels of ARM always multiply the whole tile, unless they
  // are the compiler's vectors.
  size_t computed(size_t rows) const { return is_arm(row) && !unpacks() ? mr : rows; }
  size_t together() const { return one_row() ? 4 : 1; }  // panels that a kernel works on side by side
};

// Cycles of one step for a tile with this many rows and channels. `stalls` are the cycles that loads wait;
// multiplications can hide them.
double step_cycles(const ProductTile& tile, size_t rows, size_t channels, double stalls = 0);

// Cycles until one row of a panel has arrived, at `bytes_per_cycle`.
double arrival(const ProductTile& tile, double bytes_per_cycle);

// Do weights of this many bytes come from memory? The last cache keeps them from one run to the next if they fit and if
// not too much other data passes it in between.
bool far_weights(const Problem& p, double bytes);

// Cycles of all tiles of all groups and images. Each tile takes `depth` steps, and `per_tile` cycles in addition. Kernels
// of x86 compute only the rows of the call, so a smaller last tile costs less. For the first tile the weights come from
// where the other layers of a model have left them, for the others from the L2 cache.
double tiles_cycles(const Problem& p, const ProductTile& tile, double depth, double per_tile, double stalls = 0);

// ---- copies of taps

// Cycles to copy the taps of a pixel: `runs` of them, each with `elements` elements that lie side by side. Rows of taps
// of bytes count as whole vectors (tap_copies.h).
inline double gather_cycles(const MachineRow& m, bool of_bytes, bool rows, size_t runs, size_t elements) {
  const auto copies = static_cast<double>(runs);
  if (of_bytes && rows) return copies * static_cast<double>(divide_up(elements, size_t{16})) * m.row_copy_cycles;
  const double words = static_cast<double>(runs * elements) / (of_bytes ? 4 : 1);
  return copies * m.gather_cycles * (of_bytes ? m.gather_bytes : 1) + words / m.gather_floats;
}

}  // namespace quern
