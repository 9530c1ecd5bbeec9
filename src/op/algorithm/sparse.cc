// sparse: multiplies tiles of pixels with the weights that are not 0. In a tile the pixels of each channel lie side by
// side (tile_input.h). The results are transposed back, unless the output is pixel-blocked.
#include <cmath>
#include <numeric>

#include "base/cpu.h"
#include "base/math.h"
#include "base/needs.h"
#include "base/tensor.h"
#include "kernel/gather.h"
#include "kernel/select.h"
#include "kernel/transpose.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"
#include "op/pixels/sparse_band.h"
#include "op/pixels/tile_input.h"
#include "op/weights/pack_sparse.h"

namespace quern {
namespace {

// ---- when it applies

constexpr size_t max_elements = size_t{1} << 31;  // positions in packed weights have 32 bits

// Can this row work with the problem's layouts? A tile of a pixel-blocked tensor must lie within a block. If the input
// is pixel-blocked, windows other than 1x1 find its pixels through tables, which must not be too large.
bool layouts_fit(const Problem& p, const SpmmRow& row) {
  if (p.blocked() && (p.type != KernelType::f32 || cpu().pixel_block % row.pixels != 0)) return false;
  return !p.in_blocked || p.pointwise || (p.offsets_fit && table_fits(p, sizeof(qn_gather_piece)));
}

// ---- cost

// Cycles of one k for four channels in the packing of fours, with a tile of `vectors` vectors, if `part` of the weights
// are not 0 and lie at random. An entry takes as long as the slowest of three things: its multiplications, its loads
// (of vectors, weights and index), or waiting for the sums of the entry before.
double fours_cycles(double part, double vectors) {
  const MachineRow& m = machine();
  constexpr double ways[] = {1, 4, 6, 4, 1};
  double cycles = 0;
  for (size_t i = 1; i <= 4; ++i) {
    const auto count = static_cast<double>(i);
    const double chance = ways[i] * std::pow(part, count) * std::pow(1 - part, 4 - count);
    const double loads = (vectors + count + 2) / m.pipes;
    cycles += chance * std::max<double>(m.latency, std::max(count * vectors * m.fours_cycles, loads));
  }
  return cycles;
}

constexpr double reference_cycles = 16;  // what a product of bytes by the reference takes, relative to an instruction

// The number of times that kernels multiply a vector of pixels. Kernels of bytes take four weights at a time, and fill
// up the last four of a set.
double products(const Problem& p, const SpmmRow& row, size_t chunks) {
  const double stored = p.density->stored(row.block, row.inputs);
  if (!of_bytes(row)) return stored;
  const double sets = static_cast<double>(divide_up(p.out, row.channels()) * chunks * p.groups);
  const double filled = row.inputs == 1 ? 1.5 * static_cast<double>(row.block) * sets : 0;
  return (stored + std::min(filled, 3 * stored)) / 4 * (row.isa == isa_ref ? reference_cycles : 1);
}

// Cycles of the products of one group and image. All its tiles together have `vectors` vectors.
double product_cycles(const Problem& p, const SpmmRow& row, double tiles, double vectors, size_t chunks) {
  const MachineRow& m = machine();
  const WeightsDensity& density = *p.density;
  const double multiply = level_of(row).multiply / static_cast<double>(p.groups);
  if (row.fours()) {
    const double fours = static_cast<double>(density.elements) / 4;
    const double stalls = row.pixels < 4 * row.lanes ? m.narrow_fours : 1;
    return fours * tiles * fours_cycles(density.part(1), vectors / tiles) * stalls * multiply;
  }
  const double pairs = row.pixels > 4 * row.lanes ? m.wide_pairs_cycles : m.pairs_cycles;
  const double per_weight = row.pairs() ? pairs : row.block == 2 ? m.block_of_two_cycles : m.block_cycles;
  return products(p, row, chunks) * vectors * per_weight * multiply;
}

// Kernels of bytes: cycles of a run, if all its sums take as many as this.
double run_cycles(const Problem& p, const SpmmRow& row, double sums) {
  const MachineRow& m = machine();
  const double distance = far_weights(p, p.density->stored(row.block, row.inputs)) ? 1 : m.memory_bytes / m.l3_bytes;
  return (sums + m.sparse_run_cycles + distance * m.start_cycles) * m.sparse_caution;
}

// Cycles for all groups and images, if one takes as many as this.
double all_cycles(const Problem& p, const SpmmRow& row, double one) {
  const double all = one * static_cast<double>(p.groups * p.images);
  return of_bytes(row) ? run_cycles(p, row, all) : all;
}

// Cycles for a single pixel. It needs no transpose, but each sum waits for the one before.
double column_cycles(const Problem& p, const SpmmRow& row) {
  const MachineRow& m = machine();
  const WeightsDensity& density = *p.density;
  if (of_bytes(row)) {
    constexpr double waiting = 0.85;  // the part of a sum's time in which the next set does not begin yet
    const double step = row.inputs == 1 ? m.column_step_cycles : m.latency * waiting;
    const double one = products(p, row, 1) / 4 * step + static_cast<double>(p.out * p.groups) / 4 * m.sparse_end_cycles;
    return run_cycles(p, row, one * static_cast<double>(p.images) + m.call_cycles);
  }
  const double per_weight = row.pairs()      ? m.column_pairs_cycles
                            : row.block == 2 ? m.column_two_cycles
                                             : m.column_block_cycles;
  const double sums =
      row.fours() ? density.stored(4) / 4 * m.latency : density.stored(row.block, row.inputs) * per_weight;
  return sums * static_cast<double>(p.images) + m.call_cycles;
}

// Cycles to bring an element of A, or of C, to its place, with vectors of 16.
double input_cycles(const Problem& p) {
  const MachineRow& m = machine();
  if (!p.in_blocked) return m.transpose_cycles;
  return p.pointwise ? 0 : p.window->w.stride == 1 ? m.gather_row_cycles : m.gather_pixel_cycles;
}
double output_cycles(const Problem& p) { return p.out_blocked ? 0 : machine().transpose_back_cycles; }

// The number of sets that kernels begin for a tile of pixels. Kernels of bytes take four channels at a time.
size_t begun_sets(const Problem& p, const SpmmRow& row) {
  return divide_up<size_t>(p.out, of_bytes(row) ? 4 : row.channels());
}

// Of kernels of bytes: cycles to end the sums of some pixels of a channel, apart from bringing them to the output.
double ends_cycles(const SpmmRow& row, size_t pixels) {
  return of_bytes(row) ? static_cast<double>(divide_up<size_t>(pixels, row.lanes)) * machine().sparse_end_cycles : 0;
}

// Cycles if the plan takes a band of the image at a time: it copies every input channel once for all taps
// (sparse_band.h).
double band_cycles(const Problem& p, const SpmmRow& row, const SparseBand& band) {
  const MachineRow& m = machine();
  const double lanes = level_of(row).lanes, bands = static_cast<double>(divide_up(p.pixels, band.pixels));
  const double vectors = bands * static_cast<double>(band.width / row.lanes);
  const double tiles = bands * static_cast<double>(divide_up(band.width, row.pixels));
  const double sets = tiles * static_cast<double>(begun_sets(p, row));
  const double in = bands * static_cast<double>(divide_up(p.in, row.inputs) * band.channel) * input_cycles(p);
  const double back = p.out_blocked ? m.gather_row_cycles : m.transpose_back_cycles;
  const double out = static_cast<double>(p.out * p.pixels) * back / (of_bytes(row) ? 4 : 1);
  const double one = product_cycles(p, row, tiles, vectors, 1) + (in + out) * 16 / lanes +
                     static_cast<double>(p.out) * ends_cycles(row, p.pixels) +
                     sets * (row.fours() ? m.fours_set_cycles : m.set_cycles);
  return all_cycles(p, row, one);
}

// Every weight is multiplied with all pixels of a tile. Before that A is transposed, and after it C, unless they are
// pixel-blocked. (For layers of MobileNet, 1x1 and 3x3, with 0 to 95% zeros, measured times were within a tenth of the
// estimate.)
double cycles_of(const Problem& p, const SpmmRow& row) {
  const MachineRow& m = machine();
  if (p.pixels == 1 && !p.blocked()) return column_cycles(p, row);
  if (const SparseBand band = sparse_band(p, row); band.fits()) return band_cycles(p, row, band);
  const Level level = level_of(row);
  const size_t depth = p.taps() * divide_up(p.in, row.inputs), vectors = divide_up(p.pixels, row.lanes);
  const bool alone = row.alone > 0 && p.pixels % row.lanes == 1;
  // If the last pixel is alone, it takes no whole vector: four channels share one, or two with pairs.
  const double width = static_cast<double>(vectors) - (!alone ? 0 : row.pairs() ? 0.5 : 0.75);
  const auto transposed = [&](size_t channels, double cycles) {
    return static_cast<double>(channels * p.pixels) * cycles * 16 / level.lanes;
  };
  const size_t chunks = divide_up(depth, sparse_depth(row, p.pixels, depth, p.density->part(row.block, row.inputs)));
  const size_t tiles = divide_up(vectors * row.lanes, row.pixels), sets = tiles * begun_sets(p, row) * chunks;
  const double in = spmm_bytes(row) == 1 ? input_cycles(p) / 4 + m.deal_cycles : input_cycles(p);
  const double one = product_cycles(p, row, static_cast<double>(tiles), width, chunks) + transposed(depth, in) +
                     transposed(p.out, output_cycles(p) / (of_bytes(row) ? 4 : 1)) +
                     static_cast<double>(p.out) * ends_cycles(row, p.pixels) +
                     static_cast<double>(sets) * (row.fours() ? m.fours_set_cycles : m.set_cycles);
  return all_cycles(p, row, one);
}

// ---- plan

// The number of pixels that are transposed back together, if they lie `stride` bytes apart in the output. They are few
// enough that their cache lines do not compete for the same sets of the L1 cache.
size_t stored_pixels(size_t stride) {
  constexpr size_t way_bytes = 4096, ways = 8;
  return ways * way_bytes / std::gcd(stride, way_bytes);
}

class SparsePlan final : public qn_plan {
 public:
  SparsePlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<SpmmRow>()),
        transpose_(best(transpose_rows(), KernelType::f32)),
        packed_(conv.weights.pack(sparse_packing(row_), sparse_block(row_), depth_of_chunks(conv, row_), {},
                                  conv.input_zero())),
        weights_(static_cast<const SparseWeights&>(*packed_)),
        kernel_epilogue_(row_.type, sparse_channels, {}, conv.numbers()),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        out_blocked_(is_blocked(conv.request.out)) {
    Window window = conv.window;
    if (conv.problem.matrix) {
      find_rows(conv.request, &window);
    } else if (conv.problem.blocked()) {
      find_images(conv.request);
    } else {
      find_lines(conv.request);
    }
    const qn_tensor &in = conv.request.ins[0], &out = conv.request.out;
    a_group_ = shape_.in * channel_stride(row_, in);
    c_channel_ = channel_stride(row_, out);
    in_blocked_ = is_blocked(in);
    stored_pixels_ = stored_pixels(c_stride_);
    input_ = make_tile_input(conv, row_, window, pixels_);
    divide(conv.request.options.tasks);
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* scratch = run.workspace + index * slot;
    Watch watch(run);
    for (size_t unit = tasks_.begin(index); unit < tasks_.end(index); ++unit) {
      const size_t n_chunk = unit % blocks_.chunks, rest = unit / blocks_.chunks;
      const size_t m_chunk = rest % tiles_.chunks, product = rest / tiles_.chunks;
      const size_t group = product % shape_.groups;
      Line line = find_line(run, product / shape_.groups);
      line.a += group * a_group_;
      line.c += group * shape_.out * c_channel_;
      for (size_t t = tiles_.begin(m_chunk); t < tiles_.end(m_chunk); ++t) {
        if (!run_tile(run, line, group, t, {blocks_.begin(n_chunk), blocks_.end(n_chunk)}, scratch, &watch)) return;
      }
    }
  }

