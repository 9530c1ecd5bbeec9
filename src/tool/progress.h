// A progress bar on the terminal, for work that takes long. Shows nothing if standard error is a pipe or a file.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace quern {

class Progress {
 public:
  Progress(std::string what, size_t total);
  ~Progress();  // wipes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step();

 private:
  std::string what_;
  size_t total_, done_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace quern
