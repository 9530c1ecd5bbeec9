#include "tool/predict/arm64_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

// The tables of kernels ask for which architecture they are compiled: here they are told arm64.
#undef QN_ARCH_X86_64
#undef QN_ARCH_ARM64
#define QN_ARCH_X86_64 0
#define QN_ARCH_ARM64 1

namespace quern::predict {
namespace {

constexpr Arm64Kernel kernels[] = {
#define QN_GEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) \
  {KernelFamily::gemm, KernelType::type, #name, isa_##isa, mr, nr, 0, 0, 1, 1, panel_##panel, demands},
#include "kernel/gemm.inc"
#define QN_IGEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) \
  {KernelFamily::igemm, KernelType::type, #name, isa_##isa, mr, nr, 0, 0, 1, 1, panel_##panel, demands},
#include "kernel/igemm.inc"
#define QN_DWCONV_ROW(type, nr, isa, layout, name) \
  {KernelFamily::dwconv, KernelType::type, #name, isa_##isa, 1, nr, 0, 0, 1, 1, {}, any},
// clang-format off
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, panel, demands, isa, layout, name) \
  {KernelFamily::dwconv_tile, KernelType::type, #name, isa_##isa, rows, nr, kernel, stride, 1, 1, panel_##panel, \
   demands},
#define QN_DWCONV_PLANE_ROW(type, kernel, block, lanes, isa, layout, name) \
  {KernelFamily::dwconv_plane, KernelType::type, #name, isa_##isa, lanes, 1, kernel, kernel == 0 ? 0 : 1, 1, 1, {}, \
   any},
#include "kernel/dwconv.inc"
#define QN_WINOGRAD_ROW(type, outputs, isa, layout, name) \
  {KernelFamily::winograd, KernelType::type, #name, isa_##isa, outputs, outputs, 3, 1, 1, 1, {}, any},
#include "kernel/winograd.inc"
// How fast loops of fours are depends on how many weights share a row. They are left out, by a block of 0.
#define QN_SPMM_ROW(type, packing, inputs, block, pixels, lanes, alone, panel, demands, isa, layout, name) \
  {KernelFamily::spmm, KernelType::type, #name, isa_##isa, lanes, block > 2 ? block : 2, 0, 0, \
   #packing[0] == 'f' ? 0 : block, inputs, panel_##panel, demands},
// clang-format on
#include "kernel/spmm.inc"
};

// Columns of predicted_loops.inc, in its order.
constexpr Core columns[] = {core_a53, core_a55, core_a57, core_kryo, core_n1, core_n2, core_v1, core_v2};

struct PredictedLoop {
  double work;  // multiply-accumulates; elements of the output if there are none
  std::array<double, std::size(columns)> cycles;
  const char* kernel;
};
constexpr PredictedLoop loops[] = {
#define QN_PREDICTED_LOOP(work, a53, a55, a57, kryo, n1, n2, v1, v2, kernel) \
  {work, {a53, a55, a57, kryo, n1, n2, v1, v2}, #kernel},
#include "tool/predict/predicted_loops.inc"
};

// Work per cycle.
std::optional<double> predicted(const char* kernel, const PhoneCore& core) {
  const auto column = std::find(std::begin(columns), std::end(columns), core.kind) - std::begin(columns);
  for (const PredictedLoop& loop : loops) {
    if (std::strcmp(loop.kernel, kernel) == 0) return loop.work / loop.cycles[static_cast<size_t>(column)];
  }
  return std::nullopt;
}

bool runs_on(const Arm64Kernel& kernel, const PhoneCore& core, uint32_t features) {
  return (kernel.target.isa & ~features) == 0 && (kernel.target.cores & core.kind) != 0;
}

}  // namespace

std::span<const Arm64Kernel> arm64_kernels() { return kernels; }

bool made_for(const Arm64Kernel& kernel, const PhoneCore& core, uint32_t features) {
  if (!kernel.reference()) return runs_on(kernel, core, features);
  return std::none_of(std::begin(kernels), std::end(kernels), [&](const Arm64Kernel& other) {
    return other.family == kernel.family && other.type == kernel.type && !other.reference() &&
           runs_on(other, core, features);
  });
}

double peak_of(KernelType type, const PhoneCore& core, uint32_t features) {
  const double floats = core.machine().peak;
  if (info_of(type).activations == Element::f32) return floats;
  return floats * ((features & feature_i8mm) != 0 ? 8 : (features & feature_dotprod) != 0 ? 4 : 2);
}

Speed speed_of(const Arm64Kernel& kernel, const PhoneCore& core, uint32_t features) {
  if (kernel.reference()) return {reference_macs_per_cycle, Evidence::reference};
  if (const auto speed = predicted(kernel.name, core)) return {*speed, Evidence::predicted};
  return {unpredicted_part_of_peak * peak_of(kernel.type, core, features & kernel.target.isa), Evidence::assumed};
}

std::optional<double> cycles_of_element(const char* kernel, const PhoneCore& core) {
  const auto speed = predicted(kernel, core);
  return speed ? std::optional(1 / *speed) : std::nullopt;
}

}  // namespace quern::predict
