// Models imported at one size and run at another. Random graphs of every ONNX operator, whose inputs change their size
// after the import, give what the same nodes give when they are imported at the new size, or the resize is refused:
// there is no third. With QUERN_RESIZE_DUMP=FOLDER, graphs, inputs and outputs are left there for
// test/convert/resize_ort.py, which compares them with another engine's.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "resize_grower.h"

namespace quern {
namespace resize_test {

using test::Array;
using test::Dims;
using test::Grower;
using test::import_bytes;
using test::OnnxModel;
using test::with;

struct Outcome {
  std::optional<Array> array;
  std::string refusal;
};

Outcome outcome(const std::function<Array()>& run) {
  try {
    return {run(), ""};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

// .npy of floats.
void write_array(const std::string& path, const Array& array) {
  std::string dims;
  for (const size_t d : array.dims) dims += std::to_string(d) + ",";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + dims + "), }";
  header.resize((10 + header.size()) / 64 * 64 + 64 - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  const auto size = static_cast<uint16_t>(header.size());
  file.write("\x93NUMPY\1\0", 8).write(reinterpret_cast<const char*>(&size), 2) << header;
  file.write(reinterpret_cast<const char*>(array.data.data()), static_cast<std::streamsize>(4 * array.data.size()));
}

void dump(const std::string& folder, const std::string& name, const OnnxModel& open, const Array& x, const Array* y) {
  std::ofstream(folder + "/" + name + ".onnx", std::ios::binary) << open.bytes();
  write_array(folder + "/" + name + ".in.npy", x);
  if (y != nullptr) write_array(folder + "/" + name + ".out.npy", *y);
}

// NaN equals NaN, and infinities themselves.
void expect_equal(const Array& got, const Array& want) {
  ASSERT_EQ(got.dims, want.dims);
  float largest = 1;
  for (const float value : want.data) largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
  for (size_t i = 0; i < want.data.size(); ++i) {
    const float a = got.data[i], b = want.data[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_NEAR(a, b, 1e-4f * largest) << "element " << i;
  }
}

TEST(Resize, RandomGraphsGiveWhatTheyGiveImportedAtThatSizeOrRefuse) {
  constexpr unsigned graphs = 2000;
  const char* folder = std::getenv("QUERN_RESIZE_DUMP");
  std::map<std::string, size_t> kinds;
  size_t equal = 0, refused = 0, invalid = 0;
  for (unsigned seed = 0; seed < graphs && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(with("graph ", seed));
    Grower grower(seed);
    if (grower.kinds().empty()) continue;
    const OnnxModel model = grower.model(grower.dims());
    for (const std::string& kind : grower.kinds()) ++kinds[kind];
    for (int size = 0; size < 2; ++size) {
      const Dims dims = grower.other_dims();
      const Array x = test::random(dims, seed);
      const Outcome got = outcome([&] { return test::run(import_bytes(model), {x}).at(0); });
      const Outcome want = outcome([&] { return test::run(import_bytes(grower.model(dims)), {x}).at(0); });
      if (folder != nullptr) {
        dump(folder, std::to_string(seed) + with("_", size), grower.model({0, 0, 0, 0}), x,
             got.array ? &*got.array : nullptr);
      }
      if (!got.array) {
        ++refused;
        // By name: of an input or a node.
        EXPECT_NE(got.refusal.find('\''), std::string::npos) << got.refusal;
        continue;
      }
      if (!want.array) {
        ++invalid;
        continue;
      }
      ++equal;
      expect_equal(*got.array, *want.array);
      if (testing::Test::HasFailure()) {
        if (const char* failed = std::getenv("QUERN_RESIZE_DUMP")) std::cerr << "in " << failed << "\n";
        for (const std::string& kind : grower.kinds()) std::cerr << kind << "\n";
        return;
      }
    }
  }
  std::cout << equal << " resizes give the same, " << refused << " are refused, " << invalid
            << " work where an import at that size is refused\n";
  for (const auto& [kind, count] : kinds) EXPECT_GE(count, 40u) << kind;
  EXPECT_GE(kinds.size(), 24u);
  EXPECT_GE(equal, graphs);  // of two for each
}

}  // namespace resize_test
}  // namespace quern
