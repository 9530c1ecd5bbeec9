// Writes .qn files.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/lookup.h"
#include "base/math.h"
#include "base/status.h"
#include "graph/coder/encode_rans.h"
#include "graph/coder/encode_small.h"
#include "graph/file/coded.h"
#include "graph/file/encode_sparse.h"
#include "graph/file/file_header.h"
#include "graph/file/format.h"
#include "graph/file/model_generated.h"
#include "graph/file/new_file.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"
#include "op/weights/density.h"
#include "op/weights/quantized.h"

namespace quern {
namespace {

using flatbuffers::Offset;

// Makes FlatBuffers' builder take its memory from the library's allocator.
class BuilderMemory : public flatbuffers::Allocator {
 public:
  uint8_t* allocate(size_t size) override { return static_cast<uint8_t*>(quern::allocate(size)); }
  void deallocate(uint8_t* pointer, size_t size) override { quern::release(pointer, size); }
};

class Writer {
 public:
  Writer(const Graph& graph, FileForm form) : outermost_(graph), form_(form), builder_(1024, &memory_) {}

  // Lays out the file and calls put(data, size) for each piece in order, also for the zeros between pieces.
  template <class Put>
  qn_status write(Put&& put);

 private:
  struct Segment {
    const Constant* constant;  // one of those with this content
    size_t item;               // bytes of an element
    size_t rows = 0;           // of the matrix, if only layers read it as their weights; else 0
    SparsePlan plan = {};
    WeightsShape shape = {};           // of these weights
    bool of_floats = false;            // do these layers compute with floats?
    Vector<unsigned char> coded = {};  // the content, if it is stored this way
    qn_weights_summary summary = {};   // of coded weights
    uint64_t offset = 0;               // from the beginning of the first segment

    uint64_t bytes() const { return coded.empty() ? plan.bytes : coded.size(); }  // without a checksum
    format::Encoding encoding() const {
      if (!coded.empty()) return format::Encoding::coded;
      return plan.block != 0 ? format::Encoding::sparse : format::Encoding::raw;
    }
  };

  void find_segments();
  size_t find_segment(const Constant& constant) const;
  int segment_of(const Graph& graph, int tensor) const;
  void find_matrices();
  void find_matrices_of(const Graph& graph);
  qn_status plan_segments();
  qn_status code(Segment* segment);
  void summarize(std::span<const unsigned char> content, Segment* segment) const;
  uint64_t stored_bytes(const Segment& segment) const {
    return segment.bytes() + (form_ == FileForm::coded ? checksum_bytes : 0);
  }
  void place_segments();
  void build_numbers();
  qn_status build();
  void code_description();
  std::span<const unsigned char> description() const;
  void make_header(FileHeader* header) const;
  Offset<flatbuffers::String> text(const String& string);
  template <class T, class From>
  Offset<flatbuffers::Vector<T>> numbers(const Vector<From>& from);
  template <class From, class Build>
  auto tables(const Vector<From>& from, Build&& build);
  qn_status content_of_segment(const Segment& from, Vector<unsigned char>* room, std::span<const unsigned char>* bytes);
  Offset<format::Segment> segment(const Segment& from);
  Offset<format::Tensor> tensor(const Tensor& from);
  Offset<format::Node> node(const Node& node);
  Offset<format::Attributes> attributes(const Attributes& attributes);
  Offset<format::Port> port(const Port& port);
  uint32_t operator_index(const Node& node);
  Offset<format::Parameter> parameter(const Parameter& parameter);
  // Small builds have nothing to write with it.
  [[maybe_unused]] Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> texts(const Vector<String>& from);
  Offset<format::Postprocessing> postprocessing(const Graph& graph);
  void begin(const Graph& graph);
  Offset<format::Model> model(const Graph& graph, Offset<flatbuffers::Vector<Offset<format::Segment>>> segments);

