#include "tool/work.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/cpu.h"
#include "tool/model.h"

namespace quern {
namespace {

// Returns the type that a kernel has in its name: qn_<family>_<type>_<more>.
KernelType type_in(std::string_view kernel) {
  for (size_t end, start = 0; start < kernel.size(); start = end + 1) {
    end = std::min(kernel.find('_', start), kernel.size());
    const KernelType type = type_from_name(kernel.substr(start, end - start));
    if (type != KernelType::count) return type;
  }
  return KernelType::f32;
}

bool is_int8(KernelType type) { return info_of(type).activations == Element::s8; }

}  // namespace

Profile last_profile(const qn_session* session) {
  Profile profile;
  for (size_t i = 0; i < qn_session_profile_count(session); ++i) {
    qn_profile_entry e;
    qn_profile_entry_init(&e);
    check(qn_session_profile(session, i, &e));
    profile.push_back({e.name, e.op, e.algorithm, e.kernel, e.macs, e.start_ns, e.time_ns, e.depth, e.runs});
  }
  return profile;
}

RunWork work_of(const Profile& profile) {
  std::map<KernelType, uint64_t> macs = {{KernelType::f32, 0}};
  RunWork work;
  for (size_t i = 0; i < profile.size(); ++i) {
    const ProfileEntry& entry = profile[i];
    if (entry.depth == 0) work.macs += entry.macs;
    const bool ran_graphs = i + 1 < profile.size() && profile[i + 1].depth > entry.depth;
    if (!ran_graphs) macs[type_in(entry.kernel)] += entry.macs * entry.runs;
  }
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  work.type = std::max_element(macs.begin(), macs.end(), less)->first;
  return work;
}

const PeakLoop* peak_loop_for(KernelType type) {
  return fastest_loop(cpu().isa, is_int8(type) ? PeakOf::bytes : PeakOf::floats);
}

const char* unit_of(KernelType type) { return is_int8(type) ? "GOP/s" : "GFLOP/s"; }

}  // namespace quern
