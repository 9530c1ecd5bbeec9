// Imports Caffe nets: connects the blobs, then imports each layer with a function for its type.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <map>
#include <set>

#include "convert/caffe/layer.h"
#include "convert/common/wiring.h"
#include "convert/convert.h"

namespace quern::caffe {

namespace {

// ---- wiring -----------------------------------------------------------------------------------

bool is_input_type(const std::string& type) {
  static const std::set<std::string> types = {"Input",      "Data",      "ImageData", "MemoryData",
                                              "WindowData", "DummyData", "HDF5Data",  "AnnotatedData"};
  return types.count(type) > 0;
}

// Adds a layer to the wiring. If layers rewrite a blob in place, each version becomes a tensor of its own.
void wire(const LayerParameter& layer, Wiring* wiring) {
  Wires bottoms, tops;
  for (const std::string& name : layer.bottom()) {
    const auto bottom = wiring->find(name);
    if (!bottom && layer.type() == "Silence") continue;  // a blob of labels, which were dropped
    if (!bottom) throw Error("layer '" + layer.name() + "' reads '" + name + "', which no layer before it writes");
    bottoms.push_back(*bottom);
  }
  for (int i = 0; i < layer.top_size(); ++i) {
    const std::string& name = layer.top(i);
    const bool in_place = i < layer.bottom_size() && layer.bottom(i) == name;
    if (!in_place && wiring->find(name)) {
      throw Error("layer '" + layer.name() + "' writes '" + name + "', which an earlier layer writes too");
    }
    tops.push_back(wiring->rewrite(name));
  }
  wiring->add_node(std::move(bottoms), std::move(tops));
}

// Returns the blobs with these names. Without names, returns the blobs that no layer reads and that are not inputs.
Wires choose_outputs(const CaffeNet& net, const Wiring& wiring, const std::vector<std::string>& names) {
  Wires outputs;
  for (const std::string& name : names) {
    const auto blob = wiring.find(name);
    if (!blob) throw Error("the net has no blob '" + name + "'");
    outputs.push_back(*blob);
  }
  if (names.empty()) {
    std::set<Wire> inputs;
    for (size_t i = 0; i < net.layers.size(); ++i) {
      if (is_input_type(net.layers[i].type())) inputs.insert(wiring.outputs(i).begin(), wiring.outputs(i).end());
    }
    for (const Wire wire : wiring.unread()) {
      if (inputs.count(wire) == 0) outputs.push_back(wire);
    }
  }
  if (outputs.empty()) throw Error("the net has no outputs");
  return outputs;
}

// ---- inputs -----------------------------------------------------------------------------------

// Returns the shape of top `index` of an input layer; empty if the layer does not say it.
Shape input_shape(const LayerParameter& layer, int index) {
  std::vector<int64_t> dims;
  const auto pick = [index](const auto& list) { return list[list.size() == 1 ? 0 : index]; };
  const auto covers = [index](const auto& list) { return list.size() == 1 || index < list.size(); };
  const schema::DummyDataParameter& dummy = layer.dummy_data_param();
  const auto& shapes = layer.type() == "DummyData" ? dummy.shape() : layer.input_param().shape();
  const int64_t crop = layer.transform_param().crop_size();
  if (!shapes.empty() && covers(shapes)) {
    const schema::BlobShape& shape = pick(shapes);
    dims.assign(shape.dim().begin(), shape.dim().end());
  } else if (covers(dummy.num()) && covers(dummy.channels()) && covers(dummy.height()) && covers(dummy.width()) &&
             layer.type() == "DummyData") {
    dims = {pick(dummy.num()), pick(dummy.channels()), pick(dummy.height()), pick(dummy.width())};
  } else if (layer.type() == "MemoryData") {
    const schema::MemoryDataParameter& p = layer.memory_data_param();
    dims = {p.batch_size(), p.channels(), p.height(), p.width()};
  } else if ((layer.type() == "Data" || layer.type() == "ImageData") && crop > 0) {
    const bool gray = layer.transform_param().force_gray() || !layer.image_data_param().is_color();
    dims = {1, gray ? 1 : 3, crop, crop};
  } else if (layer.type() == "ImageData" && layer.image_data_param().new_height() > 0) {
    const schema::ImageDataParameter& p = layer.image_data_param();
    dims = {1, p.is_color() ? 3 : 1, p.new_height(), p.new_width()};
  }
  Shape shape;
  for (const int64_t d : dims) {
    if (d <= 0) throw Error("layer '" + layer.name() + "': input dimension " + std::to_string(d));
    shape.push_back(static_cast<size_t>(d));
  }
  return shape;
}

// Returns the preprocessing of an input layer: a centre crop, then (x - mean_value) * scale. Caffe's order of colours
// is blue, green, red. Layers with a mean image get no preprocessing, because ours cannot express it.
qn_preprocessing preprocessing(const LayerParameter& layer, const Shape& shape) {
  qn_preprocessing result = {};
  const schema::TransformationParameter& t = layer.transform_param();
  const bool says_something = t.has_scale() || t.has_crop_size() || t.mean_value_size() > 0;
  const size_t channels = shape.size() == 4 ? shape[1] : 0;
  if (!says_something || t.has_mean_file() || (channels != 1 && channels != 3)) return result;
  const auto means = static_cast<size_t>(t.mean_value_size());
  const std::string where = "layer '" + layer.name() + "': ";
  if (means > 1 && means != channels) throw Error(where + "mean_value does not fit the channels");
  result.present = 1;
  result.bgr = channels == 3;
  for (size_t c = 0; c < channels; ++c) {
    const int index = static_cast<int>(means == 1 ? 0 : c);
    result.mean[c] = means == 0 ? 0 : finite(t.mean_value(index), where + "mean_value");
    result.scale[c] = finite(t.scale(), where + "scale");
  }
  result.crop[0] = t.crop_size();
  return result;
}

// ---- layers -----------------------------------------------------------------------------------

const LayerRow* find_row(const std::string& type) {
  for (auto* const find : {find_layer, find_shape, find_detection, find_general, find_recurrent}) {
    if (const LayerRow* row = find(type)) return row;
  }
  return nullptr;
}

// ---- the net ----------------------------------------------------------------------------------

class Importer {
 public:
  Importer(const CaffeNet& net, CaffeWeights* weights) : net_(net), weights_(weights) {
    builder_.set_name(net.name);
    if (weights != nullptr) builder_.allow(weights->bytes());
    for (const LayerParameter& layer : net.layers) {
      if (weights == nullptr || weights->find(layer.name()) == nullptr) continue;
      owners_.try_emplace(names_of_weights(layer), layer.name());
    }
    for (const LayerParameter& layer : net.layers) {
      wire(layer, &wiring_);
      ++readers_[owner(layer)];
    }
  }

