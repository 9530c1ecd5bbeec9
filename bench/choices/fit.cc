// A row of op/core/machine.inc from measured times. Layers of the zoo, dense and with zeros, are run by every candidate,
// as --tune does; then each constant in turn is made a little larger or smaller as long as that helps.
#include "fit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "compress/prune.h"
#include "convert/zoo/zoo.h"
#include "graph/pass/passes.h"
#include "op/conv/tuning.h"
#include "op/core/machine.h"
#include "op/core/operator.h"
#include "peak/median.h"

namespace quern {
namespace {

void check(qn_status status) {
  if (status == QN_OK) return;
  std::fprintf(stderr, "quern-choices: %s\n", qn_last_message());
  std::exit(1);
}

// ---- layers

// Which part of the weights is 0, in blocks of how many channels.
struct Form {
  double zeros;
  size_t block;
};
constexpr Form forms[] = {{0, 1}, {0.2, 1}, {0.2, 4}, {0.5, 1}, {0.5, 4}, {0.8, 1}, {0.8, 4}, {0.1, 1}};
// Networks of which layers with zeros are measured, too.
constexpr const char* pruned_models[] = {"mobilenet_v1", "mobilenet_v2", "squeezenet_v1.1", "shufflenet_v2",
                                         "resnet18"};

struct ReleaseOperator {
  void operator()(qn_operator* op) const { qn_operator_release(op); }
};

struct Candidate {
  qn_algorithm algorithm;
  std::string kernel;
  std::vector<double> runs;  // seconds
  double seconds = 0;        // their median
  bool widest = false;       // a kernel of the highest level, whose cycles the model counts
};

// One convolution in one layout.
struct Case {
  std::string name;
  std::shared_ptr<Graph> graph;  // has the weights
  std::shared_ptr<qn_operator> op;
  qn_tensor in, out;
  size_t traffic;
  std::vector<Candidate> candidates;

  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& c : candidates) least = std::min(least, c.seconds);
    return least;
  }
};

std::shared_ptr<Graph> make_graph(const std::string& model, const Form& form) {
  auto graph = std::make_shared<Graph>(build_zoo(model, 1));
  check(infer_shapes(*graph));
  check(optimize(*graph));
  if (form.zeros > 0) check(prune(*graph, {form.zeros, form.block, Schedule::uniform, true}));
  return graph;
}

qn_tensor describe(const Vector<size_t>& shape, bool blocked) {
  qn_tensor tensor;
  check(qn_tensor_init(&tensor, QN_F32, 4, shape.data()));
  if (!blocked) return tensor;
  tensor.layout = QN_LAYOUT_PIXEL_BLOCKED;
  std::fill_n(tensor.stride, QN_MAX_RANK, 0);
  return tensor;
}

std::shared_ptr<qn_operator> make_conv(const Graph& graph, const Node& node) {
  const auto tensor = [&](size_t input) -> const Tensor& {
    return graph.tensors[static_cast<size_t>(node.inputs[input])];
  };
  const Attributes& a = node.attributes;
  const auto& shape = tensor(1).shape;
  qn_conv2d_params p;
  qn_conv2d_params_init(&p);
  p.in_channels = shape[3] * a.groups;
  p.out_channels = shape[0];
  p.groups = a.groups;
  p.kernel = {shape[1], shape[2]};
  p.stride = a.stride;
  p.dilation = a.dilation;
  p.padding = a.padding;
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = graph.constants[static_cast<size_t>(tensor(1).constant)].data;
  qn_operator* op = nullptr;
  check(qn_conv2d_create(&p, &weights, nullptr, nullptr, &op));
  return {op, ReleaseOperator()};
}

size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Constant& constant : graph.constants) bytes += constant.bytes;
  return bytes;
}

// What decides about a layer's time.
std::string shape_name(const Graph& graph, const Node& node) {
  const auto& in = graph.tensors[static_cast<size_t>(node.inputs[0])].shape;
  const auto& w = graph.tensors[static_cast<size_t>(node.inputs[1])].shape;
  const Attributes& a = node.attributes;
  std::ostringstream name;
  for (const size_t n : {in[1], in[2], in[3], w[0], w[1], w[2], a.stride.h, a.dilation.h, a.padding.top, a.groups}) {
    name << n << '.';
  }
  return name.str();
}

