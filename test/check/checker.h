// What all families share: values, one checked call, and the list of kernels.  How a family is added: README.md
#pragma once

#include <functional>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "call.h"
#include "flushing.h"
#include "kernel/deal.h"
#include "kernel/dwconv.h"
#include "kernel/eltwise.h"
#include "kernel/gather.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/pool.h"
#include "kernel/quantize_rows.h"
#include "kernel/spmm.h"
#include "kernel/tapgemm.h"
#include "kernel/transpose.h"
#include "kernel/unblock.h"
#include "kernel/winograd.h"
#include "platform.h"

namespace quern::check {

// Fixed, or from the environment variable QUERN_SEED.
uint64_t seed();

enum class Values {
  integers,  // small: sums of floats are exact in any order
  random,    // floats in (-1, 1) with all bits of the significand in play: sums show the order and the roundings
  zeros,     // +0
  extreme,   // NaN, infinities, denormals, zeros of both signs, the largest numbers, among ordinary ones
};
const char* name_of(Values values);

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  size_t below(size_t bound) { return static_cast<size_t>((next() >> 32) * bound >> 32); }
  float value(Values values);
  void fill(std::vector<float>& list, Values values);

 private:
  uint64_t state_;
};

// A float of signalling NaN that belongs to nobody.
float poison_float();

struct Expectation;

// What has to be known of a type of elements to compare them and to say what they are.
struct Comparison {
  size_t bytes;
  bool (*same)(const void* got, const void* expected, const Expectation& expectation);
  std::string (*text)(const void* element, Fill fill);
};
template <class T>
const Comparison& comparison_of();  // float; integers, of which every bit counts
template <>
const Comparison& comparison_of<float>();
template <>
const Comparison& comparison_of<int8_t>();
template <>
const Comparison& comparison_of<uint8_t>();
template <>
const Comparison& comparison_of<int32_t>();

// What an output must hold: its memory's fill where the kernel must not write.
struct Expectation {
  const Guarded* memory;
  const Comparison* type;
  std::span<const uint8_t> bytes;  // of the whole room
  bool any_zero_sign = false;      // +0 and -0 are the same
  bool any_denormal = false;       // denormals and the zeros of their sign are the same

  template <class T>
  Expectation(const Guarded* in, const std::vector<T>& values, bool zero_sign = false, bool denormal = false)
      : memory(in),
        type(&comparison_of<T>()),
        bytes(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)),
        any_zero_sign(zero_sign),
        any_denormal(denormal) {}
};

// What a row says of its numbers. For its level, see fused_levels and flushing_levels in base/cpu.h.
struct Numbers {
  bool fused, flushes;
  bool w127;    // no weight of 8 bits is -128
  bool fits32;  // products of sums and scales fit 32 bits
};
Numbers numbers_of(const Row& row);
// One link of the chain that every sum of products is.
float multiply_add(float a, float b, float sum, Numbers numbers);

struct Kernel;

// Can this process check this kernel? A kernel of tiles is emulated (amx_emulator.h) where the CPU, Linux or QUERN_ISA
// has none, but has all else that it needs.
bool can_check(const Kernel& kernel);

// Makes checked calls of one kernel and keeps the first failure.
class Checker {
 public:
  Checker(std::string name, const Kernel& kernel);

  // Runs the kernel with `arguments` (up to 11 integers and addresses) and looks at the machine and the outputs.
  // `memory` is every argument with memory of its own, to name it in a fault. False once something failed: then the
  // family stops. `describe` says which case it was.
  bool run(std::initializer_list<uint64_t> arguments, std::initializer_list<const Guarded*> memory,
           std::initializer_list<Expectation> outputs, const std::function<std::string()>& describe);
  // The same with all that operands/operands.h says of a family.
  template <class Operands>
  bool run(const Operands& operands, std::initializer_list<Expectation> outputs,
           const std::function<std::string()>& describe) {
    return operands.each([&](const auto&... memory) {
      return operands.call(
          [&](auto... argument) { return run({static_cast<uint64_t>(argument)...}, {&memory...}, outputs, describe); });
    });
  }
  // The same for a kernel with one float argument and a float result.
  bool run_reduce(std::initializer_list<uint64_t> arguments, float argument, float expected, bool any_zero_sign,
                  std::initializer_list<const Guarded*> memory, std::initializer_list<Expectation> outputs,
                  const std::function<std::string()>& describe);