  Graph import(const std::vector<std::string>& names) {
    const Wires outputs = choose_outputs(net_, wiring_, names);
    wiring_.need(outputs);
    for (size_t i = 0; i < net_.layers.size(); ++i) {
      if (!wiring_.is_node_needed(i)) continue;
      const LayerParameter& layer = net_.layers[i];
      if (is_input_type(layer.type())) {
        wiring_.collect(layer.name(), layer.type(), {}, [&] { add_input(layer, wiring_.outputs(i)); });
      } else {
        wiring_.collect(layer.name(), layer.type(), wiring_.outputs(i), [&] { add_layer(layer, i); });
      }
    }
    wiring_.throw_if_unsupported();
    for (const Wire output : outputs) {
      builder_.output(wiring_.value(output, "the net")->view, wiring_.name(output), QN_F32);
    }
    return builder_.finish();
  }

 private:
  // Layers that name their weights alike share them, and a file may have them once. Empty unless all have names.
  static std::string names_of_weights(const LayerParameter& layer) {
    std::string names;
    for (const schema::ParamSpec& param : layer.param()) {
      if (param.name().empty()) return "";
      names += param.name() + "\n";
    }
    return names;
  }
  // The layer under whose name the file has the weights.
  std::string owner(const LayerParameter& layer) const {
    const std::string names = names_of_weights(layer);
    if (names.empty() || weights_ == nullptr || weights_->find(layer.name()) != nullptr) return layer.name();
    const auto at = owners_.find(names);
    return at == owners_.end() ? layer.name() : at->second;
  }

  void add_input(const LayerParameter& layer, const Wires& tops) {
    for (size_t i = 0; i < tops.size(); ++i) {
      const std::string& name = wiring_.name(tops[i]);
      const Shape shape = input_shape(layer, static_cast<int>(i));
      if (shape.empty()) {
        wiring_.lose({tops.begin() + static_cast<std::ptrdiff_t>(i), tops.end()});
        throw Unsupported{"the net does not say the size of '" + name + "'"};
      }
      wiring_.define(tops[i], builder_.input(name, shape, QN_F32, preprocessing(layer, shape)));
    }
  }

  void add_layer(const LayerParameter& param, size_t index) {
    const LayerRow* row = find_row(param.type());
    if (row == nullptr) throw Unsupported{};
    auto bottoms = wiring_.values(index, "layer '" + param.name() + "'");
    if (!bottoms) return;  // an input is lost; the list of unsupported layers has the cause
    const std::string name = owner(param);
    const CaffeBlobs* blobs = weights_ == nullptr ? nullptr : weights_->find(name);
    const Layer layer(builder_, param, std::move(*bottoms), blobs, weights_ != nullptr);
    layer.expect_inputs(row->min_inputs, row->max_inputs);
    const Values tops = row->import(layer);
    const size_t count = wiring_.outputs(index).size();
    if (tops.size() != count) layer.fail("has " + std::to_string(count) + " outputs");
    wiring_.define_outputs(index, tops);
    // Weights become constants of the graph: they are not needed in memory a second time.
    if (weights_ != nullptr && readers_[name] == 1) weights_->drop(name);
  }

  const CaffeNet& net_;
  CaffeWeights* weights_;
  std::map<std::string, std::string> owners_;  // names of weights -> the first layer that the file has with them
  std::map<std::string, int> readers_;         // how many layers have the weights of this name
  Builder builder_{"caffe"};
  Wiring wiring_{builder_};
};

}  // namespace
}  // namespace quern::caffe

namespace quern {

Graph import_caffe(const std::string& prototxt, const std::string& caffemodel, const ImportOptions& options) {
  const google::protobuf::LogSilencer silence;  // the importer reports errors itself
  const caffe::CaffeNet net = caffe::read_caffe_net(prototxt);
  try {
    if (caffemodel.empty()) return caffe::Importer(net, nullptr).import(options.outputs);
    caffe::CaffeWeights weights(caffemodel);
    return caffe::Importer(net, &weights).import(options.outputs);
  } catch (const Error& error) {
    throw Error(prototxt + ": " + error.what());
  }
}

}  // namespace quern
