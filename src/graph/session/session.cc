
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/needs.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/tensor.h"
#include "graph/file/encoded.h"
#include "graph/pass/passes.h"
#include "graph/session/buffers.h"

using quern::fail;

namespace quern {
namespace {

qn_status read_session_options(const qn_session_options* user, qn_session_options* options) {
  QN_TRY(read_options("qn_session_options", user, qn_session_options_init, options));
  if (options->threads > max_threads && options->threads != QN_THREADS_DEFAULT) {
    return fail(QN_INVALID_ARGUMENT, "qn_session_options: %zu threads instead of 0 to %zu", options->threads,
                max_threads);
  }
  if (!is_algorithm(options->algorithm)) {
    return fail(QN_INVALID_ARGUMENT, "qn_session_options: unknown algorithm %d", static_cast<int>(options->algorithm));
  }
  if (options->parallel != nullptr && options->parallel->run == nullptr) {
    return fail(QN_INVALID_ARGUMENT, "qn_session_options: parallel has no function");
  }
  if (options->tune && options->tuning == nullptr) {
    return fail(QN_INVALID_ARGUMENT, "qn_session_options: tune is set but tuning is NULL");
  }
  return QN_OK;
}

size_t wanted_threads(const qn_session_options& options) {
  const qn_parallel* const parallel = options.parallel;
  if (options.threads != 0 && options.threads != QN_THREADS_DEFAULT) return options.threads;
  if (parallel == nullptr && options.threads == QN_THREADS_DEFAULT) return 1;
  const bool known = parallel != nullptr && parallel->threads != 0;
  return std::min(known ? parallel->threads : usable_cores(), max_threads);
}

// What nodes of a host's kinds compute by it has the floating-point mode of the session's thread, too.
void run_for(void* session, void (*task)(void*, size_t), void* argument, size_t count) {
  qn_parallel& host = static_cast<qn_session*>(session)->host;
  if (host.run != nullptr) return run_in_callers_mode(&host, task, argument, count);
  for (size_t i = 0; i < count; ++i) task(argument, i);
}

int is_run_cancelled(void* of) {
  const auto& session = *static_cast<const qn_session*>(of);
  return session.cancelled.load(std::memory_order_relaxed) || is_cancelled(&session.host);
}

qn_status make_threads(const qn_session_options& options, qn_session& session) {
  session.options.tasks = wanted_threads(options);
  session.options.algorithm = options.algorithm;
  session.parallel = {&session, run_for, session.options.tasks, is_run_cancelled, {}};
  if (options.parallel != nullptr) session.host = *options.parallel;
  if (session.options.tasks == 1) {
    session.host.run = nullptr;
  } else if (options.parallel == nullptr) {
    QN_TRY(make_pool(session.options.tasks, &session.pool));
    return qn_parallel_from_pthreadpool(session.pool.get(), &session.host);
  }
  return QN_OK;
}

// ---- planning

qn_status fail_in_use() { return fail(QN_INVALID_ARGUMENT, "a session is using the arena at this time"); }

// Memory that an arena is about to take over.
struct NewMemory {
  Buffer host;
  ForeignBlocks foreign;
};

qn_status prepare_memory(const qn_session& session, const Execution& execution, NewMemory* made) {
  if (session.has_shared_arena()) {
    QN_TRY(session.shared_arena->prepare(execution.arena_bytes(), &made->host));
  } else {
    made->host = Buffer(execution.arena_bytes());  // may be smaller than before
  }
  const Model& model = *session.model;
  for (size_t m = 1; has_backends && m < model.memory_count; ++m) {
    const Memory& memory = *model.memories[m];
    const size_t bytes = std::max(execution.arena_bytes(m), size_t{1});
    const bool there = session.has_shared_arena() && session.shared_arena->foreign.size(memory) >= bytes;
    if (!there) QN_TRY(made->foreign.add(memory, bytes));
  }
  return QN_OK;
}

// Gives the memory to the session's arena. Returns false if the arena is in use.
bool use_memory(qn_session& session, NewMemory& memory) {
  Arena& arena = session.arena();
  if (!arena.enter()) return false;
  // Another session may have made the arena grow in the meantime.
  if (!session.has_shared_arena() || memory.host.size() > arena.size()) arena.adopt(std::move(memory.host));
  if (has_backends && session.has_shared_arena()) {
    arena.foreign.take(std::move(memory.foreign));
  } else if (has_backends) {
    arena.foreign = std::move(memory.foreign);
  }
  arena.leave();
  return true;
}

// Plans a graph whose inputs have their shapes. The session changes only after everything has succeeded.
qn_status plan(qn_session& session, Graph graph, size_t limit) {
  const MemoryLimit scope(limit);
  QN_TRY(infer_shapes(graph));
  Shared<const Execution> execution;
  Shared<Execution> made;  // a new execution, if none can be shared
  if (has_api("arena")) execution = Execution::find(*session.model, graph, session.options);
  if (execution == nullptr) {
    QN_TRY(Execution::make(session.model, std::move(graph), session.options, &made));
    execution = made;
  }
  if (has_api("bind")) QN_TRY(check_room(session, execution->graph()));
  NewMemory memory;
  QN_TRY(prepare_memory(session, *execution, &memory));
  Vector<Location> places(execution->graph().inputs.size() + execution->graph().outputs.size() +
                          execution->most_operands());
  Vector<qn_profile_entry> profile;
  if (session.profiling) {
    const auto add = [&profile](const Node& node, const PlanInfo& info) {
      profile.push_back({0, node.name.c_str(), kind_name(node), info.algorithm, info.kernel, info.macs, 0, 0, 0, 0});
    };
    for (const Execution::Step& step : execution->steps()) {
      add(execution->graph().nodes[step.shown], step.plan->info());
    }
    for (const Node& node : session.model->later.nodes) add(node, {});
    const bool continues = session.inside && session.profile.size() == profile.size();
    for (size_t i = 0; continues && i < profile.size(); ++i) {
      profile[i].time_ns = session.profile[i].time_ns;
      profile[i].runs = session.profile[i].runs;
    }
  }
#ifndef QN_SMALL  // has_subgraphs
  States states(*session.model, execution->graph());
#endif
  // The last step that can fail.
  const bool changes = memory.host.data() != nullptr || !memory.foreign.empty();
  if (changes && !use_memory(session, memory)) return fail_in_use();
  if (has_api("arena") && made != nullptr) Execution::share(made);
  session.execution = std::move(execution);
  session.places = std::move(places);
  session.profile = std::move(profile);
  session.forget_later();
#ifndef QN_SMALL  // has_subgraphs
  states.keep(session.states);
  session.states = std::move(states);
  session.states.lend(session.bound_outputs);
#endif
  session.later_limit = limit;
  session.has_run = false;
  return QN_OK;
}

size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Constant& constant : graph.constants) bytes += traffic_of(constant);
  return bytes;
}