  const Graph& outermost_;
  FileForm form_;
  BuilderMemory memory_;
  flatbuffers::FlatBufferBuilder builder_;
  Vector<unsigned char> coded_description_;            // empty if it is not coded
  size_t numbers_bytes_ = 0, numbers_size_ = 0;        // as in FileHeader
  Vector<Offset<flatbuffers::Vector<float>>> scales_;  // of the outermost graph's tensors, if it is to be coded
  Vector<Segment> segments_;
  Lookup known_{0};  // segments by the address of their content
  // Of the graph that is being described:
  const Graph* graph_ = nullptr;
  Vector<bool> computed_;          // for each tensor: does a node write it?
  Vector<const char*> operators_;  // names of kinds
};

// Returns the address by which constants with the same content are known.
const void* content_of(const Constant& constant) {
  return constant.encoded != nullptr ? constant.encoded.get() : constant.data;
}

size_t hash_of(const Constant& constant) {
  return reinterpret_cast<uintptr_t>(content_of(constant)) / segment_alignment;
}

// Gives the constants of all graphs segments, except those that no tensor uses. Constants with the same content share a
// segment.
void Writer::find_segments() {
  size_t constants = 0;
  each_graph(outermost_, [&](const Graph& graph) { constants += graph.constants.size(); });
  known_ = Lookup(constants);
  each_graph(outermost_, [&](const Graph& graph) {
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.constant < 0) continue;
      const Constant& constant = graph.constants[at(tensor.constant)];
      if (find_segment(constant) < segments_.size()) continue;
      known_.add(hash_of(constant), segments_.size());
      segments_.push_back({&constant, qn_type_size(tensor.type)});
    }
  });
}

// Returns the segment with the content of this constant; the number of segments if there is none yet.
size_t Writer::find_segment(const Constant& constant) const {
  size_t found = segments_.size();
  known_.any(hash_of(constant), [&](size_t i) {
    const Constant& other = *segments_[i].constant;
    const bool same = content_of(other) == content_of(constant) && other.bytes == constant.bytes;
    if (same) found = i;
    return same;
  });
  return found;
}

// Returns the segment of a tensor; -1 if it is not a constant.
int Writer::segment_of(const Graph& graph, int tensor) const {
  const int constant = tensor == no_tensor ? -1 : tensor_of(graph, tensor).constant;
  return constant < 0 ? -1 : static_cast<int>(find_segment(graph.constants[at(constant)]));
}

constexpr size_t several = SIZE_MAX;  // rows of a segment whose uses differ

// Finds the constants that may stay encoded in memory: only layers read them, as their weights, and all of these layers
// read them as a matrix with the same number of rows.
void Writer::find_matrices() {
  each_graph(outermost_, [&](const Graph& graph) { find_matrices_of(graph); });
  for (Segment& segment : segments_) {
    if (segment.rows == several) segment.rows = 0;
  }
}

WeightsShape shape_of_weights(const Node& node, const Tensor& weights) {
  const Vector<size_t>& s = weights.shape;
  if (s.size() != 4) return {1, s[0], s[1], {1, 1}};
  return {node.attributes.groups, s[0] / node.attributes.groups, s[3], {s[1], s[2]}};
}

void Writer::find_matrices_of(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int index = segment_of(graph, node.inputs[i]);
      if (index < 0) continue;
      Segment& segment = segments_[at(index)];
      const Tensor& tensor = tensor_of(graph, node.inputs[i]);
      const bool weights = kind_of(node.kind).has_weights() && i == 1 && qn_type_size(tensor.type) == segment.item;
      const size_t rows = weights ? tensor.shape[0] : several;
      segment.rows = segment.rows == 0 || segment.rows == rows ? rows : several;
      if (!weights) continue;
      segment.shape = shape_of_weights(node, tensor);
      segment.of_floats = tensor_of(graph, node.inputs[0]).type == QN_F32;
    }
  }
  for (const Port& port : graph.outputs) {
    const int index = segment_of(graph, port.tensor);
    if (index >= 0) segments_[at(index)].rows = several;
  }
}

qn_status Writer::plan_segments() {
  find_matrices();
  for (Segment& segment : segments_) {
    segment.plan.bytes = segment.constant->bytes;
    const bool floats = segment.rows != 0 && segment.item == sizeof(float);
    if (floats) QN_TRY(plan_sparse(*segment.constant, segment.rows, &segment.plan));
    if (form_ == FileForm::coded && segment.constant->bytes != 0) QN_TRY(code(&segment));
  }
  place_segments();
  return QN_OK;
}

