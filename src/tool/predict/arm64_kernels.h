// The kernels that the tables of src/kernel list for arm64, readable on any machine, and how fast their loops are.
#pragma once

#include <optional>
#include <span>

#include "kernel/panel.h"
#include "kernel/row.h"
#include "tool/predict/phone_core.h"

namespace quern::predict {

enum class KernelFamily { gemm, igemm, dwconv, dwconv_tile, dwconv_plane, winograd, spmm };

struct Arm64Kernel {
  KernelFamily family;
  KernelType type;
  const char* name;
  Target target;            // the features and the cores that it is made for
  size_t pixels, channels;  // of a tile; winograd: outputs in one direction
  size_t kernel, stride;    // of a depthwise tile or plane; 0: any, and for other families
  size_t block, inputs;     // sparse: output channels of a block, and its input channels
  PanelFormat panel;
  uint8_t demands;  // conditions for weights: mask of Demand
  bool reference() const { return target.isa == isa_ref; }
};

std::span<const Arm64Kernel> arm64_kernels();

// May the kernel be chosen on a core of this kind with these features? A reference may only if its family has no other
// kernel for numbers of this type on such a core.
bool made_for(const Arm64Kernel& kernel, const PhoneCore& core, uint32_t features);

// The most multiply-accumulates of this type that the core can do in a cycle: of bytes, the peak of the instructions that
// these features have. Without dot products that is the speed of smull and smlal, which not every core reaches.
double peak_of(KernelType type, const PhoneCore& core, uint32_t features);

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
Speed speed_of(const Arm64Kernel& kernel, const PhoneCore& core, uint32_t features);

// Cycles for an element of the output of an elementwise kernel, which its name tells, if there is a prediction.
std::optional<double> cycles_of_element(const char* kernel, const PhoneCore& core);

// Assumptions for kernels without a prediction.
constexpr double reference_macs_per_cycle = 0.5;  // as op/algorithm/cost.cc has it
constexpr double unpredicted_part_of_peak = 0.5;

}  // namespace quern::predict
