#include "convert/keras/confined.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>

#include "base/sanitized.h"

namespace quern::keras {
namespace {

// ---- the child --------------------------------------------------------------------------------

constexpr int pipe_end = 3;  // the first number after standard input, output and error

void limit(int resource, uint64_t value, uint64_t most) {
  const rlimit limits = {static_cast<rlim_t>(value), static_cast<rlim_t>(most)};
  if (setrlimit(resource, &limits) != 0) _exit(1);
}
void limit(int resource, uint64_t value) { limit(resource, value, value); }

// Closes all files from this number on. (closefrom() is not in every C library.)
void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0u, 0u) == 0) return;
#endif
  const long most = sysconf(_SC_OPEN_MAX);
  for (int file = first; file < most; ++file) close(file);
}

uint64_t address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Ends this process when `parent` ends. Elsewhere than on Linux, only its next write to the pipe does.
void die_with(pid_t parent) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(1);  // it had ended before
}

// Leaves the process nothing but its memory and the pipe.
void confine(int pipe, const Limits& limits) {
  const int null = open("/dev/null", O_RDWR);
  const int last = sanitized ? STDOUT_FILENO : STDERR_FILENO;  // sanitizers report to standard error
  for (int stream = STDIN_FILENO; stream <= last; ++stream) dup2(null, stream);
  if (dup2(pipe, pipe_end) < 0) _exit(1);
  close_from(pipe_end + 1);
  // Sanitizers map far more memory than they use.
  if (!sanitized) limit(RLIMIT_AS, address_space() + limits.memory);
  // SIGXCPU, which says why, comes at the first limit, SIGKILL at the second.
  limit(RLIMIT_CPU, limits.seconds, uint64_t{limits.seconds} + 1);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);  // of files that it writes
  // They also look at memory through a pipe of their own before virtual functions are called.
  limit(RLIMIT_NOFILE, pipe_end + 1 + limits.files + (sanitized ? 2 : 0));
}

void write_all(int file, const void* data, size_t size) {
  for (const char* p = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::write(file, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    p += n;
    size -= static_cast<size_t>(n);
  }
}

// Never returns to the code of the parent: no destructor and no handler of it runs in this process.
[[noreturn]] void run_child(pid_t parent, int pipe, const Limits& limits,
                            const std::function<void(const Write&)>& write) {
  try {
    die_with(parent);
    confine(pipe, limits);
    write([](const void* data, size_t size) { write_all(pipe_end, data, size); });
    _exit(0);
  } catch (...) {
    _exit(1);
  }
}

// ---- the parent -------------------------------------------------------------------------------

using Clock = std::chrono::steady_clock;

class Child {
 public:
  Child(pid_t process, int pipe, unsigned seconds)
      : process_(process), pipe_(pipe), deadline_(Clock::now() + std::chrono::seconds(seconds)) {}
  Child(const Child&) = delete;
  ~Child() {
    close(pipe_);
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    wait();
  }

  void read_all(void* data, size_t size) {
    for (char* p = static_cast<char*>(data); size > 0;) {
      wait_for_bytes();
      const ssize_t n = ::read(pipe_, p, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Error("reading it ended early: " + ending());
      p += n;
      size -= static_cast<size_t>(n);
    }
  }

 private:
  void wait_for_bytes() const {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      pollfd waiting = {pipe_, POLLIN, 0};
      if (left <= 0) throw Error("reading it takes too long");
      if (poll(&waiting, 1, static_cast<int>(left)) > 0) return;
    }
  }

  int wait() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {}
    process_ = 0;
    return status;
  }

  // The pipe is closed, so the process has ended, or has closed it and gets killed.
  std::string ending() {
    kill(process_, SIGKILL);
    const int status = wait();
    if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
    if (WTERMSIG(status) == SIGXCPU) return "it takes too long";
    return strsignal(WTERMSIG(status));
  }

  pid_t process_;
  const int pipe_;
  const Clock::time_point deadline_;
};

}  // namespace

Limits limits_of_reading(uint64_t bytes, uint64_t content) {
  constexpr uint64_t mebibyte = uint64_t{1} << 20;
  Limits limits;
  limits.memory = 256 * mebibyte + 2 * content;  // for a tensor as it is in the file and as it is sent
  limits.seconds = static_cast<unsigned>(std::min<uint64_t>(limits.seconds + bytes / (4 * mebibyte), 3600));
  limits.files = 1;  // which libhdf5 keeps open, so that a file cannot make it open another
  return limits;
}

void run_confined(const Limits& limits, const std::function<void(const Write&)>& write,
                  const std::function<void(const Read&)>& read) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(std::string("no pipe: ") + std::strerror(errno));
  const pid_t parent = getpid(), process = fork();
  if (process == 0) run_child(parent, ends[1], limits, write);
  const int error = errno;
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    throw Error(std::string("no process to read it: ") + std::strerror(error));
  }
  Child child(process, ends[0], limits.seconds);
  read([&child](void* data, size_t size) { child.read_all(data, size); });
}

}  // namespace quern::keras
