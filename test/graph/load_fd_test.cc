// Models that lie within another file.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "graph/file/file_header.h"
#include "small_graphs.h"

namespace quern::test {
namespace load_fd_test {

// A descriptor of a file that has these bytes and no name.
class File {
 public:
  explicit File(const std::string& bytes) {
    std::string path = ::testing::TempDir() + "quern_load_fd_XXXXXX";
    fd = mkstemp(path.data());
    EXPECT_GE(fd, 0);
    unlink(path.c_str());
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd;
};

const std::string& model_bytes() {
  static const std::string bytes = [] {
    Vector<unsigned char> image;
    expect_ok(write_model(sample_graph(), &image));
    return std::string(image.begin(), image.end());
  }();
  return bytes;
}

std::string junk(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 37 + 11);
  return bytes;
}

// What the model answers to an input that is always the same.
std::vector<float> answer(qn_model* model) {
  const std::vector<float> image(8 * 8 * 3, 0.5f), bias(16, -0.25f);
  const void* const inputs[] = {image.data(), bias.data()};
  const void* scores = nullptr;
  qn_session* session = nullptr;
  expect_ok(qn_session_create(model, nullptr, &session));
  expect_ok(qn_session_run(session, inputs));
  expect_ok(qn_session_output(session, 1, &scores));
  const auto* values = static_cast<const float*>(scores);
  std::vector<float> result(values, values + 10);
  qn_session_release(session);
  return result;
}

std::vector<float> expected_answer() {
  qn_model* model = nullptr;
  expect_ok(qn_model_load_memory(model_bytes().data(), model_bytes().size(), nullptr, &model));
  const std::vector<float> result = answer(model);
  qn_model_release(model);
  return result;
}

TEST(LoadFd, AtAnyOffset) {
  const std::vector<float> expected = expected_answer();
  for (const size_t offset : {0, 1, 4, 63, 64, 4095, 4096, 4097, 4096 + 64, 3 * 65536 + 4, 3 * 65536 + 128}) {
    SCOPED_TRACE(offset);
    const std::string before = junk(offset);
    for (const size_t behind : {0, 1, 5000}) {
      File file(before + model_bytes() + junk(behind));
      ASSERT_EQ(lseek(file.fd, 7, SEEK_SET), 7);
      qn_model* model = nullptr;
      ASSERT_EQ(qn_model_load_fd(file.fd, offset, model_bytes().size(), nullptr, &model), QN_OK) << qn_last_message();
      EXPECT_EQ(lseek(file.fd, 0, SEEK_CUR), 7) << "the caller's descriptor stands where it stood";
      ASSERT_EQ(close(std::exchange(file.fd, -1)), 0);
      for (const Constant& constant : model_graph(*model).constants) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(constant.data) % 64, 0u);
        EXPECT_EQ(constant.mapped, offset % 64 == 0) << "in place where it is aligned, else a copy";
      }
      EXPECT_EQ(answer(model), expected);
      qn_model_release(model);
    }
  }
}

TEST(LoadFd, ToTheEnd) {
  const File file(junk(4100) + model_bytes());
  qn_model* model = nullptr;
  ASSERT_EQ(qn_model_load_fd(file.fd, 4100, QN_TO_END, nullptr, &model), QN_OK) << qn_last_message();
  EXPECT_EQ(answer(model), expected_answer());
  qn_model_release(model);
  model = nullptr;
  EXPECT_EQ(qn_model_load_fd(file.fd, 0, QN_TO_END, nullptr, &model), QN_BAD_MODEL);
  const File more(model_bytes() + "x");
  EXPECT_EQ(qn_model_load_fd(more.fd, 0, QN_TO_END, nullptr, &model), QN_BAD_MODEL) << "and nothing else";
  EXPECT_EQ(model, nullptr);
}