  // Does the caller, who has one more case to check, leave it out? Under emulation most are, but for the sharpest.
  bool leaves_out() { return emulated_ && ++offered_ >= emulated_share && offered_ % emulated_share != 0; }

  // Does the row's level flush? Then what is to come out of it is computed under Flushing.
  bool flushes() const { return flushes_; }
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  size_t cases() const { return cases_; }
  Random& random() { return random_; }

 private:
  // An emulated call takes thousands of times as long as another one. One case in so many is checked; a prime number, so
  // that the loops over rows, sizes and clamps meet in ever other places.
  static constexpr size_t emulated_share = 17;

  bool call(Call& call, std::initializer_list<uint64_t> arguments, std::initializer_list<const Guarded*> memory,
            std::initializer_list<Expectation> outputs, const std::function<std::string()>& describe);

  std::string kernel_, failure_;
  const void* code_;
  bool flushes_, emulated_;
  size_t cases_ = 0, offered_ = 0;
  Random random_;
  Storm storm_;
};

// A row of any table, ready to be checked.
struct Kernel {
  const Row* row;
  const void* code;
  std::function<void(Checker&)> check;  // all cases, the sharpest first; stops at the first failure
};

// How test output names it.
inline void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.row->name; }

// One pair of functions per family, and one line in all_kernels. The row must live as long as the kernel.
Kernel make_kernel(const GemmRow& row);
Kernel make_kernel(const IgemmRow& row);
Kernel make_kernel(const TapgemmRow& row);
Kernel make_kernel(const DwconvRow& row);
Kernel make_kernel(const DwconvTileRow& row);
Kernel make_kernel(const DwconvPlaneRow& row);
Kernel make_kernel(const DwconvImageRow& row);
Kernel make_kernel(const PoolRow& row);
Kernel make_kernel(const PoolPlaneRow& row);
Kernel make_kernel(const UnaryRow& row);
Kernel make_kernel(const BinaryRow& row);
Kernel make_kernel(const ChannelRow& row);
Kernel make_kernel(const ReduceRow& row);
Kernel make_kernel(const SpmmRow& row);
Kernel make_kernel(const QuantizeRowsRow& row);
Kernel make_kernel(const TransposeRow& row);
Kernel make_kernel(const GatherRow& row);
Kernel make_kernel(const UnblockRow& row);
Kernel make_kernel(const SplitRow& row);
Kernel make_input_kernel(const WinogradRow& row);
Kernel make_output_kernel(const WinogradRow& row);
std::vector<Kernel> gemm_kernels();
std::vector<Kernel> igemm_kernels();
std::vector<Kernel> tapgemm_kernels();
std::vector<Kernel> dwconv_kernels();
std::vector<Kernel> pool_kernels();
std::vector<Kernel> eltwise_kernels();
std::vector<Kernel> spmm_kernels();
std::vector<Kernel> quantize_rows_kernels();
std::vector<Kernel> transpose_kernels();
std::vector<Kernel> deal_kernels();
std::vector<Kernel> gather_kernels();
std::vector<Kernel> unblock_kernels();
std::vector<Kernel> winograd_kernels();

// Every row of every table.
std::vector<Kernel> all_kernels();

// Ranges to clamp to; the first one clamps nothing.
struct Clamp {
  float min, max;
};
extern const std::vector<Clamp> clamps;

}  // namespace quern::check
