// The arithmetic that levels with flushing vectors (base/cpu.h) are compared with.
#pragma once

#include <cstdint>

namespace quern::check {

// While it lives, this thread takes denormals for zeros, and makes zeros of them, as those vectors do; or does not. It
// is for numbers in memory: what does not go through it, a compiler may compute before or afterwards.
class Flushing {
 public:
#if defined(__arm__)
  explicit Flushing(bool on) {
    asm volatile("vmrs %0, fpscr" : "=r"(before_)::"memory");
    constexpr uint32_t flush_to_zero = 1u << 24;
    set(on ? before_ | flush_to_zero : before_ & ~flush_to_zero);
  }
  ~Flushing() { set(before_); }
#else
  explicit Flushing(bool) {}
  ~Flushing() {}
#endif
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

#if defined(__arm__)
 private:
  static void set(uint32_t fpscr) { asm volatile("vmsr fpscr, %0" ::"r"(fpscr) : "memory"); }

  uint32_t before_;
#endif
};

}  // namespace quern::check
