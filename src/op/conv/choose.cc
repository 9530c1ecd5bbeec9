#include "op/conv/choose.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/cpu.h"
#include "base/math.h"
#include "kernel/gather.h"
#include "op/pixels/plane.h"
#include "op/pixels/sparse_band.h"
#include "op/weights/pack_sparse.h"

namespace quern {
namespace {

// ---- the machine ----

struct Level {
  double lanes;     // floats of a vector
  double multiply;  // instructions of a multiply-add
};

Level level_of(const Row& row) {
  switch (row.isa) {
    case isa_avx512: return {16, 1};
    case isa_avx2: return {8, 1};
    case isa_sse41: return {4, 2};
    case isa_neon: return {4, 1};
    case isa_neonfma: return {4, 1};
    default: return {1, 2};
  }
}

constexpr double pipes = 2;                  // multiply-adds, and loads, per cycle
constexpr double latency = 4;                // cycles from one multiply-add to the next of its chain
constexpr size_t competing_bytes = 1024;     // lines at multiples of it share sets of the first cache
constexpr double tap_cycles = 0.4;           // to find one row of A through a table
constexpr double call_cycles = 20;           // to begin and end a tile
constexpr size_t tile_vectors = 28;          // that are summed up at a time
constexpr double gather_cycles = 16;         // to begin a copy
constexpr double gather_floats = 4;          // copied per cycle
constexpr double transform_cycles = 6;       // winograd: of one vector at one point, there or back,
constexpr double far_transform_cycles = 14;  // and where the image does not fit into the L2 cache
constexpr double l2_bytes = 64;              // that arrive per cycle from the L2 cache,
constexpr double arm_l2_bytes = 8;           // on phones as tool/predict/phone_core.cc assumes,
constexpr double l3_bytes = 25;              // that arrive per cycle from the last cache
constexpr double memory_bytes = 10;          // and from memory, to one core
constexpr double interrupted_bytes = 7;      // where it is asked for one panel and, a product later, for the next
constexpr double start_cycles = 2000;        // until the weights arrive that nothing has fetched ahead,
constexpr double restart_cycles = 500;       // where others are under way meanwhile
constexpr double unhidden = 0.25;            // of the time weights take: loads wait though they are fetched ahead
constexpr double pairs_cycles = 0.73;        // sparse: of a vector of pixels times one weight, by the kind of row,
constexpr double wide_pairs_cycles = 0.67;   // with more than four vectors,
constexpr double narrow_fours = 1.2;         // and times that of fours, with less than four vectors,
constexpr double block_of_two_cycles = 0.62;
constexpr double block_cycles = 0.58;
constexpr double set_cycles = 20;               // to begin a set of channels,
constexpr double fours_set_cycles = 50;         // with its fifteen loops,
constexpr double transpose_cycles = 0.21;       // to transpose an element, with vectors of 16,
constexpr double transpose_back_cycles = 0.17;  // and back,
constexpr double gather_row_cycles = 0.2;       // to copy one between images that are pixel-blocked, with neighbours,
constexpr double gather_pixel_cycles = 1;       // and alone
constexpr double plane_tap_cycles = 0.8;        // depthwise in planes: of a vector and a tap,
constexpr double wide_tap_cycles = 1.1;         // one that is as wide as a cache line and crosses two,
constexpr double plane_neighbour_cycles = 0.7;  // and one that shares its loads with neighbours,
constexpr double narrow_tap_cycles = 0.95;      // and of arm64, as predicted for Neoverse N1;
constexpr double image_vector_cycles = 9;       // of a vector with stride 2, 3x3;
constexpr double unblock_cycles = 0.09;         // to copy an element out of its block or into it,
constexpr double far_unblock_cycles = 0.13;     // where that is not in the L1 cache,
constexpr double split_cycles = 0.16;           // and into one of several planes,
constexpr double narrow_copies = 4;             // times these with vectors of 4;
constexpr double cached_bytes = 16 << 20;       // that the last cache keeps while a layer runs

// Limits of what is chosen unasked: of winograd's transformed weights, which are 1.8, 4 or 7.1 times the weights, and
// of winograd_error. The first leaves 4x4 for 512 to 512 channels, the second 6x6 for up to 225 channels.
constexpr size_t max_transformed_bytes = size_t{40} << 20;
constexpr double max_winograd_error = 3e-5;
constexpr size_t winograd_calls = 2;  // of gemm in a block of tiles
constexpr size_t max_panel = 64;      // channels that panels are padded to, at most

bool is_arm(const Row& row) { return (row.isa & (isa_neon | isa_neonfma)) != 0; }

// The tile of a kernel of gemm or igemm, or as many rows of it as are multiplied at a time.
struct Tile {
  const Row& row;
  size_t mr, nr;

