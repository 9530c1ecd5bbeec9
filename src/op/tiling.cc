#include "op/tiling.h"

#include "base/cpu.h"

namespace quern {
namespace {

// Multiply-adds that are worth a task of their own: a few microseconds.
constexpr double min_task_macs = 2e5;

}  // namespace

Tiling::Tiling(const TilingShape& shape, size_t tasks) : shape_(shape) {
  m_.count = divide_up(shape.m, shape.mr);
  n_.count = divide_up(shape.n, shape.nr);

  const double macs = static_cast<double>(shape.count) * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                      static_cast<double>(shape.row_bytes / sizeof(float));
  const size_t wanted = wanted_chunks(tasks);
  const double worth = std::clamp(macs / min_task_macs, 1.0, static_cast<double>(wanted));
  const size_t pieces = divide_up(static_cast<size_t>(worth), std::min(shape.count, wanted));
  // Divide the larger operand first: each thread then reads a part of it, and all of the smaller one.
  const bool weights_larger = static_cast<double>(n_.count) * static_cast<double>(shape.panel_bytes) >
                              static_cast<double>(shape.m) * static_cast<double>(shape.row_bytes);
  Split* first = weights_larger && !shape.whole_channels ? &n_ : &m_;
  Split* second = first == &n_ ? &m_ : &n_;
  first->chunks = std::min(pieces, first->count);
  if (!shape.whole_channels) second->chunks = std::min(divide_up(pieces, first->chunks), second->count);

  const size_t units = shape.count * m_.chunks * n_.chunks;
  tasks_ = {units, std::min(units, static_cast<size_t>(worth))};

  const size_t panels = std::max<size_t>(cpu().l2_bytes / 2 / std::max<size_t>(shape.panel_bytes, 1), 1);
  block_ = shape.whole_channels || m_.count == 1 ? n_.count * shape.nr : std::min(panels, n_.count) * shape.nr;
}

}  // namespace quern
