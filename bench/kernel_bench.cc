// kernel/<row>/<shape>: every row of every table, called as the operators call it, on data from L1 or L2.
//
// Shapes are written as the loops run: gemm rows x outputs x depth; spmm pixels x outputs x depth, and how many of the
// weights are zero; igemm and tapgemm rows x outputs x taps x channels; dwconv and pool pixels x taps x channels, before these rows
// where there are tiles; winograd inputs of a tile x channels; elementwise functions elements, or rows x channels;
// transpose rows x columns.
#include <cstring>
#include <limits>
#include <random>

#include "bench.h"
#include "kernel/dwconv.h"
#include "kernel/eltwise.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/pool.h"
#include "kernel/quantize_rows.h"
#include "kernel/spmm.h"
#include "kernel/tapgemm.h"
#include "kernel/transpose.h"
#include "kernel/unblock.h"
#include "kernel/winograd.h"
#include "op/weights/pack_sparse.h"
#include "operands/operands.h"

namespace quern {
namespace {

constexpr qn_minmax_f32 no_clamp = {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};

// bench(state, row, arguments...) makes its operands when its turn comes. `part` names one kernel of a row with several.
template <class Row, class... Arguments>
void add_part(const Row& row, const char* part, const std::string& shape,
              void (*bench)(benchmark::State&, const Row&, Arguments...),
              const std::type_identity_t<Arguments>&... with) {
  if (!runs_on(row, cpu().isa)) return;
  const auto run = [&row, bench, with...](benchmark::State& state) { bench(state, row, with...); };
  benchmark::RegisterBenchmark(text("kernel/", row.name, part, "/", shape).c_str(), run)->Threads(1);
}
template <class Row, class... Arguments>
void add(const Row& row, const std::string& shape, void (*bench)(benchmark::State&, const Row&, Arguments...),
         const std::type_identity_t<Arguments>&... with) {
  add_part<Row, Arguments...>(row, "", shape, bench, with...);
}

// Where the operands of one call lie between two calls.
const char* residence(double bytes) {
  if (bytes <= static_cast<double>(cpu().l1_bytes)) return "L1";
  return bytes <= static_cast<double>(cpu().l2_bytes) ? "L2" : "beyond L2";
}

// Times call(), which runs a kernel of the row.
template <class Call>
void bench_call(benchmark::State& state, const Row& row, const Work& work, Call&& call) {
  state.SetLabel(residence(work.bytes));
  measure(state, work, PeakMeter(loop_to_reach(row.isa, of_bytes(row) ? PeakOf::bytes : PeakOf::floats)), call);
}

// Memory of one operand, wherever it comes to lie: floats.
struct Anywhere {};
class Room {
 public:
  Room(const char*, operands::Access) {}
  void place(size_t bytes, Anywhere, size_t) {
    bytes_ = bytes;
    floats_ = Floats(divide_up(bytes, sizeof(float)));
  }
  operands::Address address() const { return operands::Address(floats_.data()); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(floats_.data());
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
  Floats floats_{0};
};

template <class... Rooms>
double bytes_together(const Rooms&... rooms) {
  return static_cast<double>((rooms.bytes() + ...));
}

// Sizes of the elements of products.
const operands::Elements& elements_of(const Row& row) {
  if (row.type == KernelType::f32) return operands::f32_elements;
  if (row.type == KernelType::qd8c4) return operands::qd8c4_elements;
  if (row.type == KernelType::qd8b4) return operands::qd8b4_elements;
  if (row.type == KernelType::qw8c) return operands::qw8c_elements;
  if (row.type == KernelType::qw4b) return operands::qw4b_elements;
  return row.type == KernelType::qd8c ? operands::qd8c_elements : operands::qs8c_elements;
}

// Times a kernel with its operands.
template <class Operands, class Function>
void bench_operands(benchmark::State& state, const Row& row, Function* run, const Operands& x, const Work& work) {
  if constexpr (requires { x.p; }) {
    std::memset(x.p.template as<char>(), 0, x.p.bytes());
    if (row.type == KernelType::f32) *x.p.template as<qn_minmax_f32>() = no_clamp;
  }
  bench_call(state, row, work, [&] { x.call(run); });
}

// One block of A rows against `panels` panels of weights.
void bench_gemm(benchmark::State& state, const GemmRow& row, size_t panels, size_t k) {
  const size_t nc = panels * row.nr;
  operands::GemmOperands<Room> x;
  x.place({row.mr, nc, k}, {row.nr, nc, k, elements_of(row), row.panel}, Anywhere());
  const auto macs = static_cast<double>(row.mr * nc * k);
  bench_operands(state, row, row.run, x, {2 * macs, bytes_together(x.a, x.w, x.c)});
}

void add_gemm() {
  for (const GemmRow& row : gemm_rows()) {
    static constexpr size_t shapes[][2] = {{2, 32}, {1, 64}, {1, 128}, {1, 256}, {2, 256}, {4, 512}, {4, 1024}};
    for (const auto& shape : shapes) {
      const size_t panels = shape[0], k = shape[1];
      add(row, join({row.mr, panels * row.nr, k}), bench_gemm, panels, k);
    }
  }
}

// Weights of which some are zero, in random places, those of a block together.
struct SparseMatrix {
  SparseMatrix(const SpmmRow& row, size_t outputs, size_t depth, double zeros) : values(outputs * depth) {
    std::mt19937 random(1);
    for (size_t n = 0; n < outputs; n += row.block) {
      for (size_t k = 0; k < depth; k += row.inputs) {
        const bool zero = static_cast<double>(random()) < zeros * 0x1p32;
        for (size_t i = n; zero && i < n + row.block; ++i) std::fill_n(values.data() + i * depth + k, row.inputs, 0.0f);
        nonzeros += zero ? 0 : row.block * row.inputs;
      }
    }
    bytes.resize(outputs * depth);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = values.data()[i] == 0 ? int8_t{0} : int8_t{1};
  }
  Floats values;
  std::vector<int8_t> bytes;
  size_t nonzeros = 0;
};

struct SparseShape {
  size_t outputs, depth;
  double zeros;
};

// One tile of pixels against all weights, some k and some output channels at a time, as the operator does it.
void bench_spmm(benchmark::State& state, const SpmmRow& row, const SparseShape& shape) {
  const SparseMatrix matrix(row, shape.outputs, shape.depth, shape.zeros);
  const bool of_bytes = row.type != KernelType::f32;
  PackKey key = {sparse_packing(row), sparse_block(row), {1, shape.outputs, shape.depth, {1, 1}}, {}, {}, 0};
  key.depth = sparse_depth(row, row.pixels, shape.depth / row.inputs, 1 - shape.zeros);
  qn_weights_init(&key.weights);
  key.weights.type = of_bytes ? QN_S8 : QN_F32;
  key.weights.data = of_bytes ? static_cast<const void*>(matrix.bytes.data()) : matrix.values.data();
  key.bias.resize(shape.outputs);
  const auto packed = pack_sparse(key);
  const auto& w = static_cast<const SparseWeights&>(*packed);
  const size_t stride = row.pixels * sizeof(float), a_stride = spmm_a_width(row, row.pixels) * spmm_bytes(row);
  const size_t a_bytes = w.depth * a_stride;
  const std::vector<char> epilogue(requantize_bytes(sparse_channels));
  const void* const p = of_bytes ? static_cast<const void*>(epilogue.data()) : &no_clamp;
  const size_t c_bytes = sparse_channels * stride;
  const bool one_chunk = w.chunks == 1;  // then the sums of a block of channels are complete at once
  const Floats a(w.chunks * a_bytes / sizeof(float)), c((one_chunk ? 1 : w.blocks) * c_bytes / sizeof(float));
  const auto bytes = static_cast<double>(w.chunks * a_bytes + (one_chunk ? 1 : w.blocks) * c_bytes + w.data.size());
  bench_call(state, row, {2.0 * static_cast<double>(matrix.nonzeros * row.pixels), bytes}, [&] {
    for (size_t chunk = 0; chunk < w.chunks; ++chunk) {
      for (size_t block = 0; block < w.blocks; ++block) {
        multiply_sparse(row, w, 0, chunk, block, row.pixels, reinterpret_cast<const char*>(a.data()) + chunk * a_bytes,
                        a_stride, reinterpret_cast<char*>(c.data()) + (one_chunk ? 0 : block * c_bytes), stride, p);
      }
    }
  });
}

void add_spmm() {
  static constexpr SparseShape shapes[] = {{64, 32, 0.9},   {128, 64, 0.9},   {128, 128, 0.1}, {128, 128, 0.5},
                                           {128, 128, 0.9}, {512, 512, 0.1},  {512, 512, 0.3}, {256, 256, 0.9},
                                           {512, 512, 0.9}, {1024, 1024, 0.9}};
  for (const SpmmRow& row : spmm_rows()) {
    for (const SparseShape& shape : shapes) {
      add(row, text(join({row.pixels, shape.outputs, shape.depth}), "/zeros:", shape.zeros), bench_spmm, shape);
    }
  }
}

// Neighbouring output pixels of a row of an image with kernel 3x3 and stride 1.
void bench_igemm(benchmark::State& state, const IgemmRow& row, size_t panels, size_t channels) {
  constexpr size_t kernel = 3, taps = kernel * kernel;
  const size_t nc = panels * row.nr;
  operands::IgemmOperands<Room> x;
  x.place({row.mr, nc, channels, taps}, {row.nr, nc, taps * channels, elements_of(row), row.panel, taps},
          operands::neighbour_table(kernel, row.mr, channels), Anywhere());
  const auto macs = static_cast<double>(row.mr * nc * taps * channels);
  bench_operands(state, row, row.run, x, {2 * macs, bytes_together(x.a, x.w, x.c, x.offsets)});
}

void add_igemm() {
  for (const IgemmRow& row : igemm_rows()) {
    static constexpr size_t shapes[][2] = {{1, 16}, {1, 64}, {2, 64}, {2, 128}};
    for (const auto& shape : shapes) {
      const size_t panels = shape[0], channels = shape[1];
      add(row, join({row.mr, panels * row.nr, 9, channels}), bench_igemm, panels, channels);
    }
  }
}

// Output pixels of an image with kernel 3x3 and stride 1, 16 rows of the product for each row of the image.
void bench_tapgemm(benchmark::State& state, const TapgemmRow& row, size_t panels, size_t channels) {
  constexpr size_t kernel = 3, pitch = 16;
  const size_t nc = panels * row.nr, piece = std::min(most_tap_bytes(row), channels);
  std::vector<size_t> offsets;
  for (size_t y = 0; y < kernel; ++y) {
    for (size_t k = 0; k < kernel * channels; k += piece) offsets.push_back(y * pitch * channels + k);
  }
  operands::TapgemmOperands<Room> x;
  x.place({row.mr, nc, piece, channels}, {row.nr, nc, kernel * kernel * channels, elements_of(row), row.panel}, offsets,
          Anywhere());
  const auto macs = static_cast<double>(row.mr * nc * kernel * kernel * channels);
  bench_operands(state, row, row.run, x, {2 * macs, bytes_together(x.a, x.w, x.c, x.rows)});
}

void add_tapgemm() {
  for (const TapgemmRow& row : tapgemm_rows()) {
    static constexpr size_t shapes[][2] = {{1, 32}, {1, 64}, {2, 64}, {4, 128}};
    for (const auto& shape : shapes) {
      const size_t panels = shape[0], channels = shape[1];
      add(row, join({row.mr, panels * row.nr, 9, channels}), bench_tapgemm, panels, channels);
    }
  }
}

// The table of `rows` rows of output pixels.
operands::RowTable window_table(size_t kernel, size_t stride, size_t pixels, size_t channels, size_t rows = 1) {
  return operands::column_table((pixels - 1) * stride + kernel, (rows - 1) * stride + kernel, channels);
}

void bench_dwconv(benchmark::State& state, const DwconvRow& row, size_t pixels, size_t kernel, size_t channels) {
  const size_t taps = kernel * kernel;
  operands::DwconvOperands<Room> x;
  x.place({channels, pixels, taps, kernel}, {row.nr, channels, taps, elements_of(row)},
          window_table(kernel, 1, pixels, channels), Anywhere());
  const auto macs = static_cast<double>(pixels * taps * channels);
  bench_operands(state, row, row.run, x, {2 * macs, bytes_together(x.a, x.w, x.c)});
}

void bench_dwconv_tile(benchmark::State& state, const DwconvTileRow& row, size_t pixels, size_t channels) {
  const size_t taps = row.kernel * row.kernel;
  operands::DwconvTileOperands<Room> x;
  x.place({channels, pixels, row.rows}, {row.nr, channels, taps, elements_of(row), row.panel, row.kernel},
          window_table(row.kernel, row.stride, pixels, channels, row.rows), Anywhere());
  const auto macs = static_cast<double>(row.rows * pixels * taps * channels);
  bench_operands(state, row, row.run, x, {2 * macs, bytes_together(x.a, x.w, x.c)});
}

void add_dwconv() {
  static constexpr size_t shapes[][2] = {{56, 64}, {28, 128}, {28, 144}, {14, 512}, {7, 960}};  // pixels, channels
  for (const DwconvTileRow& row : dwconv_tile_rows()) {
    for (const auto& shape : shapes) {
      const size_t pixels = shape[0], channels = shape[1];
      add(row, join({row.rows, pixels, row.kernel * row.kernel, channels}), bench_dwconv_tile, pixels, channels);
    }
  }
  for (const DwconvRow& row : dwconv_rows()) {
    for (const size_t kernel : {3, 5, 7}) {
      for (const auto& shape : shapes) {
        const size_t pixels = shape[0], channels = shape[1];
        add(row, join({pixels, kernel * kernel, channels}), bench_dwconv, pixels, kernel, channels);
      }
    }
  }
}

// One channel of an image of `size` pixels squared between rows of zeros, in blocks.
void bench_dwconv_plane(benchmark::State& state, const DwconvPlaneRow& row, size_t size, size_t kernel) {
  const size_t pixels = size * size, taps = kernel * kernel, edge = kernel / 2;
  operands::PlaneOperands<Room> x("w");
  x.place({pixels, kernel, kernel}, {row.block, row.lanes},
          {row.block, operands::mask_bytes(pixels), 2 * kernel * size + pixels + 256}, taps + 1, Anywhere());
  for (size_t i = 0; i < kernel; ++i) {
    for (size_t j = 0; j < kernel; ++j) {
      x.offsets.as<int32_t>()[i * kernel + j] = static_cast<int32_t>((j * size + i + 64 - edge) * 4);
    }
    operands::write_mask(x.mask(i), pixels,
                         [&](size_t p) { return p % size + i >= edge && p % size + i < size + edge; });
  }
  const auto n = static_cast<double>(pixels);
  bench_operands(state, row, row.run, x, {2 * n * static_cast<double>(taps), 8 * n});
}

void bench_dwconv_image(benchmark::State& state, const DwconvImageRow& row, size_t size) {
  operands::DwconvImageOperands<Room> x;
  x.place(size, size, row.lanes, 0, Anywhere());
  const auto n = static_cast<double>(size * size);
  bench_operands(state, row, row.run, x, {18 * n, 20 * n});
}

// An element counts as an operation.
void bench_unblock(benchmark::State& state, const UnblockRow& row, size_t size) {
  constexpr size_t channels = 16;
  operands::UnblockOperands<Room> x;
  x.place(size * size, row.block, channels * row.block, row.block, Anywhere());
  const auto n = static_cast<double>(size * size);
  bench_operands(state, row, row.run, x, {n, 8 * n});
}

void bench_split(benchmark::State& state, const SplitRow& row, size_t size, size_t step) {
  operands::SplitOperands<Room> x;
  x.place({size, size, step, step}, Anywhere());
  const auto n = static_cast<double>(size * size);
  bench_operands(state, row, row.run, x, {n, 8 * n});
}

// An element counts as an operation.
void bench_quantize_rows(benchmark::State& state, const QuantizeRowsRow& row, size_t rows, size_t k) {
  operands::QuantizeRowsOperands<Room> x;
  x.place(rows, k, quantized_row_bytes(row.type, k), 0, Anywhere());
  for (size_t i = 0; i < rows * k; ++i) x.a.as<float>()[i] = static_cast<float>(i % 17);
  const auto n = static_cast<double>(rows * k);
  bench_operands(state, row, row.run, x, {n, 5 * n});
}

void add_quantize_rows() {
  for (const QuantizeRowsRow& row : quantize_rows_rows()) {
    for (const size_t k : {64, 256, 1024}) add(row, join({14, k}), bench_quantize_rows, 14, k);
  }
}

void add_planes() {
  for (const size_t size : {112, 56, 28, 14, 7}) {
    for (const DwconvPlaneRow& row : dwconv_plane_rows()) {
      for (const size_t kernel : {3, 5}) {
        if (row.kernel != 0 && row.kernel != kernel) continue;
        add(row, join({size, size, kernel * kernel}), bench_dwconv_plane, size, kernel);
      }
    }
    for (const DwconvImageRow& row : dwconv_image_rows()) {
      add(row, join({size, size, 9}), bench_dwconv_image, size);
    }
    for (const UnblockRow& row : unblock_rows()) {
      add(row, join({size, size}), bench_unblock, size);
    }
    for (const SplitRow& row : split_rows()) {
      for (const size_t step : {1, 2}) {
        add(row, join({size, size, step}), bench_split, size, step);
      }
    }
  }
}

struct PoolShape {
  size_t kernel, stride, pixels, channels;
};
constexpr PoolShape pool_shapes[] = {
    {2, 2, 28, 64}, {3, 2, 28, 64}, {3, 2, 14, 256}, {7, 1, 1, 1024}, {14, 1, 1, 1000},  // the last two are global
};

void bench_pool(benchmark::State& state, const PoolRow& row, const PoolShape& shape) {
  const size_t taps = shape.kernel * shape.kernel;
  const bool average = row.kind == PoolKind::average;
  operands::PoolOperands<Room> x;
  const auto& elements = row.type == KernelType::f32 ? operands::f32_elements : operands::qs8_pool_elements;
  x.place({shape.channels, shape.pixels, taps, shape.stride * shape.kernel}, elements,
          window_table(shape.kernel, shape.stride, shape.pixels, shape.channels), average, Anywhere());
  // A comparison or addition per tap, the clamp, and for the average the scale.
  const auto ops = static_cast<double>(shape.pixels * shape.channels * (taps + 2 + (average ? 1 : 0)));
  bench_operands(state, row, row.run, x, {ops, bytes_together(x.a, x.c)});
}

void add_pool() {
  for (const PoolRow& row : pool_rows()) {
    for (const PoolShape& shape : pool_shapes) {
      add(row, join({shape.pixels, shape.kernel * shape.kernel, shape.channels}), bench_pool, shape);
    }
  }
}

// One tile there and back, as among other tiles of a block.
constexpr size_t winograd_tiles = 14;

// Operations of one transform of a line: n inputs to n values, n products to m outputs (winograd_math.h).
struct WinogradOps {
  double input, output;
};
WinogradOps ops_of(const WinogradRow& row) {
  switch (row.outputs) {
    case 2: return {4, 4};
    case 4: return {21, 15};
    default: return {36, 34};
  }
}

void bench_winograd_input(benchmark::State& state, const WinogradRow& row, size_t channels) {
  const size_t m = row.outputs, n = row.inputs();
  operands::WinogradInputOperands<Room> x;
  x.place(m, channels, {m, m, 0, n, 0, n}, {channels, n * channels, winograd_tiles * channels + 16}, Anywhere());
  const double ops = ops_of(row).input * static_cast<double>(2 * n * channels);
  bench_operands(state, row, row.input, x, {ops, 8.0 * static_cast<double>(row.points() * channels)});
}

void bench_winograd_output(benchmark::State& state, const WinogradRow& row, size_t channels) {
  const size_t m = row.outputs, n = row.inputs();
  operands::WinogradOutputOperands<Room> x;
  x.place(m, channels, m, m, {channels, m * channels, winograd_tiles * channels + 16}, Anywhere());
  const double ops = (ops_of(row).output * static_cast<double>(n + m) + 3 * static_cast<double>(m * m)) *
                     static_cast<double>(channels);
  bench_operands(state, row, row.output, x, {ops, 4.0 * static_cast<double>((row.points() + m * m) * channels)});
}

void add_winograd() {
  for (const WinogradRow& row : winograd_rows()) {
    for (const size_t channels : {32, 128}) {
      const std::string shape = join({row.inputs(), row.inputs(), channels});
      add_part(row, "_input", shape, bench_winograd_input, channels);
      add_part(row, "_output", shape, bench_winograd_output, channels);
    }
  }
}

// Operations per element as the formulas of eltwise_math.h count: +, -, *, /, comparisons.
double ops_of(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::clamp: return 2;
    case UnaryKind::sigmoid: return 25;
    case UnaryKind::tanh: return 25;
    case UnaryKind::hswish: return 5;
    case UnaryKind::power: return 3;  // of the exponent below
    case UnaryKind::exp: return 23;
    case UnaryKind::lookup: return 1;
    case UnaryKind::quantize: return 4;
    case UnaryKind::dequantize: return 3;
  }
  return 0;
}

size_t element_bytes(const Row& row) { return bytes_of(info_of(row.type).activations); }

constexpr size_t vector_sizes[] = {2048, 14 * 14 * 256};  // L1, L2

void bench_unary(benchmark::State& state, const UnaryRow& row, size_t n) {
  const Floats x(n), y(n);
  const qn_unary_f32 p = {0, 6, 2};
  const char table[256] = {};
  const qn_convert_qs8 conversion = {0.02f, 3, 0};
  const bool converts = row.kind == UnaryKind::quantize || row.kind == UnaryKind::dequantize;
  const void* parameters = converts                        ? static_cast<const void*>(&conversion)
                           : row.kind == UnaryKind::lookup ? static_cast<const void*>(table)
                                                           : &p;
  const auto elements = static_cast<double>(n);
  const double bytes = converts ? 5 : 2.0 * static_cast<double>(element_bytes(row));
  bench_call(state, row, {ops_of(row.kind) * elements, bytes * elements},
             [&] { row.run(n, x.data(), y.data(), parameters); });
}

void bench_binary(benchmark::State& state, const BinaryRow& row, size_t n) {
  const bool scalar = row.kind >= BinaryKind::addc;
  const Floats a(n), b(n), y(n);
  const qn_binary_qs8 quantized = {0.5f, 0.5f, 0, 0, 0, INT8_MIN, INT8_MAX};
  const bool floats = row.type == KernelType::f32;
  const void* parameters = floats ? static_cast<const void*>(&no_clamp) : &quantized;
  const auto elements = static_cast<double>(n), bytes = (scalar ? 2.0 : 3.0) * static_cast<double>(element_bytes(row));
  bench_call(state, row, {3 * elements, bytes * elements},
             [&] { row.run(n, a.data(), b.data(), y.data(), parameters); });
}

void bench_channel(benchmark::State& state, const ChannelRow& row, size_t rows, size_t channels) {
  const size_t parameters = std::max(rows, channels), stride = channels * sizeof(float);
  const Floats x(rows * channels), y(rows * channels), scale(parameters), bias(parameters);
  const auto n = static_cast<double>(rows * channels);
  bench_call(state, row, {(row.kind == ChannelKind::scale ? 4 : 2) * n, 8 * n}, [&] {
    row.run(rows, channels, x.data(), stride, scale.data(), bias.data(), y.data(), stride, &no_clamp);
  });
}

void bench_reduce(benchmark::State& state, const ReduceRow& row, size_t n) {
  const Floats x(n), y(n);
  const bool max = row.kind == ReduceKind::max;
  const auto elements = static_cast<double>(n);
  bench_call(state, row, {(max ? 1 : 25) * elements, (max ? 4 : 8) * elements}, [&] {
    float result = row.run(n, x.data(), y.data(), 1);
    benchmark::DoNotOptimize(result);
  });
}

template <class Table>
void add_vector(const Table& rows, void (*bench)(benchmark::State&, decltype(*rows.data())&, size_t)) {
  for (const auto& row : rows) {
    for (const size_t n : vector_sizes) {
      add(row, std::to_string(n), bench, n);
    }
  }
}

void add_channel() {
  static constexpr size_t shapes[][2] = {{32, 64}, {3136, 24}, {196, 256}};
  for (const ChannelRow& row : channel_rows()) {
    for (const auto& shape : shapes) {
      const size_t rows = shape[0], channels = shape[1];
      add(row, join({rows, channels}), bench_channel, rows, channels);
    }
  }
}

// Rows that lie `columns` apart, as the pixels of an image with that many channels. An element counts as an operation.
void bench_transpose(benchmark::State& state, const TransposeRow& row, size_t rows, size_t columns) {
  operands::TransposeOperands<Room> x;
  x.place(rows, columns, rows, 0, Anywhere(), [](size_t i) { return i; });
  const auto n = static_cast<double>(rows * columns);
  bench_operands(state, row, row.run, x, {n, 8 * n});
}

void add_transpose() {
  static constexpr size_t shapes[][2] = {{64, 32}, {32, 64}, {64, 128}, {64, 512}, {49, 1000}};
  for (const TransposeRow& row : transpose_rows()) {
    for (const auto& shape : shapes) {
      const size_t rows = shape[0], columns = shape[1];
      add(row, join({rows, columns}), bench_transpose, rows, columns);
    }
  }
}

}  // namespace

void register_kernels() {
  add_gemm();
  add_spmm();
  add_igemm();
  add_tapgemm();
  add_dwconv();
  add_quantize_rows();
  add_planes();
  add_pool();
  add_winograd();
  add_vector(unary_rows(), bench_unary);
  add_vector(binary_rows(), bench_binary);
  add_channel();
  add_vector(reduce_rows(), bench_reduce);
  add_transpose();
}

}  // namespace quern
