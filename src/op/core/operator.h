// The base classes of all operators and their plans, and the helpers that operators share.
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

// The buffers of one run, and who says whether it is to stop.
struct Run {
  const void* const* inputs;
  char* output;
  char* workspace;
  const qn_parallel* parallel = nullptr;

  const char* input(size_t index) const { return static_cast<const char*>(inputs[index]); }
};

// Asks whether the run was cancelled: first when a task begins, then whenever the task has done some more work. A small
// build does not ask within operators.
class Watch {
 public:
  // So many multiply-adds or elements take milliseconds at most.
  static constexpr size_t interval = size_t{1} << 20;

  explicit Watch(const qn_parallel* parallel) : parallel_(parallel) {}
  explicit Watch(const Run& run) : Watch(run.parallel) {}
  // Whether the task is to stop. If not, the task does this much work before it calls again.
  bool stops(size_t work) { return !small && ask(work); }
  // The same, compiled into the caller, for steps with little work.
  bool stops_here(size_t work) {
    if (small) return false;
    if (work >= left_) return ask(work);
    left_ -= work;
    return false;
  }

 private:
  bool ask(size_t work);

  const qn_parallel* parallel_;
  size_t left_ = 0;
};

class RowPlan;

}  // namespace quern

struct qn_plan : quern::Allocated {
  virtual void task(const quern::Run& run, size_t phase, size_t index) const = 0;

  size_t workspace_size() const { return slot == 0 ? 0 : slot * *std::max_element(phases.begin(), phases.end()); }

  // An input's tensor. A run refuses an input whose buffer overlaps the output, unless it lies at `place`.
  struct Input {
    static constexpr ptrdiff_t nowhere = PTRDIFF_MAX;
    qn_tensor tensor = {};
    ptrdiff_t place = nowhere;  // bytes from the output's beginning to where the input may lie within it
  };
  quern::Vector<Input> inputs;  // empty in builds without op.h
  qn_tensor output = {};
  quern::Vector<size_t> phases;  // the number of tasks of each phase
  size_t slot = 0;               // bytes of workspace of one task, a multiple of the cache line
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  const char* kernel = "";
  uint64_t macs = 0;
  const quern::RowPlan* by_rows = nullptr;  // `this`, if the plan can compute some rows of its output at a time

  // Deletes the plan. It replaces a virtual destructor, which would add two addresses that need relocation to the table
  // of every kind of plan.
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

constexpr size_t max_tasks = 1024;  // a larger number of threads counts as this many

// What a plan is made from. The tensors are checked: they have the operator's type and a layout that it takes, infer()
// accepts their shapes, and their strides are written out.
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
  // Estimates the cycles of a plan, without those that it takes in every layout. The graph compares these costs to
  // choose between NHWC and the pixel-blocked layout of the sparse kernels. Fails if plan() would fail because of the
  // layouts.
  virtual qn_status cost(const Request& request, double* cycles) const;

  const char* const name;  // begins every message
  // The constructors of operators set the following members.
  qn_type type = QN_F32;         // of inputs
  qn_type output_type = QN_F32;  // of the output
  const size_t min_inputs, max_inputs;
  bool takes_empty = false;  // elements of the output may come from no input, so any input may have no elements
  bool moves = false;        // the operator moves elements without changing them: inputs and output are quantized alike
  // May inputs and output be pixel-blocked? Not every combination of layouts has to work.
  bool takes_blocked = false;
  bool goes_by_rows = false;    // plans may be a RowPlan, so the operator can be the first of a chain
  bool has_algorithms = false;  // the operator obeys options.algorithm
  unsigned in_place = 0;        // bit i: the output may replace input i if both have the same layout and strides
  // For plans of parts of the request: limits options.algorithm and options.kernel to those that give the same bits as
  // plan(request). Without it, a part with fewer rows might choose another algorithm. NULL: all choices give the same
  // bits.
  qn_status (*settle)(const Operator&, const Request&, qn_plan_options*) = nullptr;
  // The number of weights, if each output pixel depends on one input pixel only: then the operator can be the second of
  // a chain. Otherwise 0.
  size_t pointwise_weights = 0;

 protected:
  ~Operator() = default;  // not virtual: make_shared() knows the class that it made
  void set_type(qn_type of_all) { type = output_type = of_all; }
  void move_elements(qn_type of_type) { set_type(of_type), moves = true; }
  // For operators whose kernels know pixel-blocked floats, and other numbers in rows alone.
  void compute_with(qn_type of_type) {
    if (has_integers) set_type(of_type);
    takes_blocked = !has_integers || of_type == QN_F32;
  }
};

