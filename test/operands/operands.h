// The operands of one call of a kernel, a struct per family: how large each is, how it lies in memory, and the order in
// which the kernel gets them. The checker has guarded memory for them, quern-bench plain memory.
//
// A class Memory(name, access) of one operand has
//
//     place(bytes, where, alignment)    makes room; `where` is the user's
//     address()                         what the kernel gets
//     as<T>()                           where the operand can be written
//
// and each struct place(...) for all operands, call(run) for the kernel, and each(use), which gets all memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "operands/layout.h"

namespace quern::operands {

enum class Access { input, output };  // may the kernel write?

// An address of whichever type a kernel asks for.
class Address {
 public:
  explicit Address(const void* at) : at_(reinterpret_cast<uintptr_t>(at)) {}
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(at_);
  }
  operator uint64_t() const { return at_; }
  Address operator+(size_t bytes) const { return Address(reinterpret_cast<const void*>(at_ + bytes)); }
  Address operator-(size_t bytes) const { return Address(reinterpret_cast<const void*>(at_ - bytes)); }

 private:
  uintptr_t at_;
};

// Where what a kernel may not read has no memory at all.
template <class Memory, class Where>
void place_if(bool wanted, Memory& memory, size_t bytes, const Where& where, size_t alignment) {
  memory.place(wanted ? bytes : 0, where, alignment);
}

// --- gemm, igemm, tapgemm ---

struct GemmSize {
  size_t m, n, k;
  size_t gap = 0;  // elements between rows of A, and of C
};

template <class Memory>
struct GemmOperands {
  Memory a{"a", Access::input}, w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t m = 0, n = 0, k_bytes = 0, before_row = 0, a_stride = 0, c_stride = 0;

  template <class Where>
  void place(const GemmSize& s, const PanelLayout& panels, const Where& where) {
    const Elements& e = panels.elements;
    m = s.m, n = s.n, k_bytes = panels.row_of_a_bytes();
    before_row = e.before_row;
    a_stride = k_bytes + s.gap * e.a, c_stride = (n + s.gap) * e.c;
    if (before_row != 0) a_stride = round_up(a_stride + before_row, size_t{4});
    a.place(before_row + (m - 1) * a_stride + k_bytes, where, before_row != 0 ? 4 : e.a);
    w.place(panels.bytes(), where, 64);
    c.place((m - 1) * c_stride + n * e.c, where, e.c);
    p.place(panels.parameter_bytes(), where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(m, n, k_bytes, a.address() + before_row, a_stride, w.address(), c.address(), c_stride, p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, w, c, p);
  }
};

struct IgemmSize {
  size_t m, n, k, taps;
  size_t gap = 0;
};

template <class Memory>
struct IgemmOperands {
  Memory a{"a", Access::input}, offsets{"offsets", Access::input}, zero{"zero", Access::input};
  Memory w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t m = 0, n = 0, k_bytes = 0, taps = 0, entries = 0, c_stride = 0;

