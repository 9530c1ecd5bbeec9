// What the library takes this machine for, for `quern info` without a model.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace quern {

// One entry per fact; each has a value and its source: "guessed", "detected" or "pretended" (by an environment variable,
// base/cpu.h).
nlohmann::ordered_json machine_json();

void print_machine();

}  // namespace quern
