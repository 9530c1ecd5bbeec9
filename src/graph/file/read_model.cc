// Reads .qn files. The reader trusts nothing in a file: it checks sizes before it uses them, the FlatBuffer as a
// whole (description.h), each value while it is copied into a Graph, and the whole graph with check_graph.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/math.h"
#include "base/needs.h"
#include "base/search.h"
#include "base/status.h"
#include "graph/coder/small_coder.h"
#include "graph/file/coded.h"
#include "graph/file/description.h"
#include "graph/file/file_header.h"
#include "graph/file/format.h"
#include "graph/file/mapped_file.h"
#include "graph/file/model_generated.h"
#include "graph/file/sparse.h"
#include "graph/ir/custom.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

// Sparse and coded weights that are nearly all zeros take few bytes in a file. This limits the work of decoding them, and
// so the bytes that they become.
constexpr uint64_t work_limit(uint64_t file_size) { return (uint64_t{1} << 30) + 64 * file_size; }

class Reader {
 public:
  Reader(const unsigned char* data, size_t size, Shared<const void> owner, Graph* graph)
      : data_(data), size_(size), owner_(std::move(owner)), graph_(graph) {}

  qn_status read() {
    QN_TRY(read_header());
    // Reads from a copy, because a mapped file may change after the verifier has seen it.
    Buffer description(is_coded() ? header_.description_bytes : header_.description_size);
    QN_TRY(copy_description(&description));
    const auto* const bytes = static_cast<const unsigned char*>(description.data());
    if (is_coded() && checksum({bytes, description.size()}) != header_.description_checksum) {
      return fail(QN_BAD_MODEL, "the description's checksum is wrong");
    }
    QN_TRY(verify(description));
    graph_->file_version = header_.version;
    QN_TRY(read_graph(*format::GetModel(description.data())));
    return has_encoded ? check_work() : QN_OK;
  }

 private:
  bool is_coded() const { return has_coded && header_.version == coded_version; }
  qn_status read_header();
  qn_status check_coded_header() const;
  qn_status copy_description(Buffer* to) const;
  qn_status verify(const Buffer& description);
  qn_status read_graph(const format::Model& model);
  qn_status read_segments(const format::Model& model);
  qn_status read_segment(const format::Segment& segment, size_t index);
  qn_status read_content(const format::Segment& segment, std::span<const unsigned char> data, Constant* to);
  qn_status read_coded(const format::Segment& segment, std::span<const unsigned char> data, Constant* to);
  qn_status read_summary(const format::Segment& segment, qn_weights_summary* to);
  qn_status check_work() const;
  qn_status fail_work() const;
  qn_status read_tensor(const format::Tensor& tensor);
  qn_status make_booleans(Tensor* tensor);
  qn_status read_operators(const format::Model& model);
  qn_status read_kind(const char* name, Node* to);
  qn_status read_parameter(const format::Parameter& from, Parameter* to);
  qn_status read_node(const format::Node& node);
  qn_status read_attributes(const format::Attributes& from, Attributes* to, size_t node);
  qn_status read_port(const format::Port& port, Port* to);
  qn_status read_strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* from, Vector<String>* to);
  qn_status read_string(const flatbuffers::String* from, String* to);
  template <class From, class To>
  qn_status read_vector(const flatbuffers::Vector<From>* from, Vector<To>* to);
  qn_status read_states(const format::Model& model);
  qn_status read_subgraphs(const format::Model& model);
  qn_status read_postprocessing(const format::Model& model);
  qn_status spend(size_t bytes);
  // The graph whose constants are the segments.
#ifdef QN_SMALL  // has_subgraphs
  const Graph& outermost() const { return *graph_; }
#else
  const Graph& outermost() const { return outermost_; }
#endif

  const unsigned char* data_;
  size_t size_;
  Shared<const void> owner_;
  Graph* graph_;  // the one that is being read: the outermost, or one of its subgraphs
#ifndef QN_SMALL  // has_subgraphs
  const Graph& outermost_ = *graph_;
