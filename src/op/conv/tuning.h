// Measured choices, in memory and as text: one line per problem, words and numbers in a fixed order,
//
//     quern-tuning 3
//     conv2d inputs=1 input=1x56x56x64 channels=64 groups=1 kernel=3x3 stride=1x1 dilation=1x1 padding=1,1,1,1
//         stored=100,1 tasks=2 strides=dense isa=avx512 type=f32 winograd qn_winograd_f32_6x6_avx512
//         (this is one line)
//
// All but the last two words are the problem, whose text is also its key in memory.
#pragma once

#include <quern/op.h>

#include <array>
#include <memory>
#include <string_view>

#include "base/shared.h"
#include "base/string.h"
#include "base/vector.h"
#include "kernel/type.h"

namespace quern {

// All that the fastest choice may depend on.
struct TunedProblem {
  // Places in `numbers`.
  // clang-format off
  enum Number {
    inputs,                                // tensors
    images, height, width, in_channels,    // of the input; a matrix has its rows as width
    out_channels, groups,
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w,
    top, left, bottom, right,              // padding
    stored, block,                         // percent of the weights that are not zero; channels of their blocks
    tasks,
    count
  };
  // clang-format on
  bool matrix = false;  // fully connected
  std::array<size_t, count> numbers = {};
  // Where elements lie: some tensor is not dense; or the input, the output, both are pixel-blocked.
  enum Places { dense, strided, in_blocked, out_blocked, blocked } places = dense;
  uint32_t isa = 0;  // the highest level that kernels of the type are chosen from
  KernelType type = KernelType::f32;

  String text() const;
};

// What a candidate took, see tune.h.
struct Measured {
  qn_algorithm algorithm;
  const char* kernel;
  double seconds;
  double expected;  // by the cost model, in times of its choice
};

struct TunedChoice {
  qn_algorithm algorithm;
  String kernel;
  Vector<Measured> measured;  // the cost model's choice first; empty if the choice was read from a text
};

class Tuning {
 public:
  struct Entry {
    String problem;  // its text
    TunedChoice choice;
  };
  using Entries = Vector<Entry>;  // ascending

  // False when there is none.
  bool find(const String& problem, TunedChoice* choice) const;
  void set(const String& problem, const TunedChoice& choice);
  // Adds the choices of a text, which `name` stands for in messages; on failure none.
  qn_status read(const char* name, std::string_view text);
  String text() const;
  Entries entries() const;
  size_t count() const;

 private:
  size_t place_of(const String& problem) const;
  bool has(size_t place, const String& problem) const;

  mutable Mutex mutex_;
  Entries entries_;
};

}  // namespace quern

struct qn_tuning : quern::Allocated {
  quern::Shared<quern::Tuning> impl;
};
