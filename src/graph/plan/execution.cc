#include "graph/plan/execution.h"

#include <fp16.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/needs.h"
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

size_t at(int index) { return static_cast<size_t>(index); }

size_t count(const Tensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), size_t{1}, std::multiplies<size_t>());
}

}  // namespace

// Of a tensor that lies within no other.
size_t Execution::bytes(int index) const {
  qn_tensor whole = describe(tensor(index));
  std::fill_n(whole.stride, whole.rank, size_t{0});
  return qn_tensor_bytes(&whole);
}

size_t Execution::add_block(size_t size, size_t first, size_t last) {
  blocks_.push_back({size, first, last, 0});
  return blocks_.size() - 1;
}

void* Execution::block_address(size_t block, const Buffers& buffers) const {
  if (has_api("bind") && owners_[block] != nowhere) {
    void* const bound = buffers.outputs[owners_[block]].data;
    if (bound != nullptr) return bound;
  }
  return buffers.arena + blocks_[block].offset;
}

const void* Execution::address(const Home& home, const Buffers& buffers) const {
  switch (home.kind) {
    case Home::constant: return graph_.constants[home.index].data;
    case Home::user: return static_cast<const char*>(buffers.inputs[home.index]) + home.offset;
    case Home::arena: return static_cast<const char*>(block_address(home.index, buffers)) + home.offset;
    case Home::none: break;
  }
  return nullptr;
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
    const int output = node.outputs[0];
    const bool slice = places_[at(output)].kind == Placement::slice;
    if (slice || is_view(graph_, node)) source_[at(output)] = source_[at(node.inputs[0])];
    last_use_[at(output)] = std::max(last_use_[at(output)], i + 1);
  }
  for (const Port& port : graph_.outputs) last_use_[at(source_[at(port.tensor)])] = last_step();
  // What parts are within lives as long as any of them.
  for (const Node& node : graph_.nodes) {
    const size_t output = at(node.outputs[0]);
    if (places_[output].kind != Placement::part) continue;
    size_t& last = last_use_[at(places_[output].within)];
    last = std::max(last, last_use_[output]);
  }
}

// Lets the node write over an input that nobody reads afterwards. The input is in the arena, neither lies within
// another tensor, and no other input shows the same elements in another shape.
bool Execution::run_in_place(const NodeOperator& op, size_t node_index) {
  const Node& node = graph_.nodes[node_index];
  const int output = node.outputs[0];
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int input = node.inputs[i];
    if (input == no_tensor || !op.in_place(i) || homes_[at(input)].kind != Home::arena) continue;
    if (!tensor(input).stride.empty()) continue;
    if (last_use_[at(source_[at(input)])] != node_index + 1 || tensor(input).shape != tensor(output).shape) continue;
    const bool alone = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int other) {
      return other == no_tensor || other == input || source_[at(other)] != source_[at(input)];
    });
    if (!alone) continue;
    homes_[at(output)] = homes_[at(input)];
    Block& block = blocks_[homes_[at(output)].index];
    block.last = std::max(block.last, last_use_[at(output)]);
    return true;
  }
  return false;
}

void Execution::assign_homes() {
  homes_.resize(graph_.tensors.size());
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (graph_.tensors[i].constant >= 0) homes_[i] = {Home::constant, at(graph_.tensors[i].constant)};
  }
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const int input = graph_.inputs[i].tensor;
    homes_[at(input)] = {Home::user, i};
    if (graph_.inputs[i].type == QN_F16) {
      homes_[at(input)] = {Home::arena, add_block(bytes(input), 0, last_use_[at(input)])};
    }
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const size_t output = at(graph_.nodes[i].outputs[0]);
    const Placement& place = places_[output];
    if (fusions_[i].absorbed) continue;  // what it writes never lies anywhere as a whole
    if (place.kind == Placement::part) {
      Home& whole = homes_[at(place.within)];  // made for the first part that is written
      if (whole.kind == Home::none)
        whole = {Home::arena, add_block(bytes(place.within), i + 1, last_use_[at(place.within)])};
      homes_[output] = {whole.kind, whole.index, place.offset};
    } else if (place.kind == Placement::slice) {
      homes_[output] = homes_[at(place.within)];
      homes_[output].offset += place.offset;
    } else if (source_[output] != graph_.nodes[i].outputs[0]) {
      homes_[output] = homes_[at(graph_.nodes[i].inputs[0])];
    } else if (homes_[output].kind == Home::none &&
               (fusions_[i].plan != nullptr || !run_in_place(*model_->operators[i].op, i))) {
      homes_[output] = {Home::arena, add_block(bytes(graph_.nodes[i].outputs[0]), i + 1, last_use_[output])};
    }
  }
}

