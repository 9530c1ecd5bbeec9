// depthwise: every channel is convolved with weights of its own.
#include "base/cpu.h"
#include "base/math.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"
#include "op/pixels/plane.h"

namespace quern {
namespace {

// The tables of depthwise kernels, as Choice::table numbers them.
enum Table { rows, tiles, planes, images };

// ---- when the rows of a table apply

bool tile_fits(const Problem& p, const DwconvTileRow& row) {
  const auto along = [&](const Axis& axis) {
    return axis.kernel == row.kernel && axis.stride == row.stride && axis.dilation == 1;
  };
  return along(p.window->h) && along(p.window->w) && row_tables_fit(p.window->tall(row.rows));
}

// Do the layouts of input and output allow kernels of planes?
bool planes_fit(const Problem& p) {
  PlaneLayout layout;
  return p.in_blocked && (p.out_blocked || p.pixels == 1) && lay_out_planes(*p.window, &layout);
}

bool plane_fits(const Problem& p, const DwconvPlaneRow& row) {
  return row.block == cpu().pixel_block && (row.kernel == 0 || is_three_by_three(*p.window)) && planes_fit(p);
}

// ---- cost

constexpr size_t competing_bytes = 1024;  // cache lines this far apart, or a multiple, share few sets of the L1 cache

// Products of bytes that a kernel of a wide panel computes in halves take no longer than those of a narrow one.
constexpr size_t most_idle_channels = 32;

// Instructions for a vector of sums of bytes and one tap: widening, multiplying and adding; or dot products of a column
// of taps, for which rows are interleaved. Then those to end the sums.
template <class DepthwiseRow>
double instructions_of_bytes(const Problem& p, const DepthwiseRow& row) {
  constexpr double widened = 4, interleaved = 1.5, end = 8;
  const bool dots = format_of(row).kr > 1;
  return (dots ? static_cast<double>(p.kernel.w * divide_up(p.kernel.h, size_t{4})) * interleaved
               : static_cast<double>(p.taps()) * widened) +
         end;
}

// Cycles of all pixels, at `multiplies` multiply-adds per cycle.
template <class DepthwiseRow>
double pixel_cycles(const Problem& p, const DepthwiseRow& row, double multiplies) {
  const MachineRow& m = machine();
  const Level level = level_of(row);
  const bool bytes = of_bytes(row);
  const size_t computed = round_up(p.groups, bytes ? std::min<size_t>(row.nr, most_idle_channels) : row.nr);
  const double instructions = bytes ? instructions_of_bytes(p, row) : static_cast<double>(p.taps()) * level.multiply;
  const double per_pixel = static_cast<double>(computed) / level.lanes * instructions / multiplies + m.call_cycles;
  return per_pixel * static_cast<double>(p.pixels * p.images);
}

// Kernels of rows load a vector for every multiplication.
double cycles_of(const Problem& p, const DwconvRow& row) { return pixel_cycles(p, row, machine().row_multiplies); }

// Does an image of the input not fit into the L2 cache?
bool is_far(const Problem& p) { return p.window->h.in * p.window->w.in * p.window->pixel_stride > cpu().l2_bytes; }

// Kernels of tiles load less often than they multiply. But they take the channels of an image one panel after the other:
// if the image comes from beyond the L2 cache, prefetchers of some machines help them less than kernels of rows. And if
// their panels are narrower than a cache line, they need each line several times. If the lines of the pixels compete for
// few sets of the L1 cache, a line is gone each time, and the kernel waits. This does not count on ARM: kernels of arm64
// load a column while they multiply another, long enough for it to come from the L2 cache; on 32-bit ARM kernels of rows
// cost so much that tiles are better even if they wait.
double cycles_of(const Problem& p, const DwconvTileRow& row) {
  const MachineRow& m = machine();
  const bool compete = p.window->pixel_stride * row.stride % competing_bytes == 0;
  const bool wait = compete && row.nr * sizeof(float) < cache_line && !is_arm(row);
  const float far = m.far_tiles != 1 && is_far(p) ? m.far_tiles : 1;
  return pixel_cycles(p, row, (wait ? m.waiting_multiplies : m.tile_multiplies) / far);
}

// Cycles to copy one channel of an image out of its blocks. A large image does not stay in the L1 cache meanwhile.
double unblock_image_cycles(const Axis& h, const Axis& w) {
  const MachineRow& m = machine();
  const size_t pixels = h.in * w.in;
  const bool far = pixels * sizeof(float) > cpu().l1_bytes;
  return static_cast<double>(pixels) * (far ? m.far_unblock_cycles : m.unblock_cycles);
}

// Kernels of planes: each channel is copied out of its blocks and, with a stride, split into planes. (For the layers of
// MobileNet the estimate was within a sixth of the time measured with AVX2 and AVX-512.)
double cycles_of(const Problem& p, const DwconvPlaneRow& row) {
  const MachineRow& m = machine();
  const Level level = level_of(row);
  const Axis &h = p.window->h, &w = p.window->w;
  const bool split = w.stride > 1 || h.stride > 1 || w.in != w.out;
  const bool narrow = row.lanes < 8;
  const double moved = unblock_image_cycles(h, w) + (split ? m.split_cycles * static_cast<double>(h.in * w.in) : 0);
  const double copy = moved * (narrow ? m.narrow_copies : 1);
  const double tap = narrow            ? m.narrow_tap_cycles
                     : row.kernel == 3 ? m.plane_neighbour_cycles
                     : row.lanes > 8   ? m.wide_tap_cycles
                                       : m.plane_tap_cycles;
  const auto vectors = static_cast<double>(divide_up(p.pixels, row.lanes));
  const double one = copy + tap * level.multiply * vectors * static_cast<double>(p.taps()) + m.call_cycles;
  return one * static_cast<double>(p.groups * p.images);
}

// Kernels of images: they write the output row by row, and then it is copied into blocks.
double cycles_of(const Problem& p, const DwconvImageRow& row) {
  const MachineRow& m = machine();
  const Axis &h = p.window->h, &w = p.window->w;
  const auto vectors = static_cast<double>(h.out * divide_up(w.out, row.lanes));
  const double one = unblock_image_cycles(h, w) + m.unblock_cycles * static_cast<double>(p.pixels) +
                     m.image_vector_cycles * level_of(row).multiply * vectors + m.call_cycles;
  return one * static_cast<double>(p.groups * p.images);
}

// ---- plans

// The common part of the plans for kernels of rows and of tiles.
template <class KernelRow>
class DepthwisePlan : public RowPlan {
 protected:
  DepthwisePlan(const ConvRequest& conv, const KernelRow& row, size_t tile_rows)
      : RowPlan(conv.request, conv.window, row.nr, tile_rows),
        row_(row),
        epilogue_(row, epilogue_numbers(conv)),
        zero_(row.type, conv.weights.shape().groups, static_cast<int8_t>(conv.input_zero())),
        packed_(conv.pack(Packing::depthwise, row)) {}
  ~DepthwisePlan() = default;

