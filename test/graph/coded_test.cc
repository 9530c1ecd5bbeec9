// Files of version 2, whose contents are coded: they hold the same model, which runs to the same bits.
#include "graph/file/coded.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "graph/coder/encode_rans.h"
#include "graph/file/file_header.h"
#include "meter.h"
#include "op/weights/density.h"
#include "small_graphs.h"

namespace quern::test {
namespace coded_test {

Vector<unsigned char> file_of(const Graph& graph, FileForm form) {
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes, form));
  return bytes;
}

// The bytes of a file at an aligned address.
class Image {
 public:
  Image(const Graph& graph, FileForm form) : Image(file_of(graph, form)) {}
  explicit Image(const Vector<unsigned char>& bytes) : room_(make_shared<Buffer>(bytes.size())) {
    std::memcpy(room_->data(), bytes.data(), bytes.size());
  }
  Graph graph() const {
    Graph graph;
    expect_ok(read_model(room_->data(), size(), room_, "file", &graph));
    return graph;
  }
  size_t size() const { return room_->size(); }
  const void* data() const { return room_->data(); }
  const FileHeader& header() const { return *static_cast<const FileHeader*>(room_->data()); }

 private:
  Shared<Buffer> room_;
};

// How the weights of a network are given.
enum class Given : uint8_t { floats, sparse_floats, bytes, blocks, full_bytes };
constexpr Given all_given[] = {Given::floats, Given::sparse_floats, Given::bytes, Given::blocks};

// Adds a constant for the weights of a layer that computes with floats.
int weights(GraphBuilder& b, Given given, const Shape& shape) {
  if (given == Given::floats) return b.constant(shape);
  size_t count = 1;
  for (const size_t d : shape) count *= d;
  std::mt19937 random(static_cast<uint32_t>(count));
  std::vector<float> floats(count);
  std::vector<int8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    const bool zero = given != Given::full_bytes && random() % 10 < (given == Given::sparse_floats ? 9 : 3);
    bytes[i] = zero ? int8_t{0} : static_cast<int8_t>(static_cast<int>(2 * (random() % 8)) - 7);
    floats[i] = bytes[i];
  }
  if (given == Given::sparse_floats) return b.constant_of(shape, floats);
  const int tensor = add_constant(b.graph, String(), QN_S8, shape, bytes.data());
  Quantization& q = b.graph.tensors[at(tensor)].quantization;
  const size_t depth = count / shape[0];
  q.axis = 0;
  q.block = given == Given::blocks ? 32 : 0;
  const size_t runs = given == Given::blocks ? (depth + 31) / 32 : 1;
  for (size_t i = 0; i < shape[0] * runs; ++i) q.scales.push_back(0.01f + 0.0001f * static_cast<float>(i % 99));
  return tensor;
}

// A convolution of many inputs, one of all channels by themselves, a pointwise one, and a product.
Graph network(Given given) {
  GraphBuilder b;
  const int x = b.input("x", {1, 9, 9, 24});
  const int c = b.node(OpKind::conv2d, {x, weights(b, given, {40, 3, 3, 24}), b.constant({40})}, window(3, 1, 1));
  Attributes depthwise = window(3, 2, 1);
  depthwise.groups = 40;
  const Given of_depthwise = given == Given::blocks ? Given::bytes : given;
  const int d = b.node(OpKind::conv2d, {c, weights(b, of_depthwise, {40, 3, 3, 1}), b.constant({40})}, depthwise);
  const int p = b.node(OpKind::conv2d, {d, weights(b, given, {64, 1, 1, 40}), b.constant({64})}, window(1, 1, 0));
  const int flat = b.node(OpKind::reshape, {p}, values({0, -1}));
  b.output(b.node(OpKind::fully_connected, {flat, weights(b, given, {33, 25 * 64}), b.constant({33})}), "y");
  return b.done();
}

// The same in bytes: a convolution and a product.
Graph network_of_bytes() {
  GraphBuilder b;
  const int x = b.as_bytes(b.input("x", {1, 9, 9, 24}, QN_S8), 0.05f, -7);
  const int c =
      b.as_bytes(b.node(OpKind::conv2d, {x, weights(b, Given::bytes, {40, 3, 3, 24})}, window(3, 1, 1)), 1, 3);
  const int flat = b.as_bytes(b.node(OpKind::reshape, {c}, values({0, -1})), 1, 3);
  const int y = b.node(OpKind::fully_connected, {flat, weights(b, Given::bytes, {33, 81 * 40})});
  b.output(b.as_bytes(y, 3, 1), "y", QN_S8);
  return b.done();
}

