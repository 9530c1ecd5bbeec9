// The cases of the spmm family.  Contract: src/kernel/spmm.h
#include "kernel/spmm.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "sums.h"

namespace quern::check {
namespace {

struct SpmmMemory {
  Guarded sets{"sets", Access::input}, index{"index", Access::input}, w{"w", Access::input}, a{"a", Access::input};
  Guarded c{"c", Access::output}, bias{"bias", Access::input}, p{"p", Access::input};
};

enum class Start { bias, c };
enum class End { sums, bytes };  // floats always end

// Sums of bytes as C holds them until they end.
struct KeptInt8Sums : Qs8cSums {
  using C = int32_t;

  // Some products of sums and scales do not fit 32 bits.
  KeptInt8Sums(Numbers numbers, Values of, Clamp clamp, size_t depth, Random& random)
      : Qs8cSums(numbers, of, clamp, depth, random) {
    if (values == Values::extreme && !numbers.fits32 && random.below(2) == 0) scale *= 0x1p30f;
  }
};

struct SpmmSize {
  std::vector<size_t> steps;  // of each set; fours: entries
  size_t k_before, depth;     // k_before <= k < depth
  size_t pixels;              // at most
  size_t channels_before;
  bool overlap = false;  // rows of A lie one float apart
  size_t pattern = 0;    // of all entries of fours; 0: any
};

// One product of the widest rows; a case is called with some of their pixels.
template <class Sums>
class SpmmProblem {
  using A = typename Sums::A;
  using W = typename Sums::W;
  using C = typename Sums::C;
  static constexpr bool of_bytes = sizeof(A) == 1;

 public:
  SpmmProblem(const SpmmRow& row, SpmmSize size, Start start, Values values, Clamp clamp, Random& random)
      : row_(row),
        size_(std::move(size)),
        width_(spmm_width(row, size_.pixels)),
        a_width_(spmm_a_width(row, size_.pixels)),
        start_(start),
        sums_(numbers_of(row), values, clamp, size_.depth, random) {
    name_channels(random);
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (row_.fours()) {
        add_fours(sets_[i], size_.steps[i], random);
      } else {
        add_steps(sets_[i], size_.steps[i], random);
      }
    }
    add_rows(random);
    add_outputs(random);
  }

  // Channels and k that do not occur have no memory before the first and behind the last one, and the fill between.
  bool check(Checker& checker, SpmmMemory& memory, size_t pixels, Side side, size_t a_stride, size_t c_stride) const {
    return every_fill<Sums>(side, [&](Place place) {
      return check_placed(checker, memory, pixels, place, a_stride, c_stride, End::sums) &&
             (!of_bytes || check_placed(checker, memory, pixels, place, a_stride, c_stride, End::bytes));
    });
  }
  // `gap` unused floats between the rows of A and of C; one more between those of C.
  bool check(Checker& checker, SpmmMemory& memory, size_t pixels, Side side, size_t gap) const {
    const size_t width = spmm_width(row_, pixels);
    const size_t a_bytes = spmm_a_width(row_, pixels) * spmm_bytes(row_);
    const size_t a_stride = size_.overlap ? 4 : round_up<size_t>(a_bytes, 4) + gap * 4;
    return check(checker, memory, pixels, side, a_stride, (width + gap + (gap > 0 ? 1 : 0)) * 4);
  }

 private:
  bool check_placed(Checker& checker, SpmmMemory& memory, size_t pixels, Place place, size_t a_stride, size_t c_stride,
                    End end) const {
    const size_t width = spmm_width(row_, pixels), least_n = outputs_.begin()->first;
    const size_t least_k = rows_.empty() ? 0 : rows_.begin()->first;
    place_sets(memory, place);
    place_rows(memory.a, place, spmm_a_width(row_, pixels), a_stride);
    place_bias(memory.bias, place);
    place_parameters(memory.p, place, end);
    memory.c.place((outputs_.rbegin()->first - least_n) * c_stride + width * 4, place);
    std::vector<C> c = memory.c.blank<C>();
    for (const auto& [n, output] : outputs_) {
      const size_t at = (n - least_n) * c_stride / 4;
      if (start_ == Start::c) std::copy_n(output.before.begin(), width, memory.c.as<C>() + at);
      if (end == End::sums) {
        std::copy_n(output.expected.begin(), width, &c[at]);
      } else if (start_ == Start::c) {
        std::copy_n(output.before.begin(), width, &c[at]);
      }
    }
    if (end == End::bytes) {
      for (const auto& [n, output] : outputs_)
        end_as_bytes(n, output, width, &c[(n - least_n) * c_stride / 4], c_stride);
    }
    const uint64_t bias = start_ == Start::c ? uint64_t{0} : memory.bias.address() - least_n * 4;
    const uint64_t p = of_bytes && end == End::sums ? uint64_t{0} : memory.p.address();
    return checker.run(
        {pixels, sets_.size(), memory.sets.address(), memory.index.address(), memory.w.address(),
         memory.a.address() - least_k * a_stride, a_stride, memory.c.address() - least_n * c_stride, c_stride, bias, p},
        {&memory.sets, &memory.index, &memory.w, &memory.a, &memory.c, &memory.bias, &memory.p}, {{&memory.c, c}},
        [&] { return describe(pixels, place.side, a_stride, c_stride, end); });
  }

