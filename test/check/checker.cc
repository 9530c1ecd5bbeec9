#include "checker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "amx_emulator.h"

namespace quern::check {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

bool same(float got, float expected, bool any_zero_sign, bool any_denormal) {
  if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected)) return true;
  if (std::bit_cast<uint32_t>(expected) == poison) return false;
  if (std::isnan(expected)) return std::isnan(got) && std::bit_cast<uint32_t>(got) != poison;
  const float bound = any_denormal ? FLT_MIN : FLT_TRUE_MIN;
  return std::fabs(got) < bound && std::fabs(expected) < bound &&
         (any_zero_sign || std::signbit(got) == std::signbit(expected));
}
bool same_floats(const void* got_at, const void* expected_at, const Expectation& expectation) {
  float got, expected;
  std::memcpy(&got, got_at, sizeof got);
  std::memcpy(&expected, expected_at, sizeof expected);
  return same(got, expected, expectation.any_zero_sign, expectation.any_denormal);
}

// A result, or an operand, of a level that flushes: it looks at numbers before it rounds them.
float flushed(double x) { return static_cast<float>(std::fabs(x) < FLT_MIN ? std::copysign(0, x) : x); }

// The sum with its last bit 1 where anything is lost. Rounded once more, to a float, it is what rounding once gives;
// and it is on the same side of every float.
double sum_to_odd(double a, double b) {
  const double sum = a + b, part_of_b = sum - a;
  const double lost = (a - (sum - part_of_b)) + (b - part_of_b);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (!std::isfinite(sum) || lost == 0 || bits % 2 == 1) return sum;
  bits += (lost > 0) == (sum > 0) ? 1 : ~uint64_t{0};
  return std::bit_cast<double>(bits);
}

std::string to_text(float value) {
  if (std::bit_cast<uint32_t>(value) == poison) return "nothing";
  char text[64];
  std::snprintf(text, sizeof text, "%.9g (%08x)", static_cast<double>(value), std::bit_cast<uint32_t>(value));
  return text;
}
std::string text_of_float(const void* element, Fill) {
  float value;
  std::memcpy(&value, element, sizeof value);
  return to_text(value);
}

template <class T>
bool same_integers(const void* got, const void* expected, const Expectation&) {
  return std::memcmp(got, expected, sizeof(T)) == 0;
}
template <class T>
std::string text_of_integer(const void* element, Fill fill) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return std::to_string(value) + (std::memcmp(element, &fill, sizeof value) == 0 ? " (or nothing)" : "");
}
template <class T>
constexpr Comparison integer = {sizeof(T), same_integers<T>, text_of_integer<T>};

// "4 bytes past the end of a", for a fault.
std::string place_of(uint64_t address, std::initializer_list<const Guarded*> memory) {
  constexpr uint64_t near = 64 << 10;
  for (const Guarded* m : memory) {
    const uint64_t begin = m->address(), end = begin + m->size();
    if (address >= begin && address < end) return std::string("within ") + m->name();
    if (address >= end && address - end < near) {
      return std::to_string(address - end) + " bytes past the end of " + m->name();
    }
    if (address < begin && begin - address < near) {
      return std::to_string(begin - address) + " bytes before " + m->name();
    }
  }
  char text[32];
  std::snprintf(text, sizeof text, "at %#llx", static_cast<unsigned long long>(address));
  return text;
}

// Cases of integers have several fills.
std::string fill_of(std::initializer_list<const Guarded*> memory) {
  const Fill fill = (*memory.begin())->fill();
  if (fill == poison) return "";
  char text[32];
  std::snprintf(text, sizeof text, " fill=%02x", fill & 0xff);
  return text;
}

std::string describe_fault(const Fault& fault, std::initializer_list<const Guarded*> memory) {
  if (fault.hang) return "it does not return";
  if (fault.signal == SIGSEGV || fault.signal == SIGBUS) return "bad access " + place_of(fault.address, memory);
  return std::string("signal ") + strsignal(fault.signal);
}

