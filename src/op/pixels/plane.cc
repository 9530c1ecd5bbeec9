#include "op/pixels/plane.h"

#include "base/math.h"
#include "base/tensor.h"
#include "kernel/select.h"
#include "op/conv/conv.h"

namespace quern {
namespace {

constexpr size_t max_taps = size_t{1} << 22;
constexpr size_t max_bytes = size_t{1} << 28;  // the most bytes of planes, and of masks
constexpr size_t slack = 128;                  // bytes around the planes: 3x3 kernels read whole vectors
constexpr size_t min_task_products = 32768;    // products of a task, at least
constexpr size_t word = 16;                    // pixels in a word of a mask
// Several channels go through a step before any of them goes through the next one. So a step need not wait for data
// that the step before has only just written.
constexpr size_t together_bytes = 16384;  // the most bytes of these channels
constexpr size_t max_together = 8;        // the most channels

PlaneLayout::Tap find_tap(const Axis& axis, size_t k) {
  const int64_t at = axis.at(0, k), stride = static_cast<int64_t>(axis.stride);
  const int64_t remainder = (at % stride + stride) % stride;
  return {static_cast<size_t>(remainder), (at - remainder) / stride};
}

// The number of pixels of one direction that belong to a plane: those that share its remainder.
size_t plane_pixels(const Axis& axis, size_t plane) {
  return plane < axis.in ? divide_up(axis.in - plane, axis.stride) : 0;
}

// Calls visit(plane) for the plane of every remainder that some tap has.
template <class Visit>
void each_plane(const Axis& axis, Visit visit) {
  for (size_t k = 0; k < std::min(axis.kernel, axis.stride); ++k) visit(find_tap(axis, k).plane);
}

// The outputs whose tap k lies inside the image.
Span outputs_inside(const Axis& axis, size_t k) {
  const size_t tap = k * axis.dilation;
  const size_t begin = tap >= axis.before ? 0 : divide_up(axis.before - tap, axis.stride);
  const size_t end = axis.in + axis.before > tap ? divide_up(axis.in + axis.before - tap, axis.stride) : 0;
  return {std::min(begin, axis.out), std::max(std::min(begin, axis.out), std::min(end, axis.out))};
}

void lay_out_columns(const Axis& axis, PlaneLayout* layout) {
  layout->width = axis.out;
  each_plane(axis, [&](size_t plane) {
    layout->column_planes = std::max(layout->column_planes, plane + 1);
    layout->own_columns = layout->own_columns || plane_pixels(axis, plane) > axis.out;
  });
  if (layout->own_columns) layout->column_planes = axis.kernel;
}

void lay_out_rows(const Axis& axis, PlaneLayout* layout) {
  layout->height = axis.out;
  each_plane(axis, [&](size_t plane) {
    layout->row_planes = std::max(layout->row_planes, plane + 1);
    layout->rows = std::max(layout->rows, plane_pixels(axis, plane));
  });
  const int64_t first = find_tap(axis, 0).shift;
  const int64_t last = find_tap(axis, axis.kernel - 1).shift + static_cast<int64_t>(axis.out);
  layout->above = static_cast<size_t>(std::max<int64_t>(-first, 0));
  layout->below = static_cast<size_t>(std::max<int64_t>(last - static_cast<int64_t>(layout->rows), 0)) + 1;
}

// Sets the place of the first plane's image, and the size of all planes together.
void place_planes(PlaneLayout* layout) {
  const size_t row_bytes = layout->width * sizeof(float);
  layout->plane_bytes = spread((layout->above + layout->rows + layout->below) * row_bytes);
  layout->image = round_up(slack + layout->above * row_bytes, cache_line);
  const size_t planes = layout->row_planes * layout->column_planes;
  layout->bytes = round_up(layout->image + planes * layout->plane_bytes + slack, cache_line);
}

// The layout for Reads::image: one plane, as wide as the image.
PlaneLayout lay_out_image(const Window& window) {
  const Axis& h = window.h;
  PlaneLayout layout;
  layout.height = h.out;
  layout.width = window.w.in;
  layout.above = h.before;
  layout.rows = h.in;
  const size_t end = (h.out - 1) * h.stride + h.extent();
  layout.below = end > h.before + h.in ? end - h.before - h.in : 0;
  place_planes(&layout);
  return layout;
}

}  // namespace

bool lay_out_planes(const Window& window, PlaneLayout* layout) {
  if (window.taps() > max_taps) return false;
  *layout = {};
  lay_out_columns(window.w, layout);
  lay_out_rows(window.h, layout);
  const auto bytes = [](size_t a, size_t b, size_t c) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c) * sizeof(float);
  };
  const size_t rows = layout->above + layout->rows + layout->below;
  const size_t planes = layout->row_planes * layout->column_planes;
  if (bytes(rows, layout->width, planes) > max_bytes || bytes(window.w.kernel, window.pixels(), 1) > 32.0 * max_bytes ||
      bytes(window.h.in, window.w.in, 1) > max_bytes) {
    return false;
  }
  place_planes(layout);
  return layout->bytes <= max_bytes;  // checked again, because planes are rounded up to whole cache lines
}

