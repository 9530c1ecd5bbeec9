// Sparse weights in .qn files: what is written is read again bit for bit, takes the bytes it should, and is never made
// dense by loading.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "graph/file/encode_sparse.h"
#include "graph/file/file_header.h"
#include "graph/file/mapped_file.h"
#include "meter.h"
#include "small_graphs.h"

namespace quern::test {
namespace sparse_test {

using Values = std::vector<float>;

Vector<unsigned char> written(const Graph& graph) {
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes));
  return bytes;
}

// The bytes are copied to a block of exactly their size, which the graph keeps.
Graph read_again(const Vector<unsigned char>& bytes) {
  auto image = quern::make_shared<Buffer>(bytes.size());
  std::memcpy(image->data(), bytes.data(), bytes.size());
  Graph graph;
  expect_ok(read_model(image->data(), bytes.size(), image, "test", &graph));
  return graph;
}

// Values of which whole blocks of rows are 0.
Values pruned(size_t rows, size_t depth, size_t block, double zeros, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> dice(0, 1);
  std::normal_distribution<float> bell;
  Values values(rows * depth);
  for (size_t row = 0; row < rows; row += block) {
    for (size_t p = 0; p < depth; ++p) {
      if (dice(random) < zeros) continue;
      for (size_t r = row; r < std::min(rows, row + block); ++r) values[r * depth + p] = bell(random);
    }
  }
  return values;
}

Constant constant_of(const Values& values) {
  auto buffer = quern::make_shared<Buffer>(values.size() * sizeof(float));
  std::memcpy(buffer->data(), values.data(), buffer->size());
  const void* data = buffer->data();
  return {buffer, data, values.size() * sizeof(float)};
}

bool same_bits(const float* a, const float* b, size_t count) { return std::memcmp(a, b, count * sizeof(float)) == 0; }

struct Matrix {
  const char* name;
  size_t rows, depth;
  Values values;
};

std::vector<Matrix> matrices() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Matrix> list = {
      {"one element", 1, 1, {3}},
      {"nothing", 5, 7, Values(35)},
      {"one row", 1, 1000, pruned(1, 1000, 1, 0.9, 1)},
      {"one column", 100, 1, pruned(100, 1, 1, 0.9, 2)},
      {"blocks of 4 and a rest", 31, 90, pruned(31, 90, 4, 0.8, 3)},
      {"blocks of 16", 64, 90, pruned(64, 90, 16, 0.8, 4)},
      {"full", 33, 20, pruned(33, 20, 1, 0, 5)},
      {"hardly anything", 17, 5000, pruned(17, 5000, 1, 0.999, 6)},
  };
  // Steps about as long as a byte says, and at the end of a row.
  Matrix steps = {"steps", 12, 1200, Values(12 * 1200)};
  for (const size_t at : {255, 256, 257, 511, 512, 513, 767, 768, 1023, 1024, 1199}) {
    steps.values[at / 100 * 1200 + at] = static_cast<float>(at);
  }
  list.push_back(steps);
  Matrix odd = {"odd values", 4, 50, Values(200)};
  odd.values[7] = -0.0f, odd.values[60] = nan, odd.values[61] = 1e-45f;
  odd.values[199] = std::numeric_limits<float>::infinity();
  list.push_back(odd);
  return list;
}

