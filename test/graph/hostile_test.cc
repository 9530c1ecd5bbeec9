// Damaged and hostile .qn files: a clear error or a normal load, never a crash, and no more memory than the file is
// worth.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <tuple>

#include "graph/coder/encode_rans.h"
#include "graph/file/coded.h"
#include "graph/file/file_header.h"
#include "graph/file/model_generated.h"
#include "meter.h"
#include "small_graphs.h"

namespace quern::test {
namespace hostile_test {

using Bytes = Vector<unsigned char>;

Meter meter;

// The library's memory is measured while a test of this kind runs.
class Hostile : public ::testing::Test {
 protected:
  void SetUp() override {
    const qn_allocator allocator = {&meter, Meter::allocate, Meter::release, {}};
    ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
  }
  void TearDown() override { ASSERT_EQ(qn_set_allocator(nullptr), QN_OK); }

  // Reads exactly these bytes. Whatever happens is fine but for crashes, wasted memory and errors without a reason.
  static qn_status load(const Bytes& bytes, bool run) {
    void* data = nullptr;
    if (posix_memalign(&data, 64, std::max<size_t>(bytes.size(), 1)) != 0) throw std::bad_alloc();
    const std::unique_ptr<void, decltype(&std::free)> copy(data, std::free);
    if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
    meter.most = meter.now.load();
    const size_t before = meter.now;
    Graph graph;
    const qn_status status = read_model(data, bytes.size(), nullptr, "file", &graph);
    EXPECT_LE(meter.most - before, 64 * bytes.size() + (is_coded(bytes) ? room_to_decode : 4096))
        << "bytes allocated for a file of " << bytes.size();
    if (status != QN_OK) {
      EXPECT_EQ(status, QN_BAD_MODEL);
      EXPECT_EQ(std::string(qn_last_message()).find("file: "), 0u) << qn_last_message();
      return status;
    }
    if (run) use(std::move(graph));
    EXPECT_LE(meter.most - before, (size_t{1} << 30) + (size_t{64} << 20));
    return QN_OK;
  }

  // A coded description may become a mebibyte; the coder has tables of a fifth of that.
  static constexpr size_t room_to_decode = size_t{3} << 19;
  static bool is_coded(const Bytes& bytes) {
    return bytes.size() >= sizeof(FileHeader) && reinterpret_cast<const FileHeader&>(bytes[0]).version == coded_version;
  }

  static void flip_bits(const Bytes& whole, size_t begin, size_t end);

  static void use(Graph graph) {
    qn_model* model = nullptr;
    qn_session* session = nullptr;
    if (make_model(std::move(graph), nullptr, &model) == QN_OK &&
        qn_session_create(model, nullptr, &session) == QN_OK && qn_session_memory(session) < (1u << 20)) {
      std::vector<std::vector<float>> inputs;
      std::vector<const void*> pointers;
      for (size_t i = 0; i < qn_model_input_count(model); ++i) {
        qn_tensor tensor;
        expect_ok(qn_session_input_tensor(session, i, &tensor));
        if (qn_tensor_bytes(&tensor) > (1u << 20)) break;
        inputs.emplace_back(qn_tensor_bytes(&tensor) / 4 + 1);
      }
      if (inputs.size() == qn_model_input_count(model)) {
        for (const auto& input : inputs) pointers.push_back(input.data());
        expect_ok(qn_session_run(session, pointers.data()));
      }
    }
    qn_session_release(session);
    qn_model_release(model);
  }
};

// Small, so that all of its bits can be tried.
Graph tiny_graph() {
  GraphBuilder b;
  b.graph.source = String("test");
  const int x = b.input("x", {1, 3, 3, 2});
  b.graph.inputs[0].preprocessing.present = 1;
  const int c = b.node(OpKind::conv2d, {x, b.constant({2, 2, 2, 2}), b.constant({2})}, window(1, 1, 1));
  const int f = b.node(OpKind::reshape, {c}, values({0, -1}));
  b.output(b.node(OpKind::fully_connected, {f, b.constant({2, 32})}), "y");
  return b.done();
}

Bytes file_of(const Graph& graph, FileForm form = FileForm::plain) {
  Bytes bytes;
  expect_ok(write_model(graph, &bytes, form));
  return bytes;
}

FileHeader& header_of(Bytes& bytes) { return *reinterpret_cast<FileHeader*>(bytes.data()); }

TEST_F(Hostile, EveryTruncation) {
  const Bytes whole = file_of(tiny_graph());
  for (size_t size = 0; size < whole.size(); ++size) {
    Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(load(bytes, false), QN_BAD_MODEL) << size;
    if (size < sizeof(FileHeader)) continue;
    header_of(bytes).file_size = size;  // the same, but the header knows
    const size_t last_weight = whole.size() - 64 + 32 * 2 * 4 % 64;
    if (size < last_weight) {
      EXPECT_EQ(load(bytes, false), QN_BAD_MODEL) << size;
    }
  }
}

TEST_F(Hostile, EveryTruncationOfACodedFile) {
  const Bytes whole = file_of(sample_graph(), FileForm::coded);
  ASSERT_EQ(load(whole, true), QN_OK) << qn_last_message();
  for (size_t size = 0; size < whole.size(); ++size) {
    Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(load(bytes, false), QN_BAD_MODEL) << size;
    if (size < sizeof(FileHeader)) continue;
    header_of(bytes).file_size = size;
    EXPECT_EQ(load(bytes, false), QN_BAD_MODEL) << size;
  }
}

// Checksums see every damage but that of the padding before the segments.
TEST_F(Hostile, EveryFlippedBitOfACodedFile) {
  const Bytes whole = file_of(tiny_graph(), FileForm::coded);
  Bytes copy = whole;
  const size_t padding = sizeof(FileHeader) + header_of(copy).description_size, end = header_of(copy).segments_offset;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes bytes = whole;
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1u << bit % 8));
    const bool padded = bit / 8 >= padding && bit / 8 < end;
    EXPECT_EQ(load(bytes, false), padded ? QN_OK : QN_BAD_MODEL) << bit;
  }
}

