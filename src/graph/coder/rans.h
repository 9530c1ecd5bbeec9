// Decodes matrices of int8 weights: rANS (Duda 2013, "Asymmetric numeral systems") with a few probability tables.
//
// Each row has one of up to 16 tables, so that rows of like weights share one; or each column has, as suits the taps of
// depthwise kernels. A table is an alias table (Walker 1974; Giesen 2014), of 4.3 KB instead of a slot for each of its
// 16,384 probabilities. Four states take turns, so that a processor works on four elements at once. A stream:
//
//     header     6 bytes: RansHeader
//     tables     coded as small data (small_coder.h), with a stride of 2: for each table the number of its knots - 1 and the
//                knots, two bytes each (see rans_levels())
//     classes    for each row, or column, the number of its table in as few bits as the largest number has, the lowest bit
//                first; then zeros up to a whole byte
//     words      uint16, in the order in which the decoder reads them; first two for each state, the lower half first
//
// All numbers are little-endian. A matrix of up to 8,192 elements may be small data itself, with a stride of its depth: it
// then follows a byte 0, the number of tables.
#pragma once

#include <quern/base.h>

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "base/vector.h"

namespace quern {

constexpr unsigned rans_bits = 14;  // probabilities are multiples of 2^-14
constexpr uint32_t rans_total = uint32_t{1} << rans_bits;
constexpr uint32_t rans_least_state = uint32_t{1} << 16;  // each state is at least this; it begins, encoding, with it
constexpr size_t rans_states = 4, rans_symbols = 256, rans_most_tables = 16, rans_table_stride = 2;

// Computes frequencies of symbols -128..127 (by symbol + 128) that add up to rans_total. A level is eight times the binary
// logarithm of what the frequency is proportional to; level 0 stands for a symbol that does not occur. Returns false if
// all levels are 0, or one is larger than rans_most_level.
constexpr uint8_t rans_most_level = 160;
bool rans_frequencies(std::span<const uint8_t, rans_symbols> levels, std::span<uint16_t, rans_symbols> frequencies);

// The levels of a table are a polyline: what its distribution looks like needs few knots.
struct RansKnot {
  uint8_t distance;  // from the knot before; the first one's from symbol -128
  uint8_t level;
};
// Levels of all symbols (by symbol + 128): between two knots they are interpolated, but 0 if one of the two is; outside of
// them they are 0. A distance of 0 after the first knot, a knot beyond symbol 127: false.
bool rans_levels(std::span<const RansKnot> knots, std::span<uint8_t, rans_symbols> levels);

constexpr size_t rans_most_small = 8192;
constexpr size_t rans_most_table_bytes = rans_most_tables * (1 + rans_symbols * sizeof(RansKnot));
constexpr unsigned rans_class_bits(size_t tables) { return static_cast<unsigned>(std::bit_width(tables - 1)); }

struct RansHeader {
  uint8_t tables;
  uint8_t by_column;     // 1: tables belong to columns, 0: to rows
  uint16_t table_bytes;  // of all tables with their knots
  uint16_t coded_bytes;  // of the same, as coded
};
static_assert(sizeof(RansHeader) == 6);

// Finds the symbol of a slot, a number below rans_total, and its index among the slots of this symbol.
class RansTable {
 public:
  explicit RansTable(std::span<const uint16_t, rans_symbols> frequencies);

  struct Entry {
    int32_t offset;  // what to add to a slot to get its index
    uint16_t frequency;
    int8_t symbol;
  };
  const Entry& find(size_t slot) const {
    const size_t bucket = slot / bucket_slots;
    return entries_[2 * bucket + (slot % bucket_slots >= own_[bucket])];
  }

 private:
  static constexpr uint32_t bucket_slots = rans_total / rans_symbols;

  // Of each bucket: its own symbol's entry, and that of the symbol that fills it.
  std::array<Entry, 2 * rans_symbols> entries_;
  std::array<uint8_t, rans_symbols> own_;  // slots of the bucket that are its own symbol's
};

// Decodes a matrix from the first row to the last.
class RansRows {
 public:
  // Checks what comes before the words. The stream must outlive this. The matrix has an element at least.
  static qn_status open(std::span<const unsigned char> stream, size_t rows, size_t depth, RansRows* to);

  // Writes the next rows: as many as `to` has room for.
  qn_status read(size_t count, int8_t* to);
  // After the last row: fails if the stream has more, or was damaged so that its states are wrong.
  qn_status finish() const;

 private:
  const RansTable& table_of(size_t line) const { return tables_[classes_.empty() ? 0 : classes_[line]]; }
  qn_status read_small(std::span<const unsigned char> stream, size_t count);
  qn_status read_tables(std::span<const uint8_t> bytes, size_t count);
  qn_status read_classes(std::span<const unsigned char> stream, size_t count);

  size_t depth_ = 0, row_ = 0;
  bool by_column_ = false;
  Vector<RansTable> tables_;
  Vector<uint8_t> classes_;      // none if there is one table
  Vector<unsigned char> small_;  // without tables: all elements
  std::array<uint32_t, rans_states> states_;
  const unsigned char *next_ = nullptr, *end_ = nullptr;
};

}  // namespace quern
