// The cases of the winograd family: each row has two kernels.  Contract: src/kernel/winograd.h
#include "kernel/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <type_traits>

#include "checker.h"
#include "kernel/winograd_math.h"

namespace quern::check {
namespace {

// A table does not tell how many channels a kernel handles at a time: 32 covers two vectors of the widest level.
constexpr size_t block = 32;

// How many outputs a tile has.
struct Size {
  size_t rows, columns;

  std::string text() const { return std::to_string(rows) + "x" + std::to_string(columns); }
};

// Calls body(std::integral_constant<size_t, k>) with the k of Winograd<m, k> that makes so many outputs.
template <size_t m, size_t k = m, class Body>
void with_transform(size_t outputs, Body body) {
  if constexpr (k > 2) {
    if (outputs <= k - 2) return with_transform<m, k - 2>(outputs, body);
  }
  body(std::integral_constant<size_t, k>());
}

// One direction of a tile, its values and products by points of Winograd<m>. NaN stands where it has none.
template <size_t m>
using Line = std::array<float, m + 2>;

template <size_t m>
Line<m> input_line(size_t outputs, const Line<m>& line) {
  Line<m> points;
  points.fill(NAN);
  with_transform<m>(outputs, [&](auto k) {
    float d[k + 2] = {}, v[k + 2];
    std::copy_n(line.begin(), outputs + 2, d);
    Winograd<m, k>::input(d, v);
    for (size_t i = 0; i < k + 2; ++i) points[i <= k ? i : m + 1] = v[i];
  });
  return points;
}
template <size_t m>
Line<m> output_line(size_t outputs, const Line<m>& points) {
  Line<m> line = {};
  with_transform<m>(outputs, [&](auto k) {
    float p[k + 2], y[k];
    for (size_t i = 0; i < k + 2; ++i) p[i] = points[i <= k ? i : m + 1];
    Winograd<m, k>::output(p, y);
    std::copy_n(y, outputs, line.begin());
  });
  return line;
}

// ---- input ----

using InputMemory = operands::WinogradInputOperands<Guarded>;

// The part of a tile that lies inside the image.
struct Inside {
  size_t top, bottom, left, right;

