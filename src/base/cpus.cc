#include "base/cpus.h"

#include <cpuinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#ifdef __linux__
#include <sched.h>
#endif

#include "base/cpu.h"
#include "base/needs.h"

namespace quern {
namespace {

// The processors on which the calling thread may run.
class Affinity {
 public:
#ifdef __linux__
  Affinity() : known_(sched_getaffinity(0, sizeof set_, set_) == 0) {}
  bool allows(const cpuinfo_processor& processor) const {
    const auto id = static_cast<size_t>(processor.linux_id);
    return !known_ || (id < 8 * sizeof set_ && CPU_ISSET_S(id, sizeof set_, set_));
  }
  size_t count() const { return known_ ? static_cast<size_t>(CPU_COUNT_S(sizeof set_, set_)) : 0; }

 private:
  cpu_set_t set_[8] = {};  // 8192 processors: the call fails if the kernel knows more than fit
  bool known_;
#else
  bool allows(const cpuinfo_processor&) const { return true; }
  size_t count() const { return 0; }
#endif
};

// How many cores of the cluster have a processor that is allowed.
size_t allowed_cores(const cpuinfo_cluster& cluster, const Affinity& affinity) {
  size_t count = 0;
  const cpuinfo_core* last = nullptr;  // a core's processors follow each other
  for (uint32_t i = 0; i < cluster.processor_count; ++i) {
    const cpuinfo_processor& processor = *cpuinfo_get_processor(cluster.processor_start + i);
    if (processor.core == last || !affinity.allows(processor)) continue;
    last = processor.core;
    ++count;
  }
  return count;
}

// Goes from the slowest cluster to the fastest one, so that the first one with cores is the slowest of those that count.
template <class CoresOf>
size_t count_fast(const cpuinfo_cluster* clusters, size_t count, const CoresOf& cores_of) {
  size_t fast = 0, all = 0;
  const cpuinfo_cluster* slowest = nullptr;
  for (size_t i = count; i-- > 0;) {
    const cpuinfo_cluster& cluster = clusters[i];
    const size_t cores = cores_of(cluster);
    if (cores == 0) continue;
    if (slowest == nullptr) slowest = &cluster;
    all += cores;
    if (cluster.uarch != slowest->uarch || cluster.frequency != slowest->frequency) fast += cores;
  }
  return fast != 0 ? fast : all;
}

size_t allowed_fast_cores() {
  const Affinity affinity;
  const size_t fast = count_fast(cpuinfo_get_clusters(), cpuinfo_get_clusters_count(),
                                 [&](const cpuinfo_cluster& cluster) { return allowed_cores(cluster, affinity); });
  // cpuinfo knows no cores in some containers and under emulators, but on phones.
  return std::max<size_t>(fast != 0 || small ? fast : affinity.count(), 1);
}

// ---- control groups

// Reads the numbers at the beginning of a small file; returns how many there are.
int read_numbers(const char* folder, const char* name, long long* first, long long* second) {
  char path[4096 + 32];
  std::snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  const int count = std::fscanf(file, "%lld %lld", first, second);
  std::fclose(file);
  return count;
}

// The quota of one group, of either version of control groups. Files of groups without a limit say "max" or -1.
size_t quota_of_group(const char* folder) {
  long long quota = 0, period = 0;
  if (read_numbers(folder, "cpu.max", &quota, &period) != 2 &&
      (read_numbers(folder, "cpu.cfs_quota_us", &quota, &period) != 1 ||
       read_numbers(folder, "cpu.cfs_period_us", &period, &quota) != 1)) {
    return no_quota;
  }
  return quota > 0 && period > 0 ? std::max<size_t>(static_cast<size_t>(quota / period), 1) : no_quota;
}

// A group cannot use more than the groups around it. A container may show its own groups at the mount although the
// file names them as the host does: the mount itself always counts.
size_t smallest_quota(const char* mount, const char* group) {
  char folder[4096];
  const size_t end = std::strlen(mount);
  if (std::snprintf(folder, sizeof folder, "%s%s", mount, group) >= static_cast<int>(sizeof folder)) return no_quota;
  size_t smallest = quota_of_group(folder);
  for (size_t length = std::strlen(folder); length > end;) {
    while (length > end && folder[length - 1] != '/') --length;
    if (length > end) --length;
    folder[length] = '\0';
    smallest = std::min(smallest, quota_of_group(folder));
  }
  return smallest;
}

// Does the list of controllers, with commas between, contain that of CPU time?
bool has_cpu(const char* controllers) {
  for (const char* at = controllers; at != nullptr; at = std::strchr(at, ',')) {
    at += *at == ',' ? 1 : 0;
    if (std::strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) return true;
  }
  return false;
}

}  // namespace

size_t cpu_quota(const char* groups, const char* mount) {
  FILE* const file = std::fopen(groups, "re");
  if (file == nullptr) return no_quota;
  size_t smallest = no_quota;
  char line[4096];
  while (std::fgets(line, sizeof line, file) != nullptr) {  // "number:controllers:/group"
    line[std::strcspn(line, "\n")] = '\0';
    char* const controllers = std::strchr(line, ':');
    char* const group = controllers == nullptr ? nullptr : std::strchr(controllers + 1, ':');
    if (group == nullptr) continue;
    *group = '\0';
    const bool unified = controllers[1] == '\0';  // version 2
    if (!unified && !has_cpu(controllers + 1)) continue;
    char top[4096];
    std::snprintf(top, sizeof top, "%s%s", mount, unified ? "" : "/cpu");
    smallest = std::min(smallest, smallest_quota(top, group + 1));
  }
  std::fclose(file);
  return smallest;
}

size_t fast_cores(const cpuinfo_cluster* clusters, size_t count) {
  const auto cores_of = [](const cpuinfo_cluster& cluster) { return size_t{cluster.core_count}; };
  return std::max<size_t>(count_fast(clusters, count, cores_of), 1);
}

size_t usable_cores() {
  if (small) return allowed_fast_cores();
  return cpu().cpus != 0 ? cpu().cpus : std::min(allowed_fast_cores(), cpu().quota);
}

}  // namespace quern
