#include "op/algorithm/direct_band.h"

#include <cstring>
#include <numeric>

#include "base/cpu.h"
#include "base/math.h"
#include "op/algorithm/cost.h"
#include "op/core/tiling.h"

namespace quern {
namespace {

// ---- what does not depend on the image

// The taps as a kernel sees them. Those of a kernel row lie side by side in the copy if there is no dilation; then they
// are one run. Kernels take a run in pieces of one size.
struct TapRuns {
  size_t count, in_row;  // all runs, and those of a kernel row
  size_t bytes, piece;   // of a run, of a piece

  TapRuns(const Window& window, size_t in, const TapgemmRow& row)
      : in_row(window.w.dilation == 1 ? 1 : window.w.kernel),
        bytes(round_up(window.w.kernel / in_row * in, size_t{row.panel.kr})) {
    count = window.h.kernel * in_row;
    piece = std::min(most_tap_bytes(row), bytes);
    while (bytes % piece != 0) piece -= row.panel.kr;
  }
  size_t pieces() const { return count * (bytes / piece); }
  Packing packing() const { return in_row == 1 ? Packing::row_panels : Packing::tap_panels; }
};

// How rows lie in the copy, in pixels. The padding to the right of a row is that to the left of the next one.
struct CopiedRow {
  size_t used;   // pixels of the image; windows may leave out the last ones
  size_t pitch;  // from one row to the next
  size_t line;   // places from one row of outputs to the next

  explicit CopiedRow(const Axis& w) {
    const int64_t end = w.at(w.out - 1, w.kernel - 1) + 1;  // behind the last pixel that a window sees
    used = static_cast<size_t>(std::clamp<int64_t>(end, 0, static_cast<int64_t>(w.in)));
    const size_t after = end > static_cast<int64_t>(used) ? static_cast<size_t>(end) - used : 0;
    pitch = round_up(std::max(used + std::max(w.before, after), w.stride * w.out), w.stride);
    line = pitch / w.stride;
  }
};

// Rows of the image whose distance is a multiple of the stride are neighbours in the copy, so that all rows of outputs lie
// at the same distance. The rows that a row of taps sees are a set; rows of taps that see the same rows share it.
struct RowSets {
  const Axis& h;
  size_t count;
  size_t behind;  // the most rows between the first one of a set and the first one that a row of taps sees

