// Where the quern command prints: a full disk, a pipe that nobody reads, a closed stream, terminals.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "../variable.h"
#include "command_fixture.h"

namespace quern {
namespace terminal_test {

class CommandOutput : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    spill(dir / "truth.csv", "file,label\na.png,1\n");
  }
};

// Every command that prints something.
const std::vector<std::vector<std::string>> printing = {
    {"--help"},
    {"--version"},
    {"convert", "tiny.qn", "-o", "out.qn", "--verbose"},
    {"info", "tiny.qn"},
    {"info", "tiny.qn", "--json"},
    {"info", "tiny.qn", "--needs"},
    {"run", "tiny.qn", "--input", "a.png"},
    {"run", "tiny.qn", "--input", "a.png", "--json"},
    {"diff", "tiny.qn", "tiny.qn", "--input", "a.png"},
    {"bench", "tiny.qn", "--runs", "1"},
    {"profile", "tiny.qn", "--runs", "1"},
    {"predict", "tiny.qn", "--core", "a53"},
    {"eval", "tiny.qn", "--images", ".", "--truth", "truth.csv"},
    {"prune", "tiny.qn", "-o", "out.qn", "--sparsity", "0.5"},
    {"quantize", "tiny.qn", "-o", "out.qn", "--calibrate", "a.png"},
    {"compress", "tiny.qn", "-o", "out.qn"},
    {"zoo", "--help"},
    {"export", "--help"},
};

TEST_F(CommandOutput, FailsOnAFullDisk) {
  for (const std::vector<std::string>& arguments : printing) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(arguments, " ")));
    ASSERT_NE(quern(arguments).out, "");
    const Result r = run_quern(dir, arguments, {"/dev/full"});
    EXPECT_EQ(r.status, 1);
    EXPECT_EQ(r.err, "quern: cannot write standard output: No space left on device\n");
  }
}

TEST_F(CommandOutput, FailsOnAFullDiskWithoutAWord) {  // standard error is full, too
  EXPECT_EQ(run_quern(dir, {"info", "tiny.qn"}, {"/dev/full", "/dev/full"}).status, 1);
  EXPECT_EQ(run_quern(dir, {"info", "missing.qn"}, {"/dev/full", "/dev/full"}).status, 1);
  EXPECT_EQ(run_quern(dir, {"frobnicate"}, {"/dev/full", "/dev/full"}).status, 2);
}

TEST_F(CommandOutput, KeepsTheStatusOfAnotherError) {
  const Result r = run_quern(dir, {"run", "tiny.qn", "--input", "a.png", "--expect", "missing.npy"}, {"/dev/full"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("quern: missing.npy: "), std::string::npos) << r.err;
}

TEST_F(CommandOutput, EndsSilentlyWhenTheReaderLeaves) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const std::string abandoned = fmt::format("&{}", ends[1]);
  for (const bool ignored : {false, true}) {
    const auto before = std::signal(SIGPIPE, ignored ? SIG_IGN : SIG_DFL);
    for (const std::vector<std::string>& arguments : printing) {
      SCOPED_TRACE(fmt::format("{}, SIGPIPE ignored: {}", fmt::join(arguments, " "), ignored));
      const Result r = run_quern(dir, arguments, {abandoned});
      EXPECT_EQ(r.status, 128 + SIGPIPE);  // as the shell reports a signal
      EXPECT_EQ(r.err, "");
    }
    std::signal(SIGPIPE, before);
  }
  close(ends[1]);
}

// A file that the command opens does not become its standard output.
TEST_F(CommandOutput, FailsOnAClosedStream) {
  const std::vector<std::string> verbose = {"convert", "tiny.qn", "-o", "x.qn", "--verbose"};
  const Result r = run_quern(dir, verbose, {"&-"});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err, "quern: cannot write standard output: Bad file descriptor\n");
  EXPECT_EQ(run_quern(dir, {"convert", "tiny.qn", "-o", "y.qn"}, {"&-", "&-"}).status, 0);  // prints nothing
  succeeds({"info", "y.qn"});
}

// Runs `quern eval` with standard error on a terminal of a kind and a width. Returns what the terminal gets.
std::optional<std::string> shown_on_terminal(const fs::path& dir, const char* kind, unsigned short columns) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return {};
  const winsize size = {24, columns, 0, 0};
  ioctl(terminal, TIOCSWINSZ, &size);
  const Variable term("TERM", kind);
  const std::vector<std::string> arguments = {"eval", "tiny.qn", "--images", ".", "--truth", "truth.csv"};
  const Result r = run_quern(dir, arguments, {".out", ptsname(terminal)});
  EXPECT_EQ(r.status, 0) << r.out;  // otherwise it may never have opened the terminal, and reading would wait for it
  EXPECT_NE(r.out.find("1 images"), std::string::npos);
  std::string shown;
  char part[4096];
  for (ssize_t count; r.status == 0 && (count = read(terminal, part, sizeof part)) > 0;) {  // arrives in any parts
    shown.append(part, static_cast<size_t>(count));
  }
  close(terminal);
  return shown;
}

TEST_F(CommandOutput, ProgressIsABarOrLines) {
  const std::string bar = "\r[########################################] 1/1 images";
  const std::string wiped = "\r\x1b[K", line = "1/1 images\r\n";  // the terminal adds the \r
  const struct {
    const char* kind;
    unsigned short columns;
    std::string shown;
  } cases[] = {
      {"xterm", 80, bar + wiped}, {"xterm", 0, bar + wiped}, {"xterm", 54, bar + wiped}, {"xterm", 53, line},
      {"xterm", 20, line},        {"dumb", 80, line},        {nullptr, 80, line},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(fmt::format("{}, {} columns", c.kind == nullptr ? "no TERM" : c.kind, c.columns));
    const std::optional<std::string> shown = shown_on_terminal(dir, c.kind, c.columns);
    if (!shown) GTEST_SKIP() << "this machine has no pseudo-terminals";
    EXPECT_EQ(*shown, c.shown);
  }
}

}  // namespace terminal_test
}  // namespace quern