 private:
  // A line: output pixels at equal distances, or all pixels of an image.
  struct Line {
    const char* a;  // the image, or the first row of a matrix
    char* c;
    size_t first;  // the number of its first pixel: y * width + x
  };

  // ---- dividing the work

  static size_t depth_of_chunks(const ConvRequest& conv, const SpmmRow& row) {
    const qn_tensor& out = conv.request.out;
    size_t pixels = 1;
    for (uint32_t i = 0; i + 1 < out.rank; ++i) pixels *= out.shape[i];
    return sparse_depth(row, pixels, conv.weights.shape().depth(row.inputs),
                        conv.weights.density().part(row.block, row.inputs));
  }

  void find_rows(const Request& request, Window* window) {
    const ProductRows rows(request.ins[0], request.out);
    pixels_ = rows.count;
    window->pixel_stride = rows.a_stride;
    c_stride_ = rows.c_stride;
    lines_ = rows.products;
    window->w.in = window->w.out = pixels_;
  }

  void find_lines(const Request& request) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    const Rows rows = output_rows(out);
    pixels_ = rows.count;
    c_stride_ = out.stride[2];
    if (rows.products == 1 && out.stride[0] == rows.count * c_stride_) {  // all images are one line
      pixels_ *= out.shape[0];
    } else {
      lines_per_image_ = rows.products;
      lines_.add(rows.products, {0, out.stride[1]});
      lines_.add(out.shape[0], {in.stride[0], out.stride[0]});
    }
  }