  // Panels hold the channels of several groups, which have one each.
  static OutputNumbers epilogue_numbers(const ConvRequest& conv) {
    OutputNumbers numbers = conv.numbers();
    std::swap(numbers.groups, numbers.channels);
    return numbers;
  }

  const char* panel(const RowTask& t) const { return packed_->panels(0) + t.channel / row_.nr * packed_->panel_bytes; }

  const KernelRow& row_;
  KernelEpilogue epilogue_;
  Padding zero_;  // a pixel of padding

 private:
  Packed packed_;
};

class DepthwiseRowPlan final : public DepthwisePlan<DwconvRow> {
 public:
  DepthwiseRowPlan(const ConvRequest& conv, const Choice& choice)
      : DepthwisePlan(conv, choice.as<DwconvRow>(), 1), taps_(conv.window.taps()) {}

 private:
  void run_row(const RowTask& t) const override {
    row_.run(t.channels, t.width, taps_, t.offsets, step_, t.a, zero_.data(), panel(t), t.c, c_stride_,
             epilogue_.at(0, t.channel));
  }

  size_t taps_;
};

class DepthwiseTilePlan final : public DepthwisePlan<DwconvTileRow> {
 public:
  DepthwiseTilePlan(const ConvRequest& conv, const Choice& choice)
      : DepthwisePlan(conv, choice.as<DwconvTileRow>(), choice.as<DwconvTileRow>().rows) {}

