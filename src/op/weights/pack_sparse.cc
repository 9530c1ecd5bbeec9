#include "op/weights/pack_sparse.h"

#include <algorithm>
#include <cstring>

#include "base/cpu.h"
#include "base/math.h"
#include "op/core/window.h"
#include "op/weights/weight_rows.h"

namespace quern {
namespace {

static_assert(sparse_channels <= Nonzeros::most_channels);

constexpr size_t most_outputs = 16;  // output channels of a block

// The parts of one chunk of k, one after the other.
struct Chunk {
  Vector<SparsePart> parts;  // their places count from the beginning of the chunk
  Vector<qn_spmm_set> set;
  Vector<char> index;
  Vector<float> w;  // words

  void put_index(size_t k, size_t bytes) {
    const auto wide = static_cast<uint16_t>(k);
    index.push_back(static_cast<char>(wide & 0xff));
    if (bytes == 2) index.push_back(static_cast<char>(wide >> 8));
  }
};
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

struct Entry {
  size_t row;  // of A, see Source::place()
  float w;
};

// The nonzeros of some output channels, and the chunk that is being packed: rows begin .. end-1 of A.
struct Source {
  const Nonzeros& nonzeros;
  const WeightsShape& shape;
  const SparsePlaces& places;
  size_t* next;  // for each channel, its first nonzero that is not packed yet
  size_t channels, begin, end;

