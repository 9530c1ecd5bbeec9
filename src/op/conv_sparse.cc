// sparse: a tile of pixels is transposed, so that each channel's lie side by side, multiplied by the weights that are
// not zero, and transposed back.
#include <limits>
#include <numeric>

#include "base/math.h"
#include "kernel/select.h"
#include "kernel/transpose.h"
#include "op/conv.h"
#include "op/nest.h"
#include "op/pack_sparse.h"

namespace quern {
namespace {

enum { a_operand, c_operand };

constexpr size_t max_pixels = 64;  // of a tile, of any kernel

// Pixels that are transposed back together, where they lie this many bytes apart: few enough that their lines do not
// compete for the same sets of the L1 cache.
size_t stored_pixels(size_t stride) {
  constexpr size_t way_bytes = 4096, ways = 8;
  return ways * way_bytes / std::gcd(stride, way_bytes);
}

class SparsePlan final : public qn_plan {
 public:
  explicit SparsePlan(const ConvPlan& conv)
      : row_(*conv.choice.spmm),
        transpose_(*select(transpose_rows(), nullptr, [](const TransposeRow&) { return true; })),
        packed_(conv.weights.pack(Packing::sparse, row_.block, depth_of_chunks(conv))),
        weights_(static_cast<const SparseWeights&>(*packed_)),
        clamp_(conv.clamp),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        window_(conv.window),
        zero_(shape_.in) {
    if (conv.matrix) {
      find_rows(conv.request);
    } else {
      find_lines(conv.request);
    }
    row_stride_ = static_cast<int64_t>(window_.row_stride);
    pixel_stride_ = static_cast<int64_t>(window_.pixel_stride);
    stored_pixels_ = stored_pixels(c_stride_);
    inside_rows_ = columns_inside(window_.h);
    inside_columns_ = columns_inside(window_.w);
    divide(conv.request.options.tasks);
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* scratch = run.workspace + index * slot;
    for (size_t unit = tasks_.begin(index); unit < tasks_.end(index); ++unit) {
      const size_t n_chunk = unit % blocks_.chunks, rest = unit / blocks_.chunks;
      const size_t m_chunk = rest % tiles_.chunks, product = rest / tiles_.chunks;
      const size_t group = product % shape_.groups;
      const Line line = find_line(run, product / shape_.groups);
      for (size_t t = tiles_.begin(m_chunk); t < tiles_.end(m_chunk); ++t) {
        run_tile(run, line, group, t, blocks_.begin(n_chunk), blocks_.end(n_chunk), scratch);
      }
    }
  }

 private:
  // Pixels at equal distances in the output.
  struct Line {
    const char* a;  // the image, or the first row of a matrix
    char* c;
    size_t first;  // its first pixel: y * width + x
  };

  // The pixels of a tile: where their first tap is, which may lie outside of the image.
  struct Pixels {
    size_t count;
    const char* first[max_pixels];
    int64_t y[max_pixels], x[max_pixels];  // of that tap
    bool inside;                           // all taps of all pixels
  };

  // ---- what there is to do

  static size_t depth_of_chunks(const ConvPlan& conv) {
    const SpmmRow& row = *conv.choice.spmm;
    const qn_tensor& out = conv.request.out;
    size_t pixels = 1;
    for (uint32_t i = 0; i + 1 < out.rank; ++i) pixels *= out.shape[i];
    return sparse_depth(row, pixels, conv.weights.shape().depth(), conv.weights.density().part(row.block));
  }

  void find_rows(const Request& request) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    Nest<2> rows;
    for (uint32_t i = in.rank - 1; i-- > 0;) rows.add(in.shape[i], {in.stride[i], out.stride[i]});
    pixels_ = 1;
    if (rows.rank > 0) {
      pixels_ = rows.loops[0].count;
      window_.pixel_stride = rows.loops[0].stride[a_operand];
      c_stride_ = rows.loops[0].stride[c_operand];
    }
    for (size_t i = 1; i < rows.rank; ++i) lines_.add(rows.loops[i].count, rows.loops[i].stride);
    window_.w.in = window_.w.out = pixels_;
  }