#endif
  FileHeader header_ = {};
  size_t budget_ = 0;              // bytes that strings and vectors may still take
  uint64_t segments_end_ = 0;      // end of the segments read so far, from segments_offset
  Vector<const char*> operators_;  // names in the description
  size_t copies_ = size_;          // bytes of booleans that may still be copied
  uint64_t work_ = 0;              // of segments that have been decoded
};

qn_status Reader::read_header() {
  if (size_ < sizeof header_) return fail(QN_BAD_MODEL, "%zu bytes are too few for a model", size_);
  std::memcpy(&header_, data_, sizeof header_);
  if (std::memcmp(header_.magic, file_magic, sizeof file_magic) != 0) return fail(QN_BAD_MODEL, "not a .qn model");
  if (!has_coded && header_.version == coded_version) return fail_without("format", "coded");
  if (header_.version != plain_version && !is_coded()) {
    return fail(QN_BAD_MODEL, "format version %u; this library reads versions 1 and 2", header_.version);
  }
  if (header_.header_size != sizeof header_) return fail(QN_BAD_MODEL, "the header's size is %u", header_.header_size);
  if (header_.file_size != size_) {
    return fail(QN_BAD_MODEL, "the file has %zu bytes, but its header says %llu", size_,
                static_cast<unsigned long long>(header_.file_size));
  }
  if (header_.description_size > size_ - sizeof header_)
    return fail(QN_BAD_MODEL, "the description reaches beyond the file");
  if (header_.segments_offset < sizeof header_ + header_.description_size || header_.segments_offset > size_) {
    return fail(QN_BAD_MODEL, "the segments begin inside the description or beyond the file");
  }
  if (header_.segments_offset % segment_alignment != 0) return fail(QN_BAD_MODEL, "the segments are misaligned");
  const uint32_t coded =
      header_.description_bytes | header_.description_checksum | header_.numbers_bytes | header_.numbers_size;
  if (header_.reserved != 0 || (coded != 0 && !is_coded())) {
    return fail(QN_BAD_MODEL, "a reserved word of the header is not 0");
  }
  return is_coded() ? check_coded_header() : QN_OK;
}

qn_status Reader::check_coded_header() const {
  const bool plain = header_.description_bytes == header_.description_size;
  if (!plain && header_.description_bytes > most_coded_description) {
    return fail(QN_BAD_MODEL, "a coded description of %u bytes", header_.description_bytes);
  }
  const bool inside =
      header_.numbers_bytes <= header_.description_bytes && header_.numbers_size <= header_.description_size;
  return inside ? QN_OK : fail(QN_BAD_MODEL, "the coded description is damaged");
}

qn_status Reader::copy_description(Buffer* to) const {
  const std::span from(data_ + sizeof header_, header_.description_size);
  auto* const bytes = static_cast<unsigned char*>(to->data());
  if (!is_coded() || header_.description_bytes == header_.description_size) {
    std::memcpy(bytes, from.data(), to->size());
    return QN_OK;
  }
  const size_t numbers = header_.numbers_bytes, words = from.size() - header_.numbers_size;
  if (!decode_small(from.first(words), description_stride, bytes, to->size() - numbers)) {
    return fail(QN_BAD_MODEL, "the coded description is damaged");
  }
  return numbers == 0 ? QN_OK : decode_whole(from.subspan(words), numbers, sizeof(float), bytes + to->size() - numbers);
}

qn_status Reader::verify(const Buffer& description) {
  const size_t size = description.size();
  if (size < 8 || size >= FLATBUFFERS_MAX_BUFFER_SIZE) return fail(QN_BAD_MODEL, "a description of %zu bytes", size);
  const auto* const bytes = static_cast<const uint8_t*>(description.data());
  // FlatBuffers' own test of the identifier would need a function of the C library that nothing else needs.
  const bool named = std::memcmp(bytes + sizeof(flatbuffers::uoffset_t), format::ModelIdentifier(), 4) == 0;
  if (!named || !verify_description(bytes, size)) {
    return fail(QN_BAD_MODEL, "the description of the graph is damaged");
  }
  budget_ = size;
  return QN_OK;
}

