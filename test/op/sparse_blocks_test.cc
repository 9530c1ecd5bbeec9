// Sparse weights of bytes, counted and packed in blocks of input and output channels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernel/select.h"
#include "op/harness.h"
#include "op/weights/density.h"
#include "op/weights/pack_sparse.h"

namespace quern::test {
namespace sparse_blocks_test {

constexpr size_t pixels = 5;

// Weights of bytes in the order of QN_WEIGHTS_OHWI; about a quarter of their blocks of 4 x 4 are not 0.
class ByteWeights {
 public:
  ByteWeights(const WeightsShape& shape, uint64_t seed) : shape_(shape), values_(rows() * shape.depth()) {
    const std::vector<float> draws = reals(values_.size() * 2, seed);
    for (size_t o = 0; o < rows(); ++o) {
      for (size_t k = 0; k < shape.depth(); ++k) {
        const size_t i = o * shape.depth() + k, block = o % shape.out / 4 * 31 + k / shape.in * 7 + k % shape.in / 4;
        const bool present = block * 2654435761u % 97 < 24 && draws[2 * i] > -0.5f;
        values_[i] = present ? static_cast<int8_t>(draws[2 * i + 1] * 127) : int8_t{0};
      }
    }
    qn_weights_init(&weights_);
    weights_.type = QN_S8;
    weights_.data = values_.data();
    weights_.scales = &scale_;
    weights_.scale_count = 1;
  }
  ByteWeights(const ByteWeights&) = delete;
  ByteWeights& operator=(const ByteWeights&) = delete;

  const qn_weights& get() const { return weights_; }
  const std::vector<int8_t>& values() const { return values_; }
  size_t rows() const { return shape_.groups * shape_.out; }
  int8_t at(size_t o, size_t k) const { return values_[o * shape_.depth() + k]; }
  // Has the block of this size that begins with output o and input i of a tap any weight other than 0?
  bool present(size_t o, size_t tap, size_t i, size_t outputs, size_t inputs) const {
    for (size_t x = o; x < std::min(o + outputs, (o / shape_.out + 1) * shape_.out); ++x) {
      for (size_t y = i; y < std::min(i + inputs, shape_.in); ++y) {
        if (at(x, tap * shape_.in + y) != 0) return true;
      }
    }
    return false;
  }