// Sets the session's tuning object. While choices are measured, the session's threads run the candidates.
void set_tuning(const qn_session_options& options, qn_session& session) {
  if (!has_api("op") || options.tuning == nullptr) return;  // builds without op.h have no tuning objects
  session.tuning.impl = options.tuning->impl;
  session.options.tuning = &session.tuning;
  session.options.tune = options.tune != 0;
  session.options.parallel = &session.parallel;
}

qn_status create(qn_model* model, const qn_session_options* user_options, qn_session** session) {
  qn_session_options options;
  QN_TRY(read_session_options(user_options, &options));
  std::unique_ptr<qn_session> made(new qn_session);
  made->model = model->impl;
  if (has_api("arena") && options.arena != nullptr) made->shared_arena = options.arena->impl;
  if (has_api("bind")) {
    made->bound_inputs.resize(model->impl->graph.inputs.size());
    made->bound_outputs.resize(model->impl->graph.outputs.size());
  }
  made->profiling = options.profile != 0;
  QN_TRY(make_threads(options, *made));
  made->options.traffic = constant_bytes(made->model->graph);
  set_tuning(options, *made);
  made->user_limit = options.memory_limit;
  const size_t limit =
      options.memory_limit != 0 ? options.memory_limit : memory_limit(constant_bytes(made->model->graph));
  QN_TRY(plan(*made, made->model->graph, limit));
  *session = made.release();
  return QN_OK;
}

