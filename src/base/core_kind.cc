#include "base/core_kind.h"

namespace quern {
namespace {

// Sapphire Rapids and Emerald Rapids were measured. Every other Intel core with AVX-512 is nearest to them: Skylake-X,
// Cascade Lake, Cooper Lake, Cannon Lake, Ice Lake, Tiger Lake and Rocket Lake before, Granite Rapids and Diamond Rapids
// after. No row is near those without: Alder Lake and Raptor Lake, Meteor Lake, Arrow Lake, Lunar Lake, Sierra Forest,
// Clearwater Forest.
CoreKind core_of_intel(const X86Id& id) {
  if ((id.features & feature_avx512) == 0) return {core_other, false};
  return {core_golden_cove, id.family == 6 && (id.model == 0x8f || id.model == 0xcf)};
}

// A Zen 4 without AVX-512 computes like a Zen 3. Zen 5 has AVX-VNNI, Zen 4 has not.
CoreKind core_of_amd(const X86Id& id) {
  const bool avx512 = (id.features & feature_avx512) != 0;
  const bool zen4_model = (id.model >= 0x10 && id.model <= 0x1f) || (id.model >= 0x60 && id.model <= 0xaf);
  if (id.family == 0x1a) return {core_zen5, true};
  if (id.family == 0x19 && zen4_model == avx512) return {avx512 ? core_zen4 : core_zen3, true};
  if (avx512) return {(id.features & feature_avxvnni) != 0 ? core_zen5 : core_zen4, false};
  return {id.family >= 0x19 && (id.features & feature_avx2) != 0 ? core_zen3 : core_other, false};
}

struct MidrEntry {
  uint8_t implementer;
  bool exact;
  uint16_t part, core;  // Core in half of its bits, which all kinds of ARM fit
};
constexpr uint8_t arm = 0x41, qualcomm = 0x51;
constexpr MidrEntry midr_entries[] = {
    {arm, true, 0xd46, core_a55},       // Cortex-A510
    {arm, true, 0xd80, core_a55},       // Cortex-A520
    {arm, true, 0xd88, core_a55},       // Cortex-A520AE
    {arm, false, 0xd8f, core_a55},      // Cortex-A320
    {arm, false, 0xd8a, core_a55},      // C1-Nano
    {arm, true, 0xd42, core_n1},        // Cortex-A78AE
    {arm, true, 0xd4b, core_n1},        // Cortex-A78C
    {arm, true, 0xd47, core_n2},        // Cortex-A710
    {arm, true, 0xd4d, core_n2},        // Cortex-A715
    {arm, true, 0xd81, core_n2},        // Cortex-A720
    {arm, true, 0xd89, core_n2},        // Cortex-A720AE
    {arm, false, 0xd87, core_n2},       // Cortex-A725
    {arm, false, 0xd8e, core_n2},       // Neoverse-N3
    {arm, false, 0xd8b, core_n2},       // C1-Pro
    {arm, true, 0xd4c, core_v1},        // Cortex-X1C
    {arm, true, 0xd48, core_v2},        // Cortex-X2
    {arm, true, 0xd4e, core_v2},        // Cortex-X3
    {arm, true, 0xd82, core_v2},        // Cortex-X4
    {arm, true, 0xd4f, core_v2},        // Neoverse-V2
    {arm, false, 0xd85, core_v2},       // Cortex-X925
    {arm, false, 0xd84, core_v2},       // Neoverse-V3
    {arm, false, 0xd83, core_v2},       // Neoverse-V3AE
    {arm, false, 0xd8c, core_v2},       // C1-Ultra
    {arm, false, 0xd90, core_v2},       // C1-Premium
    {qualcomm, false, 0x001, core_v2},  // Oryon: four vector units of 128 bits, as Neoverse-V2
    {qualcomm, false, 0x002, core_v2},  // Oryon of the second generation
};

}  // namespace

CoreKind core_of(const X86Id& id) {
  if (id.vendor == Vendor::intel) return core_of_intel(id);
  if (id.vendor == Vendor::amd) return core_of_amd(id);
  return {core_other, false};
}

CoreKind core_of_midr(uint32_t midr) {
  for (const MidrEntry& entry : midr_entries) {
    if (entry.implementer == midr >> 24 && entry.part == (midr >> 4 & 0xfff)) {
      return {static_cast<Core>(entry.core), entry.exact};
    }
  }
  return {core_other, false};
}

}  // namespace quern