  void find_lines(const Request& request) {
    const qn_tensor &in = request.ins[0], &out = request.out;
    const Rows rows = output_rows(out);
    pixels_ = rows.count;
    c_stride_ = out.stride[2];
    image_stride_ = in.stride[0];
    if (rows.products == 1 && out.stride[0] == rows.count * c_stride_) {  // images join, too
      pixels_ *= out.shape[0];
    } else {
      lines_per_image_ = rows.products;
      lines_.add(rows.products, {0, out.stride[1]});
      lines_.add(out.shape[0], {in.stride[0], out.stride[0]});
    }
  }

  Line find_line(const Run& run, size_t index) const {
    const Cursor<2> at(lines_, index);
    return {run.input(0) + at.offset(a_operand), run.output + at.offset(c_operand), index % lines_per_image_ * pixels_};
  }

  // Units for the threads: tiles of pixels, and where these are few, blocks of channels.
  void divide(size_t tasks) {
    const size_t vectors = divide_up(pixels_, row_.lanes);
    vectors_ = {vectors, divide_up(vectors, row_.pixels / row_.lanes)};
    tiles_ = {vectors_.chunks, 1};
    blocks_ = {weights_.blocks, 1};
    const size_t products = lines_.count() * shape_.groups, wanted = wanted_chunks(tasks);
    tiles_.chunks = std::min(divide_up(wanted, products), tiles_.count);
    blocks_.chunks = std::min(divide_up(wanted, products * tiles_.chunks), blocks_.count);
    const size_t units = products * tiles_.chunks * blocks_.chunks;
    tasks_ = {units, std::min(units, wanted)};
    phases = {tasks_.chunks};

    const size_t width = std::min(row_.pixels, round_up(pixels_, row_.lanes)) * sizeof(float);
    a_bytes_ = round_up((weights_.zero_rows + weights_.depth) * width, cache_line);
    // The sums of all channels if there is another chunk of k to come.
    const size_t together = weights_.chunks > 1 ? divide_up(weights_.blocks, blocks_.chunks) : 1;
    slot = a_bytes_ + together * sparse_channels * width;
  }

  // ---- one tile

  void run_tile(const Run& run, const Line& line, size_t group, size_t tile, size_t begin, size_t end,
                char* scratch) const {
    const size_t m = vectors_.begin(tile) * row_.lanes;
    const size_t count = std::min(vectors_.end(tile) * row_.lanes, pixels_) - m;
    // Rows are aligned, unlike those of spmm_width(). A single pixel is a column.
    const bool single = count == 1;
    const size_t stride = (single ? 1 : round_up(count, row_.lanes)) * sizeof(float);
    Pixels pixels;
    find_pixels(line, group, m, count, &pixels);
    char* const sums = scratch + a_bytes_;
    char* const out = line.c + m * c_stride_ + group * shape_.out * sizeof(float);
    const size_t zero_bytes = weights_.zero_rows * stride;
    std::memset(scratch, 0, zero_bytes);
    for (size_t chunk = 0; chunk < weights_.chunks; ++chunk) {
      const bool as_it_is = single && shape_.taps() == 1 && zero_bytes == 0;
      const char* a = as_it_is ? pixels.first[0] + chunk * weights_.depth * sizeof(float) : scratch;
      if (!as_it_is) transpose(pixels, chunk * weights_.depth, scratch + zero_bytes, stride);
      for (size_t block = begin; block < end; ++block) {
        const size_t n = block * sparse_channels, channels = std::min(sparse_channels, shape_.out - n);
        char* const c = out + n * sizeof(float);
        if (single && channels % row_.block == 0) {
          multiply(group, chunk, block, count, a, c, stride);
        } else {
          char* const c_tile = weights_.chunks == 1 ? sums : sums + (block - begin) * sparse_channels * stride;
          multiply(group, chunk, block, count, a, c_tile, stride);
          if (chunk + 1 < weights_.chunks) continue;
          transpose_back(c_tile, stride, channels, count, c);
        }
        if (chunk + 1 == weights_.chunks) epilogue_.run(run, c, count, c_stride_, channels);
      }
    }
  }

