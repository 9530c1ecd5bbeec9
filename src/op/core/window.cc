#include "op/core/window.h"

#include "base/math.h"
#include "base/tensor.h"

namespace quern {
namespace {

// Far above anything real, low enough that positions in an image never overflow 64 bits.
constexpr size_t max_size = size_t{1} << 30;
constexpr size_t max_table_entries = size_t{1} << 26;
constexpr size_t min_task_products = 4096;  // multiply-adds of a task, at least

qn_status check_axis(const char* who, const char* direction, const Axis& axis) {
  const struct {
    const char* what;
    size_t value, least;
  } values[] = {{"kernel", axis.kernel, 1},
                {"stride", axis.stride, 1},
                {"dilation", axis.dilation, 1},
                {"padding before", axis.before, 0},
                {"padding after", axis.after, 0}};
  for (const auto& v : values) {
    if (v.value < v.least || v.value > max_size) {
      return fail(QN_INVALID_ARGUMENT, "%s: %s %s is %zu", who, direction, v.what, v.value);
    }
  }
  size_t extent;
  if (!checked_mul(axis.kernel - 1, axis.dilation, &extent) || extent >= max_size) {
    return fail(QN_INVALID_ARGUMENT, "%s: %s kernel %zu with dilation %zu is too large", who, direction, axis.kernel,
                axis.dilation);
  }
  return QN_OK;
}

qn_status size_axis(const char* who, const char* direction, size_t in, bool ceil_mode, Axis* axis) {
  if (in > max_size) return fail(QN_UNSUPPORTED, "%s: %s %zu of the input is too large", who, direction, in);
  axis->in = in;
  axis->out = window_output(in, axis->kernel, axis->stride, axis->dilation, axis->before, axis->after, ceil_mode);
  if (axis->out > 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: %s %zu of the input with padding is smaller than the window's %zu", who,
              direction, in + axis->before + axis->after, axis->extent());
}

bool rows_inside(const Axis& axis, size_t o) {
  return axis.inside(axis.at(o, 0)) && axis.inside(axis.at(o, axis.kernel - 1));
}

// The first row of the image that a window may see.
size_t first_row_inside(const Axis& axis, size_t o) {
  return static_cast<size_t>(std::clamp<int64_t>(axis.at(o, 0), 0, static_cast<int64_t>(axis.in) - 1));
}

// Neighbouring pixels share columns of a row table, but not with dilation.
bool shares_columns(const Axis& w) { return w.dilation == 1; }
size_t table_columns(const Axis& w) { return shares_columns(w) ? (w.out - 1) * w.stride + w.kernel : w.out * w.kernel; }

}  // namespace

size_t window_output(size_t in, size_t kernel, size_t stride, size_t dilation, size_t before, size_t after, bool ceil) {
  const uint64_t extent = window_extent(kernel, dilation), image_end = uint64_t{in} + before,
                 padded = image_end + after;
  if (padded < extent) return ceil && extent - padded < stride ? 1 : 0;
  uint64_t out = (padded - extent) / stride + 1;
  if (ceil && (padded - extent) % stride != 0 && out * stride < image_end) ++out;
  return static_cast<size_t>(out);
}

Window Window::tall(size_t rows) const {
  Window window = *this;
  window.h.kernel = (rows - 1) * h.stride + h.kernel;
  window.h.stride = rows * h.stride;
  window.h.out = divide_up(h.out, rows);
  return window;
}

qn_status make_window(const char* who, qn_hw kernel, qn_hw stride, qn_hw dilation, const qn_padding& padding,
                      Window* window) {
  window->h = {kernel.h, stride.h, dilation.h, padding.top, padding.bottom};
  window->w = {kernel.w, stride.w, dilation.w, padding.left, padding.right};
  QN_TRY(check_axis(who, "vertical", window->h));
  return check_axis(who, "horizontal", window->w);
}

qn_status size_window(const char* who, size_t height, size_t width, bool ceil_mode, Window* window) {
  QN_TRY(size_axis(who, "height", height, ceil_mode, &window->h));
  return size_axis(who, "width", width, ceil_mode, &window->w);
}

Span columns_inside(const Axis& axis) {
  const size_t begin = std::min(divide_up(axis.before, axis.stride), axis.out);
  if (axis.extent() > axis.in + axis.before) return {begin, begin};
  const size_t end = (axis.in + axis.before - axis.extent()) / axis.stride + 1;
  return {begin, std::clamp(end, begin, axis.out)};
}

void stride_window(const qn_tensor& in, Window* window) {
  window->row_stride = in.stride[1];
  window->pixel_stride = in.stride[2];
}

bool Window::row_offsets_fit() const {
  const size_t rows = std::min(h.extent(), h.in);
  return (rows - 1) * row_stride + (w.in - 1) * pixel_stride <= INT32_MAX;
}

bool row_tables_fit(const Window& window) {
  if (!window.row_offsets_fit()) return false;
  const Axis &h = window.h, &w = window.w;
  size_t entries;
  for (const Axis* axis : {&h, &w}) {
    if (!checked_mul(axis->out, axis->kernel, &entries) || entries > max_table_entries) return false;
  }
  size_t tables = 1;  // the shared table, and one more for each row at the edges
  for (size_t y = 0; y < h.out; ++y) tables += !rows_inside(h, y);
  return checked_mul(table_columns(w), h.kernel, &entries) && checked_mul(entries, tables, &entries) &&
         entries <= max_table_entries;
}

RowTables make_row_tables(const Window& window) {
  const Axis &h = window.h, &w = window.w;
  const bool shared_columns = shares_columns(w);
  const size_t columns = table_columns(w);
  RowTables tables;
  tables.step = (shared_columns ? w.stride : w.kernel) * h.kernel * sizeof(int32_t);
  tables.rows.reserve(h.out);

  const auto add_table = [&](size_t y_out, size_t base) {
    for (size_t column = 0; column < columns; ++column) {
      const int64_t x = shared_columns ? static_cast<int64_t>(column) - static_cast<int64_t>(w.before)
                                       : w.at(column / w.kernel, column % w.kernel);
      for (size_t k = 0; k < h.kernel; ++k) {
        tables.offsets.push_back(window.offset(h.at(y_out, k), x, base));
      }
    }
  };
  constexpr size_t none = SIZE_MAX;
  size_t shared = none;
  for (size_t y = 0; y < h.out; ++y) {
    const bool inside = rows_inside(h, y);
    const size_t base = first_row_inside(h, y) * window.row_stride;
    size_t table = inside ? shared : none;
    if (table == none) {
      table = tables.offsets.size();
      add_table(y, base);
      if (inside) shared = table;
    }
    tables.rows.push_back({table, base});
  }
  return tables;
}

RowPlan::~RowPlan() = default;

RowPlan::RowPlan(const Request& request, const Window& window, size_t channel_step, size_t tile_rows)
    : width_(window.w.out),
      row_stride_(request.out.stride[1]),
      c_stride_(request.out.stride[2]),
      tables_(make_row_tables(tile_rows == 1 ? window : window.tall(tile_rows))),
      in_(request.ins[0]),
      out_(request.out),
      channel_step_(channel_step),
      tile_rows_(tile_rows),
      tiles_(tables_.rows.size()),
      taps_(window.taps()) {
  step_ = tables_.step;
  const size_t rows = out_.shape[0] * tiles_, channels = out_.shape[3];
  // Divide channels only where there are too few rows.
  const size_t wanted = wanted_chunks(request.options.tasks);
  channel_split_ = {divide_up(channels, channel_step), 1};
  channel_split_.chunks = std::min(channel_split_.count, divide_up(wanted, std::min(rows, wanted)));
  const size_t elements = tile_rows * width_ * divide_up(channels, channel_split_.chunks) * window.taps();
  task_split_ = split(rows * channel_split_.chunks, request.options.tasks, divide_up(min_task_products, elements));
  phases = {task_split_.chunks};
  by_rows = this;
}

void RowPlan::task(const Run& run, size_t, size_t index) const {
  Watch watch(run);
  for (size_t i = task_split_.begin(index); i < task_split_.end(index); ++i) {
    const size_t chunk = i % channel_split_.chunks, row = i / channel_split_.chunks;
    const size_t tile = row % tiles_, image = row / tiles_;
    const size_t begin = channel_split_.begin(chunk) * channel_step_;
    const size_t end = std::min(channel_split_.end(chunk) * channel_step_, out_.shape[3]);
    const char* const a = run.input(0) + image * in_.stride[0];
    if (!run_tile(a, run.output + image * out_.stride[0], 0, tile, begin, end, &watch)) return;
  }
}

bool RowPlan::run_tile(const char* a, char* c, size_t top, size_t tile, size_t begin, size_t end, Watch* watch) const {
  const RowTables::Row& table = tables_.rows[tile];
  const size_t y = tile * tile_rows_, rows = std::min(tile_rows_, out_.shape[1] - y);
  const size_t work = rows * (end - begin) * taps_;  // of a pixel
  const size_t most = tile_rows_ == 1 ? std::max<size_t>(Watch::interval / work, 1) : width_;
  for (size_t x = 0; x < width_; x += most) {
    const size_t width = std::min(most, width_ - x);
    if (watch->stops(width * work)) return false;
    run_row({y, rows, x, width, begin, end - begin, tables_.offsets.data() + table.table + x * step_ / sizeof(int32_t),
             a + table.base + begin * qn_type_size(in_.type),
             c + (y - top) * out_.stride[1] + x * c_stride_ + begin * qn_type_size(out_.type)});
  }
  return true;
}

void RowPlan::run_rows(const Run& run, size_t image, size_t begin, size_t end) const {
  Watch watch(run);
  for (size_t tile = begin / tile_rows_; tile * tile_rows_ < end; ++tile) {
    const char* const a = run.input(0) + image * in_.stride[0];
    if (!run_tile(a, run.output, begin, tile, 0, out_.shape[3], &watch)) return;
  }
}

}  // namespace quern
