// What programs (importers, exporter, the quern command) throw.
#pragma once

#include <quern/base.h>

#include <stdexcept>
#include <string>

namespace quern {

// One line that names what is wrong and where. Messages quote names from files: control characters are replaced, so
// that a file cannot break the line or talk to the terminal.
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

// Throws the library's message unless all is well.
inline void expect_ok(qn_status status) {
  if (status == QN_OK) return;
  const std::string message = qn_last_message();
  throw Error(message.empty() ? qn_status_string(status) : message);
}

}  // namespace quern
