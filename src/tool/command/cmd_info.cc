#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "convert/common/error.h"
#include "convert/common/file.h"
#include "convert/needs.h"
#include "tool/command/command.h"
#include "tool/input/preprocess.h"
#include "tool/load.h"
#include "tool/machine.h"
#include "tool/model.h"
#include "tool/output/layer_chart.h"
#include "tool/output/size_text.h"
#include "tool/sparsity.h"

namespace quern {
namespace {

constexpr double worth_a_line = 0.05;  // the text names a layer if this part of its weights is 0

struct InfoArguments {
  ModelFiles files;
  std::string plot;
  bool json = false, needs = false, load = false;
};

// The description of a model's port, as JSON and as a line of text.
nlohmann::ordered_json port_json(const Graph& graph, const Port& port) {
  const Tensor& tensor = graph.tensors[static_cast<size_t>(port.tensor)];
  nlohmann::ordered_json json = {{"name", std::string(tensor.name)},
                                 {"type", qn_type_string(port.type)},
                                 {"shape", std::vector<size_t>(tensor.shape.begin(), tensor.shape.end())}};
  const Quantization& q = tensor.quantization;
  if (q.scales.size() == 1) {
    json["quantization"] = {{"scale", q.scales[0]}, {"zero_point", q.zero_points.empty() ? 0 : q.zero_points[0]}};
  }
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if ((port.open >> d & 1) == 0) continue;
    const bool named = d < port.dimensions.size() && !port.dimensions[d].empty();
    json["open"].push_back({{"dimension", d}, {"name", named ? port.dimensions[d].c_str() : ""}});
  }
  const qn_preprocessing& how = port.preprocessing;
  const auto image = image_port(tensor.shape.data(), tensor.shape.size(), port.open);
  if (how.present && image) {
    json["preprocessing"] = {{"order", how.bgr ? "bgr" : "rgb"},
                             {"mean", std::vector<float>(how.mean, how.mean + image->channels)},
                             {"scale", std::vector<float>(how.scale, how.scale + image->channels)},
                             {"resize", how.resize},
                             {"crop", how.crop}};
  }
  return json;
}

nlohmann::ordered_json ports_json(const Graph& graph, const Vector<Port>& ports) {
  auto list = nlohmann::ordered_json::array();
  for (const Port& port : ports) list.push_back(port_json(graph, port));
  return list;
}

nlohmann::ordered_json states_json(const Graph& graph) {
  auto list = nlohmann::ordered_json::array();
  for (const State& state : graph.states) {
    const Port& port = graph.inputs[state.input];
    const Tensor& input = tensor_of(graph, port.tensor);
    list.push_back({{"input", input.name.c_str()},
                    {"output", tensor_of(graph, graph.outputs[state.output].tensor).name.c_str()},
                    {"type", qn_type_string(port.type)},
                    {"shape", std::vector<size_t>(input.shape.begin(), input.shape.end())}});
  }
  return list;
}

nlohmann::ordered_json kinds_json(const std::map<std::string, KindStats>& kinds) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [kind, stats] : kinds)
    list.push_back({{"operator", kind}, {"count", stats.count}, {"first", stats.first}});
  return list;
}

std::vector<std::string> names_of(const std::map<std::string, KindStats>& kinds) {
  std::vector<std::string> names;
  for (const auto& [kind, stats] : kinds) names.push_back(kind);
  return names;
}

nlohmann::ordered_json loops_json(const std::vector<LoopStats>& loops) {
  auto list = nlohmann::ordered_json::array();
  for (const LoopStats& loop : loops) {
    list.push_back({{"name", loop.name}, {"iterations", nullptr}, {"macs_per_iteration", loop.macs}});
    if (loop.iterations != 0) list.back()["iterations"] = loop.iterations;
  }
  return list;
}

nlohmann::ordered_json postprocessing_json(const Graph& graph) {
  const Postprocessing& p = graph.postprocessing;
  nlohmann::ordered_json json;
  if (!p.labels.empty()) json["labels"] = p.labels.size();
  if (p.detections.empty()) return json;
  json["detections"] = p.detections.c_str();
  for (const uint32_t output : p.outputs)
    json["outputs"].push_back(tensor_of(graph, graph.outputs[output].tensor).name.c_str());
  json["box_pixels"] = p.pixels;
  if (p.background >= 0) json["background"] = p.background;
  json["threshold"] = p.threshold;
  json["overlap"] = p.overlap;
  return json;
}

