#include "graph/plan/execution.h"

#include <fp16.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/needs.h"
#include "base/search.h"
#include "base/status.h"
#include "graph/pass/passes.h"
#include "graph/plan/layouts.h"

namespace quern {
namespace {

void to_f32(const void* from, void* to, size_t count) {
  const auto* x = static_cast<const uint16_t*>(from);
  auto* y = static_cast<float*>(to);
  for (size_t i = 0; i < count; ++i) y[i] = fp16_ieee_to_fp32_value(x[i]);
}

void to_f16(const void* from, void* to, size_t count) {
  const auto* x = static_cast<const float*>(from);
  auto* y = static_cast<uint16_t*>(to);
  for (size_t i = 0; i < count; ++i) y[i] = fp16_ieee_from_fp32_value(x[i]);
}

// Whether inputs of this type are copied before they are read. Booleans of a host may be any bytes.
bool is_converted(qn_type type) { return type == QN_F16 || (has_integers && type == QN_BOOL); }

size_t count(const Tensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), size_t{1}, std::multiplies<size_t>());
}

}  // namespace

// Bytes of a tensor that does not lie within another one.
size_t Execution::bytes(int index) const {
  qn_tensor whole = describe(tensor(index));
  std::fill_n(whole.stride, whole.rank, size_t{0});
  return qn_tensor_bytes(&whole);
}

Execution::Home Execution::add_block(uint8_t memory, size_t size, size_t first, size_t last) {
  Vector<Block>& blocks = arenas_[memory].blocks;
  blocks.push_back({size, first, last, 0});
  return {Home::arena, memory, static_cast<uint32_t>(blocks.size() - 1)};
}

Execution::Home Execution::add_block(int index, size_t first) {
  return add_block(tensor(index).memory, bytes(index), first, last_use_[at(index)]);
}

char* Execution::host_block(size_t block, const Buffers& buffers) const {
  if (has_api("bind") && owners_[block] != nowhere) {
    void* const bound = buffers.outputs[owners_[block]].data;
    if (bound != nullptr) return static_cast<char*>(bound);
  }
  return static_cast<char*>(buffers.arenas[0]) + arenas_[0].blocks[block].offset;
}

Location Execution::locate(const Home& home, const Buffers& buffers) const {
  switch (home.kind) {
    case Home::constant: return {const_cast<void*>(graph_.constants[home.index].data)};
    case Home::user: return {buffers.inputs[home.index].block, home.offset};
    case Home::arena:
      if (!has_backends || home.memory == 0) return {host_block(home.index, buffers), home.offset};
      return {buffers.arenas[home.memory], arenas_[home.memory].blocks[home.index].offset + home.offset};
    case Home::none: break;
  }
  return {};
}

// ---- planning

void Execution::find_lifetimes() {
  source_.resize(graph_.tensors.size());
  std::iota(source_.begin(), source_.end(), 0);
  last_use_.assign(graph_.tensors.size(), 0);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const Vector<int>* const lists[] = {&node.inputs, &fusions_[i].inputs};
    for (const Vector<int>* inputs : lists) {
      for (const int input : *inputs) {
        if (input != no_tensor) last_use_[at(source_[at(input)])] = i + 1;
      }
    }
    const size_t first = at(node.outputs[0]);  // the only one of a slice or view
    const bool slice = places_[first].kind == Placement::slice;
    if (slice || is_view(graph_, node)) source_[first] = source_[at(node.inputs[0])];
    for (const int output : node.outputs) last_use_[at(output)] = std::max(last_use_[at(output)], i + 1);
  }
  for (const Port& port : graph_.outputs) last_use_[at(source_[at(port.tensor)])] = last_step();
  // A tensor that contains parts is in use as long as any of its parts.
  for (size_t t = 0; t < places_.size(); ++t) {
    if (places_[t].kind != Placement::part) continue;
    size_t& last = last_use_[at(places_[t].within)];
    last = std::max(last, last_use_[t]);
  }
}

// Lets the node write over an input that nobody reads afterwards. The input is in an arena, neither lies within
// another tensor, and no other input shows the same elements in another shape.
bool Execution::run_in_place(size_t node_index) {
  const Node& node = graph_.nodes[node_index];
  const NodeOperator& op = *model_->operators[node_index].op;
  const int output = node.outputs[0];
  if (fusions_[node_index].plan != nullptr || node.outputs.size() != 1) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int input = node.inputs[i];
    if (input == no_tensor || !op.in_place(i) || homes_[at(input)].kind != Home::arena) continue;
    if (!tensor(input).stride.empty()) continue;
    if (last_use_[at(source_[at(input)])] != node_index + 1) continue;
    const bool as_large = qn_type_size(tensor(input).type) == qn_type_size(tensor(output).type);
    if (!as_large || tensor(input).shape != tensor(output).shape) continue;
    const bool alone = all_of(node.inputs, [&](int other) {
      return other == no_tensor || other == input || source_[at(other)] != source_[at(input)];
    });
    if (!alone) continue;
    homes_[at(output)] = homes_[at(input)];
    size_t& last = block(homes_[at(output)]).last;
    last = std::max(last, last_use_[at(output)]);
    return true;
  }
  return false;
}