 private:
  const WeightsShape& shape_;
  std::vector<int8_t> values_;
  float scale_ = 0.5f;
  qn_weights weights_;
};

const WeightsShape shapes[] = {
    {1, 40, 9, {3, 3}}, {2, 21, 8, {1, 1}}, {3, 6, 3, {2, 3}}, {1, 70, 300, {1, 1}}, {1, 33, 1, {5, 1}},
};

TEST(SparseBlocks, AreCounted) {
  for (const WeightsShape& shape : shapes) {
    const ByteWeights weights(shape, 5);
    const WeightsDensity density = count_density(weights.get(), shape);
    for (const qn_weights_layout layout : {QN_WEIGHTS_OIHW, QN_WEIGHTS_HWIO}) {
      const std::vector<int8_t> values = reordered(weights.values(), weights.rows(), shape.in, layout);
      qn_weights other = weights.get();
      other.layout = layout;
      other.data = values.data();
      const WeightsDensity same = count_density(other, shape);
      EXPECT_EQ(std::memcmp(same.blocks, density.blocks, sizeof density.blocks), 0) << "layout " << layout;
    }
    for (const size_t inputs : {1, 4}) {
      for (size_t outputs = 1; outputs <= 16; outputs *= 2) {
        size_t count = 0;
        for (size_t group = 0; group < shape.groups; ++group) {
          for (size_t o = 0; o < shape.out; o += outputs) {
            for (size_t tap = 0; tap < shape.taps(); ++tap) {
              for (size_t i = 0; i < shape.in; i += inputs) {
                count += weights.present(group * shape.out + o, tap, i, outputs, inputs) ? 1 : 0;
              }
            }
          }
        }
        EXPECT_EQ(density.stored(outputs, inputs), static_cast<double>(count * outputs * inputs))
            << inputs << "x" << outputs << " of " << shape.out << " from " << shape.in;
      }
    }
  }
}

TEST(SparseBlocks, OfFullWeightsAreAll) {
  const WeightsShape shape = {2, 21, 9, {3, 3}};
  const std::vector<int8_t> full(shape.groups * shape.out * shape.depth(), 3);
  qn_weights weights;
  qn_weights_init(&weights);
  weights.type = QN_S8;
  weights.data = full.data();
  const WeightsDensity density = count_density(weights, shape);
  EXPECT_EQ(density.stored(1), 2 * 21 * 81);
  EXPECT_EQ(density.stored(4, 1), 2 * 24 * 81);
  EXPECT_EQ(density.stored(4, 4), 2 * 24 * 9 * 12);
}

// The reference for blocks of bytes of this size.
const SpmmRow& reference(size_t inputs, size_t outputs) {
  return *select(spmm_rows(), KernelType::qs8c, nullptr, [=](const SpmmRow& row) {
    return row.isa == isa_ref && row.inputs == inputs && row.block == outputs;
  });
}

// Multiplies random pixels with packed weights; compares all sums with those of all weights.
template <size_t inputs, size_t outputs>
void check_product(const WeightsShape& shape, size_t depth, int32_t input_zero) {
  const SpmmRow& row = reference(inputs, outputs);
  const ByteWeights user(shape, 7);
  std::vector<int32_t> bias(user.rows());
  for (size_t o = 0; o < bias.size(); ++o) bias[o] = static_cast<int32_t>(o * 37 % 201) - 100;
  const Weights weights(user.get(), shape, bias.data(), nullptr);
  const Packed packed = weights.pack(sparse_packing(row), sparse_block(row), depth, {}, input_zero);
  const auto& sparse = static_cast<const quern::SparseWeights&>(*packed);

  // Lanes beyond the last channel of a tap hold numbers, too, which meet weights of 0.
  const size_t rows = shape.depth(inputs), row_bytes = pixels * inputs, of_tap = rows / shape.taps();
  const std::vector<float> draws = reals(rows * row_bytes, 11);
  std::vector<int8_t> a(draws.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(draws[i] * 128);
  const auto input = [&](size_t k, size_t pixel) {
    const size_t in_tap = k % shape.in;
    return a[(k / shape.in * of_tap + in_tap / inputs) * row_bytes + pixel * inputs + in_tap % inputs];
  };

  const size_t last = sparse.blocks * sparse_channels;
  std::vector<int32_t> c(last * pixels);
  for (size_t group = 0; group < shape.groups; ++group) {
    for (size_t chunk = 0; chunk < sparse.chunks; ++chunk) {
      for (size_t block = 0; block < sparse.blocks; ++block) {
        multiply_sparse(row, sparse, group, chunk, block, pixels,
                        reinterpret_cast<const char*>(a.data()) + chunk * depth * row_bytes, row_bytes,
                        reinterpret_cast<char*>(&c[block * sparse_channels * pixels]), pixels * sizeof(int32_t),
                        nullptr);
      }
    }
    for (size_t o = 0; o < shape.out; ++o) {
      for (size_t p = 0; p < pixels; ++p) {
        const size_t channel = group * shape.out + o;
        int32_t sum = bias[channel];
        for (size_t k = 0; k < shape.depth(); ++k) sum += (input(k, p) - input_zero) * user.at(channel, k);
        ASSERT_EQ(c[o * pixels + p], sum) << "channel " << channel << ", pixel " << p << ", " << inputs << "x"
                                          << outputs << " of " << shape.in << ", depth " << depth;
      }
    }
  }
}

TEST(SparseBlocks, GiveTheSumsOfAllWeights) {
  for (const WeightsShape& shape : shapes) {
    for (const int32_t input_zero : {0, -77}) {
      for (const size_t depth : {5, 1000}) {
        check_product<4, 4>(shape, depth, input_zero);
        check_product<4, 16>(shape, depth, input_zero);
        check_product<1, 4>(shape, depth, input_zero);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace sparse_blocks_test
}  // namespace quern::test
