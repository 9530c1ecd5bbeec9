// winograd: transforms tiles of the image, multiplies them point by point as matrices, and transforms the products
// back.
//
// A task goes through blocks of tiles. Its scratch memory holds all transformed inputs of a block, but the products of
// only a few panels of output channels at a time, so that both stay in the L2 cache. The weights are read once per
// block; for each panel the weights of all points lie one after the other, in the order in which they are read.
//
// If m does not divide the size of the image, the last tiles have fewer outputs and lack some of the points. Tiles are
// numbered so that the tiles that have a point always follow each other, as the rows of one matrix:
//
//     A A A B      A  whole tiles                    C A B D: for points that both low and narrow tiles have
//     A A A B      B  narrow, one in each row        C A      for points that low, but not narrow tiles have
//     C C C D      C  low, one in each column          A B    for points that narrow, but not low tiles have
//                  D  the corner: low and narrow       A      for all other points
#include <cmath>

#include "base/cpu.h"
#include "base/math.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"

namespace quern {
namespace {

constexpr size_t max_calls = 2;  // calls of gemm for a block of tiles

// ---- when it applies

constexpr size_t max_panel = 64;  // the most channels of a panel

// May this row be chosen? If the user asked for it by name, the limits for memory and errors do not count.
bool fits(const Problem& p, const WinogradRow& row, bool by_name) {
  if (p.kernel.h != 3 || p.kernel.w != 3 || !p.undilated || p.groups != 1) return false;
  size_t bytes;
  if (!checked_mul(p.in + 1, round_up(p.out, max_panel), &bytes) ||
      !checked_mul(bytes, row.points() * sizeof(float), &bytes)) {
    return false;
  }
  return by_name || (bytes <= max_transformed_bytes && winograd_error(row.outputs, p.in) <= max_winograd_error);
}

// The level of the gemm for the products. It is the level of the transforms, but on 32-bit ARM the NEON transforms also
// go with the gemm with FMA, if the CPU has that.
uint32_t level_of_products(const WinogradRow& row) {
  return row.isa == isa_neon && (cpu().isa & isa_neonfma) != 0 ? uint32_t{isa_neonfma} : row.isa;
}

// ---- cost

// Cycles of the products at one point, for this many tiles. The kernels read all weights once per block of tiles. For
// the first block the weights come from where the other layers of a model have left them.
double point_cycles(const Problem& p, const GemmRow& gemm, size_t tiles, double first_bytes, double again_bytes) {
  const MachineRow& m = machine();
  const size_t calls = divide_up(tiles, gemm.mr), rows = divide_up(tiles, calls), panels = divide_up(p.out, gemm.nr);
  const size_t blocks = divide_up(calls, max_calls);
  const double step = step_cycles(gemm, rows, gemm.nr);
  const double steps = std::max(step, arrival(gemm, first_bytes)) +
                       static_cast<double>(blocks - 1) * std::max(step, arrival(gemm, again_bytes)) +
                       static_cast<double>(calls - blocks) * step;
  const double call = static_cast<double>(rows * gemm.nr) / level_of(gemm).lanes +
                      m.call_cycles * static_cast<double>(divide_up(rows, ProductTile(gemm).mr));
  return static_cast<double>(panels) * (static_cast<double>(p.in) * steps + static_cast<double>(calls) * call);
}

// Cycles of the transforms and the products.
double cycles_of(const Problem& p, const WinogradRow& row, const GemmRow& gemm) {
  const MachineRow& m = machine();
  const double lanes = level_of(row).lanes;
  const double vectors = std::ceil(static_cast<double>(p.in) / lanes) + std::ceil(static_cast<double>(p.out) / lanes);
  const bool far = p.height * p.width * p.images * (p.in + p.out) * sizeof(float) > cpu().l2_bytes;
  const double transform =
      (far ? m.far_transform_cycles : m.transform_cycles) * (row.outputs == 6 ? m.six_transform : 1);
  const double per_vector = vectors * transform;
  const double bytes = static_cast<double>(row.points() * round_up(p.out, gemm.nr) * (p.in + 1) * sizeof(float));
  const double first_bytes = far_weights(p, bytes) ? m.interrupted_bytes : m.l3_bytes;
  const double again_bytes = bytes < m.cached_bytes ? m.l3_bytes : m.interrupted_bytes;

  // The number of points along a direction that the last, smaller tile has, or that it lacks.
  const WinogradCut h(row.outputs, p.height), w(row.outputs, p.width);
  const auto points = [&](const WinogradCut& cut, bool last) {
    const size_t common = cut.rest == 0 ? row.inputs() : std::min(cut.rest + 2, row.inputs());
    return last ? common : row.inputs() - common;
  };
  double cycles = static_cast<double>(h.tiles() * w.tiles() * p.images) * 2 * m.call_cycles;
  for (const bool low : {false, true}) {
    for (const bool narrow : {false, true}) {
      const size_t tiles = (low ? h.tiles() : h.whole) * (narrow ? w.tiles() : w.whole) * p.images;
      const auto count = static_cast<double>(points(h, low) * points(w, narrow));
      if (count == 0 || tiles == 0) continue;
      cycles +=
          count * (static_cast<double>(tiles) * per_vector + point_cycles(p, gemm, tiles, first_bytes, again_bytes));
    }
  }
  return cycles;
}

// ---- plan

// Images of more than this many times the L2 cache are prefetched. Smaller ones arrive in time, and prefetching takes
// time, too.
constexpr size_t far_caches = 4;

constexpr qn_minmax_f32 no_clamp = {-__builtin_inff(), __builtin_inff()};

Packing packing_of(const WinogradRow& row) {
  return row.outputs == 2 ? Packing::winograd2 : row.outputs == 4 ? Packing::winograd4 : Packing::winograd6;
}

struct Range {
  size_t begin, end;
};

// A tile: the image that it belongs to, its first output pixel, and the number of its rows and columns of outputs.
struct Tile {
  size_t image, y, x, rows, columns;
};

// The tiles of all images, numbered as at the top of this file.
class Tiles {
 public:
  Tiles(size_t outputs, size_t images, const Window& window)
      : outputs_(outputs), images_(images), h_(outputs, window.h.out), w_(outputs, window.w.out) {}

