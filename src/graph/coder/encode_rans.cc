#include "graph/coder/encode_rans.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/math.h"
#include "graph/coder/encode_small.h"
#include "graph/coder/rans.h"

namespace quern {
namespace {

using Counts = std::array<uint32_t, rans_symbols>;
using Levels = std::array<uint8_t, rans_symbols>;
using Frequencies = std::array<uint16_t, rans_symbols>;

size_t index_of(int8_t symbol) { return static_cast<size_t>(symbol + 128); }

// What a symbol's frequency is in proportion to, by its level.
double weight_of(size_t level) {
  static const auto weights = [] {
    std::array<double, rans_most_level + 1> all = {};
    for (size_t i = 1; i < all.size(); ++i) all[i] = std::exp2(static_cast<double>(i) / 8);
    return all;
  }();
  return weights[level];
}

// What a class of rows, or of columns, has in common.
struct Model {
  Counts counts = {};
  Levels levels = {};
  Vector<RansKnot> knots;
  Frequencies frequencies = {};
  std::array<float, rans_symbols> bits = {};  // that a symbol takes

  // Levels from counts; a symbol that does not occur gets none.
  void fit();
  // Drops knots that save fewer bits than they take.
  void simplify();

 private:
  void set_bits();
};

void Model::fit() {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::array<double, rans_symbols> logarithms;
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t s = 0; s < rans_symbols; ++s) {
    // rans_frequencies() adds a slot to each symbol.
    logarithms[s] = 8 * std::log2(std::max(counts[s] / sum * rans_total - 1, 0.01));
    if (counts[s] != 0) largest = std::max(largest, logarithms[s]);
  }
  for (size_t s = 0; s < rans_symbols; ++s) {
    const double level = std::nearbyint(logarithms[s] - largest) + rans_most_level;
    levels[s] = counts[s] == 0 ? 0 : static_cast<uint8_t>(std::max(level, 1.0));
  }
  set_bits();
}

void Model::set_bits() {
  rans_frequencies(levels, frequencies);
  for (size_t s = 0; s < rans_symbols; ++s) {
    bits[s] = frequencies[s] == 0 ? std::numeric_limits<float>::infinity()
                                  : rans_bits - std::log2(static_cast<float>(frequencies[s]));
  }
}

// A polyline through all levels, from which knots are removed.
class Polyline {
 public:
  Polyline(const Counts& counts, const Levels& levels) : counts_(counts), levels_(levels) {
    for (size_t s = 0; s < rans_symbols; ++s) {
      if (levels[s] != 0) kept_.push_back(s);
      values_ += counts[s];
      weights_ += weight_of(levels[s]);
    }
    for (size_t s = kept_.front(), last = kept_.back(); s <= last; ++s) {
      if (levels[s] == 0) kept_.push_back(s);
    }
    std::sort(kept_.begin(), kept_.end());
  }

  // Removes the knot that costs the least, if that is less than `most` bits.
  bool remove(double most) {
    size_t best = 0;
    for (size_t k = 1; k + 1 < kept_.size(); ++k) {
      const double bits = change(kept_[k - 1], kept_[k + 1], nullptr);
      if (bits < most) most = bits, best = k;
    }
    if (best == 0) return false;
    change(kept_[best - 1], kept_[best + 1], this);
    kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(best));
    return true;
  }

  Vector<RansKnot> knots() const {
    Vector<RansKnot> knots;
    size_t before = 0;
    for (const size_t s : kept_) knots.push_back({static_cast<uint8_t>(s - before), levels_[s]}), before = s;
    return knots;
  }

 private:
  // The bits that a line between two symbols takes more than now. Draws it if wanted.
  double change(size_t a, size_t b, Polyline* drawn) const;

  const Counts& counts_;
  Levels levels_;
  std::vector<size_t> kept_;  // symbols + 128
  double values_ = 0, weights_ = 0;
};

double Polyline::change(size_t a, size_t b, Polyline* drawn) const {
  const size_t from = levels_[a], to = levels_[b], length = b - a;
  double bits = 0, weights = weights_;
  for (size_t s = a + 1; s < b; ++s) {
    const size_t level = from == 0 || to == 0 ? 0 : (from * (b - s) + to * (s - a) + length / 2) / length;
    if (level == 0 && counts_[s] != 0) return std::numeric_limits<double>::infinity();
    bits += counts_[s] * (static_cast<double>(levels_[s]) - static_cast<double>(level)) / 8;
    weights += weight_of(level) - weight_of(levels_[s]);
    if (drawn != nullptr) drawn->levels_[s] = static_cast<uint8_t>(level);
  }
  if (drawn != nullptr) drawn->weights_ = weights;
  return bits + values_ * std::log2(weights / weights_);
}

