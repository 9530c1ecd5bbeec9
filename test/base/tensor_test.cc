// Tensor descriptions: what is valid, what is refused, and arithmetic that would overflow.
#include "base/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace quern {
namespace tensor_test {

qn_tensor make(std::initializer_list<size_t> shape, std::initializer_list<size_t> stride = {}) {
  qn_tensor tensor = {};
  tensor.type = QN_F32;
  tensor.rank = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape);
  std::copy(stride.begin(), stride.end(), tensor.stride);
  return tensor;
}

// "" for a valid tensor, else the message.
std::string refusal(const qn_tensor& tensor) { return check_tensor(tensor, "test") == QN_OK ? "" : qn_last_message(); }

TEST(Tensor, TypeSizes) {
  EXPECT_EQ(qn_type_size(QN_F32), 4u);
  EXPECT_EQ(qn_type_size(QN_F16), 2u);
  EXPECT_EQ(qn_type_size(QN_I64), 8u);
  EXPECT_EQ(qn_type_size(QN_S8), 1u);
  EXPECT_EQ(qn_type_size(QN_U8), 1u);
  EXPECT_EQ(qn_type_size(QN_S32), 4u);
  EXPECT_EQ(qn_type_size(QN_S64), 8u);
  EXPECT_EQ(qn_type_size(QN_BOOL), 1u);
  EXPECT_EQ(qn_type_size(static_cast<qn_type>(0)), 0u);
  EXPECT_EQ(qn_type_size(static_cast<qn_type>(-1)), 0u);
  EXPECT_EQ(qn_type_size(static_cast<qn_type>(QN_BOOL + 1)), 0u);
}

TEST(Tensor, TypeNames) {
  EXPECT_STREQ(qn_type_string(QN_F32), "f32");
  EXPECT_STREQ(qn_type_string(QN_F16), "f16");
  EXPECT_STREQ(qn_type_string(QN_I64), "s64");
  EXPECT_STREQ(qn_type_string(QN_S8), "s8");
  EXPECT_STREQ(qn_type_string(QN_U8), "u8");
  EXPECT_STREQ(qn_type_string(QN_S32), "s32");
  EXPECT_STREQ(qn_type_string(QN_BOOL), "bool");
  EXPECT_STREQ(qn_type_string(static_cast<qn_type>(0)), "?");
  EXPECT_STREQ(qn_type_string(static_cast<qn_type>(-1)), "?");
}

TEST(Tensor, InitWritesZerosWhereNothingIsSaid) {
  const size_t shape[] = {2};
  qn_tensor tensor, zeros = {};
  std::memset(&tensor, 0xff, sizeof tensor);
  ASSERT_EQ(qn_tensor_init(&tensor, QN_U8, 1, shape), QN_OK);
  EXPECT_EQ(std::memcmp(&tensor.quantization, &zeros.quantization, sizeof tensor.quantization), 0);
  EXPECT_EQ(std::memcmp(tensor.reserved, zeros.reserved, sizeof tensor.reserved), 0);
}

