// winograd: tiles of the image are transformed, multiplied point by point as matrices, and transformed back.
//
// A task goes over blocks of tiles. Of a block, all transformed inputs lie in its scratch at once; products only for a
// few panels of output channels at a time, so that both stay in the L2 cache. The weights go by once per block: the
// ones of all points of a panel lie after each other, in the order they are read.
#include "base/cpu.h"
#include "base/math.h"
#include "op/conv.h"

namespace quern {
namespace {

constexpr qn_minmax_f32 no_clamp = {-__builtin_inff(), __builtin_inff()};

Packing packing_of(const WinogradRow& row) {
  return row.outputs == 2 ? Packing::winograd2 : row.outputs == 4 ? Packing::winograd4 : Packing::winograd6;
}

class WinogradPlan final : public qn_plan {
 public:
  explicit WinogradPlan(const ConvPlan& conv)
      : row_(*conv.choice.winograd),
        gemm_(*conv.choice.gemm),
        packed_(conv.weights.pack(packing_of(row_), gemm_.nr)),
        clamp_(conv.clamp),
        epilogue_(conv.request),
        shape_(conv.weights.shape()),
        in_(conv.request.ins[0]),
        out_(conv.request.out),
        window_(conv.window),
        bias_(conv.weights.bias()),
        zero_(shape_.in),
        rows_(divide_up(window_.h.out, row_.outputs)),
        columns_(divide_up(window_.w.out, row_.outputs)) {
    split_work(conv.request.options.tasks);
    v_row_ = spread(shape_.in * sizeof(float));
    v_plane_ = spread(block() * v_row_);
    m_row_ = spread(chunk_ * gemm_.nr * sizeof(float));
    m_plane_ = spread(block() * m_row_);
    slot = row_.points() * (v_plane_ + m_plane_);
  }

  void task(const Run& run, size_t, size_t index) const override {
    char* v = run.workspace + index * slot;
    char* m = v + row_.points() * v_plane_;
    size_t present = blocks_.chunks;  // the block whose inputs are transformed
    for (size_t unit = tasks_.begin(index); unit < tasks_.end(index); ++unit) {
      const size_t block = unit / panels_.chunks, part = unit % panels_.chunks;
      if (block != present) transform_inputs(run, block, v);
      present = block;
      for (size_t panel = panels_.begin(part); panel < panels_.end(part); panel += chunk_) {
        const size_t end = std::min(panel + chunk_, panels_.end(part));
        multiply(block, panel, end, v, m);
        transform_outputs(run, block, panel, end, m);
      }
    }
  }

 private:
  // A tile: of which image, and its first output pixel.
  struct Tile {
    size_t image, y, x;
  };
  // The part of a tile's n inputs along one axis that is inside the image.
  struct Inside {
    size_t begin, end;
    size_t first;  // begin's place in the image
  };

  void split_work(size_t tasks);
  size_t block() const { return divide_up(blocks_.count, blocks_.chunks); }  // the largest, in tiles
  size_t tiles(size_t block) const { return blocks_.end(block) - blocks_.begin(block); }

  Tile tile_at(size_t index) const {
    const size_t x = index % columns_, rest = index / columns_;
    return {rest / rows_, rest % rows_ * row_.outputs, x * row_.outputs};
  }
  Inside inside(const Axis& axis, size_t place) const {
    const size_t begin = place >= axis.before ? 0 : std::min(axis.before - place, row_.inputs());
    const size_t first = place + begin - std::min(axis.before, place + begin);
    const size_t rest = axis.in - std::min(axis.in, first);
    return {begin, begin + std::min(rest, row_.inputs() - begin), first};
  }

  void transform_inputs(const Run& run, size_t block, char* v) const {
    for (size_t i = blocks_.begin(block); i < blocks_.end(block); ++i, v += v_row_) {
      const Tile tile = tile_at(i);
      const Inside h = inside(window_.h, tile.y), w = inside(window_.w, tile.x);
      const bool any = h.begin < h.end && w.begin < w.end;
      const char* image = run.input(0) + tile.image * in_.stride[0];
      const char* a = any ? image + h.first * window_.row_stride + w.first * window_.pixel_stride : image;
      row_.input(shape_.in, a, window_.row_stride, window_.pixel_stride, h.begin, h.end, w.begin, w.end, zero_.data(),
                 v, v_plane_);
    }
  }