void Model::simplify() {
  constexpr double bits_of_a_knot = 12;  // about
  Polyline line(counts, levels);
  while (line.remove(bits_of_a_knot)) {}
  knots = line.knots();
  rans_levels({knots.data(), knots.size()}, levels);
  set_bits();
}

// Rows, or columns, in classes.
struct Classes {
  bool by_column = false;
  Vector<Model> models;
  Vector<uint8_t> of_line;
};

Vector<Counts> count_lines(std::span<const int8_t> matrix, size_t rows, size_t depth, bool by_column) {
  Vector<Counts> lines(by_column ? depth : rows, Counts{});
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < depth; ++c) ++lines[by_column ? c : r][index_of(matrix[r * depth + c])];
  }
  return lines;
}

// The mean logarithm of a line's sizes: lines of about the same belong together at first.
double spread_of(const Counts& counts) {
  double sum = 0, count = 0;
  for (size_t s = 0; s < rans_symbols; ++s) {
    sum += counts[s] * std::log2(1 + std::abs(static_cast<double>(s) - 128));
    count += counts[s];
  }
  return sum / count;
}

double bits_of(const Counts& counts, const Model& model) {
  double bits = 0;
  for (size_t s = 0; s < rans_symbols; ++s) {
    if (counts[s] != 0) bits += counts[s] * static_cast<double>(model.bits[s]);
  }
  return bits;
}

// Fits the models to their lines. Those without a line go.
void refit(const Vector<Counts>& lines, Classes* classes) {
  for (Model& model : classes->models) model.counts = {};
  for (size_t i = 0; i < lines.size(); ++i) {
    Counts& counts = classes->models[classes->of_line[i]].counts;
    for (size_t s = 0; s < rans_symbols; ++s) counts[s] += lines[i][s];
  }
  std::array<uint8_t, rans_most_tables> index = {};
  Vector<Model> kept;
  for (size_t m = 0; m < classes->models.size(); ++m) {
    index[m] = static_cast<uint8_t>(kept.size());
    const Counts& counts = classes->models[m].counts;
    if (std::all_of(counts.begin(), counts.end(), [](uint32_t n) { return n == 0; })) continue;
    kept.push_back(classes->models[m]);
    kept.back().fit();
  }
  for (uint8_t& c : classes->of_line) c = index[c];
  classes->models = std::move(kept);
}

// Puts lines into classes so that they take few bits (as k-means does, with bits for a distance).
Classes classify(const Vector<Counts>& lines, bool by_column, size_t count) {
  constexpr int rounds = 8;
  Classes classes;
  classes.by_column = by_column;
  classes.models.resize(count);
  classes.of_line.resize(lines.size());
  Vector<size_t> order(lines.size());
  Vector<double> spread;
  std::iota(order.begin(), order.end(), size_t{0});
  for (const Counts& counts : lines) spread.push_back(spread_of(counts));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return spread[a] < spread[b]; });
  for (size_t i = 0; i < order.size(); ++i) classes.of_line[order[i]] = static_cast<uint8_t>(i * count / order.size());
  refit(lines, &classes);
  for (int round = 0; round < rounds && count > 1; ++round) {
    for (size_t i = 0; i < lines.size(); ++i) {
      double best = std::numeric_limits<double>::infinity();
      for (size_t m = 0; m < classes.models.size(); ++m) {
        const double bits = bits_of(lines[i], classes.models[m]);
        if (bits < best) best = bits, classes.of_line[i] = static_cast<uint8_t>(m);
      }
    }
    refit(lines, &classes);
  }
  return classes;
}

void append(std::span<const unsigned char> bytes, Vector<unsigned char>* to) {
  to->insert(to->end(), bytes.data(), bytes.data() + bytes.size());
}

// Header, tables and classes.
Vector<unsigned char> encode_models(const Classes& classes) {
  Vector<unsigned char> tables;
  for (const Model& model : classes.models) {
    tables.push_back(static_cast<unsigned char>(model.knots.size() - 1));
    for (const RansKnot& knot : model.knots) tables.push_back(knot.distance), tables.push_back(knot.level);
  }
  const Vector<unsigned char> coded = encode_small({tables.data(), tables.size()}, rans_table_stride);
  const RansHeader header = {static_cast<uint8_t>(classes.models.size()), classes.by_column,
                             static_cast<uint16_t>(tables.size()), static_cast<uint16_t>(coded.size())};
  Vector<unsigned char> stream(sizeof header);
  std::memcpy(stream.data(), &header, sizeof header);
  append({coded.data(), coded.size()}, &stream);
  const unsigned bits = rans_class_bits(classes.models.size());
  Vector<unsigned char> packed(divide_up(classes.of_line.size() * bits, 8), 0);
  for (size_t i = 0; i < classes.of_line.size() * bits; ++i) {
    const unsigned bit = classes.of_line[i / bits] >> i % bits & 1U;
    packed[i / 8] = static_cast<unsigned char>(packed[i / 8] | bit << i % 8);
  }
  append({packed.data(), packed.size()}, &stream);
  return stream;
}

