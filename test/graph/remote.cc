#include "remote.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/status.h"

namespace quern::test {
namespace {

std::array<Remote*, Remote::most_remotes> remotes;

class RemotePlan : public NodePlan {
 public:
  RemotePlan(Remote& remote, size_t inputs, std::unique_ptr<NodePlan> cpu)
      : remote_(remote), inputs_(inputs), cpu_(std::move(cpu)) {}

  size_t workspace_size() const override { return cpu_->workspace_size(); }
  PlanInfo info() const override { return cpu_->info(); }
  qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location& workspace,
                const qn_parallel* parallel) const override {
    return remote_.run(*cpu_, inputs.first(inputs_), outputs, workspace, parallel);
  }

 private:
  Remote& remote_;
  size_t inputs_;  // without parameters
  std::unique_ptr<NodePlan> cpu_;
};

class RemoteOperator : public NodeOperator {
 public:
  RemoteOperator(Remote& remote, std::unique_ptr<NodeOperator> cpu) : remote_(remote), cpu_(std::move(cpu)) {}

  bool in_place(size_t input) const override { return cpu_->in_place(input); }
  bool strided() const override { return cpu_->strided(); }
  Layouts layouts() const override { return cpu_->layouts(); }
  double cost(const Graph& shapes, const Node& node, const ExecutionOptions& options) const override {
    return cpu_->cost(shapes, node, options);
  }
  qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions& options,
                 std::unique_ptr<NodePlan>* plan) const override {
    std::unique_ptr<NodePlan> cpu;
    QN_TRY(cpu_->plan(shapes, node, options, &cpu));
    size_t inputs = 0;
    while (inputs < node.inputs.size() && is_read_by_runs(node, inputs)) ++inputs;
    plan->reset(new RemotePlan(remote_, inputs, std::move(cpu)));
    return QN_OK;
  }
  qn_status plan_chain(const Graph&, const Node&, const NodeOperator&, const Node&, const ExecutionOptions&,
                       std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }
  qn_status plan_residual(const Graph&, const Node&, const Residual&, const ExecutionOptions&,
                          std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }

 private:
  Remote& remote_;
  std::unique_ptr<NodeOperator> cpu_;
};

template <size_t which>
struct Entry {
  static constexpr Memory memory = {
      which == 0 ? "near" : "far", [](size_t bytes, void** block) { return remotes[which]->allocate(bytes, block); },
      [](void* block) { remotes[which]->release(block); },
      [](const Location& to, const void* from, size_t bytes) { return remotes[which]->write(to, from, bytes); },
      [](void* to, const Location& from, size_t bytes) { return remotes[which]->read(to, from, bytes); }};
  static constexpr Backend backend = {
      memory.name, &memory,
      [](const Graph& graph, const Node& node) {
        return remotes[which]->wants(graph, node) && cpu_backend.claims(graph, node);
      },
      [](const Graph& graph, const Node& node, qn_weights_cache* cache, std::unique_ptr<NodeOperator>* made) {
        std::unique_ptr<NodeOperator> cpu;
        QN_TRY(cpu_backend.create(graph, node, cache, &cpu));
        made->reset(new RemoteOperator(*remotes[which], std::move(cpu)));
        return QN_OK;
      },
      [] { return remotes[which]->synchronise(); }};
};

constexpr const Backend* backends[Remote::most_remotes] = {&Entry<0>::backend, &Entry<1>::backend};

// Whether the call that counts down to 0 is this one.
bool is_due(size_t* left) { return *left != Remote::never && (*left)-- == 0; }

}  // namespace

Remote::Remote(size_t which, Wants wants) : which_(which), wants_(std::move(wants)) {
  remotes[which] = this;
  EXPECT_EQ(add_backend(*backends[which]), QN_OK);
}

Remote::~Remote() {
  EXPECT_TRUE(blocks_.empty());
  EXPECT_TRUE(queue_.empty());
  remove_backend(*backends[which_]);
  remotes[which_] = nullptr;
}

Remote::Counts Remote::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}
size_t Remote::blocks() const {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}
size_t Remote::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

bool Remote::wants(const Graph& graph, const Node& node) const {
  return wants_(graph, static_cast<size_t>(&node - graph.nodes.data()));
}

qn_status Remote::allocate(size_t bytes, void** block) {
  const std::lock_guard lock(mutex_);
  ++counts_.allocations;
  if (is_due(&failing_allocation)) return fail(QN_OUT_OF_MEMORY, "the memory is full");
  void* const data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return fail(QN_OUT_OF_MEMORY, "the system gives no memory");
  *block = reinterpret_cast<void*>(2 * ++made_ + 1);  // nothing lies at addresses so low
  blocks_[*block] = {static_cast<char*>(data), bytes};
  return QN_OK;
}

void Remote::release(void* block) {
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(queue_.empty()) << "a block is released that is in use";
  munmap(blocks_.at(block).data, blocks_.at(block).bytes);
  blocks_.erase(block);
}

char* Remote::find(const Location& location) const {
  if (location.block == nullptr) return nullptr;
  const Mapping& mapping = blocks_.at(location.block);
  EXPECT_LT(location.offset, mapping.bytes);
  return mapping.data + location.offset;
}

void Remote::protect(bool closed) const {
  for (const auto& [handle, mapping] : blocks_) {
    EXPECT_EQ(mprotect(mapping.data, mapping.bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE), 0);
  }
}

qn_status Remote::write(const Location& to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++counts_.writes;
  queue_.push_back([=, this] { return std::memcpy(find(to), from, bytes), QN_OK; });
  return QN_OK;
}

qn_status Remote::read(void* to, const Location& from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  ++counts_.reads;
  queue_.push_back([=, this] { return std::memcpy(to, find(from), bytes), QN_OK; });
  return QN_OK;
}

qn_status Remote::run(const NodePlan& plan, std::span<const Location> inputs, std::span<const Location> outputs,
                      const Location& workspace, const qn_parallel* parallel) {
  const std::lock_guard lock(mutex_);
  ++counts_.runs;
  when_asked();
  if (is_due(&failing_run)) return fail(QN_IO_ERROR, "the machine is gone");
  std::vector<Location> in(inputs.begin(), inputs.end()), out(outputs.begin(), outputs.end());
  queue_.push_back([=, this, &plan]() mutable {
    if (is_due(&failing_work)) return fail(QN_IO_ERROR, "the machine got lost");
    for (std::vector<Location>* list : {&in, &out}) {
      for (Location& location : *list) location = {find(location)};
    }
    return plan.run(in, out, {find(workspace)}, parallel);
  });
  return QN_OK;
}

qn_status Remote::synchronise() {
  const std::lock_guard lock(mutex_);
  protect(false);
  qn_status status = QN_OK;
  for (const auto& work : queue_) {
    if (status == QN_OK) status = work();
  }
  queue_.clear();
  protect(true);
  return status;
}

}  // namespace quern::test
