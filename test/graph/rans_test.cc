// The coder of int8 weights: tables, round trips, sizes, and damaged streams.
#include "graph/coder/rans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/coder/encode_rans.h"
#include "graph/coder/small_coder.h"

namespace quern {
namespace rans_test {

using Matrix = std::vector<int8_t>;
using Stream = std::vector<unsigned char>;

struct Case {
  const char* name;
  std::function<int(std::mt19937&, size_t row, size_t column)> element;
};

int laplace(std::mt19937& generator, double scale) {
  const double size = std::exponential_distribution<double>(1 / scale)(generator);
  const int rounded = static_cast<int>(std::min(size + 0.5, 127.0));
  return (generator() & 1) != 0 ? rounded : -rounded;
}

const Case cases[] = {
    {"constant", [](std::mt19937&, size_t, size_t) { return -7; }},
    {"largest", [](std::mt19937&, size_t, size_t) { return 127; }},
    {"smallest", [](std::mt19937&, size_t, size_t) { return -128; }},
    {"rows of the largest", [](std::mt19937& g, size_t row, size_t) { return row % 2 == 0 ? 127 : laplace(g, 9); }},
    {"extremes", [](std::mt19937& g, size_t, size_t) { return (g() & 1) != 0 ? -128 : 127; }},
    {"uniform", [](std::mt19937& g, size_t, size_t) { return static_cast<int>(g() % 256) - 128; }},
    {"laplace", [](std::mt19937& g, size_t, size_t) { return laplace(g, 20); }},
    {"4 bits", [](std::mt19937& g, size_t, size_t) { return std::clamp(laplace(g, 2), -7, 7); }},
    {"sparse", [](std::mt19937& g, size_t, size_t) { return g() % 100 < 93 ? 0 : laplace(g, 30); }},
    {"nearly zero", [](std::mt19937& g, size_t, size_t) { return g() % 5000 == 0 ? laplace(g, 30) : 0; }},
    {"rows", [](std::mt19937& g, size_t row, size_t) { return laplace(g, row % 3 == 0 ? 2 : 30); }},
    {"columns", [](std::mt19937& g, size_t, size_t column) { return laplace(g, column % 9 == 4 ? 40 : 3); }},
    {"ramps", [](std::mt19937& g, size_t row,
                 size_t column) { return static_cast<int>((5 * row + column) % 120 + g() % 8) - 60; }},
    {"empty rows", [](std::mt19937& g, size_t row, size_t) { return row % 4 == 0 ? laplace(g, 25) : 0; }},
};

Matrix make(const Case& from, size_t rows, size_t depth) {
  std::mt19937 generator(static_cast<uint32_t>(rows * 1000 + depth));
  Matrix matrix;
  for (size_t i = 0; i < rows * depth; ++i)
    matrix.push_back(static_cast<int8_t>(from.element(generator, i / depth, i % depth)));
  return matrix;
}

Stream encode(const Matrix& matrix, size_t rows, size_t depth) {
  const Vector<unsigned char> stream = encode_rans({matrix.data(), matrix.size()}, rows, depth);
  return {stream.begin(), stream.end()};
}

// Decodes in strips of some rows. Empty if the stream is refused.
Matrix decode(const Stream& stream, size_t rows, size_t depth, size_t strip) {
  RansRows cursor;
  if (RansRows::open({stream.data(), stream.size()}, rows, depth, &cursor) != QN_OK) return {};
  Matrix matrix(rows * depth);
  for (size_t row = 0; row < rows; row += strip) {
    if (cursor.read(std::min(strip, rows - row), &matrix[row * depth]) != QN_OK) return {};
  }
  return cursor.finish() == QN_OK ? matrix : Matrix();
}

std::array<uint8_t, rans_symbols> random_levels(uint32_t seed, unsigned percent, unsigned most) {
  std::mt19937 generator(seed);
  std::array<uint8_t, rans_symbols> levels;
  for (uint8_t& level : levels) level = static_cast<uint8_t>(generator() % 100 < percent ? 1 + generator() % most : 0);
  return levels;
}

TEST(Rans, FrequenciesAddUpAndFollowLevels) {
  std::array<uint16_t, rans_symbols> frequencies;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto levels = random_levels(seed, 1 + seed % 100, 1 + seed % rans_most_level);
    if (std::all_of(levels.begin(), levels.end(), [](uint8_t l) { return l == 0; })) continue;
    ASSERT_TRUE(rans_frequencies(levels, frequencies));
    uint32_t sum = 0;
    for (size_t s = 0; s < rans_symbols; ++s) {
      sum += frequencies[s];
      EXPECT_EQ(frequencies[s] == 0, levels[s] == 0) << seed;
    }
    EXPECT_EQ(sum, rans_total) << seed;
  }
  std::array<uint8_t, rans_symbols> levels = {};
  EXPECT_FALSE(rans_frequencies(levels, frequencies)) << "no symbol";
  levels[3] = rans_most_level + 1;
  EXPECT_FALSE(rans_frequencies(levels, frequencies)) << "too high a level";
  levels = {};
  levels[0] = 40, levels[9] = 48;  // an octave apart
  ASSERT_TRUE(rans_frequencies(levels, frequencies));
  EXPECT_NEAR(frequencies[9], 2 * frequencies[0], 300);
}

TEST(Rans, LevelsAreInterpolated) {
  std::array<uint8_t, rans_symbols> levels;
  ASSERT_TRUE(rans_levels(std::vector<RansKnot>{{0, 10}, {4, 30}, {1, 0}, {3, 7}, {2, 9}}, levels));
  const std::vector<int> expected = {10, 15, 20, 25, 30, 0, 0, 0, 7, 8, 9, 0};
  EXPECT_EQ(std::vector<int>(levels.begin(), levels.begin() + 12), expected);
  ASSERT_TRUE(rans_levels(std::vector<RansKnot>{{254, 3}, {1, 4}}, levels));
  EXPECT_EQ(levels[253], 0);
  EXPECT_EQ(levels[254], 3);
  EXPECT_EQ(levels[255], 4);
  EXPECT_FALSE(rans_levels(std::vector<RansKnot>{{254, 3}, {2, 4}}, levels)) << "beyond the last symbol";
  EXPECT_FALSE(rans_levels(std::vector<RansKnot>{{1, 3}, {0, 4}}, levels)) << "no distance";
}

TEST(Rans, TablesHaveEachSlotOnce) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    auto levels = random_levels(seed, 1 + seed * 5 % 100, rans_most_level);
    levels[seed] = 30;
    std::array<uint16_t, rans_symbols> frequencies;
    ASSERT_TRUE(rans_frequencies(levels, frequencies));
    const RansTable table(frequencies);
    std::vector<std::vector<bool>> seen(rans_symbols);
    for (size_t s = 0; s < rans_symbols; ++s) seen[s].resize(frequencies[s]);
    for (uint32_t slot = 0; slot < rans_total; ++slot) {
      const RansTable::Entry& entry = table.find(slot);
      const auto s = static_cast<size_t>(entry.symbol + 128);
      const auto index = static_cast<uint16_t>(slot + entry.offset);
      ASSERT_EQ(entry.frequency, frequencies[s]);
      ASSERT_LT(index, frequencies[s]);
      ASSERT_FALSE(seen[s][index]);
      seen[s][index] = true;
    }
  }
}