// Tries every bit from `begin` to `end` (in bytes) the wrong way round. Some files must load, and many must not.
void Hostile::flip_bits(const Bytes& whole, size_t begin, size_t end) {
  size_t loaded = 0, refused = 0;
  for (size_t bit = 8 * begin; bit < 8 * end; ++bit) {
    Bytes bytes = whole;
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1u << bit % 8));
    (load(bytes, true) == QN_OK ? loaded : refused) += 1;
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(loaded, 100u) << "padding, names and numbers that are as good";
  RecordProperty("loaded", static_cast<int>(loaded));
  RecordProperty("refused", static_cast<int>(refused));
}

TEST_F(Hostile, EveryFlippedBit) {
  const Bytes whole = file_of(tiny_graph());
  Bytes copy = whole;
  const size_t weights = header_of(copy).segments_offset;
  flip_bits(whole, 0, weights);
  for (size_t at = weights; at < whole.size(); ++at) {
    Bytes bytes = whole;
    bytes[at] = static_cast<unsigned char>(~bytes[at]);
    EXPECT_EQ(load(bytes, at % 16 == 0), QN_OK) << "weights may be anything";
  }
}

TEST_F(Hostile, EveryFlippedBitOfSubgraphsAndStates) {
  Bytes whole = file_of(nested_graph());
  flip_bits(whole, sizeof(FileHeader), header_of(whole).segments_offset);
}

// The same where most weights are 0.
Graph tiny_sparse_graph() {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 3, 4});
  std::vector<float> values(10 * 2 * 2 * 4), matrix(3 * 640);
  for (size_t i = 0; i < values.size(); i += 7) values[i] = 1 + static_cast<float>(i);
  for (const size_t i : {size_t{5}, size_t{638}, size_t{900}}) matrix[i] = 2;  // with steps longer than a byte
  const int c = b.node(OpKind::conv2d, {x, b.constant_of({10, 2, 2, 4}, values), b.constant({10})}, window(1, 1, 1));
  const int f = b.node(OpKind::pad, {c}, quern::test::values({0, 2, 2, 0, 0, 2, 2, 0}));
  const int flat = b.node(OpKind::reshape, {f}, quern::test::values({0, -1}));
  b.output(b.node(OpKind::fully_connected, {flat, b.constant_of({3, 640}, matrix)}), "y");
  return b.done();
}

TEST_F(Hostile, EveryFlippedBitOfSparseWeights) {
  const Bytes whole = file_of(tiny_sparse_graph());
  flip_bits(whole, sizeof(FileHeader), whole.size());
}

// Words of the header and the description replaced by numbers that tend to hurt.
TEST_F(Hostile, ExtremeWords) {
  const Bytes whole = file_of(tiny_graph());
  Bytes copy = whole;
  const size_t end = header_of(copy).segments_offset;
  for (size_t at = 0; at + 4 <= end; at += 4) {
    for (const uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0xfffffffcu, 0x00010000u, 0x40000000u}) {
      Bytes bytes = whole;
      std::memcpy(&bytes[at], &word, sizeof word);
      load(bytes, true);
    }
  }
}

TEST_F(Hostile, RandomDamage) {
  const Bytes whole = file_of(sample_graph());
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes = whole;
    const size_t end = header_of(bytes).segments_offset;
    const unsigned hits = 1 + random() % 8;
    for (unsigned i = 0; i < hits; ++i) bytes[random() % end] = static_cast<unsigned char>(random());
    load(bytes, true);
  }
}

// ---- files made to hurt: valid FlatBuffers with content that is not

