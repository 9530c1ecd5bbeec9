// Runs one layer in several engines in turn, so that other work on the machine disturbs all engines alike.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "bench.h"
#include "engine.h"

namespace quern::peers {

// Where a buffer lies, in bytes from the start of a page.
struct Placement {
  size_t input, output;
};

class Race {
 public:
  // The first engine is Quern; the outputs of the others are compared with its output. An engine takes no part if it
  // has no operator for the layer, fails, or computes something else; `failures` names the last two cases. Throws
  // std::runtime_error if Quern fails. With a loop, our percentage of its peak is measured, too.
  Race(const Layer& layer, const std::vector<const Engine*>& engines, const std::vector<Placement>& placements,
       size_t threads, const PeakLoop* loop = nullptr);

  // Gives every engine its turn: at each placement a chunk of about a millisecond that is not timed, then one that is.
  // The loop's turn follows ours.
  void round();

  struct Result {
    const Engine* engine;
    std::string implementation;
    double slowest, fastest;  // seconds of a call at the worst and at the best placement, each the median of its chunks
  };
  std::vector<Result> results() const;  // ours first
  double percent_of_peak();             // of our slowest placement; 0 without a loop
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Runner {
    const Engine* engine;
    std::unique_ptr<Task> task;
    size_t calls;                               // in a chunk
    std::vector<std::vector<TimedWork>> times;  // of a call, by placement and round
  };
  // A buffer that starts anywhere in a page and may be read a little beyond its end, as some libraries do.
  class Placed {
   public:
    explicit Placed(size_t bytes) : bytes_(bytes), buffer_(bytes + 2 * slack) {}
    void* at(size_t offset) const;
    size_t bytes() const { return bytes_; }

   private:
    static constexpr size_t slack = 8192;
    size_t bytes_;
    Buffer buffer_;
  };

  void settle() const;
  void take_turn(Runner& runner);
  Runner prepare(const Engine& engine, size_t threads);
  void bind(Runner& runner, const Placement& placement) const;
  // Fills the output with what no engine that writes all of it leaves there.
  void spoil(void* output) const;
  void compare(const void* output);

  Layer layer_;
  std::vector<Placement> placements_;
  size_t threads_;
  Pool pool_;  // of the loop: each engine has threads of its own
  qn_parallel parallel_ = {};
  PeakMeter meter_;
  std::vector<float> scales_;
  Buffer weights_, random_;
  Placed input_, output_;
  std::vector<char> expected_;
  std::vector<Runner> runners_;
  std::vector<std::string> failures_;
  size_t rounds_ = 0;
};

}  // namespace quern::peers
