// Photographs of the assets folder: input tensors and counts of right answers against those of other programs.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../write_file.h"
#include "compress/prune.h"
#include "graph/file/format.h"
#include "process.h"
#include "source_dir.h"
#include "tool/input/npy.h"
#include "tool/input/preprocess.h"
#include "tool/model.h"

namespace quern {
namespace assets_test {

namespace fs = std::filesystem;

// The folder in QUERN_ASSETS, or shared/assets beside the repository; empty where there is none.
fs::path assets() {
  const char* named = std::getenv("QUERN_ASSETS");
  const fs::path folder = named != nullptr ? fs::path(named) : fs::path(QUERN_SOURCE_DIR) / ".." / "shared" / "assets";
  return fs::exists(folder) ? fs::canonical(folder) : fs::path();
}

struct Case {
  const char* tensor;  // in reference/
  const char* image;   // in images/imagenet/
  qn_preprocessing how;
};
const qn_preprocessing bgr227 = {0, 1, 1, {104, 117, 123, 0}, {1, 1, 1, 1}, 256, {227, 0}};
const qn_preprocessing bgr224 = {0, 1, 1, {104, 117, 123, 0}, {1, 1, 1, 1}, 256, {227, 224}};
const qn_preprocessing rgb224 = {0,   1,         0, {127.5, 127.5, 127.5, 0}, {1 / 127.5f, 1 / 127.5f, 1 / 127.5f, 1},
                                 256, {227, 224}};
const Case cases[] = {
    {"squeezenet_v1.1_caffe/case0_in_data.npy", "n01534433_junco.jpg", bgr227},
    {"squeezenet_v1.1_caffe/case1_in_data.npy", "n02110806_basenji.jpg", bgr227},
    {"squeezenet1.1_fp32_onnx/case2_in_data_0.npy", "n03028079_church.jpg", bgr224},
    {"mobilenet_v1_0.75_224_onnx/case0_in_input.npy", "n01534433_junco.jpg", rgb224},
    {"mobilenet_v1_0.75_224_caffe/case2_in_data.npy", "n03028079_church.jpg", rgb224},
};

TEST(Assets, PhotographsBecomeTheReferencesTensors) {
  const fs::path folder = assets();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  for (const Case& c : cases) {
    const NpyArray reference = read_npy((folder / "reference" / c.tensor).string());
    const std::vector<double> want = npy_doubles(reference);
    const Image image = read_image((folder / "images" / "imagenet" / c.image).string());
    const ImagePort port = *image_port(reference.shape.data(), reference.shape.size());
    const std::vector<float> got = image_tensor(image, c.how, port, c.image);
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (size_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::fabs(got[i] - want[i]));
    EXPECT_LT(largest, 1e-5) << c.tensor;
  }
}

// Outputs for one input, with every convolution by `algorithm` where that applies; `times`: how many were.
std::vector<double> outputs_by(qn_algorithm algorithm, const Vector<unsigned char>& file, const NpyArray& input,
                               size_t* times) {
  qn_model* raw_model = nullptr;
  check(qn_model_load_memory(file.data(), file.size(), nullptr, &raw_model));
  const ModelPtr model(raw_model);
  qn_session_options options;
  qn_session_options_init(&options);
  options.algorithm = algorithm;
  options.profile = 1;
  qn_session* raw_session = nullptr;
  check(qn_session_create(model.get(), &options, &raw_session));
  const SessionPtr session(raw_session);
  qn_tensor tensor;
  check(qn_tensor_init(&tensor, QN_F32, static_cast<uint32_t>(input.shape.size()), input.shape.data()));
  run_session(session.get(), {{tensor, npy_as(input, QN_F32, "input")}});
  *times = 0;
  for (size_t i = 0; i < qn_session_profile_count(session.get()); ++i) {
    qn_profile_entry entry;
    qn_profile_entry_init(&entry);
    check(qn_session_profile(session.get(), i, &entry));
    *times += std::string(entry.algorithm) == qn_algorithm_string(algorithm);
  }
  const void* data = nullptr;
  check(qn_session_output_tensor(session.get(), 0, &tensor));
  check(qn_session_output(session.get(), 0, &data));
  return tensor_doubles(tensor, data);
}

// Trained weights, pruned at once: the sparse algorithm gives what the dense one does with the same weights.
TEST(Assets, PrunedNetworksGiveTheSameSparseAndDense) {
  const fs::path folder = assets();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  const fs::path models = folder / "models" / "caffe";
  const std::vector<std::array<const char*, 3>> networks = {
      {"mobilenet_v1_0.75_224.prototxt", "mobilenet_v1_0.75_224.caffemodel",
       "mobilenet_v1_0.75_224_caffe/case2_in_data.npy"},
      {"squeezenet_v1.1_deploy.prototxt", "squeezenet_v1.1.caffemodel", "squeezenet_v1.1_caffe/case0_in_data.npy"}};
  for (const auto& [net, weights, input] : networks) {
    for (const size_t block : {1, 4}) {
      SCOPED_TRACE(testing::Message() << net << " in blocks of " << block);
      Graph graph = load_graph({(models / net).string(), (models / weights).string()});
      check(prune(graph, {0.3, block}));
      Vector<unsigned char> file;
      check(write_model(graph, &file));
      const NpyArray image = read_npy((folder / "reference" / input).string());
      size_t sparse_layers, dense_layers;
      const std::vector<double> sparse = outputs_by(QN_ALGORITHM_SPARSE, file, image, &sparse_layers);
      const std::vector<double> dense = outputs_by(QN_ALGORITHM_IGEMM, file, image, &dense_layers);
      EXPECT_GE(sparse_layers, 13u);
      EXPECT_GE(dense_layers, 13u);
      ASSERT_EQ(sparse.size(), dense.size());
      double largest = 0;
      for (size_t i = 0; i < sparse.size(); ++i) largest = std::max(largest, std::fabs(sparse[i] - dense[i]));
      EXPECT_LT(largest, 1e-4);
      EXPECT_GT(*std::max_element(dense.begin(), dense.end()), 0.05) << "no answer to compare";
      RecordProperty("largest_difference", std::to_string(largest));
    }
  }
}

// A detector and a picture with a face, after conversion without any flags.
TEST(Assets, FacesAreFound) {
  const fs::path folder = assets();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  const fs::path scratch = fs::temp_directory_path() / "quern_faces", models = folder / "models";
  fs::create_directories(scratch);
  const std::vector<std::vector<std::string>> detectors = {
      {(models / "onnx/ultraface_slim-320.onnx").string(), "--mean", "127", "--scale", "0.0078125", "--detections",
       "scores", "--detection-outputs", "boxes,scores", "--background", "0"},
      {(models / "caffe/yufacedetectnet-open-v1.prototxt").string(),
       (models / "caffe/yufacedetectnet-open-v1.caffemodel").string(), "--mean", "104,117,123", "--bgr"}};
  for (const auto& detector : detectors) {
    std::vector<std::string> convert = {"convert", "-o", "faces.qn"};
    convert.insert(convert.end(), detector.begin(), detector.end());
    const Result converted = run_quern(scratch, convert);
    ASSERT_EQ(converted.status, 0) << converted.err;
    const auto faces = [&](const char* image) {
      const Result r =
          run_quern(scratch, {"run", "faces.qn", "--json", "--input", (folder / "images/detect" / image).string()});
      EXPECT_EQ(r.status, 0) << r.err;
      return nlohmann::json::parse(r.out)["runs"][0]["detections"];
    };
    const nlohmann::json found = faces("grace_hopper.png");
    ASSERT_EQ(found.size(), 1u) << detector[0] << found;
    EXPECT_GT(found[0]["score"].get<double>(), 0.84);
    const std::vector<double> box = found[0]["box"];
    const double width = box[2] - box[0], height = box[3] - box[1];
    EXPECT_GT(width, 80);
    EXPECT_NEAR(height / width, 1.25, 0.35) << "a face is a little higher than wide";
    EXPECT_EQ(faces("cat_720p.jpg").size(), 0u) << detector[0];
  }
  fs::remove_all(scratch);
}

struct Classifier {
  const char* name;
  std::vector<std::string> files, flags;
  double top1, top5;  // right answers of the reference engine among 250
};
const std::vector<std::string> scaled = {"--resize", "256",   "--crop",  "227,224",
                                         "--mean",   "127.5", "--scale", "0.00784313725"};
const Classifier classifiers[] = {
    {"squeezenet_caffe",
     {"caffe/squeezenet_v1.1_deploy.prototxt", "caffe/squeezenet_v1.1.caffemodel"},
     {"--resize", "256", "--crop", "227", "--bgr", "--mean", "104,117,123"},
     166,
     212},
    {"squeezenet_onnx",
     {"onnx/squeezenet1.1_fp32.onnx"},
     {"--resize", "256", "--crop", "227,224", "--bgr", "--mean", "104,117,123"},
     162,
     216},
    {"mobilenet_caffe",
     {"caffe/mobilenet_v1_0.75_224.prototxt", "caffe/mobilenet_v1_0.75_224.caffemodel"},
     scaled,
     220,
     242},
    {"mobilenet_onnx", {"onnx/mobilenet_v1_0.75_224.onnx"}, scaled, 220, 242},
};

std::ostream& operator<<(std::ostream& out, const Classifier& classifier) { return out << classifier.name; }

class Eval : public testing::TestWithParam<Classifier> {};

TEST_P(Eval, CountsWhatTheReferenceEngineCounts) {
  const fs::path folder = assets();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  std::vector<std::string> arguments = {"eval"};
  for (const std::string& file : GetParam().files) arguments.push_back((folder / "models" / file).string());
  arguments.insert(arguments.end(), GetParam().flags.begin(), GetParam().flags.end());
  const std::vector<std::string> rest = {"--images",  (folder / "images" / "imagenet").string(),
                                         "--threads", "2",
                                         "--truth",   (folder / "images" / "imagenet_labels.csv").string(),
                                         "--json"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const fs::path scratch = fs::temp_directory_path() / (std::string("quern_eval_").append(GetParam().name));
  fs::create_directories(scratch);
  const Result r = run_quern(scratch, arguments);
  fs::remove_all(scratch);
  ASSERT_EQ(r.status, 0) << r.err;
  const nlohmann::json json = nlohmann::json::parse(r.out);
  EXPECT_EQ(json["images"], 250);
  EXPECT_NEAR(json["top1"].get<double>() * 250, GetParam().top1, 1.01);
  EXPECT_NEAR(json["top5"].get<double>() * 250, GetParam().top5, 1.01);
}

INSTANTIATE_TEST_SUITE_P(Photographs, Eval, testing::ValuesIn(classifiers),
                         [](const auto& classifier) { return std::string(classifier.param.name); });

// Returns what a file that is compressed with gzip holds.
std::string gunzip(const fs::path& path) {
  std::string content;
  gzFile file = gzopen(path.c_str(), "rb");
  char part[1 << 16];
  for (int size; file != nullptr && (size = gzread(file, part, sizeof part)) > 0;)
    content.append(part, static_cast<size_t>(size));
  if (file == nullptr || gzclose(file) != Z_OK) throw Error(path.string() + ": expected a gzip file");
  return content;
}

// All of MNIST's test images, from the data set's own files, and photographs of an archive.
TEST(Assets, EvalReadsDataSets) {
  const fs::path folder = assets();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  const fs::path scratch = fs::temp_directory_path() / "quern_data_sets", models = folder / "models";
  fs::create_directories(scratch);
  for (const char* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    test::write_file(scratch / name, gunzip(folder / "datasets" / "mnist" / (std::string(name) + ".gz")));
  const std::string cifar = (folder / "datasets/cifar10/cifar10_test_jpegdecoded_first1000.npz").string();
  const std::vector<std::string> mnist = {"--images", "t10k-images-idx3-ubyte", "--truth", "t10k-labels-idx1-ubyte"};
  const auto right = [&](std::vector<std::string> arguments, const std::vector<std::string>& data) {
    arguments.insert(arguments.begin(), "eval");
    arguments.insert(arguments.end(), data.begin(), data.end());
    arguments.push_back("--json");
    const Result r = run_quern(scratch, arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    const nlohmann::json json = nlohmann::json::parse(r.out);
    return json["top1"].get<double>() * json["images"].get<double>();
  };
  EXPECT_NEAR(right({(models / "caffe/lenet_mnist.prototxt").string(),
                     (models / "caffe/lenet_mnist.caffemodel").string(), "--scale", "0.00390625"},
                    mnist),
              9905, 1.01);
  EXPECT_NEAR(right({(models / "onnx/mnist_cntk_opset8.onnx").string()}, mnist), 9891, 1.01);
  EXPECT_NEAR(right({(models / "tflite/ic_resnet8_float.tflite").string()}, {"--images", cifar}), 751, 1.01);
  fs::remove_all(scratch);
}

}  // namespace assets_test
}  // namespace quern