struct Crafted {
  struct Segment {
    uint64_t offset, stored, decoded;
    int encoding = 0;
    uint64_t rows = 0;
    int block = 0;
    int item = 0;
    std::vector<uint64_t> blocks = {};
  };
  struct Tensor {
    std::string name;
    int type;
    std::vector<uint64_t> shape;
    int segment = -1;
  };
  std::vector<std::string> operators = {"fully_connected"};
  std::vector<Segment> segments = {{0, 64, 64}};
  std::vector<Tensor> tensors = {{"x", 1, {1, 4}}, {"w", 1, {4, 4}, 0}, {"y", 1, {}}};
  unsigned operator_index = 0;
  std::vector<int> inputs = {0, 1}, outputs = {2};
  unsigned in_port = 0, out_port = 2;
  int port_type = 1;
  void (*attributes)(format::AttributesBuilder&) = [](format::AttributesBuilder&) {};
  void (*header)(FileHeader&) = [](FileHeader&) {};
  bool coded = false;  // version 2
  size_t data_bytes = 64;
  std::vector<uint32_t> data;  // its beginning
  std::vector<uint32_t> node_subgraphs = {};
  std::vector<format::State> states = {};
  using Subgraph = flatbuffers::Offset<format::Model> (*)(flatbuffers::FlatBufferBuilder&);
  Subgraph subgraph = nullptr;  // makes a subgraph
  size_t copies = 0;            // subgraphs that are like the model: its tables, used again
  size_t repeat_tensor = 1, repeat_node = 1, repeat_port = 1, repeat_subgraph = 1;  // the same table many times

  Bytes file() const {
    flatbuffers::FlatBufferBuilder b;
    std::vector<flatbuffers::Offset<format::Segment>> segment_tables;
    for (const Segment& s : segments) {
      segment_tables.push_back(
          format::CreateSegment(b, s.offset, s.stored, s.decoded, static_cast<format::Encoding>(s.encoding), s.rows,
                                static_cast<uint8_t>(s.block), static_cast<uint8_t>(s.item), b.CreateVector(s.blocks)));
    }
    std::vector<flatbuffers::Offset<format::Tensor>> tensor_tables;
    for (const Tensor& t : tensors) {
      const auto name = b.CreateString(t.name);
      const auto shape = b.CreateVector(t.shape);
      tensor_tables.push_back(format::CreateTensor(b, name, static_cast<format::Type>(t.type), shape, t.segment));
    }
    tensor_tables.insert(tensor_tables.end(), repeat_tensor - 1, tensor_tables.back());
    std::vector<flatbuffers::Offset<flatbuffers::String>> names;
    for (const std::string& name : operators) names.push_back(b.CreateString(name));
    const auto node_name = b.CreateString("node");
    const auto in = b.CreateVector(inputs), out = b.CreateVector(outputs);
    format::AttributesBuilder attributes_builder(b);
    attributes(attributes_builder);
    const auto attributes_table = attributes_builder.Finish();
    const auto bodies = b.CreateVector(node_subgraphs);
    const auto node = format::CreateNode(b, operator_index, node_name, in, out, attributes_table, bodies);
    const auto port = [&](unsigned tensor) {
      return format::CreatePort(b, tensor, static_cast<format::Type>(port_type));
    };
    const std::vector<flatbuffers::Offset<format::Port>> in_ports(1, port(in_port)),
        out_ports(repeat_port, port(out_port));
    const std::vector<flatbuffers::Offset<format::Node>> nodes(repeat_node, node);
    const auto lists = std::tuple(b.CreateVector(tensor_tables), b.CreateVector(nodes), b.CreateVector(in_ports),
                                  b.CreateVector(out_ports));
    const auto& [tensor_list, node_list, in_list, out_list] = lists;
    const auto name_list = b.CreateVector(names);
    std::vector<flatbuffers::Offset<format::Model>> subgraph_tables;
    if (subgraph != nullptr) subgraph_tables.assign(repeat_subgraph, subgraph(b));
    for (size_t i = 0; i < copies; ++i) {
      subgraph_tables.push_back(format::CreateModel(b, 0, 0, name_list, 0, tensor_list, node_list, in_list, out_list));
    }
    format::FinishModelBuffer(
        b, format::CreateModel(b, 0, 0, name_list, b.CreateVector(segment_tables), tensor_list, node_list, in_list,
                               out_list, b.CreateVector(subgraph_tables), b.CreateVectorOfStructs(states)));
    FileHeader h = {};
    std::memcpy(h.magic, file_magic, sizeof file_magic);
    h.version = plain_version;
    h.header_size = sizeof h;
    h.description_size = b.GetSize();
    h.segments_offset = (sizeof h + b.GetSize() + 63) / 64 * 64;
    h.file_size = h.segments_offset + data_bytes;
    Bytes bytes(h.file_size, 0);
    if (coded) {
      h.version = coded_version;
      h.description_bytes = b.GetSize();
      h.description_checksum = checksum({b.GetBufferPointer(), b.GetSize()});
    }
    if (!data.empty()) std::memcpy(bytes.data() + h.segments_offset, data.data(), data.size() * sizeof(uint32_t));
    if (coded) put_checksums(bytes.data() + h.segments_offset);
    header(h);
    std::memcpy(bytes.data(), &h, sizeof h);
    std::memcpy(bytes.data() + sizeof h, b.GetBufferPointer(), b.GetSize());
    return bytes;
  }

