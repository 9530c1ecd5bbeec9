// The constants of a machine that the cost models use: one row per kind of core. In one cycle a core multiplies and
// adds `pipes` vectors of floats. Only the proportions of costs matter, because costs are only compared with each
// other.
#pragma once

#include "base/cpu.h"

namespace quern {

// The initial values of the members are those of an unknown machine.
struct MachineRow {
  // Arithmetic.
  float pipes = 2;                  // multiply-adds, and loads of vectors, per cycle
  float loads = 2;                  // loads of single floats of A per cycle
  float latency = 4;                // cycles from one multiply-add to the next one that adds to the same sum
  float call_cycles = 20;           // cycles to begin and end a tile
  float tap_cycles = 0.4f;          // igemm: cycles to find one row of A through the table
  float gather_cycles = 16;         // direct: cycles to begin a copy
  float gather_floats = 4;          // direct: floats copied per cycle
  float aliasing = 0.15f;           // gemm: how much loads slow down when rows of A compete for sets of the L1 cache
  float pass_cycles = 0;            // kernels that pass over a panel twice: cycles that each pass takes in addition
  float pass_line_cycles = 0;       // the same kernels, which do not prefetch A: cycles to wait for a cache line of A
  float transform_cycles = 6;       // winograd: cycles to transform one vector at one point, in either direction
  float far_transform_cycles = 14;  // winograd: the same if the image does not fit into the L2 cache
  float six_transform = 1;          // winograd: factor of these cycles for tiles of 6x6

  // Memory.
  float l2_bytes = 64;            // bytes per cycle from the L2 cache
  float l3_bytes = 25;            // bytes per cycle from the last cache
  float memory_bytes = 10;        // bytes per cycle from memory to one core
  float reach = 0.9f;             // the part of memory_bytes that kernels of several rows get
  float interrupted_bytes = 7;    // bytes per cycle if panels come from memory with a product after each of them
  float start_cycles = 2000;      // cycles until the first weights arrive, which nothing has prefetched
  float restart_cycles = 500;     // the same for a kernel of one row, which has other weights under way
  float unhidden = 0.25f;         // the part of the weights' way from memory that loads wait despite prefetching
  float passing = 0;              // the part of the weights' way from the L2 cache that no computation hides
  float kept = 0;                 // the part of the weights' way from memory that a second pass over a panel saves
  float cached_bytes = 16 << 20;  // bytes that the last cache keeps while a layer runs

  // Sparse: cycles of one weight times a vector of pixels, for each packing of weights (kernel/spmm.h).
  float pairs_cycles = 0.73f;
  float wide_pairs_cycles = 0.67f;    // pairs, in tiles of more than four vectors
  float fours_cycles = 0.5f;          // fours, where multiply-adds take longer than the rest of an entry
  float narrow_fours = 1.2f;          // factor of the cycles of fours, in tiles of less than four vectors
  float block_of_two_cycles = 0.62f;  // blocks of two channels
  float block_cycles = 0.58f;         // larger blocks
  // Sparse: other cycles. Those per element hold for vectors of 16.
  float set_cycles = 20;                // to begin a set of channels
  float fours_set_cycles = 50;          // to begin a set of fours, which has fifteen loops
  float transpose_cycles = 0.21f;       // to transpose an element of the input
  float transpose_back_cycles = 0.17f;  // to transpose an element of the output back
  float gather_row_cycles = 0.2f;       // to copy an element of a pixel-blocked image together with its neighbours
  float gather_pixel_cycles = 1;        // to copy an element of a pixel-blocked image on its own
  // Sparse: cycles of one weight for a single pixel, where each sum waits for the one before.
  float column_pairs_cycles = 1.7f;
  float column_two_cycles = 1.2f;
  float column_block_cycles = 0.7f;

  // Depthwise, rows and tiles: multiply-adds per cycle.
  float row_multiplies = 1;
  float tile_multiplies = 1.5f;
  float far_tiles = 1;              // factor of a tile's cycles if the image does not fit into the L2 cache
  float waiting_multiplies = 0.8f;  // tiles whose cache lines compete for few sets of the L1 cache
  // Depthwise, planes of pixel-blocked tensors: cycles of a vector and a tap.
  float plane_tap_cycles = 0.8f;
  float wide_tap_cycles = 1.1f;         // if a vector is as wide as a cache line, so that its loads cross two lines
  float plane_neighbour_cycles = 0.7f;  // if a vector shares its loads with its neighbours
  float narrow_tap_cycles = 0.95f;      // with vectors of 4
  float image_vector_cycles = 9;        // cycles of a vector of output, 3x3 with stride 2
  float unblock_cycles = 0.09f;         // cycles to copy an element out of its block or into it
  float far_unblock_cycles = 0.13f;     // the same if the image is not in the L1 cache
  float split_cycles = 0.16f;           // cycles to copy an element into one of several planes
  float narrow_copies = 4;              // factor of these copies with vectors of 4

  // Pooling.
  float pool_tap_cycles = 1.5f;     // cycles of a vector of channels and a tap
  float pool_plane_tap_cycles = 3;  // pixel-blocked images: cycles of a vector of pixels and a tap
  float pool_copy_cycles = 0.15f;   // pixel-blocked images: cycles to copy an element
  float pool_channel_cycles = 40;   // pixel-blocked images: cycles to begin a channel

  // Kernels of bytes, where they differ from those above.
  float flip = 0;                   // products with unsigned bytes: operations on their ports to flip signs of a row
  float end_cycles = 1.4f;          // gemm, igemm: cycles to end a vector of sums and to store it; floats take 1
  float gather_bytes = 3;           // direct: factor of gather_cycles where taps of bytes are copied one by one
  float row_copy_cycles = 2;        // direct: cycles to copy 16 bytes of a row of taps
  float sparse_end_cycles = 1.65f;  // sparse: cycles to end a vector of sums
  float deal_cycles = 0.074f;       // sparse: cycles to deal an element of the input out to its row, vectors of 16
  float column_step_cycles = 3;     // sparse: cycles of a step of four rows for a single pixel
  float sparse_run_cycles = 200;    // sparse: cycles to begin a run
  // Kernels of tiles (AMX).
  float dot_cycles = 4.5f;  // cycles of a dot product of tiles, and more for each row of A
  float dot_row_cycles = 0.72f;
  float pair_cycles = 15;      // cycles to end two rows of 32 sums
  float unhidden_ends = 0.3f;  // the part of the shorter of both that the longer one does not hide
  // Estimates for dense kernels expect weights from far away. Sparse kernels read less of them, but where weights are
  // near after all, dense kernels gain more: this factor of sparse kernels favours those where the difference is small.
  float sparse_caution = 1.1f;

  // Only for estimates of time (tool/predict/).
  float peak = 16;        // f32 multiply-accumulates per cycle
  bool in_order = false;  // does a load that misses the caches delay all instructions after it?
};

// A row, and the CPUs that it is for: those with this level and one of these kinds of cores.
struct MachineEntry {
  uint32_t isa, cores;
  MachineRow row;
};

#ifdef QN_SMALL
// Small builds know one machine only, so that the compiler can compute with its constants.
#if defined(__x86_64__)
inline constexpr MachineRow the_machine = {};
#else
inline constexpr MachineRow the_machine = {.l2_bytes = 8};
#endif
constexpr const MachineRow& machine() { return the_machine; }
#else
// The row of this machine: the first one of machine.inc that is for this CPU.
const MachineRow& machine();
#endif

// Makes machine() return another row, for programs that search for a better one; NULL ends this. Must not be called
// while another thread plans.
void replace_machine(const MachineRow* row);

}  // namespace quern
