#include "graph/session/later.h"

#include <fp16.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/math.h"
#include "base/needs.h"
#include "base/parallel.h"
#include "base/search.h"
#include "base/status.h"
#include "base/tensor.h"
#include "graph/ir/custom.h"
#include "graph/pass/passes.h"
#include "graph/session/session.h"

namespace quern {
namespace {

bool is_sized_by_run(const qn_kind* kind) { return kind != nullptr && (kind->flags & QN_KIND_SIZED_BY_RUN) != 0; }

size_t bytes_of(const Tensor& tensor) {
  size_t bytes = 0;
  return tensor_size(tensor.type, tensor.shape, &bytes) ? bytes : 0;  // it did not overflow when its shape was inferred
}

}  // namespace

LaterRun::LaterRun(const Model& model, const ExecutionOptions& options, size_t limit)
    : model_(model),
      options_(options),
      left_(limit),
      data_(model.graph.tensors.size()),
      buffers_(model.graph.tensors.size()),
      halves_(model.outputs.size()),
      planned_(model.later.nodes.size()) {
  shapes_.tensors = model.graph.tensors;
  shapes_.constants = model.graph.constants;
  for (size_t t = 0; t < data_.size(); ++t) {
    const int constant = shapes_.tensors[t].constant;
    if (constant >= 0) data_[t] = shapes_.constants[at(constant)].data;
  }
}

LaterRun::~LaterRun() {
  for (const Planned& planned : planned_) {
    for (qn_session* session : planned.sessions) qn_session_release(session);
  }
}

void LaterRun::give(size_t index, const Tensor& tensor, const void* data) {
  shapes_.tensors[index].shape = tensor.shape;
  shapes_.tensors[index].sized_by_run = false;
  data_[index] = data;
}

qn_status LaterRun::run(const qn_parallel* parallel, qn_profile_entry* profile, uint64_t start) {
  parallel_ = parallel;
  profiling_ = profile != nullptr;
  for (size_t i = 0; i < planned_.size(); ++i) {
    QN_TRY(check_cancelled(parallel_));
    const Node& node = model_.later.nodes[i];
    for (const int output : node.outputs) shapes_.tensors[at(output)].sized_by_run = false;
    const uint64_t before = profile == nullptr ? 0 : now_ns();
    macs_inside_ = 0;
    QN_TRY(name_culprit(run_node(i), node));
    if (profile == nullptr) continue;
    const NodePlan* const plan = planned_[i].plan.get();
    const PlanInfo info = plan == nullptr ? PlanInfo() : plan->info();
    profile[i].algorithm = info.algorithm;
    profile[i].kernel = info.kernel;
    profile[i].macs = info.macs + macs_inside_;  // what ran inside counts as the node's own
    note_run(before - start, now_ns() - before, &profile[i]);
  }
  make_halves();
  return QN_OK;
}

void LaterRun::make_halves() {
  for (size_t i = 0; i < halves_.size(); ++i) {
    const Port& port = model_.outputs[i];
    if (port.type != QN_F16 || model_.output_at[i] != Model::nowhere) continue;
    const size_t count = bytes_of(shapes_.tensors[at(port.tensor)]) / sizeof(float);
    if (halves_[i].size() < 2 * count) halves_[i] = Buffer(2 * count);
    const auto* const from = static_cast<const float*>(data_[at(port.tensor)]);
    auto* const to = static_cast<uint16_t*>(halves_[i].data());
    for (size_t k = 0; k < count; ++k) to[k] = fp16_ieee_from_fp32_value(from[k]);
  }
}

qn_status LaterRun::run_node(size_t index) {
  const Node& node = model_.later.nodes[index];
#ifndef QN_SMALL  // has_subgraphs
  if (node.kind == OpKind::branch) return run_branch(index);
  if (node.kind == OpKind::loop) return run_loop(index);
#endif
  if (is_sized_by_run(model_.later.kinds[index])) return run_sized_by_run(index);
  const Planned& planned = planned_[index];
  if (!has_met(index)) QN_TRY(plan(index));
  if (kind_of(node.kind).has(Kind::view)) {
    data_[at(node.outputs[0])] = data_[at(node.inputs[0])];
    return QN_OK;
  }
  for (const int output : node.outputs) QN_TRY(make_room(output));
  if (planned.plan == nullptr) return QN_OK;  // there are no elements to compute
  operands_.clear();
  for (const Vector<int>* tensors : {&node.inputs, &node.outputs}) {
    for (const int t : *tensors) operands_.push_back({t == no_tensor ? nullptr : const_cast<void*>(data_[at(t)])});
  }
  const size_t inputs = node.inputs.size();
  return planned.plan->run({operands_.data(), inputs}, {operands_.data() + inputs, node.outputs.size()},
                           {planned.workspace.data()}, parallel_);
}

// Whether the shapes of the node's outputs depend on elements of this input.
bool LaterRun::is_value_input(size_t index, size_t input) const {
  const qn_kind* const kind = model_.later.kinds[index];
  if (kind == nullptr || input >= 64 || (kind->value_inputs >> input & 1) == 0) return false;
  return model_.later.nodes[index].inputs[input] != no_tensor;
}

// Whether the node was last planned for the present shapes and values. Its outputs then still have the right shapes.
bool LaterRun::has_met(size_t index) const {
  const Node& node = model_.later.nodes[index];
  const Planned& planned = planned_[index];
  if (!planned.is_planned) return false;
  size_t begin = 0;  // of the input's elements in planned.values
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == no_tensor) continue;
    const Tensor& input = shapes_.tensors[at(node.inputs[i])];
    if (!(planned.shapes[i] == input.shape)) return false;
    if (!is_value_input(index, i)) continue;
    const size_t bytes = bytes_of(input);
    if (bytes != 0 && std::memcmp(planned.values.data() + begin, data_[at(node.inputs[i])], bytes) != 0) return false;
    begin += bytes;
  }
  return true;
}

