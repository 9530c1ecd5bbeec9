// The cases of the deal family.  Contract: src/kernel/deal.h
#include "kernel/deal.h"

#include <cstring>

#include "sums.h"

namespace quern::check {
namespace {

struct DealMemory {
  Guarded a{"a", Access::input}, c{"c", Access::output};
};

bool check_size(Checker& checker, DealMemory& memory, size_t lanes, size_t rows, size_t groups, Side side, size_t gap) {
  const size_t group = dealt_pixels(lanes), pixels = groups * group;
  const size_t a_stride = 4 * pixels + gap, c_stride = pixels + gap;
  std::vector<int8_t> a(rows * 4 * pixels);
  for (int8_t& x : a) x = static_cast<int8_t>(checker.random().below(256));
  return every_fill<Int8Sums>(side, [&](Place place) {
    memory.a.place((rows - 1) * a_stride + 4 * pixels, place);
    memory.c.place((4 * rows - 1) * c_stride + pixels, place);
    std::vector<int8_t> c = memory.c.blank<int8_t>();
    for (size_t r = 0; r < rows; ++r) {
      std::memcpy(memory.a.as<char>() + r * a_stride, &a[r * 4 * pixels], 4 * pixels);
      for (size_t i = 0; i < 4 * pixels; ++i) {
        const size_t pixel = i / 4, at = pixel / group * group + dealt_place(lanes, pixel % group);
        c[(4 * r + i % 4) * c_stride + at] = a[r * 4 * pixels + i];
      }
    }
    return checker.run({rows, groups, memory.a.address(), a_stride, memory.c.address(), c_stride},
                       {&memory.a, &memory.c}, {{&memory.c, c}}, [&] {
                         return "rows=" + std::to_string(rows) + " groups=" + std::to_string(groups) +
                                " gap=" + std::to_string(gap) + (side == Side::high ? " high" : " low");
                       });
  });
}

void check_deal(Checker& checker, size_t lanes) {
  DealMemory memory;
  for (size_t groups = 1; groups <= 4; ++groups) {
    for (size_t rows = 1; rows <= 9; ++rows) {
      if (!check_size(checker, memory, lanes, rows, groups, Side::high, 0)) return;
      if (!check_size(checker, memory, lanes, rows, groups, Side::low, 5)) return;
    }
  }
}

}  // namespace

Kernel make_kernel(const DealRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) { check_deal(checker, row.lanes); }};
}

std::vector<Kernel> deal_kernels() {
  std::vector<Kernel> list;
  for (const DealRow& row : deal_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
