// igemm: the kernel finds the rows of the matrix through a table of offsets. All images and groups share the table.
//
// With few input channels the kernel would spend most of its time on the table. Therefore, if the taps of one kernel
// row lie side by side in memory, the plan joins them into one wide tap with more channels: 3x3 taps of 3 floats become
// 3 taps of 9. At the left and right edge of the image some of the joined taps would be padding, so the output columns
// there form parts of their own.
//
// These parts have single taps, which read the same panels. So single taps must fill whole groups of successive k (KR
// of igemm.h); otherwise none are joined.
//
// Some kernels leave out taps that lie in the padding of all rows of a tile, where padding adds nothing. Then tiles of
// the top and the bottom row have fewer taps, and so have those of the columns at the edges if these are parts of their
// own: of 3x3 taps of a 7x7 image a sixth is left out.
#include "base/math.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"
#include "op/core/tiling.h"

namespace quern {
namespace {

// Are taps joined, if those of a kernel row lie side by side? A single one, of `in` channels, must fill whole groups of
// successive k.
bool joins_taps(const IgemmRow& row, size_t in) {
  return in <= few_channels && (!has_integers || in % row.panel.kr == 0);
}

// ---- cost

double cycles(const Problem& p, const IgemmRow& row) {
  const bool joined = p.contiguous && joins_taps(row, p.in);
  const size_t taps = joined ? p.kernel.h : p.taps();
  const ProductTile tile(row);
  return tiles_cycles(p, tile, static_cast<double>(taps) * tile.steps(joined ? p.in * p.kernel.w : p.in),
                      static_cast<double>(taps * row.mr) * machine().tap_cycles);
}

// ---- plan

// How the output pixels of a part are divided into lines, all of the same size. A tile lies in one line.
enum class Order {
  image,    // the part is the whole image: one line if all pixels lie at equal distances, otherwise a line per row
  rows,     // a line is a row of the part
  columns,  // a line is a column of the part
};

// A part of the output: columns x .. x + width - 1.
struct Part {
  Order order = Order::image;
  size_t x = 0, width = 0;
  bool wide_taps = false;        // the taps of each kernel row are joined into one
  size_t lines = 0, pixels = 0;  // pixels: of a line
  size_t tiles = 0, rows = 0;    // tiles of a line, and rows of each but the last one
  Tiling tiling = {};            // its rows are those of all tiles as if all had as many
  Vector<int32_t> table = {};
};

class IgemmPlan final : public qn_plan {
 public:
  IgemmPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<IgemmRow>()),
        packed_(conv.pack(Packing::tap_panels, row_)),
        kernel_epilogue_(row_, conv.numbers()),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        zero_(row_.type, shape_.in * shape_.kernel.w, static_cast<int8_t>(conv.input_zero())) {
    const Axis& columns = conv.window.w;
    if (columns.kernel > 1 && conv.problem.contiguous && joins_taps(row_, shape_.in)) {
      add_three(conv, true);
    } else {
      add_part(conv, {.order = Order::image, .x = 0, .width = conv.window.w.out, .wide_taps = false});
      if (may_leave_out(conv)) split_if_less(conv);
    }
    phases = {0};
    for (const Part& part : parts_) {
      phases[0] += part.tiling.tasks();
      slot = std::max(slot, epilogue_.scratch_bytes(part.tiling.tile_elements()));
    }
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* const scratch = run.workspace + index * slot;
    const Part* part = parts_.data();
    for (; index >= part->tiling.tasks(); ++part) index -= part->tiling.tasks();
    run_part(run, *part, index, scratch);
  }

 private:
  size_t taps(const Part& part) const { return part.wide_taps ? shape_.kernel.h : shape_.taps(); }

  void run_part(const Run& run, const Part& part, size_t index, char* scratch) const {
    const size_t in_bytes = shape_.in * input_bytes(row_.type), out_bytes = shape_.out * output_bytes(row_.type);
    const size_t tap_bytes = part.wide_taps ? shape_.kernel.w * in_bytes : in_bytes;
    const size_t c_stride = part.order == Order::columns ? out_.stride[1] : out_.stride[2];
    const size_t line_stride = part.order == Order::columns ? out_.stride[2] : out_.stride[1];
    part.tiling.run(run.parallel, index, [&](size_t product, size_t begin, size_t end, size_t n, size_t channels) {
      const size_t group = product % shape_.groups, image = product / shape_.groups;
      const char* const a = run.input(0) + image * in_.stride[0] + group * in_bytes;
      char* const c_begin = run.output + image * out_.stride[0] + part.x * out_.stride[2] + group * out_bytes +
                            n * output_bytes(row_.type);
      const char* const panels = packed_->panels(group) + n / row_.nr * packed_->panel_bytes;
      const void* const epilogue = kernel_epilogue_.at(group, n);
      const size_t tile_entries = taps(part) * row_.mr;
      part.tiling.tiles(begin, end, [&](size_t m, size_t) {
        const size_t tile = m / part.rows, pixel = tile % part.tiles * part.rows;
        const size_t rows = std::min(part.rows, part.pixels - pixel);
        char* const c = c_begin + tile / part.tiles * line_stride + pixel * c_stride;
        const auto sums = epilogue_.sums(run, c, c_stride, channels, scratch);
        const int32_t* const table = part.table.data() + tile * tile_entries;
        row_.run(rows, channels, tap_bytes, taps(part), table, a, zero_.data(), panels, sums.data, sums.stride,
                 epilogue);
        epilogue_.run(run, sums, c, rows, c_stride, channels);
      });
    });
  }