// Infers the shapes of the outputs and plans the node. Inputs whose elements matter are constants in the meantime.
qn_status LaterRun::plan(size_t index) {
  const Node& node = model_.later.nodes[index];
  Planned& planned = planned_[index];
  planned.is_planned = false;
  const size_t constants = shapes_.constants.size();
  Vector<unsigned char> values;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!is_value_input(index, i)) continue;
    Tensor& tensor = shapes_.tensors[at(node.inputs[i])];
    const auto* const bytes = static_cast<const unsigned char*>(data_[at(node.inputs[i])]);
    values.insert(values.end(), bytes, bytes + bytes_of(tensor));
    if (tensor.constant >= 0) continue;
    tensor.constant = static_cast<int>(shapes_.constants.size());
    shapes_.constants.push_back({nullptr, data_[at(node.inputs[i])], bytes_of(tensor)});
  }
  const qn_status status = infer_and_plan(index);
  for (const int input : node.inputs) {
    if (input == no_tensor) continue;
    int& constant = shapes_.tensors[at(input)].constant;
    if (constant >= static_cast<int>(constants)) constant = -1;
  }
  shapes_.constants.resize(constants);
  QN_TRY(status);
  planned.shapes.clear();
  for (const int input : node.inputs) {
    planned.shapes.push_back(input == no_tensor ? Shape() : shapes_.tensors[at(input)].shape);
  }
  planned.values = std::move(values);
  planned.is_planned = true;
  return QN_OK;
}

qn_status LaterRun::infer_and_plan(size_t index) {
  const Node& node = model_.later.nodes[index];
  Planned& planned = planned_[index];
  QN_TRY(infer_node(shapes_, node));
  planned.plan.reset();
  const bool computes = any_of(node.outputs, [&](int output) { return !is_empty(shapes_.tensors[at(output)].shape); });
  if (!computes || kind_of(node.kind).has(Kind::view)) return QN_OK;
  QN_TRY(model_.later.operators[index].op->plan(shapes_, node, options_, &planned.plan));
  if (planned.workspace.size() < planned.plan->workspace_size()) {
    planned.workspace = Buffer(planned.plan->workspace_size());
  }
  return QN_OK;
}

