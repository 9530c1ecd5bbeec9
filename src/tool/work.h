// The multiply-accumulates of a model's run, and the peak with which `bench` and `profile` compare them.
#pragma once

#include <quern/graph.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/type.h"
#include "peak/meter.h"

namespace quern {

// As qn_profile_entry.
struct ProfileEntry {
  std::string name, op, algorithm, kernel;
  uint64_t macs, start_ns, time_ns;
  uint32_t depth, runs;
};
using Profile = std::vector<ProfileEntry>;

// The operators of the last run of a session that profiles.
Profile last_profile(const qn_session* session);

struct RunWork {
  uint64_t macs = 0;                  // as the plans count them: of convolutions and fully connected layers
  KernelType type = KernelType::f32;  // of the kernels that do most of them
  double operations() const { return 2 * static_cast<double>(macs); }
};
RunWork work_of(const Profile& profile);

// The loop whose peak a type is held against; NULL if the allowed levels multiply int8 in no way of their own.
const PeakLoop* peak_loop_for(KernelType type);
// "GFLOP/s", or "GOP/s" for int8.
const char* unit_of(KernelType type);

}  // namespace quern