  // The place of a row of A, if each row has `inputs` input channels of a tap. Without SparsePlaces, rows are counted
  // from the beginning of the chunk.
  template <size_t inputs = 1>
  size_t place(size_t row) const {
    if (places == SparsePlaces()) return row - begin;
    const size_t rows = divide_up(shape.in, inputs), tap = row / rows, i = row % rows;
    return i * places.channel + tap / shape.kernel.w * places.tap_row + tap % shape.kernel.w * places.tap_column;
  }
  // The k of a row.
  template <size_t inputs>
  Span inputs_of(size_t row) const {
    if (inputs == 1) return {row, row + 1};
    const size_t rows = divide_up(shape.in, inputs), tap = row / rows * shape.in, i = row % rows * inputs;
    return {tap + i, tap + std::min(i + inputs, shape.in)};
  }
  // Has any of the channels a nonzero at these k?
  [[gnu::always_inline]] bool any(Span ks, size_t first, size_t count) const {
    unsigned all = pattern(ks.begin, first, count);
    for (size_t k = ks.begin + 1; k < ks.end; ++k) all |= pattern(k, first, count);
    return all != 0;
  }
  float take(size_t channel) const { return nonzeros.floats(channel)[next[channel]++]; }
  // A bit for each of `count` output channels from `first` on: 1 if the channel has a nonzero at k. Always inlined, as
  // any() is: at most k there is none, and calls would make packing a fifth slower.
  [[gnu::always_inline]] unsigned pattern(size_t k, size_t first, size_t count) const {
    return nonzeros.masks[k] >> first & ((1U << count) - 1);
  }
};

// ---- pairs: channels are sorted by their number of entries; two neighbours in this order are a set

// The weights of an output channel.
struct Channel {
  Vector<Entry> entries;
  // Stands in for missing entries. It is one of the channel's own zeros, if there are any: so an infinity in A becomes
  // NaN only where a dense product makes it NaN, too.
  Entry filler = {0, 0};
};

void put_pair(const Channel& f, const Channel& s, size_t first, size_t second, Chunk* to) {
  const size_t steps = divide_up<size_t>(std::max(f.entries.size(), s.entries.size()), 2);
  to->set.push_back({static_cast<uint16_t>(steps), static_cast<uint16_t>(first), static_cast<uint16_t>(second)});
  for (size_t i = 0; i < 2 * steps; ++i) {
    for (const Channel* channel : {&f, &s}) {
      const Entry& entry = i < channel->entries.size() ? channel->entries[i] : channel->filler;
      to->put_index(entry.row, 1);
      to->w.push_back(entry.w);
    }
  }
}

void put_pairs(const Source& from, Chunk* to) {
  Channel channels[sparse_channels];
  for (size_t n = 0; n < from.channels; ++n) {
    Channel& channel = channels[n];
    const uint32_t* const positions = from.nonzeros.positions(n);
    const float* const values = from.nonzeros.floats(n);
    const size_t first = from.next[n], all = from.nonzeros.count[n];
    size_t& next = from.next[n];
    for (; next < all && positions[next] < from.end; ++next) {
      channel.entries.push_back({from.place(positions[next]), values[next]});
    }
    size_t zeros_end = from.end;  // one behind the last zero in the chunk
    for (size_t i = next; i > first && positions[i - 1] + 1 == zeros_end; --i) --zeros_end;
    if (zeros_end > from.begin) channel.filler.row = from.place(zeros_end - 1);
  }
  const auto count = [&](size_t n) { return channels[n].entries.size(); };
  size_t order[sparse_channels];
  for (size_t n = 0; n < from.channels; ++n) order[n] = n;
  heap_sort(order, order + from.channels,
            [&](size_t a, size_t b) { return count(a) != count(b) ? count(a) < count(b) : a < b; });
  for (size_t i = 0; i < from.channels; i += 2) {
    const bool two = i + 1 < from.channels;
    const size_t first = order[i], second = two ? order[i + 1] : first;
    put_pair(channels[first], two ? channels[second] : Channel(), first, second, to);
  }
}

// ---- fours

void put_fours(const Source& from, Chunk* to) {
  for (size_t n = 0; n < from.channels; n += 4) {
    const size_t channels = std::min<size_t>(4, from.channels - n);
    size_t counts[spmm_patterns + 1] = {};
    for (size_t k = from.begin; k < from.end; ++k) ++counts[from.pattern(k, n, channels)];
    to->set.push_back({0, static_cast<uint16_t>(n), 0});
    size_t index_at[spmm_patterns + 1], w_at[spmm_patterns + 1];  // where the next entry of a pattern goes
    size_t index = to->index.size() + 2 * spmm_patterns, w = to->w.size();
    for (size_t p = 1; p <= spmm_patterns; ++p) {
      to->put_index(counts[p], 2);
      index_at[p] = index, w_at[p] = w;
      index += 2 * counts[p], w += counts[p] * ((p & 1) + (p >> 1 & 1) + (p >> 2 & 1) + (p >> 3));
    }
    to->index.resize(index), to->w.resize(w);
    for (size_t k = from.begin; k < from.end; ++k) {
      const unsigned pattern = from.pattern(k, n, channels);
      if (pattern == 0) continue;
      const auto place = static_cast<uint16_t>(from.place(k));
      std::memcpy(&to->index[index_at[pattern]], &place, sizeof place);
      index_at[pattern] += sizeof place;
      for (size_t c = 0; c < channels; ++c) {
        if ((pattern >> c & 1) != 0) to->w[w_at[pattern]++] = from.take(n + c);
      }
    }
  }
}

// ---- bIxN

// Takes the weights of some output channels, from n on, at some k. They lie output by output, each with its inputs.
template <size_t inputs>
void take_block(const Source& from, Span ks, size_t n, size_t channels, float* weights) {
  for (size_t k = ks.begin; k < ks.end; ++k) {
    const unsigned pattern = from.pattern(k, n, channels);
    for (size_t c = 0; c < channels; ++c) {
      if ((pattern >> c & 1) != 0) weights[c * inputs + k - ks.begin] = from.take(n + c);
    }
  }
}

// Makes words of four bytes of floats with the same values; returns how many words.
size_t to_bytes(float* weights, size_t count) {
  for (size_t i = 0; i < count; i += 4) {
    int8_t word[4];
    for (size_t j = 0; j < 4; ++j) word[j] = static_cast<int8_t>(weights[i + j]);
    std::memcpy(&weights[i / 4], word, sizeof word);
  }
  return count / 4;
}

template <size_t inputs>
void put_blocks(const Source& from, const PackKey& key, Chunk* to) {
  const size_t block = key.panel.nr;
  constexpr bool bytes = inputs > 1;
  for (size_t n = 0; n < from.channels; n += block) {
    const size_t channels = std::min(block, from.channels - n);
    qn_spmm_set set = {0, static_cast<uint16_t>(n), 0};
    for (size_t row = from.begin; row < from.end; ++row) {
      const Span ks = from.inputs_of<inputs>(row);
      if (!from.any(ks, n, channels)) continue;
      float weights[inputs * most_outputs] = {};
      take_block<inputs>(from, ks, n, channels, weights);
      ++set.steps;
      to->put_index(from.place<inputs>(row), 2);
      const size_t words = bytes ? to_bytes(weights, block * inputs) : block * inputs;
      to->w.insert(to->w.end(), weights, weights + words);
    }
    to->set.push_back(set);
  }
}

// Blocks of one input, of bytes: a step has four of them.
void put_joined(const Source& from, const PackKey& key, Chunk* to) {
  const size_t block = key.panel.nr;
  for (size_t n = 0; n < from.channels; n += block) {
    const size_t channels = std::min(block, from.channels - n);
    qn_spmm_set set = {0, static_cast<uint16_t>(n), 0};
    size_t joined = 0, place = 0;
    float weights[joined_inputs * most_outputs] = {};
    const auto end_step = [&] {
      const size_t words = to_bytes(weights, block * joined_inputs);
      to->w.insert(to->w.end(), weights, weights + words);
      std::fill_n(weights, block * joined_inputs, 0.0f);
      ++set.steps;
      joined = 0;
    };
    for (size_t row = from.begin; row < from.end; ++row) {
      const unsigned pattern = from.pattern(row, n, channels);
      if (pattern == 0) continue;
      place = from.place(row);
      to->put_index(place, 2);
      for (size_t c = 0; c < channels; ++c) {
        if ((pattern >> c & 1) != 0) weights[c * joined_inputs + joined] = from.take(n + c);
      }
      if (++joined == joined_inputs) end_step();
    }
    if (joined > 0) {
      for (; joined < joined_inputs; ++joined) to->put_index(place, 2);
      end_step();
    }
    to->set.push_back(set);
  }
}

// ----

void put_part(const Source& from, const PackKey& key, Chunk* to) {
  SparsePart part = {static_cast<uint32_t>(to->set.size()), 0, static_cast<uint32_t>(to->index.size()),
                     static_cast<uint32_t>(to->w.size())};
  if (key.packing == Packing::sparse_fours) {
    put_fours(from, to);
  } else if (key.panel.nr == 1) {
    put_pairs(from, to);
  } else if (has_integers && key.panel.format.kr == joined_inputs) {
    put_blocks<joined_inputs>(from, key, to);
  } else if (has_integers && key.weights.type == QN_S8) {
    put_joined(from, key, to);
  } else {
    put_blocks<1>(from, key, to);
  }
  part.sets = static_cast<uint32_t>(to->set.size()) - part.set;
  to->parts.push_back(part);
}

// Joins all chunks in one buffer: weights, biases, sets, indices, and after these spmm_beyond bytes that kernels may
// read.
void join(const Vector<Chunk>& chunks, const Vector<uint32_t>& bias, SparseWeights* packed) {
  size_t w = 0, sets = 0, index = 0;
  for (const Chunk& chunk : chunks) {
    for (SparsePart part : chunk.parts) {
      part.set += static_cast<uint32_t>(sets), part.index += static_cast<uint32_t>(index);
      part.w += static_cast<uint32_t>(w);
      packed->parts.push_back(part);
    }
    w += chunk.w.size(), sets += chunk.set.size(), index += chunk.index.size();
  }
  const size_t w_bytes = w * sizeof(uint32_t), bias_bytes = bias.size() * sizeof(uint32_t);
  const size_t set_bytes = sets * sizeof(qn_spmm_set);
  packed->data = Buffer(w_bytes + bias_bytes + set_bytes + index + spmm_beyond);
  auto* to = static_cast<char*>(packed->data.data());
  packed->w = reinterpret_cast<const uint32_t*>(to);
  packed->bias = reinterpret_cast<const uint32_t*>(to + w_bytes);
  packed->set = reinterpret_cast<const qn_spmm_set*>(to + w_bytes + bias_bytes);
  packed->index = to + w_bytes + bias_bytes + set_bytes;
  const auto put = [](char* at, const auto& list) {
    const size_t bytes = list.size() * sizeof list[0];
    if (bytes > 0) std::memcpy(at, list.data(), bytes);
    return at + bytes;
  };
  for (const Chunk& chunk : chunks) to = put(to, chunk.w);
  to = put(to, bias);
  for (const Chunk& chunk : chunks) to = put(to, chunk.set);
  for (const Chunk& chunk : chunks) to = put(to, chunk.index);
}

// Takes `zero` for every element of the input off the sums, as for panels of gemm.h (pack.cc).
void absorb_zero(int32_t zero, const Nonzeros& nonzeros, size_t count, uint32_t* bias) {
  for (size_t c = 0; c < count; ++c) {
    const float* const weights = nonzeros.floats(c);
    for (size_t i = 0; i < nonzeros.count[c]; ++i) {
      bias[c] -= static_cast<uint32_t>(zero * static_cast<int32_t>(weights[i]));
    }
  }
}

// The depth of a chunk for fours. Entries of fours are sorted within a chunk, so the depth decides the order in which
// they are added. It depends on the weights alone, so that all kernels give the same bits. If most weights are not 0,
// rows of A are used so often that they may come from the L2 cache, and chunks can be deeper.
size_t fours_depth(double stored) { return stored > 0.65 ? 256 : 128; }

}  // namespace

// The rows of A of a chunk must stay in the L1 cache. For sets of two channels, which anyway read and write their sums
// after a few steps, they may fill all of it; otherwise they take two thirds. Blocks of four channels or more use a row
// so often that it may come from the L2 cache. If such blocks are rare, their chunks are deeper, so that a set has
// enough steps between reading and writing its sums.
size_t sparse_depth(const SpmmRow& row, size_t pixels, size_t rows, double stored) {
  constexpr double enough_steps = 64;
  const size_t row_bytes = std::min<size_t>(row.pixels, pixels) * spmm_bytes(row);
  const size_t near_bytes = row.channels() == 2 ? cpu().l1_bytes : cpu().l1_bytes * 2 / 3;
  double most = static_cast<double>(near_bytes / row_bytes);
  if (row.block >= 4) {
    const double far = static_cast<double>(cpu().l2_bytes / 2 / row_bytes);
    most = std::max(most, std::min(far, enough_steps / std::max(stored, 1 / far)));
  }
  if (row.fours()) most = static_cast<double>(fours_depth(stored));
  const size_t countable = std::min<size_t>(row.max_k(), UINT16_MAX);  // an index must hold k, 16 bits the steps
  return divide_up(rows, divide_up(rows, std::clamp<size_t>(static_cast<size_t>(most), 16, countable)));
}

Shared<PackedWeights> pack_sparse(const PackKey& key) {
  const WeightsShape& shape = key.shape;
  WeightNonzeros weights(key.weights, shape);
  auto packed = make_shared<SparseWeights>();
  packed->depth = key.depth;
  const size_t rows = shape.depth(key.panel.format.kr);
  packed->chunks = divide_up(rows, key.depth);
  packed->blocks = divide_up(shape.out, sparse_channels);
  Vector<Chunk> chunks(shape.groups * packed->chunks);
  Vector<uint32_t> bias(shape.groups * packed->blocks * sparse_channels);
  for (size_t g = 0; g < shape.groups; ++g) {
    for (size_t n = 0; n < shape.out; n += sparse_channels) {
      const size_t o = g * shape.out + n, count = std::min(sparse_channels, shape.out - n);
      const Nonzeros& nonzeros = weights.nonzeros(o, count);
      size_t next[sparse_channels] = {};
      for (size_t c = 0; c < packed->chunks; ++c) {
        const size_t begin = c * key.depth, end = std::min(begin + key.depth, rows);
        put_part({nonzeros, shape, key.places, next, count, begin, end}, key, &chunks[g * packed->chunks + c]);
      }
      weights.tell_read(o, count);
      uint32_t* const to = &bias[g * packed->blocks * sparse_channels + n];
      std::memcpy(to, key.bias.data() + o, count * sizeof(uint32_t));
      const int32_t zero = key.absorbed_zero();
      if (has_integers && zero != 0) absorb_zero(zero, nonzeros, count, to);
    }
  }
  join(chunks, bias, packed.get());
  return packed;
}

}  // namespace quern