// Codes a segment, unless sparse floats take less.
qn_status Writer::code(Segment* segment) {
  const size_t bytes = segment->constant->bytes;
  const size_t rows = segment->constant->encoded == nullptr ? 1 : segment->constant->encoded->rows();
  ConstantRows from(*segment->constant, rows);
  const void* content;
  QN_TRY(from.read(0, rows, &content));
  const CodedShape shape = CodedShape::of(bytes, segment->rows, segment->item);
  segment->coded = encode_rans({static_cast<const int8_t*>(content), bytes}, shape.rows, shape.depth);
  if (segment->rows != 0) summarize({static_cast<const unsigned char*>(content), bytes}, segment);
  if (segment->plan.block != 0 && segment->plan.bytes < segment->coded.size()) segment->coded.clear();
  return QN_OK;
}

// Of layers that see the same weights in different ways, the last one counts.
void Writer::summarize(std::span<const unsigned char> content, Segment* segment) const {
  qn_weights weights;
  qn_weights_init(&weights);
  weights.data = content.data();
  constexpr float one = 1;
  if (segment->item == 1) weights.scales = &one, weights.scale_count = 1;
  if (!segment->of_floats) weights.type = QN_S8;
  const WeightsDensity density = count_density(weights, segment->shape);
  qn_weights_summary& summary = segment->summary;
  if (density.part(1) < 1) std::memcpy(summary.blocks, density.blocks, sizeof density.blocks);
  if (segment->item != 1) return;
  weights.type = QN_S8;
  const WeightsRange range = range_of(weights, segment->shape);
  summary.least = range.least, summary.most = range.most;
  summary.largest_sum = std::min<uint64_t>(static_cast<uint64_t>(range.absolute), UINT32_MAX);
}

void Writer::place_segments() {
  uint64_t end = 0;
  for (Segment& segment : segments_) {
    segment.offset = segment.coded.empty() ? round_up(end, segment_alignment) : end;
    end = segment.offset + stored_bytes(segment);
  }
}

Offset<flatbuffers::String> Writer::text(const String& string) {
  return string.empty() ? Offset<flatbuffers::String>() : builder_.CreateString(string.data(), string.size());
}

template <class T, class From>
Offset<flatbuffers::Vector<T>> Writer::numbers(const Vector<From>& from) {
  return builder_.CreateVector<T>(from.size(), [&](size_t i) { return static_cast<T>(from[i]); });
}

// Makes a table from each element with build(), and writes a vector of these tables.
template <class From, class Build>
auto Writer::tables(const Vector<From>& from, Build&& build) {
  Vector<decltype(build(from[0]))> offsets;
  offsets.reserve(from.size());
  for (const From& x : from) offsets.push_back(build(x));
  return builder_.CreateVector(offsets.data(), offsets.size());
}

Offset<format::Tensor> Writer::tensor(const Tensor& from) {
  const auto name = text(from.name);
  Offset<flatbuffers::Vector<uint64_t>> shape;
  const auto index = static_cast<int>(&from - graph_->tensors.data());
  if (!computed_[at(index)]) shape = numbers<uint64_t>(from.shape);
  const int segment = segment_of(*graph_, index);
  const Quantization& q = from.quantization;
  Offset<flatbuffers::Vector<float>> scales;
  Offset<flatbuffers::Vector<int32_t>> zero_points;
#ifndef QN_NO_INTEGERS
  const bool built = graph_ == &outermost_ && !scales_.empty();
  if (!q.scales.empty()) scales = built ? scales_[at(index)] : numbers<float>(q.scales);
  if (!q.zero_points.empty()) zero_points = numbers<int32_t>(q.zero_points);
  const auto block = static_cast<uint32_t>(q.block);
#else
  constexpr uint32_t block = 0;
#endif
  return format::CreateTensor(builder_, name, static_cast<format::Type>(from.type), shape, segment, scales, zero_points,
                              q.axis, block);
}

