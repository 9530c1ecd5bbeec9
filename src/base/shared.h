// An object with several owners, like std::shared_ptr, in less code: one block holds the object and its counts, types
// share what ends them, and what a call has counted is undone with the call (journal.h). Counts are atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "base/memory.h"

namespace quern {

// How often an object is held, and how often somebody remembers its block, all holders together counting once.
struct Counts {
  std::atomic<size_t> holders{1}, rememberers{1};
  void (*end)(Counts*);  // the object
  size_t size;           // of the block

  // `counts` may be NULL, which is asked here and not wherever an owner comes or goes.
  static void hold(Counts* counts);
  static void let_go(Counts* counts) noexcept;
  static void forget(Counts* counts) noexcept;
  bool hold_again();  // false where the object is gone
  void remember();
};

template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  Shared(T* object, Counts* held) : object_(object), counts_(held) {}
  Shared(const Shared& other) : object_(other.object_), counts_(other.counts_) { Counts::hold(counts_); }
  Shared(Shared&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), counts_(std::exchange(other.counts_, nullptr)) {}
  template <class U>
  Shared(Shared<U> other) noexcept : object_(other.object_), counts_(std::exchange(other.counts_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~Shared() { Counts::let_go(counts_); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  std::add_lvalue_reference_t<T> operator*() const { return *object_; }
  bool operator==(const Shared& other) const { return object_ == other.object_; }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }

 private:
  template <class U>
  friend class Shared;
  template <class U>
  friend class Remembered;
  T* object_ = nullptr;
  Counts* counts_ = nullptr;
};

// Does not keep the object; can tell whether somebody else does.
template <class T>
class Remembered {
 public:
  Remembered() = default;
  template <class U>
  Remembered(const Shared<U>& shared) : object_(shared.object_), counts_(shared.counts_) {
    counts_->remember();
  }
  Remembered(Remembered&& other) noexcept : object_(other.object_), counts_(std::exchange(other.counts_, nullptr)) {}
  Remembered& operator=(Remembered&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~Remembered() { Counts::forget(counts_); }

  bool is_gone() const { return counts_ == nullptr || counts_->holders.load() == 0; }
  Shared<T> lock() const { return counts_ != nullptr && counts_->hold_again() ? Shared<T>(object_, counts_) : nullptr; }

 private:
  T* object_ = nullptr;
  Counts* counts_ = nullptr;
};

template <class T>
struct SharedBlock {
  Counts counts;
  alignas(T) char room[sizeof(T)];

  T* object() { return reinterpret_cast<T*>(room); }
};

template <class T, class... A>
Shared<T> make_shared(A&&... arguments) {
  using Block = SharedBlock<T>;
  Buffer memory(sizeof(Block));
  auto* const block = ::new (memory.data()) Block;
  T* const object = ::new (block->room) T(std::forward<A>(arguments)...);
  block->counts.end = [](Counts* counts) { reinterpret_cast<Block*>(counts)->object()->~T(); };
  block->counts.size = sizeof(Block);
  memory.forget();
  return {object, &block->counts};
}

// The block of memory that an object of make_shared() lies in.
template <class T>
const void* block_of(const T* object) {
  return reinterpret_cast<const char*>(object) - offsetof(SharedBlock<T>, room);
}

}  // namespace quern