  struct Output {
    size_t in_set;  // its number in its set
    C bias;
    std::vector<C> before, expected;
  };
  // A product of one output: the place of its k in index_, which of the input channels of a block it is, and its weight.
  struct Term {
    size_t at, input;
    W w;
  };

  // Channels four by four lie in the first one's row.
  void end_as_bytes(size_t n, const Output& output, size_t width, C* row, size_t c_stride) const {
    if constexpr (of_bytes) {
      const size_t byte = output.in_set % 4;
      char* to = reinterpret_cast<char*>(row) - byte * c_stride + byte;
      for (size_t p = 0; p < width; ++p, to += sizeof(C)) *to = static_cast<char>(sums_.end(output.expected[p], n));
    }
  }

  // The place of a pixel in a row of A.
  size_t place_of(size_t pixel) const {
    if (spmm_bytes(row_) == 4) return pixel;
    const size_t group = dealt_pixels(row_.lanes);
    return pixel / group * group + dealt_place(row_.lanes, pixel % group);
  }

  // Sets in any order, with channels between them that no set names; the last set of pairs names one channel twice.
  void name_channels(Random& random) {
    const size_t sets = size_.steps.size(), together = row_.together();
    std::vector<uint16_t> list;
    size_t next = size_.channels_before;
    for (size_t i = 0; i < (row_.pairs() ? 2 * sets - 1 : sets); ++i) {
      list.push_back(static_cast<uint16_t>(next));
      next += together + random.below(2);
    }
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
    for (size_t i = 0; i < sets; ++i) {
      constexpr uint16_t nobody = 0xa5a5;
      const uint16_t steps = row_.fours() ? nobody : static_cast<uint16_t>(size_.steps[i]);
      const uint16_t second = row_.pairs() ? list[std::min(2 * i + 1, list.size() - 1)] : nobody;
      sets_.push_back({steps, list[row_.pairs() ? 2 * i : i], second});
    }
  }

  size_t channel_of(const qn_spmm_set& set, size_t i) const {
    return !row_.pairs() ? set.first + i : i == 0 ? set.first : set.second;
  }
  // How many k are interleaved: those of pairs take turns, a block has one for all channels.
  size_t turns() const { return row_.pairs() ? 2 : 1; }

  void add_steps(const qn_spmm_set& set, size_t steps, Random& random) {
    const size_t places = row_.places(), entries = steps * turns() * places, channels = row_.channels();
    const size_t index_begin = index_.size(), w_begin = w_.size(), kr = row_.panel.kr;
    index_.resize(index_begin + entries * turns());
    w_.resize(w_begin + steps * turns() * channels * kr);
    uint16_t* index = index_.data() + index_begin;
    W* w = w_.data() + w_begin;
    for (size_t i = w_begin; i < w_.size(); ++i) w_[i] = sums_.draw_weight(random);
    for (size_t turn = 0; turn < turns() && entries > 0; ++turn) {
      const size_t depth = size_.depth - size_.k_before;
      const size_t less = row_.pairs() ? random.below(2) : random.below(places);
      const size_t stored = std::min(entries - less, depth);
      std::set<size_t> ascending;
      while (ascending.size() < stored) ascending.insert(size_.k_before + random.below(depth));
      size_t i = 0;
      for (const size_t k : ascending) index[i++ * turns() + turn] = static_cast<uint16_t>(k);
      for (; i < entries; ++i) {
        index[i * turns() + turn] = index[(i - 1) * turns() + turn];
        for (size_t n = 0; n < channels / turns(); ++n)
          w[(i / places * channels + n * turns() + turn) * kr + i % places] = 0;
      }
    }
    for (size_t i = 0; i < channels; ++i) {
      const auto [terms, is_new] = terms_.try_emplace(channel_of(set, i));
      if (is_new) in_set_[channel_of(set, i)] = i;
      for (size_t e = 0; is_new && e < steps * turns() * kr; ++e) {
        const size_t step = e / kr, j = e % kr;
        const size_t at = index_begin + (step * places + j % places) * turns() + i % turns();
        terms->second.push_back({at, j / places, w[(step * channels + i) * kr + j]});
      }
    }
  }

