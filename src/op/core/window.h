// Windows that slide over images: what convolution and pooling have in common.
#pragma once

#include <quern/op.h>

#include <cstdint>

#include "base/vector.h"
#include "op/core/operator.h"

namespace quern {

// The number of pixels from the first tap of a window to its last. 64 bits, because attributes of a file may multiply
// beyond 32.
inline uint64_t window_extent(size_t kernel, size_t dilation) { return (uint64_t{kernel} - 1) * dilation + 1; }
// The number of windows over `in` pixels; 0 when none fits. If `ceil` is set the number is rounded up: the last window,
// even a single one, may reach beyond the padding, but no window begins in the padding behind the image.
size_t window_output(size_t in, size_t kernel, size_t stride, size_t dilation, size_t before, size_t after, bool ceil);

// One direction of a window over an image.
struct Axis {
  size_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  size_t in = 1, out = 1;

  size_t extent() const { return (kernel - 1) * dilation + 1; }
  // The position that tap `k` of output `o` reads. Positions outside 0 .. in-1 are padding.
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
  // The bytes from `base` to a pixel, or -1 for padding. `base` must not lie behind the pixel.
  int32_t offset(int64_t y, int64_t x, size_t base = 0) const {
    if (!h.inside(y) || !w.inside(x)) return -1;
    return static_cast<int32_t>(static_cast<size_t>(y) * row_stride + static_cast<size_t>(x) * pixel_stride - base);
  }
  // Do 32-bit offsets that begin at the first row that a window sees reach the rest of the window?
  bool row_offsets_fit() const;
  // The window of a tile of `rows` output rows: taller, and moving down by as many rows at a time. Needs a window
  // without dilation.
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

// Tables of offsets for kernels that compute a run of pixels of one output row (dwconv, pool). The taps of a pixel are
// in order column by column. Offsets begin at the first row of the image that the window may see. Output rows whose
// windows lie inside the image from top to bottom share one table.
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
// Can make_row_tables() make the tables, and are they of a sane size? Tables of huge kernels in huge padding are not.
bool row_tables_fit(const Window& window);

// A plan that works through the output rows of images, or through tiles of several rows, a range of channels at a time.
class RowPlan : public qn_plan {
 public:
  // Tasks divide channels only at multiples of `channel_step`.
  RowPlan(const Request& request, const Window& window, size_t channel_step, size_t tile_rows = 1);
  void task(const Run& run, size_t phase, size_t index) const final;

  // Computes output rows begin .. end-1 of an image, all channels. Row `begin` goes to run.output, the others follow.
  // `begin` is a multiple of tile_rows(), and so is `end` unless it is the height.
  void run_rows(const Run& run, size_t image, size_t begin, size_t end) const;
  size_t tile_rows() const { return tile_rows_; }

 protected:
  ~RowPlan();

  // Pixels x .. x + width - 1 of some rows; a plan of tiles always gets whole rows.
  struct RowTask {
    size_t y, rows, x, width, channel, channels;
    const int32_t* offsets;
    const char* a;
    char* c;
  };
  virtual void run_row(const RowTask& row) const = 0;

  size_t width_;  // output pixels of a row
  size_t step_;
  size_t row_stride_, c_stride_;  // bytes from one output row to the next, and from one output pixel to the next

 private:
  // Computes channels begin .. end-1 of a tile. `c` is the first row of the output, which is row `top` of the image.
  // Returns false if the task is to stop.
  bool run_tile(const char* a, char* c, size_t top, size_t tile, size_t begin, size_t end, Watch* watch) const;

  RowTables tables_;
  qn_tensor in_, out_;
  size_t channel_step_, tile_rows_, tiles_;  // tiles of an image
  size_t taps_;
  Split channel_split_;  // divides the channels, in steps of channel_step_, into chunks
  Split task_split_;     // divides the units among tasks; a unit is a tile and a chunk of channels
};

}  // namespace quern
