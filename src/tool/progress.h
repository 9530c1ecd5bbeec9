// Progress on the terminal, for work that takes long. Shows nothing if standard error is a pipe or a file.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace quern {

// Shows a bar. Terminals that are too narrow for it, or that cannot wipe it away (TERM is "dumb" or not set), get a line
// for each tenth of the work, at most one per second, and one at the end.
class Progress {
 public:
  Progress(std::string what, size_t total);
  ~Progress();  // wipes the bar away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step();

 private:
  enum class Form { nothing, lines, bar };

  std::string text() const;
  Form form() const;

  std::string what_;
  size_t total_, done_ = 0, tenth_ = 0;
  Form form_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace quern
