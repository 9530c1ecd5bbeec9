#include <fmt/format.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "convert/common/error.h"
#include "kernel/type.h"
#include "peak/median.h"
#include "tool/command/command.h"
#include "tool/input/rounds.h"
#include "tool/load.h"
#include "tool/memory.h"
#include "tool/model.h"
#include "tool/output/size_text.h"
#include "tool/progress.h"
#include "tool/work.h"

namespace quern {
namespace {

struct BenchArguments {
  ModelFiles files;
  std::vector<std::string> inputs;
  InputFlags reading;
  TuningFlags tuning;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  std::string isa;
  size_t threads = 1, runs = 20;
  bool json = false;
};

struct Measured {
  std::vector<double> ms;  // one for each run, ascending
  double load_ms;          // of the first load
  uint64_t load_peak;
  uint64_t peak_memory;
  RunWork work;
  double peak, percent_of_peak;  // operations per second of all threads; 0 without a peak
};

// The work of one run; asks a session that profiles.
RunWork work_of_run(qn_model* model, const std::vector<InputData>& inputs) {
  const SessionPtr session = make_session(model, {.profile = true, .any_size = true});
  run_session(session.get(), inputs);
  return work_of(last_profile(session.get()));
}

// Runs the session and, in turn with it, the loop whose peak it is held against.
void measure_runs(qn_session* session, const std::vector<InputData>& inputs, size_t runs, Progress* progress,
                  PeakMeter* meter, Measured* measured) {
  std::vector<TimedWork> work;
  for (size_t i = 0; i < runs; ++i) {
    const double begin = meter->now();
    measured->ms.push_back(run_session(session, inputs));
    work.push_back(meter->add(meter->now() - begin));
    if (meter->due()) meter->take_turn();
    progress->step();
  }
  std::sort(measured->ms.begin(), measured->ms.end());
  measured->peak = meter->ops_per_second();
  measured->percent_of_peak = meter->percent(measured->work.operations(), work);
}

Measured measure(const BenchArguments& arguments) {
  Measured measured;
  const PeakMemory memory;
  const auto start = std::chrono::steady_clock::now();
  ModelPtr model = load_model(arguments.files, arguments.reading.sizes);
  TuningFile tuning(arguments.tuning);
  const Threads threads(arguments.threads);
  const SessionSettings settings = {.threads = arguments.threads,
                                    .tuning = &tuning,
                                    .algorithm = arguments.algorithm,
                                    .parallel = threads.parallel(),
                                    .any_size = !arguments.reading.sizes.empty()};
  SessionPtr session = make_session(model.get(), settings);
  measured.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  tuning.save();
  const std::vector<InputData> inputs =
      read_or_make_inputs("--input", arguments.inputs, model.get(), session.get(), arguments.reading);
  Progress progress("runs", warm_ups + arguments.runs);
  for (size_t i = 0; i < warm_ups; ++i) {
    run_session(session.get(), inputs);
    progress.step();
    if (i != 0) continue;
    tuning.save();                           // files may have brought other sizes
    measured.peak_memory = memory.growth();  // before another session adds to it
    measured.work = work_of_run(model.get(), inputs);
  }
  PeakMeter meter(peak_loop_for(measured.work.type), threads.parallel());
  measure_runs(session.get(), inputs, arguments.runs, &progress, &meter, &measured);
  const size_t activations = qn_session_memory(session.get());
  session.reset(), model.reset();  // not twice in memory
  measured.load_peak = measure_load_peak(arguments.files, arguments.reading.sizes, settings, activations);
  return measured;
}

// Returns the value below which `part` of the sorted values lie, by the nearest rank.
double quantile(const std::vector<double>& sorted, double part) {
  const auto rank = static_cast<size_t>(part * static_cast<double>(sorted.size()) + 0.999999);
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

void choose_isa(const std::string& isa) {
  if (isa.empty()) return;
  if (isa_from_name(isa.c_str()) == 0) throw CLI::ValidationError("--isa", fmt::format("unknown level \"{}\"", isa));
  setenv("QUERN_ISA", isa.c_str(), 1);  // in time: the library reads it when it first asks for the CPU, which is later
  const char *const floats = isa_name(float_level()), *const bytes = isa_name(byte_level());
  if (isa != floats && isa != bytes)
    throw Error(fmt::format("this CPU has no {}; its levels are {} for f32 and {} for int8", isa, floats, bytes));
}

// The highest level whose kernels a model of this type may run.
const char* level_for(KernelType type) {
  return isa_name(info_of(type).activations == Element::s8 ? byte_level() : float_level());
}

int bench(const BenchArguments& arguments) {
  choose_isa(arguments.isa);
  const Measured measured = measure(arguments);
  const double middle = median(measured.ms);
  const double gflops = measured.work.operations() / (middle * 1e6);
  const char* const type = type_name(measured.work.type);
  nlohmann::ordered_json json = {{"model", arguments.files.model},
                                 {"type", type},
                                 {"isa", level_for(measured.work.type)},
                                 {"threads", arguments.threads},
                                 {"runs", arguments.runs},
                                 {"min_ms", measured.ms.front()},
                                 {"median_ms", middle},
                                 {"p90_ms", quantile(measured.ms, 0.9)},
                                 {"gflops", gflops},
                                 {"percent_of_peak", nullptr},
                                 {"load_ms", measured.load_ms},
                                 {"load_peak_bytes", measured.load_peak},
                                 {"peak_memory_bytes", measured.peak_memory}};
  if (measured.peak != 0) json["percent_of_peak"] = measured.percent_of_peak;
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}: {} at {}, {} thread{}, {} runs\n", arguments.files.model, type, level_for(measured.work.type),
             arguments.threads, arguments.threads == 1 ? "" : "s", arguments.runs);
  fmt::print("  {:.3f} ms median, {:.3f} min, {:.3f} p90\n", middle, measured.ms.front(), quantile(measured.ms, 0.9));
  std::string part;
  if (measured.peak != 0)
    part = fmt::format(", {:.1f}% of the peak of {:.1f}", measured.percent_of_peak, measured.peak / 1e9);
  if (measured.work.macs != 0) fmt::print("  {:.1f} {}{}\n", gflops, unit_of(measured.work.type), part);
  if (measured.work.macs == 0)
    fmt::print("  no convolutions or fully connected layers: no {}\n", unit_of(KernelType::f32));
  fmt::print("  {:.1f} ms to load, in {}; {} at most, with the first run\n", measured.load_ms,
             size_text(static_cast<double>(measured.load_peak)), size_text(static_cast<double>(measured.peak_memory)));
  return 0;
}

}  // namespace

