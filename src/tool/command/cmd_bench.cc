#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "convert/common/error.h"
#include "kernel/type.h"
#include "peak/peak.h"
#include "tool/command/command.h"
#include "tool/memory.h"
#include "tool/model.h"
#include "tool/progress.h"

namespace quern {
namespace {

struct BenchArguments {
  ModelFiles files;
  TuningFlags tuning;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  std::string isa;
  size_t threads = 1, runs = 20;
  bool json = false;
};

struct Measured {
  std::vector<double> ms;  // one for each run, ascending
  double load_ms;
  uint64_t peak_memory;
  uint64_t macs;
  KernelType type;  // of the kernels that do most of the multiply-accumulates
};

// Returns the type that a kernel has in its name: qn_<family>_<type>_<more>.
KernelType type_in(std::string_view kernel) {
  for (size_t end, start = 0; start < kernel.size(); start = end + 1) {
    end = std::min(kernel.find('_', start), kernel.size());
    const KernelType type = type_from_name(kernel.substr(start, end - start));
    if (type != KernelType::count) return type;
  }
  return KernelType::f32;
}

// Sets the multiply-accumulates of one run as the plans count them, and their type; asks a session that profiles.
void count_macs(qn_model* model, Measured* measured) {
  const SessionPtr session = make_session(model, {1, true});
  run_session(session.get(), random_inputs(session.get(), qn_model_input_count(model)));
  std::map<KernelType, uint64_t> macs = {{KernelType::f32, 0}};
  for (size_t i = 0; i < qn_session_profile_count(session.get()); ++i) {
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    check(qn_session_profile(session.get(), i, &entry));
    macs[type_in(entry.kernel)] += entry.macs;
  }
  measured->macs = 0;
  for (const auto& [type, count] : macs) measured->macs += count;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  measured->type = std::max_element(macs.begin(), macs.end(), less)->first;
}

Measured measure(const BenchArguments& arguments) {
  Measured measured;
  const PeakMemory memory;
  const auto start = std::chrono::steady_clock::now();
  const ModelPtr model = load_model(arguments.files);
  TuningFile tuning(arguments.tuning);
  const SessionPtr session = make_session(model.get(), {arguments.threads, false, &tuning, arguments.algorithm});
  measured.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  tuning.save();
  const std::vector<InputData> inputs = random_inputs(session.get(), qn_model_input_count(model.get()));
  Progress progress("runs", warm_ups + arguments.runs);
  for (size_t i = 0; i < warm_ups + arguments.runs; ++i) {
    const double ms = run_session(session.get(), inputs);
    if (i >= warm_ups) measured.ms.push_back(ms);
    progress.step();
  }
  measured.peak_memory = memory.growth();
  count_macs(model.get(), &measured);
  std::sort(measured.ms.begin(), measured.ms.end());
  return measured;
}

// Returns the value below which `part` of the sorted values lie, by the nearest rank.
double quantile(const std::vector<double>& sorted, double part) {
  const auto rank = static_cast<size_t>(part * static_cast<double>(sorted.size()) + 0.999999);
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

double median(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

void choose_isa(const std::string& isa) {
  if (isa.empty()) return;
  if (isa_from_name(isa.c_str()) == 0) throw CLI::ValidationError("--isa", fmt::format("\"{}\" is no level", isa));
  setenv("QUERN_ISA", isa.c_str(), 1);  // in time: the library reads it when it first asks for the CPU, which is later
  if (isa != qn_cpu_level()) throw Error(fmt::format("this CPU has no {}; its level is {}", isa, qn_cpu_level()));
}

// The peak of one core for the numbers that the model computes with, in operations per second; 0 if there is none.
double peak_for(KernelType type) {
  return info_of(type).activations == Element::s8 ? measure_peak_of_bytes() : measure_peak_flops(best_isa());
}

int bench(const BenchArguments& arguments) {
  choose_isa(arguments.isa);
  const Measured measured = measure(arguments);
  const double middle = median(measured.ms);
  const double gflops = 2 * static_cast<double>(measured.macs) / (middle * 1e6);
  const double peak = peak_for(measured.type) / 1e9 * static_cast<double>(arguments.threads);
  const char* const type = type_name(measured.type);
  nlohmann::ordered_json json = {{"model", arguments.files.model},
                                 {"type", type},
                                 {"isa", qn_cpu_level()},
                                 {"threads", arguments.threads},
                                 {"runs", arguments.runs},
                                 {"min_ms", measured.ms.front()},
                                 {"median_ms", middle},
                                 {"p90_ms", quantile(measured.ms, 0.9)},
                                 {"gflops", gflops},
                                 {"percent_of_peak", nullptr},
                                 {"load_ms", measured.load_ms},
                                 {"peak_memory_bytes", measured.peak_memory}};
  if (peak != 0) json["percent_of_peak"] = 100 * gflops / peak;
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: {} at {}, {} thread{}, {} runs\n", arguments.files.model, type, qn_cpu_level(), arguments.threads,
             arguments.threads == 1 ? "" : "s", arguments.runs);
  fmt::print("  {:.3f} ms median, {:.3f} min, {:.3f} p90\n", middle, measured.ms.front(), quantile(measured.ms, 0.9));
  const std::string part = peak == 0 ? "" : fmt::format(", {:.1f}% of the peak of {:.1f}", 100 * gflops / peak, peak);
  fmt::print("  {:.1f} {}/s{}\n", gflops, info_of(measured.type).activations == Element::s8 ? "GOP" : "GFLOP", part);
  fmt::print("  {:.1f} ms to load, {:.1f} MiB at most\n", measured.load_ms,
             static_cast<double>(measured.peak_memory) / (1 << 20));
  return 0;
}

}  // namespace

Action bench_command(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();
  add_model_files(app, &arguments->files);
  add_threads(app, &arguments->threads);
  add_tuning(app, &arguments->tuning);
  add_algorithm(app, &arguments->algorithm);
  app.add_option("--runs", arguments->runs, fmt::format("Measured runs, after {} that are not", warm_ups))
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.add_option("--isa", arguments->isa, "Use kernels up to this level: ref, sse41, avx2, avx512, neon")
      ->type_name("LEVEL");
  app.footer(
      "GFLOP/s counts two operations per multiply-accumulate of convolutions and fully connected layers, over the\n"
      "median. The type is that of most of them. The peak is that of one core for this type, measured right after,\n"
      "times the threads; CPUs without dot products of bytes have none for bytes. Loading counts until the first run\n"
      "can begin, measuring by --tune included. Memory is the growth of the peak resident size from before loading.");
  return [arguments] { return bench(*arguments); };
}

}  // namespace quern
