// Runs models with two builds of the library in turn, in one process, and prints the times of both and the ratio of the
// second to the first.
#include <dlfcn.h>
#include <fmt/core.h>
#include <quern/graph.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "peak/median.h"
#include "tool/standard_output.h"

namespace {

clockid_t used_clock = CLOCK_MONOTONIC;

double now_ms() {
  timespec t;
  clock_gettime(used_clock, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

// The functions of one libquern.so. Two may be loaded, although their functions have the same names.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    find("qn_model_load_file", &load);
    find("qn_model_release", &release_model);
    find("qn_session_create", &create);
    find("qn_session_release", &release_session);
    find("qn_session_input_tensor", &input);
    find("qn_session_run", &run);
  }

  decltype(&qn_model_load_file) load;
  decltype(&qn_model_release) release_model;
  decltype(&qn_session_create) create;
  decltype(&qn_session_release) release_session;
  decltype(&qn_session_input_tensor) input;
  decltype(&qn_session_run) run;

 private:
  template <class Function>
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function == nullptr) throw std::runtime_error(dlerror());
  }

  void* handle_;
};

class Session {
 public:
  Session(const Library& library, const std::string& path) : library_(library) {
    must(library.load(path.c_str(), nullptr, &model_), path);
    must(library.create(model_, nullptr, &session_), path);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    library_.release_session(session_);
    library_.release_model(model_);
  }

  // Returns values for the first input, which must be the only one.
  std::vector<float> image() const {
    qn_tensor tensor;
    must(library_.input(session_, 0, &tensor), "input");
    size_t count = 1;
    for (uint32_t d = 0; d < tensor.rank; ++d) count *= tensor.shape[d];
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
    return values;
  }
  void run(const std::vector<float>& image) {
    const void* const inputs[] = {image.data()};
    must(library_.run(session_, inputs), "run");
  }

 private:
  static void must(qn_status status, const std::string& what) {
    if (status != QN_OK) throw std::runtime_error(fmt::format("{}: status {}", what, static_cast<int>(status)));
  }

  const Library& library_;
  qn_model* model_ = nullptr;
  qn_session* session_ = nullptr;
};

// The times of both libraries, and their ratio within each round. The libraries take turns at being the first of a
// round.
struct Times {
  std::array<std::vector<double>, 2> ms;
  std::vector<double> ratio;

  template <class Prepare, class Body>
  void measure(size_t rounds, Prepare prepare, Body body) {
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t turn = 0; turn < 2; ++turn) {
        const size_t which = (round + turn) % 2;
        prepare(which);
        const double start = now_ms();
        body(which);
        ms[which].push_back(now_ms() - start);
      }
      ratio.push_back(ms[1].back() / ms[0].back());
    }
  }
  std::string row() const {
    return fmt::format("{:.2f} | {:.2f} | {:.3f}", median(ms[0]), median(ms[1]), median(ratio));
  }
};

// paths[i] is the model that library i runs.
void compare(const std::array<Library, 2>& libraries, const std::array<std::string, 2>& paths, size_t starts,
             size_t runs) {
  Times start, run;
  std::array<std::unique_ptr<Session>, 2> sessions;
  start.measure(
      starts, [&](size_t which) { sessions[which].reset(); },
      [&](size_t which) { sessions[which] = std::make_unique<Session>(libraries[which], paths[which]); });
  const std::vector<float> image = sessions[0]->image();
  for (auto& session : sessions) session->run(image);
  run.measure(
      runs, [](size_t) {}, [&](size_t which) { sessions[which]->run(image); });
  fmt::print("| {} | {} | {} |\n", paths[1].substr(paths[1].rfind('/') + 1), start.row(), run.row());
}

int run(int argc, char** argv) try {
  CLI::App app{"Time of two builds of libquern.so, one thread, milliseconds and median of ratios"};
  std::string first, second, instead;
  std::vector<std::string> models;
  size_t starts = 25, runs = 100;
  bool cpu = false;
  app.add_option("first", first, "libquern.so")->required();
  app.add_option("second", second, "libquern.so")->required();
  app.add_option("models", models, "Models with one input of floats")->required();
  app.add_option("--instead", instead, "The first runs this model in place of each");
  app.add_option("--starts", starts, "How often each loads a model and creates a session")->capture_default_str();
  app.add_option("--runs", runs, "How often each runs it")->capture_default_str();
  app.add_flag("--cpu", cpu, "The time that the thread computes: without that of other programs, and without waiting");
  CLI11_PARSE(app, argc, argv);
  if (cpu) used_clock = CLOCK_THREAD_CPUTIME_ID;
  const std::array<Library, 2> libraries{Library(first), Library(second)};
  fmt::print(
      "| model | start, first | second | ratio | run, first | second | ratio |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::string& model : models) compare(libraries, {instead.empty() ? model : instead, model}, starts, runs);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "quern-libraries: {}\n", error.what());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  quern::open_standard_streams();
  return quern::finish_output("quern-libraries", run(argc, argv));
}