TEST(Rans, GivesBackEveryMatrix) {
  constexpr size_t shapes[][2] = {{1, 1},  {1, 2},   {1, 3},    {2, 4},    {3, 1},   {5, 7},
                                  {40, 9}, {33, 27}, {17, 256}, {130, 64}, {130, 65}};
  for (const Case& c : cases) {
    for (const auto& [rows, depth] : shapes) {
      const Matrix matrix = make(c, rows, depth);
      const Stream stream = encode(matrix, rows, depth);
      for (const size_t strip : {size_t{1}, size_t{3}, rows})
        EXPECT_EQ(decode(stream, rows, depth, strip), matrix) << c.name << " " << rows << " x " << depth;
    }
  }
}

// The bytes before the words, and the bits that the words take by the probabilities of the stream's own tables.
struct Ideal {
  size_t before = 0;
  double bits = 0;
};

Ideal ideal_of(const Stream& stream, const Matrix& matrix, size_t rows, size_t depth) {
  RansHeader header;
  std::memcpy(&header, stream.data(), sizeof header);
  const unsigned char* at = stream.data() + sizeof header;
  std::vector<unsigned char> tables(header.table_bytes);
  EXPECT_TRUE(decode_small({at, header.coded_bytes}, rans_table_stride, tables.data(), tables.size()));
  std::vector<std::array<uint16_t, rans_symbols>> frequencies(header.tables);
  size_t position = 0;
  for (auto& of_table : frequencies) {
    const size_t knots = size_t{tables[position]} + 1;
    std::array<uint8_t, rans_symbols> levels;
    EXPECT_TRUE(rans_levels({reinterpret_cast<const RansKnot*>(&tables[position + 1]), knots}, levels));
    EXPECT_TRUE(rans_frequencies(levels, of_table));
    position += 1 + knots * sizeof(RansKnot);
  }
  EXPECT_EQ(position, tables.size());
  at += header.coded_bytes;
  const unsigned bits = rans_class_bits(header.tables);
  Ideal ideal;
  ideal.before = sizeof header + header.coded_bytes + ((header.by_column != 0 ? depth : rows) * bits + 7) / 8;
  for (size_t i = 0; i < matrix.size(); ++i) {
    const size_t line = header.by_column != 0 ? i % depth : i / depth;
    size_t table = 0;
    for (size_t b = 0; b < bits; ++b) table |= (at[(line * bits + b) / 8] >> (line * bits + b) % 8 & size_t{1}) << b;
    ideal.bits -= std::log2(frequencies[table][static_cast<size_t>(matrix[i] + 128)] / double{rans_total});
  }
  return ideal;
}