// Strings and vectors that share bytes of the file would take more memory once they are copied, so copies are limited.
qn_status Reader::spend(size_t bytes) {
  if (bytes > budget_) return fail(QN_BAD_MODEL, "parts of the description are shared too often");
  budget_ -= bytes;
  return QN_OK;
}

qn_status Reader::read_string(const flatbuffers::String* from, String* to) {
  if (from == nullptr) return QN_OK;
  QN_TRY(spend(from->size()));
  *to = String(from->string_view());
  return QN_OK;
}

template <class From, class To>
qn_status Reader::read_vector(const flatbuffers::Vector<From>* from, Vector<To>* to) {
  to->clear();
  if (from == nullptr) return QN_OK;
  QN_TRY(spend(from->size() * sizeof(From)));
  // The verifier checks the length of a vector, but not the alignment of its elements.
  if (from->size() != 0 && reinterpret_cast<uintptr_t>(from->Data()) % alignof(From) != 0) {
    return fail(QN_BAD_MODEL, "a list in the description is misaligned");
  }
  to->reserve(from->size());
  for (const From x : *from) {
    if constexpr (std::is_integral_v<To>) {  // of 32 bits
      if (!std::in_range<To>(x)) return fail(QN_BAD_MODEL, "a size in the description overflows");
    }
    to->push_back(static_cast<To>(x));
  }
  return QN_OK;
}

// Calls read(element, index) for each table of a vector.
template <class T, class Read>
qn_status each(const flatbuffers::Vector<flatbuffers::Offset<T>>* tables, Read&& read) {
  if (tables == nullptr) return QN_OK;
  for (flatbuffers::uoffset_t i = 0; i < tables->size(); ++i) QN_TRY(read(*tables->Get(i), size_t{i}));
  return QN_OK;
}

template <class T>
bool has_any(const flatbuffers::Vector<T>* list) {
  return list != nullptr && list->size() != 0;
}

qn_status Reader::read_graph(const format::Model& model) {
  if (!has_subgraphs && has_any(model.subgraphs())) return fail_subgraphs();
  if (!has_subgraphs && has_any(model.states())) return fail_states();
  QN_TRY(read_string(model.source(), &graph_->source));
  QN_TRY(read_string(model.name(), &graph_->name));
  QN_TRY(read_operators(model));
  QN_TRY(each(model.segments(), [&](const auto& x, size_t i) { return read_segment(x, i); }));
  QN_TRY(each(model.tensors(), [&](const auto& x, size_t) { return read_tensor(x); }));
  QN_TRY(each(model.nodes(), [&](const auto& x, size_t) { return read_node(x); }));
  QN_TRY(each(model.inputs(), [&](const auto& x, size_t) { return read_port(x, &graph_->inputs.emplace_back()); }));
  QN_TRY(each(model.outputs(), [&](const auto& x, size_t) { return read_port(x, &graph_->outputs.emplace_back()); }));
#ifdef QN_SMALL  // has_subgraphs
  return QN_OK;
#else
  QN_TRY(read_states(model));
  QN_TRY(read_postprocessing(model));
  return read_subgraphs(model);
#endif
}

#ifndef QN_SMALL  // has_subgraphs
qn_status Reader::read_states(const format::Model& model) {
  if (model.states() == nullptr) return QN_OK;
  QN_TRY(spend(model.states()->size() * sizeof(State)));
  for (const format::State* state : *model.states()) graph_->states.push_back({state->input(), state->output()});
  return QN_OK;
}

qn_status Reader::read_postprocessing(const format::Model& model) {
  const format::Postprocessing* const from = model.postprocessing();
  if (from == nullptr) return QN_OK;
  Postprocessing& to = graph_->postprocessing;
  QN_TRY(read_strings(from->labels(), &to.labels));
  QN_TRY(read_string(from->detections(), &to.detections));
  QN_TRY(read_vector(from->outputs(), &to.outputs));
  to.pixels = from->pixels() != 0;
  to.background = from->background();
  to.threshold = from->threshold();
  to.overlap = from->overlap();
  return QN_OK;
}

