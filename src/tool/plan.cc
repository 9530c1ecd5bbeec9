#include "tool/plan.h"

#include <fmt/format.h>
#include <regex.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "convert/common/error.h"
#include "convert/common/file.h"
#include "graph/file/coded.h"
#include "graph/file/encoded.h"
#include "graph/file/format.h"
#include "graph/ir/kinds.h"
#include "tool/model.h"

namespace quern {
namespace {

using Json = nlohmann::ordered_json;

constexpr int schema = 1;

bool has_own_name(const Graph& graph, const Node& node) {
  const auto same = [&](const Node& other) { return other.name == node.name; };
  return !node.name.empty() && std::count_if(graph.nodes.begin(), graph.nodes.end(), same) == 1;
}

void expect_own_name(const Graph& graph, const Node& node) {
  if (has_own_name(graph, node)) return;
  throw Error(fmt::format("node {} (\"{}\") shares its name or has none, so that no plan can name it",
                          &node - graph.nodes.data(), node.name.c_str()));
}

}  // namespace

// Of what the graph's file would hold.
std::string plan_checksum(Graph graph) {
  check(make_dense(graph));
  Vector<unsigned char> file;
  check(write_model(graph, &file));
  return fmt::format("{:08x}", checksum({file.data(), file.size()}));
}

namespace {

// ---- names ------------------------------------------------------------------------------------

// A regular expression for whole names. Without back references and counts, libraries match with automata.
class Expression {
 public:
  Expression(const std::string& text, const std::string& who) {
    constexpr size_t longest = 1000;
    const auto fail = [&](const std::string& why) -> Error {
      return Error(fmt::format("{}: expected a layer or a regular expression, got \"{:.100}\": {}", who, text, why));
    };
    if (text.size() > longest) throw fail(fmt::format("it is longer than {} characters", longest));
    if (text.find('\0') != std::string::npos) throw fail("it has a zero byte");
    if (text.find('{') != std::string::npos) throw fail("counts in braces are not supported");
    // Libraries write what a '+' repeats twice.
    constexpr ptrdiff_t most_repetitions = 6;
    if (std::count(text.begin(), text.end(), '+') > most_repetitions)
      throw fail(fmt::format("it has more than {} '+'", most_repetitions));
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      if (text[i] != '\\') continue;
      if (std::isdigit(static_cast<unsigned char>(text[++i]))) throw fail("back references are not supported");
    }
    auto made = std::make_unique<regex_t>();
    if (const int status = regcomp(made.get(), text.c_str(), REG_EXTENDED)) {
      char why[100];
      regerror(status, made.get(), why, sizeof why);
      throw fail(why);
    }
    expression_.reset(made.release());
  }

  // Of all matches at the start, the longest is found.
  bool matches(const char* name) const {
    regmatch_t match;
    return regexec(expression_.get(), name, 1, &match, 0) == 0 && match.rm_so == 0 && name[match.rm_eo] == '\0';
  }

 private:
  struct Release {
    void operator()(regex_t* expression) const {
      regfree(expression);
      delete expression;
    }
  };
  std::unique_ptr<regex_t, Release> expression_;
};

// The nodes of this name, or of names that match.
Vector<size_t> nodes_called(const std::string& key, const std::string& who, const Graph& graph, bool* by_name) {
  Vector<size_t> named, matching;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (key == graph.nodes[i].name.c_str()) named.push_back(i);
  }
  *by_name = !named.empty() && !key.empty();
  if (*by_name) return named;
  const Expression expression(key, who);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (expression.matches(graph.nodes[i].name.c_str())) matching.push_back(i);
  }
  if (matching.empty()) throw Error(fmt::format("{}: the model has no layer \"{:.100}\"", who, key));
  return matching;
}

// ---- fields -----------------------------------------------------------------------------------

template <class T>
T field(const Json& value, bool valid, const char* expected) {
  if (!valid)
    throw Error(
        fmt::format("expected {}, found {:.50}", expected, value.dump(-1, ' ', true, Json::error_handler_t::replace)));
  return value.get<T>();
}

bool in(const Json& value, double low, double high) {
  return value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
}

std::string pattern_text(const BlockShape& shape) { return fmt::format("{}x{}", shape.outputs, shape.inputs); }

// The pattern of this name.
std::optional<BlockShape> pattern_called(const Json& name) {
  for (const size_t outputs : {1, 2, 4, 8, 16}) {
    for (const size_t inputs : {1, 4}) {
      if (name == pattern_text({outputs, inputs})) return BlockShape{outputs, inputs};
    }
  }
  return {};
}

void read_field(const std::string& name, const Json& value, LayerPlan* plan) {
  constexpr double least = 1e-3;
  if (name == "keep") {
    plan->keep = field<bool>(value, value.is_boolean(), "true or false");
  } else if (name == "bits") {
    plan->bits = field<double>(value, in(value, least, 8), "a number above 0, up to 8");
  } else if (name == "block") {
    plan->block = field<uint64_t>(value, value == 0 || value == 32, "0 or 32");
  } else if (name == "sparsity") {
    plan->sparsity = field<double>(value, in(value, 0, 1), "a number from 0 to 1");
  } else if (name == "pattern") {
    plan->pattern = pattern_called(value);
    field<std::string>(value, plan->pattern.has_value(),
                       "\"NxM\", N of 1, 2, 4, 8, 16 output channels and M of 1, 4 input channels");
  } else if (name == "activations") {
    plan->f32_activations = field<std::string>(value, value == "f32", "\"f32\"") == "f32";
  } else if (name == "algorithm") {
    const bool reconstructs = value == "reconstruct";
    field<std::string>(value, reconstructs || value == "nearest", "\"reconstruct\" or \"nearest\"");
    plan->reconstructs = reconstructs;
  } else {
    throw Error("there is no such field; there are keep, activations, bits, block, sparsity, pattern, algorithm");
  }
}