// Makes a buffer for a tensor whose shape is known now.
qn_status LaterRun::make_room(int index) {
  const size_t bytes = bytes_of(shapes_.tensors[at(index)]);
  Buffer& buffer = buffers_[at(index)];
  if (buffer.size() < bytes) {
    const size_t free = left_ + buffer.size();
    if (bytes > free) return fail(QN_OUT_OF_MEMORY, "its outputs exceed the memory limit of the session");
    buffer = Buffer(bytes);
    left_ = free - bytes;
  }
  data_[at(index)] = buffer.data();
  return QN_OK;
}

// ---- kinds whose outputs are sized by their runs

// What allocate() needs to know.
struct LaterRun::Sizing {
  LaterRun* run;
  const Node* node;
  qn_operand* outputs;
};

qn_status LaterRun::allocate(const qn_node_run* run, size_t index, uint32_t rank, const size_t* shape, void** data) {
  return guarded([=] {
    const auto& [self, node, outputs] = *static_cast<const Sizing*>(run->context);
    if (index >= node->outputs.size() || rank > QN_MAX_RANK) return fail(QN_BAD_MODEL, "an output that does not exist");
    Tensor& tensor = self->shapes_.tensors[at(node->outputs[index])];
    tensor.shape.assign(shape, shape + rank);
    size_t bytes;
    if (!tensor_size(tensor.type, tensor.shape, &bytes)) return fail(QN_BAD_MODEL, "the size of an output overflows");
    QN_TRY(self->make_room(node->outputs[index]));
    *data = const_cast<void*>(self->data_[at(node->outputs[index])]);
    outputs[index].tensor.shape[0] = bytes;  // as many as there are elements, if these are booleans
    outputs[index].data = *data;
    return QN_OK;
  });
}

qn_status LaterRun::run_sized_by_run(size_t index) {
  const Node& node = model_.later.nodes[index];
  Vector<qn_operand> inputs = operands_of(shapes_, node.inputs), outputs(node.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] != no_tensor) inputs[i].data = const_cast<void*>(data_[at(node.inputs[i])]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].tensor.type = shapes_.tensors[at(node.outputs[i])].type;
    outputs[i].tensor.rank = 1;  // no elements
    data_[at(node.outputs[i])] = nullptr;
    shapes_.tensors[at(node.outputs[i])].shape = {0};
  }
  Sizing sizing = {this, &node, outputs.data()};
  qn_node_run run = {shown(node), inputs.data(), inputs.size(), outputs.data(), outputs.size(), nullptr,
                     nullptr,     nullptr,       parallel_,     allocate,       &sizing};
  return run_custom(*model_.later.operators[index].op, &run);
}

// ---- nodes that run graphs

#ifndef QN_SMALL  // has_subgraphs
// Whether a boolean is true. Its byte may come from a file or a user, and so be any.
static bool is_true(const void* element) { return *static_cast<const unsigned char*>(element) != 0; }

// Runs one of the graphs of a node.
qn_status LaterRun::run_child(size_t index, size_t child, const Vector<qn_tensor>& tensors,
                              const Vector<const void*>& data) {
  Vector<qn_session*>& sessions = planned_[index].sessions;
  sessions.resize(model_.later.children[index].size());
  qn_session*& session = sessions[child];
  if (session == nullptr) {
    qn_session_options options;
    qn_session_options_init(&options);
    options.threads = options_.tasks;
    options.parallel = parallel_;
    options.algorithm = options_.algorithm;
    options.memory_limit = std::max<size_t>(left_, 1);  // 0 would ask for the default
    options.profile = profiling_;
    QN_TRY(qn_session_create(model_.later.children[index][child].get(), &options, &session));
    session->inside = true;
  }
  bool fits = true;
  for (size_t i = 0; i < tensors.size() && fits; ++i) {
    qn_tensor now;
    QN_TRY(qn_session_input_tensor(session, i, &now));
    fits = same_shape(now, tensors[i]);
  }
  if (!fits) QN_TRY(qn_session_resize_all(session, tensors.data()));
  QN_TRY(qn_session_run(session, data.data()));
  for (const qn_profile_entry& entry : session->profile) macs_inside_ += entry.macs;
  return QN_OK;
}