bool is_three_by_three(const Window& window) {
  const Axis& w = window.w;
  return window.h.kernel == 3 && w.kernel == 3 && w.stride == 1 && w.dilation == 1 && w.before == 1 && w.in == w.out;
}

bool is_image_k3s2(const Window& window) {
  const Axis &h = window.h, &w = window.w;
  const bool alike =
      h.kernel == 3 && w.kernel == 3 && h.stride == 2 && w.stride == 2 && h.dilation == 1 && w.dilation == 1;
  return alike && w.before == 1 && w.in == 2 * w.out;
}

PlanePlan::~PlanePlan() = default;

PlanePlan::PlanePlan(const Request& request, const Window& window, size_t block, float padding, Reads reads)
    : pixels_(window.pixels()),
      kernel_h_(window.h.kernel),
      kernel_w_(window.w.kernel),
      c_stride_(request.out.stride[1]),
      unblock_(
          *select(unblock_rows(), KernelType::f32, nullptr, [&](const UnblockRow& r) { return r.block == block; })),
      split_(best(split_rows(), KernelType::f32)),
      in_(request.ins[0]),
      out_(request.out),
      padding_(padding),
      row_step_(window.h.stride),
      column_step_(window.w.stride) {
  lay_out(window, reads);
  channel_bytes_ = layout_.bytes + image_bytes_;
  if (channel_bytes_ > 0) together_ = std::clamp<size_t>(together_bytes / channel_bytes_, 1, max_together);
  if (out_.layout == QN_LAYOUT_NHWC) pixel_bytes_ = round_up(block * sizeof(float), cache_line);
  if (reads == Reads::image) room_bytes_ = round_up((pixels_ + block) * sizeof(float), cache_line);
  slot = together_ * channel_bytes_ + pixel_bytes_ + room_bytes_;
  const size_t products = pixels_ * window.taps();
  task_split_ = split(out_.shape[0] * out_.shape[3], request.options.tasks, divide_up(min_task_products, products));
  phases = {task_split_.chunks};
}

void PlanePlan::lay_out(const Window& window, Reads reads) {
  const size_t image = window.h.in * window.w.in, block = unblock_.block;
  const bool same_rows = row_step_ == 1 && column_step_ == 1 && window.w.in == window.w.out;
  one_block_ = image <= block;
  const bool one_pixel = pixels_ == 1 && (image / block + 1) * in_.stride[1] <= INT32_MAX;
  in_place_ = reads == Reads::in_place && (one_pixel || (one_block_ && same_rows));
  straight_ = same_rows || reads == Reads::image;
  if (reads == Reads::image) {
    layout_ = lay_out_image(window);
  } else if (in_place_) {
    find_taps_in_place(window);
  } else {
    lay_out_planes(window, &layout_);
    find_taps(window);
    if (straight_) return;
    find_columns(window.w);
    if (!one_block_) image_bytes_ = round_up(image * sizeof(float), cache_line);
  }
}

void PlanePlan::find_taps(const Window& window) {
  mask_stride_ = divide_up(pixels_, word) * sizeof(uint16_t);
  masks_.assign(kernel_w_ * mask_stride_ / sizeof(uint16_t), 0);
  for (size_t k = 0; k < kernel_w_; ++k) {
    const Span inside = outputs_inside(window.w, k);
    for (size_t y = 0; y < layout_.height; ++y) {
      for (size_t x = inside.begin; x < inside.end; ++x) mark(k, y * layout_.width + x);
    }
    PlaneLayout::Tap column = {k, 0};
    if (!layout_.own_columns) column = find_tap(window.w, k);
    if (inside.begin == inside.end) column = {};  // no pixel reads this column
    for (size_t j = 0; j < kernel_h_; ++j) {
      offsets_.push_back(static_cast<int32_t>(layout_.at(find_tap(window.h, j), column)));
    }
  }
}

// Gives every tap a mask of its own, so that kernels read nothing outside the image: to the kernel each tap is a
// column.
void PlanePlan::find_taps_in_place(const Window& window) {
  const size_t taps = window.taps();
  mask_stride_ = divide_up(pixels_, word) * sizeof(uint16_t);
  masks_.assign(taps * mask_stride_ / sizeof(uint16_t), 0);
  offsets_.assign(taps, 0);
  for (size_t t = 0; t < taps; ++t) {
    const size_t k = t / kernel_h_, j = t % kernel_h_;
    const Span rows = outputs_inside(window.h, j), columns = outputs_inside(window.w, k);
    for (size_t y = rows.begin; y < rows.end; ++y) {
      for (size_t x = columns.begin; x < columns.end; ++x) {
        const auto at = static_cast<size_t>(window.h.at(y, j)) * window.w.in + static_cast<size_t>(window.w.at(x, k));
        const size_t pixel = y * window.w.out + x;
        mark(t, pixel);
        offsets_[t] =
            static_cast<int32_t>(pixel_offset(in_.stride[1], at)) - static_cast<int32_t>(pixel * sizeof(float));
      }
    }
  }
  kernel_h_ = 1;
  kernel_w_ = taps;
}