  size_t count() const { return images_ * h_.tiles() * w_.tiles(); }

  Tile at(size_t index) const {
    for (const auto& [low, narrow] : {Part{true, false}, Part{false, false}, Part{false, true}}) {
      if (index < size(low, narrow)) return at(low, narrow, index);
      index -= size(low, narrow);
    }
    return at(true, true, index);
  }

  // Do low tiles have the points of the i-th row, and narrow tiles those of the j-th column?
  bool low_have(size_t i) const { return winograd_has(outputs_, h_.rest, i); }
  bool narrow_have(size_t j) const { return winograd_has(outputs_, w_.rest, j); }
  // The tiles that have a point, if low tiles have it or not, and if narrow tiles have it or not.
  Range with(bool low, bool narrow) const {
    const size_t whole = size(true, false), after = whole + size(false, false);
    return {low ? 0 : whole, narrow ? after + size(false, true) + (low ? size(true, true) : 0) : after};
  }

 private:
  struct Part {
    bool low, narrow;
  };
  size_t size(bool low, bool narrow) const { return images_ * h_.tiles(low) * w_.tiles(narrow); }
  Tile at(bool low, bool narrow, size_t index) const {
    const size_t columns = w_.tiles(narrow), rows = h_.tiles(low);
    const size_t y = low ? h_.whole : index / columns % rows, x = narrow ? w_.whole : index % columns;
    return {index / columns / rows, y * outputs_, x * outputs_, low ? h_.rest : outputs_, narrow ? w_.rest : outputs_};
  }

