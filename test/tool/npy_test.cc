#include "tool/input/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "convert/common/error.h"
#include "damage.h"

namespace quern {
namespace npy_test {

std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string text = header;
  const size_t prefix = version == 1 ? 10 : 12;
  text.resize((prefix + text.size() + 64) / 64 * 64 - prefix - 1, ' ');
  text += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (size_t i = 0; i < prefix - 8; ++i) file += static_cast<char>(text.size() >> 8 * i);
  return file + text + data;
}

std::string dictionary(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string data(values.size() * sizeof(T), '\0');
  std::memcpy(data.data(), values.begin(), data.size());
  return data;
}

TEST(Npy, ReadsEveryVersionAndType) {
  for (const int version : {1, 2, 3}) {
    const NpyArray a = decode_npy(npy(dictionary("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6}), version), "x");
    EXPECT_EQ(a.shape, (std::vector<size_t>{2, 3}));
    EXPECT_EQ(npy_doubles(a), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
  const auto one = [](const char* descr, const std::string& data) {
    return npy_doubles(decode_npy(npy(dictionary(descr, "(1,)"), data), "x")).at(0);
  };
  EXPECT_EQ(one("<f2", raw<uint16_t>({0xc000})), -2);
  EXPECT_EQ(one("<f8", raw<double>({0.1})), 0.1);
  EXPECT_EQ(one("|i1", raw<int8_t>({-7})), -7);
  EXPECT_EQ(one("<i2", raw<int16_t>({-300})), -300);
  EXPECT_EQ(one("<i4", raw<int32_t>({-70000})), -70000);
  EXPECT_EQ(one("<i8", raw<int64_t>({-5000000000})), -5000000000.0);
  EXPECT_EQ(one("|u1", raw<uint8_t>({200})), 200);
  EXPECT_EQ(one("<u2", raw<uint16_t>({60000})), 60000);
  EXPECT_EQ(one("<u4", raw<uint32_t>({4000000000u})), 4000000000.0);
  EXPECT_EQ(one("<u8", raw<uint64_t>({5000000000u})), 5000000000.0);
  EXPECT_EQ(one("|b1", raw<uint8_t>({1})), 1);
  EXPECT_EQ(one(">f4", std::string("\x3f\xc0\0\0", 4)), 1.5);
}

TEST(Npy, ReadsScalarsAndColumnMajorOrder) {
  const NpyArray scalar = decode_npy(npy(dictionary("<f4", "()"), raw<float>({4})), "x");
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(npy_doubles(scalar), std::vector<double>{4});
  // Element [i, j, k] of shape 2, 3, 2 is 100 i + 10 j + k; the first index varies fastest in the file.
  const NpyArray a = decode_npy(
      npy(dictionary("<f4", "(2, 3, 2)", true), raw<float>({0, 100, 10, 110, 20, 120, 1, 101, 11, 111, 21, 121})), "x");
  EXPECT_EQ(npy_doubles(a), (std::vector<double>{0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121}));
}

TEST(Npy, RefusesWhatItDoesNotUnderstand) {
  const std::string four = raw<float>({1});
  const std::string bad[] = {
      "",
      "\x93NUMPY",
      "PK\x03\x04 not npy at all",
      npy(dictionary("<f4", "(1,)"), four, 4),                     // version
      npy(dictionary("<c8", "(1,)"), raw<double>({1})),            // complex
      npy(dictionary("|O", "(1,)"), raw<double>({1})),             // Python objects
      npy(dictionary("<f16", "(1,)"), four + four + four + four),  // quadruple precision
      npy(dictionary("f4", "(1,)"), four),                         // no byte order
      npy(dictionary("<f4", "(2,)"), four),                        // too few elements
      npy(dictionary("<f4", "()"), four + four),                   // too many
      npy(dictionary("<f4", "(-1,)"), four),
      npy(dictionary("<f4", "(1"), four),
      npy(dictionary("<f4", "1"), four),
      npy(dictionary("<f4", "(99999999999999999999999,)"), four),
      npy(dictionary("<f4", "(4611686018427387905,)"), four),  // times 4 wraps around to 4
      npy(dictionary("<f4", "(4294967296, 4294967296)"), four),
      npy("{'descr': '<f4', 'fortran_order': False, }", four),
      npy("{'fortran_order': False, 'shape': (1,), }", four),
      npy("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", four),
      npy("{'descr': '<f4', 'colour': 'red', 'shape': (1,), }", four),
      npy("[1, 2]", four),
      npy("{'descr", four),
      npy("", four),
  };
  for (const std::string& file : bad) EXPECT_THROW(decode_npy(file, "x"), Error) << file;
}

TEST(Npy, SurvivesDamage) {
  const std::string good = npy(dictionary("<f4", "(2, 3)", true), raw<float>({1, 2, 3, 4, 5, 6}));
  for (size_t size = 0; size < good.size(); ++size) EXPECT_THROW(decode_npy(good.substr(0, size), "x"), Error);
  read_with_flipped_bits(good, [&](const std::string& bad) {
    const NpyArray array = decode_npy(bad, "x");
    EXPECT_LE(array.bytes.size(), good.size());
  });
}

std::filesystem::path temporary_file() {
  return std::filesystem::temp_directory_path() / ("quern_npy_" + std::to_string(getpid()) + ".npy");
}

TEST(Npy, WritesWhatItReads) {
  const std::filesystem::path path = temporary_file();
  const std::vector<std::vector<size_t>> shapes = {{}, {5}, {2, 3}, {1, 2, 3, 4, 5, 6, 1, 2}};
  for (const qn_type type : {QN_F32, QN_F16, QN_S64, QN_S8, QN_U8, QN_S32, QN_BOOL}) {
    for (const auto& shape : shapes) {
      qn_tensor tensor;
      ASSERT_EQ(qn_tensor_init(&tensor, type, static_cast<uint32_t>(shape.size()), shape.data()), QN_OK);
      std::vector<unsigned char> data(qn_tensor_bytes(&tensor));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i);
      write_npy(path.string(), tensor, data.data());
      EXPECT_EQ((std::filesystem::file_size(path) - data.size()) % 64, 0u);
      const NpyArray back = read_npy(path.string());
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.bytes, data);
      if (type == QN_BOOL) {  // whatever byte a file has for it
        for (unsigned char& byte : data) byte = byte != 0;
      }
      EXPECT_EQ(npy_as(back, type, "x"), data);
    }
  }
  std::filesystem::remove(path);
  EXPECT_THROW(read_npy(path.string()), Error);
}

TEST(Npy, AFileBeyondAllLimitsIsRefusedByItsSize) {
  const std::filesystem::path path = temporary_file();
  std::ofstream(path, std::ios::binary) << npy(dictionary("<f4", "(0,)"), "");
  ASSERT_EQ(truncate(path.c_str(), (off_t{4} << 30) + static_cast<off_t>(std::filesystem::file_size(path))), 0);
  EXPECT_THROW(
      try { read_npy(path.string()); } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("larger than"), std::string::npos) << e.what();
        throw;
      },
      Error);
  std::filesystem::remove(path);
}

TEST(Npy, ConvertsBetweenTypes) {
  const NpyArray doubles = decode_npy(npy(dictionary("<f8", "(3,)"), raw<double>({0.1, -2, 70000})), "x");
  const auto bytes = [](const std::string& s) { return std::vector<unsigned char>(s.begin(), s.end()); };
  EXPECT_EQ(npy_as(doubles, QN_F32, "x"), bytes(raw<float>({0.1f, -2, 70000})));
  EXPECT_EQ(npy_as(doubles, QN_F16, "x"), bytes(raw<uint16_t>({0x2e66, 0xc000, 0x7c00})));
  EXPECT_THROW(npy_as(doubles, QN_I64, "x"), Error);
  const NpyArray whole = decode_npy(npy(dictionary("<f4", "(2,)"), raw<float>({-3, 16})), "x");
  EXPECT_EQ(npy_as(whole, QN_I64, "x"), bytes(raw<int64_t>({-3, 16})));
  EXPECT_EQ(npy_as(whole, QN_S8, "x"), bytes(raw<int8_t>({-3, 16})));
  EXPECT_EQ(npy_as(whole, QN_S32, "x"), bytes(raw<int32_t>({-3, 16})));
  EXPECT_THROW(npy_as(whole, QN_U8, "x"), Error);
  EXPECT_THROW(npy_as(whole, QN_BOOL, "x"), Error);
  const NpyArray ends = decode_npy(npy(dictionary("<i2", "(2,)"), raw<int16_t>({0, 255})), "x");
  EXPECT_EQ(npy_as(ends, QN_U8, "x"), bytes(raw<uint8_t>({0, 255})));
  EXPECT_THROW(npy_as(ends, QN_S8, "x"), Error);
  const NpyArray nan = decode_npy(npy(dictionary("<f4", "(1,)"), raw({std::numeric_limits<float>::quiet_NaN()})), "x");
  EXPECT_THROW(npy_as(nan, QN_I64, "x"), Error);
  const NpyArray huge = decode_npy(npy(dictionary("<f8", "(1,)"), raw<double>({1e300})), "x");
  EXPECT_THROW(npy_as(huge, QN_I64, "x"), Error);
}

}  // namespace npy_test
}  // namespace quern