Action bench_command(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();
  add_model_files(app, &arguments->files);
  add_measured_inputs(app, &arguments->inputs, &arguments->reading);
  add_threads(app, &arguments->threads);
  add_tuning(app, &arguments->tuning);
  add_algorithm(app, &arguments->algorithm);
  app.add_option("--runs", arguments->runs, fmt::format("Measured runs, after {} that are not", warm_ups))
      ->check(CLI::Range(1, 1000000).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.add_option("--isa", arguments->isa, "Use kernels up to this level, such as ref, avx2, avx512vnni or neon")
      ->type_name("LEVEL");
  app.footer(
      "GFLOP/s counts two operations per multiply-accumulate of convolutions and fully connected layers, over the\n"
      "median. The type is that of most of them. The peak is that of a loop of multiply-adds of this type, on as many\n"
      "threads. It runs in turn with the model, for an eighth of the time, because clocks fall under load. Each run "
      "is\n"
      "held against the turn after it; with one thread both count processor time. CPUs without instructions that\n"
      "multiply int8 have no peak of int8. Loading counts until the first run can begin, measuring by --tune "
      "included.\n"
      "The memory for it is what the library allocates at most, without activations and mapped weights. Memory at\n"
      "most is the growth of the peak resident size from before loading until after the first run.");
  return [arguments] { return bench(*arguments); };
}

}  // namespace quern