// The convolutions of a network that no case has yet. With zeros, each layer has some of the forms only.
void add_cases(const std::string& model, size_t form, std::vector<Case>* cases, std::set<std::string>* known) {
  const std::shared_ptr<Graph> graph = make_graph(model, forms[form]);
  const size_t bytes = constant_bytes(*graph);
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const Node& node = graph->nodes[i];
    if (node.kind != OpKind::conv2d) continue;
    const bool depthwise = node.attributes.groups > 1;
    const bool measured = form == 0 || (!depthwise && (i + form / 2) % 2 == 0);
    const std::string shape = shape_name(*graph, node);
    if (!measured || !known->insert(std::to_string(form) + "/" + shape).second) continue;
    const auto op = make_conv(*graph, node);
    for (const bool blocked : {false, true}) {
      if (blocked && form == 0 && !depthwise) continue;
      std::ostringstream name;
      name << model << '/' << i << '/' << form << '/' << blocked;
      const qn_tensor in = describe(graph->tensors[static_cast<size_t>(node.inputs[0])].shape, blocked);
      const qn_tensor out = describe(graph->tensors[static_cast<size_t>(node.outputs[0])].shape, blocked);
      cases->push_back({name.str(), graph, op, in, out, bytes, {}});
    }
  }
}

std::vector<Case> make_cases(const std::vector<std::string>& models) {
  std::vector<Case> cases;
  std::set<std::string> known;
  for (const std::string& model : models) {
    for (size_t form = 0; form < std::size(forms); ++form) {
      const bool pruned =
          std::find(std::begin(pruned_models), std::end(pruned_models), model) != std::end(pruned_models);
      if (form == 0 || pruned) add_cases(model, form, &cases, &known);
    }
  }
  std::shuffle(cases.begin(), cases.end(), std::minstd_rand(1));  // what time allows is some of all
  return cases;
}

// ---- times

// Lines of a file of times: case, algorithm, kernel, seconds.
using Times = std::multimap<std::string, Candidate>;

Times read_times(const std::string& path) {
  Times times;
  std::ifstream file(path);
  std::string name, algorithm, kernel;
  double seconds;
  while (file >> name >> algorithm >> kernel >> seconds) {
    times.emplace(name, Candidate{static_cast<qn_algorithm>(std::stoi(algorithm)), kernel, {seconds}});
  }
  return times;
}

void add_run(Case* c, const Candidate& run) {
  for (Candidate& candidate : c->candidates) {
    if (candidate.algorithm != run.algorithm || candidate.kernel != run.kernel) continue;
    candidate.runs.push_back(run.runs.front());
    return;
  }
  c->candidates.push_back(run);
}

std::vector<Candidate> measure(const Case& c) {
  qn_tuning* tuning = nullptr;
  check(qn_tuning_create(&tuning));
  const std::unique_ptr<qn_tuning, void (*)(qn_tuning*)> owner(tuning, qn_tuning_release);
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.tuning = tuning;
  options.tune = 1;
  options.traffic = c.traffic;
  qn_plan* plan = nullptr;
  if (qn_operator_plan(c.op.get(), &c.in, 1, &c.out, 1, &options, &plan) != QN_OK) return {};  // not in this layout
  qn_plan_release(plan);
  std::vector<Candidate> runs;
  for (const auto& [problem, choice] : tuning->impl->entries()) {
    for (const Measured& m : choice.measured) {
      if (std::isfinite(m.seconds)) runs.push_back({m.algorithm, m.kernel, {m.seconds}});  // not where it is alone
    }
  }
  return runs;
}

void measure_all(const FitArguments& arguments, std::vector<Case>* cases) {
  const Times known = read_times(arguments.times);
  const uint64_t begun = now_ns();
  const auto may_measure = [&] { return arguments.seconds == 0 || now_ns() - begun < arguments.seconds * 1000000000; };
  std::ofstream file;
  if (!arguments.times.empty()) file.open(arguments.times, std::ios::app);
  const std::string level = qn_cpu_level();
  for (size_t repeat = 0; repeat < arguments.repeats; ++repeat) {
    for (Case& c : *cases) {
      const auto [begin, end] = known.equal_range(c.name);
      if (repeat == 0) std::for_each(begin, end, [&](const auto& entry) { add_run(&c, entry.second); });
      if (!c.candidates.empty() && c.candidates.front().runs.size() > repeat) continue;
      if (!may_measure()) continue;
      for (const Candidate& run : measure(c)) {
        add_run(&c, run);
        file << c.name << ' ' << run.algorithm << ' ' << run.kernel << ' ' << run.runs.front() << std::endl;
        if (arguments.times.empty() || file) continue;
        std::fprintf(stderr, "quern-choices: cannot write %s\n", arguments.times.c_str());
        std::exit(1);
      }
    }
    std::fprintf(stderr, "repeat %zu: %zu layers\n", repeat + 1, cases->size());
  }
  for (Case& c : *cases) {
    for (Candidate& candidate : c.candidates) {
      candidate.seconds = median(candidate.runs);
      candidate.widest = candidate.kernel.ends_with(level);
    }
  }
}

// ---- what a row explains