  explicit RowSets(const Axis& axis)
      : h(axis),
        count(std::min(h.kernel, h.stride / std::gcd(h.stride, h.dilation))),
        behind((h.kernel - 1) * h.dilation / h.stride) {}
  // The first row of a set, counted from the first one that the first window sees.
  size_t first(size_t set) const { return set * h.dilation % h.stride; }
  // For a row of taps: its set, and the first row there.
  size_t of(size_t k) const { return k % count; }
  size_t begin(size_t k) const { return k * h.dilation / h.stride; }
};

// Bytes of the copy for so many rows of outputs.
double copied_bytes(const Window& window, size_t in, size_t lines) {
  const RowSets sets(window.h);
  return static_cast<double>(sets.count * in) * static_cast<double>(lines + sets.behind) *
         static_cast<double>(CopiedRow(window.w).pitch);
}

// Cycles to find a row of C by its address (measured on Golden Cove).
constexpr double place_cycles = 5;

// About so many places are multiplied at a time.
constexpr size_t most_batch = 256;

// About so many bytes are copied at a time, so that they stay in the L2 cache beside panels.
size_t band_bytes() { return cpu().l2_bytes / 8; }

// The most rows of outputs whose copy is of that size; at least one.
size_t lines_of_band(const Window& window, size_t in) {
  const RowSets sets(window.h);
  const size_t rows = band_bytes() / std::max<size_t>(sets.count * in * CopiedRow(window.w).pitch, 1);
  return rows > sets.behind ? rows - sets.behind : 1;
}

// ---- plan

class BandPlan final : public qn_plan {
 public:
  BandPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<TapgemmRow>()),
        shape_(conv.weights.shape()),
        window_(conv.window),
        runs_(window_, shape_.in, row_),
        copied_(window_.w),
        sets_(window_.h),
        packed_(conv.pack(runs_.packing(), row_)),
        kernel_epilogue_(row_, conv.numbers()),
        epilogue_(conv.request),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        flip_(has_plus_128 && row_.panel.plus_128 ? 0x80 : 0),
        padding_(static_cast<uint8_t>(conv.input_zero()) ^ flip_),
        batch_(most_batch / row_.mr * row_.mr) {
    const size_t tasks = conv.request.options.tasks, products = out_.shape[0] * shape_.groups;
    const size_t shared = std::max<size_t>(products * window_.h.out / wanted_chunks(tasks), 1);
    const size_t together = panels_of_line(row_.type, row_.nr, tasks);
    tiling_ = Tiling({.count = products,
                      .m = window_.h.out,
                      .n = shape_.out,
                      .mr = std::min(lines_of_band(window_, shape_.in), shared),
                      .nr = row_.nr * together,
                      .pass_rows = pass_rows(row_) / copied_.line,
                      .row_bytes = runs_.pieces() * runs_.piece * copied_.line,
                      .panel_bytes = packed_->panel_bytes * together},
                     tasks);
    phases = {tiling_.tasks()};
    add_offsets();
    addresses_ = round_up(sets_.count * set_bytes() + window_.w.before * shape_.in + cache_line, cache_line);
    unwanted_ = addresses_ + round_up(batch_ * sizeof(void*), cache_line);
    sums_ = unwanted_ + round_up(tiling_.channels(), cache_line);
    slot = sums_ + epilogue_.scratch_bytes(batch_ * tiling_.channels());
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* const scratch = run.workspace + index * slot;
    tiling_.run(run.parallel, index, [&](size_t product, size_t begin, size_t end, size_t n, size_t channels) {
      const size_t group = product % shape_.groups, image = product / shape_.groups;
      const char* const a = run.input(0) + image * in_.stride[0] + group * shape_.in;
      const Block block = {run.output + image * out_.stride[0] + group * shape_.out + n, channels,
                           packed_->panels(group) + n / row_.nr * packed_->panel_bytes, kernel_epilogue_.at(group, n)};
      tiling_.tiles(begin, end, [&](size_t y, size_t lines) {
        copy_band(a, y, lines, scratch);
        const size_t places = (lines - 1) * copied_.line + window_.w.out, unit = batch_ == row_.mr ? 1 : row_.mr;
        const size_t each = round_up(divide_up(places, divide_up(places, batch_)), unit);
        for (size_t m = 0; m < places; m += each) multiply(run, block, y, m, std::min(each, places - m), scratch);
      });
    });
  }

 private:
  // Output channels for which all places of a band are multiplied.
  struct Block {
    char* c;  // those of the first pixel
    size_t channels;
    const char* panels;
    const void* epilogue;
  };

  size_t row_bytes() const { return copied_.pitch * shape_.in; }
  size_t set_bytes() const { return (tiling_.rows() + sets_.behind) * row_bytes(); }

  void add_offsets() {
    for (size_t ky = 0; ky < window_.h.kernel; ++ky) {
      const size_t row = sets_.of(ky) * set_bytes() + sets_.begin(ky) * row_bytes();
      for (size_t run = 0; run < runs_.in_row; ++run) {
        for (size_t piece = 0; piece < runs_.bytes; piece += runs_.piece)
          offsets_.push_back(row + run * window_.w.dilation * shape_.in + piece);
      }
    }
  }

  // ---- the copy

  void copy_band(const char* a, size_t y, size_t lines, char* to) const {
    for (size_t set = 0; set < sets_.count; ++set) {
      char* row = to + set * set_bytes();
      for (size_t i = 0; i < lines + sets_.behind; ++i, row += row_bytes()) {
        const auto iy = static_cast<int64_t>((y + i) * window_.h.stride + sets_.first(set)) -
                        static_cast<int64_t>(window_.h.before);
        copy_row(window_.h.inside(iy) ? a + static_cast<size_t>(iy) * window_.row_stride : nullptr, row);
      }
      fill(row, window_.w.before);  // to the right of the last one
    }
  }
  // Copies a row of the image, or fills it with padding.
  void copy_row(const char* row, char* to) const {
    const size_t used = row == nullptr ? 0 : copied_.used, bytes = shape_.in;
    fill(to, window_.w.before);
    to += window_.w.before * bytes;
    if (window_.pixel_stride == bytes) {
      copy(row, used * bytes, to);
    } else {
      for (size_t x = 0; x < used; ++x) copy(row + x * window_.pixel_stride, bytes, to + x * bytes);
    }
    fill(to + used * bytes, copied_.pitch - window_.w.before - used);
  }
  void copy(const char* from, size_t bytes, char* __restrict to) const {
    if (flip_ == 0) {
      if (bytes > 0) std::memcpy(to, from, bytes);
    } else {
      for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(from[i] ^ flip_);
    }
  }
  void fill(char* to, size_t pixels) const { std::memset(to, padding_, pixels * shape_.in); }