// Every block, whether it pays or not.
TEST(SparseSegments, AnyRowsAreDecodedAsTheyWere) {
  for (const Matrix& m : matrices()) {
    const Constant constant = constant_of(m.values);
    Values expected = m.values;  // but that -0 is 0
    for (float& v : expected) v = v == 0 ? 0 : v;
    for (const size_t block : {1, 2, 4, 8, 16}) {
      SCOPED_TRACE(testing::Message() << m.name << ", blocks of " << block);
      // The number of positions, by the definition of the format.
      uint64_t positions = 0;
      for (size_t row = 0; row < m.rows; row += block) {
        size_t after = 0;
        for (size_t p = 0; p < m.depth; ++p) {
          bool any = false;
          for (size_t r = row; r < std::min(m.rows, row + block); ++r) {
            any = any || m.values[r * m.depth + p] != 0;
          }
          if (!any) continue;
          positions += 1 + (p - after) / 256;
          after = p + 1;
        }
      }
      SparsePlan plan = {block, positions, 0};
      plan.bytes = sparse_parts((m.rows + block - 1) / block, positions, block).total();
      Vector<unsigned char> bytes;
      expect_ok(encode_sparse(constant, m.rows, plan, &bytes));
      ASSERT_EQ(bytes.size(), plan.bytes);
      Buffer segment(bytes.size());
      std::memcpy(segment.data(), bytes.data(), bytes.size());
      Shared<const SparseConstant> sparse;
      ASSERT_EQ(SparseConstant::read({static_cast<unsigned char*>(segment.data()), bytes.size()}, m.rows, m.depth,
                                     block, &sparse),
                QN_OK)
          << qn_last_message();
      for (size_t first = 0; first < m.rows; ++first) {
        for (size_t count = 1; count <= m.rows - first; count += count < 20 ? 1 : 23) {
          Values rows(count * m.depth, 7.0f);
          expect_ok(sparse->decode(first, count, rows.data()));
          ASSERT_TRUE(same_bits(rows.data(), &expected[first * m.depth], rows.size())) << first << ", " << count;
        }
      }
    }
  }
}

// The smallest of what is possible; of equals the widest; nothing where dense is no larger.
TEST(SparseSegments, TheBestBlockIsPlanned) {
  const auto planned = [](size_t rows, const Values& values) {
    SparsePlan plan;
    expect_ok(plan_sparse(constant_of(values), rows, &plan));
    return plan;
  };
  for (const size_t block : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(planned(64, pruned(64, 200, block, 0.8, 1)).block, block);
  }
  EXPECT_EQ(planned(64, Values(64 * 200)).block, 16u) << "nothing at all: fewest counts";
  EXPECT_EQ(planned(64, pruned(64, 200, 1, 0, 1)).block, 0u);
  EXPECT_EQ(planned(64, pruned(64, 200, 1, 0.15, 1)).block, 0u);
  EXPECT_EQ(planned(64, pruned(64, 200, 1, 0.25, 1)).block, 1u);
  EXPECT_EQ(planned(1, {0}).block, 0u);
  const SparsePlan plan = planned(64, pruned(64, 200, 4, 0.8, 1));
  Vector<unsigned char> bytes;
  expect_ok(encode_sparse(constant_of(pruned(64, 200, 4, 0.8, 1)), 64, plan, &bytes));
  EXPECT_EQ(bytes.size(), plan.bytes);
}

TEST(SparseSegments, TakeTheBytesTheyShould) {
  for (const size_t depth : {64, 512, 9 * 128}) {
    const double dense = static_cast<double>(128 * depth * sizeof(float));
    SparsePlan random, blocks;
    expect_ok(plan_sparse(constant_of(pruned(128, depth, 1, 0.9, 1)), 128, &random));
    expect_ok(plan_sparse(constant_of(pruned(128, depth, 4, 0.9, 1)), 128, &blocks));
    EXPECT_LE(static_cast<double>(random.bytes), 0.16 * dense) << depth;
    EXPECT_LE(static_cast<double>(blocks.bytes), 0.125 * dense) << depth;
  }
}

// ---- models

// 1x1, 3x3, grouped and depthwise convolutions and a matrix, at the sparsities given.
Graph network(double zeros, size_t block) {
  GraphBuilder b;
  b.graph.source = String("test");
  unsigned seed = 3;
  const auto weights = [&](Shape shape) {
    size_t depth = 1;
    for (size_t i = 1; i < shape.size(); ++i) depth *= shape[i];
    const size_t rows = shape[0];
    return b.constant_of(std::move(shape), pruned(rows, depth, block, zeros, ++seed));
  };
  const auto grouped = [](size_t groups, size_t padding) {
    Attributes a = window(1, 1, padding);
    a.groups = groups;
    return a;
  };
  int x = b.input("x", {1, 7, 9, 40});
  x = b.node(OpKind::conv2d, {x, weights({70, 1, 1, 40}), b.constant({70})});
  x = b.node(OpKind::conv2d, {x, weights({48, 3, 3, 70}), b.constant({48})}, window(1, 1, 1));
  x = b.node(OpKind::conv2d, {x, weights({36, 3, 3, 16}), no_tensor}, grouped(3, 1));
  x = b.node(OpKind::conv2d, {x, weights({36, 3, 3, 1}), b.constant({36})}, grouped(36, 1));
  x = b.node(OpKind::reshape, {x}, values({0, -1}));
  b.output(b.node(OpKind::fully_connected, {x, weights({33, 7 * 9 * 36}), b.constant({33})}), "y");
  return b.done();
}

