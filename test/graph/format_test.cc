// The .qn format: what is written is read again; what is damaged is refused with a reason.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include "graph/file_header.h"
#include "graph/model_generated.h"
#include "graph/rules.h"
#include "small_graphs.h"

namespace quern::test {
namespace {

// Bytes at a 64-byte boundary, in a block of exactly their size, so that sanitizers see reads beyond.
struct Image {
  explicit Image(const Vector<unsigned char>& bytes) : buffer(bytes.size()) {
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
  }
  Buffer buffer;
};

qn_status read_bytes(const Vector<unsigned char>& bytes, Graph* graph) {
  auto image = std::make_shared<Image>(bytes);
  const void* data = image->buffer.data();
  return read_model(data, bytes.size(), image, "test", graph);
}

Vector<unsigned char> written(const Graph& graph) {
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes));
  return bytes;
}

TEST(Format, RoundTrip) {
  const Graph graph = sample_graph();
  Graph again;
  ASSERT_EQ(read_bytes(written(graph), &again), QN_OK) << qn_last_message();
  expect_same(graph, again);
}

TEST(Format, WritesTheSameBytesAgain) {
  const Vector<unsigned char> first = written(sample_graph());
  Graph again;
  ASSERT_EQ(read_bytes(first, &again), QN_OK);
  EXPECT_EQ(first, written(again));
}

// Every attribute survives, and those a file leaves out have the defaults of quern::Attributes.
TEST(Format, Attributes) {
  GraphBuilder b;
  Attributes a;
  float next = 1;
#define QN_ATTRIBUTE(name, field, low, high) \
  a.field = static_cast<decltype(a.field)>(high == 1 ? 1 : high == 2 ? 2 : next++);
#include "graph/attributes.inc"
#undef QN_ATTRIBUTE
  a.axis = 1;
  a.coordinates = QN_COORDINATES_HALF_PIXEL_OR_0;
  a.mode = QN_RESIZE_BILINEAR;
  a.rounding = QN_ROUND_HALF_UP;
  a.min = -3;
  a.max = 4;
  const int x = b.input("x", {2, 3});
  b.output(b.node(OpKind::softmax, {b.node(OpKind::softmax, {x}, a)}), "y");
  const Graph graph = b.done();
  Graph again;
  ASSERT_EQ(read_bytes(written(graph), &again), QN_OK) << qn_last_message();
  expect_same(a, again.nodes[0].attributes);
  expect_same(Attributes(), again.nodes[1].attributes);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(format::AttributesBuilder(builder).Finish());
  const auto* defaults = flatbuffers::GetRoot<format::Attributes>(builder.GetBufferPointer());
  const Attributes expected;
#define QN_ATTRIBUTE(name, field, low, high) \
  EXPECT_EQ(static_cast<double>(defaults->name()), static_cast<double>(expected.field)) << #name;
#include "graph/attributes.inc"
#undef QN_ATTRIBUTE
}

TEST(Format, SegmentsAreAlignedAndUsedInPlace) {
  const Vector<unsigned char> bytes = written(sample_graph());
  auto image = std::make_shared<Image>(bytes);
  const auto* data = static_cast<const unsigned char*>(image->buffer.data());
  Graph graph;
  ASSERT_EQ(read_model(data, bytes.size(), image, "test", &graph), QN_OK);
  ASSERT_FALSE(graph.constants.empty());
  for (const Constant& c : graph.constants) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(c.data) % 64, 0u);
    EXPECT_GE(static_cast<const unsigned char*>(c.data), data);
    EXPECT_LE(static_cast<const unsigned char*>(c.data) + c.bytes, data + bytes.size());
    EXPECT_EQ(c.owner, image);
  }
}

TEST(Format, File) {
  const std::string path = ::testing::TempDir() + "quern_format_test.qn";
  const Graph graph = sample_graph();
  ASSERT_EQ(write_model_file(graph, path.c_str()), QN_OK) << qn_last_message();
  ASSERT_EQ(write_model_file(graph, path.c_str()), QN_OK) << "replaces: " << qn_last_message();
  Graph again;
  ASSERT_EQ(read_model_file(path.c_str(), &again), QN_OK) << qn_last_message();
  expect_same(graph, again);
  std::remove(path.c_str());
}

TEST(Format, FileErrors) {
  Graph graph;
  EXPECT_EQ(read_model_file("/nonexistent/x.qn", &graph), QN_IO_ERROR);
  EXPECT_EQ(read_model_file(::testing::TempDir().c_str(), &graph), QN_IO_ERROR);
  const std::string pipe = ::testing::TempDir() + "quern_pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_model_file(pipe.c_str(), &graph), QN_IO_ERROR);
  std::remove(pipe.c_str());
  const std::string empty = ::testing::TempDir() + "quern_empty";
  std::ofstream(empty.c_str()).close();
  EXPECT_EQ(read_model_file(empty.c_str(), &graph), QN_BAD_MODEL);
  std::remove(empty.c_str());
  EXPECT_EQ(write_model_file(sample_graph(), "/nonexistent/x.qn"), QN_IO_ERROR);
}

TEST(Format, FailedWriteLeavesNothing) {
  const std::string path = ::testing::TempDir() + "quern_folder.qn";
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);  // rename over a folder fails
  EXPECT_EQ(write_model_file(sample_graph(), path.c_str()), QN_IO_ERROR);
  EXPECT_NE(access((path + ".part" + std::to_string(getpid())).c_str(), F_OK), 0);
  rmdir(path.c_str());
}

}  // namespace
}  // namespace quern::test