// Copies an output of a session to a tensor of this graph.
qn_status LaterRun::keep_output(qn_session* session, size_t output, int to) {
  qn_tensor from;
  const void* data;
  QN_TRY(qn_session_output_tensor(session, output, &from));
  QN_TRY(qn_session_output(session, output, &data));
  shapes_.tensors[at(to)].shape.assign(from.shape, from.shape + from.rank);
  QN_TRY(make_room(to));
  const size_t bytes = bytes_of(shapes_.tensors[at(to)]);
  if (bytes != 0) std::memcpy(buffers_[at(to)].data(), data, bytes);
  return QN_OK;
}

qn_status LaterRun::run_branch(size_t index) {
  const Node& node = model_.later.nodes[index];
  if (is_empty(shapes_.tensors[at(node.inputs[0])].shape)) return fail(QN_INVALID_ARGUMENT, "the condition is empty");
  const size_t child = is_true(data_[at(node.inputs[0])]) ? 0 : 1;
  Vector<qn_tensor> tensors;
  Vector<const void*> data;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    tensors.push_back(describe(shapes_.tensors[at(node.inputs[i])]));
    data.push_back(data_[at(node.inputs[i])]);
  }
  QN_TRY(run_child(index, child, tensors, data));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    QN_TRY(keep_output(planned_[index].sessions[child], i, node.outputs[i]));
  }
  return QN_OK;
}

// Appends an output of a session to what earlier runs have left in a tensor, of which each run makes one row.
qn_status LaterRun::append_output(qn_session* session, size_t output, size_t rows, Vector<unsigned char>* gathered,
                                  int to) {
  qn_tensor from;
  const void* data;
  QN_TRY(qn_session_output_tensor(session, output, &from));
  QN_TRY(qn_session_output(session, output, &data));
  Shape shape(1 + from.rank);
  shape[0] = rows + 1;
  std::copy_n(from.shape, from.rank, shape.begin() + 1);
  if (shape.size() > QN_MAX_RANK) return fail(QN_INVALID_ARGUMENT, "an output of the loop has rank %zu", shape.size());
  Shape& before = shapes_.tensors[at(to)].shape;
  if (rows > 0 && !std::equal(shape.begin() + 1, shape.end(), before.begin() + 1, before.end())) {
    return fail(QN_INVALID_ARGUMENT, "the runs of a loop give rows of different shapes");
  }
  before = shape;
  const size_t bytes = bytes_of(shapes_.tensors[at(to)]) / shape[0];
  if (gathered->size() + bytes > left_) return fail(QN_OUT_OF_MEMORY, "its outputs exceed the memory limit");
  const auto* const row = static_cast<const unsigned char*>(data);
  gathered->insert(gathered->end(), row, row + bytes);
  return QN_OK;
}

