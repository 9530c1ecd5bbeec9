// Standard output of a program: text that cannot be written is an error. The header needs nothing else of Quern.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace quern {

// Opens standard streams that the caller has closed, so that writing to them fails. Otherwise the first file that the
// program opens becomes its standard output. To be called first in main().
inline void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    const int wrong_way = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", wrong_way) < 0) return;
  }
}

// Writes out everything printed so far. Throws std::system_error if that fails.
inline void flush_output() {
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
}

// Ends the output of a program. Returns `status` if everything printed was written. Otherwise prints a message and returns
// `status`, or 1 if that is 0. `reason` is the errno of an earlier write that failed, if it is known. If the reader has
// left a pipe, SIGPIPE ends the program without a message, also where the caller ignores that signal.
inline int finish_output(const char* program, int status, int reason = 0) {
  if (std::fflush(stdout) != 0 && reason == 0) reason = errno;
  if (reason == 0 && std::ferror(stdout) == 0) return status;
  if (reason == EPIPE) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  std::fprintf(stderr, "%s: cannot write standard output%s%s\n", program, reason == 0 ? "" : ": ",
               reason == 0 ? "" : std::strerror(reason));
  return status != 0 ? status : 1;
}

}  // namespace quern