  template <class TileRow>
  Tile(const TileRow& tile) : row(tile), mr(std::min(tile.mr, most_rows(tile, tile.nr))), nr(tile.nr) {}
  static size_t most_rows(const Row& row, size_t nr) {
    return std::max<size_t>(tile_vectors * static_cast<size_t>(level_of(row).lanes) / nr, 1);
  }
  bool one_row() const { return mr == 1; }
  // Rows that are multiplied in a call with so many: on ARM those of the whole tile.
  size_t computed(size_t rows) const { return is_arm(row) ? mr : rows; }
  size_t together() const { return one_row() ? 4 : 1; }  // panels side by side
};

// Cycles of one k for a tile of so many rows and channels, where loads wait for so many. Multiplications hide that.
double step_cycles(const Tile& tile, size_t rows, size_t channels, double stalls = 0) {
  const Level level = level_of(tile.row);
  const double vectors = static_cast<double>(channels) / level.lanes;
  const double m = static_cast<double>(tile.computed(rows));
  const double panels = static_cast<double>(tile.together());
  const double multiplies = m * vectors * level.multiply / pipes, loads = (m / panels + vectors) / pipes;
  return std::max(multiplies, std::max(loads, latency / panels) + stalls);
}

// Cycles until one row of a panel has arrived, at so many bytes per cycle.
double arrival(const Tile& tile, double bytes_per_cycle) {
  return static_cast<double>(tile.nr * sizeof(float)) / bytes_per_cycle;
}

// The part of memory's bandwidth that a kernel gets: the more, the more it has under way at a time. Kernels of one row
// have four panels side by side, of 8 to 32 channels; the others are in one place at a time.
double reach(const Tile& tile) { return !tile.one_row() ? 0.9 : tile.nr <= 16 ? 0.92 : 1; }

// Channels of a last panel with `left` of them that are multiplied: most kernels of wide vectors leave out the second.
size_t multiplied(const Tile& tile, size_t left) {
  return tile.row.isa == isa_avx512 ? round_up(left, size_t{16}) : tile.nr;
}

// Do weights come from memory? The last cache keeps them from one run to the next if nothing else passes it meanwhile.
bool far_weights(const Problem& p, double bytes) {
  return std::max(static_cast<double>(p.traffic), bytes) > cached_bytes;
}

// Cycles of all tiles of all groups and images, each `depth` steps deep. Kernels of x86 run the rows of a call only, so
// the last tile of an image costs what it has. To the first the weights come from where the other layers of a model
// have left them, to the others from the L2 cache.
double tiles_cycles(const Problem& p, const Tile& tile, double per_tile, double stalls = 0) {
  const double depth = static_cast<double>(p.taps()) * static_cast<double>(p.in);
  const size_t tiles = divide_up(p.pixels, tile.mr), rows = divide_up(p.pixels, tiles);
  const size_t panels = divide_up(p.out, tile.nr), sets = divide_up(panels, tile.together());
  const bool far = far_weights(p, depth * static_cast<double>(p.out * p.groups * sizeof(float)));
  const double distance = far ? 1 : memory_bytes / l3_bytes;  // in times of that of memory
  const double cold = arrival(tile, memory_bytes * reach(tile)) * distance;
  const double warm = arrival(tile, is_arm(tile.row) ? arm_l2_bytes : l2_bytes);
  const double idle = static_cast<double>(sets * tile.together()) / static_cast<double>(panels);  // and busy places
  const auto call = [&](size_t count, size_t channels, double weights, double waits) {
    const double store = static_cast<double>(count * channels) / level_of(tile.row).lanes;
    const double sums = depth * step_cycles(tile, count, channels, waits) + store + call_cycles + per_tile;
    return std::max(sums * idle, depth * weights);
  };
  const auto column = [&](size_t channels) {
    const double first = call(rows, channels, cold, stalls + unhidden * cold);
    if (tiles == 1) return first;
    return first + static_cast<double>(tiles - 2) * call(rows, channels, warm, stalls) +
           call(p.pixels - (tiles - 1) * rows, channels, warm, stalls);
  };
  // A panel that is left alone gets half of the bandwidth.
  const size_t alone = tile.one_row() && panels % tile.together() == 1;
  const double all = static_cast<double>(panels - 1 + alone) * column(tile.nr) +
                     column(multiplied(tile, p.out - (panels - 1) * tile.nr)) +
                     distance * (tile.one_row() ? static_cast<double>(sets) * restart_cycles : start_cycles);
  return all * static_cast<double>(p.groups * p.images);
}

// ---- the algorithms ----

// Cycles per k that loads wait because rows of A compete: those a multiple of 4 KiB apart fall into one set of the L1
// cache. Two of its ways are taken by what passes, weights and other rows; beyond the others, the more the longer. (As
// measured for tiles of up to 28 rows of 2 and 4 KiB.)
double aliasing(const Problem& p, size_t mr) {
  constexpr double way_bytes = 4096, passing = 2, steepness = 0.15;
  const size_t rows = std::min(mr, p.pixels);
  const double together = static_cast<double>(rows * std::gcd(p.row_stride, size_t{4096})) / way_bytes;
  const double beyond = together - static_cast<double>(cpu().l1_bytes) / way_bytes + passing;
  return beyond > 0 ? steepness * beyond * beyond : 0;
}

double gemm_cycles(const Problem& p, const GemmRow& row) { return tiles_cycles(p, row, 0, aliasing(p, Tile(row).mr)); }

double igemm_cycles(const Problem& p, const IgemmRow& row) {
  const size_t taps = p.contiguous && p.in <= few_channels ? p.kernel.h : p.taps();
  return tiles_cycles(p, row, static_cast<double>(taps * row.mr) * tap_cycles);
}

double direct_cycles(const Problem& p, const GemmRow& row) {
  const double copies = static_cast<double>(p.contiguous ? p.kernel.h : p.taps());
  const double floats = static_cast<double>(p.taps() * p.in);
  const double gather = copies * gather_cycles + floats / gather_floats;
  return tiles_cycles(p, row, 0) + gather * static_cast<double>(p.pixels * p.images * p.groups);
}

// Cycles of all pixels at `multiplies` per cycle.
template <class DepthwiseRow>
double depthwise_cycles(const Problem& p, const DepthwiseRow& row, double multiplies) {
  const Level level = level_of(row);
  const double vectors = static_cast<double>(divide_up(p.groups, row.nr) * row.nr) / level.lanes;
  const double per_pixel = vectors * static_cast<double>(p.taps()) * level.multiply / multiplies + call_cycles;
  return per_pixel * static_cast<double>(p.pixels * p.images);
}

bool tile_fits(const Problem& p, const DwconvTileRow& row) {
  const auto along = [&](const Axis& axis) {
    return axis.kernel == row.kernel && axis.stride == row.stride && axis.dilation == 1;
  };
  return along(p.window->h) && along(p.window->w) && row_tables_fit(p.window->tall(row.rows));
}

// Rows load as often as they multiply.
double dwconv_cycles(const Problem& p, const DwconvRow& row) { return depthwise_cycles(p, row, 1); }

// Tiles do not. But those whose panels are less than a cache line need each line several times, and between these it is
// gone where pixels lie so that their lines compete for few sets. Those of arm64 load a column while they multiply
// another, long enough for it to come from the L2 cache; on 32-bit ARM rows cost so much more that tiles may wait.
double dwconv_cycles(const Problem& p, const DwconvTileRow& row) {
  const bool compete = p.window->pixel_stride * row.stride % competing_bytes == 0;
  const bool wait = compete && row.nr * sizeof(float) < cache_line && !is_arm(row);
  return depthwise_cycles(p, row, wait ? 0.8 : 1.5);
}

// Are layouts such that planes can be read and written?
bool planes_fit(const Problem& p) {
  PlaneLayout layout;
  return p.in_blocked && (p.out_blocked || p.pixels == 1) && lay_out_planes(*p.window, &layout);
}

bool plane_fits(const Problem& p, const DwconvPlaneRow& row) {
  return row.block == cpu().pixel_block && (row.kernel == 0 || is_three_by_three(*p.window)) && planes_fit(p);
}

// To copy an image out of its blocks; a large one leaves the L1 cache on the way.
double unblock_image_cycles(const Axis& h, const Axis& w) {
  const size_t pixels = h.in * w.in;
  const bool far = pixels * sizeof(float) > cpu().l1_bytes;
  return static_cast<double>(pixels) * (far ? far_unblock_cycles : unblock_cycles);
}

// Planes are copied out of their blocks and, with a stride, split. (As measured at both levels of x86, within a sixth
// for the layers of MobileNet.)
double dwconv_cycles(const Problem& p, const DwconvPlaneRow& row) {
  const Level level = level_of(row);
  const Axis &h = p.window->h, &w = p.window->w;
  const bool split = w.stride > 1 || h.stride > 1 || w.in != w.out;
  const bool narrow = row.lanes < 8;
  const double moved = unblock_image_cycles(h, w) + (split ? split_cycles * static_cast<double>(h.in * w.in) : 0);
  const double copy = moved * (narrow ? narrow_copies : 1);
  const double tap = narrow            ? narrow_tap_cycles
                     : row.kernel == 3 ? plane_neighbour_cycles
                     : row.lanes > 8   ? wide_tap_cycles
                                       : plane_tap_cycles;
  const auto vectors = static_cast<double>(divide_up(p.pixels, row.lanes));
  const double one = copy + tap * level.multiply * vectors * static_cast<double>(p.taps()) + call_cycles;
  return one * static_cast<double>(p.groups * p.images);
}

// Row by row, and then into blocks.
double dwconv_cycles(const Problem& p, const DwconvImageRow& row) {
  const Axis &h = p.window->h, &w = p.window->w;
  const auto vectors = static_cast<double>(h.out * divide_up(w.out, row.lanes));
  const double one = unblock_image_cycles(h, w) + unblock_cycles * static_cast<double>(p.pixels) +
                     image_vector_cycles * level_of(row).multiply * vectors + call_cycles;
  return one * static_cast<double>(p.groups * p.images);
}

// The products at one of winograd's points, of so many tiles. The weights, which are many, go by once per block of
// tiles; the first time they come from where the other layers of a model have left them.
double winograd_point_cycles(const Problem& p, const GemmRow& gemm, size_t tiles, double first_bytes,
                             double again_bytes) {
  const size_t calls = divide_up(tiles, gemm.mr), rows = divide_up(tiles, calls), panels = divide_up(p.out, gemm.nr);
  const size_t blocks = divide_up(calls, winograd_calls);
  const double step = step_cycles(gemm, rows, gemm.nr);
  const double steps = std::max(step, arrival(gemm, first_bytes)) +
                       static_cast<double>(blocks - 1) * std::max(step, arrival(gemm, again_bytes)) +
                       static_cast<double>(calls - blocks) * step;
  const double call = static_cast<double>(rows * gemm.nr) / level_of(gemm).lanes +
                      call_cycles * static_cast<double>(divide_up(rows, Tile(gemm).mr));
  return static_cast<double>(panels) * (static_cast<double>(p.in) * steps + static_cast<double>(calls) * call);
}

// Products are made on the level of the transforms; those of NEON serve both levels of 32-bit ARM, of which a machine's
// gemm is one.
uint32_t level_of_products(const WinogradRow& row) {
  return row.isa == isa_neon && (cpu().isa & isa_neonfma) != 0 ? uint32_t{isa_neonfma} : row.isa;
}

// Transforms and products.
double winograd_cycles(const Problem& p, const WinogradRow& row, const GemmRow& gemm) {
  const double lanes = level_of(row).lanes;
  const double vectors = std::ceil(static_cast<double>(p.in) / lanes) + std::ceil(static_cast<double>(p.out) / lanes);
  const bool far = p.height * p.width * p.images * (p.in + p.out) * sizeof(float) > cpu().l2_bytes;
  const double per_vector = vectors * (far ? far_transform_cycles : transform_cycles);
  const double bytes = static_cast<double>(row.points() * round_up(p.out, gemm.nr) * (p.in + 1) * sizeof(float));
  const double first_bytes = far_weights(p, bytes) ? interrupted_bytes : l3_bytes;
  const double again_bytes = bytes < cached_bytes ? l3_bytes : interrupted_bytes;

  // Points that the last, smaller tiles along a direction have too, and those that they lack.
  const WinogradCut h(row.outputs, p.height), w(row.outputs, p.width);
  const auto points = [&](const WinogradCut& cut, bool last) {
    const size_t common = cut.rest == 0 ? row.inputs() : std::min(cut.rest + 2, row.inputs());
    return last ? common : row.inputs() - common;
  };
  double cycles = static_cast<double>(h.tiles() * w.tiles() * p.images) * 2 * call_cycles;
  for (const bool low : {false, true}) {
    for (const bool narrow : {false, true}) {
      const size_t tiles = (low ? h.tiles() : h.whole) * (narrow ? w.tiles() : w.whole) * p.images;
      const auto count = static_cast<double>(points(h, low) * points(w, narrow));
      if (count == 0 || tiles == 0) continue;
      cycles += count * (static_cast<double>(tiles) * per_vector +
                         winograd_point_cycles(p, gemm, tiles, first_bytes, again_bytes));
    }
  }
  return cycles;
}

// May this row be chosen? With a row that was asked for by name the user knows what he does.
bool winograd_fits(const Problem& p, const WinogradRow& row, bool by_name) {
  if (p.kernel.h != 3 || p.kernel.w != 3 || !p.undilated || p.groups != 1) return false;
  size_t bytes;
  if (!checked_mul(p.in + 1, round_up(p.out, max_panel), &bytes) ||
      !checked_mul(bytes, row.points() * sizeof(float), &bytes)) {
    return false;
  }
  return by_name || (bytes <= max_transformed_bytes && winograd_error(row.outputs, p.in) <= max_winograd_error);
}

// igemm keeps an offset per output pixel and tap; beyond this, another algorithm is better though slower.
constexpr size_t max_table_bytes = size_t{64} << 20;

bool table_fits(const Problem& p, size_t entry_bytes) {
  size_t entries;
  return checked_mul(p.pixels, p.taps(), &entries) && entries <= max_table_bytes / entry_bytes;
}

// ---- sparse

constexpr size_t max_sparse_elements = size_t{1} << 31;  // packed weights are found by 32 bits

// Blocks that are mostly full are as good as single weights, and faster.
constexpr double full_enough = 0.9;

bool sparse_fits(const Problem& p, size_t block) {
  return p.density->stored(1) >= full_enough * p.density->stored(block);
}

// Cycles of one k and four channels of fours, with a tile of so many vectors, when this part of the weights is there
// and scattered: entries multiply, or load their vectors, weights and place, or wait for their sums, whatever takes
// longest.
double fours_cycles(double part, double vectors) {
  constexpr double ways[] = {1, 4, 6, 4, 1};
  double cycles = 0;
  for (size_t i = 1; i <= 4; ++i) {
    const auto m = static_cast<double>(i);
    const double chance = ways[i] * std::pow(part, m) * std::pow(1 - part, 4 - m);
    cycles += chance * std::max(latency, std::max(m * vectors, vectors + m + 2) / pipes);
  }
  return cycles;
}

// Cycles of the products of one group and image, in so many tiles of so many vectors together.
double sparse_products(const Problem& p, const SpmmRow& row, double tiles, double vectors) {
  const WeightsDensity& density = *p.density;
  const double multiply = level_of(row).multiply / static_cast<double>(p.groups);
  if (row.fours()) {
    const double fours = static_cast<double>(density.elements) / 4;
    const double stalls = row.pixels < 4 * row.lanes ? narrow_fours : 1;
    return fours * tiles * fours_cycles(density.part(1), vectors / tiles) * stalls * multiply;
  }
  const double pairs = row.pixels > 4 * row.lanes ? wide_pairs_cycles : pairs_cycles;
  const double per_weight = row.pairs() ? pairs : row.block == 2 ? block_of_two_cycles : block_cycles;
  return density.stored(row.block) * vectors * per_weight * multiply;
}

// One pixel, which is not transposed: its sums wait for each other.
double sparse_column_cycles(const Problem& p, const SpmmRow& row) {
  const WeightsDensity& density = *p.density;
  const double per_weight = row.pairs() ? 1.7 : row.block == 2 ? 1.2 : 0.7;
  const double sums = row.fours() ? density.stored(4) / 4 * latency : density.stored(row.block) * per_weight;
  return sums * static_cast<double>(p.images) + call_cycles;
}

// Tiles of pixel-blocked tensors lie within a block; other windows than 1x1 find pixels of the input through tables.
bool layouts_fit(const Problem& p, const SpmmRow& row) {
  if (p.blocked() && cpu().pixel_block % row.pixels != 0) return false;
  return !p.in_blocked || p.pointwise || (p.offsets_fit && table_fits(p, sizeof(qn_gather_piece)));
}

// Cycles until an element of A, or of C, is where it should be, with vectors of 16.
double input_cycles(const Problem& p) {
  if (!p.in_blocked) return transpose_cycles;
  return p.pointwise ? 0 : p.window->w.stride == 1 ? gather_row_cycles : gather_pixel_cycles;
}
double output_cycles(const Problem& p) { return p.out_blocked ? 0 : transpose_back_cycles; }

// A band of the image at a time: every input channel is laid out once for all taps. (sparse_band.h)
double sparse_band_cycles(const Problem& p, const SpmmRow& row, const SparseBand& band) {
  const double lanes = level_of(row).lanes, bands = static_cast<double>(divide_up(p.pixels, band.pixels));
  const double vectors = bands * static_cast<double>(band.width / row.lanes);
  const double tiles = bands * static_cast<double>(divide_up(band.width, row.pixels));
  const double sets = tiles * static_cast<double>(divide_up(p.out, row.channels()));
  const double in = bands * static_cast<double>(p.in * band.channel) * input_cycles(p);
  const double back = p.out_blocked ? gather_row_cycles : transpose_back_cycles;
  const double out = static_cast<double>(p.out * p.pixels) * back;
  const double one = sparse_products(p, row, tiles, vectors) + (in + out) * 16 / lanes +
                     sets * (row.fours() ? fours_set_cycles : set_cycles);
  return one * static_cast<double>(p.groups * p.images);
}

// Every weight is multiplied with all pixels of a tile; before and after that A and C are transposed, unless they are
// pixel-blocked. (As measured: within a tenth of it for layers of MobileNet, 1x1 and 3x3, at 0 to 95% zeros.)
double sparse_cycles(const Problem& p, const SpmmRow& row) {
  if (p.pixels == 1 && !p.blocked()) return sparse_column_cycles(p, row);
  if (const SparseBand band = sparse_band(p, row); band.fits()) return sparse_band_cycles(p, row, band);
  const Level level = level_of(row);
  const size_t depth = p.taps() * p.in, vectors = divide_up(p.pixels, row.lanes);
  const bool alone = row.alone > 0 && p.pixels % row.lanes == 1;
  // Four channels of the last pixel share a vector; of pairs it is as much as half of one.
  const double width = static_cast<double>(vectors) - (!alone ? 0 : row.pairs() ? 0.5 : 0.75);
  const auto transposed = [&](size_t channels, double cycles) {
    return static_cast<double>(channels * p.pixels) * cycles * 16 / level.lanes;
  };
  const size_t chunks = divide_up(depth, sparse_depth(row, p.pixels, depth, p.density->part(row.block)));
  const size_t tiles = divide_up(vectors * row.lanes, row.pixels),
               sets = tiles * divide_up(p.out, row.channels()) * chunks;
  const double one = sparse_products(p, row, static_cast<double>(tiles), width) + transposed(depth, input_cycles(p)) +
                     transposed(p.out, output_cycles(p)) +
                     static_cast<double>(sets) * (row.fours() ? fours_set_cycles : set_cycles);
  return one * static_cast<double>(p.groups * p.images);
}

bool cheaper(const Choice& a, const Choice& b) { return a.cycles < b.cycles; }

// Of equals, the one that was added first stays first.
void add_choice(const Choice& choice, Vector<Choice>* list) {
  if (has_api("op")) {
    list->insert(std::upper_bound(list->begin(), list->end(), choice, cheaper), choice);
  } else if (list->empty()) {
    list->push_back(choice);
  } else if (cheaper(choice, list->front())) {
    list->front() = choice;  // without tuning nobody looks at the others
  }
}

// Adds a candidate for each row of `table` that the CPU and `kernel` leave, if make(row, &candidate) can complete it.
template <class Table, class Make>
void add_rows(const Table& table, qn_algorithm algorithm, const char* kernel, Vector<Choice>* list, Make make) {
  for (const auto& row : table) {
    if (!may_choose(row, kernel)) continue;
    Choice c;
    c.algorithm = algorithm;
    c.row = &row;
    if (make(row, &c)) add_choice(c, list);
  }
}

void add_algorithm(qn_algorithm algorithm, const Problem& p, const char* kernel, Vector<Choice>* list) {
  const auto add = [&](const auto& table, auto make) { add_rows(table, algorithm, kernel, list, make); };
  const auto complete = [](auto* slot, const auto& row, double cycles, Choice* c) {
    *slot = &row;
    c->cycles = cycles;
    return true;
  };
  if (p.blocked() && algorithm != QN_ALGORITHM_SPARSE && algorithm != QN_ALGORITHM_DEPTHWISE) return;
  switch (algorithm) {
    case QN_ALGORITHM_GEMM:
      if (!has_algorithm(QN_ALGORITHM_GEMM) || !p.pointwise) break;
      add(gemm_rows(), [&](const GemmRow& r, Choice* c) { return complete(&c->gemm, r, gemm_cycles(p, r), c); });
      break;
    case QN_ALGORITHM_DIRECT:
      if (!has_algorithm(QN_ALGORITHM_DIRECT)) break;
      add(gemm_rows(), [&](const GemmRow& r, Choice* c) { return complete(&c->gemm, r, direct_cycles(p, r), c); });
      break;
    case QN_ALGORITHM_IGEMM:
      if (!has_algorithm(QN_ALGORITHM_IGEMM) || !p.offsets_fit || !table_fits(p, sizeof(int32_t))) break;
      add(igemm_rows(), [&](const IgemmRow& r, Choice* c) { return complete(&c->igemm, r, igemm_cycles(p, r), c); });
      break;
    case QN_ALGORITHM_DEPTHWISE:
      if (!has_algorithm(QN_ALGORITHM_DEPTHWISE) || p.window == nullptr || p.in != 1 || p.out != 1 || p.residual) break;
      if (p.blocked()) {
        add(dwconv_plane_rows(), [&](const DwconvPlaneRow& r, Choice* c) {
          return plane_fits(p, r) && complete(&c->dwconv_plane, r, dwconv_cycles(p, r), c);
        });
        add(dwconv_image_rows(), [&](const DwconvImageRow& r, Choice* c) {
          return is_image_k3s2(*p.window) && planes_fit(p) && complete(&c->dwconv_image, r, dwconv_cycles(p, r), c);
        });
        break;
      }
      if (!row_tables_fit(*p.window)) break;
      add(dwconv_rows(),
          [&](const DwconvRow& r, Choice* c) { return complete(&c->dwconv, r, dwconv_cycles(p, r), c); });
      add(dwconv_tile_rows(), [&](const DwconvTileRow& r, Choice* c) {
        return tile_fits(p, r) && complete(&c->dwconv_tile, r, dwconv_cycles(p, r), c);
      });
      break;
    case QN_ALGORITHM_WINOGRAD:
      if (!has_algorithm(QN_ALGORITHM_WINOGRAD)) break;
      add(winograd_rows(), [&](const WinogradRow& r, Choice* c) {
        if (!winograd_fits(p, r, kernel != nullptr)) return false;
        for (const GemmRow& gemm : gemm_rows()) {
          if (gemm.isa != level_of_products(r) || !may_choose(gemm, nullptr)) continue;
          const double cycles = winograd_cycles(p, r, gemm);
          if (c->gemm != nullptr && cycles >= c->cycles) continue;
          c->gemm = &gemm;
          complete(&c->winograd, r, cycles, c);
        }
        return c->gemm != nullptr;
      });
      break;
    case QN_ALGORITHM_SPARSE:
      if (!has_sparse || p.density == nullptr || p.density->elements > max_sparse_elements) break;
      add(spmm_rows(), [&](const SpmmRow& r, Choice* c) {
        if (!layouts_fit(p, r) || (kernel == nullptr && !sparse_fits(p, r.block))) return false;
        return complete(&c->spmm, r, sparse_cycles(p, r), c);
      });
      break;
    case QN_ALGORITHM_AUTO:
    case QN_ALGORITHM_DENSE: break;
  }
}

}  // namespace

bool has_zeros(const Problem& p) { return p.density != nullptr && p.density->blocks[0] < p.density->elements; }

SparsePattern pattern_of(const Problem& p) {
  SparsePattern pattern;
  if (!has_zeros(p)) return pattern;
  const WeightsDensity& density = *p.density;
  pattern.percent = density.blocks[0] * 100 / density.elements;
  for (size_t i = 1; i < density.kinds; ++i) {
    if (sparse_fits(p, size_t{1} << i)) pattern.block = size_t{1} << i;
  }
  return pattern;
}

// It grows as that of any sum in a row: with the square root of its length.
double winograd_error(size_t outputs, size_t channels) {
  const double per_root = outputs == 2 ? 1e-7 : outputs == 4 ? 3e-7 : 2e-6;
  return per_root * std::sqrt(static_cast<double>(std::max<size_t>(channels, 16)));
}

Vector<Choice> candidates(const Problem& problem, qn_algorithm algorithm, const char* kernel) {
  Vector<Choice> list;
  const bool any = algorithm == QN_ALGORITHM_AUTO || algorithm == QN_ALGORITHM_DENSE;
  for (const qn_algorithm each : {QN_ALGORITHM_GEMM, QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_WINOGRAD, QN_ALGORITHM_IGEMM,
                                  QN_ALGORITHM_DIRECT, QN_ALGORITHM_SPARSE}) {
    if (problem.matrix && each != QN_ALGORITHM_GEMM && each != QN_ALGORITHM_SPARSE) continue;
    // Asked for, or alone, weights without zeros are sparse, too; where dense was, nobody has looked for zeros.
    if (each == QN_ALGORITHM_SPARSE && algorithm != each && !problem.blocked() && !has_zeros(problem)) continue;
    if (any || algorithm == each) add_algorithm(each, problem, kernel, &list);
  }
  return list;
}

bool known_kernel(qn_algorithm algorithm, std::string_view name) {
  const auto in = [&](const auto& table) {
    for (const Row& row : table) {
      if (row.name == name) return true;
    }
    return false;
  };
  switch (algorithm) {
    case QN_ALGORITHM_GEMM:
    case QN_ALGORITHM_DIRECT: return in(gemm_rows());
    case QN_ALGORITHM_IGEMM: return in(igemm_rows());
    case QN_ALGORITHM_DEPTHWISE:
      return in(dwconv_rows()) || in(dwconv_tile_rows()) || in(dwconv_plane_rows()) || in(dwconv_image_rows());
    case QN_ALGORITHM_WINOGRAD: return in(winograd_rows());
    case QN_ALGORITHM_SPARSE: return in(spmm_rows());
    case QN_ALGORITHM_AUTO:
    case QN_ALGORITHM_DENSE: break;
  }
  return false;
}

qn_status choose(const char* who, const Problem& problem, const qn_plan_options& options, Choice* choice) {
  const Vector<Choice> list = candidates(problem, options.algorithm, options.kernel);
  if (!list.empty()) {
    *choice = list.front();
    return QN_OK;
  }
  if (trimmed) return fail_without("algorithm", "for a layer of the model");
  return fail(QN_UNSUPPORTED, "%s: algorithm %s with kernel %s does not apply to these shapes or this CPU", who,
              qn_algorithm_string(options.algorithm), options.kernel == nullptr ? "(any)" : options.kernel);
}

}  // namespace quern