  // Adds the columns whose taps all lie inside the image, and the columns left and right of them, as parts.
  void add_three(const ConvRequest& conv, bool wide_taps) {
    const auto [begin, end] = columns_inside(conv.window.w);
    const size_t width = conv.window.w.out;
    const Order order = end - begin == width ? Order::image : Order::rows;
    if (begin < end) add_part(conv, {.order = order, .x = begin, .width = end - begin, .wide_taps = wide_taps});
    if (begin > 0) add_part(conv, {.order = Order::columns, .x = 0, .width = begin, .wide_taps = false});
    if (end < width) add_part(conv, {.order = Order::columns, .x = end, .width = width - end, .wide_taps = false});
  }

  void add_part(const ConvRequest& conv, Part part) {
    const Rows joined = output_rows(out_);
    const size_t height = out_.shape[1];
    part.lines = part.order == Order::image ? joined.products : part.order == Order::rows ? height : part.width;
    part.pixels = part.order == Order::image ? joined.count : part.order == Order::rows ? part.width : height;
    part.tiles = divide_up(part.pixels, row_.mr);
    part.rows = divide_up(part.pixels, part.tiles);
    const size_t together = panels_of_line(row_.type, row_.nr, conv.request.options.tasks);
    part.tiling = Tiling({.count = out_.shape[0] * shape_.groups,
                          .m = part.lines * part.tiles * part.rows,
                          .n = shape_.out,
                          .mr = part.rows,
                          .nr = row_.nr * together,
                          .row_bytes = shape_.depth() * input_bytes(row_.type),
                          .panel_bytes = packed_->panel_bytes * together},
                         conv.request.options.tasks);
    build_table(conv.window, &part);
    if (may_leave_out(conv)) leave_out_taps(&part);
    parts_.push_back(std::move(part));
  }

  // Fills the table: tile by tile, in each tile tap by tap, and for each tap row by row of the tile.
  void build_table(const Window& window, Part* part) const {
    const size_t tile_entries = taps(*part) * row_.mr;
    part->table.resize(part->lines * part->tiles * tile_entries, -1);
    for (size_t line = 0; line < part->lines; ++line) {
      for (size_t m = 0; m < part->pixels; ++m) {
        const size_t pixel = line * part->pixels + m;
        const size_t y = part->order == Order::image ? pixel / window.w.out : part->order == Order::rows ? line : m;
        const size_t x = part->order == Order::image  ? pixel % window.w.out
                         : part->order == Order::rows ? part->x + m
                                                      : part->x + line;
        int32_t* entry = part->table.data() + (line * part->tiles + m / part->rows) * tile_entries + m % part->rows;
        for (size_t ky = 0; ky < window.h.kernel; ++ky) {
          for (size_t kx = 0; kx < (part->wide_taps ? 1 : window.w.kernel); ++kx, entry += row_.mr) {
            *entry = window.offset(window.h.at(y, ky), window.w.at(x, kx));
          }
        }
      }
    }
  }

  // ---- padding

  // Does padding add nothing to sums, so that taps of padding alone may be left out?
  bool may_leave_out(const ConvRequest& conv) const {
    return has_integers && has_plus_128 && row_.panel.plus_128 && conv.input_zero() == -128;
  }

  // Marks the taps that lie in the padding of all rows of a tile. (Entries of rows that it does not have are negative.)
  void leave_out_taps(Part* part) const {
    for (size_t at = 0; at < part->table.size(); at += row_.mr) {
      int32_t* const tap = &part->table[at];
      if (std::all_of(tap, tap + row_.mr, [](int32_t offset) { return offset < 0; })) *tap = tap_left_out;
    }
  }

  // The time for all tiles of the parts, in times for a row and a tap.
  double row_taps() const {
    constexpr double of_a_tile = 0.5;  // for what the rows of a tile share
    double sum = 0;
    for (const Part& part : parts_) {
      const auto all = static_cast<double>(part.table.size() / row_.mr);
      double left_out = 0;
      for (size_t at = 0; at < part.table.size(); at += row_.mr) left_out += part.table[at] == tap_left_out;
      sum += (all - left_out) * (static_cast<double>(part.rows) + of_a_tile);
    }
    return sum;
  }

  // Makes parts of the columns at the edges, if the taps that are then left out save more than the smaller tiles cost.
  void split_if_less(const ConvRequest& conv) {
    const auto [begin, end] = columns_inside(conv.window.w);
    const size_t inner = end - begin, width = out_.shape[2], height = out_.shape[1];
    const size_t entries =
        (height * round_up(inner, row_.mr) + (width - inner) * round_up(height, row_.mr)) * shape_.taps();
    if (inner == width || entries > max_table_bytes / sizeof(int32_t)) return;
    const double whole = row_taps();
    Vector<Part> kept = std::move(parts_);
    parts_.clear();
    add_three(conv, false);
    if (row_taps() >= whole) parts_ = std::move(kept);
  }

  const IgemmRow& row_;
  Packed packed_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  WeightsShape shape_;
  qn_tensor in_, out_;
  Padding zero_;
  Vector<Part> parts_;
};

}  // namespace

void igemm_algorithm::candidates(const Problem& p, Candidates* all) {
  if (p.matrix || p.blocked() || !p.offsets_fit || !table_fits(p, sizeof(int32_t))) return;
  all->add_rows(id, igemm_rows(), [&](const IgemmRow& row) { return cycles(p, row); });
}

bool igemm_algorithm::knows(std::string_view kernel) { return has_row(igemm_rows(), kernel); }

PlanPointer igemm_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  return make_plan<IgemmPlan>(conv, choice);
}

}  // namespace quern
