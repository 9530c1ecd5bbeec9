// Windows over images in blocks of pixels, one channel at a time: what depthwise convolution and pooling have in
// common.
//
// Kernels of planes (dwconv.h, pool.h) see a tap as a shift of a plane of pixels, whose rows are as wide as the output.
// With stride 1 there is one plane, the image of the channel, which is copied out of its blocks into scratch memory
// between rows of padding. With a larger stride there is one for the pixels that share a remainder, of rows and of
// columns. Where such planes are wider than the output, every kernel column gets one of its own.
#pragma once

#include "base/vector.h"
#include "kernel/unblock.h"
#include "op/core/operator.h"
#include "op/core/window.h"

namespace quern {

// How planes lie in scratch memory: row_planes times column_planes, each with rows of padding, an image, and padding.
struct PlaneLayout {
  // Taps of one direction: the plane, and the shift in it.
  struct Tap {
    size_t plane;
    int64_t shift;
  };

  size_t height = 0, width = 0;  // of the output; with Reads::image, the image's width
  size_t row_planes = 1, column_planes = 1;
  bool own_columns = false;  // a plane for every kernel column
  size_t above = 0, rows = 0, below = 0;
  size_t plane_bytes = 0;  // from one to the next
  size_t image = 0;        // where the image of the first one begins
  size_t bytes = 0;        // of all

  // Where pixel (0, 0) of a tap's window is.
  int64_t at(const Tap& row, const Tap& column) const {
    const auto plane = static_cast<int64_t>(row.plane * column_planes + column.plane);
    return static_cast<int64_t>(image) + plane * static_cast<int64_t>(plane_bytes) +
           (row.shift * static_cast<int64_t>(width) + column.shift) * static_cast<int64_t>(sizeof(float));
  }
};

// False if planes cannot be made, or are not of a sane size: those of huge kernels in huge padding.
bool lay_out_planes(const Window& window, PlaneLayout* layout);

// 3x3, every tap of the middle column inside the image, and the other columns shifts of it by one pixel: K = 3 of
// dwconv.h.
bool is_three_by_three(const Window& window);

// 3x3 with stride 2 as DwconvImageRow takes it: whose last pixels in a row need no padding.
bool is_image_k3s2(const Window& window);

// A plan that goes over the channels of images. Input and output are in blocks of `block` pixels; an output of one
// pixel may also be QN_LAYOUT_NHWC.
class PlanePlan : public qn_plan {
 public:
  enum class Reads {
    planes,
    in_place,  // or where the image lies, if it is one block, or all taps of one pixel
    image,     // rows as wide as those of the image, beginning with those of padding above it
  };
  // Rows above and below the image hold `padding`.
  PlanePlan(const Request& request, const Window& window, size_t block, float padding, Reads reads);
  void task(const Run& run, size_t phase, size_t index) const final;

 protected:
  ~PlanePlan();

  // From the pixels of a channel to its output. There is room for a row of all output pixels and a vector.
  virtual void run_plane(size_t channel, const char* a, char* c, char* room) const = 0;

  // Of Reads::image: the first row, at a channel's `a`, and the bytes from one to the next.
  const char* first_row(const char* a) const { return a + layout_.image - layout_.above * in_row_bytes(); }
  size_t in_row_bytes() const { return layout_.width * sizeof(float); }
  // From a row of all output pixels to their blocks.
  void store_blocks(const char* row, char* c) const { unblock_.run(pixels_, row, block_bytes(), c, c_stride_); }

  // What kernels are called with for all channels.
  size_t pixels_, kernel_h_, kernel_w_;
  Vector<int32_t> offsets_;
  size_t mask_stride_;
  Vector<uint16_t> masks_;
  size_t c_stride_;  // bytes from one block of the output to the next

 private:
  // Columns that split() deals out, of every row.
  struct Columns {
    size_t from, count, to;  // bytes from the beginning of a row, and of a row of the first plane
  };

  size_t block_bytes() const { return unblock_.block * sizeof(float); }
  void lay_out(const Window& window, Reads reads);
  void find_taps(const Window& window);
  void find_taps_in_place(const Window& window);
  void find_columns(const Axis& axis);
  void mark(size_t column, size_t pixel) {
    masks_[column * mask_stride_ / sizeof(uint16_t) + pixel / 16] |= static_cast<uint16_t>(1u << pixel % 16);
  }
  void pad(char* scratch) const;
  void unblock(const char* a, char* scratch) const;
  void split_image(const char* a, char* scratch) const;
  void run_channels(const Run& run, size_t image, size_t begin, size_t end, char* scratch) const;

  const UnblockRow& unblock_;
  const SplitRow& split_;
  qn_tensor in_, out_;
  float padding_;
  bool in_place_;   // no planes
  bool straight_;   // the image is the only plane
  bool one_block_;  // the image lies in one
  size_t row_step_, column_step_;
  PlaneLayout layout_;
  size_t image_bytes_ = 0;    // of an image out of its blocks, before it is split
  size_t channel_bytes_ = 0;  // of planes and image
  size_t together_ = 1;       // channels
  size_t pixel_bytes_ = 0;    // of a block for an output of NHWC,
  size_t room_bytes_ = 0;     // and of what run_plane gets
  Vector<Columns> columns_;
  Split task_split_;  // of images * channels
};

}  // namespace quern
