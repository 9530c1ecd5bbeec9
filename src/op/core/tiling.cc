#include "op/core/tiling.h"

#include <cmath>

#include "base/cpu.h"

namespace quern {
namespace {

// A task has at least this many multiply-adds: a few microseconds of work.
constexpr double min_task_macs = 2e5;

// Two values of waste() that differ by less than this count as equal.
constexpr double even_enough = 0.03;

// At most `wanted` chunks. If there are more chunks than tasks, their number is a multiple of the tasks.
size_t even_chunks(size_t count, size_t wanted, size_t tasks) {
  const size_t chunks = std::min(count, wanted);
  return chunks > tasks ? chunks / tasks * tasks : chunks;
}

// The work of the busiest of `tasks` threads, divided by its fair share.
double waste(size_t count, size_t tasks) {
  return static_cast<double>(divide_up(count, tasks) * tasks) / static_cast<double>(count);
}

}  // namespace

// Divides the work into units for the threads: about wanted_chunks() units, but fewer if they would be too small.
void Tiling::divide(size_t tasks) {
  const double macs = static_cast<double>(shape_.count) * static_cast<double>(shape_.m) *
                      static_cast<double>(shape_.n) * static_cast<double>(shape_.row_bytes / sizeof(float));
  const size_t worth = static_cast<size_t>(std::clamp(macs / min_task_macs, 1.0, 1.0 * wanted_chunks(tasks)));
  const size_t pieces = divide_up(worth, shape_.count);  // pieces of each product

  // First divide the direction, rows or panels, that gives the more even shares. If both are equally even, divide the
  // larger operand: each thread then reads a part of it, and all of the smaller one.
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

Tiling::Blocks::Blocks(const Tiling& its_tiling, const qn_parallel* parallel, size_t task)
    : tiling(its_tiling), watch(parallel), unit(tiling.tasks_.begin(task)), last_unit(tiling.tasks_.end(task)) {}

bool Tiling::Blocks::next() {
  const TilingShape& shape = tiling.shape_;
  begin = end;
  if (begin == m_end) {
    n += tiling.block_;
    if (n >= n_end) {
      if (unit == last_unit) return false;
      const Split &m_split = tiling.m_, &n_split = tiling.n_;
      const size_t n_chunk = unit % n_split.chunks, rest = unit / n_split.chunks;
      const size_t m_chunk = rest % m_split.chunks;
      product = rest / m_split.chunks;
      m_begin = m_split.begin(m_chunk) * shape.mr;
      m_end = std::min(m_split.end(m_chunk) * shape.mr, shape.m);
      n = n_split.begin(n_chunk) * shape.nr;
      n_end = std::min(n_split.end(n_chunk) * shape.nr, shape.n);
      ++unit;
    }
    begin = m_begin;
    channels = std::min(tiling.block_, n_end - n);
  }
  end = std::min(begin + tiling.watched_rows_, m_end);
  return !watch.stops(tiling.watched_work_);
}

Tiling::Tiling(const TilingShape& shape, size_t tasks) : shape_(shape) {
  m_.count = divide_up(shape.m, shape.mr);
  // Tiles may have fewer rows where the kernel reads the panels again for the next rows anyway: as many tiles for all.
  const size_t pass = std::max<size_t>(shape.pass_rows, 1);
  if (has_tiles && shape.mr > pass) m_.count = std::min(round_up(m_.count, tasks), divide_up(shape.m, pass));
  shape_.mr = round_up(divide_up(shape.m, m_.count), shape.unit);
  m_.count = divide_up(shape.m, shape_.mr);
  n_.count = divide_up(shape.n, shape.nr);
  divide(tasks);

  // Where each panel is read once, the cache does not matter.
  const bool once = m_.count == 1 && shape_.mr <= shape.pass_rows;
  const size_t panels =
      once ? std::max<size_t>(Watch::interval * sizeof(float) / std::max<size_t>(shape.panel_bytes, 1), 1)
           : panels_in_l2(shape.panel_bytes);
  block_ = shape.whole_channels ? n_.count * shape.nr : std::min(panels, n_.count) * shape.nr;
  const size_t row_work = block_ * std::max<size_t>(shape.row_bytes / sizeof(float), 1);
  watched_rows_ = std::max<size_t>(Watch::interval / row_work / shape_.mr, 1) * shape_.mr;
  watched_work_ = watched_rows_ * row_work;
}

}  // namespace quern
