// The trampoline: one call of a kernel with the machine poisoned before and looked at afterwards.
//
// Before the call every scratch register, the stack below and the caller's frame above hold POISON (signalling NaNs in
// vectors) and every callee-saved register a value of its own. The assembly (call_<isa>.S) only records what the
// machine looks like afterwards; call.cc says what is wrong with it.
#ifndef QN_CHECK_CALL_H
#define QN_CHECK_CALL_H

// Offsets of the fields of Call, for the assembly.
#define CALL_CODE 0
#define CALL_ARGS 8
#define CALL_VECTOR 96
#define CALL_LEVEL 112
#define CALL_CLEAN 116
#define CALL_ASK_XINUSE 120
#define CALL_SAVED 128
#define CALL_SAVED_VECTOR 224
#define CALL_SP 288
#define CALL_FRAME 296
#define CALL_FLAGS 304
#define CALL_CONTROL 312
#define CALL_X87 320
#define CALL_XINUSE 352
#define CALL_WIDE 384

#define CALL_POISON 0x7fa5a5a57fa5a5a5  // two signalling NaNs
#define CALL_BELOW 1024                 // bytes of stack below the call that are poisoned

// A float argument and result: in the first vector register, but where the ABI takes floats for integers (softfp).
#if defined(__arm__) && !defined(__ARM_PCS_VFP)
#define CALL_FLOATS_ARE_INTEGERS 1
#else
#define CALL_FLOATS_ARE_INTEGERS 0
#endif

#ifndef __ASSEMBLER__

#include <cstddef>
#include <cstdint>
#include <string>

namespace quern::check {

constexpr uint32_t poison = 0x7fa5a5a5;  // a signalling NaN: what every byte that is nobody's holds

struct Call {
  const void* code = nullptr;
  uint64_t args[11];    // integers and pointers; unused ones stay poisoned
  uint32_t vector[4];   // first vector register: a float argument and poison; afterwards a float result, from wherever
  uint32_t level;       // x86: 0 xmm, 1 ymm, 2 zmm and opmasks
  uint32_t clean = 0;   // x86: the upper halves are clean at the call, so they must be clean afterwards
  uint32_t ask_xinuse;  // x86: xgetbv can tell which state components are in use
  uint32_t unused = 0;
  // Afterwards:
  uint64_t saved[12];        // x86: rbx rbp r12-r15; arm64: x19-x29; arm: r4-r11, each in the lower half
  uint64_t saved_vector[8];  // arm64, arm: d8-d15
  uint64_t sp;               // what was added to the stack pointer
  uint64_t frame;            // 0: the caller's frame is as it was
  uint64_t flags;            // x86: rflags
  uint64_t control;          // mxcsr; what changed in fpcr, fpscr
  uint8_t x87[32];           // fnstenv
  uint64_t xinuse;
  uint64_t unused2[3];
  uint32_t wide[16][16];  // x86: zmm0-zmm15 or ymm0-ymm15

  Call();

  // The float that follows the first n arguments.
  void set_float(size_t n, float value);
};

// What the kernel left behind that it should not have: "rbx changed, mxcsr changed"; "" when all is well. Emulated tiles
// (amx_emulator.h) are left if `left_tiles`.
std::string violations(const Call& call, bool left_tiles);

}  // namespace quern::check

extern "C" void qn_checked_call(quern::check::Call* call);

#endif
#endif
