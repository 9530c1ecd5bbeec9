#include "graph/coder/rans.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "base/status.h"
#include "graph/coder/small_coder.h"

namespace quern {
namespace {

template <class T>
T load(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// In which of many ways a stream is damaged helps nobody.
[[gnu::noinline]] qn_status fail_damaged() { return fail(QN_BAD_MODEL, "coded weights are damaged"); }

// A state takes the element that it stands for out of itself, and a word in if it has become small.
struct Words {
  const unsigned char *next, *end;

  // There is a word left.
  int8_t decode(const RansTable& table, uint32_t* state) {
    const int8_t symbol = take(table, state);
    const uint32_t bits = 16 * uint32_t{*state < rans_least_state};  // no branch, which would be mispredicted
    *state = *state << bits | (load<uint16_t>(next) & ((uint32_t{1} << bits) - 1));
    next += bits / 8;
    return symbol;
  }
  // Where a word may be missing. Then the state is wrong, and `missing` says so.
  int8_t decode_last(const RansTable& table, uint32_t* state) {
    const int8_t symbol = take(table, state);
    if (*state >= rans_least_state) return symbol;
    missing = end - next < ptrdiff_t{sizeof(uint16_t)};
    if (missing) return symbol;
    *state = *state << 16 | load<uint16_t>(next);
    next += sizeof(uint16_t);
    return symbol;
  }
  bool missing = false;

 private:
  static int8_t take(const RansTable& table, uint32_t* state) {
    const uint32_t slot = *state % rans_total;
    const RansTable::Entry& entry = table.find(slot);
    *state = entry.frequency * (*state / rans_total) + slot + static_cast<uint32_t>(entry.offset);
    return entry.symbol;
  }
};

// Decodes a row, or what of it comes before a missing word. table(i) is that of column i.
template <class Table>
void decode_row(size_t depth, const Table& table, Words* words, std::array<uint32_t, rans_states>* states, int8_t* to) {
  uint32_t a = (*states)[0], b = (*states)[1], c = (*states)[2], d = (*states)[3];
  Words w = *words;
  size_t i = 0;
  for (; i + rans_states <= depth && w.end - w.next >= ptrdiff_t{rans_states * sizeof(uint16_t)}; i += rans_states) {
    to[i] = w.decode(table(i), &a);
    to[i + 1] = w.decode(table(i + 1), &b);
    to[i + 2] = w.decode(table(i + 2), &c);
    to[i + 3] = w.decode(table(i + 3), &d);
  }
  *states = {a, b, c, d};
  for (; i < depth && !w.missing; ++i) to[i] = w.decode_last(table(i), &(*states)[i % rans_states]);
  *words = w;
}

}  // namespace

bool rans_frequencies(std::span<const uint8_t, rans_symbols> levels, std::span<uint16_t, rans_symbols> frequencies) {
  constexpr uint32_t eighths[] = {64, 70, 76, 83, 91, 99, 108, 117};  // of an octave
  std::array<uint64_t, rans_symbols> weights = {};
  uint64_t sum = 0;
  size_t most = 0;
  for (size_t s = 0; s < rans_symbols; ++s) {
    if (levels[s] > rans_most_level) return false;
    if (levels[s] != 0) weights[s] = uint64_t{eighths[levels[s] % 8]} << levels[s] / 8;
    if (weights[s] > weights[most]) most = s;
    sum += weights[s];
  }
  if (sum == 0) return false;
  // Each symbol has a slot at least; the most frequent one has what is left over. At most 256 symbols have too much.
  uint32_t left = rans_total;
  for (size_t s = 0; s < rans_symbols; ++s) {
    const auto frequency = static_cast<uint32_t>(weights[s] * (rans_total - rans_symbols) / sum) + (weights[s] != 0);
    frequencies[s] = static_cast<uint16_t>(frequency);
    left -= frequency;
  }
  frequencies[most] = static_cast<uint16_t>(frequencies[most] + left);
  return true;
}

bool rans_levels(std::span<const RansKnot> knots, std::span<uint8_t, rans_symbols> levels) {
  std::fill(levels.begin(), levels.end(), uint8_t{0});
  size_t at = 0;  // symbol + 128
  unsigned level = 0;
  for (const RansKnot& knot : knots) {
    const size_t before = at;
    at += knot.distance;
    if ((knot.distance == 0 && &knot != knots.data()) || at >= rans_symbols) return false;
    const bool absent = level == 0 || knot.level == 0;
    for (size_t s = before + 1; s < at && !absent; ++s) {
      const size_t sum = level * (at - s) + knot.level * (s - before);
      levels[s] = static_cast<uint8_t>((sum + knot.distance / 2U) / knot.distance);
    }
    levels[at] = knot.level;
    level = knot.level;
  }
  return true;
}

// Each bucket is filled by its own symbol and, if that has fewer slots, by one that has more than a bucket.
RansTable::RansTable(std::span<const uint16_t, rans_symbols> frequencies) {
  std::array<uint16_t, rans_symbols> left, given = {};  // slots that are in no bucket yet; that are
  std::array<uint8_t, rans_symbols> small;              // symbols with less than a bucket left, as a stack
  std::copy(frequencies.begin(), frequencies.end(), left.begin());
  size_t smalls = 0, large = 0;
  for (size_t s = 0; s < rans_symbols; ++s) {
    if (left[s] < bucket_slots) small[smalls++] = static_cast<uint8_t>(s);
  }
  const auto give = [&](size_t bucket, size_t half, size_t symbol, uint32_t begin, uint32_t count) {
    entries_[2 * bucket + half] = {static_cast<int32_t>(given[symbol] - (bucket * bucket_slots + begin)),
                                   frequencies[symbol], static_cast<int8_t>(symbol - 128)};
    left[symbol] = static_cast<uint16_t>(left[symbol] - count);
    given[symbol] = static_cast<uint16_t>(given[symbol] + count);
  };
  // The frequencies add up to all slots, so there is a large symbol as long as there is a small one.
  while (smalls > 0) {
    const size_t bucket = small[--smalls];
    own_[bucket] = static_cast<uint8_t>(left[bucket]);
    give(bucket, 0, bucket, 0, left[bucket]);
    while (left[large] < bucket_slots) ++large;
    give(bucket, 1, large, own_[bucket], bucket_slots - own_[bucket]);
    left[bucket] = 0;
    if (left[large] < bucket_slots) small[smalls++] = static_cast<uint8_t>(large);
  }
  for (size_t s = 0; s < rans_symbols; ++s) {
    if (left[s] == 0) continue;
    own_[s] = bucket_slots;
    give(s, 0, s, 0, bucket_slots);
    entries_[2 * s + 1] = entries_[2 * s];
  }
}

qn_status RansRows::open(std::span<const unsigned char> stream, size_t rows, size_t depth, RansRows* to) {
  RansHeader header;
  size_t count;
  if (!checked_mul(rows, depth, &count) || count == 0 || count > SIZE_MAX / 8)
    return fail(QN_BAD_MODEL, "coded weights of %zu x %zu", rows, depth);
  to->depth_ = depth;
  if (!stream.empty() && stream[0] == 0) return to->read_small(stream.subspan(1), count);
  if (stream.size() < sizeof header) return fail_damaged();
  std::memcpy(&header, stream.data(), sizeof header);
  stream = stream.subspan(sizeof header);
  to->by_column_ = header.by_column != 0;
  if (header.tables > rans_most_tables || header.by_column > 1 || header.table_bytes > rans_most_table_bytes ||
      header.coded_bytes > stream.size()) {
    return fail(QN_BAD_MODEL, "coded weights have a damaged header");
  }
  Vector<uint8_t> tables(header.table_bytes);
  if (!decode_small(stream.first(header.coded_bytes), rans_table_stride, tables.data(), tables.size()))
    return fail_damaged();
  QN_TRY(to->read_tables({tables.data(), tables.size()}, header.tables));
  return to->read_classes(stream.subspan(header.coded_bytes), to->by_column_ ? depth : rows);
}

// All elements, which are read from a copy then.
qn_status RansRows::read_small(std::span<const unsigned char> stream, size_t count) {
  if (count > rans_most_small) return fail_damaged();
  small_.resize(count);
  const bool good = decode_small(stream, depth_, small_.data(), count);
  return good ? QN_OK : fail_damaged();
}

// And the states after them.
qn_status RansRows::read_classes(std::span<const unsigned char> stream, size_t count) {
  const unsigned bits = rans_class_bits(tables_.size());
  const size_t bytes = divide_up(count * bits, 8), states_bytes = rans_states * sizeof(uint32_t);
  if (stream.size() < states_bytes || bytes > stream.size() - states_bytes) return fail_damaged();
  classes_.resize(bits == 0 ? 0 : count);
  for (size_t i = 0; i < classes_.size(); ++i) {
    const size_t at = i * bits;
    unsigned c = 0;
    for (unsigned b = 0; b < bits; ++b) c |= (stream[(at + b) / 8] >> (at + b) % 8 & 1U) << b;
    if (c >= tables_.size()) return fail_damaged();
    classes_[i] = static_cast<uint8_t>(c);
  }
  std::memcpy(states_.data(), &stream[bytes], states_bytes);
  next_ = &stream[bytes] + states_bytes, end_ = stream.data() + stream.size();
  return QN_OK;
}

qn_status RansRows::read_tables(std::span<const uint8_t> bytes, size_t count) {
  std::array<uint8_t, rans_symbols> levels;
  std::array<uint16_t, rans_symbols> frequencies;
  for (; count > 0; --count) {
    const size_t size = bytes.empty() ? 0 : (size_t{bytes[0]} + 1) * sizeof(RansKnot);
    if (bytes.size() <= size) return fail_damaged();
    const auto* const knots = reinterpret_cast<const RansKnot*>(&bytes[1]);
    if (!rans_levels({knots, size / sizeof *knots}, levels) || !rans_frequencies(levels, frequencies))
      return fail_damaged();
    tables_.push_back(RansTable(frequencies));
    bytes = bytes.subspan(1 + size);
  }
  return bytes.empty() ? QN_OK : fail_damaged();
}

qn_status RansRows::read(size_t count, int8_t* to) {
  if (tables_.empty()) {
    if (count != 0) std::memcpy(to, &small_[row_ * depth_], count * depth_);
    row_ += count;
    return QN_OK;
  }
  Words words = {next_, end_};
  const bool by_column = by_column_ && !classes_.empty();
  size_t depth = depth_, columns = SIZE_MAX;
  if (by_column && depth == rans_states) {  // f32 values: all rows are one, so that states stay in registers
    depth *= count;
    count = count != 0;
    columns = rans_states - 1;
  }
  for (; count > 0 && !words.missing; --count, to += depth) {
    if (by_column) {
      const auto column = [=, tables = tables_.data(), classes = classes_.data()](size_t i) -> const RansTable& {
        return tables[classes[i & columns]];
      };
      decode_row(depth, column, &words, &states_, to);
    } else {
      const RansTable& table = table_of(row_++);
      decode_row(
          depth, [&](size_t) -> const RansTable& { return table; }, &words, &states_, to);
    }
  }
  next_ = words.next;
  return words.missing ? fail_damaged() : QN_OK;
}

qn_status RansRows::finish() const {
  if (tables_.empty()) return QN_OK;  // decode_small() has looked
  const bool begun = std::all_of(states_.begin(), states_.end(), [](uint32_t s) { return s == rans_least_state; });
  return begun && next_ == end_ ? QN_OK : fail_damaged();
}

}  // namespace quern
