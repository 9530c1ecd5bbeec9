// Reads Caffe's files as a plain list of layers.
//
// The list has the present form, however old the files are: inputs are Input layers, and layers have names for types.
// It has no layers of the training phase. Layers that only training needs (losses, accuracy) are dropped or replaced by
// those that a deployed net has in their place.
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
  // Returns the weights of a layer; null if the file does not have the layer.
  const CaffeBlobs* find(const std::string& layer) const;
  // Frees the weights of a layer that nobody will ask for again.
  void drop(const std::string& layer);
  size_t bytes() const { return bytes_; }  // of the file

 private:
  schema::NetWeights net_;
  size_t bytes_ = 0;
  std::map<std::string, CaffeBlobs*> layers_;
};

}  // namespace quern::caffe