// Decides where an output of the node lies.
void Execution::assign_home(size_t node, int index) {
  const size_t output = at(index);
  const Placement& place = places_[output];
  if (place.kind == Placement::part) {
    Home& whole = homes_[at(place.within)];  // made for the first part that is written
    if (whole.kind == Home::none) whole = add_block(place.within, node + 1);
    homes_[output] = whole;
    homes_[output].offset = place.offset;
  } else if (place.kind == Placement::slice) {
    homes_[output] = homes_[at(place.within)];
    homes_[output].offset += place.offset;
  } else if (source_[output] != index) {
    homes_[output] = homes_[at(graph_.nodes[node].inputs[0])];
  } else if (homes_[output].kind == Home::none && !run_in_place(node)) {
    homes_[output] = add_block(index, node + 1);
  }
}

void Execution::assign_homes() {
  homes_.resize(graph_.tensors.size());
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (graph_.tensors[i].constant >= 0)
      homes_[i] = {Home::constant, 0, static_cast<uint32_t>(graph_.tensors[i].constant)};
  }
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const Port& port = graph_.inputs[i];
    homes_[at(port.tensor)] =
        is_converted(port.type) ? add_block(port.tensor, 0) : Home{Home::user, 0, static_cast<uint32_t>(i)};
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (fusions_[i].absorbed) continue;  // its output is never in memory as a whole
    for (const int output : graph_.nodes[i].outputs) assign_home(i, output);
  }
}

// Whether a node has to run. A view does not, nor a node whose outputs have no elements, nor does a concat whose inputs all lie at their places, nor a node whose
// work another plan does.
bool Execution::runs(const Node& node) const {
  if (all_of(node.outputs, [&](int output) { return is_empty(tensor(output).shape); })) return false;
  const int output = node.outputs[0];
  if (source_[at(output)] != output) return false;
  return node.kind != OpKind::concat || !all_of(node.inputs, [&](int input) {
           return places_[at(input)].kind == Placement::part && places_[at(input)].of == output;
         });
}

void Execution::assign_outputs() {
  outputs_.resize(graph_.outputs.size());
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Port& port = graph_.outputs[i];
    const Home& home = homes_[at(port.tensor)];
    Output& output = outputs_[i];
    output.copied = port.type == QN_F16 || home.kind == Home::user;
    if (output.copied) {
      const size_t size = count(tensor(port.tensor)) * qn_type_size(port.type);
      output.block = add_block(uint8_t{0}, size, last_step(), last_step()).index;
    } else if (home.kind == Home::arena && block(home).bytes == bytes(port.tensor)) {
      output.block = home.index;  // the block holds this output and nothing else
    }
  }
  if (!has_api("bind")) return;
  owners_ = Vector<size_t>(arenas_[0].blocks.size(), nowhere);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].block == nowhere) continue;
    size_t& owner = owners_[outputs_[i].block];
    if (owner == nowhere) {
      owner = i;
    } else {
      outputs_[i].block = nowhere;  // another output uses the block
    }
  }
}

qn_status Execution::plan_nodes() {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    Fusion& fusion = fusions_[i];
    if (fusion.absorbed || !runs(node)) continue;
    const ModelOperator& made = model_->operators[i];
    Step& step = steps_.emplace_back();
    step.node = step.shown = i;
    step.backend = made.backend;
    if (fusion.plan != nullptr) {
      step.plan = std::move(fusion.plan);
      step.shown = fusion.shown;
    } else {
      QN_TRY(name_culprit(made.op->plan(graph_, node, options_, &step.plan), node));
    }
    const Vector<int>& inputs = fusion.inputs.empty() ? node.inputs : fusion.inputs;
    step.inputs = inputs.size();
    for (const Vector<int>* tensors : {&inputs, &node.outputs}) {
      for (const int t : *tensors) step.operands.push_back(t == no_tensor ? Home() : homes_[at(t)]);
    }
    most_operands_ = std::max(most_operands_, step.operands.size());
    const size_t workspace = step.plan->workspace_size();
    const uint8_t memory = tensor(node.outputs[0]).memory;
    if (workspace != 0) step.workspace = add_block(memory, workspace, i + 1, i + 1);
  }
  return QN_OK;
}