// A request for operators that treat all elements alike, such as elementwise ones: it describes the tensors as they lie
// in memory, as row-major tensors (in_memory() of base/tensor.h). Either all tensors are pixel-blocked, with the same
// shape, or none is; otherwise check() fails.
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

// The name of an algorithm, as qn_algorithm_string() returns it.
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

// Estimates the cost of a plan for these tensors, see Operator::cost(). Allocates no workspace and packs no weights.
qn_status estimate(const Operator& op, std::span<const qn_tensor> ins, const qn_tensor& out,
                   const qn_plan_options& options, double* cycles);

// Runs a plan. Does not check the buffers. Fails only with QN_CANCELLED, if `parallel` says so.
qn_status run_plan(const qn_plan& plan, const void* const* inputs, void* output, void* workspace,
                   const qn_parallel* parallel);

// ---- create ----

// Copies a caller's struct, whose first member is its size, over `defaults`. A caller that was built with an older
// header has a shorter struct; the other members keep their defaults. A caller with a newer header has a longer struct;
// the members that this library does not know must be 0.
qn_status copy_struct(const char* who, const void* user, void* defaults, size_t size);

// Writes defaults to a caller's struct of `size` bytes, and zeros to the members that this library does not know.
void init_struct(void* user, size_t size, void* defaults, size_t known);

template <class Params>
void init_struct(Params* user, size_t size, Params& defaults) {
  init_struct(user, size, &defaults, sizeof defaults);
}

// Writes a result to a caller's struct, as much as fits. The first member of the struct is its size, and keeps its
// value.
qn_status give_struct(const char* who, void* user, void* result, size_t size);

template <class Params>
qn_status read_struct(const char* who, const Params* user, void (*init)(Params*), Params* params) {
  init(params);
  return copy_struct(who, user, params, sizeof *params);
}

// Check the type that an operator works on: check_type() accepts QN_F32 only, check_computed_type() also QN_S8.
// check_product_type() is for operators with weights: a trimmed build may have them for one of these types alone.
// check_moved_type() is for operators that only move elements; it accepts every type.
qn_status check_type(const char* who, qn_type type);
qn_status check_computed_type(const char* who, qn_type type);
qn_status check_product_type(const char* who, qn_type type);
qn_status check_moved_type(const char* who, qn_type type);
qn_status check_clamp(const char* who, float min, float max);
qn_status check_positive(const char* who, const char* what, size_t value);
// Fails if the caller's array, of floats or of integers with the same size, is not aligned to its elements. Accepts
// NULL.
qn_status check_aligned(const char* who, const char* what, const void* array);

// Reads and checks the arguments of every create call: params with a type, and the pointer that receives the operator.
template <class Params>
qn_status read_params(const char* who, const Params* user, void (*init)(Params*), qn_operator** op, Params* params,
                      qn_status (*check)(const char* who, qn_type type) = check_type) {
  if (op == nullptr) return fail(QN_INVALID_ARGUMENT, "%s: op is NULL", who);
  if (has_api("op")) {
    QN_TRY(read_struct(who, user, init, params));
  } else {
    *params = *user;  // they come from the graph, which knows all members
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

// Divides `count` equal items into `chunks` runs of successive items. The lengths of the runs differ by one at most,
// and the longer runs are spread out: if the number of chunks is even, each half of them has half of the items.
struct Split {
  size_t count = 0, chunks = 1;

  size_t begin(size_t chunk) const {
    const size_t each = count / chunks, rest = count % chunks;
    return chunk * each + chunk * rest / chunks;
  }
  size_t end(size_t chunk) const { return begin(chunk + 1); }
};

// The number of chunks that keep `tasks` threads evenly busy: one for one thread, otherwise a few for each thread,
// because threads are not equally fast.
size_t wanted_chunks(size_t tasks);
// Splits items into at most wanted_chunks(tasks) chunks of at least `grain` items; into one if there are fewer items.
Split split(size_t count, size_t tasks, size_t grain);

// Fails because no row of a table fits, or because the row that options.kernel asks for does not.
qn_status no_kernel(const char* who, const char* kernel);

// Fails unless the tensor has `rank` dimensions.
qn_status check_rank(const char* who, const qn_tensor& tensor, uint32_t rank);
// Resolves an axis that may count from the end.
qn_status resolve_axis(const char* who, int axis, uint32_t rank, uint32_t* result);

}  // namespace quern
