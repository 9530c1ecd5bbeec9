#include "guard.h"

#include <quern/base.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/sanitized.h"
#include "convert/common/error.h"
#include "count_memory.h"

#if QN_SANITIZE_ADDRESS
#include <sanitizer/lsan_interface.h>
#endif

namespace quern {
namespace {

// What the child writes for each case, followed by the message.
struct Record {
  Ending ending;
  size_t message_size;
};

int report_pipe = -1;

void write_all(const void* data, size_t size) {
  for (const char* p = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = write(report_pipe, p, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      _exit(1);
    }
    p += n;
    size -= static_cast<size_t>(n);
  }
}

void report(Ending ending, const char* message) {
  const Record record = {ending, std::strlen(message)};
  write_all(&record, sizeof record);
  write_all(message, record.message_size);
}

bool read_all(int fd, void* data, size_t size) {
  for (char* p = static_cast<char*>(data); size > 0;) {
    const ssize_t n = read(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

void exceeded() {
  report(Ending::too_much, "beyond the limit");
  _exit(1);
}

// Sends SIGVTALRM, which ends the process, once it has computed for so long; 0: never. Not `alarm`: on a loaded
// machine a case may wait longer for a processor than it runs. Not ITIMER_PROF, which cancels runs (readers.cc).
void limit_processor_time(unsigned seconds) {
  const itimerval limit = {{0, 0}, {static_cast<time_t>(seconds), 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

void run_one(size_t index, const std::function<void(size_t)>& run, unsigned seconds) {
  limit_processor_time(seconds);
  watch_memory(allocation_limit, exceeded);
  try {
    run(index);
    report(Ending::loaded, "");
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool clear = !message.empty() && message.find('\n') == std::string::npos;
    report(clear ? Ending::refused : Ending::unclear, message.c_str());
  } catch (const std::exception& error) {
    report(Ending::unclear, error.what());
  }
  limit_processor_time(0);
}

// Runs cases from `first` on until one ends the process.
[[noreturn]] void child(size_t first, size_t count, const std::function<void(size_t)>& run, unsigned seconds) {
  for (size_t i = first; i < count; ++i) run_one(i, run, seconds);
#if QN_SANITIZE_ADDRESS
  if (__lsan_do_recoverable_leak_check() != 0) _exit(2);
#endif
  _exit(0);
}

// How a child ended that said nothing about its last case.
Outcome silent_ending(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM) return {Ending::too_long, "still running"};
  if (WIFSIGNALED(status)) return {Ending::crashed, std::string("signal ") + strsignal(WTERMSIG(status))};
  return {Ending::crashed, "exit status " + std::to_string(WEXITSTATUS(status))};
}

}  // namespace

const char* ending_name(Ending ending) {
  switch (ending) {
    case Ending::loaded: return "loaded";
    case Ending::refused: return "refused";
    case Ending::unclear: return "unclear error";
    case Ending::too_much: return "allocated too much";
    case Ending::too_long: return "took too long";
    case Ending::crashed: return "crashed";
  }
  return "?";
}

std::vector<Outcome> run_guarded(size_t count, const std::function<void(size_t)>& run, unsigned seconds) {
  std::vector<Outcome> outcomes;
  bool leaked = false;
  while (outcomes.size() < count) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) {
      close(ends[0]);
      report_pipe = ends[1];
      child(outcomes.size(), count, run, seconds);
    }
    close(ends[1]);
    bool ended_early = false;
    for (Record record; read_all(ends[0], &record, sizeof record);) {
      std::string message(record.message_size, '\0');
      read_all(ends[0], message.data(), message.size());
      outcomes.push_back({record.ending, message});
      ended_early = record.ending == Ending::too_much;
    }
    close(ends[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (outcomes.size() < count && !ended_early) outcomes.push_back(silent_ending(status));
    leaked = leaked || (WIFEXITED(status) && WEXITSTATUS(status) == 2);
  }
  if (leaked) outcomes.back() = {Ending::crashed, "some case leaked memory"};
  return outcomes;
}

namespace {

size_t budget_left = 0;

void* limited_allocate(void*, size_t size, size_t alignment) {
  void* pointer = nullptr;
  if (size > budget_left) return nullptr;
  if (posix_memalign(&pointer, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0) return nullptr;
  budget_left -= size;
  return pointer;
}

void limited_release(void*, void* pointer, size_t size) {
  budget_left += size;
  std::free(pointer);
}

}  // namespace

// The library allows a change of allocator only while nothing of it exists; both of ours take memory from the same
// heap, so objects that outlive the change are freed correctly, and at worst the budget grows by their size.
AllocatorBudget::AllocatorBudget(size_t budget) {
  budget_left = budget;
  const qn_allocator allocator = {nullptr, limited_allocate, limited_release, {}};
  qn_set_allocator(&allocator);
}

AllocatorBudget::~AllocatorBudget() { qn_set_allocator(nullptr); }

}  // namespace quern
