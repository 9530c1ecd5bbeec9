#include "op/conv/tune.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/parallel.h"

namespace quern {
namespace {

constexpr size_t first_counted = 1, fair_rounds = 4, min_rounds = 7, max_rounds = 30;
constexpr double enough_seconds = 0.2;  // after this time there are only the min_rounds
constexpr double too_many_seconds = 3;  // after this time nothing runs any more, once every plan has a run that counts
constexpr double hopeless = 1.5;        // a plan that takes this many times the shortest time is not run again
constexpr size_t max_traffic = size_t{128} << 20;

double now() { return static_cast<double>(now_ns()) * 1e-9; }

// Reads one float of every cache line of a part of the buffer, so that these lines are the most recent in the caches.
void touch(const Buffer& buffer, const Split& part, size_t index) {
  const volatile float* data = static_cast<const float*>(buffer.data());
  constexpr size_t step = cache_line / sizeof(float);
  for (size_t line = part.begin(index); line < part.end(index); ++line) static_cast<void>(data[line * step]);
}

// Returns a buffer that has been written to. The pages of an untouched one would all be the same page of zeros.
Buffer filled(size_t bytes) {
  Buffer buffer(bytes);
  std::fill_n(static_cast<float*>(buffer.data()), bytes / sizeof(float), 1.0f);
  return buffer;
}

// The buffers that the plans run on, and the data that passes the caches between two runs.
class Stage {
 public:
  Stage(const Request& request, const Vector<Trial>& trials)
      : options_(request.options), output_(filled(qn_tensor_bytes(&request.out))) {
    if (options_.parallel != nullptr) parallel_ = *options_.parallel;
    parallel_.cancelled = nullptr;  // a run that stops early would be no measurement
    const size_t caches = cpu().l2_bytes + cpu().l3_bytes;
    traffic_ = filled(std::min({options_.traffic, caches, max_traffic}));
    size_t workspace = 0;
    for (const Trial& trial : trials) workspace = std::max(workspace, trial.plan->workspace_size());
    workspace_ = filled(workspace);
    for (const qn_tensor& in : request.ins) {
      inputs_.push_back(filled(qn_tensor_bytes(&in)));
      addresses_.push_back(inputs_.back().data());
    }
  }

  // Seconds of one run.
  double run(const qn_plan& plan) {
    if (options_.traffic != 0) pass_caches();
    const double start = now();
    run_plan(plan, addresses_.data(), output_.data(), workspace_.data(), &parallel_);
    return now() - start;
  }

 private:
  // Every task reads all of the traffic, so that no core keeps older data in its caches, and then its part of the
  // tensors.
  void pass_caches() {
    auto task = [&](size_t index) {
      const auto read = [&](const Buffer& buffer, size_t parts) {
        touch(buffer, {buffer.size() / cache_line, parts}, parts == 1 ? 0 : index);
      };
      read(traffic_, 1);
      for (const Buffer* buffer : {&output_, &workspace_}) read(*buffer, options_.tasks);
      for (const Buffer& input : inputs_) read(input, options_.tasks);
    };
    run_tasks(&parallel_, options_.tasks, task);
  }

  const qn_plan_options& options_;
  qn_parallel parallel_ = {};
  Buffer output_, traffic_, workspace_;
  Vector<Buffer> inputs_;
  Vector<const void*> addresses_;
};

}  // namespace

void time_trials(const Request& request, Vector<Trial>* trials) {
  Stage stage(request, *trials);
  double best = __builtin_inf();
  const double start = now();
  for (size_t round = 0; round < max_rounds; ++round) {
    if (round >= min_rounds && now() - start > enough_seconds) break;
    for (size_t i = 0; i < trials->size(); ++i) {
      Trial& trial = (*trials)[(round + i) % trials->size()];  // each round begins with another trial
      // In the first rounds no plan is hopeless: other programs may have slowed down any of its runs.
      if (round >= fair_rounds && trial.seconds() > hopeless * best) continue;
      if (round > first_counted && now() - start > too_many_seconds) continue;
      const double seconds = stage.run(*trial.plan);
      if (round < first_counted) continue;  // does not count: code and tables are not in the caches yet
      trial.runs.insert(std::upper_bound(trial.runs.begin(), trial.runs.end(), seconds), seconds);
    }
    best = __builtin_inf();
    for (const Trial& trial : *trials) best = std::min(best, trial.seconds());
  }
}

}  // namespace quern