std::vector<Graph> networks() {
  std::vector<Graph> all;
  for (const Given given : all_given) all.push_back(network(given));
  all.push_back(network_of_bytes());
  return all;
}

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};

// The bytes of the first output, of a graph whose first input has `size` bytes or fewer.
std::vector<unsigned char> run(const Image& image) {
  qn_model* model = nullptr;
  qn_session* session = nullptr;
  expect_ok(qn_model_load_memory(image.data(), image.size(), nullptr, &model));
  const std::unique_ptr<qn_model, Release> model_owner(model);
  expect_ok(qn_session_create(model, nullptr, &session));
  const std::unique_ptr<qn_session, Release> session_owner(session);
  qn_tensor tensor;
  expect_ok(qn_session_input_tensor(session, 0, &tensor));
  std::mt19937 random(7);
  std::vector<float> floats(qn_tensor_bytes(&tensor) / sizeof(float) + 1);
  for (float& value : floats) value = std::uniform_real_distribution<float>(-1, 1)(random);
  const void* const inputs[] = {floats.data()};
  expect_ok(qn_session_run(session, inputs));
  const void* data = nullptr;
  expect_ok(qn_session_output(session, 0, &data));
  expect_ok(qn_session_output_tensor(session, 0, &tensor));
  const auto* const bytes = static_cast<const unsigned char*>(data);
  return {bytes, bytes + qn_tensor_bytes(&tensor)};
}

TEST(Coded, HoldTheSameModel) {
  std::vector<Graph> graphs = networks();
  for (Graph (*make)() : {sample_graph, integer_graph, nested_graph}) graphs.push_back(make());
  for (const Graph& graph : graphs) {
    const Image coded(graph, FileForm::coded), plain(graph, FileForm::plain);
    EXPECT_EQ(coded.header().version, 2u);
    EXPECT_EQ(plain.header().version, 1u);
    const Graph again = coded.graph();
    expect_same(graph, again);
    EXPECT_EQ(again.file_version, 2u);
    EXPECT_EQ(file_of(again, FileForm::coded), file_of(graph, FileForm::coded));
    EXPECT_EQ(file_of(again, FileForm::plain), file_of(graph, FileForm::plain));
    EXPECT_LT(coded.size(), plain.size());
    EXPECT_LT(coded.header().segments_offset - sizeof(FileHeader) - coded.header().description_size, 64u);
  }
}

TEST(Coded, RunToTheSameBits) {
  for (const Graph& graph : networks())
    EXPECT_EQ(run(Image(graph, FileForm::coded)), run(Image(graph, FileForm::plain)));
}

TEST(Coded, OnlyWeightsStayCoded) {
  for (const Graph& graph : networks()) {
    const Graph again = Image(graph, FileForm::coded).graph();
    size_t encoded = 0;
    for (const Node& node : again.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const int constant = tensor_of(again, node.inputs[i]).constant;
        if (constant < 0) continue;
        EXPECT_EQ(again.constants[at(constant)].encoded != nullptr, i == 1);
        encoded += i == 1;
      }
    }
    EXPECT_GE(encoded, 2u);
  }
}

// Many scales are not small data (coder/small_coder.h), which would take long.
TEST(Coded, ManyScalesAreNumbers) {
  const Image coded(network(Given::blocks), FileForm::coded);
  EXPECT_GT(coded.header().numbers_bytes, 33 * 50 * sizeof(float));
  EXPECT_LT(coded.header().numbers_size, coded.header().numbers_bytes);
  EXPECT_EQ(Image(network(Given::floats), FileForm::coded).header().numbers_bytes, 0u);
}

class CodedRows : public ::testing::TestWithParam<size_t> {
 protected:
  static constexpr size_t rows = 37, depth = 301;

  CodedRows() : item(GetParam()), bytes(rows * depth * item) {
    std::mt19937 random(5);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() % 9);
    const CodedShape shape = CodedShape::of(bytes.size(), rows, item);
    stream = encode_rans({reinterpret_cast<const int8_t*>(bytes.data()), bytes.size()}, shape.rows, shape.depth);
    constant = CodedConstant::make({stream.data(), stream.size()}, rows, bytes.size(), item, {});
  }

  bool is_right(size_t first, size_t count) const {
    std::vector<unsigned char> read(count * depth * item);
    expect_ok(constant->decode(first, count, read.data()));
    return std::equal(read.begin(), read.end(), bytes.begin() + static_cast<ptrdiff_t>(first * depth * item));
  }

  size_t item;
  std::vector<unsigned char> bytes;
  Vector<unsigned char> stream;
  Shared<const CodedConstant> constant;
};

