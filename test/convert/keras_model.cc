#include "keras_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convert/keras/keras.h"

#ifdef QUERN_HDF5
#include <hdf5.h>
#endif

namespace quern::test {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all.append(all.empty() ? "" : ", ").append(part);
  return all;
}

std::string with_calls(const std::string& calls) { return calls.empty() ? "" : ", 'inbound_nodes': " + calls; }

// JSON with ' for ".
std::string quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

}  // namespace

std::string keras_layer(const std::string& type, const std::string& name, const std::string& config,
                        const std::string& calls) {
  return quoted("{'class_name': '" + type + "', 'name': '" + name + "', 'config': {'name': '" + name + "'" +
                (config.empty() ? "" : ", ") + config + "}" + with_calls(calls) + "}");
}

std::string keras_input(const std::string& name, const Dims& dims, const std::string& calls) {
  std::string shape = "null";
  for (size_t d = 1; d < dims.size(); ++d) shape.append(", ").append(std::to_string(dims[d]));
  return keras_layer("InputLayer", name, "'batch_input_shape': [" + shape + "], 'dtype': 'float32'", calls);
}

std::string keras_sequential(const std::string& name, const std::vector<std::string>& layers,
                             const std::string& calls) {
  return keras_layer("Sequential", name, "'layers': [" + joined(layers) + "]", calls);
}

std::string keras_functional(const std::string& name, const std::vector<std::string>& layers, const std::string& inputs,
                             const std::string& outputs, const std::string& calls) {
  const std::string ends = "], 'input_layers': " + inputs + ", 'output_layers': " + outputs;
  return keras_layer("Functional", name, "'layers': [" + joined(layers) + ends, calls);
}

keras::Contents keras_contents(const std::string& config, const KerasWeights& weights, const std::string& version) {
  keras::Contents contents{config, version, {}};
  for (const auto& [path, array] : weights) {
    keras::Weight& weight = contents.weights[path];
    for (const size_t d : array.dims) weight.shape.push_back(d);
    weight.data = array.data;
  }
  keep_model("keras", keras_parts(contents));
  return contents;
}

keras::Contents one_layer(const std::string& type, const std::string& config, const Dims& x,
                          const KerasWeights& weights, const std::string& version) {
  KerasWeights named;
  for (const auto& [name, array] : weights) named["y/y/" + name + ":0"] = array;
  return keras_contents(keras_sequential("net", {keras_input("x", x), keras_layer(type, "y", config)}), named, version);
}

void expect_layer(const std::string& type, const std::string& config, const Array& x, const KerasWeights& weights,
                  const std::vector<Array>& want, const std::string& version) {
  SCOPED_TRACE(type + " " + config);
  const std::vector<Array> got =
      run(keras::import_contents(one_layer(type, config, x.dims, weights, version), {}), {x});
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i]);
}

std::string refusal(const keras::Contents& contents) {
  return error_of([&] { keras::import_contents(contents, {}); });
}
std::string refusal(const std::string& type, const std::string& config, const Dims& x, const KerasWeights& weights) {
  return refusal(one_layer(type, config, x, weights));
}

std::string keras_stream(const keras::Contents& contents) {
  std::string bytes;
  keras::Sender sender([&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
  if (!contents.config.empty()) sender.config(contents.config);
  sender.version(contents.version);
  for (const auto& [path, weight] : contents.weights) sender.weight(path, weight);
  sender.end();
  return bytes;
}

std::string keras_parts(const keras::Contents& contents) {
  return contents.config + std::string(1, '\0') + keras_stream({"", contents.version, contents.weights});
}

#ifdef QUERN_HDF5

namespace {

void write_text(hid_t file, const char* name, const std::string& text) {
  const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, H5T_VARIABLE);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  const char* pointer = text.c_str();
  EXPECT_GE(H5Awrite(attribute, type, &pointer), 0);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

}  // namespace

std::string keras_bytes(const std::string& config, const KerasWeights& weights, const std::string& version) {
  const hid_t memory = H5Pcreate(H5P_FILE_ACCESS), groups = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_fapl_core(memory, 1 << 16, 0);  // no file, but its bytes
  H5Pset_create_intermediate_group(groups, 1);
  const hid_t file = H5Fcreate("keras.h5", H5F_ACC_TRUNC, H5P_DEFAULT, memory);
  EXPECT_GE(file, 0);
  if (!config.empty()) write_text(file, "model_config", config);
  write_text(file, "keras_version", version);
  for (const auto& [path, array] : weights) {
    const std::vector<hsize_t> dims(array.dims.begin(), array.dims.end());
    const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    const hid_t dataset =
        H5Dcreate2(file, ("model_weights/" + path).c_str(), H5T_IEEE_F32LE, space, groups, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.data.data()), 0) << path;
    H5Dclose(dataset);
    H5Sclose(space);
  }
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::string bytes(static_cast<size_t>(H5Fget_file_image(file, nullptr, 0)), '\0');
  EXPECT_GT(H5Fget_file_image(file, bytes.data(), bytes.size()), 0);
  H5Fclose(file);
  H5Pclose(groups);
  H5Pclose(memory);
  return bytes;
}

#endif

}  // namespace quern::test
