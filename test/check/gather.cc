// The cases of the gather family.  Contract: src/kernel/gather.h
#include "kernel/gather.h"

#include <cstring>

#include "checker.h"

namespace quern::check {
namespace {

struct GatherMemory {
  Guarded pieces{"pieces", Access::input}, a{"a", Access::input}, c{"c", Access::output};
};

// Where each pixel of a row comes from: a float of A, or nowhere.
constexpr size_t nowhere = SIZE_MAX;

// Runs of neighbours, of any length up to `run`, and now and then some that come from nowhere.
std::vector<size_t> origins(size_t pixels, size_t a_floats, size_t run, Random& random) {
  std::vector<size_t> from;
  while (from.size() < pixels) {
    const size_t length = 1 + random.below(static_cast<uint32_t>(std::min(run, a_floats)));
    const size_t first = random.below(static_cast<uint32_t>(a_floats - length + 1));
    const bool none = random.below(4) == 0;
    for (size_t i = 0; i < length && from.size() < pixels; ++i) from.push_back(none ? nowhere : first + i);
  }
  from.front() = 0, from.back() = a_floats - 1;  // so that all of A is granted
  return from;
}

std::vector<qn_gather_piece> pieces_of(const std::vector<size_t>& from, size_t lanes) {
  std::vector<qn_gather_piece> pieces;
  for (size_t v = 0; v < from.size(); v += lanes) {
    const size_t begin = pieces.size();
    for (size_t lane = 0; lane < lanes; ++lane) {
      if (from[v + lane] == nowhere) continue;
      const int32_t offset = 4 * (static_cast<int32_t>(from[v + lane]) - static_cast<int32_t>(lane));
      if (pieces.size() == begin || pieces.back().offset != offset) pieces.push_back({offset, 0, 0});
      pieces.back().lanes = static_cast<uint16_t>(pieces.back().lanes | 1u << lane);
    }
    if (pieces.size() == begin) pieces.push_back({0, 0, 0});
    pieces.back().last = 1;
  }
  return pieces;
}

bool check_size(Checker& checker, GatherMemory& memory, size_t lanes, size_t rows, size_t vectors, size_t run,
                Values values, Side side, size_t gap) {
  const size_t pixels = vectors * lanes, a_floats = pixels + 3, a_stride = a_floats + gap, c_stride = pixels + gap;
  const std::vector<size_t> from = origins(pixels, a_floats, run, checker.random());
  const std::vector<qn_gather_piece> pieces = pieces_of(from, lanes);
  memory.pieces.place(pieces.size() * sizeof pieces[0], side);
  std::memcpy(memory.pieces.as<char>(), pieces.data(), memory.pieces.size());
  memory.a.place(((rows - 1) * a_stride + a_floats) * 4, side);
  memory.c.place(((rows - 1) * c_stride + pixels) * 4, side);
  std::vector<float> c = memory.c.blank<float>();
  for (size_t r = 0; r < rows; ++r) {
    float* const row = memory.a.floats() + r * a_stride;
    for (size_t p = 0; p < pixels; ++p) {  // what no pixel comes from stays poison
      if (from[p] != nowhere) row[from[p]] = checker.random().value(values);
    }
    for (size_t p = 0; p < pixels; ++p) c[r * c_stride + p] = from[p] == nowhere ? 0 : row[from[p]];
  }
  return checker.run(
      {rows, vectors, memory.pieces.address(), memory.a.address(), a_stride * 4, memory.c.address(), c_stride * 4},
      {&memory.pieces, &memory.a, &memory.c}, {{&memory.c, c}}, [&] {
        return "rows=" + std::to_string(rows) + " vectors=" + std::to_string(vectors) + " run=" + std::to_string(run) +
               " gap=" + std::to_string(gap) + (side == Side::high ? " high " : " low ") + name_of(values);
      });
}

void check_gather(Checker& checker, size_t lanes) {
  GatherMemory memory;
  for (const size_t run : {1, 2, 5, 40}) {
    for (size_t vectors = 1; vectors <= 6; ++vectors) {
      for (size_t rows = 1; rows <= 9; ++rows) {
        if (!check_size(checker, memory, lanes, rows, vectors, run, Values::random, Side::high, 0)) return;
        if (!check_size(checker, memory, lanes, rows, vectors, run, Values::extreme, Side::low, 5)) return;
      }
    }
  }
}

}  // namespace

Kernel make_kernel(const GatherRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_gather(checker, row.lanes); }};
}

std::vector<Kernel> gather_kernels() {
  std::vector<Kernel> list;
  for (const GatherRow& row : gather_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
