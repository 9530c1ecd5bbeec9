#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "convert/common/error.h"
#include "tool/command/command.h"
#include "tool/input/shapes.h"
#include "tool/model.h"
#include "tool/predict/layers.h"

namespace quern {
namespace {

using namespace predict;

struct PredictArguments {
  ModelFiles files;
  Sizes sizes;
  std::string core, isa;
  double ghz = 0;
  size_t threads = 1;
  bool json = false;
};

// Layers that run by the same algorithm and kernel.
struct Class {
  std::string op, algorithm, kernel;
  Evidence evidence;
  bool bytes = false;
  size_t layers = 0;
  double macs = 0, ms = 0;
  double peak_cycles = 0;  // that the multiply-accumulates take at the peak of their type
};

std::string core_names() {
  std::vector<std::string> names;
  for (const PhoneCore& core : phone_cores()) names.emplace_back(core.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const char* evidence_name(Evidence evidence) {
  switch (evidence) {
    case Evidence::predicted: return "predicted";
    case Evidence::partly: return "partly";
    case Evidence::assumed: return "assumed";
    case Evidence::reference: return "reference";
  }
  return "?";
}

// The highest level of the features that kernels of bytes are written for.
const char* level_name(uint32_t features) {
  const uint32_t level = (features & feature_i8mm) != 0      ? isa_i8mm
                         : (features & feature_dotprod) != 0 ? isa_dotprod
                                                             : isa_neon;
  return isa_name(level);
}

// Groups layers into classes; the class that takes the most time comes first.
std::vector<Class> classes_of(const std::vector<Layer>& layers, const std::vector<Estimate>& estimates,
                              const Machine& machine) {
  std::vector<Class> classes;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const Estimate& e = estimates[i];
    if (layer.work == Work::nothing) continue;
    const auto same = [&](const Class& c) {
      return c.op == layer.op && c.algorithm == e.algorithm && c.kernel == e.kernel;
    };
    auto found = std::find_if(classes.begin(), classes.end(), same);
    if (found == classes.end()) found = classes.insert(found, {layer.op, e.algorithm, e.kernel, e.evidence});
    found->bytes |= layer.type != KernelType::f32;
    ++found->layers;
    found->macs += layer.macs();
    found->ms += e.ms;
    found->peak_cycles += layer.macs() / peak_of(layer.type, *machine.core, machine.features);
  }
  std::sort(classes.begin(), classes.end(), [](const Class& a, const Class& b) {
    return std::tie(b.ms, a.op, a.algorithm, a.kernel) < std::tie(a.ms, b.op, b.algorithm, b.kernel);
  });
  return classes;
}

std::vector<std::string> assumptions(const Machine& machine, const std::vector<Class>& classes) {
  const PhoneCore& core = *machine.core;
  const auto any = [&](Evidence evidence) {
    return std::any_of(classes.begin(), classes.end(), [&](const Class& c) { return c.evidence == evidence; });
  };
  std::vector<std::string> list = {
      fmt::format("kernels multiply as fast as a model of {} predicts for their main loops, operands in the L1 cache",
                  core.model_name),
      fmt::format("assumed: {} bytes a cycle from the caches behind L1 ({} KiB the last), {} GB/s from memory to one "
                  "core, {} to all",
                  core.machine().l2_bytes, core.last_bytes / 1024, core.memory_gbs, core.all_gbs),
      core.machine().in_order ? "in order: times of arithmetic, caches and memory add up"
                              : "out of order: of arithmetic, caches and memory the slowest counts",
      fmt::format("assumed: {} core cycles for an operation on four floats and its load, in transforms, pooling and "
                  "elementwise operators; concatenations, slices and views are free",
                  vector_cycles(core)),
      "each layer runs by the algorithm and kernel that this estimate says is fastest",
      fmt::format("the core keeps its clock; all {} of {} are alike and {} used", core.count, core.chip,
                  machine.threads == 1 ? "one is" : fmt::format("{} are", machine.threads))};
  if (machine.threads > core.count) list.back() += ", more than there are";
  if (std::any_of(classes.begin(), classes.end(), [](const Class& c) { return c.bytes; })) {
    list.push_back(fmt::format("bytes: kernels of level {}; their peak counts as {} multiply-accumulates a cycle",
                               level_name(machine.features), peak_of(KernelType::qs8c, core, machine.features)));
    list.push_back(fmt::format(
        "bytes: elementwise operators take what the model predicts for their loops, pooling as long as that of floats; "
        "assumed: {} instructions to make bytes of four sums",
        end_instructions));
  }
  if (any(Evidence::partly)) list.push_back("partly: products are predicted, the transforms around them are assumed");
  if (any(Evidence::reference))
    list.push_back(
        fmt::format("reference: arm64 has no kernel for this yet, plain C++ would run; assumed: {} "
                    "multiply-accumulates a cycle",
                    reference_macs_per_cycle));
  return list;
}

double percent_of_peak(const Class& c, const Machine& machine) {
  return c.ms == 0 ? 0 : 100 * c.peak_cycles / c.ms / (machine.ghz * 1e6 * static_cast<double>(machine.threads));
}

void print_line(double ms, double share, const std::string& peak, const std::string& rest) {
  fmt::print("{:>10.3f} {:>6.1f} {:>6}  {}\n", ms, share, peak, rest);
}

void print_table(const Machine& machine, const std::vector<Class>& classes, const Class& all) {
  fmt::print("{:>10} {:>6} {:>6}  {:<20} {:>6}  {:<10} {:<30} {}\n", "ms", "share%", "peak%", "operator", "layers",
             "algorithm", "kernel", "figure");
  const auto peak = [&](const Class& c) {
    return c.macs == 0 ? "" : fmt::format("{:.1f}", percent_of_peak(c, machine));
  };
  for (const Class& c : classes)
    print_line(c.ms, 100 * c.ms / all.ms, peak(c),
               fmt::format("{:<20} {:>6}  {:<10} {:<30} {}", c.op, c.layers, c.algorithm, c.kernel,
                           evidence_name(c.evidence)));
  print_line(all.ms, 100, peak(all), fmt::format("ESTIMATE of all {} layers", all.layers));
}

nlohmann::ordered_json class_json(const Class& c) {
  return {{"op", c.op},         {"algorithm", c.algorithm}, {"kernel", c.kernel}, {"figure", evidence_name(c.evidence)},
          {"layers", c.layers}, {"macs", c.macs},           {"ms", c.ms}};
}

int print_prediction(const PredictArguments& arguments) {
  const PhoneCore* core = find_phone_core(arguments.core);
  if (core == nullptr)
    throw CLI::ValidationError("--core", fmt::format("\"{}\" is none of {}", arguments.core, core_names()));
  const uint32_t features = arguments.isa.empty() ? core->features : isa_from_name(arguments.isa.c_str()) | isa_ref;
  const size_t threads = arguments.threads != 0 ? arguments.threads : core->count;
  const Machine machine = {core, arguments.ghz > 0 ? arguments.ghz : core->ghz, threads, features};
  ImportOptions options;
  options.sizes = arguments.sizes;
  const Graph graph = load_graph(arguments.files, options);
  warn_of_open_sizes(graph, {});
  const std::vector<Layer> layers = layers_of(graph);
  const std::vector<Class> classes = classes_of(layers, estimate_layers(graph, layers, machine), machine);
  Class all = {};
  for (const Class& c : classes) {
    all.layers += c.layers;
    all.macs += c.macs;
    all.ms += c.ms;
    all.peak_cycles += c.peak_cycles;
  }
  const std::vector<std::string> assumed = assumptions(machine, classes);
  if (arguments.json) {
    nlohmann::ordered_json json = {{"estimate", true},
                                   {"model", arguments.files.model},
                                   {"core", core->name},
                                   {"core_model", core->model_name},
                                   {"chip", core->chip},
                                   {"isa", level_name(features)},
                                   {"ghz", machine.ghz},
                                   {"threads", machine.threads},
                                   {"total_ms", all.ms},
                                   {"macs", all.macs},
                                   {"percent_of_peak", percent_of_peak(all, machine)},
                                   {"classes", nlohmann::ordered_json::array()},
                                   {"assumptions", assumed}};
    for (const Class& c : classes) json["classes"].push_back(class_json(c));
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  fmt::print("ESTIMATE, not measured: {} on {} of {}, {} GHz, {} thread{}\n", arguments.files.model, core->name,
             core->chip, machine.ghz, machine.threads, machine.threads == 1 ? "" : "s");
  print_table(machine, classes, all);
  fmt::print("It supposes:\n");
  for (const std::string& line : assumed) fmt::print("  {}\n", line);
  return 0;
}

}  // namespace

Action predict_command(CLI::App& app) {
  auto arguments = std::make_shared<PredictArguments>();
  add_model_files(app, &arguments->files);
  add_threads(app, &arguments->threads, nullptr);
  add_shapes(app, &arguments->sizes);
  const auto sensible = CLI::Validator(
      [](std::string& text) {
        double ghz;
        const bool good = CLI::detail::lexical_cast(text, ghz) && ghz >= 0.01 && ghz <= 100;  // false for a NaN, too
        return good ? std::string() : fmt::format("{} is not from 0.01 to 100", text);
      },
      "");
  app.add_option("--core", arguments->core, fmt::format("One of {}", core_names()))->required()->type_name("NAME");
  app.add_option("--ghz", arguments->ghz, "Its clock, instead of that in the phone named")
      ->check(sensible)
      ->type_name("GHZ");
  app.add_option("--isa", arguments->isa, "Its level, neon, dotprod or i8mm, instead of that in the phone named")
      ->check(CLI::IsMember({"neon", "dotprod", "i8mm"}).description(""))
      ->type_name("LEVEL");
  app.add_flag("--json", arguments->json, "One JSON object on standard output");
  app.footer(
      "An estimate of the time on a phone's core that is not here, from what models of the core predict for the inner\n"
      "loops of kernels and from assumptions, which it prints. It runs nothing of the model. Shares of the peak count\n"
      "multiply-accumulates with weights that are 0, too.");
  return [arguments] { return print_prediction(*arguments); };
}

}  // namespace quern
