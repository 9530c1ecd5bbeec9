// The kernels that the tables of src/kernel list for arm64, seen from any machine, and how fast their loops are.
#pragma once

#include <span>

#include "tool/predict/phone_core.h"

namespace quern::predict {

enum class KernelFamily { gemm, igemm, dwconv, dwconv_tile, dwconv_plane, winograd, spmm };

struct Arm64Kernel {
  KernelFamily family;
  const char* name;
  const char* target;       // "neon", "neon_a55", "neon_inorder": for such cores alone, "ref"
  size_t pixels, channels;  // of a tile; winograd: outputs of one direction
  size_t kernel, stride;    // of tiles and planes of depthwise convolution, 0 for any and elsewhere
  size_t block;             // sparse: output channels of a block
  bool reference() const;
};

std::span<const Arm64Kernel> arm64_kernels();

// May it be chosen on this core? References may where their family has nothing else.
bool made_for(const Arm64Kernel& kernel, const PhoneCore& core);

enum class Evidence {
  predicted,  // by a model of the core, from the kernel's main loop
  partly,     // products are, transforms are assumed
  assumed,    // no prediction is at hand
  reference,  // no kernel of the family is there yet: plain C++
};
struct Speed {
  double macs_per_cycle;
  Evidence evidence;
};
Speed speed_of(const Arm64Kernel& kernel, const PhoneCore& core);

// What is assumed without a prediction.
constexpr double reference_macs_per_cycle = 0.5;  // as op/conv/choose.cc has it
constexpr double unpredicted_part_of_peak = 0.5;

}  // namespace quern::predict