TEST(Tensor, Quantization) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const float scales[] = {1, 0.5f, 2}, zero_scale[] = {1, 0, 2}, nan_scale[] = {1, nan, 2};
  const int32_t zero_points[] = {-128, 0, 127}, far[] = {0, 0, 128};
  const struct {
    qn_type type;
    qn_quantization quantization;
    const char* message;
  } cases[] = {
      {QN_S8, {}, ""},
      {QN_S8, {1e-30f, -128, nullptr, nullptr, 0, 0, 0}, ""},
      {QN_S32, {2, INT32_MIN, nullptr, nullptr, 0, 0, 0}, ""},
      {QN_U8, {2, 255, nullptr, nullptr, 0, 0, 0}, ""},
      {QN_S8, {0, 0, scales, nullptr, 3, 1, 0}, ""},
      {QN_S8, {0, 0, scales, zero_points, 3, 1, 0}, ""},
      {QN_S8, {-1, 0, nullptr, nullptr, 0, 0, 0}, "the scale is -1, not finite and above 0"},
      {QN_S8, {infinity, 0, nullptr, nullptr, 0, 0, 0}, "the scale is inf, not finite and above 0"},
      {QN_S8, {nan, 0, nullptr, nullptr, 0, 0, 0}, "the scale is nan, not finite and above 0"},
      {QN_S8, {0, 3, nullptr, nullptr, 0, 0, 0}, "it has a zero point, an axis or a number of channels, but no scale"},
      {QN_S8, {1, 128, nullptr, nullptr, 0, 0, 0}, "zero point 128 is outside s8, which is -128 to 127"},
      {QN_U8, {1, -1, nullptr, nullptr, 0, 0, 0}, "zero point -1 is outside u8, which is 0 to 255"},
      {QN_F32, {1, 0, nullptr, nullptr, 0, 0, 0}, "it has a scale, but f32 is not quantized"},
      {QN_S64, {1, 0, nullptr, nullptr, 0, 0, 0}, "it has a scale, but s64 is not quantized"},
      {QN_BOOL, {0, 0, scales, nullptr, 3, 1, 0}, "it has a scale, but bool is not quantized"},
      {QN_S8,
       {1, 0, nullptr, zero_points, 0, 0, 0},
       "it has zero points, an axis or a number of channels, but no scales"},
      {QN_S8, {1, 0, scales, nullptr, 3, 1, 0}, "it has both one scale and scales per channel"},
      {QN_S8, {0, 0, scales, nullptr, 3, 2, 0}, "quantized along axis 2 of a tensor of rank 2"},
      {QN_S8, {0, 0, scales, nullptr, 3, 0, 0}, "3 scales for the 2 channels of axis 0"},
      {QN_S8, {0, 0, zero_scale, nullptr, 3, 1, 0}, "the scale is 0, not finite and above 0"},
      {QN_S8, {0, 0, nan_scale, nullptr, 3, 1, 0}, "the scale is nan, not finite and above 0"},
      {QN_S8, {0, 0, scales, far, 3, 1, 0}, "zero point 128 is outside s8, which is -128 to 127"},
      {QN_S8, {0, 0, nullptr, nullptr, 0, 0, 1}, "a reserved word is not 0; was the struct initialised?"}};
  for (const auto& c : cases) {
    qn_tensor tensor = make({2, 3});
    tensor.type = c.type;
    tensor.quantization = c.quantization;
    EXPECT_EQ(refusal(tensor), *c.message == '\0' ? "" : std::string("test: ") + c.message);
  }
  qn_tensor tensor = make({2, 3});
  tensor.reserved[3] = 1;
  EXPECT_EQ(refusal(tensor), "test: a reserved word is not 0; was the struct initialised?");
}

TEST(Tensor, SameQuantization) {
  const float scales[] = {1, 2}, equal[] = {1, 2}, other[] = {1, 3};
  const int32_t zeros[] = {0, 0}, one[] = {0, 1};
  qn_tensor a = make({2}), b = make({2});
  a.type = b.type = QN_S8;
  EXPECT_TRUE(same_quantization(a, b));
  a.quantization = {0, 0, scales, nullptr, 2, 0, 0};
  EXPECT_FALSE(same_quantization(a, b));
  b.quantization = {0, 0, equal, zeros, 2, 0, 0};
  EXPECT_TRUE(same_quantization(a, b));
  b.quantization.zero_points = one;
  EXPECT_FALSE(same_quantization(a, b));
  b.quantization = {0, 0, other, nullptr, 2, 0, 0};
  EXPECT_FALSE(same_quantization(a, b));
}

TEST(Tensor, InitWritesADenseDescription) {
  const size_t shape[] = {2, 3, 4};
  qn_tensor tensor;
  ASSERT_EQ(qn_tensor_init(&tensor, QN_F16, 3, shape), QN_OK);
  EXPECT_EQ(tensor.layout, QN_LAYOUT_NHWC);
  EXPECT_EQ(tensor.rank, 3u);
  EXPECT_EQ(tensor.shape[2], 4u);
  EXPECT_TRUE(is_dense(tensor));
  EXPECT_EQ(element_count(tensor), 24u);
  EXPECT_EQ(qn_tensor_bytes(&tensor), 48u);
}