  // Of segments that lie one behind the other.
  void put_checksums(unsigned char* at) const {
    size_t left = data_bytes;
    for (const Segment& s : segments) {
      if (s.stored < checksum_bytes || s.stored > left) return;
      const size_t content = s.stored - checksum_bytes;
      const uint32_t sum = checksum({at, content});
      std::memcpy(at + content, &sum, sizeof sum);
      at += s.stored, left -= s.stored;
    }
  }
};

flatbuffers::Offset<format::Model> model_with_states(flatbuffers::FlatBufferBuilder& b, size_t count) {
  const std::vector<format::State> states(count);
  return format::CreateModel(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, b.CreateVectorOfStructs(states));
}

struct Trick {
  const char* message;  // part of the answer; NULL: loads
  void (*make)(Crafted&);
};

const Trick tricks[] = {
    {nullptr, [](Crafted&) {}},
    {"not a .qn model", [](Crafted& c) { c.header = [](FileHeader& h) { h.magic[3] = 'm'; }; }},
    {"format version 3", [](Crafted& c) { c.header = [](FileHeader& h) { h.version = 3; }; }},
    {"coded description is damaged", [](Crafted& c) { c.header = [](FileHeader& h) { h.version = coded_version; }; }},
    {"header's size", [](Crafted& c) { c.header = [](FileHeader& h) { h.header_size = 128; }; }},
    {"header says", [](Crafted& c) { c.header = [](FileHeader& h) { h.file_size = UINT64_MAX; }; }},
    {"beyond the file", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_size = UINT64_MAX - 63; }; }},
    {"a description of 0", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_size = 0; }; }},
    {"damaged", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_size = 16; }; }},
    {"inside the description", [](Crafted& c) { c.header = [](FileHeader& h) { h.segments_offset = 64; }; }},
    {"beyond the file", [](Crafted& c) { c.header = [](FileHeader& h) { h.segments_offset = UINT64_MAX - 63; }; }},
    {"misaligned", [](Crafted& c) { c.header = [](FileHeader& h) { h.segments_offset += 4; }; }},
    {"reserved", [](Crafted& c) { c.header = [](FileHeader& h) { h.numbers_size = 1; }; }},
    {"reserved", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_bytes = 1; }; }},
    {"reserved", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_checksum = 1; }; }},
    {"unknown operator 'rm -rf'", [](Crafted& c) { c.operators = {"rm -rf"}; }},
    {"operator 1 does not exist", [](Crafted& c) { c.operator_index = 1; }},
    {"unknown encoding 9", [](Crafted& c) { c.segments[0].encoding = 9; }},
    {"of two sizes", [](Crafted& c) { c.segments[0].decoded = 65; }},
    {"misaligned", [](Crafted& c) { c.segments[0].offset = 4; }},
    {"reaches beyond", [](Crafted& c) { c.segments[0].offset = 64; }},
    {"reaches beyond", [](Crafted& c) { c.segments[0].offset = UINT64_MAX - 63; }},
    {"reaches beyond", [](Crafted& c) { c.segments[0].stored = c.segments[0].decoded = UINT64_MAX; }},
    {"reaches beyond", [](Crafted& c) { c.segments[0].stored = c.segments[0].decoded = 65; }},
    {"overlaps", [](Crafted& c) { c.segments.push_back(c.segments[0]); }},
    {"segment 1 does not exist", [](Crafted& c) { c.tensors[1].segment = 1; }},
    {"segment -5 does not exist", [](Crafted& c) { c.tensors[1].segment = -5; }},
    {"which is not its size",
     [](Crafted& c) {
       c.tensors[1].shape = {4, 3};
     }},
    {"overflows",
     [](Crafted& c) {
       c.tensors[1].shape = {uint64_t{1} << 62, 4};
     }},
    {"overflows",
     [](Crafted& c) {
       c.tensors[0].shape = {uint64_t{1} << 61, 4};
     }},
    {"rank 9", [](Crafted& c) { c.tensors[0].shape.assign(9, 1); }},
    {"unknown type 0", [](Crafted& c) { c.tensors[0].type = 0; }},
    {"unknown type 77", [](Crafted& c) { c.tensors[0].type = 77; }},
    {"f16 is converted at the border", [](Crafted& c) { c.tensors[0].type = 2; }},
    {"plain text", [](Crafted& c) { c.tensors[0].name = std::string("a\033[2J"); }},
    {"plain text", [](Crafted& c) { c.tensors[0].name = std::string("a\0b", 3); }},
    {"plain text", [](Crafted& c) { c.tensors[0].name = "\xc0\xaf"; }},  // overlong
    {"plain text", [](Crafted& c) { c.tensors[0].name = "\xe0\x80\xaf"; }},
    {"plain text", [](Crafted& c) { c.tensors[0].name = "\xed\xa0\x80"; }},      // a surrogate
    {"plain text", [](Crafted& c) { c.tensors[0].name = "\xf4\x90\x80\x80"; }},  // above U+10FFFF
    {"plain text", [](Crafted& c) { c.tensors[0].name = "\xc2\x9b"; }},          // a control character
    {"plain text", [](Crafted& c) { c.tensors[0].name = "\xe2\x82"; }},          // cut off
    {"named 'y'", [](Crafted& c) { c.tensors[0].name = std::string("y"); }},
    {"an input or output has no name", [](Crafted& c) { c.tensors[0].name = ""; }},
    {"an input or output has no name", [](Crafted& c) { c.tensors[2].name = ""; }},
    {"tensor 5, which does not exist", [](Crafted& c) { c.inputs[0] = 5; }},
    {"no value yet", [](Crafted& c) { c.inputs[0] = 2; }},
    {"written twice", [](Crafted& c) { c.outputs[0] = 0; }},
    {"0 inputs", [](Crafted& c) { c.inputs = {}; }},
    {"inputs instead of", [](Crafted& c) { c.inputs.assign(500, 1); }},
    {"tensor 3 of none", [](Crafted& c) { c.in_port = 3; }},
    {"tensor 4294967295 of none", [](Crafted& c) { c.out_port = UINT32_MAX; }},
    {"no node writes", [](Crafted& c) { c.repeat_node = 0; }},
    {"written twice", [](Crafted& c) { c.repeat_node = 2; }},
    {"its type is s64, that of its tensor f32", [](Crafted& c) { c.port_type = 3; }},
    {nullptr, [](Crafted& c) { c.copies = 1; }},
    {"subgraph 0: the model has no output",
     [](Crafted& c) { c.subgraph = [](auto& b) { return format::CreateModel(b); }; }},
    {"subgraph 0: segments of its own",
     [](Crafted& c) {
       c.subgraph = [](auto& b) {
         const std::vector<flatbuffers::Offset<format::Segment>> one(1, format::CreateSegment(b));
         return format::CreateModel(b, 0, 0, 0, b.CreateVector(one));
       };
     }},
    {"tensor 0: segment 1 does not exist",
     [](Crafted& c) {
       c.subgraph = [](auto& b) {
         const std::vector<flatbuffers::Offset<format::Tensor>> one(
             1, format::CreateTensor(b, 0, format::Type::f32, 0, 1));
         return format::CreateModel(b, 0, 0, 0, 0, b.CreateVector(one));
       };
     }},
    {"node 0: operator 0 does not exist",  // although the model has one
     [](Crafted& c) {
       c.subgraph = [](auto& b) {
         const std::vector<flatbuffers::Offset<format::Node>> one(1, format::CreateNode(b));
         return format::CreateModel(b, 0, 0, 0, 0, 0, b.CreateVector(one));
       };
     }},
    {"damaged",  // too deep
     [](Crafted& c) {
       c.subgraph = [](auto& b) {
         auto model = format::CreateModel(b);
         for (int i = 0; i < 7; ++i) {
           const std::vector<flatbuffers::Offset<format::Model>> one(1, model);
           model = format::CreateModel(b, 0, 0, 0, 0, 0, 0, 0, 0, b.CreateVector(one));
         }
         return model;
       };
     }},
    {"node 'node' (fully_connected): subgraph 0 does not exist", [](Crafted& c) { c.node_subgraphs = {0}; }},
    {"this kind of node takes no subgraphs",
     [](Crafted& c) {
       c.copies = 1;
       c.node_subgraphs = {0};
     }},
    {nullptr,
     [](Crafted& c) {
       c.states = {{0, 0}};
     }},
    {"input 1 or output 0 does not exist",
     [](Crafted& c) {
       c.states = {{1, 0}};
     }},
    {"input 0 or output 4294967295 does not exist",
     [](Crafted& c) {
       c.states = {{0, UINT32_MAX}};
     }},
    {"belongs to another state",
     [](Crafted& c) {
       c.states = {{0, 0}, {0, 0}};
     }},
    {"differ in type, shape",
     [](Crafted& c) {
       c.states = {{0, 0}};
       c.out_port = 1;
     }},
    {"only the outermost graph may carry",
     [](Crafted& c) { c.subgraph = [](auto& b) { return model_with_states(b, 1); }; }},
    {"stride_h is 0", [](Crafted& c) { c.attributes = [](auto& a) { a.add_stride_h(0); }; }},
    {"kernel_w is", [](Crafted& c) { c.attributes = [](auto& a) { a.add_kernel_w(UINT64_MAX); }; }},
    {"groups is 0", [](Crafted& c) { c.attributes = [](auto& a) { a.add_groups(0); }; }},
    {"axis is -3", [](Crafted& c) { c.attributes = [](auto& a) { a.add_axis(-3); }; }},
    {"max is nan",
     [](Crafted& c) { c.attributes = [](auto& a) { a.add_max(std::numeric_limits<float>::quiet_NaN()); }; }},
    {"mode is 200", [](Crafted& c) { c.attributes = [](auto& a) { a.add_mode(200); }; }},
    {"ceil_mode is 2", [](Crafted& c) { c.attributes = [](auto& a) { a.add_ceil_mode(2); }; }},
    {"min 1 is above max 0",
     [](Crafted& c) {
       c.attributes = [](auto& a) {
         a.add_min(1);
         a.add_max(0);
       };
     }},
    // Sharing: each table, string and vector is stored once and would be copied many times.
    {"damaged", [](Crafted& c) { c.repeat_tensor = 100000; }},
    {"damaged", [](Crafted& c) { c.repeat_node = 100000; }},
    {"damaged", [](Crafted& c) { c.repeat_port = 100000; }},
    {"damaged",
     [](Crafted& c) {
       c.subgraph = [](auto& b) { return format::CreateModel(b); };
       c.repeat_subgraph = 100000;
     }},
    {"shared too often",
     [](Crafted& c) {
       c.subgraph = [](auto& b) { return format::CreateModel(b, b.CreateString(std::string(100000, 'n'))); };
       c.repeat_subgraph = 5000;
     }},
    {"shared too often",
     [](Crafted& c) {
       c.subgraph = [](auto& b) { return model_with_states(b, 20000); };
       c.repeat_subgraph = 5000;
     }},
    {"shared too often",
     [](Crafted& c) {
       c.tensors[2].name.assign(100000, 'n');
       c.repeat_tensor = 5000;
     }},
    {"shared too often",
     [](Crafted& c) {
       c.inputs.assign(50000, 1);
       c.repeat_node = 5000;
     }},
    {"shared too often",
     [](Crafted& c) {
       c.tensors = {
           {std::string(900, 'x'), 1, {1, 4}}, {"", 1, {4, 4}, 0}, {std::string(900, 'y'), 1, {}}, c.tensors[1]};
       c.repeat_tensor = 200;
     }},
};

