// The .qn format: what is written is read again; what is damaged is refused with a reason.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "graph/file/file_header.h"
#include "graph/file/model_generated.h"
#include "graph/ir/rules.h"
#include "small_graphs.h"
#include "source_dir.h"

namespace quern::test {
namespace format_test {

// Bytes at a 64-byte boundary, in a block of exactly their size, so that sanitizers see reads beyond.
struct Image {
  explicit Image(const Vector<unsigned char>& bytes) : buffer(bytes.size()) {
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
  }
  Buffer buffer;
};

qn_status read_bytes(const Vector<unsigned char>& bytes, Graph* graph) {
  auto image = quern::make_shared<Image>(bytes);
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

// ---- subgraphs and states

const format::Model& description_of(const Vector<unsigned char>& bytes) {
  return *format::GetModel(bytes.data() + sizeof(FileHeader));
}

TEST(Format, SubgraphsAndStates) {
  const Graph graph = nested_graph();
  const Vector<unsigned char> bytes = written(graph);
  Graph again;
  ASSERT_EQ(read_bytes(bytes, &again), QN_OK) << qn_last_message();
  expect_same(graph, again);
  EXPECT_EQ(again.states.size(), 1u);
  ASSERT_EQ(again.subgraphs.size(), 2u);
  ASSERT_EQ(again.subgraphs[1].subgraphs.size(), 1u);
  for (const Graph* sharing : {&again.subgraphs[0], &again.subgraphs[1].subgraphs[0]}) {
    EXPECT_EQ(sharing->constants[0].data, again.constants[0].data);
    EXPECT_NE(sharing->constants[0].owner.get(), nullptr);
  }
  EXPECT_EQ(bytes, written(again));
  EXPECT_EQ(description_of(bytes).operators()->size(), 2u);
  EXPECT_EQ(description_of(bytes).subgraphs()->Get(1)->operators()->size(), 1u) << "not those of other graphs";
}

// Gives a graph a copy of its first constant.
void copy_constant(Graph& graph) {
  const Constant from = graph.constants[0];
  const auto buffer = quern::make_shared<Buffer>(from.bytes);
  std::memcpy(buffer->data(), from.data, from.bytes);
  graph.constants[0] = {buffer, buffer->data(), from.bytes};
}

TEST(Format, ConstantsThatGraphsShareAreOneSegment) {
  Graph graph = nested_graph();
  const Vector<unsigned char> shared = written(graph);
  EXPECT_EQ(description_of(shared).segments()->size(), 2u);
  copy_constant(graph.subgraphs[0]);
  const Vector<unsigned char> copied = written(graph);
  EXPECT_EQ(description_of(copied).segments()->size(), 3u);
  const size_t of_segment = sizeof(uint32_t) * 8;  // more or less, what it takes in the description
  EXPECT_NEAR(static_cast<double>(copied.size()), static_cast<double>(shared.size() + 16 * 16 * 4), 64 + of_segment);
}

// 16 x 16 weights, all but one of them 0, in a graph whose subgraph has a layer with them.
Graph sparse_nested_graph() {
  GraphBuilder b;
  std::vector<float> values(16 * 16);
  values[100] = 1;
  const int weights = b.constant_of({16, 16}, values);
  b.output(b.node(OpKind::fully_connected, {b.input("x", {1, 16}), weights}), "y");
  b.graph.subgraphs.push_back(layer_with_weights_of(b.graph, weights));
  return b.done();
}

TEST(Format, SparseWeightsThatGraphsShareAreOneSegment) {
  const Graph graph = sparse_nested_graph();
  const Vector<unsigned char> bytes = written(graph);
  ASSERT_EQ(description_of(bytes).segments()->size(), 1u);
  EXPECT_EQ(description_of(bytes).segments()->Get(0)->encoding(), format::Encoding::sparse);
  Graph again;
  ASSERT_EQ(read_bytes(bytes, &again), QN_OK) << qn_last_message();
  expect_same(graph, again);
  ASSERT_NE(again.constants[0].encoded.get(), nullptr);
  EXPECT_EQ(again.subgraphs[0].constants[0].encoded.get(), again.constants[0].encoded.get());
  EXPECT_EQ(bytes, written(again));
}

TEST(Format, WeightsThatASubgraphReadsInAnotherWayAreDense) {
  Graph graph = sparse_nested_graph();
  Graph& subgraph = graph.subgraphs[0];
  const int weights = subgraph.nodes[0].inputs[1];
  subgraph.tensors[at(weights)].name = String("weights");
  subgraph.outputs.push_back({.tensor = weights});
  const Vector<unsigned char> bytes = written(graph);
  ASSERT_EQ(description_of(bytes).segments()->size(), 1u);
  EXPECT_EQ(description_of(bytes).segments()->Get(0)->encoding(), format::Encoding::raw);
  Graph again;
  ASSERT_EQ(read_bytes(bytes, &again), QN_OK) << qn_last_message();
  expect_same(graph, again);
}

TEST(Format, SubgraphsAreAsDeepAsTheCheckerAllows) {
  const auto nested = [](size_t graphs) {
    Graph graph = sample_graph();
    for (; graphs > 1; --graphs) {
      Graph outer = sample_graph();
      graph.postprocessing = {};  // only the outermost graph has it
      outer.subgraphs.push_back(std::move(graph));
      graph = std::move(outer);
    }
    return graph;
  };
  const Graph deepest = nested(6);
  Graph again;
  ASSERT_EQ(read_bytes(written(deepest), &again), QN_OK) << qn_last_message();
  expect_same(deepest, again);
  Vector<unsigned char> bytes;
  EXPECT_EQ(write_model(nested(7), &bytes), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("more than 6 graphs"), std::string::npos) << qn_last_message();
}

// A file that was written before the format had room for subgraphs, states and open dimensions: nothing is lost on the
// way through a graph.
TEST(Format, OlderFilesAreTheSameBytesAgain) {
  std::ifstream file(QUERN_SOURCE_DIR "/examples/digits/digits.qn", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(text.empty());
  Vector<unsigned char> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  Graph graph;
  ASSERT_EQ(read_bytes(bytes, &graph), QN_OK) << qn_last_message();
  EXPECT_EQ(bytes, written(graph));
}

TEST(Format, RefusesNamesOfDimensionsThatAreNoText) {
  Graph graph = sample_graph();
  Vector<unsigned char> bytes;
  graph.inputs[0].dimensions[1] = String("a\033[2J");
  EXPECT_EQ(write_model(graph, &bytes), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("a dimension's name"), std::string::npos) << qn_last_message();
  graph.inputs[0].dimensions.assign(QN_MAX_RANK + 1, String());
  EXPECT_EQ(write_model(graph, &bytes), QN_BAD_MODEL);
}

// Every attribute survives, and those a file leaves out have the defaults of quern::Attributes.
TEST(Format, Attributes) {
  GraphBuilder b;
  Attributes a;
  float next = 1;
#define QN_ATTRIBUTE(name, field, low, high) \
  a.field = static_cast<decltype(a.field)>(high == 1 ? 1 : high == 2 ? 2 : next++);
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
  a.axis = 1;
  a.coordinates = QN_COORDINATES_HALF_PIXEL_OR_0;
  a.mode = QN_RESIZE_BILINEAR;
  a.rounding = QN_ROUND_HALF_UP;
  a.min = -3;
  a.max = 4;
  Attributes pooling;  // what only averages may have
  pooling.pool_rounding = std::exchange(a.pool_rounding, QN_POOL_ROUND_REAL);
  const int x = b.input("x", {2, 3, 1, 1});
  const int y = b.node(OpKind::softmax, {b.node(OpKind::softmax, {x}, a)});
  b.output(b.node(OpKind::global_average_pool, {y}, pooling), "y");
  const Graph graph = b.done();
  Graph again;
  ASSERT_EQ(read_bytes(written(graph), &again), QN_OK) << qn_last_message();
  expect_same(a, again.nodes[0].attributes);
  expect_same(Attributes(), again.nodes[1].attributes);
  expect_same(pooling, again.nodes[2].attributes);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(format::AttributesBuilder(builder).Finish());
  const auto* defaults = flatbuffers::GetRoot<format::Attributes>(builder.GetBufferPointer());
  const Attributes expected;
#define QN_ATTRIBUTE(name, field, low, high) \
  EXPECT_EQ(static_cast<double>(defaults->name()), static_cast<double>(expected.field)) << #name;
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
}

TEST(Format, SegmentsAreAlignedAndUsedInPlace) {
  const Vector<unsigned char> bytes = written(sample_graph());
  auto image = quern::make_shared<Image>(bytes);
  const auto* data = static_cast<const unsigned char*>(image->buffer.data());
  Graph graph;
  ASSERT_EQ(read_model(data, bytes.size(), image, "test", &graph), QN_OK);
  ASSERT_FALSE(graph.constants.empty());
  for (const Constant& c : graph.constants) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(c.data) % 64, 0u);
    EXPECT_GE(static_cast<const unsigned char*>(c.data), data);
    EXPECT_LE(static_cast<const unsigned char*>(c.data) + c.bytes, data + bytes.size());
    EXPECT_EQ(c.owner.get(), image.get());
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

// ---- files under construction, of models and of tunings

struct Writer {
  const char* name;
  std::function<qn_status(const std::string& path)> write;
};

std::vector<Writer> writers() {
  qn_tuning* tuning = nullptr;
  expect_ok(qn_tuning_create(&tuning));
  const std::shared_ptr<qn_tuning> owner(tuning, qn_tuning_release);
  return {{"model", [](const std::string& path) { return write_model_file(sample_graph(), path.c_str()); }},
          {"tuning", [owner](const std::string& path) { return qn_tuning_save_file(owner.get(), path.c_str()); }}};
}

class NewFiles : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder = std::filesystem::path(testing::TempDir()) / ("quern_" + name + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    path = (folder / "file").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  size_t count() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {})); }
  void put(const std::string& name) const { std::ofstream(name) << "old"; }
  struct stat status() const {
    struct stat result = {};
    EXPECT_EQ(stat(path.c_str(), &result), 0);
    return result;
  }
  mode_t mode() const { return status().st_mode & 07777; }