TEST(Tensor, PixelBlockedImagesAreWholeBlocks) {
  const size_t block = qn_pixel_block();
  qn_tensor tensor = make({2, 9, 11, 5});
  tensor.layout = QN_LAYOUT_PIXEL_BLOCKED;
  const size_t blocks = (99 + block - 1) / block;
  EXPECT_EQ(refusal(tensor), "");
  EXPECT_EQ(qn_tensor_bytes(&tensor), 2 * blocks * 5 * block * 4);
  EXPECT_EQ(element_count(tensor), 2u * 99 * 5);
  const qn_tensor strides = with_strides(tensor), memory = in_memory(strides);
  EXPECT_EQ(strides.stride[0], blocks * 5 * block * 4);
  EXPECT_EQ(strides.stride[1], 5 * block * 4);
  EXPECT_EQ(strides.stride[2], block * 4);
  EXPECT_EQ(strides.stride[3], 4u);
  EXPECT_TRUE(is_dense(strides));
  EXPECT_EQ(memory.layout, QN_LAYOUT_NHWC);
  EXPECT_EQ(memory.shape[1], blocks);
  EXPECT_EQ(memory.shape[3], block);
  tensor = strides;
  tensor.stride[1] *= 3, tensor.stride[0] *= 3;  // a third of the channels of another
  EXPECT_EQ(refusal(tensor), "");
  EXPECT_FALSE(is_dense(tensor));
  tensor.stride[1] = strides.stride[1] - block * 4;
  EXPECT_EQ(refusal(tensor), "test: stride " + std::to_string(tensor.stride[1]) + " of dimension 1 overlaps");
  tensor = make({1, SIZE_MAX / 2, 3, 1});
  tensor.layout = QN_LAYOUT_PIXEL_BLOCKED;
  EXPECT_EQ(refusal(tensor), "test: the size overflows");
}

TEST(Tensor, AScalarHasNoDimensions) {
  qn_tensor tensor;
  ASSERT_EQ(qn_tensor_init(&tensor, QN_I64, 0, nullptr), QN_OK);
  EXPECT_EQ(element_count(tensor), 1u);
  EXPECT_EQ(qn_tensor_bytes(&tensor), 8u);
}

TEST(Tensor, InitRefusesBadArgumentsAndKeepsTheTensor) {
  const size_t shape[] = {2, 3};
  const size_t huge[] = {SIZE_MAX / 4, 2};
  qn_tensor tensor = make({7});
  EXPECT_EQ(qn_tensor_init(nullptr, QN_F32, 1, shape), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tensor_init(&tensor, QN_F32, 1, nullptr), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tensor_init(&tensor, QN_F32, QN_MAX_RANK + 1, shape), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tensor_init(&tensor, static_cast<qn_type>(99), 1, shape), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_tensor_init(&tensor, QN_F32, 2, huge), QN_INVALID_ARGUMENT);
  EXPECT_STREQ(qn_last_message(), "qn_tensor_init: the size overflows");
  EXPECT_EQ(tensor.rank, 1u);
  EXPECT_EQ(tensor.shape[0], 7u);
}

TEST(Tensor, ADimensionMayBe0) {
  const size_t shape[] = {2, 0, SIZE_MAX / 16}, huge[] = {SIZE_MAX / 4, 0, 2};
  qn_tensor tensor;
  ASSERT_EQ(qn_tensor_init(&tensor, QN_F32, 3, shape), QN_OK) << qn_last_message();
  EXPECT_EQ(element_count(tensor), 0u);
  EXPECT_EQ(qn_tensor_bytes(&tensor), 0u);
  EXPECT_EQ(qn_tensor_init(&tensor, QN_F32, 3, huge), QN_INVALID_ARGUMENT);  // it would not fit without the 0
  for (const qn_layout layout : {QN_LAYOUT_NHWC, QN_LAYOUT_PIXEL_BLOCKED}) {
    for (size_t zero = 0; zero < 4; ++zero) {
      qn_tensor image = make({2, 3, 5, 7});
      image.shape[zero] = 0;
      image.layout = layout;
      EXPECT_EQ(refusal(image), "");
      EXPECT_EQ(refusal(with_strides(image)), "") << "its own strides, dimension " << zero;
      EXPECT_TRUE(is_dense(image));
      EXPECT_EQ(qn_tensor_bytes(&image), 0u);
      EXPECT_FALSE(overlap(&image, image, &image, image));
    }
  }
  EXPECT_NE(refusal(make({2, 0, 3}, {4, 12, 4})).find("overlaps"), std::string::npos);
  qn_tensor channels = make({2, 0});
  const float scales[] = {1};
  channels.type = QN_S8;
  channels.quantization = {0, 0, scales, nullptr, 0, 1, 0};
  EXPECT_EQ(refusal(channels), "");
}

