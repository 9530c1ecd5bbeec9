// The exception that importers, the exporter and the quern command throw.
#pragma once

#include <quern/base.h>

#include <stdexcept>
#include <string>

namespace quern {

// Its message is one line that says what is wrong and where. Messages quote names from files, so control characters are
// replaced: a file must not break the line or send commands to the terminal.
struct Error : std::runtime_error {
  explicit Error(const std::string& message) : std::runtime_error(printable(message)) {}

 private:
  static std::string printable(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return text;
  }
};

// Throws an Error with the library's message, unless the status is QN_OK.
inline void expect_ok(qn_status status) {
  if (status == QN_OK) return;
  const std::string message = qn_last_message();
  throw Error(message.empty() ? qn_status_string(status) : message);
}

}  // namespace quern
