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
  Profile profile(qn_session_profile_count(session));
  for (size_t i = 0; i < profile.size(); ++i) {
    qn_profile_entry_init(&profile[i]);
    check(qn_session_profile(session, i, &profile[i]));
  }
  return profile;
}

RunWork work_of(const Profile& profile) {
  std::map<KernelType, uint64_t> macs = {{KernelType::f32, 0}};
  for (const qn_profile_entry& entry : profile) macs[type_in(entry.kernel)] += entry.macs;
  RunWork work;
  for (const auto& [type, count] : macs) work.macs += count;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  work.type = std::max_element(macs.begin(), macs.end(), less)->first;
  return work;
}

const PeakLoop* peak_loop_for(KernelType type) {
  return fastest_loop(cpu().isa, is_int8(type) ? PeakOf::bytes : PeakOf::floats);
}

const char* unit_of(KernelType type) { return is_int8(type) ? "GOP/s" : "GFLOP/s"; }

}  // namespace quern
