// Backends with memories of their own, for tests. Nobody but the backend can touch a memory: handles are no addresses,
// and its pages cannot be read or written but while it works. And it works as late as it may: what it is asked for
// waits until it is synchronised.
#pragma once

#include <quern/graph.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "graph/backend/backend.h"

namespace quern::test {

class Remote {
 public:
  using Wants = std::function<bool(const Graph& graph, size_t node)>;

  // Adds backend `which` of most_remotes, which runs what the CPU runs and `wants` agrees to.
  Remote(size_t which, Wants wants);
  // Removes it. Nothing may be left of its memory.
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  static constexpr size_t most_remotes = 2;

  // How often what was asked for.
  struct Counts {
    size_t allocations = 0, runs = 0, writes = 0, reads = 0;
    bool operator==(const Counts&) const = default;
  };
  Counts counts() const;
  size_t blocks() const;  // that are there
  size_t waiting() const;

  // Which call is to fail, counted from now on; the last one does so when it is done, not when it is asked for.
  size_t failing_allocation = never, failing_run = never, failing_work = never;
  static constexpr size_t never = SIZE_MAX;
  std::function<void()> when_asked = [] {};  // for a run

  // ---- what the backend calls

  bool wants(const Graph& graph, const Node& node) const;
  qn_status allocate(size_t bytes, void** block);
  void release(void* block);
  qn_status write(const Location& to, const void* from, size_t bytes);
  qn_status read(void* to, const Location& from, size_t bytes);
  qn_status run(const NodePlan& plan, std::span<const Location> inputs, std::span<const Location> outputs,
                const Location& workspace, const qn_parallel* parallel);
  qn_status synchronise();

 private:
  struct Mapping {
    char* data;
    size_t bytes;
  };
  char* find(const Location& location) const;  // while it works
  void protect(bool closed) const;

  const size_t which_;
  const Wants wants_;
  mutable std::mutex mutex_;
  std::map<void*, Mapping> blocks_;
  std::vector<std::function<qn_status()>> queue_;
  Counts counts_;
  size_t made_ = 0;
};

}  // namespace quern::test
