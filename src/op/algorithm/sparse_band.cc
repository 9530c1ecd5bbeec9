// The sparse algorithm on one band of the image at a time; see sparse_band.h.
#include "op/pixels/sparse_band.h"
#include "base/math.h"
#include "base/tensor.h"
#include "kernel/select.h"
#include "kernel/transpose.h"
#include "op/pixels/gather_table.h"
#include "op/pixels/tile_input.h"
#include "op/weights/pack_sparse.h"

namespace quern {
namespace {

constexpr size_t most_transposed = 64;  // pixels transposed at a time, so that their cache lines stay in the L1 cache

class SparseBandPlan final : public qn_plan {
 public:
  SparseBandPlan(const ConvRequest& conv, const SpmmRow& row, const SparseBand& band)
      : row_(row),
        transpose_(best(transpose_rows(), KernelType::f32)),
        window_(conv.window),
        band_(band),
        shape_(conv.weights.shape()),
        packed_(conv.weights.pack(sparse_packing(row_), sparse_block(row_), shape_.depth(), places(conv.window, band),
                                  conv.input_zero())),
        weights_(static_cast<const SparseWeights&>(*packed_)),
        kernel_epilogue_(row_.type, sparse_channels, {}, conv.numbers()),
        epilogue_(conv.request),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        zero_(row_.type, shape_.in, static_cast<int8_t>(conv.input_zero())) {
    bands_ = divide_up(window_.pixels(), band_.pixels);
    if (is_blocked(in_)) make_input_tables();
    if (is_blocked(out_)) make_output_tables();
    divide(conv.request.options.tasks);
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* const scratch = run.workspace + index * slot;
    Watch watch(run);
    for (size_t unit = tasks_.begin(index); unit < tasks_.end(index); ++unit) {
      const size_t n_chunk = unit % blocks_.chunks, rest = unit / blocks_.chunks;
      const size_t band = rest % bands_, product = rest / bands_;
      const size_t group = product % shape_.groups, image = product / shape_.groups;
      const char* const a = run.input(0) + image * in_.stride[0] + group * shape_.in * channel_stride(row_, in_);
      char* const c = run.output + image * out_.stride[0] + group * shape_.out * channel_stride(row_, out_);
      lay_out(a, band, scratch);
      const size_t together = finished_blocks(row_);
      for (size_t block = blocks_.begin(n_chunk); block < blocks_.end(n_chunk); block += together) {
        const size_t last = std::min(block + together, blocks_.end(n_chunk)), n = block * sparse_channels;
        for (size_t b = block; b < last; ++b) {
          if (!multiply(group, band, b, (b - block) * sparse_channels, scratch, &watch)) return;
        }
        finish(run, c + n * channel_stride(row_, out_), band, std::min(last * sparse_channels, shape_.out) - n,
               scratch);
      }
    }
  }

 private:
  static SparsePlaces places(const Window& window, const SparseBand& band) {
    return {band.channel, window.h.dilation * band.pitch, window.w.dilation};
  }

  size_t first_pixel(size_t band) const { return band * band_.pixels; }
  size_t last_pixel(size_t band) const { return std::min(first_pixel(band) + band_.pixels, window_.pixels()) - 1; }
  size_t place(size_t pixel) const { return band_.place(window_, pixel); }
  // The number of places of a band's outputs, rounded up to whole vectors.
  size_t width(size_t band) const {
    return round_up(place(last_pixel(band)) - place(first_pixel(band)) + 1, row_.lanes);
  }
  char* sums(char* scratch) const { return scratch + a_bytes_; }
  size_t sums_stride() const { return band_.width * sizeof(float); }

  void divide(size_t tasks) {
    blocks_ = {weights_.blocks, 1};
    const size_t products = out_.shape[0] * shape_.groups * bands_, wanted = wanted_chunks(tasks);
    blocks_.chunks = std::min(divide_up(wanted, products), blocks_.count);
    const size_t units = products * blocks_.chunks;
    tasks_ = {units, std::min(units, wanted)};
    phases = {tasks_.chunks};
    a_bytes_ = round_up(divide_up(shape_.in, row_.inputs) * band_.channel * sizeof(float), cache_line);
    const size_t channels = finished_blocks(row_) * sparse_channels;
    sums_end_ = a_bytes_ + round_up(channels * sums_stride(), cache_line);
    slot = sums_end_ + epilogue_.scratch_bytes(channels * std::max(most_transposed, qn_pixel_block()));
  }

  // ---- input

  // Finds the input pixel at a place; places are counted from the first one of the image. Returns false for padding.
  bool pixel_at(size_t place, size_t* y, size_t* x) const {
    const Axis &h = window_.h, &w = window_.w;
    *y = place / band_.pitch - h.before, *x = place % band_.pitch - w.before;  // below 0 they wrap to large numbers
    return *y < h.in && *x < w.in;
  }

  void make_input_tables() {
    for (size_t band = 0; band < bands_; ++band) {
      in_tables_.begin();
      for (size_t p = 0; p < band_.channel; ++p) {
        size_t y, x;
        const bool inside = pixel_at(place(first_pixel(band)) + p, &y, &x);
        in_tables_.add(inside ? pixel_offset(in_.stride[1], y * window_.w.in + x) : GatherTables::nowhere);
      }
      in_tables_.end();
    }
  }

