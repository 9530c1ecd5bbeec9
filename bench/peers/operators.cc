// quern-peers-bench: runs matrix products, convolutions and depthwise convolutions in Quern and in other libraries,
// interleaved.
//
// Flags are those of google-benchmark, and
//   --threads=1,2          numbers of threads that layers run with; default 1
//   --rounds=15            turns of each engine
//   --peers=xnnpack,blis   which libraries, instead of all
//   --types=f32,qs8c       what layers compute with; default f32
// A line of google-benchmark is one layer in all engines. Its time is that of one turn of all engines; only the
// counters matter. The exit status is 1 when a library is missing, fails, or computes something else.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "peers.h"
#include "race.h"
#include "tool/standard_output.h"

namespace quern::peers {
namespace {

struct Case {
  std::string name;  // <table>/<operator>/<type>/<shape>
  Layer layer;
  std::vector<Placement> placements;
  std::string comment;
};

// Tensors begin at a multiple of 64.
const std::vector<Placement> one_placement = {{0, 0}};
// Pixels a power of two apart share sets of the first cache; where the buffers lie then decides who evicts whom.
const std::vector<Placement> placements = {{0, 0}, {0, 2048}, {64, 1088}, {1024, 64}, {2112, 3520}, {3072, 1536}};

struct TypeName {
  Type type;
  const char* name;
};
constexpr TypeName types[] = {{Type::f32, "f32"},     {Type::qs8c, "qs8c"},   {Type::qd8c, "qd8c"},
                              {Type::qd8c4, "qd8c4"}, {Type::qd8b4, "qd8b4"}, {Type::qw8c, "qw8c"}};

Case product(const TypeName& type, const MatrixShape& s) {
  return {text("product/fully_connected/", type.name, "/", shape_name(s)),
          {.kind = Kind::fully_connected, .type = type.type, .rows = s.rows, .in = s.in, .out = s.out},
          one_placement,
          ""};
}

Case convolution(const char* table, const TypeName& type, const ConvShape& s) {
  return {text(table, "/conv2d/", type.name, "/", shape_name(s)),
          {.kind = Kind::conv2d,
           .type = type.type,
           .size = s.size,
           .in = s.in,
           .out = s.out,
           .kernel = s.kernel,
           .stride = s.stride},
          one_placement,
          ""};
}

Case depthwise(const TypeName& type, const DepthwiseShape& s) {
  return {text("depthwise/dwconv2d/", type.name, "/", shape_name(s)),
          {.kind = Kind::dwconv2d,
           .type = type.type,
           .size = s.size,
           .in = s.channels,
           .out = s.channels,
           .kernel = s.kernel,
           .stride = s.stride},
          placements,
          ""};
}

// Adds the cases of a type. Types that quantize their input themselves have products only; floats by weights of bytes
// those of one row only.
void add_cases(const TypeName& type, std::vector<Case>* cases) {
  if (type.type == Type::qw8c) {
    for (const MatrixShape& s : matrix_shapes) {
      if (s.rows == 1) cases->push_back(product(type, s));
    }
    return;
  }
  for (const ConvShape& s : conv_shapes) {
    if (s.in_tables == listed && s.kernel == 1) cases->push_back(product(type, {s.size * s.size, s.in, s.out}));
  }
  for (const MatrixShape& s : matrix_shapes) {
    if (s.in_tables == listed) cases->push_back(product(type, s));
  }
  if (type.type != Type::f32 && type.type != Type::qs8c) return;
  for (const ConvShape& s : conv_shapes) {
    if (s.in_tables == listed && s.kernel > 1) cases->push_back(convolution("convolution", type, s));
  }
  for (const DepthwiseShape& s : depthwise_shapes) {
    if (s.in_tables == listed) cases->push_back(depthwise(type, s));
  }
  for (const ConvShape& s : conv_shapes) {
    if (s.top_of == nullptr) continue;
    cases->push_back(convolution("top", type, s));
    cases->back().comment = s.top_of;
  }
}

// NULL if this CPU multiplies int8 in no way of its own.
const PeakLoop* loop_of(Type type) {
  return quern::loop_of(cpu().isa, type == Type::f32 || type == Type::qw8c ? PeakOf::floats : PeakOf::bytes);
}

struct Options {
  std::vector<size_t> threads = {1};
  std::vector<size_t> rounds = {15};
  std::vector<std::string> peers = peer_names();
  std::vector<TypeName> types = {quern::peers::types[0]};
};

class Program {
 public:
  explicit Program(Options options) : options_(std::move(options)) {}

  void open_peers() {
    benchmark::AddCustomContext("quern_version", qn_version());
    for (const std::string& name : options_.peers) {
      try {
        const Peer& peer = open_peer(name);
        benchmark::AddCustomContext(text("quern_peer_", name), peer.version);
        for (const auto& engine : peer.engines) engines_.push_back(engine.get());
      } catch (const std::exception& error) {
        fail(text(name, " is missing: ", error.what()));
      }
    }
  }