// A matrix of 4 x 4 with one position in each row: starts, deltas, values.
Crafted sparse_crafted() {
  Crafted c;
  c.segments = {{0, 40, 64, 1, 4, 1}};
  c.data = {0, 1, 2, 3, 4, 0x03020100, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000};
  return c;
}

const Trick sparse_tricks[] = {
    {nullptr, [](Crafted&) {}},
    {"segment 0: a position of row 3 lies beyond its 4 elements", [](Crafted& c) { c.data[5] = 0x04020100; }},
    {"a position of row 0 lies beyond", [](Crafted& c) { c.data[5] = 0x000000ff; }},
    {"a position of row 0 lies beyond",  // the second one: 3, then one more
     [](Crafted& c) { c.data = {0, 2, 2, 3, 4, 0x00000003, 0, 0, 0, 0}; }},
    {"row 1 has fewer than no positions", [](Crafted& c) { c.data[2] = 0; }},
    {"row 3 has fewer than no positions", [](Crafted& c) { c.data[4] = 0; }},
    {"row 2 has fewer than no positions", [](Crafted& c) { c.data[2] = UINT32_MAX; }},
    {"first row begins at position 1", [](Crafted& c) { c.data[0] = 1; }},
    {"4294967295 positions take", [](Crafted& c) { c.data[4] = UINT32_MAX; }},
    {"3 positions take 36 bytes, not 40", [](Crafted& c) { c.data[4] = 3; }},
    {"5 positions take 48 bytes, not 40", [](Crafted& c) { c.data[4] = 5; }},
    {"4 positions take 40 bytes, not 39", [](Crafted& c) { c.segments[0].stored = 39; }},
    {"4 positions take 40 bytes, not 41", [](Crafted& c) { c.segments[0].stored = 41; }},
    {"4 positions take 40 bytes, not 44", [](Crafted& c) { c.segments[0].stored = 44; }},
    {"19 bytes are too few for 4 rows", [](Crafted& c) { c.segments[0].stored = 19; }},
    {"0 bytes are too few", [](Crafted& c) { c.segments[0].stored = 0; }},
    {"reaches beyond", [](Crafted& c) { c.segments[0].stored = 65; }},
    {"blocks have 0 rows", [](Crafted& c) { c.segments[0].block = 0; }},
    {"blocks have 3 rows", [](Crafted& c) { c.segments[0].block = 3; }},
    {"blocks have 32 rows", [](Crafted& c) { c.segments[0].block = 32; }},
    {"blocks have 255 rows", [](Crafted& c) { c.segments[0].block = 255; }},
    {"positions take", [](Crafted& c) { c.segments[0].block = 2; }},
    {"expected f32 values of 0 rows", [](Crafted& c) { c.segments[0].rows = 0; }},
    {"expected f32 values of 3 rows", [](Crafted& c) { c.segments[0].rows = 3; }},
    {"expected f32 values of 18446744073709551615 rows", [](Crafted& c) { c.segments[0].rows = UINT64_MAX; }},
    {"expected f32 values", [](Crafted& c) { c.segments[0].decoded = 0; }},
    {"expected f32 values", [](Crafted& c) { c.segments[0].decoded = 65; }},
    {"expected f32 values", [](Crafted& c) { c.segments[0].decoded = UINT64_MAX - 15; }},
    {"too few for 16 rows", [](Crafted& c) { c.segments[0].rows = 16; }},
    {"which is not its size", [](Crafted& c) { c.segments[0].decoded = 128; }},
    {"has 4 rows of elements of 4 bytes, the tensor has not",
     [](Crafted& c) {
       c.tensors[1].shape = {2, 8};
       c.tensors[0].shape = {1, 8};
     }},
    {"has 4 rows of elements of 4 bytes, the tensor has not", [](Crafted& c) { c.tensors[1].shape = {16}; }},
    {"which is not its size", [](Crafted& c) { c.tensors[1].type = 3; }},
    {"has 4 rows of elements of 4 bytes, the tensor has not",  // of 64-bit integers
     [](Crafted& c) {
       c.tensors[1].type = 3;
       c.tensors[1].shape = {4, 2};
     }},
    {"only weights may be encoded",
     [](Crafted& c) {
       c.operators = {"add"};
       c.tensors[0].shape = {4, 4};
     }},
    {"only weights may be encoded",
     [](Crafted& c) {
       c.inputs = {1, 1};
     }},
    {"only weights may be encoded", [](Crafted& c) { c.out_port = 1; }},
    // Little that decodes to much: rows without positions cost 4 bytes each.
    {"would take more than",
     [](Crafted& c) {
       c.data = {0, 0, 0, 0, 0};
       c.segments[0] = {0, 20, uint64_t{4} << 40, 1, 4, 1};
       c.tensors[1].shape = {4, uint64_t{1} << 38};
       c.tensors[0].shape = {1, uint64_t{1} << 38};
     }},
    // No more than is allowed, but segment after segment, that nobody reads.
    {"would take more than",
     [](Crafted& c) {
       c.data.resize(15 + 3 * 16);
       for (uint64_t i = 1; i < 4; ++i) c.segments.push_back({64 * i, 20, uint64_t{1} << 29, 1, 4, 1});
       c.data_bytes = 256;
     }},
    // No more than is allowed, but node after node.
    {"would take more than",
     [](Crafted& c) {
       c.data = {0, 0, 0, 0, 0};
       c.segments[0] = {0, 20, uint64_t{1} << 29, 1, 4, 1};
       c.tensors[1].shape = {4, uint64_t{1} << 25};
       c.tensors[0].shape = {1, uint64_t{1} << 25};
       c.repeat_node = 20;
     }},
    // The same, subgraph after subgraph.
    {"would take more than",
     [](Crafted& c) {
       c.data = {0, 0, 0, 0, 0};
       c.segments[0] = {0, 20, uint64_t{1} << 29, 1, 4, 1};
       c.tensors[1].shape = {4, uint64_t{1} << 25};
       c.tensors[0].shape = {1, uint64_t{1} << 25};
       c.copies = 2;
     }},
    {nullptr,  // no more than is allowed
     [](Crafted& c) {
       c.data = {0, 0, 0, 0, 0};
       c.segments[0] = {0, 20, uint64_t{1} << 29, 1, 4, 1};
       c.tensors[1].shape = {4, uint64_t{1} << 25};
       c.tensors[0].shape = {1, uint64_t{1} << 25};
       c.copies = 1;
     }},
};

