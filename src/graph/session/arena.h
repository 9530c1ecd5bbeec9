// Memory for the activations and workspaces of one session, or of several sessions that never run at the same time.
#pragma once

#include <quern/graph.h>

#include <atomic>
#include <utility>

#include "base/needs.h"
#include "base/shared.h"
#include "graph/backend/memory.h"

namespace quern {

// Blocks in memories other than the host's, at most one block in each memory.
class ForeignBlocks {
 public:
  ForeignBlocks() = default;
  ForeignBlocks(ForeignBlocks&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
  ForeignBlocks& operator=(ForeignBlocks&& other) noexcept {
    std::swap(first_, other.first_);
    return *this;
  }
  ~ForeignBlocks() {
    if (has_backends) clear();
  }

  bool empty() const { return !has_backends || first_ == nullptr; }
  // The block in this memory and its size; NULL and 0 if there is none.
  void* data(const Memory& memory) const;
  size_t size(const Memory& memory) const;
  // Adds a block in a memory that has none yet.
  qn_status add(const Memory& memory, size_t bytes);
  // Takes over all blocks of `others`. Each replaces a smaller block in the same memory, if there is one. Cannot fail.
  void take(ForeignBlocks&& others);

 private:
  struct Block;
  static void release(Block* block);
  Block* find(const Memory& memory) const;
  void clear();

  Block* first_ = nullptr;
};

class Arena {
 public:
  Arena() = default;
  // An arena in the caller's memory, which cannot grow.
  Arena(void* memory, size_t size) : data_(static_cast<char*>(memory)), size_(size), fixed_(true) {}

  char* data() const { return data_; }
  size_t size() const { return size_; }

  // If the arena has to grow for a session that needs `bytes` bytes, allocates `memory`, which adopt() then takes.
  qn_status prepare(size_t bytes, Buffer* memory) const;
  // Replaces the arena's memory, whose content is lost. Cannot fail.
  void adopt(Buffer memory);

  // Whoever works in the arena calls enter() before and leave() after. enter() returns false if somebody already works
  // in it.
  bool enter() { return !has_api("arena") || !in_use_.exchange(true, std::memory_order_acquire); }
  void leave() { in_use_.store(false, std::memory_order_release); }

  const void* last = nullptr;  // the session whose outputs lie in the arena
  ForeignBlocks foreign;       // in other memories; they can grow even if the host's part is the caller's memory

 private:
  Buffer memory_;
  char* data_ = nullptr;
  std::atomic<size_t> size_{0};
  std::atomic<bool> in_use_{false};
  bool fixed_ = false;
};

}  // namespace quern

struct qn_arena : quern::Allocated {
  quern::Shared<quern::Arena> impl;
};