size_t sparse_constants(const Graph& graph) {
  return static_cast<size_t>(std::count_if(graph.constants.begin(), graph.constants.end(),
                                           [](const Constant& c) { return c.encoded != nullptr; }));
}

std::vector<float> run(Graph graph) {
  qn_model* model = nullptr;
  qn_session* session = nullptr;
  std::vector<float> result;
  if (make_model(std::move(graph), nullptr, &model) == QN_OK && qn_session_create(model, nullptr, &session) == QN_OK) {
    std::vector<float> input(7 * 9 * 40);
    for (size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
    const void* inputs[] = {input.data()};
    const void* output = nullptr;
    expect_ok(qn_session_run(session, inputs));
    expect_ok(qn_session_output(session, 0, &output));
    result.assign(static_cast<const float*>(output), static_cast<const float*>(output) + 33);
  } else {
    ADD_FAILURE() << qn_last_message();
  }
  qn_session_release(session);
  qn_model_release(model);
  return result;
}

TEST(SparseFiles, GiveTheSameGraphAndTheSameBits) {
  for (const size_t block : {1, 4, 16}) {
    for (const double zeros : {0.5, 0.9, 1.0}) {
      SCOPED_TRACE(testing::Message() << zeros << " zeros in blocks of " << block);
      const Graph dense = network(zeros, block);
      const Vector<unsigned char> bytes = written(dense);
      Graph sparse = read_again(bytes);
      EXPECT_EQ(sparse_constants(dense), 0u);
      EXPECT_GE(sparse_constants(sparse), 4u);
      expect_same(dense, sparse);
      EXPECT_EQ(written(sparse), bytes) << "sparse constants are written as they were";
      const std::vector<float> expected = run(dense), got = run(sparse);
      ASSERT_EQ(expected.size(), got.size());
      EXPECT_TRUE(same_bits(expected.data(), got.data(), got.size()));
      expect_ok(make_dense(sparse));
      EXPECT_EQ(sparse_constants(sparse), 0u);
      expect_same(dense, sparse);
    }
  }
}

TEST(SparseFiles, PassesSeeDenseWeights) {
  Graph dense = network(0.9, 1);
  Graph sparse = read_again(written(dense));
  expect_ok(optimize(dense));
  expect_ok(optimize(sparse));
  EXPECT_EQ(sparse_constants(sparse), 0u);
  expect_same(dense, sparse);
}

// What anything but a layer reads as its weights stays dense, however many zeros it has.
TEST(SparseFiles, OnlyWeightsAreSparse) {
  const auto check = [](size_t expected, const std::function<void(GraphBuilder&, int, int)>& make) {
    GraphBuilder b;
    const int x = b.input("x", {16, 16});
    const int w = b.constant_of({16, 16}, Values(256));
    make(b, x, w);
    const Graph graph = b.done();
    const Graph again = read_again(written(graph));
    EXPECT_EQ(sparse_constants(again), expected);
    expect_same(graph, again);
  };
  const auto layer = [](GraphBuilder& b, int x, int w) { return b.node(OpKind::fully_connected, {x, w}); };
  check(1, [&](auto& b, int x, int w) { b.output(layer(b, x, w), "y"); });
  check(1, [&](auto& b, int x, int w) { b.output(layer(b, layer(b, x, w), w), "y"); });
  check(0, [&](auto& b, int x, int w) { b.output(b.node(OpKind::add, {x, w}), "y"); });
  check(0, [&](auto& b, int x, int w) { b.output(b.node(OpKind::add, {layer(b, x, w), w}), "y"); });
  check(0, [&](auto& b, int, int w) { b.output(layer(b, w, w), "y"); });
  check(0, [&](auto& b, int x, int w) {
    b.output(layer(b, x, w), "y");
    b.output(w, "w");
  });
  check(0, [&](auto& b, int x, int w) {  // the same bytes as two matrices
    const int flat = add_tensor(b.graph, String(), QN_F32, {8, 32});
    b.graph.tensors[static_cast<size_t>(flat)].constant = b.graph.tensors[static_cast<size_t>(w)].constant;
    b.output(layer(b, x, w), "y");
    b.output(layer(b, b.node(OpKind::reshape, {x}, values({8, 32})), flat), "z");
  });
}

// ---- memory

Meter meter;

class SparseMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    path = ::testing::TempDir() + "quern_sparse_" + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
           ".qn";
    GraphBuilder b;
    const int x = b.input("x", {1, 2, 2, depth});
    b.output(b.node(OpKind::conv2d, {x, b.constant_of({rows, 1, 1, depth}, pruned(rows, depth, 1, 0.9, 1))}), "y");
    ASSERT_EQ(write_model_file(b.done(), path.c_str()), QN_OK) << qn_last_message();
    const qn_allocator allocator = {&meter, Meter::allocate, Meter::release, {}};
    ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
    meter.most = meter.now.load();
  }
  void TearDown() override {
    ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
    std::remove(path.c_str());
  }

  static constexpr size_t rows = 1024, depth = 2048, dense = rows * depth * sizeof(float);
  std::string path;
};

