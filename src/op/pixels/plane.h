// Windows over pixel-blocked images, one channel at a time: the part that depthwise convolution and pooling share.
//
// Kernels of planes (dwconv.h, pool.h) see a tap as a shift of a plane of pixels, whose rows are as wide as the output.
// With stride 1 a channel has one plane, its image: the plan copies it out of its blocks into scratch memory, between
// rows of padding. With a larger stride each pair of remainders, of the row and of the column by the stride, has a
// plane of the pixels with these remainders. If such planes would be wider than the output, every kernel column gets a
// plane of its own.
#pragma once

#include "base/vector.h"
#include "kernel/unblock.h"
#include "op/core/operator.h"
#include "op/core/window.h"

namespace quern {

// How planes lie in scratch memory: row_planes times column_planes of them, each with rows of padding above and below
// its image.
struct PlaneLayout {
  // A tap in one direction: the plane that it reads, and its shift there.
  struct Tap {
    size_t plane;
    int64_t shift;
  };

  size_t height = 0, width = 0;  // of the output; with Reads::image, the image's width
  size_t row_planes = 1, column_planes = 1;
  bool own_columns = false;  // a plane for every kernel column
  size_t above = 0, rows = 0, below = 0;
  size_t plane_bytes = 0;  // bytes from one plane to the next
  size_t image = 0;        // bytes from the beginning of the memory to the image of the first plane
  size_t bytes = 0;        // bytes of all planes

  // Where a tap reads for output pixel (0, 0), in bytes from the first plane.
  int64_t at(const Tap& row, const Tap& column) const {
    const auto plane = static_cast<int64_t>(row.plane * column_planes + column.plane);
    return static_cast<int64_t>(image) + plane * static_cast<int64_t>(plane_bytes) +
           (row.shift * static_cast<int64_t>(width) + column.shift) * static_cast<int64_t>(sizeof(float));
  }
};

// False if planes cannot be made or are not of a sane size, as for huge kernels in huge padding.
bool lay_out_planes(const Window& window, PlaneLayout* layout);

// Is this the window of the 3x3 kernels of dwconv.h (K = 3)? All taps of the middle column are inside the image, and
// the other columns are shifts of it by one pixel.
bool is_three_by_three(const Window& window);

// Is this a 3x3 window with stride 2, as DwconvImageRow takes it? The last pixels of a row need no padding.
bool is_image_k3s2(const Window& window);

// A plan that works through the channels of images. Input and output are in blocks of `block` pixels; an output of one
// pixel may also be QN_LAYOUT_NHWC.
class PlanePlan : public qn_plan {
 public:
  enum class Reads {
    planes,    // the kernel reads planes in scratch memory
    in_place,  // the same, but without planes if the image is one block or the output one pixel: it reads the input
    image,     // it reads rows as wide as the image's, the rows of padding above the image first
  };
  // The rows above and below the image hold the value `padding`.
  PlanePlan(const Request& request, const Window& window, size_t block, float padding, Reads reads);
  void task(const Run& run, size_t phase, size_t index) const final;

 protected:
  ~PlanePlan();

  // Computes a channel's output `c` from its pixels `a`. With Reads::image, `room` holds all output pixels in a row and
  // a vector more.
  virtual void run_plane(size_t channel, const char* a, char* c, char* room) const = 0;

  // With Reads::image: the first row that run_plane() reads at its `a`, and the bytes from one row to the next.
  const char* first_row(const char* a) const { return a + layout_.image - layout_.above * in_row_bytes(); }
  size_t in_row_bytes() const { return layout_.width * sizeof(float); }
  // Copies a row of all output pixels into the output's blocks.
  void store_blocks(const char* row, char* c) const { unblock_.run(pixels_, row, block_bytes(), c, c_stride_); }

  // Arguments of the kernel that are the same for all channels.
  size_t pixels_, kernel_h_, kernel_w_;
  Vector<int32_t> offsets_;
  size_t mask_stride_;
  Vector<uint16_t> masks_;
  size_t c_stride_;  // bytes from one block of the output to the next

 private:
  // Columns of every row that a split kernel (unblock.h) copies into planes.
  struct Columns {
    size_t from, count, to;  // `from`: bytes from the beginning of a row; `to`: of a row of the first plane
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
  bool one_block_;  // the image lies in one block
  size_t row_step_, column_step_;
  PlaneLayout layout_;
  size_t image_bytes_ = 0;    // bytes of an image copied out of its blocks, before it is split into planes
  size_t channel_bytes_ = 0;  // bytes of a channel's planes and image
  size_t together_ = 1;       // channels that go through one step after the other
  size_t pixel_bytes_ = 0;    // bytes of a block that stands in for an output of NHWC
  size_t room_bytes_ = 0;     // bytes of the room that run_plane() gets
  Vector<Columns> columns_;
  Split task_split_;  // divides the channels of all images among tasks
};

}  // namespace quern
