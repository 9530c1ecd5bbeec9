#include "tool/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace quern {
namespace {

constexpr size_t width = 40;

// Ignores errors: fmt::print would throw, and progress is no reason to fail.
void show(const std::string& text) { std::fputs(text.c_str(), stderr); }

// Returns 0 if the terminal does not tell.
size_t columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

Progress::Progress(std::string what, size_t total)
    : what_(std::move(what)),
      total_(std::max<size_t>(total, 1)),
      form_(form()),
      next_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (form_ == Form::bar) show("\r\x1b[K");
}

std::string Progress::text() const { return fmt::format("{}/{} {}", done_, total_, what_); }

Progress::Form Progress::form() const {
  if (isatty(STDERR_FILENO) != 1) return Form::nothing;
  const char* terminal = std::getenv("TERM");
  const std::string kind = terminal == nullptr ? "" : terminal;
  if (kind.empty() || kind == "dumb") return Form::lines;
  const size_t longest = width + fmt::format("[] {}/{} {}", total_, total_, what_).size(), available = columns();
  return available != 0 && available <= longest ? Form::lines : Form::bar;
}

void Progress::step() {
  done_ = std::min(done_ + 1, total_);
  const auto now = std::chrono::steady_clock::now();
  if (form_ == Form::lines) {
    const size_t tenth = 10 * done_ / total_;
    if (tenth == tenth_ || (now < next_ && done_ < total_)) return;
    tenth_ = tenth;
    next_ = now + std::chrono::seconds(1);
    show(text() + "\n");
  } else if (form_ == Form::bar && now >= next_) {
    next_ = now + std::chrono::milliseconds(100);
    show(fmt::format("\r[{:<{}}] {}", std::string(width * done_ / total_, '#'), width, text()));
    std::fflush(stderr);
  }
}

}  // namespace quern
