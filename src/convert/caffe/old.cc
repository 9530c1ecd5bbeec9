#include "convert/caffe/old.h"

#include "convert/common/error.h"
#include "convert/common/table.h"

namespace quern::caffe {
namespace {

using convert::find_in;
using schema::LayerParameter;
using schema::V0LayerParameter;

// ---- parameters: each layer had all of them in common

void set_nothing(const V0LayerParameter&, LayerParameter*) {}

void set_concat(const V0LayerParameter& old, LayerParameter* layer) {
  if (old.has_concat_dim()) layer->mutable_concat_param()->set_concat_dim(old.concat_dim());
}

void set_convolution(const V0LayerParameter& old, LayerParameter* layer) {
  schema::ConvolutionParameter* p = layer->mutable_convolution_param();
  if (old.has_num_output()) p->set_num_output(old.num_output());
  if (old.has_biasterm()) p->set_bias_term(old.biasterm());
  if (old.has_pad()) p->add_pad(old.pad());
  if (old.has_kernelsize()) p->add_kernel_size(old.kernelsize());
  if (old.has_group()) p->set_group(old.group());
  if (old.has_stride()) p->add_stride(old.stride());
}

void set_pooling(const V0LayerParameter& old, LayerParameter* layer) {
  schema::PoolingParameter* p = layer->mutable_pooling_param();
  if (old.has_pool()) p->set_pool(old.pool());
  if (old.has_pad()) p->add_pad(old.pad());
  if (old.has_kernelsize()) p->add_kernel_size(old.kernelsize());
  if (old.has_stride()) p->add_stride(old.stride());
}

void set_inner_product(const V0LayerParameter& old, LayerParameter* layer) {
  schema::InnerProductParameter* p = layer->mutable_inner_product_param();
  if (old.has_num_output()) p->set_num_output(old.num_output());
  if (old.has_biasterm()) p->set_bias_term(old.biasterm());
}

void set_lrn(const V0LayerParameter& old, LayerParameter* layer) {
  schema::LRNParameter* p = layer->mutable_lrn_param();
  if (old.has_local_size()) p->set_local_size(old.local_size());
  if (old.has_alpha()) p->set_alpha(old.alpha());
  if (old.has_beta()) p->set_beta(old.beta());
  if (old.has_k()) p->set_k(old.k());
}

void set_transformation(const V0LayerParameter& old, LayerParameter* layer) {
  schema::TransformationParameter* t = layer->mutable_transform_param();
  if (old.has_scale()) t->set_scale(old.scale());
  if (old.has_cropsize()) t->set_crop_size(old.cropsize());
  if (old.has_meanfile()) t->set_mean_file(old.meanfile());
}
void set_data(const V0LayerParameter& old, LayerParameter* layer) {
  set_transformation(old, layer);
  if (old.has_batchsize()) layer->mutable_data_param()->set_batch_size(old.batchsize());
}
void set_images(const V0LayerParameter& old, LayerParameter* layer) {
  set_transformation(old, layer);
  schema::ImageDataParameter* p = layer->mutable_image_data_param();
  if (old.has_batchsize()) p->set_batch_size(old.batchsize());
  if (old.has_new_height()) p->set_new_height(old.new_height());
  if (old.has_new_width()) p->set_new_width(old.new_width());
}

// ---- types

struct Type {
  const char* name;
  void (*set)(const V0LayerParameter& old, LayerParameter* layer);
  bool takes_padding;
};

const Type* find_type(const std::string& name) {
  static const std::map<std::string, Type> types = {
      {"accuracy", {"Accuracy", set_nothing, false}},
      {"bnll", {"BNLL", set_nothing, false}},
      {"concat", {"Concat", set_concat, false}},
      {"conv", {"Convolution", set_convolution, true}},
      {"data", {"Data", set_data, false}},
      {"dropout", {"Dropout", set_nothing, false}},
      {"euclidean_loss", {"EuclideanLoss", set_nothing, false}},
      {"flatten", {"Flatten", set_nothing, false}},
      {"hdf5_data", {"HDF5Data", set_nothing, false}},
      {"hdf5_output", {"HDF5Output", set_nothing, false}},
      {"hinge_loss", {"HingeLoss", set_nothing, false}},
      {"im2col", {"Im2col", set_nothing, false}},
      {"images", {"ImageData", set_images, false}},
      {"infogain_loss", {"InfogainLoss", set_nothing, false}},
      {"innerproduct", {"InnerProduct", set_inner_product, false}},
      {"lrn", {"LRN", set_lrn, false}},
      {"multinomial_logistic_loss", {"MultinomialLogisticLoss", set_nothing, false}},
      {"pool", {"Pooling", set_pooling, true}},
      {"relu", {"ReLU", set_nothing, false}},
      {"sigmoid", {"Sigmoid", set_nothing, false}},
      {"softmax", {"Softmax", set_nothing, false}},
      {"softmax_loss", {"SoftmaxWithLoss", set_nothing, false}},
      {"split", {"Split", set_nothing, false}},
      {"tanh", {"TanH", set_nothing, false}},
      {"window_data", {"WindowData", set_nothing, false}},
  };
  return find_in(types, name);
}

}  // namespace

void OldLayers::upgrade(const schema::V1LayerParameter& old, std::vector<LayerParameter>* to) {
  V0LayerParameter parameters = old.layer();
  const std::string where = "layer '" + parameters.name() + "'";
  if (parameters.type() == "padding") {
    if (old.bottom_size() != 1 || old.top_size() != 1) throw Error(where + " does not pad one blob");
    padded_[old.top(0)] = {old.bottom(0), parameters.pad()};
    return;
  }
  const Type* type = find_type(parameters.type());
  if (type == nullptr)
    throw Error(where + ": unknown type '" + parameters.type() + "' for a layer in the format of 2013");
  std::vector<std::string> bottoms(old.bottom().begin(), old.bottom().end());
  for (std::string& bottom : bottoms) {
    const Padded* padded = find_in(padded_, bottom);
    if (padded == nullptr) continue;
    if (!type->takes_padding || parameters.pad() != 0)
      throw Error(where + " cannot read the padded blob '" + bottom + "'");
    parameters.set_pad(padded->pixels);
    bottom = padded->image;
  }
  LayerParameter& layer = to->emplace_back();
  layer.set_name(parameters.name());
  layer.set_type(type->name);
  for (const std::string& bottom : bottoms) layer.add_bottom(bottom);
  *layer.mutable_top() = old.top();
  type->set(parameters, &layer);
}

}  // namespace quern::caffe
