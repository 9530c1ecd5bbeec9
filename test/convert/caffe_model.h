// Small Caffe nets for tests.
#pragma once

#include <gtest/gtest.h>
#include <quern/extra.h>

#include <map>
#include <string>
#include <vector>

#include "arrays.h"
#include "convert/caffe/caffe.pb.h"
#include "convert/convert.h"

namespace quern::test {

using CaffeWeights = std::map<std::string, std::vector<Array>>;

inline void fill(const Array& array, caffe::schema::BlobProto* blob) {
  for (const size_t d : array.dims) blob->mutable_shape()->add_dim(static_cast<int64_t>(d));
  for (const float value : array.data) blob->add_data(value);
}

inline std::string serialized(const CaffeWeights& weights) {
  caffe::schema::NetWeights net;
  for (const auto& [name, blobs] : weights) {
    caffe::schema::LayerWeights* layer = net.add_layer();
    layer->set_name(name);
    for (const Array& blob : blobs) fill(blob, layer->add_blobs());
  }
  return net.SerializeAsString();
}

// Nets of text, with weights by the names of layers.
class CaffeNets : public testing::Test {
 protected:
  Graph import(const std::string& text, const CaffeWeights& weights = {},
               const std::vector<std::string>& outputs = {}) {
    EXPECT_EQ(qn_extra_register(), QN_OK);
    const std::string net = folder_.write("net.prototxt", text);
    const std::string model = weights.empty() ? "" : folder_.write("net.caffemodel", serialized(weights));
    keep_model("caffe", text + std::string(1, '\0') + serialized(weights));
    return import_caffe(net, model, {outputs});
  }
  std::string refusal(const std::string& text, const CaffeWeights& weights = {}) {
    return error_of([&] { import(text, weights); });
  }
  // A net of one layer "l" that reads the inputs a, b, ... and writes "y".
  static std::string one_layer(const std::vector<Dims>& inputs, const std::string& type,
                               const std::string& parameters) {
    std::string text, bottoms;
    char name = 'a';
    for (const Dims& dims : inputs) {
      text += std::string("input: \"") + name + "\" input_shape {";
      for (const size_t d : dims) text.append(" dim: ").append(std::to_string(d));
      text += " }\n";
      bottoms += std::string(" bottom: \"") + name++ + "\"";
    }
    return text + "layer { name: \"l\" type: \"" + type + "\"" + bottoms + " top: \"y\" " + parameters + " }";
  }
  void expect_layer(const std::string& type, const std::string& parameters, const std::vector<Array>& inputs,
                    const std::vector<Array>& blobs, const Array& want, float tolerance = 1e-5f) {
    SCOPED_TRACE(type + " " + parameters);
    std::vector<Dims> dims;
    for (const Array& input : inputs) dims.push_back(input.dims);
    const CaffeWeights weights = blobs.empty() ? CaffeWeights{} : CaffeWeights{{"l", blobs}};
    Graph graph = import(one_layer(dims, type, parameters), weights);
    ASSERT_EQ(graph.outputs.size(), 1u);
    EXPECT_STREQ(graph.tensors[static_cast<size_t>(graph.outputs[0].tensor)].name.c_str(), "y");
    const std::vector<Array> got = run(std::move(graph), inputs);
    expect_near(got.at(0), want, tolerance);
  }

  Folder folder_;
};

// Tests of layers and nets, in more than one file.
class Caffe : public CaffeNets {};

}  // namespace quern::test