  // The table is that of all MR rows.
  template <class Where>
  void place(const IgemmSize& s, const PanelLayout& panels, const RowTable& table, const Where& where) {
    const Elements& e = panels.elements;
    m = s.m, n = s.n, k_bytes = s.k * e.a, taps = s.taps, c_stride = (n + s.gap) * e.c;
    entries = table.entries.size() - table.entries.size() / taps + m;
    a.place(table.image_bytes(s.gap, e.a), where, e.a);
    offsets.place(entries * 4, where, 4);
    table.write(offsets.template as<int32_t>(), entries, (s.k + s.gap) * e.a);
    place_if(table.pads(), zero, k_bytes, where, e.a);
    w.place(panels.bytes(), where, 64);
    c.place((m - 1) * c_stride + n * e.c, where, e.c);
    p.place(panels.parameter_bytes(), where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(m, n, k_bytes, taps, offsets.address(), a.address(), zero.address(), w.address(), c.address(), c_stride,
               p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, offsets, zero, w, c, p);
  }
};

struct TapgemmSize {
  size_t m, n, k;
  size_t a_stride;
  size_t gap = 0;       // elements between rows of C, of which row 0 is the last one in memory
  bool shared = false;  // all rows of C are one
};

template <class Memory>
struct TapgemmOperands {
  Memory offsets{"offsets", Access::input}, a{"a", Access::input}, w{"w", Access::input};
  Memory rows{"rows", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t m = 0, n = 0, k_bytes = 0, taps = 0, a_stride = 0, c_stride = 0;
  bool shared = false;

  template <class Where>
  void place(const TapgemmSize& s, const PanelLayout& panels, const std::vector<size_t>& of_taps, const Where& where) {
    const Elements& e = panels.elements;
    m = s.m, n = s.n, k_bytes = s.k * e.a, taps = of_taps.size(), a_stride = s.a_stride, c_stride = (n + s.gap) * e.c;
    shared = s.shared;
    offsets.place(taps * sizeof(size_t), where, sizeof(size_t));
    std::copy(of_taps.begin(), of_taps.end(), offsets.template as<size_t>());
    a.place(*std::max_element(of_taps.begin(), of_taps.end()) + (m - 1) * a_stride + k_bytes, where, e.a);
    w.place(panels.bytes(), where, 64);
    c.place((shared ? 0 : m - 1) * c_stride + n * e.c, where, e.c);
    rows.place(m * sizeof(void*), where, sizeof(void*));
    for (size_t i = 0; i < m; ++i) rows.template as<void*>()[i] = c.address() + row(i) * c_stride;
    p.place(panels.parameter_bytes(), where, 4);
  }
  // Where row i of C lies among its rows in memory.
  size_t row(size_t i) const { return shared ? 0 : m - 1 - i; }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(m, n, k_bytes, taps, offsets.address(), a.address(), a_stride, w.address(), rows.address(), p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(offsets, a, w, rows, c, p);
  }
};

// --- dwconv, pool: rows ---

struct RowsSize {
  size_t channels, pixels, taps;
  size_t step;  // entries of the table between neighbouring pixels
  size_t gap = 0;
};

template <class Memory>
struct DwconvOperands {
  Memory offsets{"offsets", Access::input}, a{"a", Access::input}, zero{"zero", Access::input};
  Memory w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t channels = 0, pixels = 0, taps = 0, step = 0, c_stride = 0;