// Checks that an input, which keeps its rank, keeps its fixed dimensions.
qn_status check_fixed(const Port& port, const Tensor& now, const qn_tensor& wanted, [[maybe_unused]] const char* who) {
  for (size_t d = 0; d < now.shape.size(); ++d) {
    if ((port.fixed >> d & 1) == 0 || wanted.shape[d] == now.shape[d]) continue;
#ifdef QN_NO_MESSAGES
    return fail(QN_INVALID_ARGUMENT, "");
#else
    return fail(QN_INVALID_ARGUMENT,
                "%s: expected size %zu in dimension %zu, for which node '%.100s' of the source was converted, got %zu",
                who, now.shape[d], d, port.fixed_by.c_str(), wanted.shape[d]);
#endif
  }
  return QN_OK;
}

// Says that the shapes of inputs do not suit the model, though the model is good. Names the first that has changed.
qn_status fail_shapes([[maybe_unused]] const Graph& before, [[maybe_unused]] const qn_tensor* tensors) {
#ifndef QN_NO_MESSAGES
  for (size_t i = 0; i < before.inputs.size(); ++i) {
    const Tensor& was = tensor_of(before, before.inputs[i].tensor);
    if (was.shape.size() == tensors[i].rank && std::equal(was.shape.begin(), was.shape.end(), tensors[i].shape))
      continue;
    return fail_within(QN_INVALID_ARGUMENT, "input '%.100s' of %s", was.name.c_str(), ShapeText(tensors[i]).text);
  }
#endif
  return QN_INVALID_ARGUMENT;
}

// One entry of `tensors` per input.
qn_status resize(qn_session& session, const qn_tensor* tensors) {
  Graph graph = session.graph();
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    Tensor& tensor = graph.tensors[static_cast<size_t>(graph.inputs[i].tensor)];
    char who[128];
    who[0] = '\0';
    if (!trimmed) std::snprintf(who, sizeof who, "input '%.100s'", tensor.name.c_str());  // trimmed: no messages
    QN_TRY(check_tensor(tensors[i], who));
    const qn_type type = graph.inputs[i].type;
    if (tensors[i].type != type) {
      return fail(QN_INVALID_ARGUMENT, "%s: expected type %s, got %s", who, qn_type_string(type),
                  qn_type_string(tensors[i].type));
    }
    if (is_quantized(tensors[i]) && !same_quantization(tensors[i], describe(graph, graph.inputs[i]))) {
      return fail(QN_INVALID_ARGUMENT, "%s: expected the model's scale and zero point", who);
    }
    if (tensors[i].layout != QN_LAYOUT_NHWC) return fail(QN_UNSUPPORTED, "%s: only QN_LAYOUT_NHWC is supported", who);
    if (!is_dense(tensors[i])) return fail(QN_INVALID_ARGUMENT, "%s: expected a dense tensor", who);
    if (tensors[i].rank != tensor.shape.size() && !graph.inputs[i].unsized) {
      return fail(QN_INVALID_ARGUMENT, "%s: expected rank %zu, got %u", who, tensor.shape.size(), tensors[i].rank);
    }
    QN_TRY(check_fixed(graph.inputs[i], tensor, tensors[i], who));
    tensor.shape.assign(tensors[i].shape, tensors[i].shape + tensors[i].rank);
    size_t bytes;
    if (!tensor_size(tensor.type, tensor.shape, &bytes)) return fail(QN_INVALID_ARGUMENT, "%s is too large", who);
  }
  const qn_status status = plan(session, std::move(graph), session.user_limit != 0 ? session.user_limit : SIZE_MAX);
  return status == QN_BAD_MODEL ? fail_shapes(session.graph(), tensors) : status;
}