Offset<format::Attributes> Writer::attributes(const Attributes& from) {
  Offset<flatbuffers::Vector<int64_t>> values;
  if (!from.values.empty()) values = numbers<int64_t>(from.values);
  format::AttributesBuilder to(builder_);
#define QN_ATTRIBUTE(name, field, low, high) \
  to.add_##name(static_cast<decltype(std::declval<format::Attributes>().name())>(from.field));
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
  to.add_values(values);
  return to.Finish();
}

uint32_t Writer::operator_index(const Node& node) {
  const char* const name = kind_name(node);
  for (size_t i = 0; i < operators_.size(); ++i) {
    if (std::strcmp(operators_[i], name) == 0) return static_cast<uint32_t>(i);
  }
  operators_.push_back(name);
  return static_cast<uint32_t>(operators_.size() - 1);
}

Offset<format::Parameter> Writer::parameter(const Parameter& from) {
  const auto name = text(from.name);
  const auto integers = numbers<int64_t>(from.integers);
  const auto floats = numbers<float>(from.floats);
  return format::CreateParameter(builder_, name, integers, floats);
}

Offset<format::Node> Writer::node(const Node& from) {
  const auto name = text(from.name);
  const auto inputs = numbers<int32_t>(from.inputs);
  const auto outputs = numbers<int32_t>(from.outputs);
  const auto all = attributes(from.attributes);
  Offset<flatbuffers::Vector<uint32_t>> subgraphs;
#ifndef QN_SMALL  // has_subgraphs
  if (!from.subgraphs.empty()) subgraphs = numbers<uint32_t>(from.subgraphs);
#endif
  Offset<flatbuffers::Vector<Offset<format::Parameter>>> parameters;
  if (!from.parameters.empty()) parameters = tables(from.parameters, [&](const Parameter& x) { return parameter(x); });
  return format::CreateNode(builder_, operator_index(from), name, inputs, outputs, all, subgraphs, parameters);
}

Offset<format::Port> Writer::port(const Port& from) {
  const qn_preprocessing& p = from.preprocessing;
  const format::Preprocessing to(p.mean, p.scale, p.crop, p.resize, p.bgr != 0);
  Offset<flatbuffers::String> fixed_by;
  Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> dimensions;
#ifndef QN_NO_MESSAGES
  fixed_by = text(from.fixed_by);
  if (!from.dimensions.empty()) dimensions = texts(from.dimensions);
#endif
  return format::CreatePort(builder_, static_cast<uint32_t>(from.tensor), static_cast<format::Type>(from.type),
                            p.present != 0 ? &to : nullptr, from.fixed, fixed_by, from.open, dimensions, from.unsized);
}

Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> Writer::texts(const Vector<String>& from) {
  return tables(from, [&](const String& x) { return builder_.CreateString(x.data(), x.size()); });
}

#ifdef QN_SMALL  // has_postprocessing
Offset<format::Postprocessing> Writer::postprocessing(const Graph&) { return {}; }
#else
Offset<format::Postprocessing> Writer::postprocessing(const Graph& graph) {
  const Postprocessing& from = graph.postprocessing;
  if (from == Postprocessing()) return {};
  Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> labels;
  Offset<flatbuffers::Vector<uint32_t>> outputs;
  if (!from.labels.empty()) labels = texts(from.labels);
  if (!from.outputs.empty()) outputs = numbers<uint32_t>(from.outputs);
  return format::CreatePostprocessing(builder_, labels, text(from.detections), outputs, from.pixels, from.background,
                                      from.threshold, from.overlap);
}
#endif

// The bytes of a segment as the file has them; `room` holds them if nothing else does.
qn_status Writer::content_of_segment(const Segment& from, Vector<unsigned char>* room,
                                     std::span<const unsigned char>* bytes) {
  const Constant& constant = *from.constant;
  if (!from.coded.empty()) {
    *bytes = {from.coded.data(), from.coded.size()};
    return QN_OK;
  }
  if (from.plan.block == 0 && constant.encoded == nullptr) {
    *bytes = {static_cast<const unsigned char*>(constant.data), constant.bytes};
    return QN_OK;
  }
  if (from.plan.block != 0) {
    QN_TRY(encode_sparse(constant, from.rows, from.plan, room));
  } else {
    room->resize(constant.bytes);
    QN_TRY(constant.encoded->decode(0, constant.encoded->rows(), room->data()));
  }
  *bytes = {room->data(), room->size()};
  return QN_OK;
}

