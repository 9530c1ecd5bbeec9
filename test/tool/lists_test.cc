// Small parsers and rankings: NAME=FILE, tables of labels, best classes.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "convert/common/error.h"
#include "tool/input/classes.h"
#include "tool/input/named_files.h"
#include "tool/input/truth.h"

namespace quern {
namespace lists_test {

using Files = std::vector<std::vector<std::string>>;

std::vector<qn_port> ports(std::initializer_list<const char*> names) {
  std::vector<qn_port> list;
  for (const char* name : names) {
    qn_port port = {};
    port.name = name;
    list.push_back(port);
  }
  return list;
}

TEST(NamedFiles, TakesNamesWithSpecialCharacters) {
  const auto two = ports({"a/b:0", "a"});
  EXPECT_EQ(name_files("--input", "input", {"a/b:0=x.npy", "a=y.npy"}, two), (Files{{"x.npy"}, {"y.npy"}}));
  EXPECT_EQ(name_files("--input", "input", {"a=x=y.npy", "a=z.npy"}, two), (Files{{}, {"x=y.npy", "z.npy"}}));
  const auto nested = ports({"a", "a=b"});
  EXPECT_EQ(name_files("--input", "input", {"a=b=f.npy", "a=f.npy"}, nested), (Files{{"f.npy"}, {"f.npy"}}));
}

TEST(NamedFiles, TheOnlyPortNeedsNoName) {
  const auto one = ports({"data"});
  const std::string odd = testing::TempDir() + "quern_odd=name.png";
  std::ofstream(odd).close();
  EXPECT_EQ(name_files("--input", "input", {"x.png", "data=y.png", odd, "data=odd=name.png"}, one),
            (Files{{"x.png", "y.png", odd, "odd=name.png"}}));
  std::remove(odd.c_str());
  EXPECT_THROW(name_files("--input", "input", {"x.png"}, ports({"a", "b"})), CLI::ValidationError);
  EXPECT_THROW(name_files("--input", "input", {"c=x.png"}, ports({"a", "b"})), CLI::ValidationError);
}

TEST(NamedFiles, SaysWhatNamesThereAre) {
  const auto message = [](const char* what, const std::string& argument, const std::vector<qn_port>& list) {
    try {
      name_files("--input", what, {argument}, list);
    } catch (const CLI::ValidationError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("input", "x1=x.png", ports({"x"})).find("no input \"x1\", but x"), std::string::npos);
  EXPECT_NE(message("output", "x1=x=x.png", ports({"a", "b"})).find("no output \"x1\", but a, b"), std::string::npos);
  EXPECT_NE(message("input", "x.png", ports({"a", "b"})).find("one of the names a, b,"), std::string::npos);
}

TEST(Truth, FindsColumnsByName) {
  const auto images = parse_truth("wnid,Label Index,File\nn1,7,a.jpg\r\nn2,8,\"b, c.jpg\"\n\nn3,9,\"d\"\"e\"", "x");
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images[0].file, "a.jpg");
  EXPECT_EQ(images[0].label, 7u);
  EXPECT_EQ(images[1].file, "b, c.jpg");
  EXPECT_EQ(images[2].file, "d\"e");
  EXPECT_EQ(images[2].label, 9u);
}

TEST(Truth, NeedsNoHeader) {
  const auto images = parse_truth("a.png,3\nb.png,0\n", "x");
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[1].file, "b.png");
  EXPECT_EQ(images[0].label, 3u);
}

TEST(Truth, RefusesNonsense) {
  for (const char* text : {"", "\n", "file,name\na,b\n", "file,label\n", "file,label\na.png\n", "file,label\na.png,x\n",
                           "file,label\na.png,-1\n", "file,label\n,3\n", "a.png,3\nb.png,99999999999999999999999\n"})
    EXPECT_THROW(parse_truth(text, "x"), Error) << text;
}

TEST(Classes, EqualScoresGoByIndexAndNanComesLast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(best_classes({1, 3, 2, 3}, 3), (std::vector<size_t>{1, 3, 2}));
  EXPECT_EQ(best_classes({nan, 1, nan, 2}, 9), (std::vector<size_t>{3, 1, 0, 2}));
  EXPECT_TRUE(best_classes({}, 5).empty());
}

TEST(Classes, ScoresBecomeProbabilitiesOnce) {
  const std::vector<double> sure = {0.25, 0.75};
  EXPECT_EQ(probabilities(sure), sure);
  const std::vector<double> p = probabilities({1000, 1000 + std::log(3.0)});
  EXPECT_NEAR(p[0], 0.25, 1e-12);
  EXPECT_NEAR(p[1], 0.75, 1e-12);
}

}  // namespace lists_test
}  // namespace quern
