// Small Keras models for tests.
#pragma once

#include <gtest/gtest.h>
#include <quern/extra.h>

#include <map>
#include <string>
#include <vector>

#include "arrays.h"
#include "convert/keras/contents.h"

namespace quern::test {

// JSON of a layer. `config` is what its configuration has beside the name: "'filters': 3, 'padding': 'same'", where '
// stands for ". `calls` are those of a functional model: "[[['x', 0, 0, {}]]]".
std::string keras_layer(const std::string& type, const std::string& name, const std::string& config,
                        const std::string& calls = "");
std::string keras_input(const std::string& name, const Dims& dims, const std::string& calls = "[]");
// JSON of models, to be files' model_config or layers of another model.
std::string keras_sequential(const std::string& name, const std::vector<std::string>& layers,
                             const std::string& calls = "");
std::string keras_functional(const std::string& name, const std::vector<std::string>& layers, const std::string& inputs,
                             const std::string& outputs, const std::string& calls = "");

using KerasWeights = std::map<std::string, Array>;

keras::Contents keras_contents(const std::string& config, const KerasWeights& weights,
                               const std::string& version = "2.4.0");

// A model of one layer "y" on an input "x"; its weights are "y/y/NAME:0".
keras::Contents one_layer(const std::string& type, const std::string& config, const Dims& x,
                          const KerasWeights& weights, const std::string& version = "2.4.0");
// Runs such a model. `want` is its outputs.
void expect_layer(const std::string& type, const std::string& config, const Array& x, const KerasWeights& weights,
                  const std::vector<Array>& want, const std::string& version = "2.4.0");
inline void expect_layer(const std::string& type, const std::string& config, const Array& x,
                         const KerasWeights& weights, const Array& want, const std::string& version = "2.4.0") {
  expect_layer(type, config, x, weights, std::vector<Array>{want}, version);
}
// The message with which the importer refuses a model.
std::string refusal(const keras::Contents& contents);
std::string refusal(const std::string& type, const std::string& config, const Dims& x,
                    const KerasWeights& weights = {});

// Tests of layers that need libquern-extra.
class KerasWithExtra : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(qn_extra_register(), QN_OK); }
};

// What the process that reads a file sends; and the architecture as text, a NUL, and the stream of the rest.
std::string keras_stream(const keras::Contents& contents);
std::string keras_parts(const keras::Contents& contents);

#ifdef QUERN_HDF5
// The bytes of such a model's .h5 file.
std::string keras_bytes(const std::string& config, const KerasWeights& weights, const std::string& version = "2.4.0");
#endif

}  // namespace quern::test