nlohmann::ordered_json describe(const Graph& graph, const ModelStats& stats, const ModelFiles& files) {
  std::map<std::string, size_t> operators;
  for (const Node& node : graph.nodes) ++operators[kind_name(node)];
  uintmax_t bytes = 0;
  for (const std::string& path : files.paths()) {
    std::error_code error;
    bytes += std::filesystem::file_size(path, error);
    if (error) throw Error(fmt::format("cannot read the size of {}: {}", path, error.message()));
  }
  nlohmann::ordered_json json = {
      {"inputs", ports_json(graph, graph.inputs)},
      {"outputs", ports_json(graph, graph.outputs)},
      {"operators", operators},
      {"inner_operators", stats.inner},
      {"extra_operators", names_of(stats.extra)},
      {"extra_nodes", kinds_json(stats.extra)},
      {"scalar_nodes", kinds_json(stats.scalar)},
      {"states", states_json(graph)},
      {"parameters", stats.parameters},
      {"nonzeros", stats.nonzeros},
      {"sparsity", part_of(stats.parameters - stats.nonzeros, stats.parameters)},
      {"layers", layers_json(stats.layers)},
      {"macs", stats.macs},
      {"operator_macs", stats.macs_of},
      {"unsized_nodes", kinds_json(stats.unsized)},
      {"loops", loops_json(stats.loops)},
      {"file_bytes", bytes},
  };
  if (const auto results = postprocessing_json(graph); !results.is_null()) json["postprocessing"] = results;
  return json;
}

void print_port(const char* what, const nlohmann::ordered_json& port) {
  const auto shape = port["shape"].get<std::vector<size_t>>();
  fmt::print("{:<11}{}  {} {}\n", what, port["name"].get<std::string>(), port["type"].get<std::string>(),
             shape_text(shape.data(), shape.size()));
  for (const auto& open : port.value("open", nlohmann::ordered_json::array())) {
    fmt::print("{:<11}  dimension {} is open ({})\n", "", open["dimension"].get<size_t>(),
               open["name"].get<std::string>());
  }
  if (port.contains("quantization")) {
    fmt::print("{:<11}  scale {:g}, zero point {}\n", "", port["quantization"]["scale"].get<double>(),
               port["quantization"]["zero_point"].get<int>());
  }
  if (port.contains("preprocessing")) fmt::print("{:<11}  images: {}\n", "", port["preprocessing"].dump());
}

// Prints the ports that are not states. `what`: "input" or "output".
void print_ports(const char* what, const nlohmann::ordered_json& ports, const nlohmann::ordered_json& states) {
  for (const auto& port : ports) {
    const auto is_this = [&](const auto& state) { return state[what] == port["name"]; };
    if (std::none_of(states.begin(), states.end(), is_this)) print_port(what, port);
  }
}

void print_states(const nlohmann::ordered_json& states) {
  for (const auto& state : states) {
    const auto shape = state["shape"].get<std::vector<size_t>>();
    fmt::print("{:<11}{}  {} {}, output {} of the run before\n", "state", state["input"].get<std::string>(),
               state["type"].get<std::string>(), shape_text(shape.data(), shape.size()),
               state["output"].get<std::string>());
  }
}

