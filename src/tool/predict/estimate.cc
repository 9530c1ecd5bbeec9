#include "tool/predict/estimate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/math.h"
#include "kernel/winograd.h"
#include "op/algorithm/cost.h"

namespace quern::predict {
namespace {

// ---- Assumptions, beyond what op/core/machine.inc says of the core.

constexpr double index_bytes = 2;   // sparse: bytes that say where a block is
constexpr double word = 16;         // planes: pixels that share a mask
constexpr double edge_times = 1.5;  // planes: factor for the cycles of a mask in which some pixels do not count
constexpr double join_ms = 0.005;   // time to start threads and to wait for the last
constexpr double lanes = 4;
// Instructions that make bytes of a vector of floats, where a layer quantizes its input, and find its range before.
constexpr double quantize_instructions = 8;
// Rows that are multiplied in the time in which a kernel makes floats of weights of 4 bits (type qw4b).
constexpr double unpacking_rows = 4;
// Instructions that join 16 bytes of a row with those of its neighbour, as kernels with i8mm do once for all panels.
constexpr double join_instructions = 4;

double number(size_t n) { return static_cast<double>(n); }
const MachineRow& costs(const Machine& machine) { return machine.core->machine(); }
bool of_bytes(KernelType type) { return info_of(type).activations == Element::s8; }
double element_bytes(KernelType type) { return of_bytes(type) ? 1 : sizeof(float); }
// Of a weight, with its part of the scale of a block.
double weight_bytes(KernelType type) {
  const double block_scale = info_of(type).scales == Scales::block ? sizeof(float) / number(scale_block) : 0;
  return number(bits_of(info_of(type).weights)) / 8 + block_scale;
}
bool made_for(const Arm64Kernel& kernel, const Machine& machine) {
  return made_for(kernel, *machine.core, machine.features);
}
double macs_per_cycle(const Arm64Kernel& kernel, const Machine& machine) {
  return speed_of(kernel, *machine.core, machine.features).macs_per_cycle;
}

// Cycles to end a vector of four sums and to store it.
double end_cycles(KernelType type, const PhoneCore& core) {
  return of_bytes(type) ? end_instructions * lanes / core.machine().peak : vector_cycles(core);
}

// ---- Where bytes come from

// Activations of a layer stay in the last cache if half of it holds them: the layer before has just written them.
void add_activations(const Layer& layer, const Machine& machine, Cost* cost) {
  const double bytes = layer.input_bytes + layer.output_bytes;
  (bytes <= number(machine.core->last_bytes) / 2 ? cost->cache_bytes : cost->memory_bytes) += bytes;
}

void add_weights(double bytes, const Machine& machine, Cost* cost) {
  (machine.weights_stay ? cost->cache_bytes : cost->memory_bytes) += bytes;
}

// ---- Products

struct Tiles {
  double rows, depth, channels;  // of one product
  double count = 1;              // number of such products
  double per_call = 0;           // cycles of a call beyond its multiplications
};

// Adds the cost of products in whole tiles: rows and channels that a tile lacks cost as much as others. Unless both
// matrices fit into half of the first cache, one operand of a call comes from behind it: the smaller one, but the
// weights if a tile is one row.
void add_tiles(const Tiles& t, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  const bool unpacks = kernel.type == KernelType::qw4b;  // such a kernel computes only rows that exist
  const double tile = number(kernel.pixels), nr = number(kernel.channels), mr = unpacks ? std::min(tile, t.rows) : tile;
  const double calls = t.count * std::ceil(t.rows / mr) * std::ceil(t.channels / nr);
  const double end = mr * nr / lanes * end_cycles(kernel.type, *machine.core);
  const double multiplied = unpacks ? mr + unpacking_rows : mr;
  const double multiply = t.depth * multiplied * nr / macs_per_cycle(kernel, machine);
  cost->cycles += calls * (multiply + end + costs(machine).call_cycles + t.per_call);
  if ((kernel.target.isa & feature_i8mm) != 0) {
    const double vectors = t.count * std::ceil(t.rows / mr) * mr * t.depth / 16;
    cost->cycles += vectors * join_instructions * lanes / costs(machine).peak;
  }
  const double depth_bytes = t.depth * element_bytes(kernel.type);
  const double both = (t.rows + t.channels) * depth_bytes;
  const double passing = mr > 1 ? std::min(mr, nr) : nr;
  if (both > number(machine.core->l1_bytes) / 2) cost->cache_bytes += calls * passing * depth_bytes;
  cost->parts = std::max(cost->parts, calls);
}

// Bytes of the weights and of what comes with them: a bias, and of integers a scale, for each channel.
double dense_bytes(const Layer& layer) {
  const double channel = layer.type == KernelType::f32 ? sizeof(float) : sizeof(int32_t) + sizeof(float);
  return number(layer.groups * layer.out) * (number(layer.depth()) * weight_bytes(layer.type) + channel);
}

// The rows of a matrix are pixels of an image; of all images if these lie behind each other. Each of `runs` runs of
// successive k begins a group of those that the kernel takes together.
Tiles tiles_of(const Layer& layer, const Arm64Kernel& kernel, size_t runs = 1) {
  const size_t joined = layer.pointwise ? layer.images : 1;
  const size_t depth = runs * round_up(layer.depth() / runs, size_t{kernel.panel.kr});
  return {number(layer.pixels() * joined), number(depth), number(layer.out),
          number(layer.groups * layer.images / joined)};
}

bool gemm(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  if (!layer.pointwise) return false;
  add_tiles(tiles_of(layer, kernel), kernel, machine, cost);
  if (quantizes_rows(layer.type)) {
    const double vectors = number(layer.pixels() * layer.images * layer.in) / lanes;
    cost->cycles += vectors * quantize_instructions * vector_cycles(*machine.core);
  }
  add_weights(dense_bytes(layer), machine, cost);
  return true;
}

bool igemm(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  const bool joined = layer.contiguous && layer.in <= few_channels && layer.in % kernel.panel.kr == 0;
  const size_t runs = joined ? layer.kernel.h : layer.taps();
  Tiles tiles = tiles_of(layer, kernel, runs);
  tiles.per_call = number(runs * kernel.pixels) * costs(machine).tap_cycles;
  add_tiles(tiles, kernel, machine, cost);
  add_weights(dense_bytes(layer), machine, cost);
  return true;
}

// Copies the window of each pixel in turn, and multiplies by gemm.
bool direct(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  if (layer.pointwise) return false;
  add_tiles(tiles_of(layer, kernel), kernel, machine, cost);
  const size_t runs = layer.contiguous ? layer.kernel.h : layer.taps();
  const double copy = gather_cycles(costs(machine), of_bytes(layer.type), layer.contiguous, runs, layer.depth() / runs);
  cost->cycles += copy * number(layer.pixels() * layer.images * layer.groups);
  add_weights(dense_bytes(layer), machine, cost);
  return true;
}

// Returns the number of points of all tiles of `m` outputs in one direction; the last tile may have fewer.
double points_along(size_t m, size_t outputs) {
  const WinogradCut cut(m, outputs);
  return number(cut.whole * (m + 2) + (cut.rest > 0 ? cut.rest + 2 : 0));
}

// Transforms, and computes one product for each point of a tile by the fastest gemm.
bool winograd(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  const size_t m = kernel.pixels;
  const double points = number((m + 2) * (m + 2));
  const double bytes = points * number((layer.in + 1) * layer.out) * sizeof(float);
  if (layer.kernel.h != 3 || layer.kernel.w != 3 || !layer.undilated || layer.groups != 1) return false;
  if (bytes > number(max_transformed_bytes) || winograd_error(m, layer.in) > max_winograd_error) return false;
  const double tiles = points_along(m, layer.height) * points_along(m, layer.width) * number(layer.images) / points;
  const double vectors = std::ceil(number(layer.in) / lanes) + std::ceil(number(layer.out) / lanes);
  Cost products;
  double least = std::numeric_limits<double>::infinity();
  for (const Arm64Kernel& each : arm64_kernels()) {
    if (each.family != KernelFamily::gemm || each.type != kernel.type || !made_for(each, machine)) continue;
    Cost one;
    add_tiles({tiles, number(layer.in), number(layer.out), points}, each, machine, &one);
    if (const double ms = time_of(one, machine).ms; ms < least) least = ms, products = one;
  }
  *cost = products;
  cost->cycles += tiles * points * vectors * costs(machine).transform_cycles;
  add_weights(bytes, machine, cost);
  return true;
}

bool depthwise(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  const bool tile = kernel.family == KernelFamily::dwconv_tile;
  const auto fits = [&](size_t extent, size_t stride) { return extent == kernel.kernel && stride == kernel.stride; };
  if (!layer.depthwise() || layer.in_blocked) return false;
  if (tile && !(fits(layer.kernel.h, layer.stride.h) && fits(layer.kernel.w, layer.stride.w))) return false;
  const double channels = number(round_up(layer.groups, kernel.channels));
  const double rows = number(round_up(layer.height, kernel.pixels) * layer.images);
  const double pixels = rows * number(layer.width);
  const size_t taps = layer.kernel.w * round_up(layer.kernel.h, size_t{kernel.panel.kr});
  cost->cycles =
      pixels * number(taps) * channels / macs_per_cycle(kernel, machine) + pixels * costs(machine).call_cycles;
  // The loop of a tile ends its sums; that of a row does not, which counts only if they become bytes.
  if (!tile && of_bytes(kernel.type))
    cost->cycles += pixels * channels / lanes * end_cycles(kernel.type, *machine.core);
  cost->parts = rows / number(kernel.pixels);
  add_weights(dense_bytes(layer), machine, cost);
  return true;
}

// Works channel by channel: copies the image out of its blocks, once more with a stride, and takes a tap as a shift of
// the copy.
bool depthwise_planes(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  const bool moved = layer.stride.h * layer.stride.w > 1;
  const bool fits = layer.kernel.h == kernel.kernel && layer.kernel.w == kernel.kernel && !moved;
  if (!layer.depthwise() || !layer.in_blocked || (kernel.kernel > 0 && !fits)) return false;
  const double planes = number(layer.groups * layer.images);
  const double edges = std::min(1.0, (word + 1) / number(layer.width));  // the part of the masks that touch an edge
  const double products =
      number(round_up(layer.pixels(), kernel.pixels) * layer.taps()) * (1 + edges * (edge_times - 1));
  const double copies = layer.input_bytes / sizeof(float) / lanes * vector_cycles(*machine.core) * (moved ? 4 : 2);
  cost->cycles = planes * (products / macs_per_cycle(kernel, machine) + costs(machine).call_cycles) + copies;
  cost->parts = planes;
  add_weights(dense_bytes(layer), machine, cost);
  return true;
}

// Multiplies the stored weights, zeros within blocks among them, with all pixels. Pixels are transposed before and
// after, unless they are pixel-blocked already.
bool sparse(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost) {
  if (!layer.zeros || kernel.block == 0) return false;
  const WeightsDensity& zeros = *layer.zeros;
  const MachineRow& m = costs(machine);
  if (!mostly_full(zeros, kernel.block, kernel.inputs)) return false;
  const double stored = zeros.stored(kernel.block, kernel.inputs);
  const double vectors = std::ceil(number(layer.pixels()) / lanes) * number(layer.images);
  const double sets = std::ceil(number(layer.out) / number(kernel.channels)) * number(layer.groups) * vectors / 4;
  cost->cycles = stored * vectors * lanes / macs_per_cycle(kernel, machine) + sets * m.call_cycles;
  const double in = layer.in_blocked && layer.pointwise ? 0 : number(layer.groups * layer.depth());
  const double out = layer.out_blocked ? 0 : number(layer.groups * layer.out);
  // Those cycles are of a float, or of the bytes of four channels, with vectors of 16.
  const double moved = 16 * element_bytes(layer.type) / sizeof(float);
  cost->cycles += (in * m.transpose_cycles + out * m.transpose_back_cycles) * vectors * moved;
  if (of_bytes(layer.type)) {
    cost->cycles += number(layer.groups * layer.out) * vectors * end_cycles(layer.type, *machine.core);
  }
  cost->parts = vectors;
  const double index = index_bytes / number(kernel.block * kernel.inputs);
  add_weights(stored * (element_bytes(layer.type) + index), machine, cost);
  return true;
}

struct Algorithm {
  const char* name;
  KernelFamily family;
  bool (*cost)(const Layer& layer, const Arm64Kernel& kernel, const Machine& machine, Cost* cost);
};
constexpr Algorithm algorithms[] = {
    {"gemm", KernelFamily::gemm, gemm},
    {"depthwise", KernelFamily::dwconv, depthwise},
    {"depthwise", KernelFamily::dwconv_tile, depthwise},
    {"depthwise", KernelFamily::dwconv_plane, depthwise_planes},
    {"winograd", KernelFamily::winograd, winograd},
    {"igemm", KernelFamily::igemm, igemm},
    {"direct", KernelFamily::gemm, direct},
    {"sparse", KernelFamily::spmm, sparse},
};

Estimate estimate_products(const Layer& layer, const Machine& machine) {
  Estimate best;
  best.ms = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : algorithms) {
    for (const Arm64Kernel& kernel : arm64_kernels()) {
      Cost cost;
      if (kernel.family != algorithm.family || kernel.type != layer.type || !made_for(kernel, machine)) continue;
      if ((kernel.demands & ~layer.weights_are) != 0) continue;
      if (!algorithm.cost(layer, kernel, machine, &cost)) continue;
      add_activations(layer, machine, &cost);
      Estimate one = time_of(cost, machine);
      if (one.ms >= best.ms) continue;
      one.algorithm = algorithm.name;
      one.kernel = kernel.name;
      const bool transforms = kernel.family == KernelFamily::winograd;
      one.evidence = transforms ? Evidence::partly : speed_of(kernel, *machine.core, machine.features).evidence;
      best = one;
    }
  }
  return best;
}

}  // namespace

