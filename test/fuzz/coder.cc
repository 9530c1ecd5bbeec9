#include "coder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>

#include "graph/coder/encode_rans.h"
#include "graph/coder/encode_small.h"
#include "graph/coder/rans.h"
#include "graph/coder/small_coder.h"
#include "graph/file/coded.h"
#include "readers.h"

namespace quern {
namespace {

using Bytes = std::vector<unsigned char>;
using Span = std::span<const unsigned char>;

// The beginning of a case; a stream follows. All values are valid: read_coder() takes them modulo what it can use.
struct Case {
  uint8_t way;           // a Way
  uint8_t floats;        // 0: elements of 1 byte; 1: of 4 bytes
  uint8_t plain_tables;  // 1: the stream's tables are not coded yet. Few damaged ones would pass if they were
  uint8_t strip;         // rows that are read together, less 1
  uint16_t rows, depth;  // less 1
};
static_assert(sizeof(Case) == 8);
enum Way : uint8_t {
  small_data,
  weights,  // CodedConstant
  whole,    // decode_whole()
};

constexpr size_t most_elements = 1024, most_table_bytes = 1024;  // sanitizers make the coder slow

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

template <class T>
Span bytes_of(const T& object) {
  return {reinterpret_cast<const unsigned char*>(&object), sizeof object};
}

Bytes join(std::initializer_list<Span> parts) {
  Bytes all;
  for (const Span part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// ---- tables ---------------------------------------------------------------------------------------------------------

// Codes the tables of a stream that has them as they are.
Bytes code_tables(const Bytes& stream) {
  RansHeader header;
  if (stream.size() < sizeof header || stream[0] == 0) return stream;
  std::memcpy(&header, stream.data(), sizeof header);
  const Span rest = Span(stream).subspan(sizeof header),
             tables = rest.first(std::min<size_t>({header.table_bytes, rest.size(), most_table_bytes}));
  const Vector<unsigned char> coded = encode_small(tables, rans_table_stride);
  header.table_bytes = static_cast<uint16_t>(tables.size());
  header.coded_bytes = static_cast<uint16_t>(coded.size());
  return join({bytes_of(header), {coded.data(), coded.size()}, rest.subspan(tables.size())});
}

// The inverse, of a valid stream.
Bytes decode_tables(Span stream) {
  RansHeader header;
  std::memcpy(&header, stream.data(), sizeof header);
  Bytes tables(header.table_bytes);
  const Span rest = stream.subspan(sizeof header), coded = rest.first(header.coded_bytes);
  expect(decode_small(coded, rans_table_stride, tables.data(), tables.size()), "tables that are not coded");
  return join({bytes_of(header), tables, rest.subspan(coded.size())});
}

// ---- reading --------------------------------------------------------------------------------------------------------

void read_small(const Bytes& stream, size_t stride, size_t count) {
  Bytes decoded(count);
  if (!decode_small(stream, stride, decoded.data(), count)) throw Error("small data is damaged");
}

void read_weights(const Bytes& stream, size_t rows, size_t row_bytes, size_t item, size_t strip) {
  const Shared<const CodedConstant> constant = CodedConstant::make(stream, rows, rows * row_bytes, item, {});
  Bytes all(rows * row_bytes);
  require(constant->decode(0, rows, all.data()));
  for (size_t row = 0; row < rows; row += strip) {
    const size_t count = std::min(strip, rows - row);
    Bytes part(count * row_bytes);
    require(constant->decode(row, count, part.data()));
    expect(std::equal(part.begin(), part.end(), &all[row * row_bytes]), "strips that differ from the matrix");
  }
}

void read_whole(const Bytes& stream, size_t bytes, size_t item) {
  Bytes decoded(bytes);
  require(decode_whole(stream, bytes, item, decoded.data()));
}

}  // namespace

void read_coder(const std::string& bytes) {
  Case c;
  if (bytes.size() < sizeof c) throw Error("no case");
  std::memcpy(&c, bytes.data(), sizeof c);
  Bytes stream(bytes.begin() + sizeof c, bytes.end());
  if (c.plain_tables % 2 != 0) stream = code_tables(stream);
  const size_t depth = 1 + c.depth % most_elements, rows = 1 + c.rows % (most_elements / depth);
  const size_t item = c.floats % 2 != 0 ? sizeof(float) : 1;
  switch (c.way % 3) {
    case small_data: return read_small(stream, depth, rows * depth);
    case weights: return read_weights(stream, rows, depth * item, item, 1 + c.strip % rows);
    default: return read_whole(stream, rows * depth * item, item);
  }
}

// ---- seeds ----------------------------------------------------------------------------------------------------------

std::vector<Seed> coder_seeds() {
  struct Matrix {
    const char* name;
    Way way;
    bool floats;
    uint16_t rows, depth;
    unsigned (*spread)(size_t row, size_t column);  // values are -spread to spread
  };
  static constexpr Matrix matrices[] = {
      {"small data", small_data, false, 50, 4, [](size_t, size_t column) { return column == 0 ? 9U : 0U; }},
      {"small weights", weights, false, 9, 8, [](size_t row, size_t) { return row == 4 ? 1U : 0U; }},
      {"small floats", weights, true, 9, 2, [](size_t, size_t column) { return column % 4 == 3 ? 1U : 0U; }},
      {"zeros", weights, false, 32, 32, [](size_t, size_t) { return 0U; }},
      {"rows", weights, false, 30, 32, [](size_t row, size_t) { return row % 3 == 0 ? 2U : 60U; }},
      {"columns", weights, false, 110, 9, [](size_t, size_t column) { return column % 3 == 0 ? 50U : 1U; }},
      {"floats", weights, true, 16, 30, [](size_t, size_t column) { return column % 4 == 3 ? 2U : 100U; }},
      {"whole", whole, false, 1, 1000, [](size_t, size_t) { return 90U; }},
      {"whole floats", whole, true, 1, 500, [](size_t, size_t column) { return column % 4 == 3 ? 2U : 100U; }},
  };
  std::vector<Seed> seeds;
  std::mt19937 random(1);
  for (const Matrix& m : matrices) {
    const size_t item = m.floats ? sizeof(float) : 1, row_bytes = m.depth * item;
    Vector<int8_t> values(m.rows * row_bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      const unsigned spread = m.spread(i / row_bytes, i % row_bytes);
      values[i] = static_cast<int8_t>(random() % (2 * spread + 1) - spread);
    }
    const CodedShape shape = CodedShape::of(values.size(), m.way == whole ? 0 : m.rows, item);
    const Span bytes(reinterpret_cast<const unsigned char*>(values.data()), values.size());
    const Vector<unsigned char> stream = m.way == small_data
                                             ? encode_small(bytes, m.depth)
                                             : encode_rans({values.data(), values.size()}, shape.rows, shape.depth);
    const auto add = [&](const std::string& name, bool plain, Span content) {
      const Case c = {m.way, m.floats, plain, 4, static_cast<uint16_t>(m.rows - 1), static_cast<uint16_t>(m.depth - 1)};
      const Bytes all = join({bytes_of(c), content});
      seeds.push_back({name, {all.begin(), all.end()}});
    };
    const Span coded(stream.data(), stream.size());
    add(m.name, false, coded);
    if (m.way != small_data && stream[0] != 0)
      add(std::string(m.name) + " with plain tables", true, decode_tables(coded));
  }
  return seeds;
}

}  // namespace quern
