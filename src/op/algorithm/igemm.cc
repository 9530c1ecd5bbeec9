// igemm: the kernel finds the rows of the matrix through a table of offsets. All images and groups share the table.
//
// With few input channels the kernel would spend most of its time on the table. Therefore, if the taps of one kernel
// row lie side by side in memory, the plan joins them into one wide tap with more channels: 3x3 taps of 3 floats become
// 3 taps of 9. At the left and right edge of the image some of the joined taps would be padding, so the output columns
// there form parts of their own.
//
// These parts have single taps, which read the same panels. So single taps must fill whole groups of successive k (KR
// of igemm.h); otherwise none are joined.
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

// How the output pixels of a part are divided into lines. Each line is a product; all lines have the same size.
enum class Order {
  image,    // the part is the whole image: one line if all pixels lie at equal distances, otherwise a line per row
  rows,     // a line is a row of the part
  columns,  // a line is a column of the part
};

// A part of the output: columns x .. x + width - 1.
struct Part {
  Order order = Order::image;
  size_t x = 0, width = 0;
  bool wide_taps = false;  // the taps of each kernel row are joined into one
  size_t lines = 0, pixels = 0;
  Tiling tiling = {};
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
      const auto [begin, end] = columns_inside(columns);
      const size_t width = columns.out;
      const Order order = end - begin == width ? Order::image : Order::rows;
      if (begin < end) add_part(conv, {.order = order, .x = begin, .width = end - begin, .wide_taps = true});
      if (begin > 0) add_part(conv, {.order = Order::columns, .x = 0, .width = begin, .wide_taps = false});
      if (end < width) add_part(conv, {.order = Order::columns, .x = end, .width = width - end, .wide_taps = false});
    } else {
      add_part(conv, {.order = Order::image, .x = 0, .width = conv.window.w.out, .wide_taps = false});
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
  // The number of tiles in a line.
  size_t tiles(const Part& part) const { return divide_up(part.pixels, part.tiling.rows()); }

  void run_part(const Run& run, const Part& part, size_t index, char* scratch) const {
    const size_t in_bytes = shape_.in * input_bytes(row_.type), out_bytes = shape_.out * output_bytes(row_.type);
    const size_t tap_bytes = part.wide_taps ? shape_.kernel.w * in_bytes : in_bytes;
    const size_t c_stride = part.order == Order::columns ? out_.stride[1] : out_.stride[2];
    const size_t line_stride = part.order == Order::columns ? out_.stride[2] : out_.stride[1];
    part.tiling.run(index, [&](size_t product, size_t begin, size_t end, size_t n, size_t channels) {
      const size_t group = product % shape_.groups, line = product / shape_.groups % part.lines;
      const size_t image = product / shape_.groups / part.lines;
      const char* const a = run.input(0) + image * in_.stride[0] + group * in_bytes;
      char* const c_begin = run.output + image * out_.stride[0] + part.x * out_.stride[2] + line * line_stride +
                            group * out_bytes + n * output_bytes(row_.type);
      const char* const panels = packed_->panels(group) + n / row_.nr * packed_->panel_bytes;
      const void* const epilogue = kernel_epilogue_.at(group, n);
      const size_t tile_entries = taps(part) * row_.mr;
      part.tiling.tiles(begin, end, [&](size_t m, size_t rows) {
        char* const c = c_begin + m * c_stride;
        const auto sums = epilogue_.sums(run, c, c_stride, channels, scratch);
        const int32_t* const table = part.table.data() + (line * tiles(part) + m / part.tiling.rows()) * tile_entries;
        row_.run(rows, channels, tap_bytes, taps(part), table, a, zero_.data(), panels, sums.data, sums.stride,
                 epilogue);
        epilogue_.run(run, sums, c, rows, c_stride, channels);
      });
    });
  }

  void add_part(const ConvRequest& conv, Part part) {
    const Rows joined = output_rows(out_);
    const size_t height = out_.shape[1];
    part.lines = part.order == Order::image ? joined.products : part.order == Order::rows ? height : part.width;
    part.pixels = part.order == Order::image ? joined.count : part.order == Order::rows ? part.width : height;
    part.tiling = Tiling({.count = out_.shape[0] * part.lines * shape_.groups,
                          .m = part.pixels,
                          .n = shape_.out,
                          .mr = row_.mr,
                          .nr = row_.nr,
                          .row_bytes = shape_.depth() * input_bytes(row_.type),
                          .panel_bytes = packed_->panel_bytes},
                         conv.request.options.tasks);
    build_table(conv.window, &part);
    parts_.push_back(std::move(part));
  }

  // Fills the table: tile by tile, in each tile tap by tap, and for each tap row by row of the tile.
  void build_table(const Window& window, Part* part) const {
    const size_t tile_entries = taps(*part) * row_.mr, rows = part->tiling.rows();
    part->table.resize(part->lines * tiles(*part) * tile_entries, -1);
    for (size_t line = 0; line < part->lines; ++line) {
      for (size_t m = 0; m < part->pixels; ++m) {
        const size_t pixel = line * part->pixels + m;
        const size_t y = part->order == Order::image ? pixel / window.w.out : part->order == Order::rows ? line : m;
        const size_t x = part->order == Order::image  ? pixel % window.w.out
                         : part->order == Order::rows ? part->x + m
                                                      : part->x + line;
        int32_t* entry = part->table.data() + (line * tiles(*part) + m / rows) * tile_entries + m % rows;
        for (size_t ky = 0; ky < window.h.kernel; ++ky) {
          for (size_t kx = 0; kx < (part->wide_taps ? 1 : window.w.kernel); ++kx, entry += row_.mr) {
            *entry = window.offset(window.h.at(y, ky), window.w.at(x, kx));
          }
        }
      }
    }
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