TEST(Rans, TakesTheBitsOfItsProbabilities) {
  constexpr size_t rows = 96, depth = 300;
  for (const Case& c : cases) {
    const Matrix matrix = make(c, rows, depth);
    const Stream stream = encode(matrix, rows, depth);
    const Ideal ideal = ideal_of(stream, matrix, rows, depth);
    const auto words = static_cast<double>(stream.size() - ideal.before);
    EXPECT_LE(words, 1.005 * ideal.bits / 8 + 20) << c.name;
    EXPECT_GE(words, ideal.bits / 8) << c.name;
    EXPECT_LE(stream.size(), 1.01 * ideal.bits / 8 + 400) << c.name;
  }
}

// Rows, or columns, of other spread have other tables. All are within 3% of the entropy that they are drawn from.
TEST(Rans, TellsLinesApart) {
  constexpr size_t rows = 300, depth = 270;
  const auto entropy = [](double scale) {  // of laplace()
    double bits = 0, rest = 1;
    for (int size = 0; size < 128; ++size) {
      const double after = size == 127 ? 0 : std::exp(-(size + 0.5) / scale), p = rest - after;
      rest = after;
      if (p > 0) bits -= p * (std::log2(p) - (size != 0));
    }
    return bits;
  };
  const double of_rows = rows * depth * (entropy(2) / 3 + entropy(30) * 2 / 3) / 8;
  const double of_columns = rows * depth * (entropy(40) / 9 + entropy(3) * 8 / 9) / 8;
  EXPECT_LT(encode(make(cases[10], rows, depth), rows, depth).size(), 1.03 * of_rows);
  EXPECT_LT(encode(make(cases[11], rows, depth), rows, depth).size(), 1.03 * of_columns);
}

