// Failing with a message. Every internal function that can fail returns qn_status; the function that finds the fault
// writes the message, and its callers pass the status on with QN_TRY.
#pragma once

#include <quern/base.h>

#include "base/border.h"

namespace quern {

#ifdef QN_NO_MESSAGES
// In such a build fail_without() alone leaves a message.
template <class... Arguments>
qn_status fail(qn_status status, const char*, const Arguments&...) {
  return status;
}
template <class... Arguments>
qn_status fail_within(qn_status status, const char*, const Arguments&...) {
  return status;
}
#else
// Records the message of the calling thread (printf format, one line) and returns `status`.
[[gnu::format(printf, 2, 3)]] qn_status fail(qn_status status, const char* format, ...);
// Puts text that says where the failure was, and ": ", in front of the message that is recorded already.
[[gnu::format(printf, 2, 3)]] qn_status fail_within(qn_status status, const char* format, ...);
#endif
// Returns QN_UNSUPPORTED: a trimmed build does not contain the operator or algorithm (`kind`) of this name.
qn_status fail_without(const char* kind, const char* name);

// Takes the calling thread's message away; put_back() restores it.
class EarlierMessage {
 public:
  EarlierMessage();
  void put_back() const;

 private:
  char text_[512];
};

// Sends a line to the user's log, if there is one.
[[gnu::format(printf, 2, 3)]] void log(qn_log_level level, const char* format, ...);

#define QN_TRY(expression)                            \
  do {                                                \
    const qn_status qn_try_status = (expression);     \
    if (qn_try_status != QN_OK) return qn_try_status; \
  } while (0)

}  // namespace quern
