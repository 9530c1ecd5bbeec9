// Where the tensors of a running model lie.
#pragma once

#include <quern/base.h>

#include <cstddef>

namespace quern {

// Bytes of a block that a memory handed out. Of the host's memory, `block` is an address; another memory may take it
// for anything.
struct Location {
  void* block = nullptr;  // NULL: an input that is absent, or a workspace of no bytes
  size_t offset = 0;      // from its beginning
};

// Of a location in the host's memory.
inline void* address(const Location& location) { return static_cast<char*>(location.block) + location.offset; }

// A memory other than the host's, which a backend computes in. Backends may share one.
struct Memory {
  const char* name;
  // A block of at least 1 byte, aligned for whatever the backend runs at offsets that are multiples of 64.
  qn_status (*allocate)(size_t bytes, void** block);
  void (*release)(void* block);
  // Copies from the host, and to it. Like the runs of nodes, these may return before they are done, and come after what
  // the backend has begun before; whoever then touches the bytes calls Backend::synchronise first.
  qn_status (*write)(const Location& to, const void* from, size_t bytes);
  qn_status (*read)(void* to, const Location& from, size_t bytes);
};

}  // namespace quern
