// Runs code that is not safe on hostile files in a process of its own.
#pragma once

#include <functional>

#include "convert/keras/contents.h"

namespace quern::keras {

struct Limits {
  uint64_t memory = uint64_t{1} << 28;  // that the process may add to what this one has, in bytes
  unsigned seconds = 8;                 // of computing, and of real time
  unsigned files = 0;                   // that it may have open at a time
};

// For reading a file of so many bytes, of which the child sends up to `content`. Slow disks get time for large files.
Limits limits_of_reading(uint64_t bytes, uint64_t content);

// Calls `write` in a child process, whose bytes `read` gets here. The child may compute, read `limits.files` files and
// send bytes; it may not write to any file. Throws an Error if the child dies, takes too long or sends too little.
// The child ends with this process.
//
// The child is a fork of this process rather than a program of its own, so that the importer works in any program that
// links it. No other thread should run meanwhile: a child has locks that other threads held, but not these threads.
// Importing comes before any session, whose threads end with it. Even beside threads, what the child calls works where
// malloc does after a fork, as glibc's: no other code of ours calls the libraries that only a child needs.
void run_confined(const Limits& limits, const std::function<void(const Write&)>& write,
                  const std::function<void(const Read&)>& read);

}  // namespace quern::keras
