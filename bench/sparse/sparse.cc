// quern-sparse: measures how much faster zeros in the weights make a convolution. It runs layers in which some weights
// are zero, single ones or blocks of output channels, by the sparse algorithm, and the same layer without zeros by the
// fastest dense algorithm. All forms of a layer, and the peak, run in turn, so that their times can be compared; it
// prints medians. With one thread, times are processor time.
#include <quern/quern.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "peak/meter.h"
#include "tool/standard_output.h"

namespace quern {
namespace {

struct Layer {
  size_t size, in, out, kernel;
};
// 1x1 layers of MobileNet v1, each shape once, then 3x3 layers, for which Winograd's algorithm is a rival.
const std::vector<Layer> layers = {
    {112, 32, 64, 1},  {56, 64, 128, 1},  {56, 128, 128, 1}, {28, 128, 256, 1},  {28, 256, 256, 1},
    {14, 256, 512, 1}, {14, 512, 512, 1}, {7, 512, 1024, 1}, {7, 1024, 1024, 1}, {56, 64, 64, 3},
    {28, 128, 128, 3}, {14, 256, 256, 3}, {7, 512, 512, 3},
};

std::string name_of(const Layer& layer) {
  return std::to_string(layer.size * layer.size) + "x" + std::to_string(layer.in) + "x" + std::to_string(layer.out);
}

struct Arguments {
  std::vector<double> zeros = {0.9};
  std::vector<double> blocks = {1, 4};
  size_t threads = 1, rounds = 31;
  bool pointwise = false;
  qn_layout layout = QN_LAYOUT_NHWC;  // of input and output, except those of the dense layer
  std::string layer;                  // if not empty, only this layer runs
  qn_algorithm algorithm = QN_ALGORITHM_SPARSE;
  std::vector<std::string> kernels = {""};  // "": the kernel that the cost model chooses
};

struct Release {
  void operator()(qn_operator* op) const { qn_operator_release(op); }
  void operator()(qn_plan* plan) const { qn_plan_release(plan); }
};

void check(qn_status status) {
  if (status == QN_OK) return;
  std::fprintf(stderr, "quern-sparse: %s\n", qn_last_message());
  std::exit(1);
}

// A layer with weights of one density.
class Runner {
 public:
  Runner(const Layer& layer, size_t block, double zeros, const Arguments& how, const std::string& kernel)
      : weights_(layer.out * layer.kernel * layer.kernel * layer.in) {
    const size_t depth = weights_.size() / layer.out;
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& w : weights_) w = uniform(random);
    // Every row of blocks gets about the same number of zeros, as it would by pruning layer by layer.
    for (size_t o = 0; o < layer.out; o += block) {
      for (size_t k = 0; k < depth; ++k) {
        const bool keep = (uniform(random) + 1) / 2 >= static_cast<float>(zeros);
        for (size_t i = o; i < std::min(o + block, layer.out); ++i) {
          if (!keep) weights_[i * depth + k] = 0;
        }
      }
    }
    for (const float w : weights_) nonzeros += w != 0;

    qn_conv2d_params p;
    qn_conv2d_params_init(&p);
    p.in_channels = layer.in;
    p.out_channels = layer.out;
    p.kernel = {layer.kernel, layer.kernel};
    p.padding = {layer.kernel / 2, layer.kernel / 2, layer.kernel / 2, layer.kernel / 2};
    p.min = 0, p.max = 6;
    qn_weights w;
    qn_weights_init(&w);
    w.data = weights_.data();
    qn_operator* op;
    check(qn_conv2d_create(&p, &w, nullptr, nullptr, &op));
    op_.reset(op);
    const size_t shape[] = {1, layer.size, layer.size, layer.in};
    qn_tensor in;
    check(qn_tensor_init(&in, QN_F32, 4, shape));
    in.layout = how.layout;
    qn_plan_options options;
    qn_plan_options_init(&options);
    options.tasks = how.threads;
    options.algorithm = how.algorithm;
    if (!kernel.empty()) options.kernel = kernel.c_str();
    qn_plan* plan;
    check(qn_operator_plan(op, &in, 1, nullptr, 0, &options, &plan));
    plan_.reset(plan);
    workspace_ = Buffer(qn_plan_workspace_size(plan));
  }

  void run(const void* in, void* out, const qn_parallel* parallel) const {
    check(qn_plan_run(plan_.get(), &in, &out, workspace_.data(), workspace_.size(), parallel));
  }
  // Times a round, as many runs as take about a millisecond. The first round only finds out how many runs that are.
  void time(const void* in, void* out, const qn_parallel* parallel, PeakMeter* meter) {
    const double begin = meter->now();
    for (size_t i = 0; i < runs_; ++i) run(in, out, parallel);
    const TimedWork time = meter->add(meter->now() - begin, runs_);
    if (warm_) times_.push_back(time);
    warm_ = true;
    runs_ = std::clamp<size_t>(static_cast<size_t>(1e-3 / time.seconds), 1, 1000);
  }
  const std::vector<TimedWork>& times() const { return times_; }
  const char* kernel() const { return qn_plan_kernel(plan_.get()); }
  qn_algorithm algorithm() const { return qn_plan_algorithm(plan_.get()); }

  size_t nonzeros = 0;