  size_t outputs_, images_;
  WinogradCut h_, w_;
};

class WinogradPlan final : public qn_plan {
 public:
  WinogradPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<WinogradRow>()),
        gemm_(static_cast<const GemmRow&>(*choice.products)),
        packed_(conv.weights.pack(packing_of(row_), gemm_)),
        clamp_(conv.clamp),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        window_(conv.window),
        bias_(conv.weights.float_bias()),
        zero_(shape_.in),
        tiles_(row_.outputs, out_.shape[0], window_),
        far_(qn_tensor_bytes(&in_) + qn_tensor_bytes(&out_) > far_caches * cpu().l2_bytes) {
    split_work(conv.request.options.tasks);
    v_row_ = spread(shape_.in * sizeof(float));
    v_plane_ = spread(block() * v_row_);
    m_row_ = spread(chunk_ * gemm_.nr * sizeof(float));
    m_plane_ = spread(block() * m_row_);
    const size_t outputs = row_.outputs * row_.outputs * chunk_ * gemm_.nr;
    slot = row_.points() * (v_plane_ + m_plane_) + epilogue_.scratch_bytes(outputs);
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* v = run.workspace + index * slot;
    char* m = v + row_.points() * v_plane_;
    const size_t work = row_.points() * block() * chunk_ * gemm_.nr * shape_.in;
    Watch watch(run);
    size_t present = blocks_.chunks;  // the block whose inputs are transformed
    for (size_t unit = tasks_.begin(index); unit < tasks_.end(index); ++unit) {
      const size_t block = unit / panels_.chunks, part = unit % panels_.chunks;
      if (block != present) transform_inputs(run, block, v);
      present = block;
      for (size_t panel = panels_.begin(part); panel < panels_.end(part); panel += chunk_) {
        if (watch.stops(work)) return;
        const size_t end = std::min(panel + chunk_, panels_.end(part));
        multiply(block, panel, end, v, m);
        transform_outputs(run, block, panel, end, m, m + row_.points() * m_plane_);
      }
    }
  }

 private:
  // The part of a tile's inputs along one axis that is inside the image.
  struct Inside {
    size_t begin, end;
    size_t first;  // begin's place in the image
  };

  void split_work(size_t tasks);
  size_t block() const { return divide_up(blocks_.count, blocks_.chunks); }  // tiles of the largest block

  // The calls of gemm for the rows of a point's matrix. All calls have about the same number of rows, because a short
  // last call would take as long as a longer one.
  struct Calls {
    size_t first, count, each, longer;  // the first `longer` calls have each + 1 rows, the others have `each`
  };
  Calls calls_of(size_t block, bool low, bool narrow) const {
    const Range range = tiles_.with(low, narrow);
    const size_t begin = blocks_.begin(block), end = blocks_.end(block);
    const size_t first = std::clamp(range.begin, begin, end), rows = std::clamp(range.end, begin, end) - first;
    const size_t count = divide_up(rows, gemm_.mr);
    return count == 0 ? Calls{} : Calls{first - begin, count, rows / count, rows % count};
  }
  static Inside inside(const Axis& axis, size_t place, size_t inputs) {
    const size_t begin = place >= axis.before ? 0 : std::min(axis.before - place, inputs);
    const size_t first = place + begin - std::min(axis.before, place + begin);
    const size_t rest = axis.in - std::min(axis.in, first);
    return {begin, begin + std::min(rest, inputs - begin), first};
  }

  // A rectangle of pixels of a tensor, with all or some of their channels.
  struct Pixels {
    size_t first;  // bytes from the beginning of the tensor
    size_t rows, columns, row_stride, pixel_stride, bytes;
  };
  // Prefetches the pixels of the next tile. It must be inlined: GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] static void fetch(const char* tensor, const Pixels& pixels) {
    for (size_t y = 0; y < pixels.rows; ++y) {
      for (size_t x = 0; x < pixels.columns; ++x) {
        const char* pixel = tensor + pixels.first + y * pixels.row_stride + x * pixels.pixel_stride;
        for (size_t byte = 0; byte < pixels.bytes; byte += cache_line) __builtin_prefetch(pixel + byte);
      }
    }
  }