TEST(LoadFd, RefusesRangesThatAreNone) {
  const size_t offset = 128, size = model_bytes().size(), all = offset + size;
  const File file(junk(offset) + model_bytes());
  const struct {
    uint64_t offset, length;
    qn_status status;
  } ranges[] = {
      {offset, size, QN_OK},
      {offset, size + 1, QN_INVALID_ARGUMENT},
      {offset + 1, size, QN_INVALID_ARGUMENT},
      {all + 1, 0, QN_INVALID_ARGUMENT},
      {all + 1, QN_TO_END, QN_INVALID_ARGUMENT},
      {UINT64_MAX, 1, QN_INVALID_ARGUMENT},
      {UINT64_MAX, QN_TO_END, QN_INVALID_ARGUMENT},
      {offset, QN_TO_END - 1, QN_INVALID_ARGUMENT},
      {offset, UINT64_MAX - offset + 1, QN_INVALID_ARGUMENT},        // the sum is 0
      {offset, UINT64_MAX - offset + 1 + 100, QN_INVALID_ARGUMENT},  // the sum is 100
      {offset, 0, QN_BAD_MODEL},
      {all, QN_TO_END, QN_BAD_MODEL},
      {offset, size - 1, QN_BAD_MODEL},
      {offset, 10, QN_BAD_MODEL},
      {offset - 64, size, QN_BAD_MODEL},
      {offset - 1, size, QN_BAD_MODEL},
  };
  for (const auto& range : ranges) {
    qn_model* model = nullptr;
    EXPECT_EQ(qn_model_load_fd(file.fd, range.offset, range.length, nullptr, &model), range.status)
        << range.length << " bytes from " << range.offset << ": " << qn_last_message();
    EXPECT_EQ(model == nullptr, range.status != QN_OK);
    const std::string who = "qn_model_load_fd: descriptor " + std::to_string(file.fd) + ": ";
    if (range.status != QN_OK) {
      EXPECT_EQ(std::string(qn_last_message()).find(who), 0u) << qn_last_message();
    }
    qn_model_release(model);
  }
}

TEST(LoadFd, RefusesWhatIsNoFile) {
  qn_model* model = nullptr;
  const auto load = [&](int fd) { return qn_model_load_fd(fd, 0, QN_TO_END, nullptr, &model); };
  EXPECT_EQ(load(-1), QN_INVALID_ARGUMENT);
  EXPECT_EQ(load(std::numeric_limits<int>::min()), QN_INVALID_ARGUMENT);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(load(ends[0]), QN_IO_ERROR);
  EXPECT_NE(std::string(qn_last_message()).find("not a regular file"), std::string::npos) << qn_last_message();
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(load(ends[0]), QN_IO_ERROR) << "closed";
  const int folder = open(::testing::TempDir().c_str(), O_RDONLY);
  ASSERT_GE(folder, 0);
  EXPECT_EQ(load(folder), QN_IO_ERROR);
  close(folder);

  const std::string path = ::testing::TempDir() + "quern_load_fd_write_only";
  const int write_only = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(write_only, 0);
  EXPECT_EQ(load(write_only), QN_BAD_MODEL) << "empty";
  ASSERT_EQ(write(write_only, model_bytes().data(), model_bytes().size()), static_cast<ssize_t>(model_bytes().size()));
  EXPECT_EQ(load(write_only), QN_IO_ERROR);
  close(write_only);
  std::remove(path.c_str());
  EXPECT_EQ(model, nullptr);

  const File file(model_bytes());
  EXPECT_EQ(qn_model_load_fd(file.fd, 0, QN_TO_END, nullptr, nullptr), QN_INVALID_ARGUMENT);
  qn_model_options options;
  qn_model_options_init(&options);
  options.struct_size = 3;
  EXPECT_EQ(qn_model_load_fd(file.fd, 0, QN_TO_END, &options, &model), QN_INVALID_ARGUMENT);
}

}  // namespace load_fd_test
}  // namespace quern::test