  template <class Where>
  void place(const RowsSize& s, const PanelLayout& panels, const RowTable& table, const Where& where) {
    const Elements& e = panels.elements;
    channels = s.channels, pixels = s.pixels, taps = s.taps, step = s.step * 4, c_stride = (channels + s.gap) * e.c;
    a.place(table.image_bytes(s.gap, e.a), where, e.a);
    offsets.place(table.entries.size() * 4, where, 4);
    table.write(offsets.template as<int32_t>(), table.entries.size(), (channels + s.gap) * e.a);
    place_if(table.pads(), zero, channels * e.a, where, e.a);
    w.place(panels.bytes(), where, 64);
    c.place((pixels - 1) * c_stride + channels * e.c, where, e.c);
    p.place(panels.parameter_bytes(), where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(channels, pixels, taps, offsets.address(), step, a.address(), zero.address(), w.address(), c.address(),
               c_stride, p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(offsets, a, zero, w, c, p);
  }
};

template <class Memory>
struct PoolOperands {
  Memory offsets{"offsets", Access::input}, a{"a", Access::input}, scale{"scale", Access::input};
  Memory c{"c", Access::output}, p{"p", Access::input};
  size_t channels = 0, pixels = 0, taps = 0, step = 0, c_stride = 0;

  template <class Where>
  void place(const RowsSize& s, const Elements& e, const RowTable& table, bool average, const Where& where) {
    channels = s.channels, pixels = s.pixels, taps = s.taps, step = s.step * 4, c_stride = (channels + s.gap) * e.c;
    a.place(table.image_bytes(s.gap, e.a), where, e.a);
    offsets.place(table.entries.size() * 4, where, 4);
    table.write(offsets.template as<int32_t>(), table.entries.size(), (channels + s.gap) * e.a);
    place_if(average, scale, pixels * sizeof(float), where, 4);
    c.place((pixels - 1) * c_stride + channels * e.c, where, e.c);
    p.place(e.p, where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(channels, pixels, taps, offsets.address(), step, a.address(), scale.address(), c.address(), c_stride,
               p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(offsets, a, scale, c, p);
  }
};

// --- dwconv: tiles ---

struct TileSize {
  size_t channels, pixels, rows;
  size_t gap = 0;
};

template <class Memory>
struct DwconvTileOperands {
  Memory offsets{"offsets", Access::input}, a{"a", Access::input}, zero{"zero", Access::input};
  Memory w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t channels = 0, pixels = 0, rows = 0, row_stride = 0, c_stride = 0;

  template <class Where>
  void place(const TileSize& s, const PanelLayout& panels, const RowTable& table, const Where& where) {
    const Elements& e = panels.elements;
    channels = s.channels, pixels = s.pixels, rows = s.rows;
    c_stride = (channels + s.gap) * e.c, row_stride = pixels * c_stride + s.gap * e.c;
    a.place(table.image_bytes(s.gap, e.a), where, e.a);
    offsets.place(table.entries.size() * 4, where, 4);
    table.write(offsets.template as<int32_t>(), table.entries.size(), (channels + s.gap) * e.a);
    place_if(table.pads(), zero, channels * e.a, where, e.a);
    w.place(panels.bytes(), where, 64);
    c.place((rows - 1) * row_stride + (pixels - 1) * c_stride + channels * e.c, where, e.c);
    p.place(panels.parameter_bytes(), where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(channels, pixels, rows, offsets.address(), a.address(), w.address(), c.address(), row_stride, c_stride,
               p.address(), zero.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(offsets, a, zero, w, c, p);
  }
};

// --- dwconv, pool: planes of floats ---

struct PlaneSize {
  size_t pixels, kernel_h, kernel_w;
};

// Pixels come in vectors of `lanes` and blocks of `block`.
struct PlaneKind {
  size_t block, lanes;
  bool three = false;  // K = 3 of dwconv.h

  size_t computed(size_t pixels) const { return round_up(pixels, lanes); }
  // The number of the float of C that is pixel p, where blocks are c_stride floats apart.
  size_t at(size_t pixel, size_t c_stride) const { return pixel / block * c_stride + pixel % block; }
};

struct PlaneStrides {
  size_t c;           // floats between blocks of C
  size_t mask;        // bytes between masks
  size_t a_floats;    // of A
  size_t before = 0;  // floats that lie before A: offsets count from the first of them
};

// What the taps are multiplied with is the packed `w` of dwconv, or the `scale` of an average.
template <class Memory>
struct PlaneOperands {
  explicit PlaneOperands(const char* factor_name) : factor(factor_name, Access::input) {}

  Memory offsets{"offsets", Access::input}, masks{"masks", Access::input}, a{"a", Access::input}, factor;
  Memory c{"c", Access::output}, p{"p", Access::input};
  PlaneSize size = {};
  PlaneStrides strides = {};
  PlaneKind kind = {};

  template <class Where>
  void place(const PlaneSize& s, const PlaneKind& k, const PlaneStrides& t, size_t factor_floats, const Where& where) {
    size = s, kind = k, strides = t;
    offsets.place(s.kernel_h * s.kernel_w * 4, where, 4);
    masks.place((s.kernel_w - 1) * t.mask + mask_bytes(s.pixels), where, 2);
    a.place(t.a_floats * 4, where, 4);
    factor.place(factor_floats * 4, where, 4);
    c.place((k.at(k.computed(s.pixels) - 1, t.c) + 1) * 4, where, 4);
    p.place(sizeof(qn_minmax_f32), where, 4);
  }
  void* mask(size_t column) const { return masks.template as<char>() + column * strides.mask; }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(size.pixels, size.kernel_h, size.kernel_w, offsets.address(), masks.address(), strides.mask,
               a.address() - strides.before * 4, factor.address(), c.address(), strides.c * 4, p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(offsets, masks, a, factor, c, p);
  }
};

// --- dwconv: image ---

template <class Memory>
struct DwconvImageOperands {
  Memory a{"a", Access::input}, w{"w", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t rows = 0, columns = 0, computed = 0, a_stride = 0, c_stride = 0;  // strides in floats

  // Rows lie `gap` floats apart; 0: those of C overlap.
  template <class Where>
  void place(size_t rows_of_c, size_t columns_of_c, size_t lanes, size_t gap, const Where& where) {
    rows = rows_of_c, columns = columns_of_c, computed = round_up(columns, lanes);
    a_stride = 2 * columns + gap, c_stride = gap == 0 ? columns : computed + gap;
    a.place((2 * rows * a_stride + 2 * computed) * 4, where, 4);
    w.place(PanelLayout{1, 1, 9}.bytes(), where, 4);
    c.place(((rows - 1) * c_stride + computed) * 4, where, 4);
    p.place(sizeof(qn_minmax_f32), where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(rows, columns, a.address(), a_stride * 4, w.address(), c.address(), c_stride * 4, p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, w, c, p);
  }
};

// --- winograd ---

// In floats.
struct WinogradStrides {
  size_t pixel, row, plane;
};

template <class Memory>
struct WinogradInputOperands {
  Memory a{"a", Access::input}, tile{"tile", Access::input}, zero{"zero", Access::input}, v{"v", Access::output};
  size_t channels = 0;
  WinogradStrides strides = {};

  template <class Where>
  void place(size_t outputs, size_t of_channels, const qn_winograd_tile& t, const WinogradStrides& s,
             const Where& where) {
    channels = of_channels, strides = s;
    const size_t in_rows = t.bottom - t.top, in_columns = t.right - t.left;
    const bool any = in_rows * in_columns > 0, odd = t.rows % 2 + t.columns % 2 > 0;
    const bool rest = in_rows * in_columns < (t.rows + 2) * (t.columns + 2);
    place_if(any, a, any ? ((in_rows - 1) * s.row + (in_columns - 1) * s.pixel + channels) * 4 : 0, where, 4);
    place_if(odd || rest, zero, channels * 4, where, 4);
    for (size_t i = 0; (odd || rest) && i < channels; ++i) zero.template as<float>()[i] = 0;
    v.place(points_bytes(outputs, t.rows, t.columns, s.plane * 4, channels * 4), where, 4);
    tile.place(sizeof t, where, 4);
    *tile.template as<qn_winograd_tile>() = t;
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(channels, a.address(), strides.row * 4, strides.pixel * 4, tile.address(), zero.address(), v.address(),
               strides.plane * 4);
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, tile, zero, v);
  }
};

template <class Memory>
struct WinogradOutputOperands {
  Memory m{"m", Access::input}, bias{"bias", Access::input}, c{"c", Access::output}, p{"p", Access::input};
  size_t channels = 0, rows = 0, columns = 0;
  WinogradStrides strides = {};

  template <class Where>
  void place(size_t outputs, size_t of_channels, size_t of_rows, size_t of_columns, const WinogradStrides& s,
             const Where& where) {
    channels = of_channels, rows = of_rows, columns = of_columns, strides = s;
    m.place(points_bytes(outputs, rows, columns, s.plane * 4, channels * 4), where, 4);
    bias.place(channels * 4, where, 4);
    c.place(((rows - 1) * s.row + (columns - 1) * s.pixel + channels) * 4, where, 4);
    p.place(sizeof(qn_minmax_f32), where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(channels, m.address(), strides.plane * 4, bias.address(), c.address(), strides.row * 4,
               strides.pixel * 4, rows, columns, p.address());
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(m, bias, c, p);
  }
};

// --- quantize_rows ---

template <class Memory>
struct QuantizeRowsOperands {
  Memory a{"a", Access::input}, c{"c", Access::output};
  size_t rows = 0, k = 0, before_row = sizeof(qn_quantized_row), a_stride = 0, c_stride = 0;

  // Rows of A lie `gap` floats apart, those of C, of `row_bytes` bytes, as many bytes, filled up to whole words.
  template <class Where>
  void place(size_t of_rows, size_t of_k, size_t row_bytes, size_t gap, const Where& where) {
    rows = of_rows, k = of_k;
    a_stride = (k + gap) * sizeof(float), c_stride = round_up(before_row + row_bytes + gap, size_t{4});
    a.place((rows - 1) * a_stride + k * sizeof(float), where, 4);
    c.place((rows - 1) * c_stride + before_row + row_bytes, where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(rows, k, a.address(), a_stride, c.address() + before_row, c_stride);
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, c);
  }
};

// --- transpose, unblock, split ---

template <class Memory>
struct TransposeOperands {
  Memory addresses{"addresses", Access::input}, a{"a", Access::input}, c{"c", Access::output};
  size_t rows = 0, columns = 0, a_stride = 0, c_stride = 0;  // strides in bytes

  // A has a_rows rows; row i of the call is number row_of(i) of them. Rows of A and C lie `gap` bytes apart.
  template <class Where, class RowOf>
  void place(size_t of_rows, size_t of_columns, size_t a_rows, size_t gap, const Where& where, RowOf&& row_of) {
    rows = of_rows, columns = of_columns, a_stride = columns * 4 + gap, c_stride = rows * 4 + gap;
    a.place((a_rows - 1) * a_stride + columns * 4, where, 4);
    c.place((columns - 1) * c_stride + rows * 4, where, 4);
    addresses.place(rows * sizeof(void*), where, sizeof(void*));
    for (size_t i = 0; i < rows; ++i) {
      addresses.template as<const char*>()[i] = static_cast<const char*>(a.address()) + row_of(i) * a_stride;
    }
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(rows, columns, addresses.address(), c.address(), c_stride);
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(addresses, a, c);
  }
};

template <class Memory>
struct UnblockOperands {
  Memory a{"a", Access::input}, d{"d", Access::output};
  size_t pixels = 0, a_stride = 0, d_stride = 0;  // in floats

  // Strides are those of blocks.
  template <class Where>
  void place(size_t of_pixels, size_t block, size_t stride_of_a, size_t stride_of_d, const Where& where) {
    pixels = of_pixels, a_stride = stride_of_a, d_stride = stride_of_d;
    const size_t last = pixels - 1;
    a.place((last / block * a_stride + last % block + 1) * 4, where, 4);
    d.place((last / block * d_stride + last % block + 1) * 4, where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(pixels, a.address(), a_stride * 4, d.address(), d_stride * 4);
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, d);
  }
};

struct SplitSize {
  size_t rows, columns, step, planes;
  size_t gap = 0;
};

template <class Memory>
struct SplitOperands {
  Memory a{"a", Access::input}, d{"d", Access::output};
  SplitSize size = {};
  size_t a_stride = 0, d_stride = 0, d_plane = 0;  // in floats

  template <class Where>
  void place(const SplitSize& s, const Where& where) {
    size = s;
    a_stride = s.columns + s.gap, d_stride = divide_up(s.columns, s.step) + s.gap;
    d_plane = s.rows * d_stride + s.gap;
    a.place(((s.rows - 1) * a_stride + s.columns) * 4, where, 4);
    const size_t last = std::min(s.planes, s.columns) - 1;  // plane that has any pixel
    d.place((last * d_plane + (s.rows - 1) * d_stride + divide_up(s.columns - last, s.step)) * 4, where, 4);
  }
  template <class Run>
  decltype(auto) call(Run&& run) const {
    return run(size.rows, size.columns, size.step, size.planes, a.address(), a_stride * 4, d.address(), d_stride * 4,
               d_plane * 4);
  }
  template <class Use>
  decltype(auto) each(Use&& use) const {
    return use(a, d);
  }
};

}  // namespace quern::operands
