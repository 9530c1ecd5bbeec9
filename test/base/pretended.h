// A machine that environment variables pretend, for as long as an object lives.
#pragma once

#include <quern/base.h>

#include <algorithm>
#include <initializer_list>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../variable.h"
#include "base/cpu.h"
#include "op/core/machine.h"

namespace quern {

// Sets the variables that cpu.h describes to these values, unsets the others, and makes cpu() answer accordingly. Not to
// be used while another thread plans or runs.
class Pretended {
 public:
  explicit Pretended(std::initializer_list<std::pair<const char*, const char*>> settings) {
    std::list<Variable> variables;
    for (const char* name :
         {"QUERN_ISA", "QUERN_CORE", "QUERN_L1", "QUERN_L2", "QUERN_L3", "QUERN_CPUS", "QUERN_PAGE"}) {
      const auto is = [&](const auto& setting) { return std::string_view(setting.first) == name; };
      const auto set = std::find_if(settings.begin(), settings.end(), is);
      variables.emplace_back(name, set == settings.end() ? nullptr : set->second);
    }
    const auto keep = [](void* list, qn_log_level, const char* line) {
      static_cast<std::vector<std::string>*>(list)->emplace_back(line);
    };
    qn_set_log(keep, &warnings);
    machine = detect_cpu();
    qn_set_log(nullptr, nullptr);
    replace_cpu(&machine);
    replace_machine(nullptr);
  }
  Pretended(const Pretended&) = delete;
  Pretended& operator=(const Pretended&) = delete;
  ~Pretended() {
    replace_cpu(nullptr);
    replace_machine(nullptr);
  }

  Cpu machine;
  std::vector<std::string> warnings;  // what the log was told
};

}  // namespace quern
