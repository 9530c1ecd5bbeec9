#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/cpu.h"
#include "convert/common/file.h"
#include "tool/command/command.h"
#include "tool/input/rounds.h"
#include "tool/model.h"
#include "tool/progress.h"
#include "tool/work.h"

namespace quern {
namespace {

struct ProfileArguments {
  ModelFiles files;
  std::vector<std::string> inputs;
  InputFlags reading;
  TuningFlags tuning;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  std::string trace;
  size_t threads = 1, runs = 20;
};

uint64_t total_ns(const Profile& profile) {
  uint64_t sum = 0;
  for (const ProfileEntry& entry : profile) sum += entry.depth == 0 ? entry.time_ns : 0;
  return sum;
}

struct MeasuredProfile {
  Profile profile;
  double ms;  // of the run
  RunWork work;
  double peak;  // operations per second of all threads; 0 without a peak
};

// Returns the profile of the run of median length. All its times are from one run; medians of each operator's times
// would be from different ones. The loop whose peak they are held against runs in turn with the session.
MeasuredProfile measure(qn_session* session, const std::vector<InputData>& data, size_t runs,
                        const qn_parallel* parallel) {
  Progress progress("runs", warm_ups + runs);
  for (size_t i = 0; i < warm_ups; ++i) {
    run_session(session, data);
    progress.step();
  }
  const RunWork work = work_of(last_profile(session));
  PeakMeter meter(peak_loop_for(work.type), parallel);
  std::vector<std::pair<double, Profile>> profiles;
  for (size_t i = 0; i < runs; ++i) {
    const double begin = meter.now();
    const double ms = run_session(session, data);
    meter.add(meter.now() - begin);
    profiles.emplace_back(ms, last_profile(session));
    if (meter.due()) meter.take_turn();
    progress.step();
  }
  const auto middle = profiles.begin() + static_cast<std::ptrdiff_t>(runs / 2);
  std::nth_element(profiles.begin(), middle, profiles.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return {middle->second, middle->first, work, meter.ops_per_second()};
}

std::string percent_of_peak(uint64_t macs, uint64_t ns, double peak) {
  if (macs == 0 || ns == 0 || peak == 0) return "";
  return fmt::format("{:.1f}", 100 * 2 * static_cast<double>(macs) / (static_cast<double>(ns) * 1e-9 * peak));
}

void print_table(const MeasuredProfile& measured) {
  const Profile& profile = measured.profile;
  const double peak = measured.peak;
  const double total = static_cast<double>(std::max<uint64_t>(total_ns(profile), 1));
  fmt::print("{:>10} {:>6} {:>6}  {:<20} {:<10} {:<28} {}\n", "us", "share%", "peak%", "operator", "algorithm",
             "kernel", "name");
  for (const ProfileEntry& e : profile) {
    const std::string runs = e.runs > 1 ? fmt::format(" ({} runs)", e.runs) : "";
    fmt::print("{:>10.1f} {:>6.1f} {:>6}  {:<20} {:<10} {:<28} {}{}\n", static_cast<double>(e.time_ns) / 1e3,
               100 * static_cast<double>(e.time_ns) / total, percent_of_peak(e.macs * e.runs, e.time_ns, peak),
               std::string(2 * e.depth, ' ') + e.op, e.algorithm, e.kernel, e.name, runs);
  }
  const std::string text =
      peak == 0 ? "" : fmt::format("; the peak is {:.1f} {}", peak / 1e9, unit_of(measured.work.type));
  fmt::print("{:>10.1f} {:>6.1f} {:>6}  all {} operators; the run took {:.1f} us{}\n", total / 1e3, 100.0,
             percent_of_peak(measured.work.macs, total_ns(profile), peak), profile.size(), 1e3 * measured.ms, text);
}

// The level in the name of a kernel; nothing if there is no kernel.
std::string level_of(std::string_view kernel) {
  while (!kernel.empty()) {
    const size_t end = std::min(kernel.find('_'), kernel.size());
    const std::string part(kernel.substr(0, end));
    if (isa_from_name(part.c_str()) != 0) return part;
    kernel.remove_prefix(std::min(end + 1, kernel.size()));
  }
  return "";
}

// The event format that chrome://tracing and Perfetto read: one complete event per operator, times in microseconds.
void write_trace(const Profile& profile, const std::string& path) {
  auto events = nlohmann::ordered_json::array();
  for (const ProfileEntry& e : profile) {
    if (e.depth > 0) continue;  // what ran inside has no time of its own: it is a sum over runs
    events.push_back({{"name", e.name},
                      {"cat", e.op},
                      {"ph", "X"},
                      {"ts", static_cast<double>(e.start_ns) / 1e3},
                      {"dur", static_cast<double>(e.time_ns) / 1e3},
                      {"pid", 1},
                      {"tid", 1},
                      {"args",
                       {{"op", e.op},
                        {"algorithm", e.algorithm},
                        {"kernel", e.kernel},
                        {"level", level_of(e.kernel)},
                        {"macs", e.macs}}}});
  }
  const nlohmann::ordered_json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", events}};
  write_file(path, trace.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int profile(const ProfileArguments& arguments) {
  const ModelPtr model = load_model(arguments.files, arguments.reading.sizes);
  TuningFile tuning(arguments.tuning);
  const Threads threads(arguments.threads);
  const SessionPtr session = make_session(model.get(), {arguments.threads, true, &tuning, arguments.algorithm,
                                                        threads.parallel(), !arguments.reading.sizes.empty()});
  const std::vector<InputData> inputs =
      read_or_make_inputs("--input", arguments.inputs, model.get(), session.get(), arguments.reading);
  const MeasuredProfile measured = measure(session.get(), inputs, arguments.runs, threads.parallel());
  tuning.save();
  print_table(measured);
  if (!arguments.trace.empty()) write_trace(measured.profile, arguments.trace);
  return 0;
}

}  // namespace

Action profile_command(CLI::App& app) {
  auto arguments = std::make_shared<ProfileArguments>();
  add_model_files(app, &arguments->files);
  add_measured_inputs(app, &arguments->inputs, &arguments->reading);
  add_threads(app, &arguments->threads);
  add_tuning(app, &arguments->tuning);
  add_algorithm(app, &arguments->algorithm);
  app.add_option("--runs", arguments->runs, "Runs, of which the one of median length is shown")
      ->check(CLI::Range(1, 100000).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--trace", arguments->trace, "Write that run as events for chrome://tracing or Perfetto")
      ->type_name("FILE.json");
  app.footer(
      "peak% is the share of the peak that an operator's multiply-accumulates reach. The peak is that of a loop of\n"
      "multiply-adds of the type that most of the model has, on as many threads. It runs in turn with the model, for\n"
      "an eighth of the time, because clocks fall under load. Operators whose shapes only a run knows come last. The\n"
      "line of a branch or a loop includes what ran inside: that follows, indented, and does not count again.");
  return [arguments] { return profile(*arguments); };
}

}  // namespace quern
