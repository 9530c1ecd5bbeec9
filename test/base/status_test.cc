// Status codes, the message of the last failure, and the log.
#include "base/status.h"

#include <gtest/gtest.h>
#include <quern/quern.h>

#include <string>
#include <thread>
#include <vector>

namespace quern {
namespace status_test {

TEST(Status, EveryStatusHasAName) {
  EXPECT_STREQ(qn_status_string(QN_OK), "ok");
  EXPECT_STREQ(qn_status_string(QN_INVALID_ARGUMENT), "invalid argument");
  EXPECT_STREQ(qn_status_string(QN_UNSUPPORTED), "unsupported");
  EXPECT_STREQ(qn_status_string(QN_OUT_OF_MEMORY), "out of memory");
  EXPECT_STREQ(qn_status_string(QN_IO_ERROR), "input/output error");
  EXPECT_STREQ(qn_status_string(QN_BAD_MODEL), "bad model");
  EXPECT_STREQ(qn_status_string(QN_CANCELLED), "cancelled");
  EXPECT_STREQ(qn_status_string(static_cast<qn_status>(99)), "unknown status");
}

TEST(Status, FailReturnsTheStatusAndKeepsTheMessage) {
  EXPECT_EQ(fail(QN_BAD_MODEL, "layer %d of %s", 7, "net"), QN_BAD_MODEL);
  EXPECT_STREQ(qn_last_message(), "layer 7 of net");
}

TEST(Status, MessagesAreOneLineAndBounded) {
  fail(QN_BAD_MODEL, "a\nb\tc%s", "\x01");
  EXPECT_STREQ(qn_last_message(), "a?b?c?");
  fail(QN_BAD_MODEL, "%s", std::string(5000, 'x').c_str());
  EXPECT_EQ(std::string(qn_last_message()), std::string(511, 'x'));
}

TEST(Status, EveryThreadHasAMessageOfItsOwn) {
  fail(QN_IO_ERROR, "here");
  std::thread([] {
    EXPECT_STREQ(qn_last_message(), "");
    fail(QN_IO_ERROR, "there");
    EXPECT_STREQ(qn_last_message(), "there");
  }).join();
  EXPECT_STREQ(qn_last_message(), "here");
}

qn_status try_twice(qn_status first, int* reached) {
  QN_TRY(first);
  ++*reached;
  return QN_OK;
}

TEST(Status, TryReturnsTheFirstFailure) {
  int reached = 0;
  EXPECT_EQ(try_twice(QN_CANCELLED, &reached), QN_CANCELLED);
  EXPECT_EQ(reached, 0);
  EXPECT_EQ(try_twice(QN_OK, &reached), QN_OK);
  EXPECT_EQ(reached, 1);
}

TEST(Status, GuardedTurnsExceptionsIntoAStatus) {
  EXPECT_EQ(guarded([] { return QN_UNSUPPORTED; }), QN_UNSUPPORTED);
  EXPECT_EQ(guarded([]() -> qn_status { throw std::bad_alloc(); }), QN_OUT_OF_MEMORY);
  EXPECT_STREQ(qn_last_message(), "out of memory");
  EXPECT_EQ(guarded([]() -> qn_status { throw std::length_error("too long"); }), QN_OUT_OF_MEMORY);
  EXPECT_STREQ(qn_last_message(), "a size is too large");
}

TEST(Status, ACallThatSucceedsLeavesTheMessage) {
  auto succeeds = [] {
    fail(QN_UNSUPPORTED, "one way");
    return QN_OK;
  };
  const EarlierMessage none;
  EXPECT_EQ(guarded(succeeds), QN_OK);
  EXPECT_STREQ(qn_last_message(), "");
  EXPECT_EQ(qn_tensor_init(nullptr, QN_F32, 0, nullptr), QN_INVALID_ARGUMENT);
  const std::string message = qn_last_message();
  EXPECT_EQ(guarded(succeeds), QN_OK);
  EXPECT_EQ(qn_last_message(), message);
  EXPECT_EQ(guarded([&] {
              EXPECT_EQ(guarded(succeeds), QN_OK);
              return fail(QN_BAD_MODEL, "all ways");
            }),
            QN_BAD_MODEL);
  EXPECT_STREQ(qn_last_message(), "all ways");
  EXPECT_EQ(guarded([] { return QN_UNSUPPORTED; }), QN_UNSUPPORTED);
  EXPECT_STREQ(qn_last_message(), "") << "of an earlier call";
}

TEST(Log, GoesToTheUserUntilTakenBack) {
  std::vector<std::string> lines;
  qn_set_log(
      [](void* context, qn_log_level level, const char* line) {
        static_cast<std::vector<std::string>*>(context)->push_back(std::to_string(level) + " " + line);
      },
      &lines);
  log(QN_LOG_WARNING, "%d is odd", 3);
  qn_set_log(nullptr, nullptr);
  log(QN_LOG_WARNING, "nobody hears this");
  EXPECT_EQ(lines, std::vector<std::string>{"1 3 is odd"});
}

TEST(Version, IsThatOfTheHeader) {
  const std::string version = std::to_string(QN_VERSION_MAJOR) + "." + std::to_string(QN_VERSION_MINOR) + "." +
                              std::to_string(QN_VERSION_PATCH);
  EXPECT_EQ(qn_version(), version);
  EXPECT_EQ(qn_version_number(), QN_VERSION_MAJOR * 10000 + QN_VERSION_MINOR * 100 + QN_VERSION_PATCH);
  EXPECT_LT(QN_VERSION_MINOR, 100);
  EXPECT_LT(QN_VERSION_PATCH, 100);
}

}  // namespace status_test
}  // namespace quern
