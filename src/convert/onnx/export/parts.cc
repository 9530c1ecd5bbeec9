#include "convert/onnx/export/parts.h"

namespace quern::onnx {

static schema::NodeProto& add_scan(GraphWriter& to, const Node& node, const std::vector<Scanned>& carried,
                                   const std::vector<Scanned>& scanned) {
  std::vector<std::string> inputs;
  for (const auto* list : {&carried, &scanned}) {
    for (const Scanned& input : *list) inputs.push_back(input.value);
  }
  schema::NodeProto* scan = to.add_op("Scan", node_name(node, "Scan"), inputs);
  scan->clear_output();  // give() adds them
  set_integer(scan, "num_scan_inputs", static_cast<int64_t>(scanned.size()));
  return *scan;
}

static schema::GraphProto& add_body(schema::NodeProto& scan) {
  schema::GraphProto& body = *add_attribute(&scan, "body", schema::AttributeProto::GRAPH)->mutable_g();
  body.set_name("body");
  return body;
}

ScanWriter::ScanWriter(GraphWriter& to, const Node& node, const std::vector<Scanned>& carried,
                       const std::vector<Scanned>& scanned)
    : node_(node),
      scan_(add_scan(to, node, carried, scanned)),
      graph_(add_body(scan_)),
      inner_(to.model, none_, graph_) {
  for (const auto* list : {&carried, &scanned}) {
    for (const Scanned& input : *list) inner_.add_formal(no_tensor, input.type, false);
  }
}

std::string ScanWriter::give(const std::string& value, qn_type type) {
  schema::ValueInfoProto* info = graph_.add_output();
  info->set_name(inner_.add("Identity", "", {value}));
  info->mutable_type()->mutable_tensor_type()->set_elem_type(data_type(type));
  scan_.add_output(inner_.model.new_name());
  return scan_.output(scan_.output_size() - 1);
}

void ScanWriter::reverse(size_t scanned, size_t rows) {
  set_integers(&scan_, "scan_input_directions", std::vector<int64_t>(scanned, 1));
  set_integers(&scan_, "scan_output_directions", std::vector<int64_t>(rows, 1));
}

}  // namespace quern::onnx
