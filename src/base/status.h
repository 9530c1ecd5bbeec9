// Failing with a message.  Every internal function that can fail returns qn_status; the one that finds
// the fault writes the message, callers pass the status on with QN_TRY.
#pragma once

#include <quern/base.h>

#include "base/border.h"

namespace quern {

#ifdef QN_NO_MESSAGES
// Nothing but what a trimmed build lacks has a message.
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
// Puts where that was before the message that is recorded, and ": " in between.
[[gnu::format(printf, 2, 3)]] qn_status fail_within(qn_status status, const char* format, ...);
#endif
// QN_UNSUPPORTED, because a trimmed build has no operator, or algorithm, of this name.
qn_status fail_without(const char* kind, const char* name);

// The calling thread's message, which it takes away, and can put back.
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