double cycles_of(const Case& c, const Candidate& candidate) {
  qn_plan_options options;
  qn_plan_options_init(&options);
  options.algorithm = candidate.algorithm;
  options.kernel = candidate.kernel.c_str();
  options.traffic = c.traffic;
  double cycles = 0;
  const bool good = estimate(*c.op->impl, {&c.in, 1}, c.out, options, &cycles) == QN_OK;
  return good ? cycles : std::numeric_limits<double>::infinity();
}

constexpr double long_layer = 50e-6, close = 1.03,
                 off = 1.08;  // a layer that counts fully; choices in times of the best

struct Verdict {
  double loss = 0;
  double chosen = 0, best = 0;  // seconds of all layers
  size_t layers = 0, good = 0, bad = 0;
};

// How far a row is from the times. Of each layer it counts how much longer the choice takes than the best candidate,
// where candidates of nearly equal cost are chosen with nearly equal probability, so that no choice is a matter of luck;
// and, by less, how far the costs of good candidates are from their times, as these decide about layouts.
Verdict judge(const std::vector<Case>& cases) {
  constexpr double doubt = 0.02, good = 1.3, of_costs = 0.1, clip = 1, very_long = 2e-3;
  Verdict verdict;
  std::vector<double> logs;  // cycles per second
  double weights = 0;
  for (const Case& c : cases) {
    if (c.candidates.empty()) continue;
    const double best = c.best(), weight = best < long_layer ? 0.25 : 1 + std::min(best / very_long, 2.0);
    std::vector<double> cycles;
    for (const Candidate& candidate : c.candidates) cycles.push_back(cycles_of(c, candidate));
    const auto least = std::min_element(cycles.begin(), cycles.end());
    if (!std::isfinite(*least)) continue;  // measured by another build
    double sum = 0, all = 0;
    for (size_t i = 0; i < cycles.size(); ++i) {
      const Candidate& candidate = c.candidates[i];
      const double chance = std::exp(-std::log(cycles[i] / *least) / doubt);
      all += chance;
      sum += chance * std::min(std::log(candidate.seconds / best), clip);
      if (candidate.widest && candidate.seconds < good * best) logs.push_back(std::log(cycles[i] / candidate.seconds));
    }
    verdict.loss += weight * sum / all;
    weights += weight;
    const double seconds = c.candidates[static_cast<size_t>(least - cycles.begin())].seconds;
    if (best < long_layer) continue;
    ++verdict.layers;
    verdict.good += seconds <= close * best;
    verdict.bad += seconds > off * best;
    verdict.chosen += seconds;
    verdict.best += best;
  }
  if (logs.empty()) return verdict;
  const double middle = median(logs);
  double far = 0;
  for (const double log : logs) far += std::min(std::abs(log - middle), clip);
  verdict.loss = verdict.loss / weights + of_costs * far / static_cast<double>(logs.size());
  return verdict;
}

void print(const char* what, const Verdict& v) {
  std::fprintf(stderr, "%s: loss %.4f; of %zu layers of 50 us or more %.1f%% within 3%%, %zu beyond 8%%; all %.4f\n",
               what, v.loss, v.layers, 100.0 * static_cast<double>(v.good) / static_cast<double>(v.layers), v.bad,
               v.chosen / v.best);
}

// Layers of which the choice takes longer than it should, by the row at hand.
void print_misses(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    if (c.candidates.empty() || c.best() < long_layer) continue;
    const auto begin = c.candidates.begin(), end = c.candidates.end();
    const auto cheaper = [&](const Candidate& a, const Candidate& b) { return cycles_of(c, a) < cycles_of(c, b); };
    const auto faster = [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; };
    const auto chosen = std::min_element(begin, end, cheaper), best = std::min_element(begin, end, faster);
    if (chosen->seconds <= close * best->seconds) continue;
    std::fprintf(stderr, "%.3f %8.1f us  %s %s %s instead of %s %s\n", chosen->seconds / best->seconds,
                 best->seconds * 1e6, c.name.c_str(), qn_algorithm_string(chosen->algorithm), chosen->kernel.c_str(),
                 qn_algorithm_string(best->algorithm), best->kernel.c_str());
  }
}

// ---- the search

