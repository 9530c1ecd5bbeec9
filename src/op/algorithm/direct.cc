// direct: copies all taps of the pixels of a tile into scratch memory, then multiplies them as a matrix. It suits few
// input channels, where one copy brings a whole row of taps. It needs no table, so it also serves problems for which
// the table of igemm would be too large.
#include "base/math.h"
#include "op/algorithm/algorithm.h"
#include "op/algorithm/cost.h"
#include "op/core/tiling.h"

namespace quern {
namespace {

// ---- cost

constexpr double bytes_begin = 3;  // how much longer it takes to begin a copy whose length is no multiple of a word

double cycles(const Problem& p, const GemmRow& row) {
  const double copies = static_cast<double>(p.contiguous ? p.kernel.h : p.taps());
  const double floats = static_cast<double>(p.taps() * p.in * input_bytes(p.type)) / sizeof(float);
  const double begin = machine().gather_cycles * (input_bytes(p.type) == 1 ? bytes_begin : 1);
  const double gather = copies * begin + floats / machine().gather_floats;
  const ProductTile tile(row);
  return tiles_cycles(p, tile, tile.steps(p.taps() * p.in), 0) +
         gather * static_cast<double>(p.pixels * p.images * p.groups);
}

// ---- plan

class DirectPlan final : public qn_plan {
 public:
  DirectPlan(const ConvRequest& conv, const Choice& choice)
      : row_(choice.as<GemmRow>()),
        packed_(conv.pack(Packing::panels, row_)),
        kernel_epilogue_(row_, conv.numbers()),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        rows_(output_rows(conv.request.out)),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        window_(conv.window),
        zero_(row_.type, shape_.in * window_.w.kernel, static_cast<int8_t>(conv.input_zero())) {
    contiguous_ = window_.w.dilation == 1 && window_.pixel_stride == in_bytes();
    tiling_ = Tiling({.count = out_.shape[0] * rows_.products * shape_.groups,
                      .m = rows_.count,
                      .n = shape_.out,
                      .mr = row_.mr,
                      .nr = row_.nr,
                      .row_bytes = depth_bytes(),
                      .panel_bytes = packed_->panel_bytes,
                      .whole_channels = true},
                     conv.request.options.tasks);
    phases = {tiling_.tasks()};
    row_stride_ = spread(depth_bytes());
    gathered_ = row_.mr * row_stride_;
    slot = gathered_ + epilogue_.scratch_bytes(tiling_.tile_elements());
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* scratch = run.workspace + index * slot;
    tiling_.run(index, [&](size_t product, size_t m, size_t rows, size_t n, size_t channels) {
      const size_t group = product % shape_.groups, line = product / shape_.groups % rows_.products;
      const size_t image = product / shape_.groups / rows_.products;
      const char* a = run.input(0) + image * in_.stride[0] + group * in_bytes();
      size_t y = (line * rows_.count + m) / window_.w.out, x = (line * rows_.count + m) % window_.w.out;
      for (size_t i = 0; i < rows; ++i) {
        gather(a, y, x, scratch + i * row_stride_);
        if (++x == window_.w.out) x = 0, ++y;
      }
      char* c = run.output + image * out_.stride[0] + line * out_.stride[1] + m * out_.stride[2] +
                (group * shape_.out + n) * output_bytes(row_.type);
      const auto sums = epilogue_.sums(run, c, out_.stride[2], channels, scratch + gathered_);
      row_.run(rows, channels, depth_bytes(), scratch, row_stride_,
               packed_->panels(group) + n / row_.nr * packed_->panel_bytes, sums.data, sums.stride,
               kernel_epilogue_.at(group, n));
      epilogue_.run(run, sums, c, rows, out_.stride[2], channels);
    });
  }

 private:
  size_t in_bytes() const { return shape_.in * input_bytes(row_.type); }
  size_t depth_bytes() const { return shape_.depth() * input_bytes(row_.type); }