  void add_fours(const qn_spmm_set& set, size_t count, Random& random) {
    std::vector<std::pair<size_t, size_t>> entries(count);  // pattern, k
    for (auto& [pattern, k] : entries) {
      pattern = size_.pattern != 0 ? size_.pattern : 1 + random.below(spmm_patterns);
      k = size_.k_before + random.below(size_.depth - size_.k_before);
    }
    std::sort(entries.begin(), entries.end());
    auto& counts = counts_.emplace_back(spmm_patterns);
    for (size_t i = 0; i < row_.channels(); ++i) terms_[channel_of(set, i)] = {};
    for (const auto& [pattern, k] : entries) {
      ++counts[pattern - 1];
      for (size_t i = 0; i < row_.channels(); ++i) {
        if ((pattern >> i & 1) == 0) continue;
        w_.push_back(sums_.draw_weight(random));
        terms_[channel_of(set, i)].push_back({index_.size(), 0, w_.back()});
      }
      index_.push_back(static_cast<uint16_t>(k));
    }
  }

  // The last k that may occur does.
  void add_rows(Random& random) {
    if (index_.empty()) return;
    *std::max_element(index_.begin(), index_.end()) = static_cast<uint16_t>(size_.depth - 1);
    constexpr size_t apart = 4 / sizeof(A);  // rows that overlap
    const size_t elements = a_width_ * row_.inputs;
    std::vector<A> shared(size_.overlap ? size_.depth * apart + elements : 0);
    draw(shared, random);
    for (const uint16_t k : index_) {
      std::vector<A>& row = rows_[k];
      if (!row.empty()) continue;
      row.resize(elements);
      if (size_.overlap) {
        std::copy_n(&shared[k * apart], elements, row.begin());
      } else {
        draw(row, random);
      }
    }
  }

  void draw(std::vector<A>& list, Random& random) const {
    for (A& a : list) a = sums_.draw_a(random);
  }

  void add_outputs(Random& random) {
    for (const auto& [n, terms] : terms_) outputs_[n] = one_output(n, terms, random);
  }

  Output one_output(size_t n, const std::vector<Term>& terms, Random& random) {
    Output output = {in_set_[n], sums_.draw_bias(random), std::vector<C>(width_), std::vector<C>(width_)};
    for (C& before : output.before) before = sums_.draw_bias(random);
    std::vector<C>& sums = output.expected;
    for (size_t p = 0; p < width_; ++p) sums[p] = start_ == Start::c ? output.before[p] : output.bias;
    for (const Term& term : terms) {
      const A* const in = &rows_.at(index_[term.at])[term.input];
      for (size_t p = 0; p < width_; ++p) sums[p] = sums_.add(in[place_of(p) * row_.inputs], term.w, sums[p]);
    }
    if constexpr (of_bytes) {
      if (row_.panel.plus_128) make_up(terms, &output);
      return output;
    }
    const Flushing flushing(numbers_of(row_).flushes);  // comparisons do it, too
    for (C& sum : sums) sum = static_cast<C>(sums_.end(sum, 0));
    return output;
  }

  // Makes sums begin with less, because the kernel adds 128 to A.
  static void make_up(const std::vector<Term>& terms, Output* output) {
    C more = 0;
    for (const Term& term : terms) more -= 128 * term.w;
    output->bias = wrapping_add(output->bias, more);
    for (C& before : output->before) before = wrapping_add(before, more);
  }

