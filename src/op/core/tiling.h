// How a matrix product is divided: into units that the tasks share, and each unit into calls of a micro-kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/cpu.h"
#include "base/math.h"
#include "base/memory.h"
#include "kernel/row.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"

namespace quern {

// `count` products C = A * W of m x n each, one after the other: one for each image and group.
struct TilingShape {
  size_t count = 1, m = 1, n = 1;
  size_t mr = 1, nr = 1;
  size_t unit = 1;              // of rows: a tile has a multiple of it, as mr is
  size_t pass_rows = SIZE_MAX;  // rows for which a kernel reads all panels of W once; for more it reads them again
  size_t row_bytes = 0;         // bytes of A that one row of C needs
  size_t panel_bytes = 0;       // bytes of a panel of W
  bool whole_channels = false;  // never divide n, because a tile of rows is expensive to make
};

// Panels of so many bytes, at least one, that stay in the L2 cache beside other data.
inline size_t panels_in_l2(size_t panel_bytes) {
  return std::max<size_t>(cpu().l2_bytes / 2 / std::max<size_t>(panel_bytes, 1), 1);
}

// Where tasks divide channels, each gets so many panels at least, which fill a cache line of C: threads that write parts
// of one line wait for each other. Measured on x86 alone, so only there.
inline size_t panels_of_line(KernelType type, size_t nr, size_t tasks) {
  return !QN_ARCH_X86_64 || small || tasks == 1 ? 1 : divide_up(cache_line, nr * output_bytes(type));
}

class Tiling {
 public:
  Tiling() = default;
  Tiling(const TilingShape& shape, size_t tasks);

  size_t tasks() const { return tasks_.chunks; }
  // Rows of a tile: mr, or fewer if the last tile would otherwise have few.
  size_t rows() const { return shape_.mr; }
  // Channels of the largest block.
  size_t channels() const { return std::min(block_, shape_.n); }
  // The number of elements of the largest tile.
  size_t tile_elements() const { return shape_.mr * channels(); }

  // Calls block(product, begin, end, n, channels) for all blocks of a task: of rows begin .. end-1 and so many channels
  // from n on. The panels of a block stay in the L2 cache while the task goes through its rows, tile by tile; a tile,
  // if it fits, stays in the L1 cache for all panels of the block. Ends early if the run was cancelled.
  template <class Block>
  void run(const qn_parallel* parallel, size_t task, Block&& block) const {
    for (Blocks b(*this, parallel, task); b.next();) block(b.product, b.begin, b.end, b.n, b.channels);
  }
  // Calls tile(m, rows) for all tiles of rows begin .. end-1.
  template <class Tile>
  void tiles(size_t begin, size_t end, Tile&& tile) const {
    for (size_t m = begin; m < end; m += shape_.mr) tile(m, std::min(shape_.mr, end - m));
  }

 private:
  // The blocks of a task, each in parts of some rows.
  struct Blocks {
    Blocks(const Tiling& its_tiling, const qn_parallel* parallel, size_t task);
    // Goes to the next part. Returns false if there is none, or if the run was cancelled.
    bool next();

    size_t product = 0, begin = 0, end = 0, n = 0, channels = 0;
    const Tiling& tiling;
    Watch watch;
    size_t unit, last_unit, m_begin = 0, m_end = 0, n_end = 0;
  };

  void divide(size_t tasks);

  TilingShape shape_;
  Split m_, n_;                                 // tiles of rows, panels
  Split tasks_;                                 // units: products x chunks of m x chunks of n
  size_t block_ = 1;                            // channels, a multiple of nr
  size_t watched_rows_ = 1, watched_work_ = 0;  // rows of a block between two questions, and their multiply-adds
};

}  // namespace quern
