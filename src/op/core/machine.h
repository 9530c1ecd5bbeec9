// What the cost models know of a machine: one row per kind of core. Cycles are those in which `pipes` vectors of floats
// are multiplied and added. Only their proportions matter, as nothing but costs is compared with costs.
#pragma once

#include "base/cpu.h"

namespace quern {

// Members begin with the values of an unknown machine.
struct MachineRow {
  // Arithmetic.
  float pipes = 2;             // multiply-adds, and loads of vectors, per cycle
  float loads = 2;             // loads of single floats of A per cycle
  float latency = 4;           // cycles from one multiply-add to the next of its chain
  float call_cycles = 20;      // to begin and end a tile
  float tap_cycles = 0.4f;     // igemm: to find one row of A through a table
  float gather_cycles = 16;    // direct: to begin a copy,
  float gather_floats = 4;     // and floats copied per cycle
  float aliasing = 0.15f;      // gemm: how steeply loads slow down where rows of A compete for sets of the L1 cache
  float transform_cycles = 6;  // winograd: of one vector at one point, there or back,
  float far_transform_cycles = 14;  // and where the image does not fit into the L2 cache,
  float six_transform = 1;          // times this where tiles are 6x6

  // Memory: bytes that arrive per cycle.
  float l2_bytes = 64;            // from the L2 cache,
  float l3_bytes = 25;            // from the last cache,
  float memory_bytes = 10;        // and from memory, to one core
  float reach = 0.9f;             // the part of that which kernels of several rows get
  float interrupted_bytes = 7;    // where memory is asked for one panel and, a product later, for the next
  float start_cycles = 2000;      // until the weights arrive that nothing has fetched ahead,
  float restart_cycles = 500;     // where others are under way meanwhile
  float unhidden = 0.25f;         // of the time weights take: loads wait though they are fetched ahead
  float passing = 0;              // of the time weights take from the L2 cache: nothing hides it
  float cached_bytes = 16 << 20;  // that the last cache keeps while a layer runs

  // Sparse: of a vector of pixels times one weight, by the kind of row.
  float pairs_cycles = 0.73f;
  float wide_pairs_cycles = 0.67f;  // with more than four vectors
  float narrow_fours = 1.2f;        // times what fours take, with less than four vectors
  float block_of_two_cycles = 0.62f;
  float block_cycles = 0.58f;
  float set_cycles = 20;                // to begin a set of channels,
  float fours_set_cycles = 50;          // with its fifteen loops
  float transpose_cycles = 0.21f;       // to transpose an element, with vectors of 16,
  float transpose_back_cycles = 0.17f;  // and back
  float gather_row_cycles = 0.2f;       // to copy one between images that are pixel-blocked, with neighbours,
  float gather_pixel_cycles = 1;        // and alone
  float column_pairs_cycles = 1.7f;     // of one pixel, whose sums wait for each other: of a weight,
  float column_two_cycles = 1.2f;       // or a block
  float column_block_cycles = 0.7f;

  // Depthwise: multiply-adds per cycle,
  float row_multiplies = 1;
  float tile_multiplies = 1.5f;
  float waiting_multiplies = 0.8f;  // of tiles whose lines compete for few sets of the L1 cache
  // and in planes, of pixel-blocked tensors: of a vector and a tap,
  float plane_tap_cycles = 0.8f;
  float wide_tap_cycles = 1.1f;         // where it is as wide as a cache line and crosses two,
  float plane_neighbour_cycles = 0.7f;  // where it shares its loads with neighbours,
  float narrow_tap_cycles = 0.95f;      // and with vectors of 4
  float image_vector_cycles = 9;        // of a vector with stride 2, 3x3
  float unblock_cycles = 0.09f;         // to copy an element out of its block or into it,
  float far_unblock_cycles = 0.13f;     // where that is not in the L1 cache,
  float split_cycles = 0.16f;           // and into one of several planes
  float narrow_copies = 4;              // times these with vectors of 4

  // Pooling: of a vector and a tap, of rows of channels,
  float pool_tap_cycles = 1.5f;
  float pool_plane_tap_cycles = 3;  // and of pixel-blocked images, of which
  float pool_copy_cycles = 0.15f;   // elements are copied,
  float pool_channel_cycles = 40;   // and channels begin

  // For estimates of time alone (tool/predict/).
  float peak = 16;        // f32 multiply-accumulates per cycle
  bool in_order = false;  // what misses the caches keeps everything behind it waiting
};

// A row, and where it counts: on CPUs with this level and of one of these kinds.
struct MachineEntry {
  uint32_t isa, cores;
  MachineRow row;
};

#ifdef QN_SMALL
// Small builds know one machine, whose constants the compiler computes with.
#if defined(__x86_64__)
inline constexpr MachineRow the_machine = {};
#else
inline constexpr MachineRow the_machine = {.l2_bytes = 8};
#endif
constexpr const MachineRow& machine() { return the_machine; }
#else
// The row of this machine: the first of machine.inc that counts here.
const MachineRow& machine();
#endif

// Replaces it, for who looks for a better one; NULL: no longer. Not while others plan.
void replace_machine(const MachineRow* row);

}  // namespace quern
