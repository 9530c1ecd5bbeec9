#include "base/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace quern {
namespace {

thread_local char message[512] = "";

struct Log {
  qn_log_fn function = nullptr;
  void* context = nullptr;
};
Log user_log;

}  // namespace

#ifndef QN_NO_MESSAGES
namespace {

// Names come from model files: keep the message on one line.
void replace_controls(char* text) {
  for (char* c = text; *c != '\0'; ++c) {
    if (static_cast<unsigned char>(*c) < ' ') *c = '?';
  }
}

}  // namespace

qn_status fail(qn_status status, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  replace_controls(message);
  return status;
}

qn_status fail_within(qn_status status, const char* format, ...) {
  char where[sizeof message];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(where, sizeof where, format, arguments);
  va_end(arguments);
  char what[sizeof message];
  std::strcpy(what, message);
  return fail(status, "%s: %s", where, what);
}
#endif

EarlierMessage::EarlierMessage() {
  static_assert(sizeof text_ == sizeof message);
  std::memcpy(text_, message, sizeof text_);
  message[0] = '\0';
}

void EarlierMessage::put_back() const { std::memcpy(message, text_, sizeof message); }

qn_status fail_without(const char* kind, const char* name) {
  std::snprintf(message, sizeof message, "this trimmed build has no %s %s", kind, name);
  return QN_UNSUPPORTED;
}

void log(qn_log_level level, const char* format, ...) {
  if (user_log.function == nullptr) return;
  char line[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  call_host(user_log.function, user_log.context, level, static_cast<const char*>(line));
}

}  // namespace quern

#define QN_STRING_OF(x) #x
#define QN_STRING(x) QN_STRING_OF(x)

extern "C" {

const char* qn_status_string(qn_status status) {
  switch (status) {
    case QN_OK: return "ok";
    case QN_INVALID_ARGUMENT: return "invalid argument";
    case QN_UNSUPPORTED: return "unsupported";
    case QN_OUT_OF_MEMORY: return "out of memory";
    case QN_IO_ERROR: return "input/output error";
    case QN_BAD_MODEL: return "bad model";
    case QN_CANCELLED: return "cancelled";
  }
  return "unknown status";
}

const char* qn_last_message(void) { return quern::message; }

const char* qn_version(void) {
  return QN_STRING(QN_VERSION_MAJOR) "." QN_STRING(QN_VERSION_MINOR) "." QN_STRING(QN_VERSION_PATCH);
}

int qn_version_number(void) { return QN_VERSION_NUMBER; }

void qn_set_log(qn_log_fn function, void* context) { quern::user_log = {function, context}; }

}  // extern "C"
