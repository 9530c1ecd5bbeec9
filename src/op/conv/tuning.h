// Measured choices, in memory and as text. The text has one line per problem, with words and numbers in a fixed order:
//
//     quern-tuning 3
//     conv2d inputs=1 input=1x56x56x64 channels=64 groups=1 kernel=3x3 stride=1x1 dilation=1x1 padding=1,1,1,1
//         stored=100,1 tasks=2 strides=dense isa=avx512 type=f32 winograd qn_winograd_f32_6x6_avx512
//
// (Here a problem takes two lines; in the text it is one.)
//
// The last two words are the choice. All words before them are the problem; their text is also the key in memory.
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

// Everything that the fastest choice may depend on.
struct TunedProblem {
  // The places of the numbers in `numbers`.
  // clang-format off
  enum Number {
    inputs,                                // number of input tensors
    images, height, width, in_channels,    // of the input; for a matrix, width is the number of its rows
    out_channels, groups,
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w,
    top, left, bottom, right,              // padding
    stored, block,                         // percent of the weights that are not 0; channels of their blocks
    tasks,
    count
  };
  // clang-format on
  bool matrix = false;  // fully connected
  std::array<size_t, count> numbers = {};
  // How the tensors lie in memory: all are dense, some have gaps (strided), or the input, the output or both are
  // pixel-blocked.
  enum Places { dense, strided, in_blocked, out_blocked, blocked } places = dense;
  uint32_t isa = 0;  // the highest level that kernels of this type are chosen from
  KernelType type = KernelType::f32;

  String text() const;
};

// The measured time of a candidate, see tune.h.
struct Measured {
  qn_algorithm algorithm;
  const char* kernel;
  double seconds;
  double expected;  // the cost model's estimate, relative to that of its own choice
};

struct TunedChoice {
  qn_algorithm algorithm;
  String kernel;
  Vector<Measured> measured;  // the cost model's choice first; empty if the choice was read from a text
};

class Tuning {
 public:
  struct Entry {
    String problem;  // the text of the problem
    TunedChoice choice;
  };
  using Entries = Vector<Entry>;  // sorted by the text of the problem

  // Returns false if there is no choice for the problem.
  bool find(const String& problem, TunedChoice* choice) const;
  void set(const String& problem, const TunedChoice& choice);
  // Adds the choices of a text; if it fails, it adds none. Messages call the text `name`.
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