  void register_cases() {
    std::vector<Case> cases;
    for (const TypeName& type : options_.types) add_cases(type, &cases);
    for (const Case& test : cases) {
      for (const size_t threads : options_.threads) {
        benchmark::RegisterBenchmark(text(test.name, "/threads:", threads).c_str(),
                                     [this, test, threads](benchmark::State& state) { run(state, test, threads); })
            ->Iterations(static_cast<benchmark::IterationCount>(options_.rounds[0]))
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }

  // Names all failures again, below the many lines. Returns the exit status.
  int finish() const {
    for (const std::string& failure : failures_) std::fprintf(stderr, "quern-peers-bench: %s\n", failure.c_str());
    return failures_.empty() ? 0 : 1;
  }

 private:
  void fail(const std::string& message) { failures_.push_back(message); }

  void run(benchmark::State& state, const Case& test, size_t threads) {
    try {
      Race race(test.layer, engines_, test.placements, threads, loop_of(test.layer.type));
      for (const std::string& failure : race.failures()) fail(text(test.name, ": ", failure));
      for (auto _ : state) race.round();
      report(state, race.results(), test);
      if (const double percent = race.percent_of_peak(); percent > 0) state.counters["percent_of_peak"] = percent;
    } catch (const std::exception& error) {
      fail(text(test.name, ": ", error.what()));
      state.SkipWithError(error.what());
    }
  }

  // Quern counts at its worst placement, the others at their best.
  static void report(benchmark::State& state, const std::vector<Race::Result>& results, const Case& test) {
    const double ops = 2 * test.layer.macs(), ours = results[0].slowest;
    std::string label = test.comment;
    double fastest_rival = 0;
    for (const Race::Result& result : results) {
      const std::string& name = result.engine->name();
      const bool is_ours = &result == &results[0];
      state.counters[text(name, "/ops_per_second")] = ops / (is_ours ? result.slowest : result.fastest);
      if (test.placements.size() > 1)
        state.counters[text(name, "/other_ops_per_second")] = ops / (is_ours ? result.fastest : result.slowest);
      if (result.engine->is_rival() && (fastest_rival == 0 || result.fastest < fastest_rival))
        fastest_rival = result.fastest;
      if (!result.implementation.empty()) label += text(label.empty() ? "" : "; ", name, ": ", result.implementation);
    }
    if (fastest_rival > 0) state.counters["ratio"] = fastest_rival / ours;
    state.SetLabel(label);
  }

  Options options_;
  std::vector<const Engine*> engines_ = {&quern_engine()};
  std::vector<std::string> failures_;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// False if one of the names is none of a type.
bool parse_types(const char* list, std::vector<TypeName>* chosen) {
  chosen->clear();
  for (const std::string& name : split(list)) {
    const auto* const found =
        std::find_if(std::begin(types), std::end(types), [&](const TypeName& type) { return name == type.name; });
    if (found == std::end(types)) return false;
    chosen->push_back(*found);
  }
  return true;
}

// Returns false, and prints a message, for values that cannot be used.
bool take_options(int* argc, char** argv, Options* options) {
  const char* const threads = take_flag(argc, argv, "--threads=");
  const char* const rounds = take_flag(argc, argv, "--rounds=");
  const char* const peers = take_flag(argc, argv, "--peers=");
  const char* const names = take_flag(argc, argv, "--types=");
  if (threads != nullptr && !parse_counts(threads, &options->threads)) {
    std::fprintf(stderr, "quern-peers-bench: --threads takes numbers with commas between, like 1,2\n");
    return false;
  }
  if (rounds != nullptr && (!parse_counts(rounds, &options->rounds) || options->rounds.size() != 1)) {
    std::fprintf(stderr, "quern-peers-bench: --rounds takes a number from 1 to 1024\n");
    return false;
  }
  if (peers != nullptr) options->peers = split(peers);
  if (names != nullptr && !parse_types(names, &options->types)) {
    std::fprintf(stderr, "quern-peers-bench: --types takes names of types with commas between, like f32,qs8c\n");
    return false;
  }
  return true;
}

int main(int argc, char** argv) {
  Options options;
  if (!take_options(&argc, argv, &options)) return 2;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;

  benchmark::AddCustomContext("quern_isa", isa_name(float_level()));
  for (const auto& [name, type] : {std::pair("quern_peak_gflops", Type::f32), {"quern_peak_gops_of_bytes", Type::qs8c}})
    benchmark::AddCustomContext(name, std::to_string(PeakMeter(loop_of(type)).ops_per_second() * 1e-9));
  Program program(options);
  program.open_peers();
  program.register_cases();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return program.finish();
}

}  // namespace
}  // namespace quern::peers

int main(int argc, char** argv) {
  quern::open_standard_streams();
  return quern::finish_output("quern-peers-bench", quern::peers::main(argc, argv));
}
