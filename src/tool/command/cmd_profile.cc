#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "convert/common/file.h"
#include "peak/peak.h"
#include "tool/command/command.h"
#include "tool/model.h"
#include "tool/progress.h"

namespace quern {
namespace {

struct ProfileArguments {
  ModelFiles files;
  TuningFlags tuning;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  std::string trace;
  size_t threads = 1, runs = 20;
};

using Profile = std::vector<qn_profile_entry>;

Profile last_profile(const qn_session* session) {
  Profile profile(qn_session_profile_count(session));
  for (size_t i = 0; i < profile.size(); ++i) {
    qn_profile_entry_init(&profile[i]);
    check(qn_session_profile(session, i, &profile[i]));
  }
  return profile;
}

uint64_t total_ns(const Profile& profile) {
  uint64_t sum = 0;
  for (const qn_profile_entry& entry : profile) sum += entry.time_ns;
  return sum;
}

// Returns the profile of the run of median length. All its times are from one run; medians of each operator's times
// would be from different ones.
Profile measure(qn_session* session, size_t inputs, size_t runs) {
  const std::vector<InputData> data = random_inputs(session, inputs);
  std::vector<Profile> profiles;
  Progress progress("runs", warm_ups + runs);
  for (size_t i = 0; i < warm_ups + runs; ++i) {
    run_session(session, data);
    if (i >= warm_ups) profiles.push_back(last_profile(session));
    progress.step();
  }
  const auto middle = profiles.begin() + static_cast<std::ptrdiff_t>(runs / 2);
  std::nth_element(profiles.begin(), middle, profiles.end(),
                   [](const Profile& a, const Profile& b) { return total_ns(a) < total_ns(b); });
  return *middle;
}

std::string percent_of_peak(uint64_t macs, uint64_t ns, double peak_gflops) {
  if (macs == 0 || ns == 0) return "";
  return fmt::format("{:.1f}", 100 * 2 * static_cast<double>(macs) / static_cast<double>(ns) / peak_gflops);
}

void print_table(const Profile& profile, double peak) {
  const double total = static_cast<double>(std::max<uint64_t>(total_ns(profile), 1));
  fmt::print("{:>10} {:>6} {:>6}  {:<20} {:<10} {:<28} {}\n", "us", "share%", "peak%", "operator", "algorithm",
             "kernel", "name");
  uint64_t macs = 0;
  for (const qn_profile_entry& e : profile) {
    macs += e.macs;
    fmt::print("{:>10.1f} {:>6.1f} {:>6}  {:<20} {:<10} {:<28} {}\n", static_cast<double>(e.time_ns) / 1e3,
               100 * static_cast<double>(e.time_ns) / total, percent_of_peak(e.macs, e.time_ns, peak), e.op,
               e.algorithm, e.kernel, e.name);
  }
  fmt::print("{:>10.1f} {:>6.1f} {:>6}  all {} operators; the peak is {:.1f} GFLOP/s\n", total / 1e3, 100.0,
             percent_of_peak(macs, total_ns(profile), peak), profile.size(), peak);
}

// The event format that chrome://tracing and Perfetto read: one complete event per operator, times in microseconds.
void write_trace(const Profile& profile, const std::string& path) {
  auto events = nlohmann::ordered_json::array();
  for (const qn_profile_entry& e : profile)
    events.push_back({{"name", e.name},
                      {"cat", e.op},
                      {"ph", "X"},
                      {"ts", static_cast<double>(e.start_ns) / 1e3},
                      {"dur", static_cast<double>(e.time_ns) / 1e3},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", {{"op", e.op}, {"algorithm", e.algorithm}, {"kernel", e.kernel}, {"macs", e.macs}}}});
  const nlohmann::ordered_json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
  write_file(path, trace.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int profile(const ProfileArguments& arguments) {
  const ModelPtr model = load_model(arguments.files);
  TuningFile tuning(arguments.tuning);
  const SessionPtr session = make_session(model.get(), {arguments.threads, true, &tuning, arguments.algorithm});
  tuning.save();
  const Profile measured = measure(session.get(), qn_model_input_count(model.get()), arguments.runs);
  print_table(measured, measure_peak_flops(best_isa()) / 1e9 * static_cast<double>(arguments.threads));
  if (!arguments.trace.empty()) write_trace(measured, arguments.trace);
  return 0;
}

}  // namespace

Action profile_command(CLI::App& app) {
  auto arguments = std::make_shared<ProfileArguments>();
  add_model_files(app, &arguments->files);
  add_threads(app, &arguments->threads);
  add_tuning(app, &arguments->tuning);
  add_algorithm(app, &arguments->algorithm);
  app.add_option("--runs", arguments->runs, "Runs, of which the one of median length is shown")
      ->check(CLI::Range(1, 100000).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--trace", arguments->trace, "Write that run as events for chrome://tracing or Perfetto")
      ->type_name("FILE.json");
  return [arguments] { return profile(*arguments); };
}

}  // namespace quern