  std::filesystem::path folder;
  std::string path;
};

TEST_F(NewFiles, FailedWriteLeavesNothing) {
  for (const Writer& writer : writers()) {
    SCOPED_TRACE(writer.name);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(writer.write(path), QN_IO_ERROR);
    rmdir(path.c_str());
    EXPECT_EQ(count(), 0u);

    // No file may grow.
    struct rlimit limit, none;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = limit;
    none.rlim_cur = 8;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    const qn_status status = writer.write(path);
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(status, QN_IO_ERROR);
    EXPECT_EQ(count(), 0u);
  }
}

// What a process of this one's number has left behind.
TEST_F(NewFiles, StaleOnesAreInNobodysWay) {
  const std::string stale = path + ".part" + std::to_string(getpid());
  put(stale);
  for (int i = 0; i < 200; ++i) put(stale + "_" + std::to_string(i));
  const size_t before = count();
  for (const Writer& writer : writers()) {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(writer.write(path), QN_OK) << writer.name << ": " << qn_last_message();
  }
  EXPECT_EQ(count(), before + 1);
}

TEST_F(NewFiles, ThreadsMayWriteTheSame) {
  for (const Writer& writer : writers()) {
    std::atomic<int> failures{0};
    // Each round begins without the file, so that a writer may or may not find that of another one.
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> ready{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
          for (++ready; ready < 4;) std::this_thread::yield();
          failures += writer.write(path) != QN_OK;
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(count(), 1u);
      std::filesystem::remove(path);
    }
    EXPECT_EQ(failures, 0) << writer.name;
  }
}

TEST_F(NewFiles, KeepPermissions) {
  const mode_t mask = umask(027);
  const std::string link = (folder / "link").string();
  for (const Writer& writer : writers()) {
    SCOPED_TRACE(writer.name);
    EXPECT_EQ(writer.write(path), QN_OK);
    EXPECT_EQ(mode(), 0640u);
    std::filesystem::create_symlink("file", link);
    for (const mode_t wanted : {0600u, 0644u, 0666u, 0440u}) {
      for (const std::string& name : {path, link}) {
        ASSERT_EQ(chmod(path.c_str(), wanted), 0);
        EXPECT_EQ(writer.write(name), QN_OK) << qn_last_message();
        EXPECT_EQ(mode(), wanted);
      }
    }
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    if (chown(path.c_str(), 12, 34) == 0) {  // as root may, where these users exist
      EXPECT_EQ(writer.write(path), QN_OK);
      EXPECT_EQ(status().st_uid, 12u);
      EXPECT_EQ(status().st_gid, 34u);
      EXPECT_EQ(mode(), 0440u);
    }
    std::filesystem::remove(link);
    std::filesystem::remove(path);
  }
  umask(mask);
}

}  // namespace format_test
}  // namespace quern::test
