// What a session is made of.
#pragma once

#include <atomic>
#include <utility>

#include "base/thread_pool.h"
#include "graph/plan/execution.h"
#include "graph/session/arena.h"
#include "graph/session/later.h"
#include "graph/session/states.h"
#include "op/conv/tuning.h"

struct qn_session : quern::Allocated {
  ~qn_session() { forget_later(); }

  quern::Shared<const quern::Model> model;
  quern::Pool pool;
  qn_parallel host = {};      // runs the tasks: the user's threads or the pool; `run` is NULL: the calling thread does
  qn_parallel parallel = {};  // what operators get: it also says whether the run was cancelled
  qn_tuning tuning = {};      // a reference of its own, if options.tuning is set
  quern::ExecutionOptions options;
  bool profiling = false;
  bool inside = false;  // a node of another session runs it: its profile sums up the runs that make up one run of that
  size_t user_limit = 0;  // bytes that planning may take; 0: the user gave no limit
  quern::Shared<const quern::Execution> execution;
  quern::Arena own_arena;
  quern::Shared<quern::Arena> shared_arena;  // NULL: the session uses own_arena
  // Where the last run found its inputs and left its outputs, in the host's memory, followed by room for the locations
  // that a node reads and writes.
  quern::Vector<quern::Location> places;
  quern::Vector<quern::Bound> bound_inputs, bound_outputs;  // one per input, per output
  quern::Vector<qn_profile_entry> profile;                  // one per step, if profiling
  quern::LaterRun* later = nullptr;                         // of the last run, if the model has later nodes; owned
  size_t later_limit = 0;                                   // bytes that outputs of these nodes may take
#ifndef QN_SMALL                                            // has_subgraphs
  quern::States states;
#endif
  std::atomic<bool> cancelled{false};
  bool has_run = false;  // since the last change of shapes

  quern::Arena& arena() { return has_shared_arena() ? *shared_arena : own_arena; }
  const quern::Graph& graph() const { return execution->graph(); }
  quern::Location* inputs() { return places.data(); }
  quern::Location* outputs() { return inputs() + graph().inputs.size(); }
  void forget_later() {
    if (quern::has_kinds) delete std::exchange(later, nullptr);
  }
  // The tensor of a later node that the user gets as output `index`; no_tensor if it is planned.
  int later_output(size_t index) const {
    return quern::has_kinds && model->output_at[index] == quern::Model::nowhere ? model->outputs[index].tensor
                                                                                : quern::no_tensor;
  }
  // Whether a planned output lies outside of the arena, in a buffer that is bound or belongs to a state.
  bool holds(const void* output, size_t planned) const {
#ifndef QN_SMALL  // has_subgraphs
    if (states.holds(output)) return true;
#endif
    return quern::has_api("bind") && output == bound_outputs[planned].data;
  }
  bool has_shared_arena() const { return quern::has_api("arena") && shared_arena != nullptr; }
};
