// Failing with a message.  Every internal function that can fail returns qn_status; the one that finds
// the fault writes the message, callers pass the status on with QN_TRY.
#pragma once

#include <quern/base.h>

#include <new>
#include <stdexcept>

#include "base/memory.h"

namespace quern {

// Records the message of the calling thread (printf format, one line) and returns `status`.
[[gnu::format(printf, 2, 3)]] qn_status fail(qn_status status, const char* format, ...);

// Sends a line to the user's log, if there is one.
[[gnu::format(printf, 2, 3)]] void log(qn_log_level level, const char* format, ...);

#define QN_TRY(expression)                            \
  do {                                                \
    const qn_status qn_try_status = (expression);     \
    if (qn_try_status != QN_OK) return qn_try_status; \
  } while (0)

// A failure on its way through functions that return something else; its message is recorded already.
struct Failure {
  qn_status status;
};

// The border of the C API: standard containers throw std::bad_alloc, callers get a status.
template <class Body>
qn_status guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const MemoryLimit::Exceeded& limit) {
    return fail(QN_OUT_OF_MEMORY, "more than the limit of %zu bytes is needed", limit.bytes);
  } catch (const std::bad_alloc&) {
    return fail(QN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return fail(QN_OUT_OF_MEMORY, "a size is too large");
  }
}

}  // namespace quern
