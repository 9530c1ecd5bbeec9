// Windows that slide over images: what convolution and pooling have in common.
#pragma once

#include <quern/op.h>

#include <cstdint>

#include "base/vector.h"
#include "op/core/operator.h"

namespace quern {

// Pixels from the first tap of a window to its last; attributes of a file multiply beyond 32 bits.
inline uint64_t window_extent(size_t kernel, size_t dilation) { return (uint64_t{kernel} - 1) * dilation + 1; }
// How many windows there are over `in` pixels; 0 when none fits. Rounded up, one may reach beyond the padding, even if
// it is the only one, but none begins in the padding behind the image.
size_t window_output(size_t in, size_t kernel, size_t stride, size_t dilation, size_t before, size_t after, bool ceil);

// One direction of a window over an image.
struct Axis {
  size_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  size_t in = 1, out = 1;

  size_t extent() const { return (kernel - 1) * dilation + 1; }
  // Where tap `k` of output `o` reads; outside 0 .. in-1 is padding.
  int64_t at(size_t o, size_t k) const {
    return static_cast<int64_t>(o * stride + k * dilation) - static_cast<int64_t>(before);
  }
  bool inside(int64_t i) const { return i >= 0 && i < static_cast<int64_t>(in); }
};

struct Window {
  Axis h, w;
  size_t row_stride = 0, pixel_stride = 0;  // of the input, in bytes

  size_t taps() const { return h.kernel * w.kernel; }
  size_t pixels() const { return h.out * w.out; }
  // Do 32-bit offsets reach every pixel of an image? Only then offset() may be called.
  bool offsets_fit() const { return (h.in - 1) * row_stride + (w.in - 1) * pixel_stride <= INT32_MAX; }
  // From `base`, at most where the pixel is.
  int32_t offset(int64_t y, int64_t x, size_t base = 0) const {
    if (!h.inside(y) || !w.inside(x)) return -1;
    return static_cast<int32_t>(static_cast<size_t>(y) * row_stride + static_cast<size_t>(x) * pixel_stride - base);
  }
  // Do they, from the first row that a window sees, reach all of the others?
  bool row_offsets_fit() const;
  // What tiles of `rows` output rows see: a taller window, which moves down by as many rows. Without dilation.
  Window tall(size_t rows) const;
};

// Outputs begin .. end-1 along an axis have their whole window inside the image.
struct Span {
  size_t begin, end;
  bool has(size_t i) const { return i >= begin && i < end; }
};
Span columns_inside(const Axis& axis);

// Checks kernel, stride, dilation and padding.
qn_status make_window(const char* who, qn_hw kernel, qn_hw stride, qn_hw dilation, const qn_padding& padding,
                      Window* window);
// Sets the sizes for an input of H x W; ceil_mode as in qn_pool2d_params.
qn_status size_window(const char* who, size_t height, size_t width, bool ceil_mode, Window* window);
// Sets the strides for an input N,H,W,C.
void stride_window(const qn_tensor& in, Window* window);

// Offsets for kernels that work on a run of pixels of one output row (dwconv, pool). Taps go column by column.
// They begin at the first row of the image that a window may see. Rows whose windows lie inside the image from top to
// bottom share one table.
struct RowTables {
  struct Row {
    size_t table;  // index of its first offset
    size_t base;   // bytes to add to the image's address
  };
  Vector<int32_t> offsets;
  Vector<Row> rows;
  size_t step = 0;  // bytes from the offsets of one pixel to those of the next
};
RowTables make_row_tables(const Window& window);
// Can these tables be made, and are they of a sane size? Those of huge kernels in huge padding are not.
bool row_tables_fit(const Window& window);

// A plan that goes over output rows of images, or tiles of several rows, a range of channels at a time.
class RowPlan : public qn_plan {
 public:
  // `channel_step`: channels are only divided at multiples of it.
  RowPlan(const Request& request, const Window& window, size_t channel_step, size_t tile_rows = 1);
  void task(const Run& run, size_t phase, size_t index) const final;

  // Output rows begin .. end-1 of an image, all channels, to run.output, where row `begin` goes. `begin` is a multiple
  // of tile_rows(), and so is `end` unless it is the height.
  void run_rows(const Run& run, size_t image, size_t begin, size_t end) const;
  size_t tile_rows() const { return tile_rows_; }

 protected:
  ~RowPlan();

  struct RowTask {
    size_t y, rows, channel, channels;
    const int32_t* offsets;
    const char* a;
    char* c;
  };
  virtual void run_row(const RowTask& row) const = 0;

  size_t width_;  // output pixels of a row
  size_t step_;
  size_t row_stride_, c_stride_;  // bytes from one output row, pixel to the next

 private:
  // Some channels of a tile; c: the image's or band's first row, which is row `top` of the image.
  void run_tile(const char* a, char* c, size_t top, size_t tile, size_t begin, size_t end) const;

  RowTables tables_;
  qn_tensor in_, out_;
  size_t channel_step_, tile_rows_, tiles_;  // tiles of an image
  Split channel_split_;                      // of channels / channel_step
  Split task_split_;                         // of images * tiles * chunks of channels
};

}  // namespace quern