  // The input pixels that a tile reads. Sets `part` to the part of the tile's inputs that they are.
  Pixels input_of(size_t index, qn_winograd_tile* part) const {
    const Tile tile = tiles_.at(index);
    const Inside h = inside(window_.h, tile.y, tile.rows + 2), w = inside(window_.w, tile.x, tile.columns + 2);
    *part = {tile.rows, tile.columns, h.begin, h.end, w.begin, w.end};
    const size_t rows = h.end - h.begin, columns = w.end - w.begin;
    const bool any = rows > 0 && columns > 0;
    const size_t first = any ? h.first * window_.row_stride + w.first * window_.pixel_stride : 0;
    return {tile.image * in_.stride[0] + first, rows, columns, window_.row_stride, window_.pixel_stride,
            shape_.in * sizeof(float)};
  }
  // The output pixels of a tile, with `channels` channels from channel n on.
  Pixels output_of(size_t index, size_t n, size_t channels) const {
    const Tile tile = tiles_.at(index);
    return {tile.image * out_.stride[0] + tile.y * out_.stride[1] + tile.x * out_.stride[2] + n * sizeof(float),
            tile.rows,
            tile.columns,
            out_.stride[1],
            out_.stride[2],
            channels * sizeof(float)};
  }

  void transform_inputs(const Run& run, size_t block, char* v) const {
    const size_t end = blocks_.end(block);
    for (size_t i = blocks_.begin(block); i < end; ++i, v += v_row_) {
      qn_winograd_tile part;
      if (far_ && i + 1 < end) fetch(run.input(0), input_of(i + 1, &part));
      const Pixels a = input_of(i, &part);
      row_.input(shape_.in, run.input(0) + a.first, a.row_stride, a.pixel_stride, &part, zero_.data(), v, v_plane_);
    }
  }

  // Computes the products of panels begin .. end-1.
  void multiply(size_t block, size_t begin, size_t end, const char* v, char* m) const {
    const Calls calls[2][2] = {{calls_of(block, false, false), calls_of(block, false, true)},
                               {calls_of(block, true, false), calls_of(block, true, true)}};
    for (size_t panel = begin; panel < end; ++panel) {
      const char* weights = packed_->panels(0) + panel * row_.points() * packed_->panel_bytes;
      const size_t channels = std::min<size_t>(gemm_.nr, shape_.out - panel * gemm_.nr);
      const char* from = v;
      char* to = m + (panel - begin) * gemm_.nr * sizeof(float);
      for (size_t i = 0; i < row_.inputs(); ++i) {
        for (size_t j = 0; j < row_.inputs(); ++j) {
          multiply_point(calls[tiles_.low_have(i)][tiles_.narrow_have(j)], channels, from, weights, to);
          weights += packed_->panel_bytes;
          from += v_plane_;
          to += m_plane_;
        }
      }
    }
  }
  void multiply_point(const Calls& calls, size_t channels, const char* v, const char* weights, char* m) const {
    for (size_t call = 0, row = calls.first; call < calls.count; ++call) {
      const size_t rows = calls.each + (call < calls.longer ? 1 : 0);
      gemm_.run(rows, channels, shape_.in * sizeof(float), v + row * v_row_, v_row_, weights, m + row * m_row_, m_row_,
                &no_clamp);
      row += rows;
    }
  }

  void transform_outputs(const Run& run, size_t block, size_t begin, size_t end, const char* m, char* scratch) const {
    const size_t n = begin * gemm_.nr, channels = std::min(end * gemm_.nr, shape_.out) - n, last = blocks_.end(block);
    for (size_t i = blocks_.begin(block); i < last; ++i, m += m_row_) {
      if (far_ && i + 1 < last) fetch(run.output, output_of(i + 1, n, channels));
      const Pixels out = output_of(i, n, channels);
      char* c = run.output + out.first;
      auto sums = epilogue_.sums(run, c, out.pixel_stride, channels, scratch);
      const size_t sums_row = sums.data == c ? out.row_stride : out.columns * sums.stride;
      row_.output(channels, m, m_plane_, bias_.data() + n, sums.data, sums_row, sums.stride, out.rows, out.columns,
                  &clamp_);
      for (size_t y = 0; y < out.rows; ++y, c += out.row_stride, sums.data += sums_row) {
        epilogue_.run(run, sums, c, out.columns, out.pixel_stride, channels);
      }
    }
  }

