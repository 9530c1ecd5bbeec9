// What all operators share.
//
// An Operator is what a create call made of its parameters; it never changes. Its plan() makes a qn_plan for one set of
// shapes: a list of phases, each a number of tasks that may run at the same time. A task is a function of its index
// alone and owns one slot of the workspace, so that a run needs no thread ids, no locks and no memory.
#pragma once

#include <quern/op.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "base/needs.h"
#include "base/shared.h"
#include "base/status.h"
#include "base/vector.h"

namespace quern {

// The buffers of one run.
struct Run {
  const void* const* inputs;
  char* output;
  char* workspace;

  const char* input(size_t index) const { return static_cast<const char*>(inputs[index]); }
};

class RowPlan;

}  // namespace quern

struct qn_plan : quern::Allocated {
  virtual void task(const quern::Run& run, size_t phase, size_t index) const = 0;

  size_t workspace_size() const { return slot == 0 ? 0 : slot * *std::max_element(phases.begin(), phases.end()); }

  // What is known of an input's buffer, to refuse those that overlap the output.
  struct Input {
    static constexpr ptrdiff_t nowhere = PTRDIFF_MAX;
    qn_tensor tensor = {};
    ptrdiff_t place = nowhere;  // in the output, where it may lie all the same, in bytes
  };
  quern::Vector<Input> inputs;  // empty in builds without op.h
  qn_tensor output = {};
  quern::Vector<size_t> phases;  // how many tasks each has
  size_t slot = 0;               // bytes of workspace of one task, a multiple of the cache line
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  const char* kernel = "";
  uint64_t macs = 0;
  const quern::RowPlan* by_rows = nullptr;  // this, if it can compute some rows of its output at a time

  // Deletes the plan. A virtual destructor would add two addresses to relocate to the table of each kind of plan.
  void (*destroy)(qn_plan*) = nullptr;

 protected:
  ~qn_plan();
};

namespace quern {

struct DestroyPlan {
  void operator()(qn_plan* plan) const { plan->destroy(plan); }
};
using PlanPointer = std::unique_ptr<qn_plan, DestroyPlan>;

template <class Plan, class... A>
std::unique_ptr<Plan, DestroyPlan> make_plan(A&&... arguments) {
  auto* const plan = new Plan(std::forward<A>(arguments)...);
  plan->destroy = [](qn_plan* made) { delete static_cast<Plan*>(made); };
  return std::unique_ptr<Plan, DestroyPlan>(plan);
}

constexpr size_t max_tasks = 1024;  // work is cut for at most so many threads

// What a plan is made from. Descriptions are checked: the operator's type, a layout that it takes, shapes as infer()
// wants, strides written out.
struct Request {
  std::span<const qn_tensor> ins;
  qn_tensor out;
  qn_plan_options options;
};

class Operator : public Allocated {
 public:
  Operator(const char* operator_name, size_t min, size_t max) : name(operator_name), min_inputs(min), max_inputs(max) {}

  // Checks the shapes of the inputs and sets rank and shape of the output.
  virtual qn_status infer(std::span<const qn_tensor> ins, qn_tensor* out) const = 0;
  virtual qn_status plan(const Request& request, PlanPointer* plan) const = 0;
  // Estimates the cycles that a plan takes because of its layouts; cycles that every layout costs are left out. Fails
  // at least for those layouts for which plan() fails. The graph calls it to choose layouts, in builds with sparse
  // kernels.
  virtual qn_status cost(const Request& request, double* cycles) const;

  const char* const name;  // begins every message
  qn_type type = QN_F32;   // of inputs and output; set by constructors, as what follows
  const size_t min_inputs, max_inputs;
  bool moves = false;  // elements as they are: inputs and output are quantized alike
  // May inputs and output be pixel-blocked? Not every combination of layouts has to work.
  bool takes_blocked = false;
  // Chains of operators ask for these.
  bool goes_by_rows = false;    // plans may be a RowPlan
  bool has_algorithms = false;  // options.algorithm means something
  unsigned in_place = 0;        // bit i: input i may be the output, if it lies as that
  // Narrows options.algorithm and options.kernel to what gives the bits of plan(request), for plans of parts of it: on
  // their own, parts of other heights might choose otherwise. NULL: the bits are the same whatever they choose.
  qn_status (*settle)(const Operator&, const Request&, qn_plan_options*) = nullptr;
  size_t pointwise_weights = 0;  // elements of the weights, if each output pixel sees one pixel of the input

 protected:
  ~Operator() = default;  // make_shared() knows what it made
  void move_elements(qn_type of_type) { type = of_type, moves = true; }
};

// The request as it lies in memory, for operators to which one element is like the other: row-major tensors, of the
// same shape where they are pixel-blocked. Fails where some are and others are not.
class MemoryRequest {
 public:
  explicit MemoryRequest(const Request& request);
  qn_status check(const char* who) const;
  const Request& request() const { return request_; }