TEST_F(SparseMemory, LoadingNeverMakesTheDenseMatrix) {
  struct Limit {
    qn_algorithm algorithm;
    double most, kept;  // of the dense matrix, while planning and afterwards
  };
  // The dense algorithm's panels are as large as the matrix, but that is not there beside them.
  for (const Limit& limit : {Limit{QN_ALGORITHM_SPARSE, 0.5, 0.16}, Limit{QN_ALGORITHM_GEMM, 1.1, 1.1}}) {
    SCOPED_TRACE(qn_algorithm_string(limit.algorithm));
    qn_model* model = nullptr;
    meter.most = meter.now.load();
    ASSERT_EQ(qn_model_load_file(path.c_str(), nullptr, &model), QN_OK) << qn_last_message();
    EXPECT_LT(meter.most, dense / 100);
    qn_session_options options;
    qn_session_options_init(&options);
    options.algorithm = limit.algorithm;
    qn_session* session = nullptr;
    ASSERT_EQ(qn_session_create(model, &options, &session), QN_OK) << qn_last_message();
    EXPECT_LT(static_cast<double>(meter.most), limit.most * static_cast<double>(dense));
    EXPECT_LT(static_cast<double>(meter.now), limit.kept * static_cast<double>(dense));
    qn_session_release(session);
    qn_model_release(model);
  }
}

// The file is another one than when it was checked: planning fails, and nothing outside the rows is written.
TEST_F(SparseMemory, AFileThatChangesAfterLoadingIsRefused) {
  Shared<const MappedFile> file;
  ASSERT_EQ(map_file(path.c_str(), &file), QN_OK);
  Buffer bytes(file->size());
  std::memcpy(bytes.data(), file->data(), file->size());
  qn_model* model = nullptr;
  ASSERT_EQ(qn_model_load_memory(bytes.data(), bytes.size(), nullptr, &model), QN_OK) << qn_last_message();
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t first = header.segments_offset;
  std::memset(static_cast<unsigned char*>(bytes.data()) + first, 0xff, bytes.size() - first);
  qn_session* session = nullptr;
  EXPECT_EQ(qn_session_create(model, nullptr, &session), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("decoding the weights failed"), std::string::npos) << qn_last_message();
  EXPECT_EQ(session, nullptr);
  qn_model_release(model);
}

}  // namespace sparse_test
}  // namespace quern::test