TEST(Tensor, StridesMayLeaveGaps) {
  const qn_tensor tensor = make({2, 3, 4}, {100, 32, 4});
  EXPECT_EQ(refusal(tensor), "");
  EXPECT_FALSE(is_dense(tensor));
  EXPECT_EQ(qn_tensor_bytes(&tensor), 100u + 2 * 32 + 4 * 4);
}

TEST(Tensor, WrittenOutDenseStridesAreDense) {
  const qn_tensor tensor = with_strides(make({2, 3, 4}));
  EXPECT_EQ(tensor.stride[0], 48u);
  EXPECT_EQ(tensor.stride[1], 16u);
  EXPECT_EQ(tensor.stride[2], 4u);
  EXPECT_TRUE(is_dense(tensor));
  EXPECT_EQ(refusal(tensor), "");
}

TEST(Tensor, StrideOfADimensionOfOneDoesNotMatter) {
  EXPECT_TRUE(is_dense(make({1, 3, 4}, {1000, 16, 4})));
  EXPECT_FALSE(is_dense(make({2, 3, 4}, {1000, 16, 4})));
}

TEST(Tensor, RefusesWhatIsNoTensor) {
  qn_tensor tensor = make({2, 3});
  tensor.type = static_cast<qn_type>(-1);
  EXPECT_EQ(refusal(tensor), "test: unknown type -1");
  tensor = make({2, 3});
  tensor.layout = static_cast<qn_layout>(5);
  EXPECT_EQ(refusal(tensor), "test: unknown layout 5");
  tensor = make({2, 3});
  tensor.rank = QN_MAX_RANK + 1;
  EXPECT_NE(refusal(tensor).find("rank"), std::string::npos);
  EXPECT_NE(refusal(make({2, 3}, {12, 8})).find("innermost stride"), std::string::npos);
  EXPECT_NE(refusal(make({2, 3}, {8, 4})).find("overlaps"), std::string::npos);
  EXPECT_NE(refusal(make({2, 3}, {14, 4})).find("not a multiple"), std::string::npos);
  EXPECT_EQ(qn_tensor_bytes(nullptr), 0u);
  tensor = make({2, 0});
  EXPECT_EQ(qn_tensor_bytes(&tensor), 0u);
}

TEST(Tensor, RefusesSizesThatOverflow) {
  constexpr size_t big = SIZE_MAX / 8, root = size_t{1} << 4 * sizeof(size_t);
  EXPECT_EQ(refusal(make({big, big})), "test: the size overflows");
  EXPECT_EQ(refusal(make({root, root})), "test: the size overflows");
  EXPECT_EQ(refusal(make({big + 1, 2}, {8, 4})), "test: the size overflows");
  EXPECT_EQ(refusal(make({2, 2}, {SIZE_MAX - 3, 4})), "test: the size overflows");
  EXPECT_EQ(refusal(make({big})), "");  // large, but it fits
}

// Every pair of dimensions around the powers of two.
TEST(Tensor, OverflowIsFoundExactly) {
  constexpr unsigned bits = 8 * sizeof(size_t) - 2;
  for (unsigned i = 0; i < bits; ++i) {
    for (unsigned j = 0; j < bits; ++j) {
      for (const size_t nudge : {size_t{0}, size_t{1}}) {
        const size_t rows = (size_t{1} << i) + nudge, columns = size_t{1} << j;
        const bool fits = rows <= size_t{PTRDIFF_MAX} >> j >> 2;
        EXPECT_EQ(refusal(make({rows, columns})).empty(), fits) << rows << " x " << columns;
      }
    }
  }
}

TEST(Tensor, SameShape) {
  EXPECT_TRUE(same_shape(make({2, 3}), make({2, 3}, {100, 4})));
  EXPECT_FALSE(same_shape(make({2, 3}), make({3, 2})));
  EXPECT_FALSE(same_shape(make({2, 3}), make({2, 3, 1})));
}