  // The index as it is packed: before the k of each set of fours are the numbers of entries.
  std::vector<uint16_t> packed_index() const {
    if (!row_.fours()) return index_;
    std::vector<uint16_t> packed;
    auto k = index_.begin();
    for (size_t i = 0; i < counts_.size(); ++i) {
      packed.insert(packed.end(), counts_[i].begin(), counts_[i].end());
      const auto end = k + static_cast<ptrdiff_t>(size_.steps[i]);
      packed.insert(packed.end(), k, end);
      k = end;
    }
    return packed;
  }

  void place_sets(SpmmMemory& memory, Place place) const {
    memory.sets.place(sets_.size() * sizeof sets_[0], place, alignof(qn_spmm_set));
    std::memcpy(memory.sets.as<char>(), sets_.data(), memory.sets.size());
    memory.w.place(w_.size() * sizeof(W), place);
    std::copy(w_.begin(), w_.end(), memory.w.as<W>());
    const std::vector<uint16_t> index = packed_index();
    memory.index.place(index.size() * row_.index_bytes() + spmm_beyond, place, row_.index_bytes());
    if (row_.index_bytes() == 1) {
      std::copy(index.begin(), index.end(), memory.index.as<uint8_t>());
    } else {
      std::copy(index.begin(), index.end(), memory.index.as<uint16_t>());
    }
  }

  void place_rows(Guarded& a, Place place, size_t width, size_t stride) const {
    if (rows_.empty()) return a.place(0, place);
    const size_t least = rows_.begin()->first, bytes = width * spmm_bytes(row_);
    a.place((rows_.rbegin()->first - least) * stride + bytes, place);
    for (const auto& [k, row] : rows_) std::memcpy(a.as<char>() + (k - least) * stride, row.data(), bytes);
  }

  void place_bias(Guarded& bias, Place place) const {
    if (start_ == Start::c) return bias.place(0, place);
    const size_t least = outputs_.begin()->first;
    bias.place((outputs_.rbegin()->first - least + 1) * 4, place);
    for (const auto& [n, output] : outputs_) bias.as<C>()[n - least] = output.bias;
  }

  void place_parameters(Guarded& p, Place place, End end) const {
    if (of_bytes && end == End::sums) return p.place(0, place);
    p.place(of_bytes ? requantize_bytes(outputs_.rbegin()->first + 1) : sizeof sums_.p, place);
    std::memcpy(p.as<char>(), &sums_.p, sizeof sums_.p);
    if constexpr (of_bytes) {
      for (const auto& [n, output] : outputs_) {
        const float scale = sums_.scale_of(n);
        std::memcpy(p.as<char>() + requantize_bytes(n), &scale, sizeof scale);
      }
    }
  }

  std::string describe(size_t pixels, Side side, size_t a_stride, size_t c_stride, End end) const {
    std::string steps;
    for (const size_t s : size_.steps) steps += std::to_string(s) + " ";
    return "pixels=" + std::to_string(pixels) + " steps=" + steps + "K=" + std::to_string(size_.depth) +
           (start_ == Start::c ? " from c" : " from bias") + (of_bytes && end == End::bytes ? " to bytes" : "") +
           " a_stride=" + std::to_string(a_stride) + " c_stride=" + std::to_string(c_stride) +
           (side == Side::high ? " high " : " low ") + name_of(sums_.values);
  }

  const SpmmRow& row_;
  SpmmSize size_;
  size_t width_, a_width_;
  Start start_;
  Sums sums_;
  std::vector<qn_spmm_set> sets_;
  std::vector<uint16_t> index_;  // k alone
  std::vector<W> w_;
  std::vector<std::vector<uint16_t>> counts_;  // fours: of the entries of each set, by pattern
  std::map<size_t, std::vector<Term>> terms_;  // by channel
  std::map<size_t, size_t> in_set_;            // the number of a channel in its set
  std::map<size_t, std::vector<A>> rows_;      // of A, by k or r
  std::map<size_t, Output> outputs_;           // by channel
};

// Numbers of pixels with and without remainders.
std::vector<size_t> edges(const SpmmRow& row) {
  std::set<size_t> list;
  for (size_t end = row.lanes; end <= row.pixels; end += row.lanes) {
    for (const size_t p : {end - 1, end, end + 1}) {
      if (p >= 1 && p <= row.pixels) list.insert(p);
    }
  }
  list.insert(1);
  return {list.rbegin(), list.rend()};
}

template <class Sums>
class SpmmCheck {
 public:
  SpmmCheck(Checker& checker, const SpmmRow& row) : checker_(checker), row_(row) {}