Offset<format::Segment> Writer::segment(const Segment& from) {
  const bool raw = from.encoding() == format::Encoding::raw;
  if (from.encoding() != format::Encoding::coded) {
    return format::CreateSegment(builder_, from.offset, stored_bytes(from), from.constant->bytes, from.encoding(),
                                 raw ? 0 : from.rows, static_cast<uint8_t>(from.plan.block));
  }
  const qn_weights_summary& summary = from.summary;
  const size_t kinds = from.item == 1 && !from.of_floats ? std::size(summary.blocks) : 1;
  const size_t* const first = summary.blocks[0];
  const Vector<size_t> counts(first, first + (first[0] == 0 ? 0 : kinds * std::size(summary.blocks[0])));
  const auto blocks = counts.empty() ? Offset<flatbuffers::Vector<uint64_t>>() : numbers<uint64_t>(counts);
  return format::CreateSegment(builder_, 0, stored_bytes(from), from.constant->bytes, from.encoding(), from.rows, 0,
                               static_cast<uint8_t>(from.item), blocks, summary.least, summary.most,
                               static_cast<uint32_t>(summary.largest_sum));
}

void Writer::begin(const Graph& graph) {
  graph_ = &graph;
  operators_.clear();
  computed_.assign(graph.tensors.size(), false);
  for (const Node& node : graph.nodes) {
    for (const int output : node.outputs) computed_[at(output)] = true;
  }
}

// Describes a graph and its subgraphs. Only the outermost graph has segments.
Offset<format::Model> Writer::model(const Graph& graph, Offset<flatbuffers::Vector<Offset<format::Segment>>> segments) {
  begin(graph);
  const auto inputs = tables(graph.inputs, [&](const Port& x) { return port(x); });
  const auto outputs = tables(graph.outputs, [&](const Port& x) { return port(x); });
  const auto tensors = tables(graph.tensors, [&](const Tensor& x) { return tensor(x); });
  const auto nodes = tables(graph.nodes, [&](const Node& x) { return node(x); });
  const auto operators = tables(operators_, [&](const char* x) { return builder_.CreateString(x); });
  const auto source = text(graph.source), name = text(graph.name);
  Offset<flatbuffers::Vector<Offset<format::Model>>> subgraphs;
  Offset<flatbuffers::Vector<const format::State*>> states;
#ifndef QN_SMALL  // has_subgraphs
  if (!graph.subgraphs.empty()) subgraphs = tables(graph.subgraphs, [&](const Graph& x) { return model(x, {}); });
  if (!graph.states.empty()) {
    const auto state = [&](size_t i, format::State* to) { *to = {graph.states[i].input, graph.states[i].output}; };
    states = builder_.CreateVectorOfStructs<format::State>(graph.states.size(), state);
  }
#endif
  return format::CreateModel(builder_, source, name, operators, segments, tensors, nodes, inputs, outputs, subgraphs,
                             states, postprocessing(graph));
}

// Builds what is to be at the description's end: it grows from there to its beginning.
void Writer::build_numbers() {
#ifndef QN_NO_INTEGERS
  for (const Tensor& tensor : outermost_.tensors) {
    const Vector<float>& scales = tensor.quantization.scales;
    scales_.push_back(scales.empty() ? Offset<flatbuffers::Vector<float>>() : numbers<float>(scales));
  }
  numbers_bytes_ = builder_.GetSize();
#endif
}

qn_status Writer::build() {
  find_segments();
  QN_TRY(plan_segments());
  if (form_ == FileForm::coded) build_numbers();
  const auto segments = tables(segments_, [&](const Segment& x) { return segment(x); });
  format::FinishModelBuffer(builder_, model(outermost_, segments));
  if (form_ == FileForm::coded) code_description();
  return QN_OK;
}

