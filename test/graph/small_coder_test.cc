// The coder of small data: what is encoded is decoded again, damaged streams are safe, and the format does not change.
#include "graph/coder/small_coder.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph/coder/encode_small.h"

namespace quern::test {
namespace small_coder_test {

using Bytes = std::vector<unsigned char>;

// A block of exactly these bytes, so that sanitizers see accesses beyond.
struct Block {
  explicit Block(const Bytes& bytes) : size(bytes.size()), data(new unsigned char[bytes.size()]) {
    for (size_t i = 0; i < size; ++i) data[i] = bytes[i];
  }
  size_t size;
  std::unique_ptr<unsigned char[]> data;
};

Bytes encode(const Bytes& bytes, size_t stride) {
  const Block block(bytes);
  const Vector<unsigned char> stream = encode_small({block.data.get(), block.size}, stride);
  return Bytes(stream.begin(), stream.end());
}

// Sets `bytes` to the decoded bytes, as many as it has.
bool decode(const Bytes& stream, size_t stride, Bytes* bytes) {
  const Block block(stream), to(*bytes);
  const bool ok = decode_small({block.data.get(), block.size}, stride, to.data.get(), to.size);
  bytes->assign(to.data.get(), to.data.get() + to.size);
  return ok;
}

Bytes random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

// Like a FlatBuffer: tables of words, names, offsets that grow with their positions, and many zeros.
Bytes structured(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  for (uint32_t i = 0; bytes.size() < count; ++i) {
    const std::string name = "layer" + std::to_string(i / 3) + "/conv";
    const auto position = static_cast<uint32_t>(bytes.size());
    for (const uint32_t word : {position + 20, uint32_t{48}, i, i + 1, uint32_t{0}, uint32_t{1} << random() % 9}) {
      for (int b = 0; b < 4; ++b) bytes.push_back(static_cast<unsigned char>(word >> 8 * b));
    }
    bytes.insert(bytes.end(), name.begin(), name.end());
    bytes.resize((bytes.size() + 4) / 4 * 4);
  }
  bytes.resize(count);
  return bytes;
}

// Rows of int8 of which each is much like the one before.
Bytes rows(size_t count, size_t length, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    const int above = i < length ? 0 : static_cast<signed char>(bytes[i - length]);
    bytes[i] = static_cast<unsigned char>(above / 2 + static_cast<int>(random() % 31) - 15);
  }
  return bytes;
}

constexpr size_t strides[] = {0, 1, 2, 3, 4, 9, 16, 17, 1000, 1 << 20, SIZE_MAX / 2, SIZE_MAX};

void expect_round_trip(const Bytes& bytes, size_t stride) {
  const Bytes stream = encode(bytes, stride);
  Bytes again(bytes.size());
  EXPECT_TRUE(decode(stream, stride, &again)) << bytes.size() << " bytes of stride " << stride;
  EXPECT_TRUE(again == bytes) << bytes.size() << " bytes of stride " << stride;
}

TEST(SmallCoder, DecodesWhatItEncodes) {
  for (const size_t stride : strides) {
    for (const size_t count : {0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 100, 1000, 5000}) {
      const auto seed = static_cast<unsigned>(count);
      expect_round_trip(random_bytes(count, seed), stride);
      expect_round_trip(structured(count, seed), stride);
      expect_round_trip(rows(count, 9, seed), stride);
      for (const unsigned char value : Bytes{0, 1, 127, 128, 255}) expect_round_trip(Bytes(count, value), stride);
    }
  }
  for (unsigned value = 0; value < 256; ++value) expect_round_trip({static_cast<unsigned char>(value)}, 4);
}

TEST(SmallCoder, EverySizeOfStructuredData) {
  const Bytes all = structured(300, 1);
  for (size_t count = 0; count <= all.size(); ++count) {
    expect_round_trip(Bytes(all.begin(), all.begin() + static_cast<ptrdiff_t>(count)), 4);
  }
}

TEST(SmallCoder, DataLargerThanItsTables) {
  expect_round_trip(structured(300000, 1), 4);
  expect_round_trip(random_bytes(100000, 2), 1);
  expect_round_trip(Bytes(1000000, 7), 4);
}

TEST(SmallCoder, Sizes) {
  EXPECT_TRUE(encode({}, 4).empty());
  EXPECT_LE(encode(Bytes(10000, 0), 4).size(), 25u);
  EXPECT_LE(encode(structured(10000, 1), 4).size(), 1000u);
  EXPECT_LE(encode(rows(9000, 9, 1), 9).size(), 6600u);
  EXPECT_LE(encode(random_bytes(10000, 1), 4).size(), 10300u);
}

TEST(SmallCoder, TruncatedStreams) {
  for (const size_t stride : {1, 4, 9}) {
    const Bytes bytes = structured(1500, 3), stream = encode(bytes, stride);
    size_t refused = 0;
    for (size_t size = 0; size < stream.size(); ++size) {
      const Bytes part(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(size));
      Bytes again(bytes.size());
      if (!decode(part, stride, &again)) ++refused;
      EXPECT_FALSE(again == bytes) << size;
    }
    EXPECT_GE(refused, stream.size() * 9 / 10);  // others happen to end like the stream of other bytes
    Bytes longer = stream, again(bytes.size());
    for (const unsigned char extra : Bytes{0, 1, 255}) {
      longer.push_back(extra);
      EXPECT_FALSE(decode(longer, stride, &again));
      longer.pop_back();
    }
    EXPECT_FALSE(decode(stream, stride, &(again = Bytes(bytes.size() - 50))));
  }
}

// Whatever a stream holds, decoding ends and touches nothing but the stream and the bytes to decode. The result does
// not depend on what these bytes were before.
void expect_safe(const Bytes& stream, size_t stride, size_t count) {
  Bytes first(count), second(count, 255);
  const bool ok = decode(stream, stride, &first);
  EXPECT_EQ(decode(stream, stride, &second), ok);
  EXPECT_TRUE(first == second);
  expect_round_trip(first, stride);
}

TEST(SmallCoder, HostileStreams) {
  std::mt19937 random(1);
  const Bytes stream = encode(structured(2000, 4), 4);
  for (unsigned i = 0; i < 300; ++i) {
    const size_t stride = strides[i % std::size(strides)], size = random() % 100, count = random() % 1000;
    expect_safe(random_bytes(size, i), stride, count);
    Bytes changed = stream;
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      changed[random() % changed.size()] ^= static_cast<unsigned char>(1 + random() % 255);
    }
    expect_safe(changed, i % 2 == 0 ? 4 : stride, 2000);
  }
  for (const unsigned char value : Bytes{0, 255}) {
    for (const size_t stride : strides) expect_safe(Bytes(50, value), stride, 20000);
  }
}

