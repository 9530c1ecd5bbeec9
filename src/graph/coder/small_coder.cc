#include "graph/coder/small_coder.h"

#include <algorithm>

namespace quern {
namespace {

constexpr int bias = 256;             // the constant input of mixers
constexpr int negligible = 256;       // smaller errors of the mixer are not worth the time to correct them
constexpr uint16_t doubtful = 49152;  // a suggestion with more misses is not worth a decision

// Not inlined, because that takes more code and saves hardly any time.
[[gnu::noinline]] uint32_t hash(uint32_t a, uint32_t b) {
  uint32_t h = a * 0x9E3779B1 ^ (b + 0x7F4A7C15) * 0x85EBCA6B;
  h = (h ^ h >> 15) * 0x2C1B3C6D;
  return h ^ h >> 13;
}

}  // namespace

SmallModel::SmallModel(const unsigned char* bytes, size_t stride)
    : tables_(1), bytes_(bytes), stride_(std::clamp<size_t>(stride, 1, 1 << 20)) {
  Tables& t = tables_[0];
  // The logistic function, by Euler's method: p' = p (1 - p).
  uint64_t p = uint64_t{1} << 31;
  for (int x = 0; x <= limit; ++x) {
    t.probability[limit + 1 + x] = static_cast<uint16_t>(p >> 16);
    t.probability[limit + 1 - x] = static_cast<uint16_t>(0x10000 - (p >> 16));
    p += p * ((uint64_t{1} << 32) - p) >> 40;
  }
  int x = -limit;
  for (int i = 0; i < 1 << 12; ++i) {
    while (x < limit && t.probability[limit + 1 + x] < i * 16 + 8) ++x;
    t.log_odds[i] = static_cast<int16_t>(x);
  }
  for (unsigned i = 0; i < 256; ++i) {
    const unsigned same = i >> 4, other = i & 15;
    // Recent values count more: if one is seen, a large count of the other shrinks.
    const unsigned more = std::min(same + 1, 15U), fewer = other > 2 ? std::min(other / 2 + 1, 4U) : other;
    t.next[0][i] = static_cast<unsigned char>(more << 4 | fewer);
    t.next[1][other << 4 | same] = static_cast<unsigned char>(fewer << 4 | more);
    t.rate[i] = static_cast<uint16_t>(0x10000 / (i + 8));
    for (auto& estimates : t.estimates) estimates[i] = ((5 * other + 2) << 24) / (5 * (same + other) + 4) << 8;
  }
  for (auto& weights : t.weights) std::fill_n(weights, inputs, 12000);
  input_[contexts] = bias;
  begin();
}

// Follows the match if it still holds. If not, takes the last position after the same 4 bytes.
void SmallModel::find_match() {
  uint32_t& seen = tables_[0].seen[0][hash(static_cast<uint32_t>(recent_), 0) >> (32 - hash_bits)];
  if (length_ > 0 && bytes_[match_] == (recent_ & 255)) {
    ++match_;
    length_ += length_ < levels - 1;
  } else {
    match_ = seen;
    length_ = match_ > 0 && bytes_[match_ - 1] == (recent_ & 255) ? 3 : 0;  // an estimate: only the hashes of 4 agree
  }
  seen = static_cast<uint32_t>(position_);
}

// Collects the contexts of a byte, and chooses a suggestion.
void SmallModel::begin() {
  Tables& t = tables_[0];
  const auto position = static_cast<uint32_t>(position_), recent = static_cast<uint32_t>(recent_);
  const auto older = static_cast<uint32_t>(recent_ >> 32), column = static_cast<uint32_t>(position_ % stride_);
  const uint32_t in_word = position % 4;
  column_ = column % columns;
  if (in_word == 0) {
    as_expected_ = true;
    if (stride_ == 4) {
      // The word after the last occurrence of the two words before. A FlatBuffer's offsets count from their own
      // positions: of two tables of the same kind, the later one's vtable is farther away by the distance of the two.
      uint32_t& seen = t.seen[1][hash(recent, older) >> (32 - hash_bits)];
      expected_ = 0;
      if (seen > 0) {
        for (uint32_t i = 4; i > 0; --i) expected_ = expected_ << 8 | bytes_[seen + i - 1];
        expected_ += position - seen;
      }
      seen = position;
    }
  }
  const uint32_t up = byte(stride_), higher = byte(2 * stride_);
  const uint32_t magnitudes = recent ^ (recent >> 7 & 0x0101) * 255;  // of two int8, less 1 if negative
  const unsigned matched = length_ == 0 ? 0 : bytes_[match_], expected = expected_ & 255;
  const uint32_t found[contexts] = {
      column,
      column | recent << 24,
      column | up << 24,
      column | (magnitudes & 0x7070) << 16,
      column | (recent & 0xf0f0) << 16 | (up & 0xf0) << 20,
      up | higher << 8,
      matched | length_ << 8,
      expected | in_word << 8 | uint32_t{as_expected_} << 10,
      older,
  };
  for (uint32_t i = 0; i < contexts; ++i) hashes_[i] = hash(found[i], i);
  auto& last = t.last[hashes_[1] >> (32 - hash_bits)];
  suggestions_[0] = {matched, length_};
  suggestions_[1] = {last.byte, levels + last.repeats};
  unsigned fewest = doubtful;
  bits_ = 1;
  for (const Suggestion& suggestion : suggestions_) {
    const unsigned misses = t.misses[suggestion.confidence];
    if (misses >= fewest) continue;
    fewest = misses;
    bits_ = 0;
    suggestion_ = suggestion;
  }
}

uint32_t SmallModel::predict() {
  Tables& t = tables_[0];
  const bool first = bits_ == 0;  // the decision whether the byte is the suggested one
  const unsigned known = first ? 8 : static_cast<unsigned>(std::bit_width(bits_)) - 1;  // number of bits
  // The slots for the bits of half a byte are stored in one cache line: `upper` selects the line, `lower` the slot.
  const unsigned upper = first ? 256 + suggestion_.byte : bits_;
  const unsigned lower = (1U << known % 4) | (bits_ & ((1U << known % 4) - 1));
  const size_t row = sources * levels + ((length_ > 0 ? columns : 0) + column_) * 8 + known;
  weights_ = t.weights[first ? suggestion_.confidence : row];
  int64_t sum = int64_t{weights_[contexts]} * bias;
  if (known % 4 == 0) {
    for (size_t i = 0; i < contexts; ++i) lines_[i] = hash(hashes_[i], upper);
  }
  for (size_t i = 0; i < contexts; ++i) {
    uint16_t* const slot = slots_[i] = &t.slots[(lines_[i] ^ lower) & 0xffff];
    const uint32_t check = lines_[i] >> 24 << 8, found = *slot - check;
    // found < 256 ? found : 0, but without a branch, which would be mispredicted.
    const uint32_t counts = found & static_cast<uint32_t>(static_cast<int32_t>((found >> 8) - 1) >> 31);
    *slot = static_cast<uint16_t>(check | counts);
    uint32_t* const estimate = estimates_[i] = &t.estimates[i][counts];
    input_[i] = t.log_odds[*estimate >> 20];
    sum += int64_t{weights_[i]} * input_[i];
  }
  const auto odds = static_cast<int>(std::clamp<int64_t>(sum >> 16, -limit, limit));
  return predicted_ = t.probability[limit + 1 + odds];
}

bool SmallModel::update(unsigned decision) {
  Tables& t = tables_[0];
  const int wanted = static_cast<int>(decision << 16);
  const int error = wanted - static_cast<int>(predicted_);
  if (error <= -negligible || error >= negligible) {
    for (size_t i = 0; i < inputs; ++i) {
      const int step = (input_[i] * error + (1 << 12)) >> 13;
      weights_[i] = static_cast<int32_t>(static_cast<uint32_t>(weights_[i]) + static_cast<uint32_t>(step));
    }
  }
  for (size_t i = 0; i < contexts; ++i) {
    const unsigned slot = *slots_[i];
    *slots_[i] = static_cast<uint16_t>((slot & 0xff00) | t.next[decision][slot & 255]);
    const uint32_t before = *estimates_[i], updates = before & 255;
    const int step = (wanted - static_cast<int>(before >> 16)) * t.rate[updates];
    *estimates_[i] = before + (static_cast<uint32_t>(step) & ~255U) + (updates < 255);
  }
  bits_ = bits_ > 0 ? bits_ << 1 | decision : decision ? 256 | suggestion_.byte : 1;
  return bits_ >= 256;
}

void SmallModel::next() {
  Tables& t = tables_[0];
  const unsigned byte = complete();
  for (const Suggestion& suggestion : suggestions_) {
    uint16_t& misses = t.misses[suggestion.confidence];
    misses = static_cast<uint16_t>(misses + (((suggestion.byte == byte ? 0 : 65535) - misses) >> 5));
  }
  auto& last = t.last[hashes_[1] >> (32 - hash_bits)];
  last.repeats = static_cast<unsigned char>(last.byte == byte ? last.repeats + (last.repeats < levels - 1) : 0);
  last.byte = static_cast<unsigned char>(byte);
  as_expected_ &= (expected_ & 255) == byte;
  expected_ >>= 8;
  recent_ = recent_ << 8 | byte;
  ++position_;
  find_match();
  begin();
}

bool decode_small(std::span<const unsigned char> stream, size_t stride, unsigned char* to, size_t count) {
  SmallModel model(to, stride);
  Interval interval = {0, 0};  // of no bytes yet, so that the loop reads 4
  uint32_t code = 0;
  size_t at = 0;
  for (size_t i = 0;;) {
    for (; interval.settled(); interval.shift(), ++at) code = code << 8 | (at < stream.size() ? stream[at] : 0U);
    if (i == count) break;
    const uint32_t middle = interval.middle(model.predict());
    const unsigned bit = code <= middle;
    interval.narrow(bit, middle);
    if (!model.update(bit)) continue;
    to[i++] = static_cast<unsigned char>(model.complete());
    model.next();
  }
  uint32_t last;
  return at - 4 + interval.end(&last) == stream.size() && code == last;
}

}  // namespace quern
