#include "convert/caffe/net.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <climits>

#include "convert/caffe/old.h"
#include "convert/common/file.h"
#include "convert/common/table.h"

namespace quern::caffe {

using namespace convert;

namespace {

using schema::LayerParameter;
using schema::NetParameter;
using schema::V1LayerParameter;

// Limits far above any real net. The limit of text is low because parsed text takes up to a hundred times its size in
// memory. The limit of layers is higher than that of our nodes because not every layer becomes a node.
constexpr size_t text_limit = size_t{4} << 20;
constexpr int layer_limit = 40000;
constexpr int nesting_limit = 32;

// ---- text -------------------------------------------------------------------------------------

// Parameters of layers that make no difference to a trained net.
constexpr std::array ignored_parameters = {"weight_filler",
                                           "bias_filler",
                                           "filler",
                                           "engine",
                                           "force_nd_im2col",
                                           "moving_average_fraction",
                                           "mirror",
                                           "stable_prod_grad",
                                           "source",
                                           "backend",
                                           "rand_skip",
                                           "prefetch",
                                           "shuffle",
                                           "root_folder",
                                           "data_filler",
                                           "force_color",
                                           "force_encoded_color",
                                           "scale_filler",
                                           "visualize",
                                           "visualize_threshold",
                                           "save_output_param",
                                           "save_file",
                                           "shift_filler",
                                           "slope_filler",
                                           "momentum",
                                           "frozen",
                                           "debug_info"};

// Collects errors of the parser. Forks of Caffe have fields that we do not know. Outside the parameters of layers, such
// fields are skipped. Inside parameters that we read, an unknown field is an error, because a net without it could give
// wrong results.
class TextErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override { keep(line, column, message); }
  void AddWarning(int line, int column, const std::string& message) override {
    const std::string before = "Message type \"quern.caffe.schema.", between = "\" has no field named \"";
    const size_t middle = message.find(between);
    if (message.rfind(before, 0) != 0 || middle == std::string::npos) return;
    const std::string type = message.substr(before.size(), middle - before.size());
    const std::string field = message.substr(middle + between.size(), message.rfind('"') - middle - between.size());
    const bool outside = type == "NetParameter" || type == "LayerParameter" || type == "V1LayerParameter" ||
                         type == "V0LayerParameter" || type == "NetStateRule" || type == "ParamSpec";
    if (outside || std::find(ignored_parameters.begin(), ignored_parameters.end(), field) != ignored_parameters.end())
      return;
    keep(line, column, "unknown field '" + field + "' of " + type);
  }
  const std::string& first() const { return first_; }