qn_status Execution::plan() {
  assign_layouts(*model_, options_, graph_);
  places_ = place_tensors(*model_, graph_);
  QN_TRY(find_fusions(*model_, graph_, places_, options_, &fusions_));
  find_lifetimes();
  assign_homes();
  QN_TRY(plan_nodes());
  assign_outputs();
  for (size_t m = 0; m < model_->memory_count; ++m) QN_TRY(plan_memory(arenas_[m].blocks, &arenas_[m].bytes));
  return QN_OK;
}

qn_status Execution::make(Shared<const Model> model, Graph graph, const ExecutionOptions& options,
                          Shared<Execution>* made) {
  auto e = quern::make_shared<Execution>(std::move(model), std::move(graph), options);
  QN_TRY(e->plan());
  *made = std::move(e);
  return QN_OK;
}

// ---- sharing

// Measured choices may change, so executions with tuning are not shared.
bool Execution::fits(const Graph& graph, const ExecutionOptions& options) const {
  if (options.tuning != nullptr || options_.tuning != nullptr) return false;
  if (options.tasks != options_.tasks || options.algorithm != options_.algorithm) return false;
  return all_of(graph.inputs,
                [&](const Port& port) { return graph.tensors[at(port.tensor)].shape == tensor(port.tensor).shape; });
}

Shared<const Execution> Execution::find(const Model& model, const Graph& graph, const ExecutionOptions& options) {
  const Lock lock(model.mutex);
  for (const Execution* e = model.executions; e != nullptr; e = e->next_) {
    if (!e->fits(graph, options)) continue;
    Shared<const Execution> found = e->self_.lock();
    if (found != nullptr) return found;  // NULL: its destructor has begun and waits for the mutex
  }
  return nullptr;
}

void Execution::share(const Shared<Execution>& execution) {
  const Lock lock(execution->model_->mutex);
  execution->self_ = execution;
  execution->shared_ = true;
  execution->next_ = std::exchange(execution->model_->executions, execution.get());
}

Execution::~Execution() {
  if (!has_api("arena") || !shared_) return;
  const Lock lock(model_->mutex);
  Execution** link = &model_->executions;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

// ---- running

void Execution::begin(const Buffers& buffers) const {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const int input = graph_.inputs[i].tensor;
    const Home& home = homes_[at(input)];
    if (home.kind != Home::arena) continue;
    const void* const from = buffers.inputs[i].block;
    void* const to = host_block(home.index, buffers);
    if (graph_.inputs[i].type == QN_F16) {
      to_f32(from, to, count(tensor(input)));
    } else if (has_integers) {
      copy_booleans(from, count(tensor(input)), to);
    }
  }
}

qn_status Execution::run(size_t index, const Buffers& buffers, const qn_parallel* parallel) const {
  const Step& step = steps_[index];
  const size_t operands = step.operands.size();
  for (size_t i = 0; i < operands; ++i) buffers.scratch[i] = locate(step.operands[i], buffers);
  const std::span<const Location> inputs = {buffers.scratch, step.inputs};
  const std::span<const Location> outputs = {buffers.scratch + step.inputs, operands - step.inputs};
  const qn_status status = step.plan->run(inputs, outputs, locate(step.workspace, buffers), parallel);
  const bool leaves_backend = index + 1 == steps_.size() || steps_[index + 1].backend != step.backend;
  return status != QN_OK || leaves_backend ? synchronise(step, status) : QN_OK;
}

// Waits for the step's backend after the step has returned `status`.
qn_status Execution::synchronise(const Step& step, qn_status status) const {
  if (has_backends && step.backend->synchronise != nullptr) {
    const EarlierMessage message;
    const qn_status late = step.backend->synchronise();
    if (status != QN_OK) {
      message.put_back();
    } else {
      status = late;
    }
  }
  return name_culprit(status, graph_.nodes[step.shown]);
}

void Execution::stop(size_t next_step) const {
  if (next_step != 0) synchronise(steps_[next_step - 1], QN_OK);
}

void Execution::end(const Buffers& buffers) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Port& port = graph_.outputs[i];
    const void* from = address(locate(homes_[at(port.tensor)], buffers));
    void* to = const_cast<void*>(output(i, buffers));
    if (to == from) continue;  // the user reads it there
    if (port.type == QN_F16) {
      to_f16(from, to, count(tensor(port.tensor)));
    } else if (const size_t size = bytes(port.tensor); size != 0) {
      std::memcpy(to, from, size);
    }
  }
}

const void* Execution::output(size_t index, const Buffers& buffers) const {
  const size_t block = outputs_[index].block;
  if (block != nowhere) return host_block(block, buffers);
  if (has_api("bind") && buffers.outputs[index].data != nullptr) return buffers.outputs[index].data;
  return address(locate(homes_[at(graph_.outputs[index].tensor)], buffers));
}

}  // namespace quern
