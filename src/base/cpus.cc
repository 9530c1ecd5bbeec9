#include "base/cpus.h"

#include <cpuinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
  size_t count() const {
    size_t count = 0;
    for (size_t id = 0; id < 8 * sizeof set_; ++id) count += CPU_ISSET_S(id, sizeof set_, set_) ? 1 : 0;
    return count;
  }

 private:
  cpu_set_t set_[8] = {};  // 8192 processors: the call fails if the kernel knows more than fit
  bool known_;
#else
  bool allows(const cpuinfo_processor&) const { return true; }
  size_t count() const { return 0; }
#endif
};

// How many processors of the cluster are allowed; or how many of its cores have such a processor.
size_t allowed_of(const cpuinfo_cluster& cluster, const Affinity& affinity, bool processors) {
  size_t count = 0;
  const cpuinfo_core* last = nullptr;  // a core's processors follow each other
  for (uint32_t i = 0; i < cluster.processor_count; ++i) {
    const cpuinfo_processor& processor = *cpuinfo_get_processor(cluster.processor_start + i);
    if (processor.core == last || !affinity.allows(processor)) continue;
    if (!processors) last = processor.core;
    ++count;
  }
  return count;
}

// Sums count_of(cluster) over the clusters that are faster than the slowest one; over all clusters if there are none, or if
// `all_wanted`. Goes from the slowest cluster to the fastest one, so the first with a count above 0 is the slowest.
template <class CountOf>
size_t count_fast(const cpuinfo_cluster* clusters, size_t count, const CountOf& count_of, bool all_wanted = false) {
  size_t fast = 0, all = 0;
  const cpuinfo_cluster* slowest = nullptr;
  for (size_t i = count; i-- > 0;) {
    const cpuinfo_cluster& cluster = clusters[i];
    const size_t cores = count_of(cluster);
    if (cores == 0) continue;
    if (slowest == nullptr) slowest = &cluster;
    all += cores;
    if (cluster.uarch != slowest->uarch || cluster.frequency != slowest->frequency) fast += cores;
  }
  return fast != 0 && !all_wanted ? fast : all;
}

// The processors that are allowed, fast or slow; or only the fast cores.
size_t allowed(bool processors) {
  const Affinity affinity;
  const bool known = cpuinfo_initialize();  // else it would end the process when it is asked
  const auto count_of = [&](const cpuinfo_cluster& cluster) { return allowed_of(cluster, affinity, processors); };
  const size_t count =
      known ? count_fast(cpuinfo_get_clusters(), cpuinfo_get_clusters_count(), count_of, processors) : 0;
  // cpuinfo knows no cores in some containers and under emulators, but on phones.
  return std::max<size_t>(count != 0 || small ? count : affinity.count(), 1);
}

// ---- control groups

constexpr size_t text_bytes = 4096;  // of the file that names the groups, and of one of these names

// Reads the beginning of a file as text, which stays empty if there is no file.
void read_text(const char* path, char* text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? 0 : read(file, text, size - 1);
  text[bytes > 0 ? bytes : 0] = '\0';
  if (file >= 0) close(file);
}

// The quota of one group, of either version of control groups. Groups without a limit say "max" or -1.
size_t quota_of_group(const char* mount, const char* group) {
  char path[text_bytes + 64], text[64], *end;
  const auto number = [&](const char* name) {
    std::snprintf(path, sizeof path, "%s%s/%s", mount, group, name);
    read_text(path, text, sizeof text);
    return std::strtoull(text, &end, 10);
  };
  unsigned long long quota = number("cpu.max"), period = std::strtoull(end, nullptr, 10);
  if (*text == '\0') {  // version 1
    quota = number("cpu.cfs_quota_us");
    period = number("cpu.cfs_period_us");
  }
  if (quota == 0 || quota > INT64_MAX || period == 0 || period > INT64_MAX) return no_quota;
  return std::max<size_t>(static_cast<size_t>(quota / period), 1);
}

// A group cannot use more than the groups around it. A container may show its own groups at the mount although the
// file names them as the host does: the mount itself always counts. Cuts the name of the group.
size_t smallest_quota(const char* mount, char* group) {
  size_t smallest = quota_of_group(mount, group);
  while (char* const slash = std::strrchr(group, '/')) {
    *slash = '\0';
    smallest = std::min(smallest, quota_of_group(mount, group));
  }
  return smallest;
}

}  // namespace

size_t cpu_quota(const char* groups, const char* mount) {
  char text[text_bytes], cpu_mount[text_bytes];
  read_text(groups, text, sizeof text);
  std::snprintf(cpu_mount, sizeof cpu_mount, "%s/cpu", mount);  // of version 1
  size_t smallest = no_quota;
  char* lines = text;
  while (char* group = strsep(&lines, "\n")) {  // "number:controllers:/group"; no controllers in version 2
    strsep(&group, ":");
    char* controllers = strsep(&group, ":");
    if (group == nullptr) continue;
    const bool unified = *controllers == '\0';
    bool limits = unified;
    while (const char* one = strsep(&controllers, ",")) limits |= std::strcmp(one, "cpu") == 0;
    if (limits) smallest = std::min(smallest, smallest_quota(unified ? mount : cpu_mount, group));
  }
  return smallest;
}

size_t fast_cores(const cpuinfo_cluster* clusters, size_t count) {
  const auto cores_of = [](const cpuinfo_cluster& cluster) { return size_t{cluster.core_count}; };
  return std::max<size_t>(count_fast(clusters, count, cores_of), 1);
}

static size_t usable(bool processors) {
  if (small) return allowed(processors);
  return cpu().cpus != 0 ? cpu().cpus : std::min(allowed(processors), cpu().quota);
}

size_t usable_cores() { return usable(false); }
size_t usable_cpus() { return usable(true); }

}  // namespace quern
