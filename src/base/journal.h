// For small builds, which have no exceptions: a journal lists what a call of the C API has acquired so far. When the
// call gives up (border.h), no destructor runs; instead everything in the journal is released. Objects that are older
// than the call stay as they are, so a call may change them only in its last steps, which cannot fail, or within
// publish() of border.h.
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

  // False if there is no memory for the entry.
  bool note(void* thing, size_t argument, Undo undo);
  bool note_again(void* thing, Undo undo);  // the argument counts how often
  bool holds(const void* thing) const { return find(thing) != nullptr; }
  void forget(const void* thing);
  bool forget_once(const void* thing);  // false if it was not noted
  void undo_all();
  void keep_all();  // the call succeeded: nothing is to be undone

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
// These write to the journal of this thread's current call, if it is within one. note() gives up if there is no memory
// for the entry, after it has undone the thing.
void note(void* thing, size_t argument, Undo undo);
// Notes one more hold on a shared object that is older than the call; gives up if there is no memory for the entry.
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
