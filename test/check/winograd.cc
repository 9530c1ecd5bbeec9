// The cases of the winograd family: each row has two kernels.  Contract: src/kernel/winograd.h
#include "kernel/winograd.h"

#include <deque>

#include "checker.h"
#include "kernel/winograd_math.h"

namespace quern::check {
namespace {

// A table does not tell how many channels a kernel handles at a time: 32 covers two vectors of the widest level.
constexpr size_t block = 32;

// ---- input ----

struct InputMemory {
  Guarded a{"a", Access::input}, zero{"zero", Access::input}, v{"v", Access::output};
};

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
bool check_input(Checker& checker, InputMemory& memory, size_t channels, const Inside& in, Values values, Side side,
                 size_t gap) {
  constexpr size_t n = m + 2;
  const size_t pixel = channels + gap, row = in.columns() * pixel + gap, plane = channels + gap;
  const bool any = in.rows() * in.columns() > 0;
  memory.a.place(any ? ((in.rows() - 1) * row + (in.columns() - 1) * pixel + channels) * 4 : 0, side);
  memory.zero.place(in.rows() * in.columns() < n * n ? channels * 4 : 0, side);
  memory.v.place(((n * n - 1) * plane + channels) * 4, side);
  for (size_t i = 0; i < memory.zero.size() / 4; ++i) memory.zero.floats()[i] = 0;

  std::vector<float> v(memory.v.size() / 4, poison_float());
  for (size_t c = 0; c < channels; ++c) {
    float half[n][n], d[n], t[n];
    for (size_t x = 0; x < n; ++x) {
      for (size_t y = 0; y < n; ++y) {
        d[y] = in.has(y, x) ? checker.random().value(values) : 0.0f;
        if (in.has(y, x)) memory.a.floats()[(y - in.top) * row + (x - in.left) * pixel + c] = d[y];
      }
      Winograd<m>::input(d, t);
      for (size_t i = 0; i < n; ++i) half[i][x] = t[i];
    }
    for (size_t i = 0; i < n; ++i) {
      Winograd<m>::input(half[i], t);
      for (size_t j = 0; j < n; ++j) v[(i * n + j) * plane + c] = t[j];
    }
  }
  return checker.run({channels, memory.a.address(), row * 4, pixel * 4, in.top, in.bottom, in.left, in.right,
                      memory.zero.address(), memory.v.address(), plane * 4},
                     {&memory.a, &memory.zero, &memory.v}, {{&memory.v, v}}, [&] {
                       return "channels=" + std::to_string(channels) + " inside=" + in.text() +
                              " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") +
                              name_of(values);
                     });
}

template <size_t m>
void check_inputs(Checker& checker) {
  constexpr size_t n = m + 2;
  InputMemory memory;
  const Inside some[] = {{0, n, 0, n}, {1, n, 1, n}, {0, n - 1, 1, n - 2}, {n - 1, n, 0, 1},
                         {1, 2, 0, n}, {0, 0, n, n}, {2, 2, 0, n},         {0, n, n - 1, n - 1}};
  for (const size_t channels : {2 * block + 1, block, block - 1, size_t{1}}) {
    for (const Inside& in : some) {
      if (!check_input<m>(checker, memory, channels, in, Values::extreme, Side::high, 0)) return;
      if (!check_input<m>(checker, memory, channels, in, Values::random, Side::low, 5)) return;
    }
  }
  for (size_t channels = 1; channels <= 2 * block + 17; ++channels) {
    for (const Inside& in : some) {
      if (!check_input<m>(checker, memory, channels, in, Values::random, Side::high, 0)) return;
      if (!check_input<m>(checker, memory, channels, in, Values::integers, Side::low, 3)) return;
    }
  }
  // Every part of a tile.
  for (size_t top = 0; top <= n; ++top) {
    for (size_t bottom = top; bottom <= n; ++bottom) {
      for (size_t left = 0; left <= n; ++left) {
        for (size_t right = left; right <= n; ++right) {
          if (!check_input<m>(checker, memory, 3, {top, bottom, left, right}, Values::random, Side::high, 1)) return;
        }
      }
    }
  }
}

// ---- output ----

struct OutputMemory {
  Guarded m{"m", Access::input}, bias{"bias", Access::input}, c{"c", Access::output}, p{"p", Access::input};
};

template <size_t m>
bool check_output(Checker& checker, OutputMemory& memory, size_t channels, size_t rows, size_t columns, Values values,
                  Clamp limits, Side side, size_t gap) {
  constexpr size_t n = m + 2;
  const qn_minmax_f32 clamp = {limits.min, limits.max};
  const size_t pixel = channels + gap, row = columns * pixel + gap, plane = channels + gap;
  memory.m.place(((n * n - 1) * plane + channels) * 4, side);
  memory.bias.place(channels * 4, side);
  memory.c.place(((rows - 1) * row + (columns - 1) * pixel + channels) * 4, side);
  memory.p.place(sizeof clamp, side);
  memory.p.floats()[0] = clamp.min;
  memory.p.floats()[1] = clamp.max;

  std::vector<float> c(memory.c.size() / 4, poison_float());
  for (size_t channel = 0; channel < channels; ++channel) {
    float half[m][n], p[n], y[m];
    const float bias = memory.bias.floats()[channel] = checker.random().value(values);
    for (size_t j = 0; j < n; ++j) {
      for (size_t i = 0; i < n; ++i) {
        p[i] = memory.m.floats()[(i * n + j) * plane + channel] = checker.random().value(values);
      }
      Winograd<m>::output(p, y);
      for (size_t i = 0; i < m; ++i) half[i][j] = y[i];
    }
    for (size_t i = 0; i < rows; ++i) {
      Winograd<m>::output(half[i], y);
      for (size_t j = 0; j < columns; ++j) c[i * row + j * pixel + channel] = quern::clamp(y[j] + bias, clamp);
    }
  }
  return checker.run({channels, memory.m.address(), plane * 4, memory.bias.address(), memory.c.address(), row * 4,
                      pixel * 4, rows, columns, memory.p.address()},
                     {&memory.m, &memory.bias, &memory.c, &memory.p}, {{&memory.c, c}}, [&] {
                       return "channels=" + std::to_string(channels) + " rows=" + std::to_string(rows) +
                              " columns=" + std::to_string(columns) + " gap=" + std::to_string(gap) +
                              (side == Side::high ? " high " : " low ") + name_of(values);
                     });
}

template <size_t m>
void check_outputs(Checker& checker) {
  OutputMemory memory;
  for (const size_t channels : {2 * block + 1, block, block - 1, size_t{1}}) {
    for (const Clamp clamp : clamps) {
      if (!check_output<m>(checker, memory, channels, m, m, Values::extreme, clamp, Side::high, 0)) return;
      if (!check_output<m>(checker, memory, channels, m - 1, m, Values::random, clamp, Side::low, 5)) return;
    }
  }
  for (size_t channels = 1; channels <= 2 * block + 17; ++channels) {
    for (size_t rows = 1; rows <= m; ++rows) {
      for (size_t columns = 1; columns <= m; ++columns) {
        if (!check_output<m>(checker, memory, channels, rows, columns, Values::random, clamps[0], Side::high, 0))
          return;
      }
      if (!check_output<m>(checker, memory, channels, rows, m, Values::integers, {-50, 60}, Side::low, 3)) return;
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
  result.name = names.emplace_back(std::string(row.name) + suffix).c_str();
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