// Small data is refused by its end only, so some truncated streams pass.
TEST(Rans, RefusesTruncatedStreams) {
  size_t small = 0, passed = 0;
  for (const Case& c : cases) {
    for (const size_t rows : {9, 19, 99}) {
      const Matrix matrix = make(c, rows, 101);
      const Stream stream = encode(matrix, rows, 101);
      const size_t step = rows < 20 ? 1 : 53;
      for (size_t size = 0; size < stream.size(); size += size + 20 < stream.size() ? step : 1) {
        const bool refused =
            decode({stream.begin(), stream.begin() + static_cast<ptrdiff_t>(size)}, rows, 101, 2).empty();
        if (stream[0] == 0) ++small, passed += !refused;
        EXPECT_TRUE(refused || stream[0] == 0) << c.name << " " << size;
      }
      Stream longer = stream;
      longer.push_back(0);
      EXPECT_TRUE(decode(longer, rows, 101, 2).empty()) << c.name;
      EXPECT_TRUE(decode(stream, rows, 100, 2).empty() || stream[0] == 0 || stream.size() < 40)
          << c.name << ": other sizes";
    }
  }
  EXPECT_GT(small, 1000u);
  EXPECT_LT(passed, small / 10);
}

// So a short stream does not take the time of the matrix that a file promises.
TEST(Rans, StopsWhereAStreamEnds) {
  constexpr size_t rows = 90, depth = 100;
  constexpr int8_t untouched = 111;
  size_t tried = 0;
  for (const Case& c : cases) {
    const Stream stream = encode(make(c, rows, depth), rows, depth);
    if (stream.size() < 2000) continue;
    RansRows cursor;
    ASSERT_EQ(RansRows::open({stream.data(), stream.size() / 2}, rows, depth, &cursor), QN_OK) << c.name;
    Matrix matrix(rows * depth, untouched);
    EXPECT_EQ(cursor.read(rows, matrix.data()), QN_BAD_MODEL) << c.name;
    EXPECT_EQ(std::count(matrix.begin() + 60 * depth, matrix.end(), untouched), 30 * depth) << c.name;
    ++tried;
  }
  EXPECT_GT(tried, 5u);
}

TEST(Rans, RefusesSizesWithoutElementsAndTooManyOfThem) {
  const Stream stream = encode(make(cases[0], 90, 100), 90, 100);
  for (const auto& [rows, depth] : {std::pair<size_t, size_t>{0, 100}, {90, 0}, {SIZE_MAX / 4, 100}, {SIZE_MAX, 1}}) {
    RansRows cursor;
    EXPECT_EQ(RansRows::open({stream.data(), stream.size()}, rows, depth, &cursor), QN_BAD_MODEL) << rows;
  }
}

TEST(Rans, RefusesLongerTablesThanThereMayBe) {
  for (const bool too_long : {false, true}) {
    const auto bytes = static_cast<uint16_t>(16 * 513 + too_long);
    const RansHeader header = {16, 0, bytes, 0};
    Stream stream(100);
    std::memcpy(stream.data(), &header, sizeof header);
    RansRows cursor;
    EXPECT_EQ(RansRows::open({stream.data(), stream.size()}, 9, 9, &cursor), QN_BAD_MODEL);
    EXPECT_NE(std::string(qn_last_message()).find(too_long ? "damaged header" : "are damaged"), std::string::npos)
        << qn_last_message();
  }
}

TEST(Rans, SurvivesDamage) {
  std::mt19937 generator(1);
  size_t refused = 0, tried = 0;
  for (const Case& c : cases) {
    const Matrix matrix = make(c, 90, 100);
    const Stream stream = encode(matrix, 90, 100);
    ASSERT_NE(stream[0], 0) << "no small data";
    for (int i = 0; i < 300; ++i) {
      Stream damaged = stream;
      for (unsigned k = 0; k <= generator() % 3; ++k)
        damaged[generator() % damaged.size()] ^= static_cast<unsigned char>(1U << generator() % 8);
      if (damaged == stream) continue;
      ++tried;
      refused += decode(damaged, 90, 100, 5).empty();
    }
  }
  EXPECT_GT(refused, tried * 9 / 10);
}

}  // namespace rans_test
}  // namespace quern