  const WinogradRow& row_;
  const GemmRow& gemm_;
  Packed packed_;
  qn_minmax_f32 clamp_;
  Epilogue epilogue_;
  WeightsShape shape_;
  qn_tensor in_, out_;
  Window window_;
  Vector<float> bias_, zero_;
  Tiles tiles_;   // the tiles of all images
  bool far_;      // are the images much larger than the L2 cache?
  Split blocks_;  // divides the tiles into blocks
  Split panels_;  // divides the panels of output channels into parts, if there are few blocks
  Split tasks_;   // divides the units among tasks; a unit is a block and a part of the panels
  size_t chunk_;  // panels whose products lie in scratch memory at the same time
  // Bytes from one tile to the next and from one point to the next: transformed inputs (v), products (m).
  size_t v_row_, v_plane_, m_row_, m_plane_;
};

void WinogradPlan::split_work(size_t tasks) {
  const size_t wanted = wanted_chunks(tasks), half_l2 = cpu().l2_bytes / 2;
  // A block has as many tiles as a few calls of gemm take, if the cache has room for them: with large blocks the
  // weights are read less often. More threads get smaller blocks, if possible the same number each, but not blocks of
  // so few tiles that the weights arrive too slowly.
  constexpr size_t min_tiles = 10;
  const size_t count = tiles_.count();
  const size_t fit = half_l2 / (row_.points() * spread(shape_.in * sizeof(float)));
  const size_t large = std::clamp<size_t>(fit / gemm_.mr, 1, max_calls) * gemm_.mr;
  size_t blocks = std::max(divide_up(count, large), std::min(wanted, count / min_tiles));
  if (blocks > tasks) blocks = std::min(round_up(blocks, tasks), count);
  blocks_ = {count, blocks};
  // Each part of the panels transforms the inputs again, so there are no more parts than the threads need.
  panels_ = {divide_up(shape_.out, gemm_.nr), 1};
  panels_.chunks = std::min(panels_.count, divide_up(tasks, std::min(blocks_.chunks, tasks)));
  const size_t units = blocks_.chunks * panels_.chunks;
  tasks_ = {units, std::min(units, wanted)};
  phases = {tasks_.chunks};

  const size_t panel_products = row_.points() * block() * gemm_.nr * sizeof(float);
  chunk_ = std::clamp<size_t>(half_l2 / 4 / panel_products, 1, panels_.count);
}

}  // namespace

// The error grows like that of any long sum: with the square root of its length.
double winograd_error(size_t outputs, size_t channels) {
  const double per_root = outputs == 2 ? 1e-7 : outputs == 4 ? 3e-7 : 2e-6;
  return per_root * std::sqrt(static_cast<double>(std::max<size_t>(channels, 16)));
}

// Each row of winograd is combined with the row of gemm that makes it the cheapest.
void winograd_algorithm::candidates(const Problem& p, Candidates* all) {
  if (p.blocked()) return;
  for (const WinogradRow& row : winograd_rows()) {
    if (!all->allows(row, all->kernel) || !fits(p, row, all->kernel != nullptr)) continue;
    Choice choice = {id, 0, &row, nullptr, Candidates::never};
    for (const GemmRow& gemm : gemm_rows()) {
      if (gemm.isa != level_of_products(row) || !all->allows(gemm, nullptr)) continue;
      const double cycles = cycles_of(p, row, gemm);
      if (cycles < choice.cycles) choice.products = &gemm, choice.cycles = cycles;
    }
    if (choice.products != nullptr) all->add(choice);
  }
}

bool winograd_algorithm::knows(std::string_view kernel) { return has_row(winograd_rows(), kernel); }

PlanPointer winograd_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  return make_plan<WinogradPlan>(conv, choice);
}

}  // namespace quern
