#include "indirect.h"

namespace quern::check {

std::vector<int32_t> draw_entries(size_t entries, size_t rows, Random& random, const MayPad& may_pad) {
  std::vector<int32_t> list(entries);
  for (size_t i = 0; i < entries; ++i) {
    list[i] = may_pad(i) && random.below(5) == 0 ? -1 : static_cast<int32_t>(random.below(rows));
  }
  // Both ends of the image are in use, for it lies flush.
  list[0] = static_cast<int32_t>(rows - 1);
  if (entries > 1) list[1] = 0;
  return list;
}

void spoil_entries(Guarded& table, const std::function<bool(size_t entry)>& unused) {
  constexpr int32_t far_away = 0x7fff0000;
  for (size_t i = 0; i < table.size() / 4; ++i) {
    if (unused(i)) table.as<int32_t>()[i] = far_away;
  }
}

}  // namespace quern::check
