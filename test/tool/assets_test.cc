// Photographs of the assets folder against input tensors that other programs made of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tool/npy.h"
#include "tool/preprocess.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

// The folder in QUERN_ASSETS, or shared/assets beside the repository; empty where there is none.
fs::path assets() {
  const char* named = std::getenv("QUERN_ASSETS");
  const fs::path folder = named != nullptr ? fs::path(named) : fs::path(QUERN_SOURCE_DIR) / ".." / "shared" / "assets";
  return fs::exists(folder) ? folder : fs::path();
}

struct Case {
  const char* tensor;  // in reference/
  const char* image;   // in images/imagenet/
  qn_preprocessing how;
};
const qn_preprocessing bgr227 = {1, 1, {104, 117, 123, 0}, {1, 1, 1, 1}, 256, {227, 0}};
const qn_preprocessing bgr224 = {1, 1, {104, 117, 123, 0}, {1, 1, 1, 1}, 256, {227, 224}};
const qn_preprocessing rgb224 = {1,   0,         {127.5, 127.5, 127.5, 0}, {1 / 127.5f, 1 / 127.5f, 1 / 127.5f, 1},
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

}  // namespace
}  // namespace quern
