#include "op/algorithm/cost.h"

#include <cmath>

#include "base/math.h"

namespace quern {
namespace {

constexpr size_t tile_vectors = 28;  // vectors of sums that a kernel keeps at a time

// The part of memory's bandwidth that a kernel gets. It is larger if the kernel reads several places at a time: most
// kernels of one row read four panels side by side, of 8 to 32 channels each, and those that read one after the other
// count like them. All others read one panel.
double reach(const ProductTile& tile) { return !tile.one_row() ? double{machine().reach} : tile.nr <= 16 ? 0.92 : 1; }

// The number of channels that a kernel multiplies in the last panel, which has `left` channels. Most AVX-512 kernels
// leave out the second vector of a panel if it has no channels.
size_t multiplied(const ProductTile& tile, size_t left) {
  return (tile.row.isa & isa_avx512) != 0 ? round_up(left, size_t{16}) : tile.nr;
}

// What kernels of tiles cost beside the constants of machines: to end two rows of 32 sums as floats; four dot products at
// least, whose weights have to arrive; to begin and end a call. Measured on an Intel Xeon with AMX.
constexpr double real_pair_cycles = 25, tile_step_cycles = 60, tile_call_cycles = 800;

// Cycles of a kernel of tiles for so many rows and a panel. A dot product of tiles takes the longer the more rows there
// are. The sums of a pair of rows end meanwhile, but for a part of them.
double matrix_cycles(const Row& row, size_t rows, double depth) {
  const MachineRow& m = machine();
  constexpr TileEngine engine = tile_engine;
  static_assert(engine.down == 2, "rows of a block are divided between two tiles");
  const size_t blocks = divide_up(rows, engine.block_rows()), each = divide_up(rows, blocks);
  const auto dot = [&](size_t count) { return m.dot_cycles + m.dot_row_cycles * static_cast<double>(count); };
  const double products =
      double{engine.across} * (dot(divide_up(each, size_t{2})) + dot(std::max<size_t>(each / 2, 1)));
  const double step = std::max(products, tile_step_cycles);
  const double pair = quantizes_inputs && dequantizes(row.type) ? real_pair_cycles : m.pair_cycles;
  const double steps = std::ceil(depth * 4 / double{engine.step_bytes}) * step,
               ends = static_cast<double>(divide_up(each, size_t{2})) * pair;
  return static_cast<double>(blocks) * (std::max(steps, ends) + m.unhidden_ends * std::min(steps, ends));
}

// The cache lines that a tile reads of A.
double lines_of_a(size_t rows, double depth) { return static_cast<double>(rows * sizeof(float)) * depth / cache_line; }

}  // namespace

bool table_fits(const Problem& p, size_t entry_bytes) {
  size_t entries;
  return checked_mul(p.pixels, p.taps(), &entries) && entries <= max_table_bytes / entry_bytes;
}

Level level_of(const Row& row) {
  switch (row.isa) {
    case isa_avx512: return {16, 1};
    case isa_avx2: return {8, 1};
    case isa_sse41: return {4, 2};
    case isa_neon: return {4, 1};
    case isa_neonfma: return {4, 1};
#ifndef QN_NO_INTEGERS
    case isa_amxint8:
    case isa_avx512vnni: return {16, 1};
    case isa_avxvnni: return {8, 1};
    case isa_dotprod: return {4, 1};
    case isa_i8mm: return {4, 0.5};
#endif
    default: return {1, 2};
  }
}

// Where there are no dot products, kernels of bytes multiply pairs of them and add up pairs of the products, or (kr of 1)
// widen each byte.
double ProductTile::multiply() const {
  constexpr uint32_t dot_products = feature_vnni | feature_avxvnni | feature_dotprod;
  const double instructions = !of_bytes() || (row.isa & dot_products) != 0 ? 1 : kr > 1 ? 3 : 12;
  return instructions * level_of(row).multiply;
}

size_t ProductTile::most_rows(const Row& row, size_t nr) {
  if (quern::of_tiles(row)) return SIZE_MAX;
  return std::max<size_t>(tile_vectors * static_cast<size_t>(level_of(row).lanes) / nr, 1);
}

double step_cycles(const ProductTile& tile, size_t rows, size_t channels, double stalls) {
  const MachineRow& m = machine();
  const double vectors = static_cast<double>(channels) / level_of(tile.row).lanes;
  const double height = static_cast<double>(tile.computed(rows));
  const double panels = static_cast<double>(tile.together());
  const double flips = tile.flips ? double{m.flip} : 0;
  const double multiplies = height * (vectors * tile.multiply() + flips) / m.pipes,
               loads = height / panels / m.loads + vectors / m.pipes;
  return std::max(multiplies, std::max(loads, m.latency / panels) + stalls);
}

double arrival(const ProductTile& tile, double bytes_per_cycle) {
  return static_cast<double>(tile.nr) * tile.weight_bytes() / bytes_per_cycle;
}

bool far_weights(const Problem& p, double bytes) {
  return std::max(static_cast<double>(p.traffic), bytes) > machine().cached_bytes;
}

double tiles_cycles(const Problem& p, const ProductTile& tile, double depth, double per_tile, double stalls) {
  const MachineRow& m = machine();
  const size_t tiles = divide_up(p.pixels, tile.mr), rows = divide_up(p.pixels, tiles);
  const size_t panels = divide_up(p.out, tile.nr), sets = divide_up(panels, tile.together());
  if (tile.of_tiles()) per_tile += tile_call_cycles / static_cast<double>(panels);
  const bool far = far_weights(p, depth * static_cast<double>(p.out * p.groups) * tile.weight_bytes());
  const double distance = far ? 1 : m.memory_bytes / m.l3_bytes;  // how far the weights are, relative to memory
  // Of the way from memory, several passes over a panel take a part each.
  const double share = m.kept == 0 ? 1 : 1 - m.kept * (1 - 1 / static_cast<double>(tile.passes));
  const double cold = arrival(tile, m.memory_bytes * reach(tile)) * distance * share;
  const double warm = arrival(tile, m.l2_bytes);
  // Panels that the kernel has room for, relative to those that there are: the rest of its places stays idle.
  const double idle = static_cast<double>(sets * tile.together()) / static_cast<double>(panels);
  const auto call = [&](size_t count, size_t channels, double weights, double waits) {
    const double store = static_cast<double>(count * channels) / level_of(tile.row).lanes * tile.end_cycles();
    double sums = tile.of_tiles()
                      ? matrix_cycles(tile.row, count, depth) + per_tile
                      : depth * step_cycles(tile, count, channels, waits) + store + machine().call_cycles + per_tile;
    if (machine().pass_cycles > 0 && tile.passes > 1)
      sums += machine().pass_cycles + machine().pass_line_cycles * lines_of_a(count, depth);
    return std::max(sums * idle, depth * weights);
  };
  const auto again = [&](size_t count, size_t channels) {
    return call(count, channels, warm, stalls) + depth * warm * machine().passing;
  };
  const auto column = [&](size_t channels) {
    const double first = call(rows, channels, cold, stalls + machine().unhidden * cold);
    if (tiles == 1) return first;
    return first + static_cast<double>(tiles - 2) * again(rows, channels) +
           again(p.pixels - (tiles - 1) * rows, channels);
  };
  // If the last panel of a one-row kernel has no others beside it, it gets half of the bandwidth.
  const size_t alone = tile.one_row() && panels % tile.together() == 1;
  const double all = static_cast<double>(panels - 1 + alone) * column(tile.nr) +
                     column(multiplied(tile, p.out - (panels - 1) * tile.nr)) +
                     distance * (tile.one_row() ? static_cast<double>(sets) * m.restart_cycles : m.start_cycles);
  return all * static_cast<double>(p.groups * p.images);
}

}  // namespace quern