INSTANTIATE_TEST_SUITE_P(Items, CodedRows, ::testing::Values(1, 4));

TEST_P(CodedRows, AreReadInAnyOrder) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const size_t first = random() % rows, count = 1 + random() % (rows - first);
    ASSERT_TRUE(is_right(first, count)) << first << ", " << count;
  }
}

TEST_P(CodedRows, AreReadBySeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& count : wrong) {
    threads.emplace_back([&count, this] {
      for (size_t round = 0; round < 5; ++round) {
        for (size_t row = 0; row < rows; row += 5) count += !is_right(row, std::min<size_t>(5, rows - row));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// What is wrong with a stream is seen at the latest when its last row is read; then reading may begin again.
TEST_P(CodedRows, AreRefusedIfTheirStreamIsDamaged) {
  const Vector<unsigned char> whole = stream;
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); at += 7) {
    stream[at] = static_cast<unsigned char>(whole[at] ^ 0x10);
    std::vector<unsigned char> read(bytes.size());
    const qn_status status = constant->decode(0, rows, read.data());
    refused += status == QN_BAD_MODEL;
    stream[at] = whole[at];
    ASSERT_TRUE(is_right(0, rows)) << at;
  }
  EXPECT_GT(refused, whole.size() / 7 * 9 / 10);
}

TEST(Coded, SummariesSayWhatWeightsHold) {
  for (const Given given : all_given) {
    const Graph graph = network(given), again = Image(graph, FileForm::coded).graph();
    for (const Node& node : again.nodes) {
      if (node.inputs.size() < 2 || node.kind == OpKind::reshape) continue;
      const Tensor& tensor = tensor_of(again, node.inputs[1]);
      const Constant& constant = again.constants[at(tensor.constant)];
      if (given == Given::sparse_floats && constant.encoded->summary() == nullptr) continue;  // stored as nonzeros
      ASSERT_NE(constant.encoded->summary(), nullptr);
      const qn_weights_summary& summary = *constant.encoded->summary();
      const std::vector<unsigned char> bytes = bytes_of(constant);
      const size_t zeros = tensor.type == QN_S8 ? static_cast<size_t>(std::count(bytes.begin(), bytes.end(), 0)) : 0;
      if (tensor.type == QN_S8) {
        EXPECT_EQ(summary.blocks[0][0], bytes.size() - zeros);
        EXPECT_EQ(summary.least, -7);
        EXPECT_EQ(summary.most, 7);
        EXPECT_GT(summary.largest_sum, bytes.size() / tensor.shape[0]);
      } else {
        EXPECT_EQ(summary.blocks[0][0] == 0, given == Given::floats);
      }
    }
  }
}

// ---- memory

Meter meter;

// While a model is loaded and planned, hardly more memory is in use than afterwards: coded weights go to their panels strip
// by strip.
TEST(Coded, LoadingTakesLittleMemoryBeyondThePanels) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 1024});
  b.output(b.node(OpKind::conv2d, {x, weights(b, Given::full_bytes, {2048, 1, 1, 1024})}), "y");
  const std::vector<std::pair<Graph, bool>> cases = {{b.done(), true}, {network_of_bytes(), false}};
  for (const auto& [graph, large] : cases) {
    const Vector<unsigned char> bytes = file_of(graph, FileForm::coded);
    const std::unique_ptr<void, decltype(&std::free)> image(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64),
                                                            std::free);
    std::memcpy(image.get(), bytes.data(), bytes.size());
    const qn_allocator allocator = {&meter, Meter::allocate, Meter::release, {}};
    ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
    meter.now = meter.most = 0;
    qn_model* model = nullptr;
    qn_session* session = nullptr;
    EXPECT_EQ(qn_model_load_memory(image.get(), bytes.size(), nullptr, &model), QN_OK) << qn_last_message();
    EXPECT_EQ(qn_session_create(model, nullptr, &session), QN_OK) << qn_last_message();
    EXPECT_LE(meter.most, meter.now + (size_t{1} << 20) + (large ? 12 * 32 * 1024 : 0));
    qn_session_release(session);
    qn_model_release(model);
    ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
  }
}

}  // namespace coded_test
}  // namespace quern::test