// Comes last, because afterwards graph_ and operators_ are those of a subgraph. The verifier has limited how deep and
// how many subgraphs are.
qn_status Reader::read_subgraphs(const format::Model& model) {
  if (model.subgraphs() == nullptr) return QN_OK;
  Vector<Graph>& subgraphs = graph_->subgraphs;
  subgraphs.resize(model.subgraphs()->size());
  return each(model.subgraphs(), [&](const format::Model& subgraph, size_t i) {
    if (has_any(subgraph.segments())) return fail(QN_BAD_MODEL, "subgraph %zu: segments of its own", i);
    operators_.clear();
    graph_ = &subgraphs[i];
    return read_graph(subgraph);
  });
}
#endif

qn_status Reader::read_operators(const format::Model& model) {
  if (model.operators() == nullptr) return QN_OK;
  for (const flatbuffers::String* name : *model.operators()) {
    QN_TRY(spend(sizeof(uint32_t)));
    operators_.push_back(name->c_str());
  }
  return QN_OK;
}

// Sets the node's kind. Names that are not the library's own are those of registered kinds.
qn_status Reader::read_kind(const char* name, Node* to) {
  to->kind = OpKind::custom;
  for (size_t i = 0; i <= static_cast<size_t>(last_kind); ++i) {
    const auto kind = static_cast<OpKind>(i);
    const bool in_files = kind != OpKind::count && kind != OpKind::copy && kind != OpKind::custom;
    if (in_files && std::strcmp(name, op_name(kind)) == 0) to->kind = kind;
  }
  if (to->kind != OpKind::custom) return QN_OK;
  if (!has_kinds || find_kind(name) == nullptr) {
    return fail(QN_BAD_MODEL, "unknown operator '%.60s'; libquern-extra may have it", name);
  }
  const std::string_view text = name;
  QN_TRY(spend(text.size()));
  to->type = String(text);
  return QN_OK;
}

qn_status Reader::read_parameter(const format::Parameter& from, Parameter* to) {
  QN_TRY(read_string(from.name(), &to->name));
  QN_TRY(read_vector(from.integers(), &to->integers));
  return read_vector(from.floats(), &to->floats);
}

// Takes the checksum off the end of a segment. Returns false if there is none, or a wrong one.
bool take_checksum(std::span<const unsigned char>* segment) {
  if (segment->size() < checksum_bytes) return false;
  uint32_t sum;
  *segment = segment->first(segment->size() - checksum_bytes);
  std::memcpy(&sum, segment->data() + segment->size(), sizeof sum);
  return sum == checksum(*segment);
}

qn_status Reader::read_segment(const format::Segment& segment, size_t index) {
  const bool coded = is_coded() && segment.encoding() == format::Encoding::coded;
  const uint64_t offset = coded ? segments_end_ : segment.offset();
  if (!coded && offset % segment_alignment != 0) return fail(QN_BAD_MODEL, "segment %zu: misaligned", index);
  if (offset < segments_end_) return fail(QN_BAD_MODEL, "segment %zu: overlaps what lies before it", index);
  const uint64_t stored = segment.stored(), room = size_ - header_.segments_offset;
  if (offset > room || stored > room - offset) {
    return fail(QN_BAD_MODEL, "segment %zu: reaches beyond the file", index);
  }
  segments_end_ = offset + stored;
  std::span data(data_ + header_.segments_offset + offset, static_cast<size_t>(stored));
  if (is_coded() && !take_checksum(&data)) return fail(QN_BAD_MODEL, "segment %zu: its checksum is wrong", index);
  const qn_status status = read_content(segment, data, &graph_->constants.emplace_back());
  return status == QN_OK ? QN_OK : fail_within(status, "segment %zu", index);
}

