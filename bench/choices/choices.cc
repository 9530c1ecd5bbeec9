// quern-choices: how good the cost model's choices are. Every convolution and fully connected layer of the zoo, each
// distinct problem once: what the model chose, and what every candidate takes when all are measured as --tune does.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convert/zoo.h"
#include "graph/format.h"
#include "graph/passes.h"
#include "op/tuning.h"

namespace quern {
namespace {

constexpr double close = 1.05;  // as good as the best

struct Arguments {
  size_t threads = 1, repeats = 8;
  std::vector<std::string> models = zoo_names();
};

struct Candidate {
  qn_algorithm algorithm;
  const char* kernel;
  std::vector<double> repeats;  // seconds

  double seconds() const {
    std::vector<double> sorted = repeats;
    std::sort(sorted.begin(), sorted.end());
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
};

// Of one problem.
struct Case {
  std::string model;                  // the first that has it
  std::vector<Candidate> candidates;  // the cost model's choice first

  const Candidate& chosen() const { return candidates.front(); }
  const Candidate& best() const {
    const auto faster = [](const Candidate& a, const Candidate& b) { return a.seconds() < b.seconds(); };
    return *std::min_element(candidates.begin(), candidates.end(), faster);
  }
  bool open() const { return candidates.size() > 1; }
  double ratio() const { return open() ? chosen().seconds() / best().seconds() : 1; }
};
using Cases = std::map<std::string, Case>;

void check(qn_status status) {
  if (status == QN_OK) return;
  std::fprintf(stderr, "quern-choices: %s\n", qn_last_message());
  std::exit(1);
}

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
  void operator()(qn_tuning* tuning) const { qn_tuning_release(tuning); }
};

std::unique_ptr<qn_model, Release> load(const std::string& name) {
  Graph graph = build_zoo(name, 1);
  check(infer_shapes(graph));
  check(optimize(graph));
  qn_model* model = nullptr;
  check(make_model(std::move(graph), nullptr, &model));
  return std::unique_ptr<qn_model, Release>(model);
}

// Measures all problems of the model that `tuning` does not know yet.
void measure(const std::string& name, size_t threads, qn_tuning* tuning) {
  const auto model = load(name);
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = threads;
  options.tuning = tuning;
  options.tune = 1;
  qn_session* session = nullptr;
  check(qn_session_create(model.get(), &options, &session));
  const std::unique_ptr<qn_session, Release> owner(session);
}

// Adds one repeat's times.
void collect(const qn_tuning* tuning, Cases* cases) {
  for (const auto& [problem, choice] : tuning->impl->entries()) {
    std::vector<Candidate>& all = (*cases)[std::string(problem)].candidates;
    for (const Measured& m : choice.measured) {
      if (all.size() < choice.measured.size()) all.push_back({m.algorithm, m.kernel, {}});
      all[static_cast<size_t>(&m - choice.measured.data())].repeats.push_back(m.seconds);
    }
  }
}

Cases measure_all(const Arguments& arguments) {
  Cases cases;
  for (size_t repeat = 0; repeat < arguments.repeats; ++repeat) {
    qn_tuning* tuning = nullptr;
    check(qn_tuning_create(&tuning));
    const std::unique_ptr<qn_tuning, Release> owner(tuning);
    for (const std::string& name : arguments.models) {
      measure(name, arguments.threads, tuning);
      for (const auto& [problem, choice] : tuning->impl->entries()) {
        cases.try_emplace(std::string(problem), Case{name, {}});
      }
      std::fprintf(stderr, "repeat %zu of %zu: %s, %zu problems\n", repeat + 1, arguments.repeats, name.c_str(),
                   cases.size());
    }
    collect(tuning, &cases);
  }
  return cases;
}

// "56x56x64_64_k3s1", and what else is not as usual, from a line of a tuning file.
std::string shape_of(const std::string& problem) {
  size_t n[TunedProblem::count] = {}, count = 0;
  for (size_t i = 0; i < problem.size() && count < TunedProblem::count; ++i) {
    const bool begins = std::isdigit(problem[i]) && std::strchr("=x,", problem[i - 1]) != nullptr;
    if (begins) n[count++] = std::strtoull(&problem[i], nullptr, 10);
  }
  using P = TunedProblem;
  char shape[160];
  if (problem.starts_with("fully")) {
    std::snprintf(shape, sizeof shape, "%zux%zux%zu", n[P::width], n[P::in_channels], n[P::out_channels]);
    return shape;
  }
  int used = std::snprintf(shape, sizeof shape, "%zux%zux%zu_%zu_k%zus%zu", n[P::height], n[P::width],
                           n[P::in_channels], n[P::out_channels], n[P::kernel_h], n[P::stride_h]);
  const auto add = [&](char letter, size_t value) {
    if (value > 1)
      used += std::snprintf(shape + used, sizeof shape - static_cast<size_t>(used), "%c%zu", letter, value);
  };
  add('g', n[P::groups]);
  add('d', n[P::dilation_h]);
  return shape;
}

void print_line(const std::string& problem, const Case& c) {
  const auto print = [](const Candidate& m) {
    std::printf(" %s `%s` | %.1f |", qn_algorithm_string(m.algorithm), m.kernel, m.seconds() * 1e6);
  };
  std::printf("| %s | %s |", shape_of(problem).c_str(), c.model.c_str());
  print(c.chosen());
  print(c.best());
  std::printf(" %.2f |\n", c.ratio());
}

void report(const Arguments& arguments, const Cases& cases) {
  size_t open = 0, good = 0, good_open = 0;
  double chosen = 0, best = 0;
  std::vector<Cases::const_iterator> misses;
  for (auto at = cases.begin(); at != cases.end(); ++at) {
    const Case& c = at->second;
    const bool is_good = c.ratio() <= close;
    open += c.open();
    good += is_good;
    good_open += c.open() && is_good;
    if (!is_good) misses.push_back(at);
    if (!c.open()) continue;
    chosen += c.chosen().seconds();
    best += c.best().seconds();
  }
  const auto percent = [](size_t part, size_t whole) {
    return 100 * static_cast<double>(part) / static_cast<double>(std::max<size_t>(whole, 1));
  };
  std::printf("Level %s, %zu thread%s: %zu problems, %zu of them with more than one candidate.\n", qn_cpu_level(),
              arguments.threads, arguments.threads == 1 ? "" : "s", cases.size(), open);
  std::printf("Within %.0f%% of the best candidate's time: %.1f%%, of those with more than one candidate %.1f%%.\n",
              100 * (close - 1), percent(good, cases.size()), percent(good_open, open));
  std::printf("All of those with more than one, one after the other: %.3f ms, the best candidates %.3f ms: %.3f.\n",
              chosen * 1e3, best * 1e3, chosen / std::max(best, 1e-12));
  if (misses.empty()) return;
  std::sort(misses.begin(), misses.end(), [](auto a, auto b) { return a->second.ratio() > b->second.ratio(); });
  std::printf(
      "\n| shape | model | chosen | us | best | us | ratio |\n| --- | --- | --- | ---: | --- | ---: | ---: |\n");
  for (const auto& miss : misses) print_line(miss->first, miss->second);
}

void print_all(const Cases& cases) {
  for (const auto& [problem, c] : cases) {
    std::printf("\n%s  %s\n", problem.c_str(), c.model.c_str());
    for (const Candidate& m : c.candidates) {
      std::printf("  %10.1f us  %-10s %s\n", m.seconds() * 1e6, qn_algorithm_string(m.algorithm), m.kernel);
    }
  }
}

// A number from 1 to 1024.
bool read_number(const char* text, size_t* number) {
  char* end = nullptr;
  *number = std::strtoul(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == '\0' && *number >= 1 && *number <= 1024;
}

bool read_models(std::string list, std::vector<std::string>* models) {
  const std::vector<std::string> known = zoo_names();
  models->clear();
  for (size_t end = 0; end != list.npos; list.erase(0, end + 1)) {
    end = list.find(',');
    models->push_back(list.substr(0, end));
    if (std::find(known.begin(), known.end(), models->back()) == known.end()) return false;
  }
  return true;
}

int choices_main(int argc, char** argv) {
  Arguments arguments;
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* flag) {
      return std::strncmp(argv[i], flag, std::strlen(flag)) == 0 ? argv[i] + std::strlen(flag) : nullptr;
    };
    bool good = false;
    if (const char* text = value("--threads=")) good = read_number(text, &arguments.threads);
    if (const char* text = value("--repeats=")) good = read_number(text, &arguments.repeats);
    if (const char* text = value("--models=")) good = read_models(text, &arguments.models);
    if (std::strcmp(argv[i], "--all") == 0) good = all = true;
    if (good) continue;
    std::fprintf(
        stderr, "quern-choices: \"%s\"? usage: quern-choices [--threads=N] [--repeats=N] [--models=NAME,...] [--all]\n",
        argv[i]);
    return 2;
  }
  const Cases cases = measure_all(arguments);
  report(arguments, cases);
  if (all) print_all(cases);
  return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) { return quern::choices_main(argc, argv); }
