// An adaptive coder for small structured data: descriptions of models, tables, small int8 arrays. It codes each byte as
// a few decisions: first whether it is the byte that earlier ones suggest, then, if it is not, its bits. Several
// contexts predict each decision, a mixer weighs their predictions, and a binary arithmetic coder codes the decision by
// the result. All arithmetic is in integers, so that every CPU makes the same predictions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/vector.h"

namespace quern {

// Decodes `count` bytes. `stride` must be the one that encode_small() got. Returns false unless the stream is exactly
// used up: all of its bytes are needed, none is missing, and it ends as encode_small() ends it. This detects most
// truncated streams, but it is no checksum. Missing bytes are read as 0.
bool decode_small(std::span<const unsigned char> stream, size_t stride, unsigned char* to, size_t count);

// Predicts the decisions that make up a sequence of bytes. For each byte, the encoder and the decoder call predict()
// and update() until the latter returns true, then next().
class SmallModel {
 public:
  // `bytes` is the sequence. The model reads a byte only after the call of next() that ends it.
  SmallModel(const unsigned char* bytes, size_t stride);
  // Returns the probability that the next decision is 1, in units of 2^-16: neither 0 nor 2^16.
  uint32_t predict();
  // The encoder's next decision.
  unsigned decision(unsigned byte) const {
    return bits_ == 0 ? byte == suggestion_.byte : byte >> (8 - std::bit_width(bits_)) & 1;
  }
  // Returns true if complete() is now the byte.
  bool update(unsigned decision);
  unsigned complete() const { return bits_ & 255; }
  void next();

 private:
  static constexpr size_t contexts = 9, inputs = contexts + 1;  // the last input is constant
  static constexpr unsigned sources = 2, levels = 16, columns = 16, hash_bits = 12;
  static constexpr int limit = 2047;  // of log odds, in units of 1/256

  // The tables are one object, because one allocation takes less code. All of its bytes are 0 at first.
  struct Tables {
    // Hashed by context and earlier decisions: 8 bits to detect collisions, and counts of zeros and ones, 4 bits each.
    uint16_t slots[1 << 16];
    uint16_t probability[2 * (limit + 1)];  // of log odds
    int16_t log_odds[1 << 12];              // of probabilities
    unsigned char next[2][256];             // the two counts after a 0 and after a 1
    uint16_t rate[256];                     // at which an estimate adapts, by the number of its updates
    // By context and the two counts: the probability of a 1 (24 bits) and the number of updates (8 bits).
    uint32_t estimates[contexts][256];
    int32_t weights[sources * levels + 2 * columns * 8][inputs];  // of the mixer, in units of 2^-16
    uint32_t seen[2][1 << hash_bits];  // the last position after the same 4 bytes, and after the same 2 words
    struct {
      unsigned char byte, repeats;
    } last[1 << hash_bits];             // the last byte in the same column after the same byte
    uint16_t misses[sources * levels];  // by confidence: how often a suggestion was wrong, in units of 2^-16
  };
  // A byte that may be next. The confidence also tells the sources apart: each has `levels` of its own.
  struct Suggestion {
    unsigned byte, confidence;
  };

  // The byte so many bytes before the current one; 0 if there is none or `back` is 0.
  unsigned byte(size_t back) const { return back - 1 < position_ ? bytes_[position_ - back] : 0U; }
  void find_match();
  void begin();

  Vector<Tables> tables_;
  const unsigned char* bytes_;
  size_t stride_;
  size_t position_ = 0;      // the number of bytes before the current one
  size_t column_;            // of this byte, modulo `columns`
  unsigned bits_;            // the known bits below a 1; 0 before the decision whether the byte is the suggested one
  uint64_t recent_ = 0;      // the last 8 bytes
  uint32_t expected_ = 0;    // what is left of the word expected at this position
  bool as_expected_ = true;  // the bytes of this word so far
  size_t match_ = 0;         // a position after the same `length_` bytes as those before the current one
  unsigned length_ = 0;
  Suggestion suggestions_[sources];
  Suggestion suggestion_;
  // Of each context. A struct for each would make the loops over contexts longer.
  uint32_t hashes_[contexts], lines_[contexts];  // of the context; of the context and the upper half of the byte
  uint16_t* slots_[contexts];
  uint32_t* estimates_[contexts];
  int32_t input_[inputs];
  int32_t* weights_;    // of the next decision
  uint32_t predicted_;  // the probability that predict() returned
};

// The numbers that a stream may stand for, without the bytes that are settled.
struct Interval {
  uint32_t low = 0, high = UINT32_MAX;

  // The last number that stands for a 1.
  uint32_t middle(uint32_t probability) const {
    return low + static_cast<uint32_t>(uint64_t{high - low} * probability >> 16);
  }
  void narrow(unsigned bit, uint32_t middle) { (bit ? high : low) = bit ? middle : middle + 1; }
  // Whether all numbers have the same highest byte. shift() then removes it.
  bool settled() const { return (low ^ high) >> 24 == 0; }
  void shift() { low <<= 8, high = high << 8 | 255; }
  // Returns the fewest bytes that end a stream, and sets `code` to their number. Zeros follow them.
  unsigned end(uint32_t* code) const {
    for (unsigned bytes = 0;; ++bytes) {
      const uint64_t mask = uint64_t{UINT32_MAX} >> 8 * bytes, rounded = (low + mask) & ~mask;
      if (rounded > high) continue;
      *code = static_cast<uint32_t>(rounded);
      return bytes;
    }
  }
};

}  // namespace quern