qn_status Reader::read_content(const format::Segment& segment, std::span<const unsigned char> data, Constant* to) {
  const uint64_t decoded = segment.decoded(), rows = segment.rows();
  to->owner = owner_;
  to->bytes = static_cast<size_t>(decoded);
  if (segment.encoding() == format::Encoding::raw) {
    to->data = data.data();
    return data.size() == decoded ? QN_OK : fail(QN_BAD_MODEL, "raw, but of two sizes");
  }
  if (is_coded() && segment.encoding() == format::Encoding::coded) {
    return read_coded(segment, data, to);
  }
  if (segment.encoding() != format::Encoding::sparse) {
    return fail(QN_BAD_MODEL, "unknown encoding %u", static_cast<unsigned>(segment.encoding()));
  }
  if (!has_sparse) return fail_without("algorithm", "sparse");
  if (decoded > INT64_MAX || decoded == 0 || rows == 0 || decoded % sizeof(float) != 0 ||
      decoded / sizeof(float) % rows != 0) {
    return fail(QN_BAD_MODEL, "expected f32 values of %llu rows, got %llu bytes", static_cast<unsigned long long>(rows),
                static_cast<unsigned long long>(decoded));
  }
  if (decoded > std::min<uint64_t>(work_limit(size_), PTRDIFF_MAX)) return fail_work();
  Shared<const SparseConstant> sparse;
  QN_TRY(SparseConstant::read(data, static_cast<size_t>(rows), static_cast<size_t>(decoded / sizeof(float) / rows),
                              segment.block(), &sparse));
  to->encoded = std::move(sparse);
  return QN_OK;
}

qn_status Reader::read_coded(const format::Segment& segment, std::span<const unsigned char> data, Constant* to) {
  const uint64_t bytes = segment.decoded(), rows = segment.rows();
  const size_t item = segment.item();
  if (bytes > std::min<uint64_t>(work_limit(size_), PTRDIFF_MAX)) return fail_work();
  if (bytes == 0 || item == 0 || bytes % item != 0 || (rows != 0 && bytes / item % rows != 0)) {
    return fail(QN_BAD_MODEL, "its bytes are not whole rows");
  }
  if (rows != 0) {
    qn_weights_summary summary;
    QN_TRY(read_summary(segment, &summary));
    to->encoded = CodedConstant::make(data, static_cast<size_t>(rows), to->bytes, item, summary);
    return QN_OK;
  }
  work_ += work_of(data, bytes);
  if (work_ > work_limit(size_)) return fail_work();
  auto decoded = make_shared<Buffer>(to->bytes);
  QN_TRY(decode_whole(data, to->bytes, item, decoded->data()));
  to->data = decoded->data();
  to->owner = std::move(decoded);
  return QN_OK;
}

// Numbers that are wrong do no harm but to results.
qn_status Reader::read_summary(const format::Segment& segment, qn_weights_summary* to) {
  *to = {};
  to->least = segment.least(), to->most = segment.most();
  to->largest_sum = segment.largest_sum();
  if (segment.blocks() == nullptr) return QN_OK;
  Vector<size_t> counts;
  QN_TRY(read_vector(segment.blocks(), &counts));
  const size_t known = std::size(to->blocks) * std::size(to->blocks[0]);
  std::copy_n(counts.begin(), std::min(counts.size(), known), to->blocks[0]);
  return QN_OK;
}

qn_status Reader::fail_work() const {
  return fail(QN_BAD_MODEL, "its weights would take more than %llu bytes, or much more time than others",
              static_cast<unsigned long long>(work_limit(size_)));
}

// Compares two sums with the limit. One counts each segment once, in case somebody makes all of them dense. The other
// counts a segment once for each node that reads it, because it is packed for each of them.
qn_status Reader::check_work() const {
  const Graph& whole = outermost();
  uint64_t once = work_, packed = work_;
  const auto add = [&](const Constant& constant, uint64_t* sum) {
    if (constant.encoded == nullptr) return true;
    return checked_add<uint64_t>(*sum, constant.encoded->work(), sum) && *sum <= work_limit(size_);
  };
  bool fits = true;
  for (const Constant& constant : whole.constants) fits = fits && add(constant, &once);
  each_graph(whole, [&](const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for (const int input : node.inputs) {
        if (input < 0 || at(input) >= graph.tensors.size()) continue;  // check_graph() will refuse it
        const int constant = graph.tensors[at(input)].constant;
        if (constant >= 0) fits = fits && add(graph.constants[at(constant)], &packed);
      }
    }
  });
  return fits ? QN_OK : fail_work();
}

