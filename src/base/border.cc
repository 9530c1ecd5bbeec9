#include "base/border.h"

#include <stdexcept>

#include "base/journal.h"
#include "base/memory.h"
#include "base/status.h"

#ifdef QN_SMALL
#include <csetjmp>
#endif

namespace quern {
#ifdef QN_SMALL

namespace {

thread_local Border* border = nullptr;
thread_local Lock* innermost = nullptr;

}  // namespace

// Where a thread that gives up continues.
class Border {
 public:
  Border() : outer_(border), held_(innermost) { border = this; }
  ~Border() { border = outer_; }
  Border(const Border&) = delete;
  Border& operator=(const Border&) = delete;

  // Setjmp has returned again.
  void release_all() {
    while (innermost != held_) innermost->~Lock();
    MemoryLimit::lift();
    journal.undo_all();
  }

  Border* outer() const { return outer_; }

  std::jmp_buf here;
  Journal journal;

 private:
  Border* const outer_;
  Lock* const held_;
};

Lock::Lock(Mutex& mutex) : mutex_(mutex), outer_(innermost) {
  mutex_.lock();
  innermost = this;
}

Lock::~Lock() {
  innermost = outer_;
  mutex_.unlock();
}

HostsTurn::HostsTurn() : border_(border) { border = nullptr; }
HostsTurn::~HostsTurn() { border = border_; }

void give_up(qn_status status) {
  if (border == nullptr) __builtin_trap();  // whatever allocates stands behind the border
  std::longjmp(border->here, status);
}

void out_of_memory() { give_up(fail(QN_OUT_OF_MEMORY, "out of memory")); }

// A call of the C API by the library itself gives up where the outer one does.
qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept {
  if (border != nullptr) return body(context);
  Border mine;
  const int given_up = setjmp(mine.here);
  if (given_up != 0) {
    mine.release_all();
    return static_cast<qn_status>(given_up);
  }
  const qn_status status = body(context);
  mine.journal.keep_all();
  return status;
}

namespace {

// Zero, or the status that body() gave up with.
int with_own_journal(void (*body)(void*), void* context) {
  Border mine;
  const int given_up = setjmp(mine.here);
  if (given_up != 0) {
    mine.release_all();
    return given_up;
  }
  body(context);
  mine.journal.keep_all();
  return 0;
}

// The key of a hold in the journal; the address itself is that of a block.
void* hold_of(void* counts) { return static_cast<char*>(counts) + 1; }

}  // namespace

void publish_changes(const void* block, void (*body)(void*), void* context) {
  if (border == nullptr || border->journal.holds(block)) return body(context);
  const int given_up = with_own_journal(body, context);
  if (given_up != 0) give_up(static_cast<qn_status>(given_up));
}

void note(void* thing, size_t argument, Undo undo) {
  if (border == nullptr || border->journal.note(thing, argument, undo)) return;
  undo(thing, argument);
  out_of_memory();
}

void note_hold(void* counts, Undo undo) {
  if (border == nullptr || border->journal.holds(counts)) return;
  if (!border->journal.note_again(hold_of(counts), undo)) out_of_memory();
}

// What is published may release what the call had noted before.
void forget(const void* thing) {
  for (Border* b = border; b != nullptr; b = b->outer()) b->journal.forget(thing);
}

void forget_hold(const void* counts) {
  const void* const hold = static_cast<const char*>(counts) + 1;
  Border* b = border;
  while (b != nullptr && !b->journal.forget_once(hold)) b = b->outer();
}

#else

void give_up(qn_status status) { throw Failure{status}; }

void out_of_memory() { throw std::bad_alloc(); }

Lock::Lock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
Lock::~Lock() { mutex_.unlock(); }

qn_status beyond_border(qn_status (*body)(void*), void* context) noexcept {
  try {
    return body(context);
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::bad_alloc&) {
    return fail(QN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return fail(QN_OUT_OF_MEMORY, "a size is too large");
  }
}

#endif

qn_status cross_border(qn_status (*body)(void*), void* context) noexcept {
  const EarlierMessage earlier;
  const qn_status status = beyond_border(body, context);
  if (status == QN_OK) earlier.put_back();
  return status;
}

}  // namespace quern

// What the standard library's headers call instead of `throw` (libc++ before 15 calls abort()), and what compilers put
// in the place of pure virtual functions: no C++ runtime is linked.
#ifdef QN_SMALL
#ifdef _LIBCPP_VERSION
#if _LIBCPP_VERSION >= 15000
#ifndef _LIBCPP_VERBOSE_ABORT_NOEXCEPT
#define _LIBCPP_VERBOSE_ABORT_NOEXCEPT
#endif
_LIBCPP_BEGIN_NAMESPACE_STD
void __libcpp_verbose_abort(const char*, ...) _LIBCPP_VERBOSE_ABORT_NOEXCEPT { quern::out_of_memory(); }
_LIBCPP_END_NAMESPACE_STD
#endif
#else
namespace std {
void __throw_bad_alloc() { quern::out_of_memory(); }
void __throw_bad_array_new_length() { quern::out_of_memory(); }
void __throw_length_error(const char*) { quern::out_of_memory(); }
void __throw_logic_error(const char*) { __builtin_trap(); }
}  // namespace std
#endif
extern "C" void __cxa_pure_virtual() { __builtin_trap(); }
#endif
