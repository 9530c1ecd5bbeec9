// The form that layers had in 2013.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/caffe/caffe.pb.h"

namespace quern::caffe {

// Turns layers of 2013 into present ones, one after the other, in the order of the net. Layers that only pad an image
// become parameters of the layer that reads it.
class OldLayers {
 public:
  // Appends what the layer becomes.
  void upgrade(const schema::V1LayerParameter& old, std::vector<schema::LayerParameter>* to);

 private:
  struct Padded {
    std::string image;
    uint32_t pixels;
  };
  std::map<std::string, Padded> padded_;  // by the name of the padded blob
};

}  // namespace quern::caffe
