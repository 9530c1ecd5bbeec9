#include "op/choose.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/math.h"

namespace quern {
namespace {

// ---- the machine ----

struct Level {
  double lanes;     // floats of a vector
  double multiply;  // instructions of a multiply-add
};

Level level_of(const Row& row) {
  switch (row.isa) {
    case isa_avx512: return {16, 1};
    case isa_avx2: return {8, 1};
    case isa_sse41: return {4, 2};
    case isa_neon: return {4, 1};
    default: return {1, 2};
  }
}

constexpr double pipes = 2;           // multiply-adds, and loads, per cycle
constexpr double latency = 4;         // cycles from one multiply-add to the next of its chain
constexpr double tap_cycles = 0.4;    // to find one row of A through a table
constexpr double call_cycles = 20;    // to begin and end a tile
constexpr double gather_cycles = 16;  // to begin a copy
constexpr double gather_floats = 4;   // copied per cycle

// Cycles of a tile of mr x nr for one k.
double step_cycles(const Row& row, size_t mr, size_t nr) {
  const Level level = level_of(row);
  const double vectors = static_cast<double>(nr) / level.lanes, m = static_cast<double>(mr);
  return std::max({m * vectors * level.multiply / pipes, (m + vectors) / pipes, latency});
}

// Cycles of all tiles of all groups and images, each `depth` steps deep. Kernels run the rows of a call only, so the
// last tile of an image costs what it has.
double tiles_cycles(const Problem& p, const Row& row, size_t mr, size_t nr, double per_tile) {
  const double depth = static_cast<double>(p.taps()) * static_cast<double>(p.in);
  const auto tile = [&](size_t rows) {
    const double store = static_cast<double>(rows * nr) / level_of(row).lanes;
    return depth * step_cycles(row, rows, nr) + store + call_cycles + per_tile;
  };
  const size_t rest = p.pixels % mr;
  const double m_tiles = static_cast<double>(p.pixels / mr) * tile(mr) + (rest != 0 ? tile(rest) : 0);
  return m_tiles * static_cast<double>(divide_up(p.out, nr) * p.groups * p.images);
}

// ---- the algorithms ----

double gemm_cycles(const Problem& p, const GemmRow& row) { return tiles_cycles(p, row, row.mr, row.nr, 0); }

double igemm_cycles(const Problem& p, const IgemmRow& row) {
  return tiles_cycles(p, row, row.mr, row.nr, static_cast<double>(p.taps() * row.mr) * tap_cycles);
}

double direct_cycles(const Problem& p, const GemmRow& row) {
  const double copies = static_cast<double>(p.contiguous ? p.kernel.h : p.taps());
  const double floats = static_cast<double>(p.taps() * p.in);
  const double gather = copies * gather_cycles + floats / gather_floats;
  return gemm_cycles(p, row) + gather * static_cast<double>(p.pixels * p.images * p.groups);
}

double dwconv_cycles(const Problem& p, const DwconvRow& row) {
  const Level level = level_of(row);
  const double vectors = static_cast<double>(divide_up(p.groups, row.nr) * row.nr) / level.lanes;
  const double per_pixel = vectors * static_cast<double>(p.taps()) * level.multiply + call_cycles;
  return per_pixel * static_cast<double>(p.pixels * p.images);
}

// igemm keeps an offset per output pixel and tap; beyond this, another algorithm is better though slower.
constexpr size_t max_table_bytes = size_t{64} << 20;

bool table_fits(const Problem& p) {
  size_t entries;
  return checked_mul(p.pixels, p.taps(), &entries) && entries <= max_table_bytes / sizeof(int32_t);
}

// Calls consider(row, cycles) for the rows of `table` that the CPU and the options allow.
template <class Table, class Cost>
const auto* cheapest(const Table& table, const char* kernel, Cost cost, double* cycles) {
  decltype(table.data()) best = nullptr;
  for (const auto& row : table) {
    if (!runs_on(row, cpu().isa) || (kernel != nullptr && std::strcmp(kernel, row.name) != 0)) continue;
    const double c = cost(row);
    if (best != nullptr && c >= *cycles) continue;
    best = &row;
    *cycles = c;
  }
  return best;
}

Choice best_of(qn_algorithm algorithm, const Problem& p, const char* kernel) {
  Choice c;
  c.algorithm = algorithm;
  switch (algorithm) {
    case QN_ALGORITHM_GEMM:
      if (!p.pointwise) break;
      c.row = c.gemm = cheapest(
          gemm_rows(), kernel, [&](const auto& r) { return gemm_cycles(p, r); }, &c.cycles);
      break;
    case QN_ALGORITHM_DIRECT:
      c.row = c.gemm = cheapest(
          gemm_rows(), kernel, [&](const auto& r) { return direct_cycles(p, r); }, &c.cycles);
      break;
    case QN_ALGORITHM_IGEMM:
      if (!p.offsets_fit || !table_fits(p)) break;
      c.row = c.igemm = cheapest(
          igemm_rows(), kernel, [&](const auto& r) { return igemm_cycles(p, r); }, &c.cycles);
      break;
    case QN_ALGORITHM_DEPTHWISE: {
      if (p.in != 1 || p.out != 1 || !p.row_tables_fit) break;
      const auto cost = [&](const auto& r) { return dwconv_cycles(p, r); };
      const auto fits = [&](const DwconvRow& r) { return r.taps == 0 || r.taps == p.taps(); };
      c.row = c.dwconv = select(dwconv_rows(), kernel, fits);
      if (c.dwconv != nullptr) c.cycles = cost(*c.dwconv);
      break;
    }
    case QN_ALGORITHM_AUTO: break;
  }
  return c;
}

}  // namespace

qn_status choose(const char* who, const Problem& problem, const qn_plan_options& options, Choice* choice) {
  *choice = {};
  for (const qn_algorithm algorithm :
       {QN_ALGORITHM_GEMM, QN_ALGORITHM_DEPTHWISE, QN_ALGORITHM_IGEMM, QN_ALGORITHM_DIRECT}) {
    if (options.algorithm != QN_ALGORITHM_AUTO && options.algorithm != algorithm) continue;
    const Choice c = best_of(algorithm, problem, options.kernel);
    if (c.row != nullptr && (choice->row == nullptr || c.cycles < choice->cycles)) *choice = c;
  }
  if (choice->row != nullptr) return QN_OK;
  return fail(QN_UNSUPPORTED, "%s: algorithm %s with kernel %s does not apply to these shapes or this CPU", who,
              qn_algorithm_string(options.algorithm), options.kernel == nullptr ? "(any)" : options.kernel);
}

}  // namespace quern