// Slots of symbols, in the order of their indices.
Vector<uint16_t> slots_of(const Model& model, Counts* begins) {
  uint32_t sum = 0;
  for (size_t s = 0; s < rans_symbols; ++s) (*begins)[s] = sum, sum += model.frequencies[s];
  const RansTable table(model.frequencies);
  Vector<uint16_t> slots(rans_total);
  for (uint32_t slot = 0; slot < rans_total; ++slot) {
    const RansTable::Entry& entry = table.find(slot);
    const uint32_t index = slot + static_cast<uint32_t>(entry.offset);
    slots[(*begins)[index_of(entry.symbol)] + index] = static_cast<uint16_t>(slot);
  }
  return slots;
}

// Puts elements into states, from the last to the first.
class Encoder {
 public:
  explicit Encoder(const Vector<Model>& models) : models_(models), begins_(models.size()) {
    for (size_t m = 0; m < models.size(); ++m) slots_.push_back(slots_of(models[m], &begins_[m]));
    states_.fill(rans_least_state);
  }
  void put(size_t model, size_t lane, int8_t symbol) {
    uint32_t& state = states_[lane];
    const size_t s = index_of(symbol);
    const uint32_t frequency = models_[model].frequencies[s];
    if (uint64_t{state} >= uint64_t{frequency} << (32 - rans_bits)) {
      words_.push_back(static_cast<uint16_t>(state));
      state >>= 16;
    }
    state = state / frequency * rans_total + slots_[model][begins_[model][s] + state % frequency];
  }
  void finish(Vector<unsigned char>* stream) {
    for (size_t lane = rans_states; lane-- > 0;) {
      words_.push_back(static_cast<uint16_t>(states_[lane] >> 16));
      words_.push_back(static_cast<uint16_t>(states_[lane]));
    }
    for (size_t i = words_.size(); i-- > 0;) {
      stream->push_back(static_cast<unsigned char>(words_[i]));
      stream->push_back(static_cast<unsigned char>(words_[i] >> 8));
    }
  }

 private:
  const Vector<Model>& models_;
  Vector<Counts> begins_;
  Vector<Vector<uint16_t>> slots_;
  std::array<uint32_t, rans_states> states_;
  Vector<uint16_t> words_;
};

}  // namespace

Vector<unsigned char> encode_rans(std::span<const int8_t> matrix, size_t rows, size_t depth) {
  constexpr size_t most_columns = 1024;  // more take long, and have little in common with other ones
  constexpr size_t least_depth = 8;      // a row of fewer elements is no reason for another table
  Classes best;
  Vector<unsigned char> stream;  // header and models of the best
  double least = std::numeric_limits<double>::infinity();
  for (const bool by_column : {false, true}) {
    if (by_column ? depth > most_columns : depth < least_depth) continue;
    const Vector<Counts> lines = count_lines(matrix, rows, depth, by_column);
    for (size_t count = 1; count <= std::min(rans_most_tables, lines.size()); count *= 2) {
      Classes classes = classify(lines, by_column, count);
      for (Model& model : classes.models) model.simplify();
      Vector<unsigned char> models = encode_models(classes);
      double bits = 8.0 * static_cast<double>(models.size());
      for (size_t i = 0; i < lines.size(); ++i) bits += bits_of(lines[i], classes.models[classes.of_line[i]]);
      if (bits < least) least = bits, best = std::move(classes), stream = std::move(models);
    }
  }
  Encoder encoder(best.models);
  for (size_t i = matrix.size(); i-- > 0;) {
    const size_t row = i / depth, column = i % depth;
    encoder.put(best.of_line[best.by_column ? column : row], column % rans_states, matrix[i]);
  }
  encoder.finish(&stream);
  // Small data takes a hundred times as long to decode: it must save a byte for so many elements, unless they are few.
  constexpr size_t worth_it = 32, no_time = 1024;
  if (matrix.size() > rans_most_small) return stream;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(matrix.data());
  const Vector<unsigned char> coded = encode_small({bytes, matrix.size()}, depth);
  const size_t least_saving = matrix.size() <= no_time ? 0 : matrix.size() / worth_it;
  if (coded.size() + 1 + least_saving >= stream.size()) return stream;
  stream.assign(1, 0);
  append({coded.data(), coded.size()}, &stream);
  return stream;
}

}  // namespace quern
