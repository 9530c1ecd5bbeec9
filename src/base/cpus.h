// How many CPUs this process may use. The system limits it in two ways: by the affinity of a thread, which the threads
// that it starts inherit, and by the share of time that Linux' control groups grant.
#pragma once

#include <cstddef>

struct cpuinfo_cluster;

namespace quern {

// The number of fast cores on which the calling thread, and threads that it starts, may run at the same time; at least
// 1. QUERN_CPUS pretends another number. Thread-safe; asks the system anew at each call, since affinities change.
size_t usable_cores();

// The number of processors, fast or slow, on which they may run at the same time, at least 1. QUERN_CPUS pretends another
// number. Thread-safe.
size_t usable_cpus();

// Counts the cores that are faster than those of the last cluster; if there are none, it counts all cores. The clusters
// are sorted from the fastest to the slowest, as cpuinfo sorts them.
size_t fast_cores(const cpuinfo_cluster* clusters, size_t count);

constexpr size_t no_quota = ~size_t{0};
// How many CPUs the control groups of this process pay for, rounded down but at least 1; no_quota if they set no limit.
// `groups` is the file that names the groups (/proc/self/cgroup), `mount` the folder where they are (/sys/fs/cgroup).
size_t cpu_quota(const char* groups, const char* mount);

}  // namespace quern