  // The products of panels begin .. end-1.
  void multiply(size_t block, size_t begin, size_t end, const char* v, char* m) const {
    // Calls of about as many rows: a last one of few would take as long as one of more.
    const Split rows = {tiles(block), divide_up(tiles(block), gemm_.mr)};
    for (size_t panel = begin; panel < end; ++panel) {
      const size_t n = panel * gemm_.nr, channels = std::min(gemm_.nr, shape_.out - n);
      const char* weights = packed_->panels(0) + panel * row_.points() * packed_->panel_bytes;
      char* c = m + (panel - begin) * gemm_.nr * sizeof(float);
      for (size_t point = 0; point < row_.points(); ++point, weights += packed_->panel_bytes) {
        for (size_t call = 0; call < rows.chunks; ++call) {
          const size_t first = rows.begin(call);
          gemm_.run(rows.end(call) - first, channels, shape_.in * sizeof(float), v + point * v_plane_ + first * v_row_,
                    v_row_, weights, c + point * m_plane_ + first * m_row_, m_row_, &no_clamp);
        }
      }
    }
  }

  void transform_outputs(const Run& run, size_t block, size_t begin, size_t end, const char* m) const {
    const size_t n = begin * gemm_.nr, channels = std::min(end * gemm_.nr, shape_.out) - n;
    for (size_t i = blocks_.begin(block); i < blocks_.end(block); ++i, m += m_row_) {
      const Tile tile = tile_at(i);
      const size_t rows = std::min(row_.outputs, window_.h.out - tile.y);
      const size_t columns = std::min(row_.outputs, window_.w.out - tile.x);
      char* c = run.output + tile.image * out_.stride[0] + tile.y * out_.stride[1] + tile.x * out_.stride[2] +
                n * sizeof(float);
      row_.output(channels, m, m_plane_, bias_.data() + n, c, out_.stride[1], out_.stride[2], rows, columns, &clamp_);
      for (size_t y = 0; y < rows; ++y, c += out_.stride[1]) epilogue_.run(run, c, columns, out_.stride[2], channels);
    }
  }

  const WinogradRow& row_;
  const GemmRow& gemm_;
  Packed packed_;
  qn_minmax_f32 clamp_;
  Epilogue epilogue_;
  WeightsShape shape_;
  qn_tensor in_, out_;
  Window window_;
  Vector<float> bias_, zero_;
  size_t rows_, columns_;                     // tiles of an image
  Split blocks_;                              // of all images' tiles
  Split panels_;                              // of all panels of output channels, where there are few blocks
  Split tasks_;                               // of units: blocks x parts of panels
  size_t chunk_;                              // panels whose products lie in scratch at once
  size_t v_row_, v_plane_, m_row_, m_plane_;  // bytes from a tile, a point to the next: transformed inputs, products
};

void WinogradPlan::split_work(size_t tasks) {
  const size_t wanted = wanted_chunks(tasks), half_l2 = cpu().l2_bytes / 2;
  // Blocks of as many tiles as a few calls of gemm take, so that the weights go by less often, if the cache has room.
  constexpr size_t max_calls = 2;
  const size_t count = out_.shape[0] * rows_ * columns_;
  const size_t fit = half_l2 / (row_.points() * spread(shape_.in * sizeof(float)));
  size_t calls = std::clamp<size_t>(fit / gemm_.mr, 1, max_calls);
  if (divide_up(count, calls * gemm_.mr) < wanted) calls = 1;
  blocks_ = {count, divide_up(count, calls * gemm_.mr)};
  // Each part of the panels transforms the inputs again: no more of them than threads.
  panels_ = {divide_up(shape_.out, gemm_.nr), 1};
  panels_.chunks = std::min(panels_.count, divide_up(tasks, std::min(blocks_.chunks, tasks)));
  const size_t units = blocks_.chunks * panels_.chunks;
  tasks_ = {units, std::min(units, wanted)};
  phases = {tasks_.chunks};

  const size_t panel_products = row_.points() * block() * gemm_.nr * sizeof(float);
  chunk_ = std::clamp<size_t>(half_l2 / 2 / panel_products, 1, panels_.count);
}

}  // namespace

std::unique_ptr<qn_plan> plan_winograd(const ConvPlan& conv) { return std::make_unique<WinogradPlan>(conv); }

}  // namespace quern