qn_status Reader::read_tensor(const format::Tensor& tensor) {
  Tensor& to = graph_->tensors.emplace_back();
  const size_t index = graph_->tensors.size() - 1;
  QN_TRY(read_string(tensor.name(), &to.name));
  QN_TRY(read_vector(tensor.shape(), &to.shape));
#ifdef QN_NO_INTEGERS
  if (tensor.scales() != nullptr || tensor.type() > format::Type::s64) return fail_without("tensors of", "integers");
#else
  QN_TRY(read_vector(tensor.scales(), &to.quantization.scales));
  QN_TRY(read_vector(tensor.zero_points(), &to.quantization.zero_points));
  to.quantization.axis = tensor.axis();
  if (!has_scaled_blocks && tensor.block() != 0) return fail_without("weights with", "scales for blocks");
  to.quantization.block = tensor.block();
#endif
  if (tensor.type() == format::Type::none || tensor.type() > format::Type::MAX) {
    return fail(QN_BAD_MODEL, "tensor %zu: unknown type %u", index, static_cast<unsigned>(tensor.type()));
  }
  to.type = static_cast<qn_type>(tensor.type());
  to.constant = tensor.segment();
  if (to.constant == -1) return QN_OK;
  const Vector<Constant>& segments = outermost().constants;
  if (to.constant < 0 || static_cast<size_t>(to.constant) >= segments.size()) {
    return fail(QN_BAD_MODEL, "tensor %zu: segment %d does not exist", index, to.constant);
  }
#ifndef QN_SMALL  // has_subgraphs
  if (&segments != &graph_->constants) {
    graph_->constants.push_back(segments[static_cast<size_t>(to.constant)]);
    to.constant = static_cast<int>(graph_->constants.size() - 1);
  }
#endif
  return has_integers && has_kinds && to.type == QN_BOOL ? make_booleans(&to) : QN_OK;
}

// Makes 1 of the bytes of booleans that are neither 0 nor 1, in a copy: tensors of other types may share the segment.
// A build without registered kinds, which alone read booleans, refuses them (check_graph).
qn_status Reader::make_booleans(Tensor* tensor) {
  const Constant& from = graph_->constants[at(tensor->constant)];
  const auto* const bytes = static_cast<const unsigned char*>(from.data);
  if (bytes == nullptr || !any_of(std::span(bytes, from.bytes), [](unsigned char x) { return x > 1; })) return QN_OK;
  if (from.bytes > copies_) return fail(QN_BAD_MODEL, "segments of booleans are shared too often");
  copies_ -= from.bytes;
  auto copy = make_shared<Buffer>(from.bytes);
  copy_booleans(bytes, from.bytes, copy->data());
  tensor->constant = static_cast<int>(graph_->constants.size());
  Constant& to = graph_->constants.emplace_back();
  to.data = copy->data();
  to.bytes = copy->size();
  to.owner = std::move(copy);
  return QN_OK;
}

qn_status Reader::read_node(const format::Node& node) {
  const size_t index = graph_->nodes.size();
  if (node.operator_() >= operators_.size())
    return fail(QN_BAD_MODEL, "node %zu: operator %u does not exist", index, node.operator_());
  Node& to = graph_->nodes.emplace_back();
#ifdef QN_SMALL  // has_subgraphs
  if (has_any(node.subgraphs())) return fail(QN_BAD_MODEL, "node %zu: a subgraph, but the model has none", index);
#else
  QN_TRY(read_vector(node.subgraphs(), &to.subgraphs));
#endif
  QN_TRY(read_kind(operators_[node.operator_()], &to));
  QN_TRY(read_string(node.name(), &to.name));
  QN_TRY(read_vector(node.inputs(), &to.inputs));
  QN_TRY(read_vector(node.outputs(), &to.outputs));
  QN_TRY(
      each(node.parameters(), [&](const auto& x, size_t) { return read_parameter(x, &to.parameters.emplace_back()); }));
  if (node.attributes() == nullptr) return QN_OK;
  return read_attributes(*node.attributes(), &to.attributes, index);
}