  // Copies all taps of output pixel (y, x).
  void gather(const char* a, size_t y, size_t x, char* to) const {
    const size_t row_bytes = window_.w.kernel * in_bytes();
    for (size_t k = 0; k < window_.h.kernel; ++k, to += row_bytes) {
      const int64_t iy = window_.h.at(y, k);
      if (!window_.h.inside(iy)) {
        fill(to, row_bytes);
      } else {
        gather_row(a + static_cast<size_t>(iy) * window_.row_stride, x, to);
      }
    }
  }

  void gather_row(const char* a, size_t x, char* to) const {
    const Axis& w = window_.w;
    if (contiguous_) {
      const int64_t first = w.at(x, 0), end = first + static_cast<int64_t>(w.kernel);
      if (first >= 0 && end <= static_cast<int64_t>(w.in)) {
        copy(to, a + static_cast<size_t>(first) * in_bytes(), w.kernel * in_bytes());
        return;
      }
      const int64_t from = std::clamp<int64_t>(first, 0, static_cast<int64_t>(w.in));
      const int64_t until = std::clamp<int64_t>(end, from, static_cast<int64_t>(w.in));
      const size_t before = std::min(static_cast<size_t>(from - first), w.kernel);
      const size_t count = static_cast<size_t>(until - from);
      fill(to, before * in_bytes());
      copy(to + before * in_bytes(), a + static_cast<size_t>(from) * in_bytes(), count * in_bytes());
      fill(to + (before + count) * in_bytes(), (w.kernel - before - count) * in_bytes());
      return;
    }
    for (size_t k = 0; k < w.kernel; ++k, to += in_bytes()) {
      const int64_t ix = w.at(x, k);
      if (w.inside(ix)) {
        copy(to, a + static_cast<size_t>(ix) * window_.pixel_stride, in_bytes());
      } else {
        fill(to, in_bytes());
      }
    }
  }

  // Copies short runs itself: calling the C library would take longer than the copy. Parts of a run overlap.
  static void copy(char* to, const char* from, size_t bytes) {
    constexpr size_t vector = 16, many = 16 * vector;
    if (bytes > many) {
      std::memcpy(to, from, bytes);
      return;
    }
    if (bytes >= vector) {
      for (size_t i = 0; i < bytes - vector; i += vector) std::memcpy(to + i, from + i, vector);
      std::memcpy(to + bytes - vector, from + bytes - vector, vector);
    } else if (bytes >= 8) {
      copy_ends<8>(to, from, bytes);
    } else if (bytes >= 4) {
      copy_ends<4>(to, from, bytes);
    } else {
      for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
    }
  }
  // Copies the first and the last `part` bytes, which are all that there are.
  template <size_t part>
  static void copy_ends(char* to, const char* from, size_t bytes) {
    std::memcpy(to, from, part);
    std::memcpy(to + bytes - part, from + bytes - part, part);
  }
  [[gnu::noinline]] void fill(char* to, size_t bytes) const { copy(to, static_cast<const char*>(zero_.data()), bytes); }

  const GemmRow& row_;
  Packed packed_;
  KernelEpilogue kernel_epilogue_;
  Epilogue epilogue_;
  WeightsShape shape_;
  Rows rows_;
  qn_tensor in_, out_;
  Window window_;
  Padding zero_;  // the padding for a row of taps
  bool contiguous_;
  size_t row_stride_, gathered_;  // scratch: bytes from one row to the next, and of all rows
  Tiling tiling_;
};

}  // namespace

void direct_algorithm::candidates(const Problem& p, Candidates* all) {
  if (p.matrix || p.blocked()) return;
  all->add_rows(id, gemm_rows(), [&](const GemmRow& row) { return cycles(p, row); });
}

bool direct_algorithm::knows(std::string_view kernel) { return has_row(gemm_rows(), kernel); }

PlanPointer direct_algorithm::plan(const ConvRequest& conv, const Choice& choice) {
  return make_plan<DirectPlan>(conv, choice);
}

}  // namespace quern