// Inputs: the number of runs, the condition (either may be absent), `size` carried tensors, what else the graph reads.
// The graph reads the number of the run and the condition before the latter two. It gives the condition, the carried
// tensors, and one row for each further output.
qn_status LaterRun::run_loop(size_t index) {
  const Node& node = model_.later.nodes[index];
  const size_t carried = node.attributes.size, inputs = node.inputs.size(), outputs = node.outputs.size();
  for (size_t i = 0; i < 2; ++i) {
    const int t = node.inputs[i];
    if (t != no_tensor && is_empty(shapes_.tensors[at(t)].shape)) {
      return fail(QN_INVALID_ARGUMENT, "the %s of the loop is empty", i == 0 ? "number of runs" : "condition");
    }
  }
  const int limit = node.inputs[0], condition = node.inputs[1];
  const int64_t runs = limit == no_tensor ? INT64_MAX : *static_cast<const int64_t*>(data_[at(limit)]);
  bool goes_on = condition == no_tensor || is_true(data_[at(condition)]);
  int64_t run = 0;
  Vector<qn_tensor> tensors(inputs);
  Vector<const void*> data(inputs);
  QN_TRY(qn_tensor_init(&tensors[0], QN_S64, 0, nullptr));
  QN_TRY(qn_tensor_init(&tensors[1], QN_BOOL, 0, nullptr));
  data[0] = &run;
  data[1] = &goes_on;
  const auto take = [&](size_t i, int t) {
    tensors[i] = describe(shapes_.tensors[at(t)]);
    data[i] = data_[at(t)];
  };
  for (size_t i = 2; i < inputs; ++i) take(i, node.inputs[i]);
  Vector<Vector<unsigned char>> rows(outputs - carried);
  for (; run < runs && goes_on; ++run) {
    QN_TRY(check_cancelled(parallel_));
    QN_TRY(run_child(index, 0, tensors, data));
    qn_session* const session = planned_[index].sessions[0];
    for (size_t i = 0; i < carried; ++i) {
      QN_TRY(keep_output(session, 1 + i, node.outputs[i]));
      take(2 + i, node.outputs[i]);
    }
    for (size_t i = carried; i < outputs; ++i) {
      QN_TRY(append_output(session, 1 + i, static_cast<size_t>(run), &rows[i - carried], node.outputs[i]));
    }
    qn_tensor made;
    const void* next;
    QN_TRY(qn_session_output_tensor(session, 0, &made));
    QN_TRY(qn_session_output(session, 0, &next));
    if (qn_tensor_bytes(&made) == 0) return fail(QN_INVALID_ARGUMENT, "the condition of the loop is empty");
    goes_on = is_true(next);
  }
  if (run == 0) return skip_loop(index, tensors);
  for (size_t i = carried; i < outputs; ++i) {
    QN_TRY(make_room(node.outputs[i]));
    const Vector<unsigned char>& bytes = rows[i - carried];
    if (!bytes.empty()) std::memcpy(buffers_[at(node.outputs[i])].data(), bytes.data(), bytes.size());
  }
  return QN_OK;
}

// Infers the shapes of a model's tensors from those of its inputs.
static qn_status infer_from(const Model& model, const Vector<qn_tensor>& inputs, Graph* shapes) {
  shapes->tensors = model.graph.tensors;
  shapes->constants = model.graph.constants;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& input = shapes->tensors[at(model.graph.inputs[i].tensor)];
    input.shape.assign(inputs[i].shape, inputs[i].shape + inputs[i].rank);
    input.sized_by_run = false;
  }
  for (const Vector<Node>* nodes : {&model.graph.nodes, &model.later.nodes}) {
    for (const Node& node : *nodes) QN_TRY(infer_node(*shapes, node));
  }
  return QN_OK;
}

// Makes the outputs of a loop that runs zero times: the carried inputs, and empty scan outputs. Their shapes are inferred
// from the inputs of a first iteration. Shapes known only at run time are the declared ones.
qn_status LaterRun::skip_loop(size_t index, const Vector<qn_tensor>& inputs) {
  const Node& node = model_.later.nodes[index];
  const size_t carried = node.attributes.size;
  for (size_t i = 0; i < carried; ++i) {
    const size_t from = at(node.inputs[2 + i]), to = at(node.outputs[i]);
    shapes_.tensors[to].shape = shapes_.tensors[from].shape;
    QN_TRY(make_room(node.outputs[i]));
    const size_t bytes = bytes_of(shapes_.tensors[to]);
    if (bytes != 0) std::memcpy(buffers_[to].data(), data_[from], bytes);
  }
  if (carried == node.outputs.size()) return QN_OK;
  const Model& body = *model_.later.children[index][0]->impl;
  Graph shapes;
  const bool inferred = infer_from(body, inputs, &shapes) == QN_OK;  // if not, an iteration would fail
  for (size_t i = carried; i < node.outputs.size(); ++i) {
    Shape row = declared_row(node, i - carried);
    if (inferred) {
      const Tensor& made = tensor_of(shapes, body.outputs[1 + i].tensor);
      if (!made.sized_by_run) row = made.shape;
    }
    if (row.size() == QN_MAX_RANK) {
      return fail(QN_INVALID_ARGUMENT, "an output of the loop has rank %d", QN_MAX_RANK + 1);
    }
    row.insert(row.begin(), 0);
    shapes_.tensors[at(node.outputs[i])].shape = std::move(row);
    QN_TRY(make_room(node.outputs[i]));
  }
  return QN_OK;
}
#endif

}  // namespace quern
