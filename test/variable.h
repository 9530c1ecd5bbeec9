// A variable of this process's environment, as long as an object lives.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace quern {

// Sets the variable, or unsets it if `value` is NULL. Afterwards it is as before: tests run in any order, and twice.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(const char* value) const { value == nullptr ? unsetenv(name_) : setenv(name_, value, 1); }

  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace quern
