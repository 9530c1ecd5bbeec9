#include "call.h"

#include <bit>
#include <cstring>

#include "base/cpu.h"
#include "kernel/row.h"

#if QN_ARCH_X86_64
#include <cpuid.h>
#endif

namespace quern::check {
namespace {

static_assert(offsetof(Call, code) == CALL_CODE && offsetof(Call, args) == CALL_ARGS);
static_assert(offsetof(Call, vector) == CALL_VECTOR && offsetof(Call, level) == CALL_LEVEL);
static_assert(offsetof(Call, clean) == CALL_CLEAN && offsetof(Call, ask_xinuse) == CALL_ASK_XINUSE);
static_assert(offsetof(Call, saved) == CALL_SAVED && offsetof(Call, saved_vector) == CALL_SAVED_VECTOR);
static_assert(offsetof(Call, sp) == CALL_SP && offsetof(Call, frame) == CALL_FRAME);
static_assert(offsetof(Call, flags) == CALL_FLAGS && offsetof(Call, control) == CALL_CONTROL);
static_assert(offsetof(Call, x87) == CALL_X87 && offsetof(Call, xinuse) == CALL_XINUSE);
static_assert(offsetof(Call, wide) == CALL_WIDE);

#if QN_ARCH_X86_64
constexpr const char* saved_names[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};

// Not what QUERN_ISA allows but what the machine has: a kernel of a low level may still find anything in there.
uint32_t vector_level() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw")) return 2;
  return __builtin_cpu_supports("avx") ? 1 : 0;
}

bool has_xinuse() {
  uint32_t eax = 0, ebx, ecx, edx;
  return vector_level() > 0 && __get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 4) != 0;
}
#else
#if QN_ARCH_ARM64
constexpr const char* saved_names[] = {"x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29"};
constexpr const char* control_name = "fpcr";
#else
constexpr const char* saved_names[] = {"r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11"};
constexpr const char* control_name = "fpscr";
#endif
constexpr const char* saved_vector_names[] = {"d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15"};
#endif

void add(std::string& list, const std::string& what) { list += (list.empty() ? "" : ", ") + what; }

}  // namespace

Call::Call() {
  for (uint64_t& word : args) word = CALL_POISON;
  for (uint32_t& word : vector) word = poison;
  for (uint64_t& word : saved) word = 0;
  for (uint64_t& word : saved_vector) word = 0;
  sp = frame = flags = control = xinuse = 0;
#if QN_ARCH_X86_64
  static const uint32_t this_level = vector_level(), this_has_xinuse = has_xinuse();
  level = this_level;
  ask_xinuse = this_has_xinuse;
#else
  level = ask_xinuse = 0;
#endif
}

void Call::set_float(size_t n, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (CALL_FLOATS_ARE_INTEGERS) {
    args[n] = bits;
  } else {
    vector[0] = bits;
  }
}

std::string violations(const Call& call, [[maybe_unused]] bool left_tiles) {
  std::string list;
  for (size_t i = 0; i < std::size(saved_names); ++i) {
    // As wide as a register.
    if (static_cast<uintptr_t>(call.saved[i]) != static_cast<uintptr_t>(CALL_POISON) + i) {
      add(list, std::string(saved_names[i]) + " changed");
    }
  }
  if (call.sp != 0) add(list, "the stack pointer moved by " + std::to_string(static_cast<intptr_t>(call.sp)));
  if (call.frame != 0) add(list, "the caller's stack frame changed");
#if QN_ARCH_X86_64
  if ((call.control & 0xffc0) != 0x1f80) add(list, "mxcsr changed");
  uint16_t x87_control, x87_tags;
  std::memcpy(&x87_control, call.x87, 2);
  std::memcpy(&x87_tags, call.x87 + 8, 2);
  if ((x87_control & 0xf3f) != 0x33f) add(list, "the x87 control word changed");
  if (x87_tags != 0xffff) add(list, "x87 or MMX registers are left in use");
  if ((call.flags & (1u << 10)) != 0) add(list, "the direction flag is set");
  if (call.clean != 0 && call.level > 0) {
    // Bits 2 and 6: the upper halves of ymm and of zmm0-zmm15. What they hold tells where xgetbv does not.
    bool dirty = call.ask_xinuse != 0 && (call.xinuse & 0x44) != 0;
    for (const auto& vector : call.wide) {
      for (size_t i = 4; i < (call.level == 2 ? 16 : 8); ++i) dirty |= vector[i] != 0;
    }
    if (dirty) add(list, "the upper halves of vectors are left in use (vzeroupper is missing)");
  }
  const bool tiles = left_tiles || (call.ask_xinuse != 0 && (call.xinuse & 0x60000) != 0);
  if (tiles) add(list, "tiles are left in use (tilerelease is missing)");
#else
  for (size_t i = 0; i < std::size(call.saved_vector); ++i) {
    if (call.saved_vector[i] != uint64_t{CALL_POISON} + i) add(list, std::string(saved_vector_names[i]) + " changed");
  }
  if (call.control != 0) add(list, std::string(control_name) + " changed");
#endif
  return list;
}

}  // namespace quern::check