 private:
  Vector<qn_tensor> ins_;
  Request request_;
  bool mixed_ = false;
};

// As qn_algorithm_string().
constexpr const char* algorithm_name(qn_algorithm algorithm) {
  if (algorithm == QN_ALGORITHM_AUTO) return "auto";
  if (algorithm == QN_ALGORITHM_DENSE) return "dense";
#define QN_ALGORITHM(ID, name) \
  if (algorithm == QN_ALGORITHM_##ID) return #name;
#include "op/algorithm/algorithms.inc"
  return "?";
}

// May a caller ask for this value?
constexpr bool is_algorithm(qn_algorithm algorithm) { return *algorithm_name(algorithm) != '?'; }

// Does the build contain the algorithm?
consteval bool has_algorithm(qn_algorithm algorithm) { return has_algorithm(algorithm_name(algorithm)); }

// What plans with these descriptions cost, see Operator::cost(). Allocates no workspace and packs nothing.
qn_status estimate(const Operator& op, std::span<const qn_tensor> ins, const qn_tensor& out,
                   const qn_plan_options& options, double* cycles);

// Runs a plan on buffers that are right.
void run_plan(const qn_plan& plan, const void* const* inputs, void* output, void* workspace,
              const qn_parallel* parallel);

// ---- create ----

// Copies a caller's struct, whose first member is its size, over defaults. A caller that was built with an older header
// has a shorter struct; one with a newer header may only have zeros in what this library does not know.
qn_status copy_struct(const char* who, const void* user, void* defaults, size_t size);

// Writes defaults to a caller's struct of `size` bytes: no more than that, and zeros where this library knows nothing.
void init_struct(void* user, size_t size, void* defaults, size_t known);

template <class Params>
void init_struct(Params* user, size_t size, Params& defaults) {
  init_struct(user, size, &defaults, sizeof defaults);
}

// Writes a result to a caller's struct whose first member says, and keeps saying, how long it is: as much as it has.
qn_status give_struct(const char* who, void* user, void* result, size_t size);

template <class Params>
qn_status read_struct(const char* who, const Params* user, void (*init)(Params*), Params* params) {
  init(params);
  return copy_struct(who, user, params, sizeof *params);
}

// The type an operator works on: QN_F32, and of those that move elements any.
qn_status check_type(const char* who, qn_type type);
qn_status check_moved_type(const char* who, qn_type type);
qn_status check_clamp(const char* who, float min, float max);
qn_status check_positive(const char* who, const char* what, size_t value);
// Fails where the caller's array of floats, or of integers as large, is not aligned to them. NULL is.
qn_status check_aligned(const char* who, const char* what, const void* array);

// Reads and checks what all create calls have: params with a type, and somewhere to put the operator.
template <class Params>
qn_status read_params(const char* who, const Params* user, void (*init)(Params*), qn_operator** op, Params* params,
                      qn_status (*check)(const char* who, qn_type type) = check_type) {
  if (op == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: op is NULL", who);
  if (has_api("op")) {
    QN_TRY(read_struct(who, user, init, params));
  } else {
    *params = *user;  // the graph's own
  }
  return check(who, params->type);
}

}  // namespace quern

struct qn_operator : quern::Allocated {
  explicit qn_operator(quern::Shared<const quern::Operator> o) : impl(std::move(o)) {}
  quern::Shared<const quern::Operator> impl;
};

namespace quern {

template <class Op, class... A>
qn_status make_operator(qn_operator** op, A&&... arguments) {
  *op = new qn_operator(quern::make_shared<Op>(std::forward<A>(arguments)...));
  return QN_OK;
}

// ---- plan ----

// Work of `count` equal items in `chunks` runs of successive items, whose lengths differ by one at most. The longer
// ones are spread out: of an even number of chunks, either half has half of the items.
struct Split {
  size_t count = 0, chunks = 1;

  size_t begin(size_t chunk) const {
    const size_t each = count / chunks, rest = count % chunks;
    return chunk * each + chunk * rest / chunks;
  }
  size_t end(size_t chunk) const { return begin(chunk + 1); }
};

// How many chunks keep `tasks` threads evenly busy: one for one thread, else a few for each, because threads differ.
size_t wanted_chunks(size_t tasks);
// At most wanted_chunks(tasks), each of at least `grain` items; at least one.
Split split(size_t count, size_t tasks, size_t grain);

// Fails because no row of a table fits, or not the one that options.kernel asks for.
qn_status no_kernel(const char* who, const char* kernel);

// `value`, to show in messages: shapes as "1x224x224x3".
struct ShapeText {
#ifdef QN_NO_MESSAGES  // messages have no room for it
  explicit ShapeText(const qn_tensor&) {}
  const char* text = "";
#else
  explicit ShapeText(const qn_tensor& tensor);
  char text[QN_MAX_RANK * 21 + 1];
#endif
};

// Fails unless the tensor has `rank` dimensions.
qn_status check_rank(const char* who, const qn_tensor& tensor, uint32_t rank);
// Resolves an axis that may count from the end.
qn_status resolve_axis(const char* who, int axis, uint32_t rank, uint32_t* result);

}  // namespace quern
