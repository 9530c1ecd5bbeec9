// Trained models of other frameworks against the outputs of reference engines. The files are no part of the project:
// they are looked for in $QUERN_ASSETS, or in ../shared/assets beside the sources.
#include <fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "arrays.h"
#include "convert/convert.h"
#include "graph/pass/passes.h"
#include "source_dir.h"

namespace quern {
namespace assets_test {

namespace fs = std::filesystem;
using test::Array;
using test::Dims;

std::string assets() {
  const char* named = std::getenv("QUERN_ASSETS");
  const std::string folder = named != nullptr ? named : QUERN_SOURCE_DIR "/../shared/assets";
  return fs::exists(folder + "/reference/cases.json") ? folder : "";
}

const nlohmann::json& cases() {
  static const nlohmann::json all = nlohmann::json::parse(std::ifstream(assets() + "/reference/cases.json"));
  return all;
}

// A dense little-endian .npy of float32, float16, bytes or int64. `type` receives "f4", "f2", "i1", "u1" or "i8".
Array read_npy(const std::string& path, std::string* type) {
  std::ifstream file(path, std::ios::binary);
  char magic[8];
  uint16_t length = 0;
  file.read(magic, 8).read(reinterpret_cast<char*>(&length), 2);
  std::string header(length, ' ');
  file.read(header.data(), length);
  for (const char* known : {"'<f4'", "'<f2'", "'|i1'", "'|u1'", "'<i8'"}) {
    if (header.find(known) != std::string::npos) *type = std::string(known + 2, 2);
  }
  if (!file || magic[6] != 1 || type->empty()) throw Error(path + ": not read");
  Array array;
  std::istringstream shape(header.substr(header.find('(') + 1));
  for (std::string item; std::getline(shape, item, ',');) {
    if (item.find_first_of("0123456789") != std::string::npos) array.dims.push_back(std::stoul(item));
    if (item.find(')') != std::string::npos) break;
  }
  array.data.resize(test::count(array.dims));
  for (float& value : array.data) {
    uint64_t bits = 0;
    file.read(reinterpret_cast<char*>(&bits), (*type)[1] - '0');
    if (*type == "f4") std::memcpy(&value, &bits, 4);
    if (*type == "f2") value = fp16_ieee_to_fp32_value(static_cast<uint16_t>(bits));
    if (*type == "i1") value = static_cast<int8_t>(bits);
    if (*type == "u1") value = static_cast<uint8_t>(bits);
    if (*type == "i8") value = static_cast<float>(static_cast<int64_t>(bits));
  }
  if (!file) throw Error(path + ": too short");
  return array;
}

class AssetFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (assets().empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  }

  // Nets whose trained weights are not to be had get reproducible random ones from the assets' own script.
  bool find_files(const nlohmann::json& entry, std::vector<std::string>* paths) {
    for (const auto& file : entry["files"]) {
      const std::string name = file;
      if (name.rfind("synthetic:", 0) != 0) {
        paths->push_back(assets() + "/" + name);
        continue;
      }
      const std::string net = paths->at(0), out = folder_.path("synthetic.caffemodel");
      const std::string script = fs::path(net).parent_path().string() + "/make_synth.py";
      const std::string command =
          "python3 '" + script + "' '" + net + "' '" + out + "' " + name.substr(10) + " >/dev/null 2>&1";
      if (std::system(command.c_str()) != 0) return false;
      paths->push_back(out);
    }
    return true;
  }

  static std::string folder_of(const nlohmann::json& entry) {
    return assets() + "/reference/" + entry["model"].get<std::string>() + "/";
  }

  static std::vector<Array> inputs_of(const nlohmann::json& entry) {
    std::vector<Array> inputs;
    std::string type;
    for (const auto& input : entry["inputs"]) {
      inputs.push_back(read_npy(folder_of(entry) + input["file"].get<std::string>(), &type));
    }
    return inputs;
  }

  static void expect_case(const Graph& graph, const nlohmann::json& entry, bool is_optimized) {
    SCOPED_TRACE(entry["case"].dump());
    expect_outputs(test::run(graph, inputs_of(entry)), entry, is_optimized);
  }

