// The quern command as users run it, in a folder with a model and pictures.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <png.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "../write_file.h"
#include "convert/zoo/builder.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "pictures.h"
#include "process.h"
#include "tool/input/npy.h"
#include "tool/model.h"

namespace quern {

namespace fs = std::filesystem;

inline void spill(const fs::path& path, const std::string& content) { test::write_file(path, content); }

// A network of three layers on 8 x 8 pixels with ten classes.
inline Graph tiny_network() {
  zoo::Builder b("tiny", 5);
  const zoo::Value x = b.conv("conv", b.input(8), {4, 3, 2, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("fc", x, 10).tensor, 1));
  Graph graph = b.finish();
  check(infer_shapes(graph));
  return graph;
}

// A small convolution, then a convolution and a fully-connected layer of more than 3,000 weights each.
inline Graph network_of_three(size_t classes) {
  zoo::Builder b("net", 5);
  const zoo::Value small = b.conv("small", b.input(8), {36, 3, 1, zoo::Activation::relu});
  const zoo::Value dense = b.conv("dense", small, {12, 3, 2, zoo::Activation::relu});
  b.output("prob", b.softmax("prob", b.fully_connected("fc", dense, classes).tensor, 1));
  Graph graph = b.finish();
  check(infer_shapes(graph));
  return graph;
}

class Command : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    dir = fs::temp_directory_path() / fmt::format("quern_tool_{}_{}", getpid(), name);
    fs::create_directories(dir);
    check(write_model_file(tiny_network(), path("tiny.qn").c_str()));
    spill(dir / "a.png", make_png(8, 8, {8, PNG_COLOR_TYPE_RGB}, [](size_t x, size_t y, size_t c) {
            return static_cast<unsigned>(x * 20 + y * 7 + c * 40) & 255;
          }));
    spill(dir / "b.jpg", make_jpeg(31, 20, {3}, [](size_t x, size_t y, size_t c) {
            return static_cast<unsigned>(x * 7 + y * 5 + c * 30) & 255;
          }));
  }
  void TearDown() override { fs::remove_all(dir); }

  std::string path(const std::string& name) const { return (dir / name).string(); }

  Result quern(const std::vector<std::string>& arguments) const { return run_quern(dir, arguments); }
  void succeeds(const std::vector<std::string>& arguments) const {
    const Result r = quern(arguments);
    EXPECT_EQ(r.status, 0) << arguments[0] << ": " << r.err;
    EXPECT_EQ(r.err, "") << arguments[0];
  }
  // Fails with one line that begins as all errors do.
  std::string fails(const std::vector<std::string>& arguments, int status = 1) const {
    const Result r = quern(arguments);
    EXPECT_EQ(r.status, status) << arguments[0] << ": " << r.out << r.err;
    EXPECT_EQ(r.err.rfind("quern: ", 0), 0u) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    return r.err;
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir))
      if (entry.path().filename().string()[0] != '.') names.insert(entry.path().filename().string());
    return names;
  }
  void write_array(const std::string& name, std::vector<size_t> shape, const std::vector<float>& values) const {
    qn_tensor tensor;
    check(qn_tensor_init(&tensor, QN_F32, static_cast<uint32_t>(shape.size()), shape.data()));
    write_npy(path(name), tensor, values.data());
  }

  fs::path dir;
};

}  // namespace quern