  void find_images(const Request& request) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    pixels_ = out.shape[1] * out.shape[2];
    if (!out_blocked_ && output_rows(out).products > 1) row_pixels_ = out.shape[2];
    c_stride_ = out_blocked_ ? sizeof(float) : out.stride[2];
    c_block_ = out.stride[1];
    lines_.add(out.shape[0], {in.stride[0], out.stride[0]});
  }

  Line find_line(const Run& run, size_t index) const {
    const Cursor<2> at(lines_, index);
    return {run.input(0) + at.offset(a_operand), run.output + at.offset(c_operand), index % lines_per_image_ * pixels_};
  }

  // Divides the work into units for the threads: tiles of pixels, and if there are too few of these, blocks of
  // channels.
  void divide(size_t tasks) {
    vectors_ = {divide_up(pixels_, row_.lanes), divide_up(pixels_, row_.pixels)};
    tiles_ = {vectors_.chunks, 1};
    blocks_ = {weights_.blocks, 1};
    const size_t products = lines_.count() * shape_.groups, wanted = wanted_chunks(tasks);
    tiles_.chunks = std::min(divide_up(wanted, products), tiles_.count);
    blocks_.chunks = std::min(divide_up(wanted, products * tiles_.chunks), blocks_.count);
    const size_t units = products * tiles_.chunks * blocks_.chunks;
    tasks_ = {units, std::min(units, wanted)};
    phases = {tasks_.chunks};

    const size_t most = std::min<size_t>(row_.pixels, round_up(pixels_, row_.lanes)), width = most * sizeof(float);
    const size_t beyond = spmm_bytes(row_) == 1 ? 3 : 0;  // rows, see TileInput
    a_bytes_ = round_up((weights_.depth + beyond) * a_stride(most), cache_line);
    // With several chunks of k, the sums of all channels must be kept from one chunk to the next.
    const size_t together = weights_.chunks > 1 ? divide_up(weights_.blocks, blocks_.chunks) : finished_blocks(row_);
    sums_end_ = a_bytes_ + together * sparse_channels * width;
    slot = sums_end_ + epilogue_.scratch_bytes(finished_blocks(row_) * sparse_channels * row_.pixels);
  }

  // ---- one tile

  // Bytes from one row of A to the next in scratch memory.
  size_t a_stride(size_t pixels) const { return round_up(spmm_a_width(row_, pixels), row_.lanes) * spmm_bytes(row_); }

  // The first pixel of a tile. All tiles are about equally long, unless a layout is pixel-blocked: then no tile may
  // cross the border of a block.
  size_t tile_begin(size_t tile) const {
    return std::min(in_blocked_ || out_blocked_ ? tile * row_.pixels : vectors_.begin(tile) * row_.lanes, pixels_);
  }

  // Returns false if the run was cancelled.
  bool run_tile(const Run& run, const Line& line, size_t group, size_t index, Span blocks, char* scratch,
                Watch* watch) const {
    const size_t m = tile_begin(index), count = tile_begin(index + 1) - m;
    const Tile tile = {line.a, line.first + m, count};
    // Rows are rounded up to whole vectors, so that they are aligned; spmm_width() may be less. A single pixel of an
    // NHWC input is a column, with one float per row.
    const bool column = count == 1 && !in_blocked_;
    const size_t stride = (column ? 1 : round_up(count, row_.lanes)) * sizeof(float);
    const size_t a_stride = column ? spmm_bytes(row_) : this->a_stride(count);
    TilePixels pixels;
    input_->find(tile, &pixels);
    for (size_t chunk = 0; chunk < weights_.chunks; ++chunk) {
      const size_t begin = chunk * weights_.depth, end = std::min(begin + weights_.depth, shape_.depth(row_.inputs));
      const TileRows a = input_->rows(tile, pixels, begin, end, scratch, a_stride);
      for (size_t block = blocks.begin; block < blocks.end; ++block) {
        if (watch->stops_here(count * (end - begin) * sparse_channels)) return false;
        const size_t at = (block - blocks.begin) % finished_blocks(row_), first = block - at,
                     n = first * sparse_channels;
        const size_t last = std::min({first + finished_blocks(row_), blocks.end}),
                     channels = std::min(last * sparse_channels, shape_.out) - n;
        char* const sums =
            scratch + a_bytes_ + (weights_.chunks == 1 ? 0 : first - blocks.begin) * sparse_channels * stride;
        const bool apart = epilogue_.in_place(run);
        const Output out = find_output({line.c + n * c_channel_, m, count, channels}, sums, stride, apart);
        multiply_sparse(row_, weights_, group, chunk, block, count, a.first, a.stride,
                        out.sums + at * sparse_channels * out.stride, out.stride,
                        kernel_epilogue_.at(group, block * sparse_channels));
        if (chunk + 1 == weights_.chunks && block + 1 == last) finish(run, out, scratch + sums_end_);
      }
    }
    return true;
  }

  // Some channels of the pixels of a tile.
  struct OutputTile {
    char* line;  // the first pixel of the line
    size_t first, count, channels;
  };

  // An OutputTile and its sums.
  struct Output {
    OutputTile tile;
    char* sums;
    size_t stride;  // from the sums of one channel to those of the next
  };

  // The address of pixel `index` of a line, for the first channel of the tile.
  char* place(const OutputTile& tile, size_t index) const {
    if (out_blocked_) return tile.line + pixel_offset(c_block_, index);
    return tile.line + index / row_pixels_ * c_block_ + index % row_pixels_ * c_stride_;
  }

  // Decides where the sums go: directly to the output if they lie there as they should, otherwise to scratch memory.
  // They also need scratch memory if the last set has more channels than the output, or if the residual is in their
  // place. Bytes are not where their sums are.
  Output find_output(const OutputTile& tile, char* sums, size_t stride, bool apart) const {
    const bool whole = tile.channels % row_.together() == 0;
    if (of_bytes(row_) || apart || !whole || (!out_blocked_ && stride != sizeof(float))) return {tile, sums, stride};
    return {tile, place(tile, tile.first), out_blocked_ ? c_channel_ : stride};
  }

  // Finishes the sums of some channels: brings them to the output and runs the epilogue.
  void finish(const Run& run, const Output& out, char* scratch) const {
    if (!out_blocked_) return finish_rows(run, out, scratch);
    const OutputTile& tile = out.tile;
    char* const c = place(tile, tile.first);
    if (epilogue_.in_place(run)) {
      return epilogue_.run(run, {out.sums, out.stride}, c, tile.channels, c_channel_, tile.count);
    }
    for (size_t i = 0; i < tile.channels && out.sums != c; ++i) {
      std::memcpy(c + i * c_channel_, out.sums + i * out.stride, tile.count * sizeof(float));
    }
    epilogue_.run(run, {c, c_channel_}, c, tile.channels, c_channel_, tile.count);
  }

  // Transposes the sums back, unless they are a column. It takes pixels that lie at equal distances in the output, up
  // to stored_pixels_ at a time.
  void finish_rows(const Run& run, const Output& out, char* scratch) const {
    const OutputTile& tile = out.tile;
    for (size_t p = 0; p < tile.count;) {
      const size_t left = row_pixels_ - (tile.first + p) % row_pixels_;
      const size_t count = std::min({stored_pixels_, tile.count - p, left});
      char* const c = place(tile, tile.first + p);
      const auto sums = epilogue_.sums(run, c, c_stride_, tile.channels, scratch);
      const char* const from = out.sums + p * sizeof(float);
      if (of_bytes(row_)) {
        store_bytes(transpose_, from, out.stride, tile.channels, count, sums.data, sums.stride);
      } else if (out.sums != c) {
        const void* rows[sparse_channels];
        for (size_t i = 0; i < tile.channels; ++i) rows[i] = from + i * out.stride;
        transpose_.run(tile.channels, count, rows, sums.data, sums.stride);
      }
      epilogue_.run(run, sums, c, count, c_stride_, tile.channels);
      p += count;
    }
  }

  const SpmmRow& row_;
  const TransposeRow& transpose_;
  Packed packed_;
  const SparseWeights& weights_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  WeightsShape shape_;
  bool in_blocked_ = false, out_blocked_;
  Shared<const TileInput> input_;
  Nest<2> lines_;
  size_t lines_per_image_ = 1;
  size_t pixels_ = 1;             // pixels of a line
  size_t row_pixels_ = SIZE_MAX;  // if a line is an NHWC image whose rows lie apart: pixels of a row
  size_t a_group_ = 0;            // bytes from one group of the input to the next
  size_t c_channel_ = 0, c_stride_ = 0, c_block_ = 0;  // bytes from one channel, pixel, block of the output to the next
  Split vectors_;                                      // divides the vectors of pixels of a line into tiles
  Split tiles_, blocks_, tasks_;
  size_t a_bytes_ = 0, sums_end_ = 0;  // scratch: bytes of A, and where the sums end
  size_t stored_pixels_ = 1;           // pixels that are transposed back at a time
};