// Do bytes hold nothing but the fill? The first one is number `phase` of memory that begins with a whole fill.
bool holds(std::span<const uint8_t> bytes, Fill fill, size_t phase) {
  std::array<uint8_t, sizeof fill> whole;
  std::memcpy(whole.data(), &fill, sizeof fill);
  const size_t first = std::min(bytes.size(), sizeof fill);
  for (size_t i = 0; i < first; ++i) {
    if (bytes[i] != whole[(phase + i) % sizeof fill]) return false;
  }
  return std::equal(bytes.begin() + static_cast<ptrdiff_t>(first), bytes.end(), bytes.begin());
}

bool is_as_expected_to_the_bit(const Expectation& expected) {
  const std::span<const uint8_t> actual = expected.memory->surroundings();
  const size_t before = expected.memory->bytes_before(), end = before + expected.bytes.size();
  const Fill fill = expected.memory->fill();
  return std::equal(expected.bytes.begin(), expected.bytes.end(), actual.subspan(before).begin()) &&
         holds(actual.first(before), fill, 0) && holds(actual.subspan(end), fill, end);
}

// "" when the output is as expected.
std::string compare(const Expectation& expected) {
  if (is_as_expected_to_the_bit(expected)) return "";
  const Guarded& memory = *expected.memory;
  const Comparison& element = *expected.type;
  const std::span<const uint8_t> actual = memory.surroundings();
  std::vector<uint8_t> wanted(actual.size());
  const Fill fill = memory.fill();
  for (size_t i = 0; i < wanted.size(); i += sizeof fill) std::memcpy(&wanted[i], &fill, sizeof fill);
  std::copy(expected.bytes.begin(), expected.bytes.end(),
            wanted.begin() + static_cast<ptrdiff_t>(memory.bytes_before()));
  // Element 0 is the first of the room; those before it have negative numbers.
  const size_t begin = memory.bytes_before() % element.bytes;
  for (size_t at = begin; at + element.bytes <= actual.size(); at += element.bytes) {
    if (element.same(&actual[at], &wanted[at], expected)) continue;
    const auto number =
        static_cast<ptrdiff_t>(at / element.bytes) - static_cast<ptrdiff_t>(memory.bytes_before() / element.bytes);
    return std::string(memory.name()) + "[" + std::to_string(number) + "] is " + element.text(&actual[at], fill) +
           ", not " + element.text(&wanted[at], fill);
  }
  return "";
}

}  // namespace

template <>
const Comparison& comparison_of<float>() {
  static constexpr Comparison element = {sizeof(float), same_floats, text_of_float};
  return element;
}
template <>
const Comparison& comparison_of<int8_t>() {
  return integer<int8_t>;
}
template <>
const Comparison& comparison_of<uint8_t>() {
  return integer<uint8_t>;
}
template <>
const Comparison& comparison_of<int32_t>() {
  return integer<int32_t>;
}

const std::vector<Clamp> clamps = {{-inf, inf}, {0, 6}, {-1, 1}, {0.5f, 0.5f}, {0, inf}, {-inf, -0.25f}};