 private:
  std::vector<float> weights_;
  std::unique_ptr<qn_operator, Release> op_;
  std::unique_ptr<qn_plan, Release> plan_;
  Buffer workspace_;
  size_t runs_ = 1;
  bool warm_ = false;
  std::vector<TimedWork> times_;
};

void run_layer(const Layer& layer, const Arguments& arguments, const PeakLoop* loop, const qn_parallel* parallel) {
  struct Case {
    size_t block;
    double zeros;
    std::unique_ptr<Runner> runner;
  };
  std::vector<Case> cases;
  Arguments dense;
  dense.threads = arguments.threads;
  dense.algorithm = QN_ALGORITHM_AUTO;
  cases.push_back({0, 0, std::make_unique<Runner>(layer, 1, 0, dense, "")});
  for (const double block : arguments.blocks) {
    for (const double zeros : arguments.zeros) {
      const auto n = static_cast<size_t>(block);
      for (const std::string& kernel : arguments.kernels) {
        cases.push_back({n, zeros, std::make_unique<Runner>(layer, n, zeros, arguments, kernel)});
      }
    }
  }
  const size_t pixels = layer.size * layer.size, places = round_up(pixels, qn_pixel_block());
  Buffer in(places * layer.in * sizeof(float)), out(places * layer.out * sizeof(float));
  std::mt19937 random(2);
  for (size_t i = 0; i < places * layer.in; ++i) {
    static_cast<float*>(in.data())[i] = static_cast<float>(random() % 1000) / 1000;
  }
  PeakMeter meter(loop, parallel);
  for (size_t round = 0; round <= arguments.rounds; ++round) {
    for (Case& c : cases) {
      c.runner->time(in.data(), out.data(), parallel, &meter);
      if (meter.due()) meter.take_turn();
    }
  }
  const double dense_seconds = median_seconds(cases[0].runner->times());
  for (const Case& c : cases) {
    const double seconds = median_seconds(c.runner->times());
    const double ops = 2.0 * static_cast<double>(pixels) * static_cast<double>(c.runner->nonzeros);
    std::printf("%s,%zu,%zu,%g,%.1f,%.2f,%.1f,%s,%s\n", name_of(layer).c_str(), layer.kernel, c.block, c.zeros,
                seconds * 1e6, dense_seconds / seconds, meter.percent(ops, c.runner->times()),
                qn_algorithm_string(c.runner->algorithm()), c.runner->kernel());
  }
  std::fflush(stdout);
}

std::vector<std::string> items(const char* list) {
  std::vector<std::string> result;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) result.push_back(item);
  return result;
}

std::vector<double> numbers(const char* list) {
  std::vector<double> result;
  for (const std::string& item : items(list)) result.push_back(std::atof(item.c_str()));
  return result;
}

int run(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* flag) -> const char* {
      const size_t length = std::strlen(flag);
      return std::strncmp(argv[i], flag, length) == 0 ? argv[i] + length : nullptr;
    };
    if (const char* v = value("--zeros="))
      arguments.zeros = numbers(v);
    else if (const char* b = value("--blocks="))
      arguments.blocks = numbers(b);
    else if (const char* t = value("--threads="))
      arguments.threads = static_cast<size_t>(std::atoi(t));
    else if (const char* r = value("--rounds="))
      arguments.rounds = static_cast<size_t>(std::atoi(r));
    else if (const char* l = value("--layer="))
      arguments.layer = l;
    else if (const char* k = value("--kernels="))
      arguments.kernels = items(k);
    else if (value("--free"))
      arguments.algorithm = QN_ALGORITHM_AUTO;
    else if (value("--pointwise"))
      arguments.pointwise = true;
    else if (value("--blocked"))
      arguments.layout = QN_LAYOUT_PIXEL_BLOCKED;
    else {
      std::fprintf(stderr,
                   "usage: quern-sparse [--zeros=0.5,0.9] [--blocks=1,2,4,8,16] [--threads=N] [--rounds=N] [--free]"
                   " [--pointwise] [--blocked] [--layer=3136x128x128] [--kernels=NAME,...]\n"
                   "  --free       the chooser decides; otherwise always the sparse algorithm\n"
                   "  --pointwise  1x1 layers only\n"
                   "  --blocked    pixel-blocked input and output, but for the dense layer; otherwise NHWC\n"
                   "  --kernels    these in turn; an empty name is the one that is chosen\n");
      return 2;
    }
  }
  Pool pool;
  qn_parallel parallel;
  check(make_pool(arguments.threads, &pool));
  check(qn_parallel_from_pthreadpool(pool.get(), &parallel));
  const qn_parallel* const used = arguments.threads > 1 ? &parallel : nullptr;
  const PeakLoop* const loop = fastest_loop(cpu().isa, PeakOf::floats);
  std::printf("# %s, %zu threads, peak %.1f GFLOP/s before the layers run\n", qn_cpu_level(), arguments.threads,
              PeakMeter(loop, used).ops_per_second() / 1e9);
  std::printf("shape,kernel,block,zeros,us,speedup,percent_of_peak,algorithm,kernel\n");
  for (const Layer& layer : layers) {
    if (arguments.pointwise && layer.kernel > 1) continue;
    if (!arguments.layer.empty() && arguments.layer != name_of(layer)) continue;
    run_layer(layer, arguments, loop, used);
  }
  return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  quern::open_standard_streams();
  return quern::finish_output("quern-sparse", quern::run(argc, argv));
}