// The most that a small file may ask for: all of it 0, and so neither decoded at once nor kept.
Crafted much_of_nothing() {
  Crafted c;
  c.segments = {{0, ((1 << 14) + 1) * 4, uint64_t{1} << 30, 1, 1 << 18, 16}};
  c.tensors[0].shape = {1, 1 << 10};
  c.tensors[1].shape = {1 << 18, 1 << 10};
  c.data_bytes = (1 << 16) + 64;
  return c;
}

// A layer of 4 x 4 coded floats: zeros, as small data.
Crafted coded_crafted() {
  Crafted c;
  const std::vector<int8_t> zeros(64);
  const Vector<unsigned char> stream = encode_rans({zeros.data(), zeros.size()}, 16, sizeof(float));
  EXPECT_EQ(stream[0], 0);
  c.coded = true;
  c.data.resize(stream.size() / sizeof(uint32_t) + 1);
  std::memcpy(c.data.data(), stream.data(), stream.size());
  c.segments = {{0, stream.size() + checksum_bytes, 64, 2, 4, 0, 4}};
  return c;
}

const Trick coded_tricks[] = {
    {nullptr, [](Crafted&) {}},
    {nullptr, [](Crafted& c) { c.segments[0].rows = 0; }},
    {nullptr, [](Crafted& c) { c.segments[0].blocks = {UINT32_MAX, 0, 1, 2, 3, 4, 5, 6, 7, 8}; }},
    {"unknown encoding 2", [](Crafted& c) { c.coded = false, c.segments[0].offset = 0; }},
    {"unknown encoding 3", [](Crafted& c) { c.segments[0].encoding = 3; }},
    {"checksum is wrong", [](Crafted& c) { c.segments[0].stored = 3; }},
    {"reaches beyond", [](Crafted& c) { c.segments[0].stored = UINT64_MAX; }},
    {"description's checksum", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_checksum ^= 1; }; }},
    {"a coded description of 4294967295 bytes",
     [](Crafted& c) { c.header = [](FileHeader& h) { h.description_bytes = UINT32_MAX; }; }},
    {"coded description is damaged",
     [](Crafted& c) { c.header = [](FileHeader& h) { h.numbers_bytes = h.description_bytes + 1; }; }},
    {"coded description is damaged", [](Crafted& c) { c.header = [](FileHeader& h) { h.numbers_size = UINT32_MAX; }; }},
    {"coded description is damaged", [](Crafted& c) { c.header = [](FileHeader& h) { h.description_bytes -= 4; }; }},
    {"its bytes are not whole rows", [](Crafted& c) { c.segments[0].item = 0; }},
    {"its bytes are not whole rows", [](Crafted& c) { c.segments[0].item = 3; }},
    {"its bytes are not whole rows", [](Crafted& c) { c.segments[0].rows = 5; }},
    {"its bytes are not whole rows", [](Crafted& c) { c.segments[0].decoded = 0; }},
    {"4 rows of elements of 1 bytes, the tensor has not", [](Crafted& c) { c.segments[0].item = 1; }},
    {nullptr, [](Crafted& c) { c.segments[0].blocks.resize(11); }},
    {"weights are damaged", [](Crafted& c) { c.segments[0].rows = 0, ++c.segments[0].stored; }},
    {"would take more than", [](Crafted& c) { c.segments[0].decoded = UINT64_MAX; }},
    // Small data, which takes long: more of it than anybody should wait for. No stream has been opened yet.
    {"much more time than others",
     [](Crafted& c) {
       c.segments[0].decoded = uint64_t{1} << 25;
       c.tensors[0].shape = {1, 1 << 21};
       c.tensors[1].shape = {4, 1 << 21};
     }},
    {"much more time than others",
     [](Crafted& c) { c.segments[0].decoded = uint64_t{1} << 25, c.segments[0].rows = 0; }},
    // Not so much, but node after node.
    {"much more time than others",
     [](Crafted& c) {
       c.segments[0].decoded = uint64_t{1} << 20;
       c.tensors[0].shape = {1, 1 << 16};
       c.tensors[1].shape = {4, 1 << 16};
       c.repeat_node = 17;
     }},
    // Few elements, but tables, which are small data, too: segment after segment.
    {"much more time than others",
     [](Crafted& c) {
       const std::vector<uint32_t> segment = {16 | 16 * 513 << 16, 0, 0};  // 16 tables of 513 bytes each
       c.segments.assign(2200, {0, 12, 64, 2, 4, 0, 4});
       c.data.clear();
       for (size_t i = 0; i < c.segments.size(); ++i) c.data.insert(c.data.end(), segment.begin(), segment.end());
       c.data_bytes = c.data.size() * sizeof(uint32_t);
     }},
};

