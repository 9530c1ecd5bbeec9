// All that the checker needs of the operating system (POSIX, Linux): guarded memory, faults, signals, processes, and
// writing into code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "call.h"
#include "operands/operands.h"

namespace quern::check {

using operands::Access;
using operands::Address;

enum class Side { high, low };  // which end of the data lies flush against an unmapped page

// What bytes that are nobody's hold, four at a time. For floats a signalling NaN (`poison`), which may be in no result.
// No integer is like that: cases of integers run with two fills, of which one at least differs from what is right.
using Fill = uint32_t;

// How an argument is placed.
struct Place {
  Side side;
  Fill fill = poison;

  Place(Side at, Fill with = poison) : side(at), fill(with) {}
};

// One argument of a kernel, in a mapping of its own between unmapped pages. The kernel's view of an input is read-only;
// the checker writes through a second view of the same memory.
class Guarded {
 public:
  Guarded(const char* name, Access access) : name_(name), access_(access) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded();

  // Makes room for `size` bytes at the side's end; the first byte is at a multiple of `alignment`. The room and up to
  // `margin` bytes on either side of it hold the fill afterwards.
  void place(size_t size, Place place, size_t alignment = 4);

  const char* name() const { return name_; }
  Address address() const { return Address(theirs_ + offset_); }
  // Our view of the room.
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(ours_ + offset_);
  }
  float* floats() const { return as<float>(); }
  size_t size() const { return size_; }
  Fill fill() const { return fill_; }
  // A room's worth of elements that are nobody's.
  template <class T>
  std::vector<T> blank() const {
    static_assert(sizeof(T) <= sizeof(Fill));
    T element;
    std::memcpy(&element, &fill_, sizeof element);
    return std::vector<T>(size_ / sizeof(T), element);
  }
  // The room with its margins, for the checker to look whether they are as they were. Whole fills.
  std::span<const uint8_t> surroundings() const;
  size_t bytes_before() const { return offset_ - begin_; }

  static constexpr size_t margin = 256;

 private:
  void map(size_t size);
  void unmap();

  const char* name_;
  Access access_;
  size_t body_ = 0;                           // bytes between the unmapped pages
  char *ours_ = nullptr, *theirs_ = nullptr;  // first byte of the body in each view
  size_t offset_ = 0, size_ = 0;              // the room within the body
  Fill fill_ = poison;
  size_t begin_ = 0, end_ = 0;  // the room with its margins within the body
};

// What ended a call; signal 0: it returned.
struct Fault {
  int signal = 0;
  bool hang = false;
  uint64_t address = 0;
};
Fault call_guarded(Call& call);

// Installs the handlers of faults and ticks, once. call_guarded and Storm do so by themselves; call it before them for
// another handler to come in front of these.
void install_handlers();

// While one exists, a signal interrupts this thread every few microseconds and overwrites the stack below the red zone:
// whoever keeps data there loses it. A call that is interrupted too often without returning is a hang.
class Storm {
 public:
  Storm();
  ~Storm();
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;
};

// Runs `body` in a process of its own. True if it returned true there; false for everything else, death included.
bool in_child(const std::function<bool()>& body);

// Overwrites code of this process.
void overwrite(const void* code, std::span<const uint8_t> bytes);

// Overwrites code of this process with instructions that do nothing.
void overwrite_with_noops(const void* code, size_t size);

// Makes calling this function fatal.
void trap_at(const void* code);

// Makes running off the end of a function fatal, where nothing but padding follows it.
void trap_after(const void* end);

// What a command prints; throws std::runtime_error when it fails.
std::string output_of(const std::string& command);

}  // namespace quern::check