// Places of all elements, in elements.
std::set<size_t> places(const qn_tensor& tensor, size_t at = 0, uint32_t dimension = 0) {
  if (dimension == tensor.rank) return {at};
  std::set<size_t> all;
  for (size_t i = 0; i < tensor.shape[dimension]; ++i) {
    all.merge(places(tensor, at + i * tensor.stride[dimension] / sizeof(float), dimension + 1));
  }
  return all;
}

// With gaps of up to `most` elements, in some dimensions.
qn_tensor random_tensor(std::mt19937& random, size_t most) {
  qn_tensor tensor = {};
  tensor.type = QN_F32;
  tensor.rank = static_cast<uint32_t>(random() % 5);
  size_t span = sizeof(float);
  for (uint32_t i = tensor.rank; i-- > 0;) {
    const size_t gap = i + 1 == tensor.rank || random() % 2 == 0 ? 0 : random() % (most + 1);
    tensor.shape[i] = 1 + random() % 4;
    tensor.stride[i] = span + gap * sizeof(float);
    span += (tensor.shape[i] - 1) * tensor.stride[i];
    if (gap == 0) span = tensor.shape[i] * tensor.stride[i];
  }
  return tensor;
}

TEST(Tensor, OverlapIsACommonElement) {
  std::mt19937 random(1);
  std::vector<float> memory(1 << 14);
  size_t common = 0, interleaved = 0;
  for (size_t n = 0; n < 20000; ++n) {
    const qn_tensor a = random_tensor(random, 12);
    qn_tensor b = random_tensor(random, 12);
    if (random() % 2 == 0) {  // slices of one tensor, of sizes of their own
      b = a;
      for (uint32_t i = 0; i < b.rank; ++i) b.shape[i] = 1 + random() % b.shape[i];
    }
    const std::set<size_t> in_a = places(a), in_b = places(b);
    const size_t a_begin = *in_b.rbegin() + 1, b_begin = random() % (a_begin + *in_a.rbegin() + 2);
    const bool expected =
        std::any_of(in_b.begin(), in_b.end(), [&](size_t at) { return in_a.count(b_begin + at - a_begin) != 0; });
    const bool ranges = b_begin <= a_begin + *in_a.rbegin() && a_begin <= b_begin + *in_b.rbegin();
    ASSERT_EQ(overlap(&memory[a_begin], a, &memory[b_begin], b), expected) << "pair " << n;
    ASSERT_EQ(overlap(&memory[b_begin], b, &memory[a_begin], a), expected) << "pair " << n;
    common += expected;
    interleaved += ranges && !expected;
  }
  EXPECT_GT(common, 1000u);
  EXPECT_GT(interleaved, 1000u);
}

// Were elements looked at one by one, this would take hours.
TEST(Tensor, OverlapOfLargeTensorsTakesNoTime) {
  if (sizeof(size_t) == 4) GTEST_SKIP() << "tensors of many GiB";
  const size_t pixel = 32, n = 10000;
  const qn_tensor slice = make({n, n, n, 4}, {n * n * pixel, n * pixel, pixel, 4});
  const char* data = reinterpret_cast<const char*>(uintptr_t{4096});
  EXPECT_FALSE(overlap(data, slice, data + 16, slice));
  EXPECT_TRUE(overlap(data, slice, data + 12, slice));
  EXPECT_FALSE(overlap(data, slice, data + 16, make({n * n, n, 4}, {n * pixel, pixel, 4})));
}

TEST(Tensor, OverlapOfPixelBlockedImages) {
  const size_t block = qn_pixel_block() * sizeof(float);
  qn_tensor half = make({2, 5, 7, 3});  // of the channels of an image
  half.layout = QN_LAYOUT_PIXEL_BLOCKED;
  const size_t blocks = 34 / qn_pixel_block() + 1;
  const size_t strides[] = {blocks * 6 * block, 6 * block, block, sizeof(float)};
  std::copy(strides, strides + 4, half.stride);
  const std::vector<char> memory(2 * blocks * 6 * block);
  EXPECT_FALSE(overlap(memory.data(), half, memory.data() + 3 * block, half));
  EXPECT_TRUE(overlap(memory.data(), half, memory.data() + 2 * block, half));
}

}  // namespace tensor_test
}  // namespace quern
