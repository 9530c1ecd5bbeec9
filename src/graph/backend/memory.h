// Where the tensors of a running model lie.
#pragma once

#include <quern/base.h>

#include <cstddef>

namespace quern {

// A place in a block of some memory. In the host's memory, `block` is an address; another memory may give it any
// meaning.
struct Location {
  void* block = nullptr;  // NULL: an absent input, or a workspace of size 0
  size_t offset = 0;      // in bytes, from the beginning of the block
};

// The address of a location in the host's memory.
inline void* address(const Location& location) { return static_cast<char*>(location.block) + location.offset; }

// A memory in which a backend computes and which is not the host's. Several backends may share one.
struct Memory {
  const char* name;
  // Allocates a block of at least 1 byte. Its alignment lets the backend use all offsets that are multiples of 64.
  qn_status (*allocate)(size_t bytes, void** block);
  void (*release)(void* block);
  // Copy from the host and to the host. Like runs of nodes, these calls may return before they are done, and the
  // backend does them in the order in which they were begun. Call Backend::synchronise before you touch the bytes.
  qn_status (*write)(const Location& to, const void* from, size_t bytes);
  qn_status (*read)(void* to, const Location& from, size_t bytes);
};

}  // namespace quern