  void find_pixels(const Line& line, size_t group, size_t m, size_t count, Pixels* pixels) const {
    const size_t width = window_.w.out, image_pixels = window_.h.out * width;
    size_t at = line.first + m, image = at / image_pixels;
    at %= image_pixels;
    size_t y = at / width, x = at % width;
    const char* a = line.a + image * image_stride_ + group * shape_.in * sizeof(float);
    pixels->count = count;
    pixels->inside = true;
    for (size_t i = 0; i < count;) {
      const size_t end = std::min(count, i + width - x);  // of this row
      const bool inside = inside_rows_.has(y) && x >= inside_columns_.begin && x + end - i <= inside_columns_.end;
      pixels->inside = pixels->inside && inside;
      const int64_t first_y = window_.h.at(y, 0);
      int64_t first_x = window_.w.at(x, 0);
      const char* row = a + first_y * row_stride_;
      for (; i < end; ++i, first_x += static_cast<int64_t>(window_.w.stride)) {
        pixels->first[i] = row + first_x * pixel_stride_;
        pixels->y[i] = first_y;
        pixels->x[i] = first_x;
      }
      x = 0;
      if (++y < window_.h.out) continue;
      y = 0;
      a += image_stride_;
    }
  }

  // A of one chunk of k: rows of pixels.
  void transpose(const Pixels& pixels, size_t begin, char* a, size_t stride) const {
    const size_t end = std::min(begin + weights_.depth, shape_.depth());
    for (size_t k = begin; k < end;) {
      const size_t tap = k / shape_.in, i = k % shape_.in, channels = std::min(shape_.in - i, end - k);
      const void* rows[max_pixels];
      find_tap(pixels, tap, i * sizeof(float), rows);
      transpose_.run(pixels.count, channels, rows, a, stride);
      a += channels * stride;
      k += channels;
    }
  }

  // Where a tap of each pixel is, and some bytes beyond.
  void find_tap(const Pixels& pixels, size_t tap, size_t bytes, const void** rows) const {
    const auto y = static_cast<int64_t>(tap / window_.w.kernel * window_.h.dilation);
    const auto x = static_cast<int64_t>(tap % window_.w.kernel * window_.w.dilation);
    const int64_t distance = y * row_stride_ + x * pixel_stride_ + static_cast<int64_t>(bytes);
    if (pixels.inside) {
      for (size_t p = 0; p < pixels.count; ++p) rows[p] = pixels.first[p] + distance;
      return;
    }
    const char* const zero = reinterpret_cast<const char*>(zero_.data());
    for (size_t p = 0; p < pixels.count; ++p) {  // without a branch: where the edges are, no processor foresees
      const bool in_rows = static_cast<uint64_t>(pixels.y[p] + y) < window_.h.in;
      const bool in_columns = static_cast<uint64_t>(pixels.x[p] + x) < window_.w.in;
      rows[p] = (in_rows & in_columns) != 0 ? pixels.first[p] + distance : zero;
    }
  }

  void multiply(size_t group, size_t chunk, size_t block, size_t count, const char* a, char* c, size_t stride) const {
    multiply_sparse(row_, weights_, group, chunk, block, count, a, stride, c, stride, clamp_);
  }

  void transpose_back(const char* sums, size_t stride, size_t channels, size_t count, char* c) const {
    for (size_t p = 0; p < count; p += stored_pixels_) {
      const void* rows[sparse_channels];
      for (size_t i = 0; i < channels; ++i) rows[i] = sums + i * stride + p * sizeof(float);
      transpose_.run(channels, std::min(stored_pixels_, count - p), rows, c + p * c_stride_, c_stride_);
    }
  }

  const SpmmRow& row_;
  const TransposeRow& transpose_;
  Packed packed_;
  const SparseWeights& weights_;
  qn_minmax_f32 clamp_;
  Epilogue epilogue_;
  WeightsShape shape_;
  Window window_;
  int64_t row_stride_, pixel_stride_;  // of the window, with a sign
  Span inside_rows_, inside_columns_;  // outputs that need no padding
  Vector<float> zero_;                 // a pixel of padding
  Nest<2> lines_;
  size_t lines_per_image_ = 1;
  size_t pixels_ = 1;  // of a line
  size_t image_stride_ = 0, c_stride_ = 0;
  Split vectors_;  // of pixels, into tiles
  Split tiles_, blocks_, tasks_;
  size_t a_bytes_ = 0;
  size_t stored_pixels_ = 1;  // at a time
};

}  // namespace

std::unique_ptr<qn_plan> plan_sparse(const ConvPlan& conv) { return std::make_unique<SparsePlan>(conv); }

}  // namespace quern
