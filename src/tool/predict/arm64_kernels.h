// The kernels that the tables of src/kernel list for arm64, readable on any machine, and how fast their loops are.
#pragma once

#include <span>

#include "kernel/type.h"
#include "tool/predict/phone_core.h"

namespace quern::predict {

enum class KernelFamily { gemm, igemm, dwconv, dwconv_tile, dwconv_plane, winograd, spmm };

struct Arm64Kernel {
  KernelFamily family;
  KernelType type;
  const char* name;
  const char* target;       // "neon"; "neon_a55", "neon_inorder": only for such cores; "ref"
  size_t pixels, channels;  // of a tile; winograd: outputs in one direction
  size_t kernel, stride;    // of a depthwise tile or plane; 0: any, and for other families
  size_t block;             // sparse: output channels of a block
  bool reference() const;
};

std::span<const Arm64Kernel> arm64_kernels();

// May the kernel be chosen on this core, for floats? (Models of bytes have no estimates.) A reference may only if its
// family has no other kernel.
bool made_for(const Arm64Kernel& kernel, const PhoneCore& core);

// What the speed of a kernel rests on.
enum class Evidence {
  predicted,  // a model of the core, which has run the kernel's main loop
  partly,     // the same for products; the speed of transforms is assumed
  assumed,    // an assumption, because there is no prediction
  reference,  // an assumption about plain C++, because the family has no kernel yet
};
struct Speed {
  double macs_per_cycle;
  Evidence evidence;
};
Speed speed_of(const Arm64Kernel& kernel, const PhoneCore& core);

// Assumptions for kernels without a prediction.
constexpr double reference_macs_per_cycle = 0.5;  // as op/algorithm/cost.cc has it
constexpr double unpredicted_part_of_peak = 0.5;

}  // namespace quern::predict
