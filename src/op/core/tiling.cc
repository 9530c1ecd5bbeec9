#include "op/core/tiling.h"

#include <cmath>

#include "base/cpu.h"

namespace quern {
namespace {

// Multiply-adds that are worth a task of their own: a few microseconds.
constexpr double min_task_macs = 2e5;

// Shares that differ by less are alike.
constexpr double even_enough = 0.03;

// At most `wanted` chunks, as many for each of the tasks where there are enough.
size_t even_chunks(size_t count, size_t wanted, size_t tasks) {
  const size_t chunks = std::min(count, wanted);
  return chunks > tasks ? chunks / tasks * tasks : chunks;
}

// What the busiest of `tasks` threads has to do, in times of its fair share.
double waste(size_t count, size_t tasks) {
  return static_cast<double>(divide_up(count, tasks) * tasks) / static_cast<double>(count);
}

}  // namespace

// Units for the threads: about wanted_chunks() of them, fewer where that would be less than a few microseconds' work.
void Tiling::divide(size_t tasks) {
  const double macs = static_cast<double>(shape_.count) * static_cast<double>(shape_.m) *
                      static_cast<double>(shape_.n) * static_cast<double>(shape_.row_bytes / sizeof(float));
  const size_t worth = static_cast<size_t>(std::clamp(macs / min_task_macs, 1.0, 1.0 * wanted_chunks(tasks)));
  const size_t pieces = divide_up(worth, shape_.count);  // of each product

  // Divide what gives even shares; of both, the larger operand: each thread then reads a part of it, and all of the
  // smaller one.
  const bool weights_larger = static_cast<double>(n_.count) * static_cast<double>(shape_.panel_bytes) >
                              static_cast<double>(shape_.m) * static_cast<double>(shape_.row_bytes);
  const double m_waste = waste(m_.count, tasks), n_waste = waste(n_.count, tasks);
  const bool even = std::abs(m_waste - n_waste) < even_enough;
  const bool n_first = !shape_.whole_channels && (even ? weights_larger : n_waste < m_waste);
  Split* first = n_first ? &n_ : &m_;
  Split* second = n_first ? &m_ : &n_;
  first->chunks = even_chunks(first->count, pieces, tasks);
  if (!shape_.whole_channels) second->chunks = std::min(divide_up(pieces, first->chunks), second->count);

  const size_t units = shape_.count * m_.chunks * n_.chunks;
  tasks_ = {units, even_chunks(units, worth, tasks)};
}

Tiling::Tiling(const TilingShape& shape, size_t tasks) : shape_(shape) {
  m_.count = divide_up(shape.m, shape.mr);
  shape_.mr = divide_up(shape.m, m_.count);
  n_.count = divide_up(shape.n, shape.nr);
  divide(tasks);

  const size_t panels = std::max<size_t>(cpu().l2_bytes / 2 / std::max<size_t>(shape.panel_bytes, 1), 1);
  block_ = shape.whole_channels || m_.count == 1 ? n_.count * shape.nr : std::min(panels, n_.count) * shape.nr;
}

}  // namespace quern
