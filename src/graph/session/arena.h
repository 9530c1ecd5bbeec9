// Memory for activations and workspaces: of one session, or of several that never run at the same time.
#pragma once

#include <quern/graph.h>

#include <atomic>

#include "base/needs.h"
#include "base/shared.h"

namespace quern {

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
