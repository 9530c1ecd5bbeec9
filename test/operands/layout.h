// How operands of kernels lie in memory: packed panels, rows behind tables of offsets, masks, points of winograd's tiles.
// For every type: sizes of elements are arguments. The contracts are those of src/kernel/*.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/math.h"
#include "kernel/dequantize.h"
#include "kernel/minmax.h"
#include "kernel/panel.h"
#include "kernel/pool.h"
#include "kernel/requantize.h"
#include "kernel/winograd.h"

namespace quern::operands {

// Bytes of an element of each operand of a sum of products. Then the parameters that the sum ends with: p bytes, or, if
// channels have parameters, p bytes and NR of each of them for each panel. Then what stands before each row of A.
struct Elements {
  size_t a, bias, w, c, p, of_channel = 0, before_row = 0;
  size_t in_byte = 1;  // how many weights of 1 byte share one: 2 for those of 4 bits
  size_t block = 0;  // if not 0: so many weights share a scale; rows of A that are bytes are made of qn_quantized_block
};
inline constexpr Elements f32_elements = {4, 4, 4, 4, sizeof(qn_minmax_f32)};
inline constexpr Elements qs8c_elements = {1, 4, 1, 1, sizeof(qn_requantize), sizeof(float)};
inline constexpr Elements qd8c_elements = {
    1, 4, 1, 4, sizeof(qn_dequantize), 2 * sizeof(float), sizeof(qn_quantized_row)};
inline constexpr Elements qd8c4_elements = {
    1, 4, 1, 4, sizeof(qn_dequantize), 2 * sizeof(float), sizeof(qn_quantized_row), 2};
inline constexpr Elements qd8b4_elements = {
    1, 4, 1, 4, sizeof(qn_dequantize), sizeof(float), sizeof(qn_quantized_row), 2, scale_block};
inline constexpr Elements qw8c_elements = {4, 4, 1, 4, sizeof(qn_dequantize), 2 * sizeof(float)};
inline constexpr Elements qw4b_elements = {4, 4, 1, 4, sizeof(qn_dequantize), sizeof(float), 0, 2, scale_block};
inline constexpr Elements qs8_pool_elements = {1, 0, 0, 1, sizeof(qn_pool_qs8)};

// Packed weights of n output channels, as gemm.h and dwconv.h draw them: panels of NR channels, first their biases, then
// K rows of weights. Where kernels take KR rows at a time, those of a channel lie side by side, and each tap (in dwconv.h
// each column), of K / taps rows, is filled up to a multiple of KR, or to whole blocks.
struct PanelLayout {
  size_t nr, n, k;
  Elements elements = f32_elements;
  PanelFormat format = {};
  size_t taps = 1;

  size_t rows_of_tap() const { return round_up(k / taps, elements.block != 0 ? elements.block : size_t{format.kr}); }
  size_t rows() const { return taps * rows_of_tap(); }
  size_t blocks_before(size_t row) const { return elements.block != 0 ? row / elements.block : 0; }
  size_t panel_bytes() const {
    return nr * elements.bias + rows() * row_bytes() + blocks_before(rows()) * nr * sizeof(float);
  }
  size_t row_of_a_bytes() const {
    const bool quantized = elements.block != 0 && elements.a == 1;
    return quantized ? blocks_before(rows()) * sizeof(qn_quantized_block) : k / taps * elements.a;
  }
  size_t row_bytes() const { return nr * elements.w / elements.in_byte; }
  size_t bytes() const { return divide_up(n, nr) * panel_bytes(); }
  size_t parameter_bytes() const { return elements.of_channel == 0 ? elements.p : divide_up(n, nr) * epilogue_bytes(); }
  size_t epilogue_bytes() const { return elements.p + nr * elements.of_channel; }  // of a panel
  // Where they lie, in bytes; rows count those that fill up. `index` counts the floats that a channel has.
  size_t of_channel(size_t channel, size_t index = 0) const {
    return channel / nr * epilogue_bytes() + elements.p + (index * nr + place(channel)) * sizeof(float);
  }
  size_t bias(size_t channel) const { return channel / nr * panel_bytes() + place(channel) * elements.bias; }
  size_t weight(size_t row, size_t channel) const {
    const size_t kr = format.kr, columns = nr / elements.in_byte;
    const size_t lane = (row / kr * columns + place(channel) % columns) * kr + row % kr;
    return channel / nr * panel_bytes() + nr * elements.bias + lane * elements.w +
           blocks_before(row) * nr * sizeof(float);
  }
  // The scale of a block; it stands behind its weights.
  size_t scale(size_t block, size_t channel) const {
    const size_t rows_before = (block + 1) * elements.block;
    return channel / nr * panel_bytes() + nr * elements.bias + rows_before * row_bytes() +
           (block * nr + place(channel)) * sizeof(float);
  }
  // In which part of its byte a weight of 4 bits lies: 0 is the lower half.
  size_t half(size_t channel) const { return place(channel) / (nr / elements.in_byte); }
  size_t place(size_t channel) const { return place_in_panel(format, nr, channel % nr); }
};

// Rows of an image behind a table of offsets, as igemm, dwconv and pool read them.
struct RowTable {
  size_t rows, length;           // of the image: its rows, and elements of each
  std::vector<int32_t> entries;  // of the table: numbers of rows; negative ones are padding

  bool pads() const;
  // Rows that lie `gap` elements apart.
  size_t image_bytes(size_t gap, size_t element) const { return (rows * (length + gap) - gap) * element; }
  // The offsets of the first `count` entries, for rows that lie `stride` bytes apart.
  void write(int32_t* table, size_t count, size_t stride) const;
};

// A table of whole columns of pixels, as windows share them: dwconv.h.
RowTable column_table(size_t columns, size_t height, size_t channels);
// A table of `mr` neighbouring output pixels of a convolution with stride 1, tap by tap: igemm.h.
RowTable neighbour_table(size_t kernel, size_t mr, size_t channels);

// Masks of planes (dwconv.h) are whole words of 16 pixels.
inline size_t mask_bytes(size_t pixels) { return divide_up(pixels, size_t{16}) * 2; }
template <class Counts>
void write_mask(void* mask, size_t pixels, Counts&& counts) {
  auto* bytes = static_cast<uint8_t*>(mask);
  for (size_t p = 0; p < mask_bytes(pixels) * 8; ++p) {
    if (p % 8 == 0) bytes[p / 8] = 0;
    if (p < pixels && counts(p)) bytes[p / 8] = static_cast<uint8_t>(bytes[p / 8] | 1u << p % 8);
  }
}

// Calls body(i, j) for the points that a winograd tile has.
template <class Body>
void for_points(size_t outputs, size_t rows, size_t columns, Body&& body) {
  for (size_t i = 0; i < outputs + 2; ++i) {
    for (size_t j = 0; j < outputs + 2; ++j) {
      if (winograd_has(outputs, rows, i) && winograd_has(outputs, columns, j)) body(i, j);
    }
  }
}
// Bytes from the first point, which every tile has, to the end of the last one; points lie `stride` bytes apart.
size_t points_bytes(size_t outputs, size_t rows, size_t columns, size_t stride, size_t point);

}  // namespace quern::operands