// Do the output channels fill no more than half of a vector? Dense kernels then waste the rest of it, where vectors of
// sparse kernels are full of pixels. Not for windows with a stride: gathering their pixels takes longer than is expected.
// Trimmed builds have sparse kernels for layers with zeros alone. Vectors of ARM are so short that few layers are narrow.
bool is_narrow(const Problem& p, const SpmmRow& row) {
  if (!QN_ARCH_X86_64 || trimmed || of_bytes(row) || p.groups > 1 ||
      2 * static_cast<double>(p.out) > level_of(row).lanes)
    return false;
  return p.pixels >= row.pixels && (p.pointwise || sparse_band(p, row).fits());
}

}  // namespace

// Weights without zeros are no reason to choose sparse, unless it is asked for, no other algorithm takes the layouts, or
// the layer is narrow. If a dense algorithm is asked for, nobody has counted zeros, and sparse does not apply.
void sparse_algorithm::candidates(const Problem& p, Candidates* all) {
  if (p.density == nullptr || p.density->elements > max_elements) return;
  all->add_rows(id, spmm_rows(), [&](const SpmmRow& row) {
    if (all->asked != id && !p.blocked() && !has_zeros(p) && !is_narrow(p, row)) return Candidates::never;
    const bool full = of_bytes(row) || all->kernel != nullptr || mostly_full(*p.density, row.block);
    const bool fits = full && layouts_fit(p, row);
    return fits ? cycles_of(p, row) : Candidates::never;
  });
}

bool sparse_algorithm::knows(std::string_view kernel) { return has_row(spmm_rows(), kernel); }

PlanPointer sparse_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  const SparseBand band = sparse_band(conv.problem, choice.as<SpmmRow>());
  if (band.fits()) return plan_sparse_band(conv, choice.as<SpmmRow>(), band);
  return make_plan<SparsePlan>(conv, choice);
}

}  // namespace quern
