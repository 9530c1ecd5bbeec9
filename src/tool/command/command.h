// The commands of `quern`. Each has a file of its own and a row in the table of main.cc.
#pragma once

#include <cstddef>
#include <functional>

namespace CLI {
class App;
}

namespace quern {

// Runs a command whose arguments have been read. Returns the exit status; throws Error.
using Action = std::function<int()>;

// How often commands run a model before the runs that they measure.
inline constexpr size_t warm_ups = 2;

// Each function declares a command's arguments on `app` and returns its action, which refers to `app`.
Action convert_command(CLI::App& app);
Action info_command(CLI::App& app);
Action diff_command(CLI::App& app);
Action run_command(CLI::App& app);
Action bench_command(CLI::App& app);
Action profile_command(CLI::App& app);
Action predict_command(CLI::App& app);
Action eval_command(CLI::App& app);
Action export_command(CLI::App& app);
Action zoo_command(CLI::App& app);
Action prune_command(CLI::App& app);
Action quantize_command(CLI::App& app);
Action compress_command(CLI::App& app);

}  // namespace quern
