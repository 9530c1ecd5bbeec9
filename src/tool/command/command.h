// The commands of `quern`: one file each, one row of the table in main.cc each.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace quern {

// What a command does once its arguments are read; returns the exit status, throws Error.
using Action = std::function<int()>;

// Each declares its arguments on `app`, to which the returned action then refers.
Action convert_command(CLI::App& app);
Action info_command(CLI::App& app);
Action run_command(CLI::App& app);
Action bench_command(CLI::App& app);
Action profile_command(CLI::App& app);
Action predict_command(CLI::App& app);
Action eval_command(CLI::App& app);
Action export_command(CLI::App& app);
Action zoo_command(CLI::App& app);
Action prune_command(CLI::App& app);

}  // namespace quern