  static void expect_outputs(const std::vector<Array>& got, const nlohmann::json& entry, bool is_optimized) {
    std::string type;
    ASSERT_EQ(got.size(), entry["outputs"].size());
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(entry["outputs"][i]["name"].dump());
      const Array want = read_npy(folder_of(entry) + entry["outputs"][i]["file"].get<std::string>(), &type);
      if (type == "i1" || type == "u1") {
        // As imported, layers compute with floats, and some bytes become their neighbours: of logits, whose steps change
        // a probability by up to a fifth.
        const auto part = [](float step) { return step / 256; };
        test::expect_near(test::map(got[i], part), test::map(want, part), is_optimized ? 0 : 0.05f);
      } else {
        test::expect_near(got[i], want, type == "f2" ? 5e-3f : 1e-4f);
      }
    }
  }

  test::Folder folder_;
};

class Assets : public AssetFiles, public testing::WithParamInterface<const char*> {};

// As imported and after the optimiser, which must change no result but to make bytes those of the reference.
TEST_P(Assets, GivesTheReferenceOutputs) {
  std::vector<std::string> paths;
  Graph plain, optimized;
  size_t ran = 0;
  for (const nlohmann::json& entry : cases()) {
    if (entry["model"] != GetParam()) continue;
    if (paths.empty()) {
      if (!find_files(entry, &paths)) GTEST_SKIP() << "weights cannot be made: no python3 with numpy";
      ImportOptions options;
      for (const auto& output : entry["outputs"]) options.outputs.push_back(output["name"]);
      plain = import_model(paths, options);
      optimized = plain;
      ASSERT_EQ(optimize(optimized), QN_OK) << qn_last_message();
    }
    if (ran == 0) expect_case(plain, entry, false);
    expect_case(optimized, entry, true);
    ++ran;
  }
  EXPECT_GT(ran, 0u) << "no such model";
}

