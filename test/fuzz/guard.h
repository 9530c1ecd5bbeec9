// Runs cases in a child process, so that a crash, an endless loop or a huge allocation is one case's result and no end
// of the test.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace quern {

enum class Ending : unsigned char {
  loaded,    // the case accepted its input
  refused,   // a clear error
  unclear,   // an exception of another type, or an error without a proper message
  too_much,  // allocated beyond the limit, or tried to
  too_long,  // used more processor time than the limit
  crashed    // ended by a signal or by exit, or reported by a sanitizer
};
const char* ending_name(Ending ending);

struct Outcome {
  Ending ending;
  std::string message;
};

constexpr unsigned time_limit_s = 10;  // of processor time
constexpr size_t allocation_limit = size_t{1} << 30;

// Calls run(0) .. run(count - 1), each in a child process that is replaced when it ends early. `run` returns when its
// input was accepted, and throws quern::Error when it was refused.
std::vector<Outcome> run_guarded(size_t count, const std::function<void(size_t)>& run, unsigned seconds = time_limit_s);

// While one of these lives, the library's own allocator gives out no more than `budget` bytes and then NULL: for code
// that may ask for as much as a valid model wants, and must cope with getting less.
class AllocatorBudget {
 public:
  explicit AllocatorBudget(size_t budget);
  ~AllocatorBudget();
  AllocatorBudget(const AllocatorBudget&) = delete;
  AllocatorBudget& operator=(const AllocatorBudget&) = delete;
};

}  // namespace quern
