// quern-choices: how good the cost model's choices are. Every convolution and fully connected layer of the zoo, or of
// models in files, each distinct problem once: what the model chose, and what every candidate takes when all are
// measured as --tune does.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "convert/zoo/zoo.h"
#include "fit.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "op/conv/tuning.h"
#include "peak/median.h"
#include "tool/standard_output.h"

namespace quern {
namespace {

constexpr double close = 1.05;                                   // as good as the best
constexpr double long_layer = 50e-6, closer = 1.03, off = 1.08;  // of layers that take so many seconds or more
constexpr size_t most_repeats = 4;                               // times --repeats, while a case is in doubt

struct Arguments {
  size_t threads = 1, repeats = 0;  // 0: as many as are usual
  std::vector<std::string> models = zoo_names();
};

struct Candidate {
  qn_algorithm algorithm;
  const char* kernel;
  double expected;              // by the cost model, in times of the one chosen
  std::vector<double> repeats;  // seconds
};

// Of one problem. Candidates are compared within a repeat, where the machine was the same for all.
struct Case {
  std::string model;                  // the first that has it
  std::vector<Candidate> candidates;  // the cost model's choice first
  size_t repeats = 0;

  bool open() const { return candidates.size() > 1; }
  double seconds(size_t candidate) const { return median(candidates[candidate].repeats); }