// Checks the ranges before the casts, because an enumeration may not hold just any number.
qn_status Reader::read_attributes(const format::Attributes& from, Attributes* to, size_t node) {
#define QN_ATTRIBUTE(name, field, low, high)                                            \
  if (!in_range(from.name(), low, high)) {                                              \
    return fail(QN_BAD_MODEL, "node %zu: " #name " is %g, which is out of range", node, \
                static_cast<double>(from.name()));                                      \
  }                                                                                     \
  to->field = static_cast<decltype(to->field)>(from.name());
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
  return read_vector(from.values(), &to->values);
}

template <class T, uint16_t n>
void copy(const flatbuffers::Array<T, n>& from, T* to) {
  for (uint16_t i = 0; i < n; ++i) to[i] = from.Get(i);
}

qn_status Reader::read_port(const format::Port& port, Port* to) {
  if (port.tensor() >= graph_->tensors.size())
    return fail(QN_BAD_MODEL, "an input or output is tensor %u of none", port.tensor());
  if (graph_->tensors[port.tensor()].name.empty()) return fail(QN_BAD_MODEL, "an input or output has no name");
  to->tensor = static_cast<int>(port.tensor());
  if (port.type() == format::Type::none || port.type() > format::Type::MAX) {
    return fail(QN_BAD_MODEL, "an input or output has type %u", static_cast<unsigned>(port.type()));
  }
  to->type = static_cast<qn_type>(port.type());
  if (const format::Preprocessing* p = port.preprocessing()) {
    to->preprocessing.present = 1;
    to->preprocessing.bgr = p->bgr() != 0;
    to->preprocessing.resize = p->resize();
    copy(*p->mean(), to->preprocessing.mean);
    copy(*p->scale(), to->preprocessing.scale);
    copy(*p->crop(), to->preprocessing.crop);
  }
  to->fixed = port.fixed();
  to->open = port.open();
  to->unsized = port.unsized() != 0;
#ifndef QN_NO_MESSAGES
  QN_TRY(read_string(port.fixed_by(), &to->fixed_by));
  QN_TRY(read_strings(port.dimensions(), &to->dimensions));
#endif
  return QN_OK;
}

#ifndef QN_NO_MESSAGES
qn_status Reader::read_strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* from,
                               Vector<String>* to) {
  if (from == nullptr) return QN_OK;
  for (const flatbuffers::String* text : *from) {
    QN_TRY(spend(sizeof(uint32_t)));
    QN_TRY(read_string(text, &to->emplace_back()));
  }
  return QN_OK;
}
#endif

}  // namespace

qn_status read_model(const void* data, size_t size, Shared<const void> owner, const char* who, Graph* graph) {
  if (reinterpret_cast<uintptr_t>(data) % segment_alignment != 0) {
    return fail(QN_INVALID_ARGUMENT, "%s: the image is not aligned to %zu bytes", who, size_t{segment_alignment});
  }
  Graph result;
  const auto read = [&] {
    QN_TRY(Reader(static_cast<const unsigned char*>(data), size, std::move(owner), &result).read());
    QN_TRY(check_graph(result));
    return infer_shapes(result);
  };
  const qn_status status = read();
  if (status != QN_OK) return fail_within(status, "%s", who);
  *graph = std::move(result);
  return QN_OK;
}

qn_status read_model_file(const char* path, Graph* graph) {
  Shared<const MappedFile> file;
  QN_TRY(map_file(path, &file));
  return read_model(file->data(), file->size(), file, path, graph);
}

}  // namespace quern