  // ---- products

  // Calls part(i, y, x, count, wanted) for the parts of `places` places, each in a row of outputs: places i .. i+count-1
  // begin at pixel (y, x), and the first `wanted` of them are outputs.
  template <class Part>
  void each_part(size_t first, size_t places, Part&& part) const {
    size_t y = first / copied_.line, x = first % copied_.line, count;
    for (size_t i = 0; i < places; i += count, x = 0, ++y) {
      count = std::min(copied_.line - x, places - i);
      part(i, y, x, count, std::min(count, std::max(window_.w.out, x) - x));
    }
  }

  // Multiplies some places, the first of which is place m of a band that begins with output row y.
  void multiply(const Run& run, const Block& block, size_t y, size_t m, size_t places, char* scratch) const {
    const auto pixel = [&](size_t line, size_t x) {
      return block.c + (y + line) * out_.stride[1] + x * out_.stride[2];
    };
    const auto sums = [&](size_t i, char* c) {
      return epilogue_.sums(run, c, out_.stride[2], block.channels, scratch + sums_ + i * block.channels);
    };
    auto** const rows = reinterpret_cast<void**>(scratch + addresses_);
    each_part(m, places, [&](size_t i, size_t line, size_t x, size_t count, size_t wanted) {
      const auto to = sums(i, pixel(line, x));
      for (size_t j = 0; j < wanted; ++j) rows[i + j] = to.data + j * to.stride;
      for (size_t j = wanted; j < count; ++j) rows[i + j] = scratch + unwanted_;
    });
    const size_t a_stride = window_.w.stride * shape_.in;
    for (size_t i = 0; i < places; i += row_.mr) {
      row_.run(std::min<size_t>(places - i, row_.mr), block.channels, runs_.piece, offsets_.size(), offsets_.data(),
               scratch + (m + i) * a_stride, a_stride, block.panels, rows + i, block.epilogue);
    }
    each_part(m, places, [&](size_t i, size_t line, size_t x, size_t, size_t wanted) {
      char* const c = pixel(line, x);
      if (wanted > 0) epilogue_.run(run, sums(i, c), c, wanted, out_.stride[2], block.channels);
    });
  }

  const TapgemmRow& row_;
  WeightsShape shape_;
  Window window_;
  TapRuns runs_;
  CopiedRow copied_;
  RowSets sets_;
  Packed packed_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  qn_tensor in_, out_;
  uint8_t flip_, padding_;  // flips signs, or not
  size_t batch_;            // places whose rows of C are found at a time
  Tiling tiling_;
  Vector<size_t> offsets_;
  size_t addresses_, unwanted_, sums_;  // behind the copy: of rows of C, memory for those that nobody wants, scratch
};

}  // namespace

double band_cycles(const Problem& p, const TapgemmRow& row) {
  if (p.pointwise && of_tiles(row)) return Candidates::never;  // gemm needs no copy
  const Window& window = *p.window;
  if (copied_bytes(window, p.in, 1) > static_cast<double>(4 * band_bytes())) return Candidates::never;
  const TapRuns runs(window, p.in, row);
  Problem places = p;
  places.pixels = (p.height - 1) * CopiedRow(window.w).line + p.width;
  const ProductTile tile(row);
  const double each = copied_bytes(window, p.in, p.height) / 16 * machine().row_copy_cycles +
                      static_cast<double>(places.pixels) * place_cycles;
  // Tiles take as long for a short piece.
  const size_t piece = of_tiles(row) ? most_tap_bytes(row) : runs.piece;
  places.images = p.pixels * p.images / (p.height * p.width);  // pixels of a pointwise one are those of all images
  return tiles_cycles(places, tile, tile.steps(runs.pieces() * piece), 0) +
         each * static_cast<double>(places.images * p.groups);
}

PlanPointer plan_band(const ConvRequest& conv, const Choice& choice) { return make_plan<BandPlan>(conv, choice); }

}  // namespace quern
