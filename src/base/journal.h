// In small builds, which have no exceptions: what a call of the C API has acquired so far. Where it gives up
// (border.h), no destructor runs; the journal is gone through instead, and all of that is released. What existed before
// the call is not touched, so a call changes existing objects only in its last steps, which cannot fail, or publishes
// what it makes of them (publish() of border.h).
#pragma once

#include <cstddef>

namespace quern {

// Takes back one thing: undo(thing, argument).
using Undo = void (*)(void* thing, size_t argument);

class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // False where there is no memory to note it.
  bool note(void* thing, size_t argument, Undo undo);
  bool note_again(void* thing, Undo undo);  // the argument counts how often
  bool holds(const void* thing) const { return find(thing) != nullptr; }
  void forget(const void* thing);
  bool forget_once(const void* thing);  // false if it was not noted
  void undo_all();
  void keep_all();  // all went well

 private:
  struct Entry {
    void* thing;  // NULL: free
    size_t argument;
    Undo undo;
  };
  size_t home(const void* thing) const;
  Entry* find(const void* thing) const;
  bool grow();
  void erase(Entry* entry);

  Entry* entries_ = nullptr;  // open addressing, linear probing
  size_t capacity_ = 0, count_ = 0;
};

#ifdef QN_SMALL
// In the journal of this thread's call, if it is in one. The first two give up where there is no room, having undone
// what they were to note.
void note(void* thing, size_t argument, Undo undo);
// Another hold on an object with counts, if it is older than the call.
void note_hold(void* counts, Undo undo);
void forget(const void* thing);
void forget_hold(const void* counts);
#else
inline void note(void*, size_t, Undo) {}
inline void note_hold(void*, Undo) {}
inline void forget(const void*) {}
inline void forget_hold(const void*) {}
#endif

}  // namespace quern
