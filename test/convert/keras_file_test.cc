// How Keras' files are read: the process that reads them, what it sends, and HDF5 itself.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/sanitized.h"
#include "convert/convert.h"
#include "convert/keras/confined.h"
#include "convert/keras/hdf5.h"
#include "keras_model.h"

#ifdef QUERN_HDF5
#include <hdf5.h>
#endif

namespace quern {
namespace keras_file_test {

using keras::Contents;
using keras::Read;
using keras::run_confined;
using keras::Sender;
using keras::Write;
using test::error_of;
using test::expect_in;

// ---- what the process sends -------------------------------------------------------------------

std::string sent(const std::function<void(Sender&)>& send) {
  std::string bytes;
  Sender sender([&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
  send(sender);
  return bytes;
}

Contents received(const std::string& bytes, uint64_t limit = 1 << 20) {
  size_t at = 0;
  const Read read = [&](void* data, size_t size) {
    if (size > bytes.size() - at) throw Error("the end");
    std::memcpy(data, bytes.data() + at, size);
    at += size;
  };
  return keras::read_contents(read, limit);
}

std::string whole() {
  return sent([](Sender& sender) {
    sender.config("{}");
    sender.version("2.4.0");
    sender.weight("a/kernel:0", {{2, 3}, {1, 2, 3, 4, 5, 6}});
    sender.weight("a/count:0", {{}, {7}});
    sender.end();
  });
}

TEST(KerasContents, ComeAsTheyWereSent) {
  const Contents contents = received(whole());
  EXPECT_EQ(contents.config, "{}");
  EXPECT_EQ(contents.version, "2.4.0");
  ASSERT_EQ(contents.weights.size(), 2u);
  EXPECT_EQ(contents.weights.at("a/kernel:0").shape, (Shape{2, 3}));
  EXPECT_EQ(contents.weights.at("a/kernel:0").data, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(contents.weights.at("a/count:0").data, (std::vector<float>{7}));
}

TEST(KerasContents, AreRefusedWhereTheyEnd) {
  const std::string bytes = whole();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_of([&] { received(bytes.substr(0, size)); }), "the end") << size;
  }
}

TEST(KerasContents, AreRefusedIfSizesAreWild) {
  for (const uint64_t size : {uint64_t{1} << 21, uint64_t{1} << 62, ~uint64_t{0}}) {
    std::string text = "C";
    text.append(reinterpret_cast<const char*>(&size), sizeof size);
    expect_in(error_of([&] { received(text); }), "far larger than the file");
    for (const uint64_t first : {uint64_t{1}, uint64_t{1} << 33}) {
      std::string weight = "W" + std::string("\x01\0\0\0\0\0\0\0w\x02\0\0\0\0\0\0\0", 17);
      weight.append(reinterpret_cast<const char*>(&first), sizeof first);
      weight.append(reinterpret_cast<const char*>(&size), sizeof size);
      expect_in(error_of([&] { received(weight); }), "far larger than the file");
    }
  }
  expect_in(error_of([&] { received(whole(), 50); }), "far larger than the file");
  expect_in(error_of([&] { received("W" + std::string("\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0", 16)); }),
            "weights of rank 9");
  expect_in(error_of([&] { received("x" + std::string(8, '\0')); }), "nonsense");
  expect_in(error_of([&] {
              received(sent([](Sender& sender) {
                for (int i = 0; i < 2; ++i) sender.weight("w", {{1}, {1}});
              }));
            }),
            "the weights 'w' are there twice");
  EXPECT_EQ(error_of([&] { received(sent([](Sender& sender) { sender.fail("no such luck"); })); }), "no such luck");
  expect_in(error_of([&] { received(sent([](Sender& sender) { sender.fail(""); })); }), "for no reason");
}

// ---- the process ------------------------------------------------------------------------------

// Reads one byte of what `write` sends.
std::string one_byte(const std::function<void(const Write&)>& write, keras::Limits limits = {}) {
  return error_of([&] {
    run_confined(limits, write, [](const Read& read) {
      char byte;
      read(&byte, 1);
      throw Error(std::string("got ") + byte);
    });
  });
}

TEST(KerasProcess, SendsAndIsGone) {
  EXPECT_EQ(one_byte([](const Write& write) { write("xy", 2); }), "got x");
  // More than a pipe holds: the process is ended while it waits.
  EXPECT_EQ(one_byte([](const Write& write) {
              for (const std::string block(1 << 20, 'z');;) write(block.data(), block.size());
            }),
            "got z");
}

TEST(KerasProcess, MayDie) {
  expect_in(one_byte([](const Write&) {}), "ended early: exit status 0");
  expect_in(one_byte([](const Write&) { raise(SIGKILL); }), "ended early: Killed");
  expect_in(one_byte([](const Write&) { throw std::runtime_error("x"); }), "ended early: exit status 1");
  expect_in(one_byte([](const Write&) { _exit(3); }), "ended early: exit status 3");
}

TEST(KerasProcess, MayNotTakeForever) {
  keras::Limits limits;
  limits.seconds = 1;
  expect_in(one_byte(
                [](const Write&) {
                  for (volatile bool forever = true; forever;) {}
                },
                limits),
            "takes too long");
  expect_in(one_byte([](const Write&) { pause(); }, limits), "reading it takes too long");
  const auto trickles = [](const Write& write) {
    for (;; usleep(1000)) write("x", 1);
  };
  const auto reads_all = [](const Read& read) {
    for (char byte;;) read(&byte, 1);
  };
  expect_in(error_of([&] { run_confined(limits, trickles, reads_all); }), "reading it takes too long");
}

// A small file is refused within ten seconds, whatever libhdf5 does with it. Large ones get time for slow disks.
TEST(KerasProcess, HasTimeForTheFile) {
  EXPECT_EQ(keras::limits_of_reading(18'000, 1 << 20).seconds, 8u);
  EXPECT_EQ(keras::limits_of_reading(uint64_t{1} << 30, uint64_t{1} << 33).seconds, 8u + 256);
  EXPECT_EQ(keras::limits_of_reading(uint64_t{1} << 40, uint64_t{1} << 43).seconds, 3600u);
}

#ifdef __linux__

// Reads a file in a process that is killed meanwhile. `number` gets the number of its child.
[[noreturn]] void die_while_reading(int number) {
  const auto sleeps = [](const Write& write) {
    const pid_t own = getpid();
    write(&own, sizeof own);
    sleep(20);
    _exit(7);
  };
  run_confined({}, sleeps, [&](const Read& read) {
    pid_t child;
    read(&child, sizeof child);
    if (write(number, &child, sizeof child) == sizeof child) raise(SIGKILL);
  });
  _exit(1);
}

TEST(KerasProcess, EndsWithItsParent) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // the child of the process that is killed becomes one of this one
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) die_while_reading(ends[1]);
  pid_t child = 0;
  EXPECT_EQ(read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  int status = 0;
  EXPECT_EQ(waitpid(parent, &status, 0), parent);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it lived on";
  for (const int end : ends) close(end);
  EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

#endif

TEST(KerasProcess, MayNotWriteOrOpenFiles) {
  const test::Folder folder;
  const std::string path = folder.write("old", "text");
  const auto opens = [&](const Write& write) { write(std::ifstream(path) ? "y" : "n", 1); };
  if (!sanitized) {
    EXPECT_EQ(one_byte(opens), "got n");
  }
  keras::Limits limits;
  limits.files = 1;
  EXPECT_EQ(one_byte(opens, limits), "got y");
  const auto writes = [&](const Write& write) {
    std::ofstream file(folder.path("new"));
    file << "text" << std::flush;
    write("w", 1);
  };
  expect_in(one_byte(writes, limits), "ended early: File size limit exceeded");
}

TEST(KerasProcess, MayNotTakeAllMemory) {
  if (sanitized) GTEST_SKIP() << "a sanitizer needs all addresses";
  const auto takes = [](size_t bytes) {
    return [bytes](const Write& write) {
      void* volatile block = std::malloc(bytes);
      write(block == nullptr ? "n" : "y", 1);
    };
  };
  EXPECT_EQ(one_byte(takes(size_t{1} << 20)), "got y");
  EXPECT_EQ(one_byte(takes(size_t{1} << 30)), "got n");
}

// ---- files ------------------------------------------------------------------------------------

std::string small_model() {
  return test::keras_sequential(
      "net", {test::keras_input("x", {1, 3}), test::keras_layer("Dense", "y", "'units': 2, 'activation': 'relu'")});
}

#ifndef QUERN_HDF5

TEST(KerasFile, NeedsHdf5) {
  const test::Folder folder;
  const std::string path = folder.write("net.h5", "");
  expect_in(error_of([&] { import_model({path}); }), path + ": this build cannot read HDF5");
}

#else

test::KerasWeights small_weights() {
  return {{"y/y/kernel:0", test::random({3, 2}, 1)}, {"y/y/bias:0", test::random({2}, 2)}};
}

class KerasFile : public testing::Test {
 protected:
  std::string refusal(const std::string& bytes) {
    const std::string path = folder_.write("net.h5", bytes);
    const std::string message = error_of([&] { import_model({path}); });
    EXPECT_EQ(message.find(path + ": "), 0u) << message;
    return message;
  }
  // Changes the file of the small model.
  std::string changed(const std::function<void(hid_t file)>& change) {
    const std::string path = folder_.write("changed.h5", test::keras_bytes(small_model(), small_weights()));
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(file);
    H5Fclose(file);
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  test::Folder folder_;
};

TEST_F(KerasFile, IsImported) {
  const test::Array x = test::random({4, 3}, 3);
  const test::KerasWeights weights = small_weights();
  const std::string path = folder_.write("net.h5", test::keras_bytes(small_model(), weights));
  const test::Array y =
      test::combine(test::matmul(x, weights.at("y/y/kernel:0")), weights.at("y/y/bias:0"), std::plus<>());
  const Graph graph = import_model({path});
  test::expect_near(test::run(graph, {x}).at(0), test::map(y, [](float v) { return std::max(v, 0.0f); }));
  EXPECT_STREQ(graph.source.c_str(), "keras");
  EXPECT_STREQ(graph.name.c_str(), "net");
}

TEST_F(KerasFile, NumbersMayHaveOtherTypes) {
  const std::string bytes = changed([](hid_t file) {
    for (const char* name : {"model_weights/y/y/kernel:0", "model_weights/y/y/bias:0"})
      H5Ldelete(file, name, H5P_DEFAULT);
    const hsize_t six[] = {3, 2}, two[] = {2};
    const double kernel[] = {1, 2, 3, 4, 5, 6};
    const short bias[] = {7, -8};
    const hid_t matrix = H5Screate_simple(2, six, nullptr), row = H5Screate_simple(1, two, nullptr);
    const hid_t a =
        H5Dcreate2(file, "model_weights/y/y/kernel:0", H5T_IEEE_F64BE, matrix, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t b =
        H5Dcreate2(file, "model_weights/y/y/bias:0", H5T_STD_I16BE, row, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(a, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, kernel);
    H5Dwrite(b, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, bias);
    for (const hid_t id : {a, b}) H5Dclose(id);
    for (const hid_t id : {matrix, row}) H5Sclose(id);
  });
  const Contents contents = keras::read_hdf5(folder_.write("net.h5", bytes));
  EXPECT_EQ(contents.weights.at("y/y/kernel:0").data, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(contents.weights.at("y/y/bias:0").data, (std::vector<float>{7, -8}));
}

TEST_F(KerasFile, IsRefusedIfDamaged) {
  const std::string bytes = test::keras_bytes(small_model(), small_weights());
  expect_in(refusal(""), "not an HDF5 file");
  expect_in(refusal("{}"), "not an HDF5 file");
  for (const size_t size : {size_t{50}, bytes.size() / 2, bytes.size() - 100}) refusal(bytes.substr(0, size));
  expect_in(refusal(test::keras_bytes("", small_weights())), "weights without an architecture");
  expect_in(refusal(test::keras_bytes("", {})), "not a model of Keras");
  expect_in(refusal(test::keras_bytes(small_model(), {})), "the file has no weights 'kernel'");
  expect_in(error_of([&] { import_model({folder_.path("none.h5")}); }), "none.h5: cannot open");
  std::filesystem::create_directory(folder_.path("folder.h5"));
  expect_in(error_of([&] { import_model({folder_.path("folder.h5")}); }), "not a regular file");
}

// Links may lead in circles or to other files, and so may the elements of a tensor.
TEST_F(KerasFile, IsReadAlone) {
  folder_.write("secret", std::string(64, 'x'));
  const std::string circle = changed(
      [](hid_t file) { H5Lcreate_hard(file, "model_weights", file, "model_weights/again", H5P_DEFAULT, H5P_DEFAULT); });
  expect_in(refusal(circle), "groups lie too deep");
  const std::string other = folder_.write("other.h5", test::keras_bytes(small_model(), small_weights()));
  const std::string linked = changed([&](hid_t file) {
    H5Ldelete(file, "model_weights/y/y/bias:0", H5P_DEFAULT);
    H5Lcreate_external(other.c_str(), "model_weights/y/y/bias:0", file, "model_weights/y/y/bias:0", H5P_DEFAULT,
                       H5P_DEFAULT);
  });
  expect_in(refusal(linked), "the file has no weights 'bias'");
  const std::string outside = changed([&](hid_t file) {
    const hsize_t four[] = {4};
    const hid_t space = H5Screate_simple(1, four, nullptr), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(properties, folder_.path("secret").c_str(), 0, 16);
    H5Dclose(H5Dcreate2(file, "model_weights/y/y/more:0", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Pclose(properties);
    H5Sclose(space);
  });
  expect_in(refusal(outside), "are in another file");
}

// A tensor without stored elements takes no room in the file, whatever its size.
TEST_F(KerasFile, MayNotGrow) {
  const std::string bytes = changed([](hid_t file) {
    const hsize_t many[] = {hsize_t{1} << 20, hsize_t{1} << 20};
    const hid_t space = H5Screate_simple(2, many, nullptr);
    H5Dclose(
        H5Dcreate2(file, "model_weights/y/y/more:0", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
  });
  expect_in(refusal(bytes), "its content is far larger than the file");
}

#endif

}  // namespace keras_file_test
}  // namespace quern