  // What a candidate takes, in times of the choice: of every `step`th repeat from `first` on.
  std::vector<double> relative(size_t candidate, size_t first, size_t step) const {
    std::vector<double> values;
    for (size_t i = first; i < repeats; i += step) {
      values.push_back(candidates[candidate].repeats[i] / candidates.front().repeats[i]);
    }
    return values;
  }
  size_t best(size_t first = 0, size_t step = 1) const {
    size_t best = 0;
    double least = 1;
    for (size_t i = 1; i < candidates.size(); ++i) {
      const double value = median(relative(i, first, step));
      if (value < least) best = i, least = value;
    }
    return best;
  }
  // What the choice takes, in times of the best candidate. Half of the repeats say which is the best, the others by how
  // much, and the other way round: what is the least of many because it was lucky has no luck the next time.
  double ratio() const {
    if (!open() || repeats < 2) return 1;
    const double even = median(relative(best(0, 2), 1, 2)), odd = median(relative(best(1, 2), 0, 2));
    return std::max(1 / std::sqrt(even * odd), 1.0);
  }
  // The standard error of the logarithm of that.
  double error() const {
    double sum = 0, squares = 0;
    for (const double value : relative(best(), 0, 1)) {
      const double log = std::log(value);
      sum += log;
      squares += log * log;
    }
    const double n = static_cast<double>(repeats), mean = sum / n;
    constexpr double of_median = 1.25;  // in times of that of the mean
    return of_median * std::sqrt(std::max(squares / n - mean * mean, 0.0) / n);
  }
  bool settled() const { return !open() || std::abs(std::log(ratio() / close)) > 2 * error(); }
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

bool is_file(const std::string& model) { return model.ends_with(".qn"); }

std::unique_ptr<qn_model, Release> load(const std::string& name) {
  qn_model* model = nullptr;
  if (is_file(name)) {
    check(qn_model_load_file(name.c_str(), nullptr, &model));
    return std::unique_ptr<qn_model, Release>(model);
  }
  Graph graph = build_zoo(name, 1);
  check(infer_shapes(graph));
  check(optimize(graph));
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

// Adds one repeat's times, of problems that `name` is the first model to have.
void collect(const std::string& name, const qn_tuning* tuning, Cases* cases) {
  for (const auto& [problem, choice] : tuning->impl->entries()) {
    Case& c = cases->try_emplace(std::string(problem), Case{name, {}}).first->second;
    if (c.model != name || choice.measured.empty()) continue;
    for (const Measured& m : choice.measured) {
      const size_t index = static_cast<size_t>(&m - choice.measured.data());
      if (c.candidates.size() == index) c.candidates.push_back({m.algorithm, m.kernel, m.expected, {}});
      c.candidates[index].repeats.push_back(m.seconds);
    }
    ++c.repeats;
  }
}

// A tuning that knows the problems that need no more repeats; empty if there are no others.
std::unique_ptr<qn_tuning, Release> tuning_of(const Cases& cases, size_t repeat, const Arguments& arguments) {
  qn_tuning* made = nullptr;
  check(qn_tuning_create(&made));
  std::unique_ptr<qn_tuning, Release> tuning(made);
  if (repeat < arguments.repeats) return tuning;
  size_t doubtful = 0;
  for (const auto& [problem, c] : cases) {
    const Candidate& chosen = c.candidates.front();
    if (c.settled()) tuning->impl->set(String(problem), {chosen.algorithm, String(chosen.kernel), {}});
    doubtful += !c.settled();
  }
  std::fprintf(stderr, "%zu problems are in doubt\n", doubtful);
  return doubtful != 0 && repeat < arguments.repeats * most_repeats ? std::move(tuning) : nullptr;
}

Cases measure_all(const Arguments& arguments) {
  Cases cases;
  std::vector<std::vector<char>> ballast;  // what is allocated in a repeat lies elsewhere in the next one
  std::minstd_rand random(1);
  for (size_t repeat = 0; const auto tuning = tuning_of(cases, repeat, arguments); ++repeat) {
    ballast.emplace_back(random() % (size_t{1} << 20), 1);
    for (const std::string& name : arguments.models) {
      const auto needs_more = [&](const auto& entry) { return entry.second.model == name && !entry.second.settled(); };
      if (repeat >= arguments.repeats && std::none_of(cases.begin(), cases.end(), needs_more)) continue;
      measure(name, arguments.threads, tuning.get());
      collect(name, tuning.get(), &cases);
    }
    std::fprintf(stderr, "repeat %zu: %zu problems\n", repeat + 1, cases.size());
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
  const auto print = [&](size_t index) {
    const Candidate& m = c.candidates[index];
    std::printf(" %s `%s` | %.1f |", qn_algorithm_string(m.algorithm), m.kernel, c.seconds(index) * 1e6);
  };
  std::printf("| %s | %s |", shape_of(problem).c_str(), c.model.c_str());
  print(0);
  print(c.best());
  std::printf(" %.2f |\n", c.ratio());
}

void report_long(const Cases& cases) {
  size_t layers = 0, good = 0, bad = 0;
  double chosen = 0, best = 0;
  for (const auto& [problem, c] : cases) {
    if (!c.open() || c.seconds(0) < long_layer) continue;
    ++layers;
    good += c.ratio() <= closer;
    bad += c.ratio() > off;
    chosen += c.seconds(0);
    best += c.seconds(0) / c.ratio();
  }
  std::printf("Of %zu that take %.0f us or more, %zu are within %.0f%%, %zu beyond %.0f%%; all of them: %.3f.\n",
              layers, long_layer * 1e6, good, 100 * (closer - 1), bad, 100 * (off - 1), chosen / std::max(best, 1e-12));
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
    chosen += c.seconds(0);
    best += c.seconds(0) / c.ratio();
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
  report_long(cases);
  if (misses.empty()) return;
  std::sort(misses.begin(), misses.end(), [](auto a, auto b) { return a->second.ratio() > b->second.ratio(); });
  std::printf(
      "\n| shape | model | chosen | us | best | us | ratio |\n| --- | --- | --- | ---: | --- | ---: | ---: |\n");
  for (const auto& miss : misses) print_line(miss->first, miss->second);
}

void print_all(const Cases& cases) {
  for (const auto& [problem, c] : cases) {
    std::printf("\n%s  %s, %zu repeats\n", problem.c_str(), c.model.c_str(), c.repeats);
    for (size_t i = 0; i < c.candidates.size(); ++i) {
      const Candidate& m = c.candidates[i];
      std::printf("  %10.1f us, expected %10.1f us  %-10s %s\n", c.seconds(i) * 1e6, m.expected * c.seconds(0) * 1e6,
                  qn_algorithm_string(m.algorithm), m.kernel);
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
    const bool is_known = std::find(known.begin(), known.end(), models->back()) != known.end();
    if (!is_known && !is_file(models->back())) return false;
  }
  return true;
}

int choices_main(int argc, char** argv) {
  Arguments arguments;
  bool all = false, fits = false;
  size_t seconds = 0;
  std::string times;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* flag) {
      return std::strncmp(argv[i], flag, std::strlen(flag)) == 0 ? argv[i] + std::strlen(flag) : nullptr;
    };
    bool good = false;
    if (const char* text = value("--threads=")) good = read_number(text, &arguments.threads);
    if (const char* text = value("--repeats=")) good = read_number(text, &arguments.repeats);
    if (const char* text = value("--models=")) good = read_models(text, &arguments.models);
    if (const char* text = value("--seconds=")) good = read_number(text, &seconds);
    if (const char* text = value("--times=")) good = !(times = text).empty();
    if (std::strcmp(argv[i], "--all") == 0) good = all = true;
    if (std::strcmp(argv[i], "--fit") == 0) good = fits = true;
    if (good) continue;
    std::fprintf(stderr,
                 "quern-choices: \"%s\"? usage: quern-choices [--threads=N] [--repeats=N] [--models=NAME|FILE.qn,...]\n"
                 "              [--all]\n"
                 "                          or: quern-choices --fit [--repeats=N] [--models=NAME,...] [--times=FILE]\n"
                 "              [--seconds=N]\n",
                 argv[i]);
    return 2;
  }
  if (arguments.repeats == 0) arguments.repeats = fits ? 2 : 8;
  if (fits && std::any_of(arguments.models.begin(), arguments.models.end(), is_file)) {
    std::fprintf(stderr, "quern-choices: --fit takes networks of the zoo\n");
    return 2;
  }
  if (fits) {
    fit({arguments.models, arguments.repeats, seconds, times});
    return 0;
  }
  const Cases cases = measure_all(arguments);
  report(arguments, cases);
  if (all) print_all(cases);
  return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  quern::open_standard_streams();
  return quern::finish_output("quern-choices", quern::choices_main(argc, argv));
}
