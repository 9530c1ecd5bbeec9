// verify_description() against the verifier that flatc generates: for a description with every field that there is, for
// damaged ones, and for one whose parts are shared so often that a walk through it would not end.
#include "graph/file/description.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "graph/file/model_generated.h"

namespace quern::test {
namespace description_test {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Bytes = std::vector<uint8_t>;

bool by_flatc(const Bytes& bytes) {
  constexpr flatbuffers::uoffset_t max_depth = 8;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), max_depth,
                                 static_cast<flatbuffers::uoffset_t>(bytes.size() / 8));
  return verifier.VerifyBuffer<format::Model>(nullptr);
}

bool by_us(const Bytes& bytes) { return verify_description(bytes.data(), bytes.size()); }

Bytes finished(FlatBufferBuilder& b, Offset<format::Model> model) {
  format::FinishModelBuffer(b, model);
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

Offset<format::Port> full_port(FlatBufferBuilder& b) {
  const float ones[] = {1, 1, 1, 1};
  const uint32_t crop[] = {1, 1};
  const format::Preprocessing preprocessing(ones, ones, crop, 1, 1);
  const std::vector<Offset<flatbuffers::String>> names = {b.CreateString("batch"), b.CreateString("")};
  return format::CreatePort(b, 0, format::Type::f32, &preprocessing, 1, b.CreateString("fix"), 2,
                            b.CreateVector(names));
}

// A model in which no field is absent, `depth` models deep.
Offset<format::Model> full_model(FlatBufferBuilder& b, int depth) {
  std::vector<Offset<format::Model>> inner;
  if (depth > 1) inner.push_back(full_model(b, depth - 1));
  const std::vector<uint64_t> shape = {1, 2};
  const std::vector<float> scales = {1};
  const std::vector<int32_t> numbers = {0, 1, -1};
  const std::vector<int64_t> values = {-7, 7};
  const std::vector<uint32_t> bodies = {0};
  const std::vector<Offset<flatbuffers::String>> operators = {b.CreateString("add")};
  const std::vector<Offset<format::Segment>> segments = {
      format::CreateSegment(b, 64, 1, 2, format::Encoding::sparse, 3, 4)};
  const std::vector<Offset<format::Tensor>> tensors = {
      format::CreateTensor(b, b.CreateString("t"), format::Type::s8, b.CreateVector(shape), 0, b.CreateVector(scales),
                           b.CreateVector(numbers), 1)};
  const auto list = b.CreateVector(values);
  format::AttributesBuilder attributes(b);
  attributes.add_kernel_h(3);
  attributes.add_ceil_mode(1);
  attributes.add_axis(-3);
  attributes.add_alpha(0.5f);
  attributes.add_values(list);
  attributes.add_same_padding(1);
  const auto attributes_table = attributes.Finish();
  const std::vector<Offset<format::Node>> nodes = {format::CreateNode(b, 0, b.CreateString("n"),
                                                                      b.CreateVector(numbers), b.CreateVector(numbers),
                                                                      attributes_table, b.CreateVector(bodies))};
  const std::vector<Offset<format::Port>> ports = {full_port(b), full_port(b)};
  const std::vector<format::State> states = {format::State(1, 2)};
  const auto meaning = format::CreatePostprocessing(b, b.CreateVector(operators), b.CreateString("rows"),
                                                    b.CreateVector(bodies), 1, 0, 0.25f, 0.75f);
  return format::CreateModel(b, b.CreateString("source"), b.CreateString("name"), b.CreateVector(operators),
                             b.CreateVector(segments), b.CreateVector(tensors), b.CreateVector(nodes),
                             b.CreateVector(ports), b.CreateVector(ports), b.CreateVector(inner),
                             b.CreateVectorOfStructs(states), meaning);
}

Bytes full(int depth) {
  FlatBufferBuilder b;
  return finished(b, full_model(b, depth));
}

// Whether both verifiers say the same. Ours may refuse more, as it looks at the offsets of all elements of lists: it
// then adds to `stricter`.
void compare(const Bytes& bytes, const std::string& damage, size_t* accepted, size_t* refused, size_t* stricter) {
  const bool theirs = by_flatc(bytes), ours = by_us(bytes);
  EXPECT_FALSE(ours && !theirs) << damage;
  *(ours ? accepted : refused) += 1;
  *stricter += theirs && !ours;
}

TEST(Description, TakesWhatFlatcMakes) {
  EXPECT_TRUE(by_us(full(1)));
  EXPECT_TRUE(by_us(full(3)));
  FlatBufferBuilder b;
  EXPECT_TRUE(by_us(finished(b, format::CreateModel(b))));
}

TEST(Description, RefusesModelsThatAreTooDeep) {
  EXPECT_TRUE(by_flatc(full(6)));
  EXPECT_TRUE(by_us(full(6)));
  EXPECT_FALSE(by_flatc(full(7)));
  EXPECT_FALSE(by_us(full(7)));
}

TEST(Description, AgreesWithFlatcOnEveryFlippedBit) {
  const Bytes whole = full(2);
  size_t accepted = 0, refused = 0, stricter = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes bytes = whole;
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1u << bit % 8));
    compare(bytes, "bit " + std::to_string(bit), &accepted, &refused, &stricter);
  }
  EXPECT_GT(accepted, whole.size());
  EXPECT_GT(refused, whole.size());
  EXPECT_LE(stricter * 50, refused);
}

TEST(Description, AgreesWithFlatcOnExtremeWords) {
  const Bytes whole = full(2);
  size_t accepted = 0, refused = 0, stricter = 0;
  for (size_t at = 0; at + 4 <= whole.size(); at += 2) {
    for (const uint32_t word : {0u, 1u, 2u, 4u, 0x10u, 0x100u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0xfffffff0u}) {
      Bytes bytes = whole;
      std::memcpy(&bytes[at], &word, sizeof word);
      compare(bytes, std::to_string(word) + " at " + std::to_string(at), &accepted, &refused, &stricter);
    }
  }
  EXPECT_GT(refused, whole.size());
  EXPECT_LE(stricter * 50, refused);
}

TEST(Description, AgreesWithFlatcOnRandomDamage) {
  std::mt19937 random(5);
  size_t accepted = 0, refused = 0, stricter = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = full(1 + round % 3);
    for (unsigned hits = 1 + random() % 4; hits > 0; --hits) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random() % 64);
    }
    if (round % 4 == 0) bytes.resize(bytes.size() - random() % (bytes.size() - 8));
    compare(bytes, "round " + std::to_string(round), &accepted, &refused, &stricter);
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
  EXPECT_LE(stricter * 50, refused);
}

// Each of many ports has the same list of many names. A walk through all of them would take half a minute.
TEST(Description, RefusesListsThatAreSharedTooOften) {
  FlatBufferBuilder b;
  const std::vector<Offset<flatbuffers::String>> names(100'000, b.CreateString("name"));
  const auto list = b.CreateVector(names);
  format::PortBuilder port(b);
  port.add_dimensions(list);
  const auto table = port.Finish();
  const std::vector<Offset<format::Port>> ports(100'000, table);
  EXPECT_FALSE(by_us(finished(b, format::CreateModel(b, 0, 0, 0, 0, 0, 0, b.CreateVector(ports)))));
  b.Clear();
  const std::vector<Offset<flatbuffers::String>> again(1000, b.CreateString("name"));
  EXPECT_TRUE(by_us(finished(b, format::CreateModel(b, 0, 0, b.CreateVector(again)))));
}

}  // namespace description_test
}  // namespace quern::test
