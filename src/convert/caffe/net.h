// Caffe's files as a plain list of layers.
//
// Whatever age the files have, what comes out is the present form: inputs are Input layers, old layers have names for
// types, layers of the training phase are gone, and what only training needs (losses, accuracy) is gone or replaced by
// what a deployed net has in its place.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/caffe/caffe.pb.h"

namespace quern::caffe {

using CaffeBlobs = google::protobuf::RepeatedPtrField<schema::BlobProto>;

struct CaffeNet {
  std::string name;
  std::vector<schema::LayerParameter> layers;
};

CaffeNet read_caffe_net(const std::string& prototxt);

class CaffeWeights {
 public:
  CaffeWeights() = default;
  explicit CaffeWeights(const std::string& caffemodel);
  CaffeWeights(const CaffeWeights&) = delete;
  // Null when the file says nothing about the layer.
  const CaffeBlobs* find(const std::string& layer) const;
  size_t bytes() const { return bytes_; }  // of the file

 private:
  schema::NetWeights net_;
  size_t bytes_ = 0;
  std::map<std::string, const CaffeBlobs*> layers_;
};

}  // namespace quern::caffe