// The format: files hold such streams, and every CPU must read them.
TEST(SmallCoder, StreamsStayAsTheyAre) {
  const std::string text = "conv1 conv2 conv3 conv4 relu1 relu2 relu3 relu4";
  const Bytes words = structured(200, 1), bytes(text.begin(), text.end());
  const auto hex = [](const Bytes& stream) {
    std::string digits;
    for (const unsigned char byte : stream) {
      for (const int shift : {4, 0}) digits += "0123456789abcdef"[byte >> shift & 15];
    }
    return digits;
  };
  EXPECT_EQ(hex(encode(bytes, 1)), "c8dc241b3a9ba22cf6c4453e113336d5002e");
  EXPECT_EQ(hex(encode(bytes, 6)), "c8dc6def8b7ddd01f5b1a51b3ef6d838fc86");
  EXPECT_EQ(hex(encode(words, 4)),
            "e6a6ef87a36b95918933404c521874670679c424e79f8e57a6e2515e5924fbc3837704c64113cd5f89bc0057bdaf");
  // Longer ones by a sum over them.
  const auto sum = [](const Bytes& stream) {
    uint32_t value = 2166136261;
    for (const unsigned char byte : stream) value = (value ^ byte) * 16777619;
    return value;
  };
  EXPECT_EQ(sum(encode(structured(30000, 1), 4)), 710985338u);
  EXPECT_EQ(sum(encode(rows(9000, 9, 1), 9)), 2416842781u);
}

}  // namespace small_coder_test
}  // namespace quern::test
