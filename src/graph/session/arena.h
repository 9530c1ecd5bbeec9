// Memory for activations and workspaces: of one session, or of several that never run at the same time.
#pragma once

#include <quern/graph.h>

#include <atomic>
#include <utility>

#include "base/needs.h"
#include "base/shared.h"
#include "graph/backend/memory.h"

namespace quern {

// Blocks of memories other than the host's, one of each.
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
  // NULL, and of no bytes, where there is none of the memory.
  void* data(const Memory& memory) const;
  size_t size(const Memory& memory) const;
  // There is none of the memory yet.
  qn_status add(const Memory& memory, size_t bytes);
  // Takes all of them, each of which takes the place of a smaller one of its memory. Cannot fail.
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
  // The caller's memory, which cannot grow.
  Arena(void* memory, size_t size) : data_(static_cast<char*>(memory)), size_(size), fixed_(true) {}

  char* data() const { return data_; }
  size_t size() const { return size_; }

  // Where the arena has to grow for a session that needs so many bytes, `memory` receives what adopt() then takes.
  qn_status prepare(size_t bytes, Buffer* memory) const;
  // Cannot fail. What was there before is lost.
  void adopt(Buffer memory);

  // Who works in it stands between the two. False: somebody does.
  bool enter() { return !has_api("arena") || !in_use_.exchange(true, std::memory_order_acquire); }
  void leave() { in_use_.store(false, std::memory_order_release); }

  const void* last = nullptr;  // the session whose outputs lie there
  ForeignBlocks foreign;       // of other memories; they grow whoever's the host's is

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