void PlanePlan::find_columns(const Axis& axis) {
  if (!layout_.own_columns) {
    columns_.push_back({0, axis.in, 0});
    return;
  }
  for (size_t k = 0; k < axis.kernel; ++k) {
    const Span inside = outputs_inside(axis, k);
    if (inside.begin == inside.end) continue;
    columns_.push_back({static_cast<size_t>(axis.at(inside.begin, k)) * sizeof(float),
                        (inside.end - inside.begin - 1) * axis.stride + 1,
                        k * layout_.plane_bytes + inside.begin * sizeof(float)});
  }
}

// Copies the image of a channel out of its blocks: straight into its plane, or to the place from where it is split.
void PlanePlan::unblock(const char* a, char* scratch) const {
  if (!straight_ && one_block_) return;
  unblock_.run(in_.shape[1] * in_.shape[2], a, in_.stride[1], scratch + (straight_ ? layout_.image : layout_.bytes),
               block_bytes());
}

// Splits the image of a channel into its planes.
void PlanePlan::split_image(const char* a, char* scratch) const {
  const size_t height = in_.shape[1], row_bytes = in_.shape[2] * sizeof(float);
  const char* const image = one_block_ ? a : scratch + layout_.bytes;
  const size_t dealt = layout_.own_columns ? 1 : layout_.column_planes;
  for (size_t r = 0; r < std::min(layout_.row_planes, height); ++r) {
    char* const planes = scratch + layout_.image + r * layout_.column_planes * layout_.plane_bytes;
    for (const Columns& c : columns_) {
      split_.run(divide_up(height - r, row_step_), c.count, column_step_, dealt, image + r * row_bytes + c.from,
                 row_step_ * row_bytes, planes + c.to, layout_.width * sizeof(float), layout_.plane_bytes);
    }
  }
}

// Computes some successive channels of an image. All of them go through a step before the next step begins.
void PlanePlan::run_channels(const Run& run, size_t image, size_t begin, size_t end, char* scratch) const {
  const char* const a = run.input(0) + image * in_.stride[0];
  char* const c = run.output + image * out_.stride[0];
  const auto each = [&](auto step) {
    for (size_t i = begin; i < end; ++i) step(i, a + i * in_.stride[2], scratch + (i - begin) * channel_bytes_);
  };
  if (!in_place_) each([&](size_t, const char* from, char* to) { unblock(from, to); });
  if (!in_place_ && !straight_) each([&](size_t, const char* from, char* to) { split_image(from, to); });
  char* const pixel = scratch + together_ * channel_bytes_;
  char* const room = pixel + pixel_bytes_;
  each([&](size_t channel, const char* from, char* planes) {
    if (!in_place_) from = planes;
    if (out_.layout == QN_LAYOUT_NHWC) {
      run_plane(channel, from, pixel, room);
      std::memcpy(c + channel * sizeof(float), pixel, sizeof(float));
    } else {
      run_plane(channel, from, c + channel * out_.stride[2], room);
    }
  });
}

// Fills the rows above and below the images of all planes. These rows stay as they are while channels come and go. It
// also fills the last row of each image: some planes have one row less than others, and for them it is padding.
void PlanePlan::pad(char* scratch) const {
  const size_t width = layout_.width;
  for (size_t i = 0; i < together_; ++i) {
    for (size_t plane = 0; plane < layout_.row_planes * layout_.column_planes; ++plane) {
      char* const at = scratch + i * channel_bytes_ + layout_.image + plane * layout_.plane_bytes;
      auto* const image = reinterpret_cast<float*>(at);
      std::fill(image - layout_.above * width, image, padding_);
      std::fill(image + (std::max<size_t>(layout_.rows, 1) - 1) * width, image + (layout_.rows + layout_.below) * width,
                padding_);
    }
  }
}

void PlanePlan::task(const Run& run, size_t, size_t index) const {
  char* const scratch = run.workspace + index * slot;
  if (!in_place_) pad(scratch);
  const size_t channels = in_.shape[3], end = task_split_.end(index);
  Watch watch(run);
  for (size_t i = task_split_.begin(index); i < end;) {
    const size_t image = i / channels, channel = i % channels;
    const size_t count = std::min({together_, channels - channel, end - i});
    if (watch.stops(count * pixels_ * kernel_h_ * kernel_w_)) return;
    run_channels(run, image, channel, channel + count, scratch);
    i += count;
  }
}

}  // namespace quern
