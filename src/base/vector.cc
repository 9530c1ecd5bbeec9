#include "base/vector.h"

#include <cstring>

namespace quern {

void VectorBase::swap(VectorBase& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
}

void VectorBase::free(size_t element) noexcept { release(data_, capacity_ * element); }

void VectorBase::reserve_bytes(size_t count, size_t element) {
  if (count <= capacity_) return;
  const size_t most = SIZE_MAX / element;
  if (count > most) out_of_memory();
  const size_t capacity = std::max(count, std::min(2 * capacity_, most));
  void* const larger = allocate(capacity * element, alignment);
  if (size_ != 0) std::memcpy(larger, data_, size_ * element);
  free(element);
  data_ = larger;
  capacity_ = capacity;
}

void VectorBase::resize_bytes(size_t count, size_t element) {
  if (count > size_) {
    const size_t more = count - size_;
    std::memset(insert_bytes(size_, more, element), 0, more * element);
  }
  size_ = count;
}

void* VectorBase::insert_bytes(size_t index, size_t count, size_t element) {
  reserve_bytes(count > SIZE_MAX - size_ ? SIZE_MAX : size_ + count, element);
  char* const at = static_cast<char*>(data_) + index * element;
  if (index < size_) std::memmove(at + count * element, at, (size_ - index) * element);
  size_ += count;
  return at;
}

void VectorBase::append_bytes(const void* from, size_t count, size_t element) {
  if (count != 0) std::memcpy(insert_bytes(size_, count, element), from, count * element);
}

}  // namespace quern