struct Constant {
  const char* name;
  float MachineRow::*value;
};
// What convolutions on images of any layout depend on. `pipes` is the measure of all the others.
constexpr Constant constants[] = {
#define QN_CONSTANT(name) \
  { #name, &MachineRow::name }
    QN_CONSTANT(loads),
    QN_CONSTANT(latency),
    QN_CONSTANT(call_cycles),
    QN_CONSTANT(tap_cycles),
    QN_CONSTANT(gather_cycles),
    QN_CONSTANT(gather_floats),
    QN_CONSTANT(aliasing),
    QN_CONSTANT(pass_cycles),
    QN_CONSTANT(pass_line_cycles),
    QN_CONSTANT(transform_cycles),
    QN_CONSTANT(far_transform_cycles),
    QN_CONSTANT(six_transform),
    QN_CONSTANT(l2_bytes),
    QN_CONSTANT(l3_bytes),
    QN_CONSTANT(memory_bytes),
    QN_CONSTANT(reach),
    QN_CONSTANT(interrupted_bytes),
    QN_CONSTANT(start_cycles),
    QN_CONSTANT(restart_cycles),
    QN_CONSTANT(unhidden),
    QN_CONSTANT(passing),
    QN_CONSTANT(kept),
    QN_CONSTANT(pairs_cycles),
    QN_CONSTANT(wide_pairs_cycles),
    QN_CONSTANT(fours_cycles),
    QN_CONSTANT(narrow_fours),
    QN_CONSTANT(block_of_two_cycles),
    QN_CONSTANT(block_cycles),
    QN_CONSTANT(set_cycles),
    QN_CONSTANT(fours_set_cycles),
    QN_CONSTANT(transpose_cycles),
    QN_CONSTANT(transpose_back_cycles),
    QN_CONSTANT(gather_row_cycles),
    QN_CONSTANT(gather_pixel_cycles),
    QN_CONSTANT(column_pairs_cycles),
    QN_CONSTANT(column_two_cycles),
    QN_CONSTANT(column_block_cycles),
    QN_CONSTANT(row_multiplies),
    QN_CONSTANT(tile_multiplies),
    QN_CONSTANT(far_tiles),
    QN_CONSTANT(waiting_multiplies),
    QN_CONSTANT(plane_tap_cycles),
    QN_CONSTANT(wide_tap_cycles),
    QN_CONSTANT(plane_neighbour_cycles),
    QN_CONSTANT(narrow_tap_cycles),
    QN_CONSTANT(image_vector_cycles),
    QN_CONSTANT(unblock_cycles),
    QN_CONSTANT(far_unblock_cycles),
    QN_CONSTANT(split_cycles),
#undef QN_CONSTANT
};

// A number as the table has them: three digits.
float rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return std::strtof(text, nullptr);
}

// A number with the suffix of a float where it needs one.
std::string number(float value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 1000 ? "%.3g" : "%.0f", static_cast<double>(value));
  const std::string digits = text;
  return digits.find_first_of(".e") == digits.npos ? digits : digits + "f";
}

// What differs from an unknown machine, as a row of machine.inc.
void print_row(std::FILE* to, const MachineRow& row) {
  constexpr size_t width = 118;
  const MachineRow unknown;
  std::string line = std::string("QN_MACHINE(isa_") + qn_cpu_level() + ", core_" + core_name(cpu().core);
  for (const Constant& constant : constants) {
    if (row.*constant.value == unknown.*constant.value) continue;
    const std::string value = std::string(".") + constant.name + " = " + number(row.*constant.value);
    line += ",";
    if (line.size() + value.size() + 1 > width) {
      std::fprintf(to, "%s\n", line.c_str());
      line = "          ";
    }
    line += " " + value;
  }
  std::fprintf(to, "%s)\n", line.c_str());
}

// What times say little about stays as it was.
double distance(const MachineRow& a, const MachineRow& b) {
  constexpr double price = 5e-4;
  double sum = 0;
  for (const Constant& constant : constants) {
    const double log = std::log(b.*constant.value / a.*constant.value);
    if (std::isfinite(log)) sum += log * log;  // some are 0
  }
  return price * sum;
}

// A constant made larger or smaller. One that is 0, which no factor changes, begins small.
float changed(float value, double factor) {
  constexpr float least = 0.1f;
  if (value == 0) return factor > 1 ? least : 0;
  return rounded(static_cast<double>(value) * factor);
}

MachineRow search(const std::vector<Case>& cases) {
  constexpr double steps[] = {2, 1.3, 1.12, 1.05}, worth = 1e-5;  // a change must gain so much
  static MachineRow row = machine();
  const MachineRow first = row;
  const auto loss_of = [&] { return judge(cases).loss + distance(first, row); };
  replace_machine(&row);
  double least = loss_of();
  for (const double step : steps) {
    for (bool better = true; better;) {
      better = false;
      for (const Constant& constant : constants) {
        for (const double factor : {step, 1 / step}) {
          const float before = row.*constant.value;
          row.*constant.value = changed(before, factor);
          const double loss = loss_of();
          if (loss < least - worth) {
            least = loss;
            better = true;
          } else {
            row.*constant.value = before;
          }
        }
      }
    }
    print("so far", judge(cases));
    print_row(stderr, row);
  }
  print_misses(cases);
  replace_machine(nullptr);
  return row;
}

}  // namespace

void fit(const FitArguments& arguments) {
  std::vector<Case> cases = make_cases(arguments.models);
  measure_all(arguments, &cases);
  print("this machine's row", judge(cases));
  const MachineRow row = search(cases);
  print_row(stdout, row);
}

}  // namespace quern