INSTANTIATE_TEST_SUITE_P(
    Convert, Assets,
    testing::Values("lenet_mnist_caffe", "mnist_cntk_opset8_onnx", "mtcnn_det1_caffe", "mtcnn_det2_caffe",
                    "ultraface_slim-320_caffe", "ultraface_slim-320_onnx", "yunet_n_320_onnx", "super_resolution_onnx",
                    "squeezenet_v1.1_caffe", "squeezenet1.1_fp32_onnx", "squeezenet1.1_fp16_onnx",
                    "mobilenet_v1_0.75_224_caffe", "mobilenet_v1_0.75_224_onnx", "synthetic_mobilenet_v1_shicai_caffe",
                    "yufacedetectnet-open-v1_caffe", "synthetic_MobileNetSSD_deploy_caffe", "dtln_model_1_onnx",
                    "silero_vad_onnx", "silero_vad_16k_op15_onnx", "dtln_model_1_tflite", "ic_resnet8_float_tflite",
                    "ic_resnet8_int8_tflite", "vww_96_float_tflite", "vww_96_int8_tflite", "vww_96_frozen_tf",
                    "mobilenet_v1_0.25_128_quant_tflite", "mobilenet_v1_0.75_192_quant_tflite"),
    [](const auto& test) {
      std::string name = test.param;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

// The cases of recurrent models follow each other: what a case leaves in the state is what the next one begins with. So
// only the first case has to give it.
TEST_F(AssetFiles, StatesAreCarriedFromCaseToCase) {
  const std::map<std::string, ImportOptions::State> states = {{"dtln_model_1_onnx", {"input_3", "tf_op_layer_stack_2"}},
                                                              {"dtln_model_1_tflite", {"input_3", "Identity_1"}},
                                                              {"silero_vad_16k_op15_onnx", {"state", "stateN"}},
                                                              {"silero_vad_onnx", {"state", "stateN"}}};
  std::map<std::string, std::unique_ptr<test::Runs>> runs;
  for (const nlohmann::json& entry : cases()) {
    const auto state = states.find(entry["model"]);
    if (state == states.end() || entry["note"] == "8 kHz branch, 256+32 samples") continue;
    SCOPED_TRACE(entry["model"].dump() + entry["case"].dump());
    const std::vector<Array> inputs = inputs_of(entry);
    std::vector<const Array*> given;
    auto& run = runs[state->first];
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool carried = run != nullptr && entry["inputs"][i]["name"] == state->second.input;
      given.push_back(carried ? nullptr : &inputs[i]);
    }
    if (run == nullptr) {
      ImportOptions options;
      options.states = {state->second};
      Graph graph = import_model({assets() + "/" + entry["files"][0].get<std::string>()}, options);
      ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
      run = std::make_unique<test::Runs>(std::move(graph));
    }
    expect_outputs(run->run(given), entry, true);
  }
  EXPECT_EQ(runs.size(), states.size());
}

#ifdef QUERN_HDF5
// The Keras files from which these models were made have the same outputs, under other names.
TEST_F(AssetFiles, KerasGivesTheOutputsOfTensorFlowLite) {
  const std::map<std::string, std::string> files = {{"ic_resnet8_float_tflite", "ic_resnet8"},
                                                    {"vww_96_float_tflite", "vww_96"}};
  std::map<std::string, size_t> ran;
  for (const nlohmann::json& entry : cases()) {
    const auto at = files.find(entry["model"]);
    if (at == files.end()) continue;
    const Graph plain = import_model({assets() + "/models/keras/" + at->second + ".h5"});
    if (ran[at->first]++ == 0) expect_case(plain, entry, false);
    Graph optimized = plain;
    ASSERT_EQ(optimize(optimized), QN_OK) << qn_last_message();
    expect_case(optimized, entry, true);
  }
  EXPECT_EQ(ran.size(), files.size());
}
#endif

// ---- a TensorFlow graph with loops --------------------------------------------------------------

std::string cascade() { return assets() + "/models/tf/mtcnn_frozen.pb"; }

TEST_F(AssetFiles, CascadeNamesWhatIsUnsupported) {
  const std::string message = test::error_of([&] { import_tensorflow(cascade()); });
  for (const char* part : {"operators are not supported", "input 'input' (dimension 1 has no fixed size",
                           "TensorArrayV3: a list that grows (3 nodes, first: pnet/TensorArray",
                           "TensorArrayConcatV3 (3 nodes, first: "}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

struct CutNet {
  const char *input, *scores, *boxes;
  size_t size;
  const char *caffe, *caffe_boxes;  // the same net in its original form; "": not among the assets
};

// Its networks can be cut out. They are the original ones, which see columns as rows and colours in the other order, and
// number the coordinates of boxes so, too.
TEST_F(AssetFiles, NetsOfTheCascade) {
  for (const CutNet& net :
       {CutNet{"pnet/while/ResizeBilinear", "pnet/while/prob1", "pnet/while/conv4-2/BiasAdd", 12, "mtcnn_det1",
               "conv4-2"},
        CutNet{"rnet/cond/CropAndResize", "rnet/cond/prob1", "rnet/cond/conv5-2/BiasAdd", 24, "mtcnn_det2", "conv5-2"},
        CutNet{"onet/cond/CropAndResize", "onet/cond/prob1", "onet/cond/conv6-2/BiasAdd", 48, "", ""}}) {
    SCOPED_TRACE(net.input);
    const Array x = test::random({1, net.size, net.size, 3}, 1);
    Graph graph = import_tensorflow(cascade(), {{net.scores, net.boxes}, {}, {{net.input, x.dims}}});
    ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
    const std::vector<Array> got = test::run(graph, {x});
    ASSERT_EQ(got.size(), 2u);
    ASSERT_EQ(got[0].data.size(), 2u);
    ASSERT_EQ(got[1].data.size(), 4u);
    if (*net.caffe == '\0') continue;
    const std::string path = assets() + "/models/caffe/" + net.caffe;
    const Graph original = import_caffe(path + ".prototxt", path + ".caffemodel", {{"prob1", net.caffe_boxes}});
    const Array turned = test::generate({1, 3, net.size, net.size}, [&](const Dims& i) {
      return x.at({0, i[3], i[2], 2 - i[1]});
    });
    const std::vector<Array> want = test::run(original, {turned});
    test::expect_near(test::reshape(got[0], {2}), test::reshape(want[0], {2}));
    const std::vector<float>& b = want[1].data;
    test::expect_near(test::reshape(got[1], {4}), test::make({4}, {b[1], b[0], b[3], b[2]}));
  }
}

}  // namespace assets_test
}  // namespace quern
