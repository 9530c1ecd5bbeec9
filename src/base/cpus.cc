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

constexpr size_t path_bytes = 4096;

// Reads the beginning of a file as text, which stays empty if there is no file.
template <size_t size>
void read_text(const char* path, char (&text)[size]) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? 0 : read(file, text, size - 1);
  text[bytes > 0 ? bytes : 0] = '\0';
  if (file >= 0) close(file);
}

// The quota of one group, of either version of control groups. Groups without a limit say "max" or -1.
size_t quota_of_group(const char* folder) {
  char path[path_bytes + 32], text[64], *end;
  const auto number = [&](const char* name) {
    std::snprintf(path, sizeof path, "%s/%s", folder, name);
    read_text(path, text);
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
// file names them as the host does: the mount itself always counts.
size_t smallest_quota(const char* mount, const char* group) {
  char folder[path_bytes];
  if (std::snprintf(folder, sizeof folder, "%s%s", mount, group) >= static_cast<int>(sizeof folder)) return no_quota;
  size_t smallest = quota_of_group(folder);
  for (size_t length = std::strlen(folder), end = std::strlen(mount); length-- > end;) {
    if (folder[length] != '/') continue;
    folder[length] = '\0';
    smallest = std::min(smallest, quota_of_group(folder));
  }
  return smallest;
}

// Does the list of controllers, with commas between, contain that of CPU time?
bool has_cpu(const char* controllers) {
  for (const char* at = controllers;; ++at) {
    const size_t length = std::strcspn(at, ",:");
    if (length == 3 && std::memcmp(at, "cpu", 3) == 0) return true;
    at += length;
    if (*at != ',') return false;
  }
}

}  // namespace

size_t cpu_quota(const char* groups, const char* mount) {
  char text[4096], cpu_mount[path_bytes];
  read_text(groups, text);
  std::snprintf(cpu_mount, sizeof cpu_mount, "%s/cpu", mount);  // of version 1
  size_t smallest = no_quota;
  for (char* line = text; *line != '\0';) {  // "number:controllers:/group"; no controllers in version 2
    char* const next = line + std::strcspn(line, "\n");
    const bool last = *next == '\0';
    *next = '\0';
    const char* const controllers = line + std::strcspn(line, ":");
    const bool unified = controllers[0] == ':' && controllers[1] == ':';
    if (unified || (*controllers == ':' && has_cpu(controllers + 1))) {
      const char* const group = controllers + 1 + std::strcspn(controllers + 1, ":");
      if (*group == ':') smallest = std::min(smallest, smallest_quota(unified ? mount : cpu_mount, group + 1));
    }
    line = last ? next : next + 1;
  }
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
