#include "tool/predict/phone_core.h"

#include <algorithm>

namespace quern::predict {
namespace {

// Clocks, numbers of cores and sizes of caches are those that the makers of the chips publish. The bandwidths of caches
// and memory are assumptions: round figures, about as large as published benchmarks of memory show for such phones.
constexpr size_t k = 1024;
constexpr PhoneCore cores[] = {
    // name  model            its name       chip              count ghz peak in order l1  last     cache GB/s all
    {"a53", CoreModel::a53, "cortex-a53", "Snapdragon 625", 8, 2.0, 4, true, 32 * k, 512 * k, 4, 3, 5},
    {"a55", CoreModel::a55, "cortex-a55", "Snapdragon 845", 4, 1.77, 4, true, 32 * k, 2048 * k, 5, 4, 8},
    {"a57", CoreModel::a57, "cortex-a57", "Snapdragon 810", 4, 2.0, 4, false, 32 * k, 2048 * k, 8, 6, 10},
    {"a72", CoreModel::a57, "cortex-a57", "Snapdragon 652", 4, 1.8, 4, false, 32 * k, 1024 * k, 8, 6, 10},
    {"a73", CoreModel::a57, "cortex-a57", "Snapdragon 835", 4, 2.45, 4, false, 32 * k, 2048 * k, 8, 9, 15},
    {"a75", CoreModel::a57, "cortex-a57", "Snapdragon 845", 4, 2.8, 4, false, 64 * k, 2048 * k, 12, 12, 18},
    {"kryo", CoreModel::kryo, "kryo", "Snapdragon 820", 2, 2.15, 4, false, 32 * k, 1024 * k, 8, 10, 15},
    {"a76", CoreModel::n1, "neoverse-n1", "Snapdragon 855", 4, 2.84, 8, false, 64 * k, 2048 * k, 16, 14, 20},
    {"a78", CoreModel::n1, "neoverse-n1", "Snapdragon 888", 3, 2.42, 8, false, 64 * k, 4096 * k, 16, 16, 30},
    {"a710", CoreModel::n2, "neoverse-n2", "Snapdragon 8 Gen 1", 3, 2.5, 8, false, 64 * k, 6144 * k, 16, 18, 35},
    {"x1", CoreModel::v1, "neoverse-v1", "Snapdragon 888", 1, 2.84, 16, false, 64 * k, 4096 * k, 24, 20, 30},
    {"x3", CoreModel::v2, "neoverse-v2", "Snapdragon 8 Gen 2", 1, 3.2, 16, false, 64 * k, 8192 * k, 24, 25, 45},
};

}  // namespace

std::span<const PhoneCore> phone_cores() { return cores; }

const PhoneCore* find_phone_core(const std::string& name) {
  const auto called = [&](const std::string& known) { return name == known || name == "cortex-" + known; };
  const auto by_name =
      std::find_if(std::begin(cores), std::end(cores), [&](const auto& core) { return called(core.name); });
  if (by_name != std::end(cores)) return by_name;
  const auto by_model = std::find_if(std::begin(cores), std::end(cores), [&](const auto& core) {
    return name == core.model_name || "neoverse-" + name == core.model_name;
  });
  return by_model != std::end(cores) ? by_model : nullptr;
}

}  // namespace quern::predict