 private:
  void keep(int line, int column, const std::string& message) {
    if (first_.empty()) first_ = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + message;
  }
  std::string first_;
};

NetParameter parse_text(const std::string& path) {
  const std::string text = read_file(path, text_limit);
  NetParameter net;
  TextErrors errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(nesting_limit);
  const bool parsed = parser.ParseFromString(text, &net);
  if (!errors.first().empty()) throw Error(path + ":" + errors.first());
  if (!parsed) throw Error(path + ": not a Caffe net");
  return net;
}

// ---- upgrades ---------------------------------------------------------------------------------

const char* name_of_v1_type(V1LayerParameter::LayerType type) {
  static const std::map<V1LayerParameter::LayerType, const char*> names = {
      {V1LayerParameter::ABSVAL, "AbsVal"},
      {V1LayerParameter::ACCURACY, "Accuracy"},
      {V1LayerParameter::ARGMAX, "ArgMax"},
      {V1LayerParameter::BNLL, "BNLL"},
      {V1LayerParameter::CONCAT, "Concat"},
      {V1LayerParameter::CONTRASTIVE_LOSS, "ContrastiveLoss"},
      {V1LayerParameter::CONVOLUTION, "Convolution"},
      {V1LayerParameter::DATA, "Data"},
      {V1LayerParameter::DECONVOLUTION, "Deconvolution"},
      {V1LayerParameter::DROPOUT, "Dropout"},
      {V1LayerParameter::DUMMY_DATA, "DummyData"},
      {V1LayerParameter::ELTWISE, "Eltwise"},
      {V1LayerParameter::EUCLIDEAN_LOSS, "EuclideanLoss"},
      {V1LayerParameter::EXP, "Exp"},
      {V1LayerParameter::FLATTEN, "Flatten"},
      {V1LayerParameter::HDF5_DATA, "HDF5Data"},
      {V1LayerParameter::HDF5_OUTPUT, "HDF5Output"},
      {V1LayerParameter::HINGE_LOSS, "HingeLoss"},
      {V1LayerParameter::IM2COL, "Im2col"},
      {V1LayerParameter::IMAGE_DATA, "ImageData"},
      {V1LayerParameter::INFOGAIN_LOSS, "InfogainLoss"},
      {V1LayerParameter::INNER_PRODUCT, "InnerProduct"},
      {V1LayerParameter::LRN, "LRN"},
      {V1LayerParameter::MEMORY_DATA, "MemoryData"},
      {V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS, "MultinomialLogisticLoss"},
      {V1LayerParameter::MVN, "MVN"},
      {V1LayerParameter::POOLING, "Pooling"},
      {V1LayerParameter::POWER, "Power"},
      {V1LayerParameter::RELU, "ReLU"},
      {V1LayerParameter::SIGMOID, "Sigmoid"},
      {V1LayerParameter::SIGMOID_CROSS_ENTROPY_LOSS, "SigmoidCrossEntropyLoss"},
      {V1LayerParameter::SILENCE, "Silence"},
      {V1LayerParameter::SLICE, "Slice"},
      {V1LayerParameter::SOFTMAX, "Softmax"},
      {V1LayerParameter::SOFTMAX_LOSS, "SoftmaxWithLoss"},
      {V1LayerParameter::SPLIT, "Split"},
      {V1LayerParameter::TANH, "TanH"},
      {V1LayerParameter::THRESHOLD, "Threshold"},
      {V1LayerParameter::WINDOW_DATA, "WindowData"},
  };
  const char* const* name = find_in(names, type);
  return name == nullptr ? "" : *name;
}

// Copies every field that has the same name and type in both messages.
void copy_common_fields(const google::protobuf::Message& from, google::protobuf::Message* to) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const auto* field : fields) {
    const auto* target = to->GetDescriptor()->FindFieldByName(field->name());
    if (target == nullptr || field->message_type() == nullptr || target->message_type() != field->message_type())
      continue;
    if (field->is_repeated()) {
      for (int i = 0; i < from.GetReflection()->FieldSize(from, field); ++i) {
        to->GetReflection()->AddMessage(to, target)->CopyFrom(from.GetReflection()->GetRepeatedMessage(from, field, i));
      }
    } else {
      to->GetReflection()->MutableMessage(to, target)->CopyFrom(from.GetReflection()->GetMessage(from, field));
    }
  }
}

LayerParameter upgraded(const V1LayerParameter& old) {
  LayerParameter layer;
  layer.set_name(old.name());
  layer.set_type(name_of_v1_type(old.type()));
  *layer.mutable_bottom() = old.bottom();
  *layer.mutable_top() = old.top();
  copy_common_fields(old, &layer);
  return layer;
}

// Makes Input layers from the old form of inputs: `input: "data"` with input_shape or input_dim.
std::vector<LayerParameter> declared_inputs(const NetParameter& net) {
  if (net.input_shape_size() > 0 && net.input_dim_size() > 0) throw Error("both input_shape and input_dim are given");
  const bool by_dim = net.input_dim_size() > 0;
  if (by_dim ? net.input_dim_size() != 4 * net.input_size() : net.input_shape_size() != net.input_size()) {
    throw Error(std::to_string(net.input_size()) + " inputs do not fit " +
                (by_dim ? std::to_string(net.input_dim_size()) + " numbers of input_dim"
                        : std::to_string(net.input_shape_size()) + " times input_shape"));
  }
  std::vector<LayerParameter> layers;
  for (int i = 0; i < net.input_size(); ++i) {
    LayerParameter& layer = layers.emplace_back();
    layer.set_name(net.input(i));
    layer.set_type("Input");
    layer.add_top(net.input(i));
    schema::BlobShape* shape = layer.mutable_input_param()->add_shape();
    if (by_dim) {
      for (int d = 0; d < 4; ++d) shape->add_dim(net.input_dim(4 * i + d));
    } else {
      *shape = net.input_shape(i);
    }
  }
  return layers;
}

// Moves to transform_param the fields that old files have in the parameters of data layers.
template <class DataParameter>
void upgrade_transformation(const DataParameter& data, LayerParameter* layer) {
  schema::TransformationParameter* transform = layer->mutable_transform_param();
  if (data.has_scale() && !transform->has_scale()) transform->set_scale(data.scale());
  if (data.has_crop_size() && !transform->has_crop_size()) transform->set_crop_size(data.crop_size());
  if (data.has_mean_file() && !transform->has_mean_file()) transform->set_mean_file(data.mean_file());
}

// ---- phase ------------------------------------------------------------------------------------