void check_tricks(std::span<const Trick> list, const Crafted& valid,
                  const std::function<qn_status(const Bytes&, bool)>& load) {
  for (const Trick& trick : list) {
    SCOPED_TRACE(trick.message == nullptr ? "nothing wrong" : trick.message);
    Crafted crafted = valid;
    trick.make(crafted);
    const qn_status status = load(crafted.file(), true);
    if (trick.message == nullptr) {
      EXPECT_EQ(status, QN_OK) << qn_last_message();
    } else {
      EXPECT_EQ(status, QN_BAD_MODEL);
      EXPECT_NE(std::string(qn_last_message()).find(trick.message), std::string::npos) << qn_last_message();
    }
  }
}

TEST_F(Hostile, Crafted) { check_tricks(tricks, Crafted(), load); }

TEST_F(Hostile, CraftedCodedWeights) { check_tricks(coded_tricks, coded_crafted(), load); }

TEST_F(Hostile, CraftedSparseWeights) { check_tricks(sparse_tricks, sparse_crafted(), load); }

TEST_F(Hostile, MuchOfNothingIsNotDecodedAtOnce) {
  const size_t before = meter.now;
  EXPECT_EQ(load(much_of_nothing().file(), true), QN_OK) << qn_last_message();
  EXPECT_LT(meter.most - before, size_t{64} << 20);
}

// The root offset and others may point anywhere.
TEST_F(Hostile, RootOffsets) {
  const Bytes whole = file_of(tiny_graph());
  for (uint32_t root = 0; root < 2000; ++root) {
    Bytes bytes = whole;
    std::memcpy(&bytes[sizeof(FileHeader)], &root, sizeof root);
    load(bytes, false);
  }
}

}  // namespace hostile_test
}  // namespace quern::test
