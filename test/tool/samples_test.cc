// Files of many samples: idx, zip, arrays in them, and how these divide into samples.
#include "tool/input/samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "../write_file.h"
#include "convert/common/error.h"
#include "damage.h"
#include "data_sets.h"
#include "tool/input/arrays.h"
#include "tool/input/idx.h"
#include "tool/input/truth.h"
#include "tool/input/zip.h"

namespace quern {
namespace samples_test {

using Shape = std::vector<size_t>;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string counted(size_t count) {
  std::string data;
  for (size_t i = 0; i < count; ++i) data += static_cast<char>(i);
  return data;
}

TEST(Idx, ReadsEveryType) {
  const auto read = [](unsigned type, const std::string& data) {
    return npy_doubles(decode_idx(make_idx(type, {2}, data), "x"));
  };
  EXPECT_EQ(read(0x08, "\x01\xff"), (std::vector<double>{1, 255}));
  EXPECT_EQ(read(0x09, "\x01\xff"), (std::vector<double>{1, -1}));
  EXPECT_EQ(read(0x0b, std::string("\x01\x02\xff\xff", 4)), (std::vector<double>{258, -1}));
  EXPECT_EQ(read(0x0c, std::string("\0\1\0\0\xff\xff\xff\xfe", 8)), (std::vector<double>{65536, -2}));
  EXPECT_EQ(read(0x0d, std::string("\x3f\xc0\0\0\xc0\0\0\0", 8)), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(read(0x0e, std::string("\x3f\xf8\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0", 16)), (std::vector<double>{1.5, -2}));
  const NpyArray images = decode_idx(make_idx(8, {2, 3, 4}, counted(24)), "x");
  EXPECT_EQ(images.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(images.bytes[23], 23);
}

TEST(Idx, RefusesDamage) {
  const std::string good = make_idx(8, {2, 3, 4}, counted(24));
  for (size_t size = 0; size < good.size(); ++size) EXPECT_THROW(decode_idx(good.substr(0, size), "x"), Error) << size;
  EXPECT_TRUE(holds(message_of([&] { decode_idx(good + "x", "file"); }),
                    "file: expected 24 bytes of elements for shape 2x3x4, got 25"));
  EXPECT_THROW(decode_idx(make_idx(10, {2}, "ab"), "x"), Error);
  EXPECT_THROW(decode_idx(make_idx(8, {}, "a"), "x"), Error);
  EXPECT_TRUE(holds(message_of([] { decode_idx(make_idx(8, Shape(3, 0xffffffff), "a"), "x"); }), "too large"));
  EXPECT_THROW(decode_idx(make_idx(8, Shape(255, 1), ""), "x"), Error);
}

TEST(Zip, ReadsStoredAndDeflatedEntries) {
  const std::string text = std::string(5000, 'a') + counted(256);
  for (const bool deflated : {false, true}) {
    const std::string file = make_zip({{"empty", ""}, {"a.npy", text}}, deflated) + "";
    const ZipArchive archive(file, "x");
    ASSERT_EQ(archive.entries().size(), 2u);
    EXPECT_EQ(archive.entries()[1].name, "a.npy");
    EXPECT_EQ(archive.read(archive.entries()[0]), "");
    EXPECT_EQ(archive.read(archive.entries()[1]), text);
  }
  EXPECT_TRUE(ZipArchive(make_zip({}, false), "x").entries().empty());
}

void read_all(const std::string& file) {
  const ZipArchive archive(file, "x");
  for (const ZipEntry& entry : archive.entries()) archive.read(entry);
}

TEST(Zip, RefusesDamage) {
  const std::string text = std::string(100, 'a') + counted(100);
  for (const bool deflated : {false, true}) {
    const std::string good = make_zip({{"a.npy", text}, {"b.npy", text}}, deflated);
    for (size_t size = 0; size < good.size(); ++size) EXPECT_THROW(read_all(good.substr(0, size)), Error) << size;
    read_with_flipped_bits(good, read_all);
  }
}

// Writes a number into an archive of one entry: `at` counts from the entry of the directory or from the end record.
std::string changed(const std::string& record, size_t at, uint32_t value, size_t bytes) {
  std::string file = make_zip({{"a.npy", std::string(100, 'a')}}, true);
  const size_t begin = file.rfind(record);
  for (size_t i = 0; i < bytes; ++i) file[begin + at + i] = static_cast<char>(value >> 8 * i);
  return file;
}

TEST(Zip, SaysWhatIsWrong) {
  const struct {
    std::string file;
    const char* part;
  } cases[] = {
      {changed("PK\1\2", 8, 1, 2), "x: a.npy: encrypted"},
      {changed("PK\1\2", 10, 12, 2), "x: a.npy: expected stored or deflated data, got compression method 12"},
      {changed("PK\1\2", 16, 1, 4), "the checksum differs"},
      {changed("PK\1\2", 20, 0xffffffff, 4), "(zip64) are not supported"},
      {changed("PK\1\2", 20, 0x7fffffff, 4), "x: a.npy: the archive ends early"},
      {changed("PK\1\2", 24, 0x7fffffff, 4), "cannot inflate to 2147483647"},
      {changed("PK\1\2", 24, 101, 4), "do not inflate to 101 bytes"},
      {changed("PK\1\2", 24, 99, 4), "do not inflate to 99 bytes"},
      {changed("PK\1\2", 28, 0xffff, 2), "a name is longer than the file"},
      {changed("PK\1\2", 42, 0xffffff, 4), "a record is missing at byte 16777215"},
      {changed("PK\5\6", 10, 2, 2), "a record is missing"},
      {changed("PK\5\6", 4, 1, 2), "on several disks"},
      {changed("PK\5\6", 16, 0xffffffff, 4), "(zip64) are not supported"},
      {changed("PK\5\6", 16, 0xfffffff0, 4), "a record is missing"},
      {"PK\3\4", "has no directory"},
  };
  for (const auto& c : cases) EXPECT_TRUE(holds(message_of([&] { read_all(c.file); }), c.part)) << c.part;
}

TEST(Arrays, AreFoundInArchives) {
  const auto array = [](uint8_t value) { return make_npy("|u1", {1}, std::string(1, static_cast<char>(value))); };
  const std::string file = make_zip(
      {{"x_test.npy", array(1)}, {"images.npy", array(2)}, {"notes.txt", "no array"}, {"labels.npy", array(3)}}, true);
  const auto read = [&](const std::string& name, const std::vector<std::string>& preferred) {
    return npy_doubles(decode_array(file, "f.npz", name, preferred)).at(0);
  };
  EXPECT_EQ(read("x_test", {"images"}), 1);
  EXPECT_EQ(read("", {"data", "images"}), 2);
  EXPECT_EQ(read("", {"labels", "images"}), 3);
  EXPECT_EQ(message_of([&] { read("y", {}); }), "f.npz: no array \"y\"; the archive has x_test, images, labels");
  EXPECT_EQ(message_of([&] {
              read("", {"x", "data"});
            }),
            "f.npz: expected an array x or data, or only one, got x_test, images, labels; choose one with f.npz:ARRAY");
  EXPECT_EQ(npy_doubles(decode_array(make_zip({{"arr_0.npy", array(7)}, {"a.txt", ""}}, false), "f", "", {"x"})).at(0),
            7);
  EXPECT_TRUE(holds(message_of([&] {
                      decode_array(make_zip({{"a.npy", "no"}}, false), "f.npz", "", {});
                    }),
                    "f.npz:a: not a .npy file"));
  EXPECT_TRUE(holds(message_of([&] { decode_array(make_zip({}, false), "f.npz", "", {"x"}); }), "got none"));
  EXPECT_TRUE(holds(message_of([&] { decode_array(array(1), "f.npy", "x", {}); }), "expected a .npz archive"));
  EXPECT_TRUE(holds(message_of([] { decode_array("\x1f\x8b\x08", "f.gz", "", {}); }), "gunzip"));
  EXPECT_TRUE(holds(message_of([] { decode_array("label\n1\n", "f.csv", "", {}); }), "f.csv: expected a .npy array"));
}

TEST(Arrays, PathsChooseAnArray) {
  const auto parts = [](const std::string& path) {
    const ArrayPath p = parse_array_path(path);
    return p.file + "|" + p.name;
  };
  EXPECT_EQ(parts("a.npz"), "a.npz|");
  EXPECT_EQ(parts("a.npz:x"), "a.npz|x");
  EXPECT_EQ(parts("a:b.npz:x:0"), "a:b.npz|x:0");
  EXPECT_EQ(parts("a.npy:x"), "a.npy:x|");
  const std::string odd = testing::TempDir() + fmt::format("quern_{}.npz:x", getpid());
  test::write_file(odd, "");
  EXPECT_EQ(parts(odd), odd + "|");
  EXPECT_FALSE(is_array_file(odd));
  std::filesystem::remove(odd);
  EXPECT_FALSE(is_array_file(odd));
  EXPECT_FALSE(is_array_file(testing::TempDir()));
}

NpyArray array_of(const Shape& shape, char kind = 'f', size_t item = 4) {
  size_t bytes = item;
  for (const size_t n : shape) bytes *= n;
  return {kind, item, shape, std::vector<unsigned char>(bytes)};
}

qn_port port_of(const Shape& shape, qn_type type = QN_F32) {
  qn_port port;
  qn_port_init(&port);
  port.name = "in";
  check(qn_tensor_init(&port.tensor, type, static_cast<uint32_t>(shape.size()), shape.data()));
  return port;
}

TEST(Samples, ArraysDivideAlongTheirFirstDimension) {
  const struct {
    Shape array, input;
    size_t count;
    Shape shape;
  } cases[] = {
      {{5, 3, 8, 8}, {1, 3, 8, 8}, 5, {1, 3, 8, 8}},
      {{1, 3, 8, 8}, {1, 3, 8, 8}, 1, {1, 3, 8, 8}},
      {{5, 3, 9, 7}, {1, 3, 8, 8}, 5, {1, 3, 9, 7}},  // another size of image
      {{8, 3, 8, 8}, {4, 3, 8, 8}, 2, {4, 3, 8, 8}},  // batches
      {{4, 3, 8, 8}, {4, 3, 8, 8}, 1, {4, 3, 8, 8}},
      {{3, 3, 8, 8}, {4, 3, 8, 8}, 1, {3, 3, 8, 8}},     // the model is resized, as ever
      {{5, 1, 3, 8, 8}, {1, 3, 8, 8}, 5, {1, 3, 8, 8}},  // whole inputs
      {{5, 4, 3, 8, 8}, {4, 3, 8, 8}, 5, {4, 3, 8, 8}},
      {{5, 28, 28}, {1, 1, 28, 28}, 5, {1, 1, 28, 28}},  // the same elements
      {{5, 28, 28}, {1, 784}, 5, {1, 784}},
      {{6, 28, 28}, {2, 784}, 3, {2, 784}},
      {{1, 28, 28}, {1, 1, 28, 28}, 1, {1, 1, 28, 28}},
      {{5, 784}, {1, 28, 28, 1}, 5, {1, 28, 28, 1}},
      {{28, 28}, {1, 1, 28, 28}, 1, {28, 28}},  // no batch: the session says what is wrong
      {{7}, {1}, 7, {1}},
      {{7}, {}, 7, {}},
      {{}, {}, 1, {}},
      {{2, 2}, {}, 1, {2, 2}},
  };
  for (const auto& c : cases) {
    const Slices slices = slice_array(array_of(c.array), port_of(c.input), 0, "x");
    const std::string what = fmt::format("{} for {}", fmt::join(c.array, "x"), fmt::join(c.input, "x"));
    EXPECT_EQ(slices.count, c.count) << what;
    EXPECT_EQ(slices.shape, c.shape) << what;
    EXPECT_FALSE(slices.images) << what;
  }
  EXPECT_EQ(message_of([] {
              slice_array(array_of({5, 3}), port_of({2, 3}), 0, "x.npy");
            }),
            "x.npy: expected a multiple of 2 items, the batch of input \"in\", got 5; see --shape");
  EXPECT_TRUE(holds(message_of([] { slice_array(array_of({5, 0}), port_of({1, 0}), 0, "x"); }), "without elements"));
  const NpyArray many = {'f', 4, {size_t{1} << 62, 0}, {}};
  EXPECT_TRUE(holds(message_of([&] { slice_array(many, port_of({1, 1}), 0, "x"); }), "without elements"));
}

TEST(Samples, BytesForImagesAreImages) {
  const auto slices = [](const Shape& array, const Shape& input, qn_type type = QN_F32, unsigned open = 0) {
    return slice_array(array_of(array, 'u', 1), port_of(input, type), open, "x");
  };
  for (const Shape& input : {Shape{1, 3, 8, 8}, Shape{1, 8, 8, 1}, Shape{4, 3, 8, 8}}) {
    for (const Shape& array : {Shape{5, 28, 20}, Shape{5, 28, 20, 3}, Shape{5, 1, 28, 20}, Shape{1, 8, 8}}) {
      const Slices got = slices(array, input);
      EXPECT_TRUE(got.images);
      EXPECT_EQ(got.count, array[0]);
      EXPECT_EQ(got.shape, Shape(array.begin() + 1, array.end()));
    }
    for (const Shape& array :
         {Shape{28, 20, 3}, Shape{28, 20}, Shape{5, 192}, Shape{5, 28, 20, 2}, Shape{5, 3, 2, 2, 1}})
      EXPECT_TRUE(holds(message_of([&] { slices(array, input); }), "x: expected uint8 images")) << array.size();
  }
  EXPECT_TRUE(slices({5, 8, 8, 3}, {1, 8, 8, 3}, QN_U8).images);
  EXPECT_TRUE(slices({5, 90, 80}, {1, 8, 8, 3}, QN_F32, 0b0110).images);
  EXPECT_FALSE(slices({5, 8, 8, 3}, {1, 8, 8, 3}, QN_S32).images);
  EXPECT_FALSE(slices({5, 28, 28}, {1, 784}).images);
  EXPECT_FALSE(slice_array(array_of({5, 8, 8, 3}, 'i', 1), port_of({1, 8, 8, 3}), 0, "x").images);
}

TEST(Labels, ComeFromArrays) {
  const auto labels = [](const std::string& file) { return array_labels(decode_array(file, "f", "", {}), "f"); };
  EXPECT_EQ(labels(make_idx(8, {3}, "\1\2\xff")), (std::vector<size_t>{1, 2, 255}));
  EXPECT_EQ(labels(make_npy("<i2", {2, 1}, std::string("\1\1\0\2", 4))), (std::vector<size_t>{257, 512}));
  EXPECT_EQ(labels(make_npy(">f4", {1}, std::string("\x40\x40\0\0", 4))), std::vector<size_t>{3});
  for (const Shape& shape : {Shape{}, Shape{1, 2}, Shape{2, 2}, Shape{0}, Shape{0, 3}}) {
    size_t count = 1;
    for (const size_t n : shape) count *= n;
    EXPECT_TRUE(holds(message_of([&] { labels(make_npy("|u1", shape, counted(count))); }),
                      "f: expected labels, a 1-D array of integers, got shape"));
  }
  EXPECT_EQ(message_of([&] { labels(make_npy("|i1", {1}, "\xff")); }),
            "f: expected integers from 0 on as labels, got -1");
  EXPECT_TRUE(holds(message_of([&] { labels(make_npy(">f4", {1}, std::string("\x3f\xc0\0\0", 4))); }), "got 1.5"));
  EXPECT_TRUE(holds(message_of([&] { labels(make_npy(">f4", {1}, std::string("\x7f\xc0\0\0", 4))); }), "got nan"));
  EXPECT_THROW(labels(make_npy("<u8", {1}, std::string(8, '\xff'))), Error);
}

TEST(Labels, ComeFromTables) {
  const std::vector<size_t> want = {7, 0, 2};
  for (const char* text : {"7\n0\n2\n", "label\n7\n0\n2", "ImageId,Label\n1,7\n2,0\n3,2\n",
                           "a.png,7\nb.png,0\nc.png,2\n", "file,wnid,label index\n,n1,7\n,n2,0\n,n3,2\n",
                           "\xef\xbb\xbf"
                           "7\r\n0\r\n\r\n2\r\n"})
    EXPECT_EQ(parse_labels(text, "x"), want) << text;
  for (const char* text : {"", "\n", "label\n", "name\na\n", "label\nx\n", "7\n-1\n", "7\n\"\"\n7.5\n"})
    EXPECT_THROW(parse_labels(text, "x"), Error) << text;
}

}  // namespace samples_test
}  // namespace quern
