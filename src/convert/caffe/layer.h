// The form in which functions that import Caffe layers see a layer, and the tables of these functions.
#pragma once

#include <string>
#include <vector>

#include "convert/caffe/net.h"
#include "convert/common/source_node.h"
#include "convert/common/table.h"

namespace quern::caffe {

using namespace convert;
using schema::LayerParameter;

// A layer as the function for its type sees it: parameters, inputs and weights.
struct Layer : SourceNode {
  Layer(Builder& to, const LayerParameter& from, std::vector<const Value*> bottoms, const CaffeBlobs* its_blobs,
        bool file)
      : SourceNode(to, from.name(), "layer '" + from.name() + "'", std::move(bottoms)),
        param(from),
        blobs(its_blobs),
        has_weights_file(file) {}

  const LayerParameter& param;
  const CaffeBlobs* blobs;
  bool has_weights_file;

  const View& x() const { return view(0); }
  Shape shape() const { return dims(0); }
  size_t axis(int64_t axis, size_t rank) const { return SourceNode::axis(axis, rank, "blob"); }
  size_t channels() const {
    const Shape s = shape();
    if (s.size() < 2) fail("expected an input of rank 2 or more, got rank " + std::to_string(s.size()));
    return s[1];
  }

  void expect_image() const {
    if (shape().size() != 4) fail("expected an image (N, C, H, W), got rank " + std::to_string(shape().size()));
  }
  void expect_blobs(int count) const {
    if (blobs == nullptr || blobs->empty()) {
      fail(has_weights_file ? "the .caffemodel has no weights for it"
                            : "its weights are in a .caffemodel, none is given");
    }
    if (blobs->size() != count) {
      fail("has " + std::to_string(blobs->size()) + " blobs of weights, " + std::to_string(count) + " are needed");
    }
  }
  std::vector<float> blob(int index, const Shape& expected) const;
  View weights(int index, const Shape& expected) const {
    return builder.constant(expected, blob(index, expected).data());
  }
};

using LayerRow = ImportRow<Layer>;
using LayerTable = ImportTable<Layer>;

// Each finds the function that imports a type of layers, in the table of one file. Returns null if the table has none.
const LayerRow* find_layer(const std::string& type);      // layers.cc: layers that compute
const LayerRow* find_shape(const std::string& type);      // shapes.cc: shapes and views
const LayerRow* find_detection(const std::string& type);  // detection.cc: detectors
const LayerRow* find_general(const std::string& type);    // general.cc: what convolution networks seldom have
const LayerRow* find_recurrent(const std::string& type);  // recurrent.cc: recurrent layers

}  // namespace quern::caffe
