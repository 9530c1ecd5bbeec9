#include "tool/predict/phone_core.h"

#include <algorithm>
#include <array>

#include "kernel/row.h"

// The table asks what it is compiled for.
#undef QN_ARCH_X86_64
#undef QN_ARCH_ARM64
#define QN_ARCH_X86_64 0
#define QN_ARCH_ARM64 1

namespace quern::predict {
namespace {

constexpr MachineEntry machines[] = {
#define QN_MACHINE(level, core, ...) {level, core, {__VA_ARGS__}},
#include "op/core/machine.inc"
};

// Clocks, numbers of cores and sizes of caches are those that the makers of the chips publish, features those that Linux
// names on them (asimddp, i8mm in /proc/cpuinfo). The bandwidths of memory, and of caches in machine.inc, are assumptions:
// round figures, about as large as published benchmarks of memory show for such phones.
constexpr size_t k = 1024;
constexpr uint32_t neon = isa_ref | isa_neon, dotprod = neon | isa_dotprod, i8mm = dotprod | isa_i8mm;
constexpr PhoneCore cores[] = {
    // name, kind, model, chip, features, count, GHz, L1, last cache, GB/s of one core and of all
    {"a53", core_a53, "cortex-a53", "Snapdragon 625", neon, 8, 2.0, 32 * k, 512 * k, 3, 5},
    {"a55", core_a55, "cortex-a55", "Snapdragon 855", dotprod, 4, 1.78, 32 * k, 2048 * k, 4, 8},
    {"a57", core_a57, "cortex-a57", "Snapdragon 810", neon, 4, 2.0, 32 * k, 2048 * k, 6, 10},
    {"a72", core_a57, "cortex-a57", "Snapdragon 652", neon, 4, 1.8, 32 * k, 1024 * k, 6, 10},
    {"a73", core_a57, "cortex-a57", "Snapdragon 835", neon, 4, 2.45, 32 * k, 2048 * k, 9, 15},
    {"a75", core_a57, "cortex-a57", "Snapdragon 845", neon, 4, 2.8, 64 * k, 2048 * k, 12, 18},
    {"kryo", core_kryo, "kryo", "Snapdragon 820", neon, 2, 2.15, 32 * k, 1024 * k, 10, 15},
    {"a76", core_n1, "neoverse-n1", "Snapdragon 855", dotprod, 4, 2.84, 64 * k, 2048 * k, 14, 20},
    {"a78", core_n1, "neoverse-n1", "Snapdragon 888", dotprod, 3, 2.42, 64 * k, 4096 * k, 16, 30},
    {"a710", core_n2, "neoverse-n2", "Snapdragon 8 Gen 1", i8mm, 3, 2.5, 64 * k, 6144 * k, 18, 35},
    {"x1", core_v1, "neoverse-v1", "Snapdragon 888", dotprod, 1, 2.84, 64 * k, 4096 * k, 20, 30},
    {"x3", core_v2, "neoverse-v2", "Snapdragon 8 Gen 2", i8mm, 1, 3.2, 64 * k, 8192 * k, 25, 45},
};

}  // namespace

const MachineRow& arm64_machine(Core core) {
  return std::find_if(std::begin(machines), std::end(machines) - 1,
                      [&](const MachineEntry& entry) { return (entry.cores & core) != 0; })
      ->row;
}

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
