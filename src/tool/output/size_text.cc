#include "tool/output/size_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace quern {
namespace {

constexpr SizeUnit size_units[] = {{"bytes", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

}  // namespace

const SizeUnit& size_unit(double bytes) {
  const auto found = std::find_if(std::rbegin(size_units), std::rend(size_units),
                                  [&](const SizeUnit& unit) { return unit.bytes <= bytes; });
  return found == std::rend(size_units) ? size_units[0] : *found;
}

std::string size_text(double bytes) {
  const SizeUnit& unit = size_unit(bytes);
  return unit.bytes == 1 ? fmt::format("{} bytes", bytes) : fmt::format("{:.2f} {}", bytes / unit.bytes, unit.name);
}

}  // namespace quern
