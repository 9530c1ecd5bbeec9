#include "tool/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace quern {
namespace {

constexpr size_t width = 40;
constexpr std::chrono::milliseconds interval(100);

}  // namespace

Progress::Progress(std::string what, size_t total)
    : what_(std::move(what)),
      total_(std::max<size_t>(total, 1)),
      shown_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::step() {
  done_ = std::min(done_ + 1, total_);
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now < next_) return;
  next_ = now + interval;
  fmt::print(stderr, "\r[{:<{}}] {}/{} {}", std::string(width * done_ / total_, '#'), width, done_, total_, what_);
  std::fflush(stderr);
}

}  // namespace quern
