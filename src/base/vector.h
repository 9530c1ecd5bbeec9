// A growing array, like std::vector, in less code. It stores the number of its elements, where std::vector divides a
// distance by their size whenever somebody asks for the number; and all types share the code that moves elements to
// larger memory as bytes. So an element must not point into itself, as std::string does in some standard libraries; a
// Vector, a String, a Shared or a std::unique_ptr may be part of it. It has those members of std::vector that the library
// uses. Its memory is aligned to 16 bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/memory.h"

namespace quern {

// The part that vectors of all types share. `element` is the size of an element in bytes.
class VectorBase {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t capacity() const { return capacity_; }

 protected:
  static constexpr size_t alignment = 16;

  VectorBase() = default;
  VectorBase(VectorBase&& other) noexcept { swap(other); }
  ~VectorBase() = default;
  void swap(VectorBase& other) noexcept;
  void free(size_t element) noexcept;
  void reserve_bytes(size_t count, size_t element);
  // Makes room for `count` more elements at an index and returns it uninitialised.
  void* insert_bytes(size_t index, size_t count, size_t element);
  // For types that are copied as bytes:
  void resize_bytes(size_t count, size_t element);  // new elements are zeros
  void append_bytes(const void* from, size_t count, size_t element);

  void* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

template <class T>
class Vector : public VectorBase {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;
  using reference = T&;
  using const_reference = const T&;
  using size_type = size_t;
  using difference_type = ptrdiff_t;

  Vector() = default;
  explicit Vector(size_t count) : Vector() { resize(count); }
  Vector(size_t count, const T& value) : Vector() { resize(count, value); }
  Vector(std::initializer_list<T> list) : Vector(list.begin(), list.end()) {}
  template <std::forward_iterator I>
  Vector(I first, I last) : Vector() {
    append(first, last);
  }
  Vector(const Vector& other) : Vector(other.begin(), other.end()) {}
  Vector(Vector&& other) noexcept = default;
  // Two operators, not one that takes its argument by value: with that one clang takes a class whose members are
  // vectors for one whose assignment cannot throw, although the copy can.
  Vector& operator=(const Vector& other) { return *this = Vector(other); }
  Vector& operator=(Vector&& other) noexcept {
    Vector taken(std::move(other));
    VectorBase::swap(taken);
    return *this;
  }
  ~Vector() {
    static_assert(alignof(T) <= alignment);  // here, where T is complete: a class may have a vector of its own objects
    if constexpr (!std::is_trivially_destructible_v<T>) clear();
    free(sizeof(T));
  }

  T* data() { return static_cast<T*>(data_); }
  const T* data() const { return static_cast<const T*>(data_); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  auto rbegin() { return std::reverse_iterator(end()); }
  auto rend() { return std::reverse_iterator(begin()); }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return *begin(); }
  const T& front() const { return *begin(); }
  T& back() { return end()[-1]; }
  const T& back() const { return end()[-1]; }

  void reserve(size_t count) { reserve_bytes(count, sizeof(T)); }
  void resize(size_t count) {
    if constexpr (bytes && std::is_trivially_default_constructible_v<T>) {
      resize_bytes(count, sizeof(T));
    } else {
      shrink(count);
      reserve(count);
      for (; size_ < count; ++size_) ::new (end()) T();
    }
  }
  void resize(size_t count, const T& value) {
    const T kept = value;  // `value` may be an element of this vector
    shrink(count);
    reserve(count);
    for (; size_ < count; ++size_) ::new (end()) T(kept);
  }
  void assign(size_t count, const T& value) {
    const T kept = value;
    clear();
    resize(count, kept);
  }
  template <std::forward_iterator I>
  void assign(I first, I last) {
    *this = Vector(first, last);
  }
  void clear() { shrink(0); }
  void swap(Vector& other) noexcept { VectorBase::swap(other); }

  template <class... A>
  T& emplace_back(A&&... arguments) {
    T made(std::forward<A>(arguments)...);  // before the elements move: an argument may be one of them
    return *::new (insert_bytes(size_, 1, sizeof(T))) T(std::move(made));
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void pop_back() { shrink(size_ - 1); }

  // The range must not be part of this vector.
  template <std::forward_iterator I>
  T* insert(const T* at, I first, I last) {
    const size_t index = static_cast<size_t>(at - begin());
    if constexpr (bytes) {
      const size_t count = static_cast<size_t>(std::distance(first, last));
      return std::uninitialized_copy(first, last, static_cast<T*>(insert_bytes(index, count, sizeof(T)))) - count;
    } else {
      const size_t old = size_;
      append(first, last);
      std::rotate(begin() + index, begin() + old, end());
      return begin() + index;
    }
  }
  T* insert(const T* at, T value) {
    return ::new (insert_bytes(static_cast<size_t>(at - begin()), 1, sizeof(T))) T(std::move(value));
  }
  T* erase(const T* first, const T* last) {
    T* const to = begin() + (first - begin());
    const T* const end_of_rest = std::move(begin() + (last - begin()), end(), to);
    shrink(static_cast<size_t>(end_of_rest - begin()));
    return to;
  }
  T* erase(const T* at) { return erase(at, at + 1); }

  friend bool operator==(const Vector& a, const Vector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr bool bytes = std::is_trivially_copyable_v<T>;

  template <class I>
  void append(I first, I last) {
    const size_t count = static_cast<size_t>(std::distance(first, last));
    if constexpr (bytes && (std::is_same_v<I, T*> || std::is_same_v<I, const T*>)) {
      append_bytes(first, count, sizeof(T));
    } else {
      reserve(size_ + count);
      std::uninitialized_copy(first, last, end());
      size_ += count;
    }
  }

  void shrink(size_t count) {
    if constexpr (std::is_trivially_destructible_v<T>) {
      size_ = std::min(size_, count);
    } else {
      while (size_ > count) (begin() + --size_)->~T();
    }
  }
};

template <class T, class Condition>
void erase_if(Vector<T>& vector, Condition condition) {
  vector.erase(std::remove_if(vector.begin(), vector.end(), condition), vector.end());
}

}  // namespace quern