  // Up to the first failure.
  bool run() { return every_pixel_count() && every_small_set() && far_apart() && larger(); }

 private:
  bool check(const SpmmSize& size, Start start, Values values, Clamp clamp, const std::vector<size_t>& pixels,
             Side side, size_t gap) {
    const SpmmProblem<Sums> problem(row_, size, start, values, clamp, checker_.random());
    return std::all_of(pixels.begin(), pixels.end(),
                       [&](size_t p) { return problem.check(checker_, memory_, p, side, gap); });
  }

  // The extremes, with every kind of clamp.
  bool every_pixel_count() {
    std::vector<size_t> every;
    for (size_t p = row_.pixels; p >= 1; --p) every.push_back(p);
    for (const Clamp clamp : clamps) {
      for (const Start start : {Start::bias, Start::c}) {
        const std::vector<size_t> steps = {2, 0, 1, 3}, entries = {20, 0, 1, 9};
        const SpmmSize size = {row_.fours() ? entries : steps, 3, 12, row_.pixels, 2};
        if (!check(size, start, Values::random, clamp, every, Side::low, 5)) return false;
        if (!check(size, start, Values::extreme, clamp, every, Side::high, 0)) return false;
      }
    }
    return true;
  }

  bool every_small_set() {
    for (size_t steps = 0; steps <= 17; ++steps) {
      for (size_t sets = 1; sets <= 3; ++sets) {
        const SpmmSize size = {std::vector<size_t>(sets, steps), 0, 40, row_.pixels, sets - 1};
        if (!check(size, Start::bias, Values::integers, {-90, 100}, edges(row_), Side::high, 3)) return false;
        if (!check(size, Start::c, Values::random, clamps[0], edges(row_), Side::high, 0)) return false;
      }
    }
    return true;
  }

  // The largest k, channels and counts, also where rows lie so far apart that their distances take more than 32 bits
  // (on a machine that has more).
  bool far_apart() {
    constexpr bool wide = sizeof(size_t) > 4;
    constexpr uint64_t a_room = uint64_t{wide ? 32 << 10 : 256} << 20, c_stride = uint64_t{wide ? 80 : 4} << 10;
    const size_t depth = row_.max_k(), last_channels = 0x10000 - row_.together();
    const auto a_stride = static_cast<size_t>(a_room / depth / 4 * 4);
    for (const Start start : {Start::bias, Start::c}) {
      const SpmmSize any_k = {{3, 1, 40}, 0, depth, row_.pixels, 0, true};
      if (!check(any_k, start, Values::random, clamps[0], {row_.pixels, 1}, Side::high, 0)) return false;
      for (const size_t pixels : edges(row_)) {
        const SpmmSize last = {{1}, depth - 1, depth, pixels, last_channels};
        const SpmmProblem<Sums> problem(row_, last, start, Values::random, clamps[0], checker_.random());
        if (!problem.check(checker_, memory_, pixels, Side::low, a_stride, c_stride)) return false;
      }
    }
    if (row_.pairs()) return true;
    return check({{40000}, 0, depth, 1, 0, true, 6}, Start::bias, Values::random, {-1, 1}, {1}, Side::high, 0);
  }

  bool larger() {
    for (const size_t steps : {31, 64, 128}) {
      const SpmmSize size = {{steps, steps / 3, 1, steps - 1, 0, steps / 2, steps}, 0, 256, row_.pixels, 1};
      if (!check(size, Start::bias, Values::random, clamps[0], {row_.pixels}, Side::high, 0)) return false;
      if (!check(size, Start::c, Values::random, {-1, 1}, {row_.pixels - 1}, Side::low, 16)) return false;
    }
    return true;
  }

  Checker& checker_;
  const SpmmRow& row_;
  SpmmMemory memory_;
};

}  // namespace

Kernel make_kernel(const SpmmRow& row) {
  return {&row, reinterpret_cast<const void*>(row.run), [&row](Checker& checker) {
            with_sums<F32Sums, KeptInt8Sums>(
                row, [&]<class Sums>(std::type_identity<Sums>) { SpmmCheck<Sums>(checker, row).run(); });
          }};
}

std::vector<Kernel> spmm_kernels() {
  std::vector<Kernel> list;
  for (const SpmmRow& row : spmm_rows()) list.push_back(make_kernel(row));
  return list;
}

}  // namespace quern::check