// Whether the rule holds for a net in the test phase with level 0 and no stages.
bool meets(const schema::NetStateRule& rule) {
  if (rule.has_phase() && rule.phase() != schema::TEST) return false;
  if (rule.has_min_level() && rule.min_level() > 0) return false;
  if (rule.has_max_level() && rule.max_level() < 0) return false;
  return rule.stage_size() == 0;
}

bool is_included(const LayerParameter& layer) {
  if (layer.include_size() > 0 && layer.exclude_size() > 0) {
    throw Error("layer '" + layer.name() + "' has both include and exclude");
  }
  if (layer.include_size() > 0) return std::any_of(layer.include().begin(), layer.include().end(), meets);
  return std::none_of(layer.exclude().begin(), layer.exclude().end(), meets);
}

bool is_for_training_only(const std::string& type) {
  constexpr std::array types = {"Accuracy",   "ContrastiveLoss", "EuclideanLoss", "HingeLoss",
                                "HDF5Output", "InfogainLoss",    "MultiBoxLoss",  "MultinomialLogisticLoss"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool reads_labels(const std::string& type) {
  constexpr std::array types = {"Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "AnnotatedData"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

// Returns the layer that a deployed net has in place of this one.
LayerParameter deployed(LayerParameter layer) {
  const std::string& type = layer.type();
  if (type == "SoftmaxWithLoss" || type == "SigmoidCrossEntropyLoss") {
    layer.set_type(type == "SoftmaxWithLoss" ? "Softmax" : "Sigmoid");
    if (layer.bottom_size() > 1) layer.mutable_bottom()->DeleteSubrange(1, layer.bottom_size() - 1);  // labels
    if (layer.top_size() > 1)
      layer.mutable_top()->DeleteSubrange(0, layer.top_size() - 1);  // the last output is softmax
    if (layer.top_size() == 0) layer.add_top(layer.name());          // a loss needs no top in Caffe
  }
  if (reads_labels(type) && layer.top_size() > 1) layer.mutable_top()->DeleteSubrange(1, layer.top_size() - 1);
  if (layer.has_data_param()) upgrade_transformation(layer.data_param(), &layer);
  if (layer.has_image_data_param()) upgrade_transformation(layer.image_data_param(), &layer);
  return layer;
}

}  // namespace

CaffeNet read_caffe_net(const std::string& prototxt) {
  NetParameter net = parse_text(prototxt);
  if (net.layer_size() > 0 && net.layers_size() > 0) throw Error(prototxt + ": has both `layer` and `layers`");
  if (std::max({net.layer_size(), net.layers_size(), net.input_size()}) > layer_limit) {
    throw Error(prototxt + ": more than " + std::to_string(layer_limit) + " layers");
  }
  CaffeNet result;
  result.name = net.name();
  try {
    result.layers = declared_inputs(net);
    OldLayers old_layers;
    std::vector<LayerParameter> present;
    for (const V1LayerParameter& old : net.layers()) {
      old.has_layer() ? old_layers.upgrade(old, &present) : present.push_back(upgraded(old));
    }
    for (LayerParameter& layer : present) *net.add_layer() = std::move(layer);
    for (LayerParameter& layer : *net.mutable_layer()) {
      if (!is_included(layer) || is_for_training_only(layer.type())) continue;
      if (layer.type().empty()) throw Error("layer '" + layer.name() + "' has no type");
      result.layers.push_back(deployed(std::move(layer)));
    }
  } catch (const Error& error) {
    throw Error(prototxt + ": " + error.what());
  }
  if (result.layers.empty()) throw Error(prototxt + ": the net has no layers");
  return result;
}

CaffeWeights::CaffeWeights(const std::string& caffemodel) {
  const std::string bytes = read_file(caffemodel, INT_MAX);
  bytes_ = bytes.size();
  if (!net_.ParseFromString(bytes)) throw Error(caffemodel + ": not a Caffe model, or damaged");
  for (auto& layer : *net_.mutable_layer()) layers_.emplace(layer.name(), layer.mutable_blobs());
  for (auto& layer : *net_.mutable_layers()) {
    if (layer.has_layer()) {
      layers_.emplace(layer.layer().name(), layer.mutable_layer()->mutable_blobs());
    } else {
      layers_.emplace(layer.name(), layer.mutable_blobs());
    }
  }
  if (layers_.empty()) throw Error(caffemodel + ": holds no layers");
}

const CaffeBlobs* CaffeWeights::find(const std::string& layer) const {
  CaffeBlobs* const* blobs = find_in(layers_, layer);
  return blobs == nullptr ? nullptr : *blobs;
}

void CaffeWeights::drop(const std::string& layer) {
  if (CaffeBlobs* const* blobs = find_in(layers_, layer)) CaffeBlobs().Swap(*blobs);
}

}  // namespace quern::caffe