uint64_t seed() {
  static const uint64_t value = [] {
    const char* text = std::getenv("QUERN_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
  }();
  return value;
}

const char* name_of(Values values) {
  switch (values) {
    case Values::integers: return "integers";
    case Values::random: return "random";
    case Values::zeros: return "zeros";
    case Values::extreme: return "extreme";
  }
  return "?";
}

float poison_float() { return std::bit_cast<float>(poison); }

// splitmix64
uint64_t Random::next() {
  uint64_t x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

float Random::value(Values values) {
  constexpr float special[] = {
      0.0f,         -0.0f,         inf,     -inf,         std::numeric_limits<float>::quiet_NaN(),
      FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, -0x1.8p-130f, FLT_MAX,
      -FLT_MAX,     1.0f};
  const uint64_t bits = next();
  switch (values) {
    case Values::integers: return static_cast<float>(static_cast<int>(bits % 33) - 16);
    case Values::random: break;
    case Values::zeros: return 0;
    case Values::extreme:
      if (bits % 8 == 0) return special[(bits >> 3) % std::size(special)];
      break;
  }
  // A random significand, and an exponent that varies a little.
  constexpr float scale[] = {0x1p-1f, 0x1p-2f, 0x1p-3f, 0x1p-4f};
  const float value = (1.0f + static_cast<float>(bits >> 41) * 0x1p-23f) * scale[bits >> 4 & 3];
  return (bits & 8) != 0 ? -value : value;
}

void Random::fill(std::vector<float>& list, Values values) {
  for (float& x : list) x = value(values);
}

Numbers numbers_of(const Row& row) {
  return {(row.isa & fused_levels) != 0, (row.isa & flushing_levels) != 0, (row.demands & w127) != 0,
          (row.demands & fits32) != 0};
}

float multiply_add(float a, float b, float sum, Numbers numbers) {
  if (!numbers.flushes) return numbers.fused ? std::fmaf(a, b, sum) : a * b + sum;
  a = flushed(a), b = flushed(b), sum = flushed(sum);
  return numbers.fused ? flushed(sum_to_odd(double{a} * b, sum)) : flushed(flushed(double{a} * b) + sum);
}

namespace {

// Can a row be checked only if tiles are emulated?
bool lacks_tiles_alone(const Row& row) {
  return of_tiles(row) && !runs_here(row) && runs_on(row, cpu().isa | feature_amxint8);
}

}  // namespace

bool can_check(const Kernel& kernel) {
  if (!lacks_tiles_alone(*kernel.row)) return runs_here(*kernel.row);
  install_handlers();
  return install_amx_emulator();
}

Checker::Checker(std::string name, const Kernel& kernel)
    : kernel_(std::move(name)),
      code_(kernel.code),
      flushes_(numbers_of(*kernel.row).flushes),
      emulated_(lacks_tiles_alone(*kernel.row)),
      random_(seed()) {
  if (emulated_) emulate_amx_in(code_);
}

bool Checker::run(std::initializer_list<uint64_t> arguments, std::initializer_list<const Guarded*> memory,
                  std::initializer_list<Expectation> outputs, const std::function<std::string()>& describe) {
  const Flushing off(false);
  Call call;
  return this->call(call, arguments, memory, outputs, describe);
}

bool Checker::run_reduce(std::initializer_list<uint64_t> arguments, float argument, float expected, bool any_zero_sign,
                         std::initializer_list<const Guarded*> memory, std::initializer_list<Expectation> outputs,
                         const std::function<std::string()>& describe) {
  const Flushing off(false);
  Call call;
  call.set_float(arguments.size(), argument);
  if (!this->call(call, arguments, memory, outputs, describe)) return false;
  const float result = std::bit_cast<float>(call.vector[0]);
  if (same(result, expected, any_zero_sign, flushes_)) return true;
  failure_ = kernel_ + ", " + describe() + ": returned " + to_text(result) + ", not " + to_text(expected);
  return false;
}

bool Checker::call(Call& call, std::initializer_list<uint64_t> arguments, std::initializer_list<const Guarded*> memory,
                   std::initializer_list<Expectation> outputs, const std::function<std::string()>& describe) {
  call.code = code_;
  size_t n = 0;
  for (const uint64_t argument : arguments) call.args[n++] = argument;
  // Every other call finds clean upper halves and must leave them clean; the others find poison in there.
  call.clean = ++cases_ % 2;
  std::string what;
  if (const Fault fault = call_guarded(call); fault.signal != 0) {
    what = describe_fault(fault, memory);
    release_emulated_amx();
  } else if (what = violations(call, emulated_ && release_emulated_amx()); what.empty()) {
    for (const Expectation& output : outputs) {
      if (what = compare(output); !what.empty()) break;
    }
  }
  if (what.empty()) return true;
  failure_ = kernel_ + ", " + describe() + fill_of(memory) + ": " + what + "  (seed " + std::to_string(seed()) + ")";
  return false;
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> list;
  for (const auto& family :
       {gemm_kernels, igemm_kernels, tapgemm_kernels, dwconv_kernels, pool_kernels, eltwise_kernels, spmm_kernels,
        winograd_kernels, transpose_kernels, deal_kernels, gather_kernels, unblock_kernels, quantize_rows_kernels}) {
    for (Kernel& kernel : family()) list.push_back(std::move(kernel));
  }
  return list;
}

}  // namespace quern::check