// "lstm (2, the first is LSTM_1), matmul (1, MatMul_3)"
std::string kinds_text(const nlohmann::ordered_json& kinds) {
  std::vector<std::string> list;
  for (const auto& kind : kinds) {
    const size_t count = kind["count"];
    list.push_back(fmt::format("{} ({}, {}{})", kind["operator"].get<std::string>(), count,
                               count == 1 ? "" : "the first is ", kind["first"].get<std::string>()));
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

void print_operators(const nlohmann::ordered_json& json) {
  for (const auto& [kind, count] : json["operators"].items())
    fmt::print("{:<11}{} {}\n", "operators", count.dump(), kind);
  for (const auto& [kind, count] : json["inner_operators"].items())
    fmt::print("{:<11}{} {} in branches and loops\n", "operators", count.dump(), kind);
  const std::string extra = kinds_text(json["extra_nodes"]), scalar = kinds_text(json["scalar_nodes"]);
  if (!extra.empty()) fmt::print("{:<11}libquern-extra, for {}; link it where the model runs\n", "needs", extra);
  if (!scalar.empty()) fmt::print("{:<11}no kernels of their own, scalar reference code: {}\n", "slow", scalar);
}

void print_work(const nlohmann::ordered_json& json) {
  fmt::print("{:<11}{:.3f} million multiply-accumulates\n", "work", json["macs"].get<double>() / 1e6);
  for (const auto& [kind, macs] : json["operator_macs"].items())
    fmt::print("{:<11}  {:.3f} million in {}\n", "", macs.get<double>() / 1e6, kind);
  for (const auto& loop : json["loops"]) {
    const bool known = !loop["iterations"].is_null();
    fmt::print("{:<11}  loop {}: {:.3f} million in an iteration; {}\n", "", loop["name"].get<std::string>(),
               loop["macs_per_iteration"].get<double>() / 1e6,
               known ? fmt::format("counted {} times", loop["iterations"].get<uint64_t>())
                     : "counted once, because only a run knows how many there are");
  }
  const std::string unsized = kinds_text(json["unsized_nodes"]);
  if (!unsized.empty()) fmt::print("{:<11}  not counted, because only a run knows their shapes: {}\n", "", unsized);
}

void print_load(const nlohmann::ordered_json& json) {
  if (!json.contains("load_ms")) return;
  fmt::print("{:<11}{:.1f} ms, {} at most\n", "load", json["load_ms"].get<double>(),
             size_text(json["load_peak_bytes"].get<double>()));
}

void plot_layers(const InfoArguments& arguments, const ModelStats& stats) {
  for (const std::string& source : arguments.files.paths()) keep_source(source, arguments.plot);
  const std::string name = std::filesystem::path(arguments.files.model).filename().string();
  write_file(arguments.plot, draw_charts({layer_chart(name, stats.layers)}));
}

int info(const InfoArguments& arguments) {
  if (arguments.files.model.empty()) {
    if (arguments.needs) throw CLI::ValidationError("--needs", "expected a model whose needs are listed");
    if (!arguments.plot.empty()) throw CLI::ValidationError("--plot", "expected a model whose layers are drawn");
    if (arguments.load) throw CLI::ValidationError("--load", "expected a model to load");
    arguments.json ? fmt::print("{}\n", machine_json().dump(2)) : print_machine();
    return 0;
  }
  if (!arguments.plot.empty()) expect_charts();
  const Graph graph = load_graph(arguments.files);
  if (arguments.needs) {
    fmt::print("{}", needs_of(graph));
    return 0;
  }
  const ModelStats stats = model_stats(graph);
  nlohmann::ordered_json json = describe(graph, stats, arguments.files);
  if (arguments.load) {
    const LoadCost cost = measure_load(arguments.files, {}, {});
    json["load_ms"] = cost.ms;
    json["load_peak_bytes"] = cost.peak_bytes;
  }
  if (!arguments.plot.empty()) plot_layers(arguments, stats);
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  print_ports("input", json["inputs"], json["states"]);
  print_ports("output", json["outputs"], json["states"]);
  print_states(json["states"]);
  if (json.contains("postprocessing")) fmt::print("{:<11}{}\n", "results", json["postprocessing"].dump());
  print_operators(json);
  fmt::print("{:<11}{}, {:.2f}% of them zero\n", "parameters", json["parameters"].get<uint64_t>(),
             100 * json["sparsity"].get<double>());
  for (const auto& layer : json["layers"]) {
    if (layer["sparsity"].get<double>() < worth_a_line) continue;
    fmt::print("{:<11}{:6.2f}% of {} zero in {}\n", "sparse", 100 * layer["sparsity"].get<double>(),
               layer["elements"].get<uint64_t>(), layer["name"].get<std::string>());
  }
  print_work(json);
  fmt::print("{:<11}{} bytes\n", "file", json["file_bytes"].get<uint64_t>());
  print_load(json);
  return 0;
}

}  // namespace

Action info_command(CLI::App& app) {
  auto arguments = std::make_shared<InfoArguments>();
  add_model_files(app, &arguments->files);
  app.get_option("MODEL")->required(false);
  app.footer(
      "Without a model: what Quern takes this machine for, and whether it was detected, guessed or pretended\n"
      "(by QUERN_ISA, QUERN_CORE, QUERN_L1, QUERN_L2, QUERN_L3, QUERN_CPUS or QUERN_PAGE).");
  CLI::Option* json = app.add_flag("--json", arguments->json, "One JSON object on standard output");
  CLI::Option* plot = app.add_option("--plot", arguments->plot,
                                     "Draw the layers by the bytes of their weights, the largest first, as a PNG file");
  plot->type_name("FILE");
  CLI::Option* load =
      app.add_flag("--load", arguments->load,
                   "Measure loading for one thread: the time until a session can run, the median of up to five loads, "
                   "and the most bytes that the library allocates, without activations and mapped weights");
  app.add_flag("--needs", arguments->needs, "What a trimmed build must contain to run it, the list for QUERN_NEEDS")
      ->excludes(json)
      ->excludes(plot)
      ->excludes(load);
  return [arguments] { return info(*arguments); };
}

}  // namespace quern
