// A pointer to an object with several owners, like std::shared_ptr, in less code: one block of memory holds the object
// and its counts, and all types share the code that ends an object. If a call gives up, the journal takes back what the
// call has counted (journal.h). Counts are atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "base/memory.h"

namespace quern {

// How many owners hold an object (Shared), and how many remember its block (Remembered); all holders together count as
// one rememberer. The object ends with its last holder, the block with its last rememberer.
struct Counts {
  std::atomic<size_t> holders{1}, rememberers{1};
  void (*end)(Counts*);  // calls the object's destructor
  size_t size;           // of the block

  // `counts` may be NULL: testing for it here keeps the test out of every place where an owner comes or goes.
  static void hold(Counts* counts);
  static void let_go(Counts* counts) noexcept;
  static void forget(Counts* counts) noexcept;
  bool hold_again();  // false if the object has ended
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

// A pointer that does not keep the object alive, like std::weak_ptr; it can tell whether an owner still does.
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

// The block of memory of an object that make_shared() has made.
template <class T>
const void* block_of(const T* object) {
  return reinterpret_cast<const char*>(object) - offsetof(SharedBlock<T>, room);
}

}  // namespace quern
