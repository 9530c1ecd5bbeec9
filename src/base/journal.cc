#include "base/journal.h"

#include <cstdint>
#include <utility>

#include "base/memory.h"

namespace quern {

// Addresses are multiples of 16, most of them: the product's upper half depends on all other bits.
size_t Journal::home(const void* thing) const {
  const uint64_t mixed = reinterpret_cast<uintptr_t>(thing) * uint64_t{0x9e3779b97f4a7c15};
  return static_cast<size_t>(mixed >> 32) & (capacity_ - 1);
}

Journal::Entry* Journal::find(const void* thing) const {
  if (count_ == 0) return nullptr;
  for (size_t i = home(thing); entries_[i].thing != nullptr; i = (i + 1) & (capacity_ - 1)) {
    if (entries_[i].thing == thing) return &entries_[i];
  }
  return nullptr;
}

bool Journal::grow() {
  constexpr size_t smallest = 64;
  Journal larger;
  larger.capacity_ = capacity_ == 0 ? smallest : 2 * capacity_;
  larger.entries_ = static_cast<Entry*>(try_allocate(larger.capacity_ * sizeof(Entry), alignof(Entry)));
  if (larger.entries_ == nullptr) return false;
  for (size_t i = 0; i < larger.capacity_; ++i) larger.entries_[i].thing = nullptr;
  for (size_t i = 0; i < capacity_; ++i) {
    const Entry& entry = entries_[i];
    if (entry.thing != nullptr) larger.note(entry.thing, entry.argument, entry.undo);
  }
  keep_all();
  entries_ = larger.entries_, capacity_ = larger.capacity_, count_ = larger.count_;
  return true;
}

bool Journal::note(void* thing, size_t argument, Undo undo) {
  if (2 * count_ >= capacity_ && !grow()) return false;
  size_t i = home(thing);
  while (entries_[i].thing != nullptr) i = (i + 1) & (capacity_ - 1);
  entries_[i] = {thing, argument, undo};
  ++count_;
  return true;
}

bool Journal::note_again(void* thing, Undo undo) {
  Entry* const entry = find(thing);
  if (entry == nullptr) return note(thing, 1, undo);
  ++entry->argument;
  return true;
}

// Entries that follow without a gap move up if they would no longer be found.
void Journal::erase(Entry* entry) {
  --count_;
  const size_t mask = capacity_ - 1;
  size_t hole = static_cast<size_t>(entry - entries_);
  for (size_t i = (hole + 1) & mask; entries_[i].thing != nullptr; i = (i + 1) & mask) {
    if (((i - home(entries_[i].thing)) & mask) < ((i - hole) & mask)) continue;
    entries_[hole] = entries_[i];
    hole = i;
  }
  entries_[hole].thing = nullptr;
}

void Journal::forget(const void* thing) {
  if (Entry* const entry = find(thing)) erase(entry);
}

bool Journal::forget_once(const void* thing) {
  Entry* const entry = find(thing);
  if (entry != nullptr && --entry->argument == 0) erase(entry);
  return entry != nullptr;
}

void Journal::undo_all() {
  Journal all;  // what an undo releases is no longer looked for here
  std::swap(all.entries_, entries_), std::swap(all.capacity_, capacity_), std::swap(all.count_, count_);
  for (size_t i = 0; i < all.capacity_; ++i) {
    const Entry& entry = all.entries_[i];
    if (entry.thing != nullptr) entry.undo(entry.thing, entry.argument);
  }
  all.keep_all();
}

void Journal::keep_all() {
  if (entries_ != nullptr) untracked_release(entries_, capacity_ * sizeof(Entry));
  entries_ = nullptr, capacity_ = count_ = 0;
}

}  // namespace quern