  bool has(size_t y, size_t x) const { return y >= top && y < bottom && x >= left && x < right; }
  size_t rows() const { return bottom - top; }
  size_t columns() const { return right - left; }
  std::string text() const {
    return std::to_string(top) + ".." + std::to_string(bottom) + " x " + std::to_string(left) + ".." +
           std::to_string(right);
  }
};

template <size_t m>
bool check_input(Checker& checker, InputMemory& memory, size_t channels, const Size& size, const Inside& in,
                 Values values, Side side, size_t gap) {
  const size_t height = size.rows + 2, width = size.columns + 2;
  const size_t pixel = channels + gap, row = in.columns() * pixel + gap, plane = channels + gap;
  memory.place(m, channels, {size.rows, size.columns, in.top, in.bottom, in.left, in.right}, {pixel, row, plane},
               Place(side));

  const Flushing flushing(checker.flushes());
  std::vector<float> v = memory.v.blank<float>();
  for (size_t c = 0; c < channels; ++c) {
    std::array<Line<m>, m + 2> half = {};
    for (size_t x = 0; x < width; ++x) {
      Line<m> column = {};
      for (size_t y = 0; y < height; ++y) {
        if (!in.has(y, x)) continue;
        column[y] = checker.random().value(values);
        memory.a.floats()[(y - in.top) * row + (x - in.left) * pixel + c] = column[y];
      }
      const Line<m> points = input_line<m>(size.rows, column);
      for (size_t i = 0; i < m + 2; ++i) half[i][x] = points[i];
    }
    for (Line<m>& line : half) line = input_line<m>(size.columns, line);
    operands::for_points(m, size.rows, size.columns,
                         [&](size_t i, size_t j) { v[(i * (m + 2) + j) * plane + c] = half[i][j]; });
  }
  return checker.run(memory, {{&memory.v, v}}, [&] {
    return "channels=" + std::to_string(channels) + " outputs=" + size.text() + " inside=" + in.text() +
           " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

template <size_t m>
void check_inputs(Checker& checker) {
  constexpr size_t n = m + 2;
  InputMemory memory;
  const Size whole = {m, m};
  const Inside some[] = {{0, n, 0, n}, {1, n, 1, n}, {0, n - 1, 1, n - 2}, {n - 1, n, 0, 1},
                         {1, 2, 0, n}, {0, 0, n, n}, {2, 2, 0, n},         {0, n, n - 1, n - 1}};
  for (const size_t channels : {2 * block + 1, block, block - 1, size_t{1}}) {
    for (const Inside& in : some) {
      if (!check_input<m>(checker, memory, channels, whole, in, Values::extreme, Side::high, 0)) return;
      if (!check_input<m>(checker, memory, channels, whole, in, Values::random, Side::low, 5)) return;
    }
  }
  for (size_t channels = 1; channels <= 2 * block + 17; ++channels) {
    for (const Inside& in : some) {
      if (!check_input<m>(checker, memory, channels, whole, in, Values::random, Side::high, 0)) return;
      if (!check_input<m>(checker, memory, channels, whole, in, Values::integers, Side::low, 3)) return;
    }
  }
  // Every size of a tile.
  for (const size_t channels : {block + 1, block, size_t{1}}) {
    for (size_t rows = 1; rows <= m; ++rows) {
      for (size_t columns = 1; columns <= m; ++columns) {
        for (const Inside& in : {Inside{0, rows + 2, 0, columns + 2}, Inside{1, rows + 1, 0, columns + 1}}) {
          if (!check_input<m>(checker, memory, channels, {rows, columns}, in, Values::extreme, Side::high, 0)) return;
          if (!check_input<m>(checker, memory, channels, {rows, columns}, in, Values::random, Side::low, 3)) return;
        }
      }
    }
  }
  // Every part of a tile.
  for (size_t top = 0; top <= n; ++top) {
    for (size_t bottom = top; bottom <= n; ++bottom) {
      for (size_t left = 0; left <= n; ++left) {
        for (size_t right = left; right <= n; ++right) {
          const Inside in = {top, bottom, left, right};
          if (!check_input<m>(checker, memory, 3, whole, in, Values::random, Side::high, 1)) return;
        }
      }
    }
  }
}

// ---- output ----

using OutputMemory = operands::WinogradOutputOperands<Guarded>;

template <size_t m>
bool check_output(Checker& checker, OutputMemory& memory, size_t channels, const Size& size, Values values,
                  Clamp limits, Side side, size_t gap) {
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  const size_t pixel = channels + gap, row = size.columns * pixel + gap, plane = channels + gap;
  memory.place(m, channels, size.rows, size.columns, {pixel, row, plane}, Place(side));
  *memory.p.as<qn_minmax_f32>() = clamp;

  const Flushing flushing(checker.flushes());
  std::vector<float> c = memory.c.blank<float>();
  for (size_t channel = 0; channel < channels; ++channel) {
    const float bias = memory.bias.floats()[channel] = checker.random().value(values);
    std::array<Line<m>, m + 2> columns;
    for (Line<m>& column : columns) column.fill(NAN);
    operands::for_points(m, size.rows, size.columns, [&](size_t i, size_t j) {
      columns[j][i] = checker.random().value(values);
      memory.m.floats()[(i * (m + 2) + j) * plane + channel] = columns[j][i];
    });
    for (Line<m>& column : columns) column = output_line<m>(size.rows, column);
    for (size_t y = 0; y < size.rows; ++y) {
      Line<m> line;
      for (size_t j = 0; j < m + 2; ++j) line[j] = columns[j][y];
      line = output_line<m>(size.columns, line);
      for (size_t x = 0; x < size.columns; ++x) c[y * row + x * pixel + channel] = quern::clamp(line[x] + bias, clamp);
    }
  }
  return checker.run(memory, {{&memory.c, c}}, [&] {
    return "channels=" + std::to_string(channels) + " outputs=" + size.text() + " gap=" + std::to_string(gap) +
           (side == Side::high ? " high " : " low ") + name_of(values);
  });
}

template <size_t m>
void check_outputs(Checker& checker) {
  OutputMemory memory;
  for (const size_t channels : {2 * block + 1, block, block - 1, size_t{1}}) {
    for (const Clamp clamp : clamps) {
      if (!check_output<m>(checker, memory, channels, {m, m}, Values::extreme, clamp, Side::high, 0)) return;
      if (!check_output<m>(checker, memory, channels, {m - 1, m}, Values::random, clamp, Side::low, 5)) return;
    }
  }
  for (size_t channels = 1; channels <= 2 * block + 17; ++channels) {
    for (size_t rows = 1; rows <= m; ++rows) {
      for (size_t columns = 1; columns <= m; ++columns) {
        for (const Values values : {Values::random, Values::extreme}) {
          if (!check_output<m>(checker, memory, channels, {rows, columns}, values, clamps[0], Side::high, 0)) return;
        }
      }
      if (!check_output<m>(checker, memory, channels, {rows, m}, Values::integers, {-50, 60}, Side::low, 3)) return;
    }
  }
}

template <template <size_t> class Check>
void by_size(const WinogradRow& row, Checker& checker) {
  switch (row.outputs) {
    case 2: Check<2>::run(checker); break;
    case 4: Check<4>::run(checker); break;
    default: Check<6>::run(checker); break;
  }
}
template <size_t m>
struct Inputs {
  static void run(Checker& checker) { check_inputs<m>(checker); }
};
template <size_t m>
struct Outputs {
  static void run(Checker& checker) { check_outputs<m>(checker); }
};

// The row under the name of one of its kernels.
const Row& part(const WinogradRow& row, const char* suffix) {
  static std::deque<std::string> names;
  static std::deque<Row> parts;
  Row& result = parts.emplace_back(row);
  result.set_name(names.emplace_back(std::string(row.name) + suffix).c_str());
  return result;
}

}  // namespace

Kernel make_input_kernel(const WinogradRow& row) {
  return {&part(row, "_input"), reinterpret_cast<const void*>(row.input),
          [&row](Checker& checker) { by_size<Inputs>(row, checker); }};
}

Kernel make_output_kernel(const WinogradRow& row) {
  return {&part(row, "_output"), reinterpret_cast<const void*>(row.output),
          [&row](Checker& checker) { by_size<Outputs>(row, checker); }};
}

std::vector<Kernel> winograd_kernels() {
  std::vector<Kernel> list;
  for (const WinogradRow& row : winograd_rows()) {
    list.push_back(make_input_kernel(row));
    list.push_back(make_output_kernel(row));
  }
  return list;
}

}  // namespace quern::check