LayerPlan read_layer(const Json& fields, const std::string& who) {
  if (!fields.is_object()) throw Error(fmt::format("{}: expected an object", who));
  LayerPlan plan;
  for (const auto& [name, value] : fields.items()) {
    try {
      read_field(name, value, &plan);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: \"{:.50}\": {}", who, name, error.what()));
    }
  }
  return plan;
}

// Refuses keys that occur twice, of which the library would take one.
Json parse_json(std::string_view text, const std::string& who, size_t most_keys) {
  constexpr int deepest = 3;
  size_t count = 0;
  std::vector<std::set<std::string>> keys;
  const auto visit = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > deepest)
      throw Error(fmt::format("{}: expected a plan, got objects or arrays inside {} others", who, depth));
    if (event == Json::parse_event_t::key && ++count > most_keys)
      throw Error(fmt::format("{} has more than {} keys", who, most_keys));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error(fmt::format("{}: \"{:.100}\" occurs twice in an object", who, parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, visit);
  } catch (const Json::exception& error) {
    throw Error(fmt::format("{}: expected JSON: {}", who, error.what()));
  }
}

const Json& member(const Json& object, const char* name, const std::string& who) {
  const auto found = object.find(name);
  if (found == object.end()) throw Error(fmt::format("{}: expected a plan, which has \"{}\"", who, name));
  return *found;
}

void check_head(const Json& plan, const std::string& who, const Graph& graph) {
  if (!plan.is_object()) throw Error(fmt::format("{}: expected an object", who));
  for (const auto& [name, value] : plan.items()) {
    if (name != "schema" && name != "model" && name != "layers")
      throw Error(fmt::format("{}: there is no field \"{:.50}\"; there are schema, model, layers", who, name));
  }
  if (member(plan, "schema", who) != schema)
    throw Error(fmt::format("{}: expected \"schema\": {}, which this version reads", who, schema));
  if (!member(plan, "layers", who).is_object()) throw Error(fmt::format("{}: expected an object as \"layers\"", who));
  if (!plan.contains("model")) return;
  const std::string sum = plan_checksum(graph);
  if (plan["model"] == sum) return;
  throw Error(
      fmt::format("{}: this plan is for another model; remove its \"model\", or give \"model\": \"{}\"", who, sum));
}

}  // namespace

LayerPlans parse_plan(std::string_view text, const std::string& who, const Graph& graph) {
  constexpr size_t least_keys = 1000, of_node = 8;  // keys that a plan may have
  const Json json = parse_json(text, who, least_keys + of_node * graph.nodes.size());
  check_head(json, who, graph);
  LayerPlans plans(graph.nodes.size());
  Vector<bool> by_name(graph.nodes.size(), false);
  for (const auto& [key, fields] : json["layers"].items()) {
    const LayerPlan plan = read_layer(fields, fmt::format("{}: layer \"{:.100}\"", who, key));
    bool named;
    for (const size_t i : nodes_called(key, who, graph, &named)) {
      if (by_name[i]) continue;
      by_name[i] = named;
      plans[i] = plan;
    }
  }
  return plans;
}

std::string plan_text(const LayerPlans& plans, const Graph& graph, const std::string& model) {
  Json layers = Json::object();
  for (size_t i = 0; i < plans.size(); ++i) {
    const LayerPlan& plan = plans[i];
    Json fields = Json::object();
    if (plan.keep) fields["keep"] = true;
    if (plan.f32_activations) fields["activations"] = "f32";
    if (plan.bits) fields["bits"] = *plan.bits;
    if (plan.block) fields["block"] = *plan.block;
    if (plan.sparsity) fields["sparsity"] = *plan.sparsity;
    if (plan.pattern) fields["pattern"] = pattern_text(*plan.pattern);
    if (plan.reconstructs) fields["algorithm"] = *plan.reconstructs ? "reconstruct" : "nearest";
    if (fields.empty()) continue;
    const std::string name = graph.nodes[i].name.c_str();
    expect_own_name(graph, graph.nodes[i]);
    layers[name] = std::move(fields);
  }
  const Json json = {{"schema", schema}, {"model", model}, {"layers", std::move(layers)}};
  try {
    return json.dump(2) + "\n";
  } catch (const Json::type_error&) {
    throw Error("expected names of nodes in UTF-8, as plans are");
  }
}

LayerPlans PlanFlags::plan_for(const Graph& graph) const {
  constexpr uint64_t largest = uint64_t{4} << 20;
  for (const Node& node : graph.nodes) {  // before long work
    if (!saved.empty() && kind_of(node.kind).has_weights()) expect_own_name(graph, node);
  }
  LayerPlans plans = file.empty() ? LayerPlans(graph.nodes.size()) : parse_plan(read_file(file, largest), file, graph);
  for (const std::string& key : excluded) {
    bool named;
    for (const size_t i : nodes_called(key, "--exclude", graph, &named)) plans[i] = {.keep = true};
  }
  return plans;
}

void PlanFlags::save(const LayerPlans& plans, const Graph& graph, const std::string& model) const {
  if (saved.empty()) return;
  write_file(saved, plan_text(plans, graph, model));
}

void add_plan_flags(CLI::App& app, PlanFlags* flags) {
  app.add_option("--plan", flags->file, "What is to become of layers, as --save-plan writes it: flags go before it")
      ->type_name("FILE");
  app.add_option("--save-plan", flags->saved, "Write what has become of each layer")->type_name("FILE");
  app.add_option("--exclude", flags->excluded,
                 "Layers that stay as they are: a name, or a regular expression for whole names")
      ->type_name("REGEX");
}

}  // namespace quern
