// A test leaves the environment's variables as they were: others run before and after it, in any order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

namespace quern::test {
namespace {

std::set<std::string> variables() {
  std::set<std::string> all;
  for (char** v = environ; v != nullptr && *v != nullptr; ++v) all.insert(*v);
  return all;
}

class Watch : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { before_ = variables(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (variables() != before_) ADD_FAILURE() << test.name() << " leaves other variables; see test/variable.h";
  }

 private:
  std::set<std::string> before_;
};

struct Add : testing::Environment {
  Add() { testing::UnitTest::GetInstance()->listeners().Append(new Watch); }
};
[[maybe_unused]] const auto* const watch = testing::AddGlobalTestEnvironment(new Add);

}  // namespace
}  // namespace quern::test