// Views need nothing done, nor does a concat whose inputs all lie where they belong, nor what another plan does.
bool Execution::runs(const Node& node) const {
  const int output = node.outputs[0];
  if (source_[at(output)] != output) return false;
  return node.kind != OpKind::concat || !std::all_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
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
      output.block = add_block(count(tensor(port.tensor)) * qn_type_size(port.type), last_step(), last_step());
    } else if (home.kind == Home::arena && blocks_[home.index].bytes == bytes(port.tensor)) {
      output.block = home.index;  // with room for this output and nothing else
    }
  }
  if (!has_api("bind")) return;
  owners_ = Vector<size_t>(blocks_.size(), nowhere);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].block == nowhere) continue;
    size_t& owner = owners_[outputs_[i].block];
    if (owner == nowhere) {
      owner = i;
    } else {
      outputs_[i].block = nowhere;  // another output has it
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
    for (const int input : fusion.inputs.empty() ? node.inputs : fusion.inputs) {
      step.inputs.push_back(input == no_tensor ? Home() : homes_[at(input)]);
    }
    most_inputs_ = std::max(most_inputs_, step.inputs.size());
    step.output = homes_[at(node.outputs[0])];  // in the arena
    const size_t workspace = step.plan->workspace_size();
    if (workspace != 0) step.workspace = {Home::arena, add_block(workspace, i + 1, i + 1)};
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
  return plan_memory(blocks_, &arena_bytes_);
}

qn_status Execution::make(Shared<const Model> model, Graph graph, const ExecutionOptions& options,
                          Shared<Execution>* made) {
  auto e = quern::make_shared<Execution>(std::move(model), std::move(graph), options);
  QN_TRY(e->plan());
  *made = std::move(e);
  return QN_OK;
}

// ---- sharing

// Measured choices may change, so who has some plans for himself.
bool Execution::fits(const Graph& graph, const ExecutionOptions& options) const {
  if (options.tuning != nullptr || options_.tuning != nullptr) return false;
  if (options.tasks != options_.tasks || options.algorithm != options_.algorithm) return false;
  return std::all_of(graph.inputs.begin(), graph.inputs.end(), [&](const Port& port) {
    return graph.tensors[at(port.tensor)].shape == tensor(port.tensor).shape;
  });
}

Shared<const Execution> Execution::find(const Model& model, const Graph& graph, const ExecutionOptions& options) {
  const Lock lock(model.mutex);
  for (const Execution* e = model.executions; e != nullptr; e = e->next_) {
    if (!e->fits(graph, options)) continue;
    Shared<const Execution> found = e->self_.lock();
    if (found != nullptr) return found;  // else its end waits for the mutex
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
    to_f32(buffers.inputs[i], block_address(home.index, buffers), count(tensor(input)));
  }
}

qn_status Execution::run(size_t index, const Buffers& buffers, const qn_parallel* parallel) const {
  const Step& step = steps_[index];
  for (size_t i = 0; i < step.inputs.size(); ++i) buffers.scratch[i] = address(step.inputs[i], buffers);
  void* const output = const_cast<void*>(address(step.output, buffers));
  void* const workspace = const_cast<void*>(address(step.workspace, buffers));
  QN_TRY(step.plan->run(buffers.scratch, &output, workspace, parallel));
  const bool leaves_backend = index + 1 == steps_.size() || steps_[index + 1].backend != step.backend;
  if (leaves_backend && step.backend->synchronise != nullptr) step.backend->synchronise();
  return QN_OK;
}

void Execution::end(const Buffers& buffers) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Port& port = graph_.outputs[i];
    const void* from = address(homes_[at(port.tensor)], buffers);
    void* to = const_cast<void*>(output(i, buffers));
    if (to == from) continue;  // the user gets it where it is
    if (port.type == QN_F16) {
      to_f16(from, to, count(tensor(port.tensor)));
    } else {
      std::memcpy(to, from, bytes(port.tensor));
    }
  }
}

const void* Execution::output(size_t index, const Buffers& buffers) const {
  const size_t block = outputs_[index].block;
  if (block != nowhere) return block_address(block, buffers);
  if (has_api("bind") && buffers.outputs[index].data != nullptr) return buffers.outputs[index].data;
  return address(homes_[at(graph_.outputs[index].tensor)], buffers);
}

}  // namespace quern
