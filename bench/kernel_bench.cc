// kernel/<row>/<shape>: every row of every table, called as the operators call it, on data from L1 or L2.
//
// Shapes are written as the loops run: gemm rows x outputs x depth; spmm pixels x outputs x depth, and how many of the
// weights are zero; igemm rows x outputs x taps x channels; dwconv and pool pixels x taps x channels, before these rows
// where there are tiles; winograd inputs of a tile x channels; elementwise functions elements, or rows x channels;
// transpose rows x columns.
#include <limits>
#include <random>

#include "bench.h"
#include "kernel/dwconv.h"
#include "kernel/eltwise.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/pool.h"
#include "kernel/spmm.h"
#include "kernel/transpose.h"
#include "kernel/unblock.h"
#include "kernel/winograd.h"
#include "op/weights/pack_sparse.h"

namespace quern {
namespace {

constexpr qn_minmax_f32 no_clamp = {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};

// `run` gets the benchmark's state when its turn comes and makes its own operands.
// `part` names one kernel of a row that has several.
template <class Run>
void add(const Row& row, const char* part, const std::string& shape, Run run) {
  if (!runs_on(row, cpu().isa)) return;
  benchmark::RegisterBenchmark(text("kernel/", row.name, part, "/", shape).c_str(), run)->Threads(1);
}
template <class Run>
void add(const Row& row, const std::string& shape, Run run) {
  add(row, "", shape, run);
}

// Where the operands of one call lie between two calls.
const char* residence(double bytes) {
  if (bytes <= static_cast<double>(cpu().l1_bytes)) return "L1";
  return bytes <= static_cast<double>(cpu().l2_bytes) ? "L2" : "beyond L2";
}

// One block of A rows against `panels` panels of weights.
void bench_gemm(benchmark::State& state, const GemmRow& row, size_t panels, size_t k) {
  const size_t nc = panels * row.nr;
  const Floats a(row.mr * k), w(nc * (k + 1)), c(row.mr * nc);
  const auto macs = static_cast<double>(row.mr * nc * k);
  const double bytes = 4.0 * static_cast<double>(row.mr * k + nc * (k + 1) + row.mr * nc);
  state.SetLabel(residence(bytes));
  measure(state, {2 * macs, bytes}, row.isa, 1, [&] {
    row.run(row.mr, nc, k * sizeof(float), a.data(), k * sizeof(float), w.data(), c.data(), nc * sizeof(float),
            &no_clamp);
  });
}

void add_gemm() {
  for (const GemmRow& row : gemm_rows()) {
    static constexpr size_t shapes[][2] = {{1, 64}, {1, 128}, {1, 256}, {2, 256}, {4, 512}, {4, 1024}};
    for (const auto& shape : shapes) {
      const size_t panels = shape[0], k = shape[1];
      add(row, join({row.mr, panels * row.nr, k}),
          [&row, panels, k](benchmark::State& state) { bench_gemm(state, row, panels, k); });
    }
  }
}

// Weights of which some are zero, in random places, those of all channels of a block together.
struct SparseMatrix {
  SparseMatrix(size_t outputs, size_t depth, size_t block, double zeros) : values(outputs * depth) {
    std::mt19937 random(1);
    for (size_t n = 0; n < outputs; n += block) {
      for (size_t k = 0; k < depth; ++k) {
        const bool zero = static_cast<double>(random()) < zeros * 0x1p32;
        for (size_t i = n; zero && i < n + block; ++i) values.data()[i * depth + k] = 0;
        nonzeros += zero ? 0 : block;
      }
    }
  }
  Floats values;
  size_t nonzeros = 0;
};

struct SparseShape {
  size_t outputs, depth;
  double zeros;
};

// One tile of pixels against all weights, some k and some output channels at a time, as the operator does it.
void bench_spmm(benchmark::State& state, const SpmmRow& row, const SparseShape& shape) {
  const SparseMatrix matrix(shape.outputs, shape.depth, row.block, shape.zeros);
  PackKey key = {sparse_packing(row), row.block, {1, shape.outputs, shape.depth, {1, 1}}, {}, {}, 0};
  key.depth = sparse_depth(row, row.pixels, shape.depth, 1 - shape.zeros);
  qn_weights_init(&key.weights);
  key.weights.data = matrix.values.data();
  key.bias.resize(shape.outputs);
  const auto packed = pack_sparse(key);
  const auto& w = static_cast<const SparseWeights&>(*packed);
  const size_t stride = row.pixels * sizeof(float), a_bytes = w.depth * stride;
  const size_t c_bytes = sparse_channels * stride;
  const bool one_chunk = w.chunks == 1;  // then the sums of a block of channels are complete at once
  const Floats a(w.chunks * a_bytes / sizeof(float)), c((one_chunk ? 1 : w.blocks) * c_bytes / sizeof(float));
  const auto bytes = static_cast<double>(w.chunks * a_bytes + (one_chunk ? 1 : w.blocks) * c_bytes + w.data.size());
  state.SetLabel(residence(bytes));
  measure(state, {2.0 * static_cast<double>(matrix.nonzeros * row.pixels), bytes}, row.isa, 1, [&] {
    for (size_t chunk = 0; chunk < w.chunks; ++chunk) {
      for (size_t block = 0; block < w.blocks; ++block) {
        multiply_sparse(row, w, 0, chunk, block, row.pixels, reinterpret_cast<const char*>(a.data()) + chunk * a_bytes,
                        stride, reinterpret_cast<char*>(c.data()) + (one_chunk ? 0 : block * c_bytes), stride,
                        no_clamp);
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
      add(row, text(join({row.pixels, shape.outputs, shape.depth}), "/zeros:", shape.zeros),
          [&row, &shape](benchmark::State& state) { bench_spmm(state, row, shape); });
    }
  }
}

// Neighbouring output pixels of a row of an image with kernel 3x3 and stride 1.
void bench_igemm(benchmark::State& state, const IgemmRow& row, size_t panels, size_t channels) {
  constexpr size_t kernel = 3;
  const size_t nc = panels * row.nr, taps = kernel * kernel, image_width = row.mr + kernel - 1;
  const Floats a(kernel * image_width * channels), zero(channels), w(nc * (taps * channels + 1)), c(row.mr * nc);
  std::vector<int32_t> offsets(taps * row.mr);
  for (size_t t = 0; t < taps; ++t) {
    for (size_t m = 0; m < row.mr; ++m) {
      offsets[t * row.mr + m] =
          static_cast<int32_t>((t / kernel * image_width + t % kernel + m) * channels * sizeof(float));
    }
  }
  const auto macs = static_cast<double>(row.mr * nc * taps * channels);
  const double bytes = 4.0 * static_cast<double>(kernel * image_width * channels + nc * (taps * channels + 1) +
                                                 row.mr * nc + offsets.size());
  state.SetLabel(residence(bytes));
  measure(state, {2 * macs, bytes}, row.isa, 1, [&] {
    row.run(row.mr, nc, channels * sizeof(float), taps, offsets.data(), a.data(), zero.data(), w.data(), c.data(),
            nc * sizeof(float), &no_clamp);
  });
}

void add_igemm() {
  for (const IgemmRow& row : igemm_rows()) {
    static constexpr size_t shapes[][2] = {{1, 16}, {1, 64}, {2, 64}, {2, 128}};
    for (const auto& shape : shapes) {
      const size_t panels = shape[0], channels = shape[1];
      add(row, join({row.mr, panels * row.nr, 9, channels}),
          [&row, panels, channels](benchmark::State& state) { bench_igemm(state, row, panels, channels); });
    }
  }
}

// The offset tables of `rows` rows of output pixels, taps column by column, and the image below them.
struct Window {
  Window(size_t kernel, size_t stride, size_t pixels, size_t channels, size_t rows = 1)
      : height((rows - 1) * stride + kernel),
        step(stride * height * sizeof(int32_t)),
        columns((pixels - 1) * stride + kernel),
        a(height * columns * channels) {
    for (size_t x = 0; x < columns; ++x) {
      for (size_t y = 0; y < height; ++y) {
        offsets.push_back(static_cast<int32_t>((y * columns + x) * channels * sizeof(float)));
      }
    }
  }
  size_t height, step, columns;
  Floats a;
  std::vector<int32_t> offsets;
};

void bench_dwconv(benchmark::State& state, const DwconvRow& row, size_t pixels, size_t kernel, size_t channels) {
  const size_t taps = kernel * kernel, panels = (channels + row.nr - 1) / row.nr;
  const Window window(kernel, 1, pixels, channels);
  const Floats zero(channels), w(panels * row.nr * (taps + 1)), c(pixels * channels);
  const auto macs = static_cast<double>(pixels * taps * channels);
  const double bytes =
      4.0 * static_cast<double>(kernel * window.columns * channels + panels * row.nr * (taps + 1) + pixels * channels);
  state.SetLabel(residence(bytes));
  measure(state, {2 * macs, bytes}, row.isa, 1, [&] {
    row.run(channels, pixels, taps, window.offsets.data(), window.step, window.a.data(), zero.data(), w.data(),
            c.data(), channels * sizeof(float), &no_clamp);
  });
}

void bench_dwconv_tile(benchmark::State& state, const DwconvTileRow& row, size_t pixels, size_t channels) {
  const size_t taps = row.kernel * row.kernel, panels = (channels + row.nr - 1) / row.nr;
  const Window window(row.kernel, row.stride, pixels, channels, row.rows);
  const Floats w(panels * row.nr * (taps + 1)), c(row.rows * pixels * channels);
  const auto macs = static_cast<double>(row.rows * pixels * taps * channels);
  const double bytes = 4.0 * static_cast<double>(window.height * window.columns * channels +
                                                 panels * row.nr * (taps + 1) + row.rows * pixels * channels);
  state.SetLabel(residence(bytes));
  measure(state, {2 * macs, bytes}, row.isa, 1, [&] {
    const size_t c_stride = channels * sizeof(float);
    row.run(channels, pixels, row.rows, window.offsets.data(), window.a.data(), w.data(), c.data(), pixels * c_stride,
            c_stride, &no_clamp);
  });
}

void add_dwconv() {
  static constexpr size_t shapes[][2] = {{56, 64}, {28, 128}, {28, 144}, {14, 512}, {7, 960}};  // pixels, channels
  for (const DwconvTileRow& row : dwconv_tile_rows()) {
    for (const auto& shape : shapes) {
      const size_t pixels = shape[0], channels = shape[1];
      add(row, join({row.rows, pixels, row.kernel * row.kernel, channels}),
          [&row, pixels, channels](benchmark::State& state) { bench_dwconv_tile(state, row, pixels, channels); });
    }
  }
  for (const DwconvRow& row : dwconv_rows()) {
    for (const size_t kernel : {3, 5, 7}) {
      for (const auto& shape : shapes) {
        const size_t pixels = shape[0], channels = shape[1];
        add(row, join({pixels, kernel * kernel, channels}), [&row, pixels, kernel, channels](benchmark::State& state) {
          bench_dwconv(state, row, pixels, kernel, channels);
        });
      }
    }
  }
}

// One channel of an image of `size` pixels squared between rows of zeros, in blocks.
struct PlaneImage {
  PlaneImage(size_t size, size_t kernel, size_t block)
      : pixels(size * size),
        words(divide_up(pixels, size_t{16})),
        a((2 * kernel * size + pixels) + 256),
        w(kernel * kernel + 1),
        c(round_up(pixels, block)),
        masks(kernel * words) {
    const size_t edge = kernel / 2;
    for (size_t x = 0; x < kernel; ++x) {
      for (size_t y = 0; y < kernel; ++y) offsets.push_back(static_cast<int32_t>((y * size + x + 64 - edge) * 4));
      for (size_t p = 0; p < pixels; ++p) {
        const bool counts = p % size + x >= edge && p % size + x < size + edge;
        if (counts) masks[x * words + p / 16] = static_cast<uint16_t>(masks[x * words + p / 16] | 1u << p % 16);
      }
    }
  }
  size_t pixels, words;
  Floats a, w, c;
  std::vector<int32_t> offsets;
  std::vector<uint16_t> masks;
};

void bench_dwconv_plane(benchmark::State& state, const DwconvPlaneRow& row, size_t size, size_t kernel) {
  const PlaneImage image(size, kernel, row.block);
  const auto pixels = static_cast<double>(image.pixels), taps = static_cast<double>(kernel * kernel);
  state.SetLabel(residence(8 * pixels));
  measure(state, {2 * pixels * taps, 8 * pixels}, row.isa, 1, [&] {
    row.run(image.pixels, kernel, kernel, image.offsets.data(), image.masks.data(), image.words * 2, image.a.data(),
            image.w.data(), image.c.data(), row.block * sizeof(float), &no_clamp);
  });
}

void bench_dwconv_image(benchmark::State& state, const DwconvImageRow& row, size_t size) {
  const Floats a((2 * size + 1) * 2 * size + 64), w(10), c(size * size + 64);
  const auto pixels = static_cast<double>(size * size);
  state.SetLabel(residence(20 * pixels));
  measure(state, {18 * pixels, 20 * pixels}, row.isa, 1, [&] {
    row.run(size, size, a.data(), 2 * size * sizeof(float), w.data(), c.data(), size * sizeof(float), &no_clamp);
  });
}

// An element counts as an operation.
void bench_unblock(benchmark::State& state, const UnblockRow& row, size_t size) {
  constexpr size_t channels = 16;
  const size_t pixels = size * size;
  const Floats a(round_up(pixels, row.block) * channels), d(round_up(pixels, row.block));
  const auto n = static_cast<double>(pixels);
  state.SetLabel(residence(8 * n));
  measure(state, {n, 8 * n}, row.isa, 1, [&] {
    row.run(pixels, a.data(), channels * row.block * sizeof(float), d.data(), row.block * sizeof(float));
  });
}

void bench_split(benchmark::State& state, const SplitRow& row, size_t size, size_t step) {
  const size_t columns = divide_up(size, step), pixels = size * size;
  const Floats a(pixels), d(step * size * columns);
  const auto n = static_cast<double>(pixels);
  state.SetLabel(residence(8 * n));
  measure(state, {n, 8 * n}, row.isa, 1, [&] {
    row.run(size, size, step, step, a.data(), size * sizeof(float), d.data(), columns * sizeof(float),
            size * columns * sizeof(float));
  });
}

void add_planes() {
  for (const size_t size : {112, 56, 28, 14, 7}) {
    for (const DwconvPlaneRow& row : dwconv_plane_rows()) {
      for (const size_t kernel : {3, 5}) {
        if (row.kernel != 0 && row.kernel != kernel) continue;
        add(row, join({size, size, kernel * kernel}),
            [&row, size, kernel](benchmark::State& state) { bench_dwconv_plane(state, row, size, kernel); });
      }
    }
    for (const DwconvImageRow& row : dwconv_image_rows()) {
      add(row, join({size, size, 9}), [&row, size](benchmark::State& state) { bench_dwconv_image(state, row, size); });
    }
    for (const UnblockRow& row : unblock_rows()) {
      add(row, join({size, size}), [&row, size](benchmark::State& state) { bench_unblock(state, row, size); });
    }
    for (const SplitRow& row : split_rows()) {
      for (const size_t step : {1, 2}) {
        add(row, join({size, size, step}),
            [&row, size, step](benchmark::State& state) { bench_split(state, row, size, step); });
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
  const Window window(shape.kernel, shape.stride, shape.pixels, shape.channels);
  const size_t taps = shape.kernel * shape.kernel, outputs = shape.pixels * shape.channels;
  const Floats scale(shape.pixels), c(outputs);
  // A comparison or addition per tap, the clamp, and for the average the scale.
  const auto ops = static_cast<double>(outputs * (taps + 2 + (row.kind == PoolKind::average ? 1 : 0)));
  const double bytes = 4.0 * static_cast<double>(shape.kernel * window.columns * shape.channels + outputs);
  state.SetLabel(residence(bytes));
  measure(state, {ops, bytes}, row.isa, 1, [&] {
    row.run(shape.channels, shape.pixels, taps, window.offsets.data(), window.step, window.a.data(), scale.data(),
            c.data(), shape.channels * sizeof(float), &no_clamp);
  });
}

void add_pool() {
  for (const PoolRow& row : pool_rows()) {
    for (const PoolShape& shape : pool_shapes) {
      add(row, join({shape.pixels, shape.kernel * shape.kernel, shape.channels}),
          [&row, &shape](benchmark::State& state) { bench_pool(state, row, shape); });
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
  const size_t n = row.inputs(), plane = winograd_tiles * channels + 16;
  const Floats a(n * n * channels), zero(channels), v(row.points() * plane);
  const qn_winograd_tile tile = {row.outputs, row.outputs, 0, n, 0, n};
  const double ops = ops_of(row).input * static_cast<double>(2 * n * channels);
  const double bytes = 8.0 * static_cast<double>(row.points() * channels);
  state.SetLabel(residence(bytes));
  const size_t pixel = channels * sizeof(float);
  measure(state, {ops, bytes}, row.isa, 1, [&] {
    row.input(channels, a.data(), n * pixel, pixel, &tile, zero.data(), v.data(), plane * sizeof(float));
  });
}

void bench_winograd_output(benchmark::State& state, const WinogradRow& row, size_t channels) {
  const size_t n = row.inputs(), m = row.outputs, plane = winograd_tiles * channels + 16;
  const Floats products(row.points() * plane), bias(channels), c(m * m * channels);
  const double ops = (ops_of(row).output * static_cast<double>(n + m) + 3 * static_cast<double>(m * m)) *
                     static_cast<double>(channels);
  const double bytes = 4.0 * static_cast<double>((row.points() + m * m) * channels);
  state.SetLabel(residence(bytes));
  const size_t pixel = channels * sizeof(float);
  measure(state, {ops, bytes}, row.isa, 1, [&] {
    row.output(channels, products.data(), plane * sizeof(float), bias.data(), c.data(), m * pixel, pixel, m, m,
               &no_clamp);
  });
}

void add_winograd() {
  for (const WinogradRow& row : winograd_rows()) {
    for (const size_t channels : {32, 128}) {
      const std::string shape = join({row.inputs(), row.inputs(), channels});
      add(row, "_input", shape,
          [&row, channels](benchmark::State& state) { bench_winograd_input(state, row, channels); });
      add(row, "_output", shape,
          [&row, channels](benchmark::State& state) { bench_winograd_output(state, row, channels); });
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
  }
  return 0;
}

constexpr size_t vector_sizes[] = {2048, 14 * 14 * 256};  // L1, L2

void bench_unary(benchmark::State& state, const UnaryRow& row, size_t n) {
  const Floats x(n), y(n);
  const qn_unary_f32 p = {0, 6, 2};
  const double bytes = 8.0 * static_cast<double>(n);
  state.SetLabel(residence(bytes));
  measure(state, {ops_of(row.kind) * static_cast<double>(n), bytes}, row.isa, 1,
          [&] { row.run(n, x.data(), y.data(), &p); });
}

void bench_binary(benchmark::State& state, const BinaryRow& row, size_t n) {
  const bool scalar = row.kind >= BinaryKind::addc;
  const Floats a(n), b(n), y(n);
  const double bytes = (scalar ? 8.0 : 12.0) * static_cast<double>(n);
  state.SetLabel(residence(bytes));
  measure(state, {3.0 * static_cast<double>(n), bytes}, row.isa, 1,
          [&] { row.run(n, a.data(), b.data(), y.data(), &no_clamp); });
}

void bench_channel(benchmark::State& state, const ChannelRow& row, size_t rows, size_t channels) {
  const size_t parameters = std::max(rows, channels);
  const Floats x(rows * channels), y(rows * channels), scale(parameters), bias(parameters);
  const auto n = static_cast<double>(rows * channels);
  state.SetLabel(residence(8 * n));
  measure(state, {(row.kind == ChannelKind::scale ? 4 : 2) * n, 8 * n}, row.isa, 1, [&] {
    const size_t stride = channels * sizeof(float);
    row.run(rows, channels, x.data(), stride, scale.data(), bias.data(), y.data(), stride, &no_clamp);
  });
}

void bench_reduce(benchmark::State& state, const ReduceRow& row, size_t n) {
  const Floats x(n), y(n);
  const bool max = row.kind == ReduceKind::max;
  const double bytes = (max ? 4.0 : 8.0) * static_cast<double>(n);
  state.SetLabel(residence(bytes));
  measure(state, {(max ? 1.0 : 25.0) * static_cast<double>(n), bytes}, row.isa, 1, [&] {
    float result = row.run(n, x.data(), y.data(), 1);
    benchmark::DoNotOptimize(result);
  });
}

template <class Table>
void add_vector(const Table& rows, void (*bench)(benchmark::State&, decltype(*rows.data())&, size_t)) {
  for (const auto& row : rows) {
    for (const size_t n : vector_sizes) {
      add(row, std::to_string(n), [&row, bench, n](benchmark::State& state) { bench(state, row, n); });
    }
  }
}

void add_channel() {
  static constexpr size_t shapes[][2] = {{32, 64}, {3136, 24}, {196, 256}};
  for (const ChannelRow& row : channel_rows()) {
    for (const auto& shape : shapes) {
      const size_t rows = shape[0], channels = shape[1];
      add(row, join({rows, channels}),
          [&row, rows, channels](benchmark::State& state) { bench_channel(state, row, rows, channels); });
    }
  }
}

// Rows that lie `columns` apart, as the pixels of an image with that many channels. An element counts as an operation.
void bench_transpose(benchmark::State& state, const TransposeRow& row, size_t rows, size_t columns) {
  const Floats a(rows * columns), c(rows * columns);
  std::vector<const void*> addresses;
  for (size_t i = 0; i < rows; ++i) addresses.push_back(a.data() + i * columns);
  const auto n = static_cast<double>(rows * columns);
  state.SetLabel(residence(8 * n));
  measure(state, {n, 8 * n}, row.isa, 1,
          [&] { row.run(rows, columns, addresses.data(), c.data(), rows * sizeof(float)); });
}

void add_transpose() {
  static constexpr size_t shapes[][2] = {{64, 32}, {32, 64}, {64, 128}, {64, 512}, {49, 1000}};
  for (const TransposeRow& row : transpose_rows()) {
    for (const auto& shape : shapes) {
      const size_t rows = shape[0], columns = shape[1];
      add(row, join({rows, columns}),
          [&row, rows, columns](benchmark::State& state) { bench_transpose(state, row, rows, columns); });
    }
  }
}

}  // namespace

void register_kernels() {
  add_gemm();
  add_spmm();
  add_igemm();
  add_dwconv();
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