void Writer::code_description() {
  const std::span<const unsigned char> all(builder_.GetBufferPointer(), builder_.GetSize());
  constexpr size_t few = 1024;  // small data takes fewer bytes, and not much time yet
  if (numbers_bytes_ < few || all.size() > most_coded_description) numbers_bytes_ = 0;
  if (all.size() > most_coded_description) return;
  coded_description_ = encode_small(all.first(all.size() - numbers_bytes_), description_stride);
  if (numbers_bytes_ == 0) return;
  const auto* const numbers = reinterpret_cast<const int8_t*>(all.data() + all.size() - numbers_bytes_);
  const CodedShape shape = CodedShape::of(numbers_bytes_, 0, sizeof(float));
  const Vector<unsigned char> coded = encode_rans({numbers, numbers_bytes_}, shape.rows, shape.depth);
  numbers_size_ = coded.size();
  coded_description_.insert(coded_description_.end(), coded.begin(), coded.end());
}

std::span<const unsigned char> Writer::description() const {
  if (!coded_description_.empty()) return {coded_description_.data(), coded_description_.size()};
  return {builder_.GetBufferPointer(), builder_.GetSize()};
}

void Writer::make_header(FileHeader* header) const {
  std::memcpy(header->magic, file_magic, sizeof file_magic);
  header->header_size = sizeof *header;
  header->description_size = description().size();
  header->segments_offset = round_up<uint64_t>(sizeof *header + header->description_size, segment_alignment);
  const uint64_t segments = segments_.empty() ? 0 : segments_.back().offset + stored_bytes(segments_.back());
  header->file_size = header->segments_offset + segments;
  header->version = plain_version;
  if (form_ == FileForm::plain) {
    header->file_size = round_up(header->file_size, segment_alignment);
    return;
  }
  header->version = coded_version;
  header->description_bytes = static_cast<uint32_t>(builder_.GetSize());
  header->description_checksum = checksum({builder_.GetBufferPointer(), builder_.GetSize()});
  header->numbers_bytes = static_cast<uint32_t>(numbers_bytes_);
  header->numbers_size = static_cast<uint32_t>(numbers_size_);
}

template <class Put>
qn_status Writer::write(Put&& put) {
  QN_TRY(build());
  FileHeader header = {};
  make_header(&header);
  uint64_t end = 0;  // of what has been put
  const auto pad_to = [&](uint64_t offset) {
    constexpr unsigned char zeros[segment_alignment] = {};
    const auto count = static_cast<size_t>(offset - end);
    end = offset;
    return put(zeros, count);
  };
  const auto put_at = [&](uint64_t offset, const void* data, size_t size) {
    QN_TRY(pad_to(offset));
    end += size;
    return put(data, size);
  };
  QN_TRY(put_at(0, &header, sizeof header));
  QN_TRY(put_at(end, description().data(), description().size()));
  for (const Segment& s : segments_) {
    Vector<unsigned char> room;
    std::span<const unsigned char> bytes;
    QN_TRY(content_of_segment(s, &room, &bytes));
    QN_TRY(put_at(header.segments_offset + s.offset, bytes.data(), bytes.size()));
    if (form_ == FileForm::plain) continue;
    const uint32_t sum = checksum(bytes);
    QN_TRY(put_at(end, &sum, sizeof sum));
  }
  return pad_to(header.file_size);
}

}  // namespace

qn_status write_model(const Graph& graph, Vector<unsigned char>* out, FileForm form) {
  QN_TRY(check_graph(graph));
  out->clear();
  return Writer(graph, form).write([&](const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    out->insert(out->end(), bytes, bytes + size);
    return QN_OK;
  });
}

qn_status write_model_file(const Graph& graph, const char* path, FileForm form) {
  QN_TRY(check_graph(graph));
  NewFile file;
  QN_TRY(file.create(path));
  QN_TRY(Writer(graph, form).write([&](const void* data, size_t size) { return file.put(data, size); }));
  return file.finish();
}

}  // namespace quern