  void lay_out(const char* a, size_t band, char* to) const {
    const size_t stride = band_.channel * sizeof(float);
    if (is_blocked(in_)) return in_tables_.run(band, shape_.in, a, in_.stride[2], to, stride);
    const size_t first = place(first_pixel(band)), count = width(band) + band_.span;
    for (size_t begin = 0; begin < count; begin += most_transposed) {
      const void* from[most_transposed];
      const size_t end = std::min(begin + most_transposed, count);
      for (size_t p = begin; p < end; ++p) {
        size_t y, x;
        const bool inside = pixel_at(first + p, &y, &x);
        from[p - begin] = inside ? a + y * in_.stride[1] + x * in_.stride[2] : zero_.data();
      }
      transpose_rows_of(transpose_, end - begin, shape_.in, spmm_bytes(row_) / row_.inputs, from,
                        to + begin * sizeof(float), stride);
    }
  }

  // ---- products

  // The sums go to rows from `row` on. Returns false if the run was cancelled.
  bool multiply(size_t group, size_t band, size_t block, size_t row, char* scratch, Watch* watch) const {
    const size_t vectors = width(band) / row_.lanes;
    const Split tiles = {vectors, divide_up(vectors, row_.pixels / row_.lanes)};
    for (size_t t = 0; t < tiles.chunks; ++t) {
      const size_t begin = tiles.begin(t) * row_.lanes, count = tiles.end(t) * row_.lanes - begin;
      if (watch->stops_here(count * shape_.depth() * sparse_channels)) return false;
      multiply_sparse(row_, weights_, group, 0, block, count, scratch + begin * sizeof(float), sizeof(float),
                      sums(scratch) + row * sums_stride() + begin * sizeof(float), sums_stride(),
                      kernel_epilogue_.at(group, block * sparse_channels));
    }
    return true;
  }

  // ---- output

  // Makes a table for each block of output pixels of all bands.
  void make_output_tables() {
    const size_t block = qn_pixel_block();
    for (size_t begin = 0; begin < window_.pixels(); begin += block) {
      const size_t origin = place(first_pixel(begin / band_.pixels));
      out_tables_.begin();
      for (size_t p = begin; p < std::min(begin + block, window_.pixels()); ++p) {
        out_tables_.add((place(p) - origin) * sizeof(float));
      }
      out_tables_.end();
    }
  }

  // Writes the outputs of some channels of a band. `c` is the output image, from the first of these channels on.
  void finish(const Run& run, char* c, size_t band, size_t channels, char* scratch) const {
    if (is_blocked(out_)) return finish_blocks(run, c, band, channels, scratch);
    const char* const from = sums(scratch);
    const size_t origin = place(first_pixel(band)), width = window_.w.out;
    for (size_t p = first_pixel(band); p <= last_pixel(band);) {
      const size_t y = p / width, x = p % width;
      const size_t count = std::min({width - x, last_pixel(band) + 1 - p, most_transposed});
      char* const to = c + y * out_.stride[1] + x * out_.stride[2];
      const char* const sums = from + (place(p) - origin) * sizeof(float);
      const auto pixels = epilogue_.sums(run, to, out_.stride[2], channels, scratch + sums_end_);
      if (of_bytes(row_)) {
        store_bytes(transpose_, sums, sums_stride(), channels, count, pixels.data, pixels.stride);
      } else {
        const void* rows[sparse_channels];
        for (size_t i = 0; i < channels; ++i) rows[i] = sums + i * sums_stride();
        transpose_.run(channels, count, rows, pixels.data, pixels.stride);
      }
      epilogue_.run(run, pixels, to, count, out_.stride[2], channels);
      p += count;
    }
  }

  void finish_blocks(const Run& run, char* c, size_t band, size_t channels, char* scratch) const {
    const size_t block = qn_pixel_block();
    for (size_t p = first_pixel(band); p <= last_pixel(band); p += block) {
      char* const to = c + p / block * out_.stride[1];
      const auto rows = epilogue_.sums(run, to, out_.stride[2], block, scratch + sums_end_);
      out_tables_.run(p / block, channels, sums(scratch), sums_stride(), rows.data, rows.stride);
      epilogue_.run(run, rows, to, channels, out_.stride[2], std::min(block, last_pixel(band) + 1 - p));
    }
  }

  const SpmmRow& row_;
  const TransposeRow& transpose_;
  Window window_;
  SparseBand band_;
  WeightsShape shape_;
  Packed packed_;
  const SparseWeights& weights_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  qn_tensor in_, out_;
  Padding zero_;      // a pixel
  size_t bands_ = 0;  // bands of an image
  Split blocks_, tasks_;
  size_t a_bytes_ = 0, sums_end_ = 0;                            // scratch: bytes of A, and where the sums end
  GatherTables in_tables_{row_.lanes}, out_tables_{row_.lanes};  // one per band; one per block of pixels
};

}  // namespace

PlanPointer plan_sparse_band(const ConvRequest& conv, const SpmmRow& row, const SparseBand& band) {
  return make_plan<SparseBandPlan>(conv, row, band);
}

}  // namespace quern
