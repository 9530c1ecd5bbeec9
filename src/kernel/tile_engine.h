// Tile engines: units of a core that multiply tiles of matrices, and have registers of their own. This is what code
// outside kernels has to know of one; src/README.md says what else an engine needs, and what SME would fill in.
#pragma once

#include "base/cpu.h"
#include "base/needs.h"

namespace quern {

struct TileEngine {
  uint32_t feature;       // rows of tables that need it are kernels of this engine; may_use() asks for permission
  size_t rows, channels;  // sums of one tile
  size_t down, across;    // tiles of sums that a kernel keeps at a time
  size_t step_bytes;      // bytes of a row of A that one dot product of tiles takes

  // Rows for which a kernel reads all panels once.
  constexpr size_t block_rows() const { return down * rows; }
  constexpr size_t panel_channels() const { return across * channels; }
};

// That of this architecture: AMX, with bytes.
inline constexpr TileEngine tile_engine = {has_tiles ? feature_amxint8 : 0u, 16, 16, 2, 2, 64};

}  // namespace quern