Estimate time_of(const Cost& cost, const Machine& machine) {
  const PhoneCore& core = *machine.core;
  const MachineRow& m = core.machine();
  const double threads = std::min(number(machine.threads), cost.parts);
  const double gbs = std::min(threads * core.memory_gbs, core.all_gbs);
  Estimate e;
  e.compute_ms = cost.cycles / threads / machine.ghz / 1e6;
  e.cache_ms = cost.cache_bytes / m.l2_bytes / threads / machine.ghz / 1e6;
  e.memory_ms = cost.memory_bytes / gbs / 1e6;
  e.ms = m.in_order ? e.compute_ms + e.cache_ms + e.memory_ms : std::max({e.compute_ms, e.cache_ms, e.memory_ms});
  if (threads > 1) e.ms += join_ms;
  return e;
}

Estimate estimate(const Layer& layer, const Machine& machine) {
  if (layer.work == Work::nothing) return {};
  if (layer.work == Work::products) return estimate_products(layer, machine);
  const auto element = layer.loop == nullptr ? std::nullopt : cycles_of_element(layer.loop, *machine.core);
  Cost cost;
  cost.cycles = layer.outputs * element.value_or(layer.operations / lanes * vector_cycles(*machine.core));
  cost.parts = std::max(1.0, layer.outputs / 1024);
  add_activations(layer, machine, &cost);
  Estimate e = time_of(cost, machine);
  e.kernel = element ? layer.loop : "";
  e.evidence = element ? Evidence::predicted : Evidence::assumed;
  return e;
}

}  // namespace quern::predict