 private:
  void run_row(const RowTask& t) const override {
    row_.run(t.channels, width_, t.rows, t.offsets, t.a, panel(t), t.c, row_stride_, c_stride_,
             epilogue_.at(0, t.channel), zero_.data());
  }
};

class DepthwisePlanePlan final : public PlanePlan {
 public:
  DepthwisePlanePlan(const ConvRequest& conv, const Choice& choice)
      : PlanePlan(conv.request, conv.window, choice.as<DwconvPlaneRow>().block, 0,
                  choice.as<DwconvPlaneRow>().kernel == 0 ? Reads::in_place : Reads::planes),
        row_(choice.as<DwconvPlaneRow>()),
        clamp_(conv.clamp),
        packed_(conv.weights.pack(Packing::depthwise, {row_.type, 1})) {}

 private:
  void run_plane(size_t channel, const char* a, char* c, char*) const override {
    row_.run(pixels_, kernel_h_, kernel_w_, offsets_.data(), masks_.data(), mask_stride_, a,
             packed_->panels(0) + channel * packed_->panel_bytes, c, c_stride_, &clamp_);
  }

  const DwconvPlaneRow& row_;
  qn_minmax_f32 clamp_;
  Packed packed_;
};

class DepthwiseImagePlan final : public PlanePlan {
 public:
  DepthwiseImagePlan(const ConvRequest& conv, const Choice& choice)
      : PlanePlan(conv.request, conv.window, qn_pixel_block(), 0, Reads::image),
        row_(choice.as<DwconvImageRow>()),
        clamp_(conv.clamp),
        packed_(conv.weights.pack(Packing::depthwise, {row_.type, 1})),
        rows_(conv.window.h.out),
        columns_(conv.window.w.out) {}

 private:
  // Computes the output row by row into `room`, then copies it into blocks.
  void run_plane(size_t channel, const char* a, char* c, char* room) const override {
    row_.run(rows_, columns_, first_row(a), in_row_bytes(), packed_->panels(0) + channel * packed_->panel_bytes, room,
             columns_ * sizeof(float), &clamp_);
    store_blocks(room, c);
  }

  const DwconvImageRow& row_;
  qn_minmax_f32 clamp_;
  Packed packed_;
  size_t rows_, columns_;
};

}  // namespace

void depthwise_algorithm::candidates(const Problem& p, Candidates* all) {
  constexpr double never = Candidates::never;
  if (p.window == nullptr || p.in != 1 || p.out != 1 || p.residual) return;
  if (p.blocked()) {
    const auto plane = [&](const DwconvPlaneRow& row) { return plane_fits(p, row) ? cycles_of(p, row) : never; };
    const auto image = [&](const DwconvImageRow& row) {
      return is_image_k3s2(*p.window) && planes_fit(p) ? cycles_of(p, row) : never;
    };
    all->add_rows(id, dwconv_plane_rows(), plane, planes);
    all->add_rows(id, dwconv_image_rows(), image, images);
    return;
  }
  if (!row_tables_fit(*p.window)) return;
  const auto tile = [&](const DwconvTileRow& row) { return tile_fits(p, row) ? cycles_of(p, row) : never; };
  all->add_rows(
      id, dwconv_rows(), [&](const DwconvRow& row) { return cycles_of(p, row); }, rows);
  all->add_rows(id, dwconv_tile_rows(), tile, tiles);
}

bool depthwise_algorithm::knows(std::string_view kernel) {
  return has_row(dwconv_rows(), kernel) || has_row(dwconv_tile_rows(), kernel) ||
         has_row(dwconv_plane_rows(), kernel) || has_row(dwconv_image_rows(), kernel);
}

PlanPointer depthwise_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  if (has_sparse && choice.table == images) return make_plan<DepthwiseImagePlan>(conv, choice);
  if (has_sparse && choice.table == planes) return make_plan<DepthwisePlanePlan>(conv, choice);
  if (choice.table == tiles) return make_plan<DepthwiseTilePlan>(conv, choice);
  return make_plan<DepthwiseRowPlan>(conv, choice);
}

}  // namespace quern