// Finds output `index` as the user sees it. The session has run.
const void* output_of(const qn_session& session, size_t index) {
  if (const int computed = session.later_output(index); computed != no_tensor) {
    const bool half = session.model->outputs[index].type == QN_F16;
    return half ? session.later->half(index) : session.later->data(at(computed));
  }
  return session.places[session.graph().inputs.size() + session.model->output_at[index]].block;
}

// Describes output `index` as the user sees it: as the last run has left it, or else before a run.
qn_tensor output_tensor(const qn_session& session, size_t index, bool has_run) {
  const Port& port = session.model->outputs[index];
  const int computed = session.later_output(index);
  if (computed == no_tensor) return describe(session.graph(), port);
  qn_tensor tensor =
      describe_shown(has_run ? session.later->tensor(at(computed)) : tensor_of(session.graph(), computed));
  tensor.type = port.type;
  return tensor;
}

qn_status get_tensor(const qn_session* session, const Vector<Port> Graph::*ports, size_t index, qn_tensor* tensor,
                     const char* who) {
  if (session == nullptr || tensor == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: an argument is NULL", who);
  const Graph& graph = session->graph();
  const Vector<Port>& list = ports == &Graph::outputs ? session->model->outputs : graph.inputs;
  if (index >= list.size()) {
    return fail(QN_INVALID_ARGUMENT, "%s: index %zu of %zu", who, index, list.size());
  }
  const Port& port = list[index];
  *tensor = ports == &Graph::outputs ? output_tensor(*session, index, session->has_run) : describe(graph, port);
  // From the model's graph, which lives as long as the session does: a resize replaces the session's own graph.
  tensor->quantization = quantization_of(session->model->graph.tensors[static_cast<size_t>(port.tensor)]);
  return QN_OK;
}

struct Leave {
  void operator()(Arena* arena) const { arena->leave(); }
};

// Runs the nodes that come after the planned ones.
qn_status run_later(qn_session& session, uint64_t start) {
  const Model& model = *session.model;
  if (!has_kinds || model.later.nodes.empty()) return QN_OK;
  std::unique_ptr<LaterRun> made;
  // A call of a small build may not change what is older than itself, and gives up, so it begins anew.
  if (small || session.later == nullptr) made.reset(new LaterRun(model, session.options, session.later_limit));
  LaterRun& later = made != nullptr ? *made : *session.later;
  const size_t first = session.graph().outputs.size() - model.later.reads.size();
  for (size_t i = 0; i < model.later.reads.size(); ++i) {
    const size_t t = at(model.later.reads[i]);
    later.give(t, session.graph().tensors[t], session.outputs()[first + i].block);
  }
  const size_t planned = session.execution->steps().size();
  qn_profile_entry* const profile = session.profiling ? session.profile.data() + planned : nullptr;
  const qn_status status = later.run(&session.parallel, profile, start);
  if (made != nullptr) {
    session.forget_later();
    session.later = made.release();
  }
  return status;
}

#ifndef QN_SMALL  // has_subgraphs
// The states become what a run has left in their outputs.
qn_status advance_states(qn_session& session) {
  QN_TRY(session.states.advance(session.bound_outputs, [&](size_t output, qn_tensor* tensor, const void** data) {
    *tensor = output_tensor(session, output, true);
    *data = output_of(session, output);
  }));
  session.states.lend(session.bound_outputs);
  return QN_OK;
}
#else
qn_status advance_states(qn_session&) { return QN_OK; }
#endif

// Forgets the last run, also in the sessions of graphs that nodes have run.
void reset_profile(qn_session& session) {
  for (qn_profile_entry& entry : session.profile) {
    entry.start_ns = entry.time_ns = 0;
    entry.runs = 0;
  }
#ifndef QN_SMALL  // has_subgraphs
  for (size_t i = 0; session.later != nullptr && i < session.model->later.nodes.size(); ++i) {
    for (qn_session* const child : session.later->sessions(i)) {
      if (child != nullptr) reset_profile(*child);
    }
  }
#endif
}

// Finds an entry among those of a session and of the sessions inside. `left`: how many entries come before it, from
// which those that are passed are taken off.
bool find_entry(const qn_session& session, uint32_t depth, size_t* left, qn_profile_entry* found) {
  const size_t count = session.profile.size(), planned = std::min(count, session.execution->steps().size());
  size_t i = std::min(*left, planned);
  for (*left -= i; i < count; ++i) {
    if ((*left)-- == 0) {
      *found = session.profile[i];
      found->depth = depth;
      return true;
    }
#ifndef QN_SMALL  // has_subgraphs
    if (i < planned || session.later == nullptr || session.profile[i].runs == 0) continue;
    for (const qn_session* const child : session.later->sessions(i - planned)) {
      const bool ran = child != nullptr && !child->profile.empty() && child->profile[0].runs != 0;
      if (ran && find_entry(*child, depth + 1, left, found)) return true;
    }
#endif
  }
  return false;
}

qn_status run_steps(qn_session& session) {
  const Execution& execution = *session.execution;
  Arena& arena = session.arena();
  const size_t outputs = session.graph().outputs.size();
  void* arenas[max_memories] = {arena.data()};
  const Model& model = *session.model;
  for (size_t m = 1; has_backends && m < model.memory_count; ++m) arenas[m] = arena.foreign.data(*model.memories[m]);
  const Execution::Buffers buffers = {session.inputs(), session.bound_outputs.data(), arenas,
                                      session.outputs() + outputs};
  session.has_run = false;
  arena.last = &session;
  if (session.profiling && !session.inside) reset_profile(session);
  const uint64_t start = session.profiling ? now_ns() : 0;
  execution.begin(buffers);
  for (size_t i = 0; i < execution.steps().size(); ++i) {
    if (is_cancelled(&session.parallel)) {
      execution.stop(i);
      return fail(QN_CANCELLED, "cancelled");
    }
    const uint64_t before = session.profiling ? now_ns() : 0;
    QN_TRY(execution.run(i, buffers, &session.parallel));
    if (!session.profiling) continue;
    note_run(before - start, now_ns() - before, &session.profile[i]);
  }
  execution.end(buffers);
  for (size_t i = 0; i < outputs; ++i) session.outputs()[i] = {const_cast<void*>(execution.output(i, buffers))};
  QN_TRY(run_later(session, start));
  QN_TRY(advance_states(session));
  session.has_run = true;
  return QN_OK;
}

qn_status run(qn_session& session) {
  const qn_status status = run_steps(session);
  session.cancelled = false;  // a cancel that came too late must not stop the next run
  return status;
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_session_options_init_sized(qn_session_options* options, size_t size) {
  qn_session_options p = {};
  p.threads = QN_THREADS_DEFAULT;
  quern::init_struct(options, size, p);
}

qn_status qn_session_create(qn_model* model, const qn_session_options* options, qn_session** session) {
  return quern::guarded([=] {
    if (model == nullptr || session == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_session_create: an argument is NULL");
    }
    return quern::create(model, options, session);
  });
}

void qn_session_release(qn_session* session) { delete session; }

qn_status qn_session_resize(qn_session* session, size_t index, uint32_t rank, const size_t* shape) {
  return quern::guarded([=] {
    if (session == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_session_resize: session is NULL");
    const size_t inputs = session->graph().inputs.size();
    if (index >= inputs) return fail(QN_INVALID_ARGUMENT, "qn_session_resize: input %zu of %zu", index, inputs);
    quern::Vector<qn_tensor> tensors(inputs);
    for (size_t i = 0; i < inputs; ++i) QN_TRY(qn_session_input_tensor(session, i, &tensors[i]));
    QN_TRY(qn_tensor_init(&tensors[index], tensors[index].type, rank, shape));
    return quern::resize(*session, tensors.data());
  });
}

qn_status qn_session_resize_all(qn_session* session, const qn_tensor* tensors) {
  return quern::guarded([=] {
    if (session == nullptr || tensors == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_session_resize_all: an argument is NULL");
    }
    return quern::resize(*session, tensors);
  });
}

qn_status qn_session_input_tensor(const qn_session* session, size_t index, qn_tensor* tensor) {
  return quern::guarded(
      [&] { return quern::get_tensor(session, &quern::Graph::inputs, index, tensor, "qn_session_input_tensor"); });
}

qn_status qn_session_output_tensor(const qn_session* session, size_t index, qn_tensor* tensor) {
  return quern::guarded(
      [&] { return quern::get_tensor(session, &quern::Graph::outputs, index, tensor, "qn_session_output_tensor"); });
}

qn_status qn_session_run(qn_session* session, const void* const* inputs) {
  return quern::guarded([=] {
    if (session == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_session_run: session is NULL");
    quern::Arena& arena = session->arena();
    if (!arena.enter()) return quern::fail_in_use();
    const std::unique_ptr<quern::Arena, quern::Leave> leave(&arena);
    QN_TRY(quern::take_inputs(*session, inputs));
    QN_TRY(quern::check_outputs(*session));
    return quern::run(*session);
  });
}

qn_status qn_session_output(const qn_session* session, size_t index, const void** data) {
  return quern::guarded([=]() mutable {
    if (session == nullptr || data == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_session_output: an argument is NULL");
    }
    const size_t outputs = session->model->outputs.size();
    if (index >= outputs) return fail(QN_INVALID_ARGUMENT, "qn_session_output: output %zu of %zu", index, outputs);
    if (!session->has_run) return fail(QN_INVALID_ARGUMENT, "qn_session_output: the session has not run");
    const void* const output = quern::output_of(*session, index);
    const bool planned = session->later_output(index) == quern::no_tensor;
    if (planned && session->has_shared_arena() && session->shared_arena->last != session) {
      const bool stays = session->holds(output, session->model->output_at[index]);
      if (!stays) return fail(QN_INVALID_ARGUMENT, "qn_session_output: another session has used the arena since");
    }
    *data = output;
    return QN_OK;
  });
}

qn_status qn_session_reset_states(qn_session* session) {
  if (session == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_session_reset_states: session is NULL");
#ifndef QN_SMALL  // has_subgraphs
  session->states.reset();
#endif
  return QN_OK;
}

qn_status qn_session_bind_input(qn_session* session, size_t index, const void* data, size_t size) {
  return quern::guarded([=] {
    return quern::bind(session, false, index, {const_cast<void*>(data), size});  // runs only read it
  });
}

qn_status qn_session_bind_output(qn_session* session, size_t index, void* data, size_t size) {
  return quern::guarded([=] { return quern::bind(session, true, index, {data, size}); });
}

void qn_session_cancel(qn_session* session) {
  if (session != nullptr) session->cancelled.store(true);
}

size_t qn_session_memory(const qn_session* session) {
  return session == nullptr ? 0 : session->execution->arena_bytes();
}

size_t qn_session_profile_count(const qn_session* session) {
  if (session == nullptr) return 0;
  size_t left = SIZE_MAX;
  qn_profile_entry none;
  quern::find_entry(*session, 0, &left, &none);
  return SIZE_MAX - left;
}

qn_status qn_session_profile(const qn_session* session, size_t index, qn_profile_entry* entry) {
  return quern::guarded([=] {
    constexpr const char* who = "qn_session_profile";
    if (session == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: session is NULL", who);
    size_t left = index;
    qn_profile_entry result;
    if (!quern::find_entry(*session, 0, &left, &result)) {
      return fail(QN_INVALID_ARGUMENT, "%s: entry %zu of %zu", who, index, qn_session_profile_count(session));
    }
    return quern::give_struct(who, entry, &result, sizeof result);
  });
}

}  // extern "C"
