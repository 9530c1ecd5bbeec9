// Arithmetic that flushes denormals: levels with flushing vectors (base/cpu.h) are compared with it, and hosts turn it on.
#pragma once

#include <cstdint>

namespace quern::check {

// While it lives, this thread takes denormals for zeros, and makes zeros of them, as those vectors do; or does not. It
// is for numbers in memory: what does not go through it, a compiler may compute before or afterwards.
class Flushing {
 public:
  explicit Flushing(bool on) : before_(mode()) { set_mode(on ? before_ | flush_to_zero : before_ & ~flush_to_zero); }
  ~Flushing() { set_mode(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
#if defined(__arm__)
  using Mode = uint32_t;
  static constexpr Mode flush_to_zero = 1u << 24;
  static Mode mode() {
    Mode mode;
    asm volatile("vmrs %0, fpscr" : "=r"(mode)::"memory");
    return mode;
  }
  static void set_mode(Mode mode) { asm volatile("vmsr fpscr, %0" ::"r"(mode) : "memory"); }
#elif defined(__aarch64__)
  using Mode = uint64_t;
  static constexpr Mode flush_to_zero = 1u << 24;
  static Mode mode() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
    return mode;
  }
  static void set_mode(Mode mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
#else
  using Mode = uint32_t;
  static constexpr Mode flush_to_zero = 0x8040;  // and denormals are zeros
  static Mode mode() {
    Mode mode;
    asm volatile("stmxcsr %0" : "=m"(mode)::"memory");
    return mode;
  }
  static void set_mode(Mode mode) { asm volatile("ldmxcsr %0" ::"m"(mode) : "memory"); }
#endif

  Mode before_;
};

}  // namespace quern::check
