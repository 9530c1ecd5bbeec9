// Reads and writes measured choices (op/conv/tuning.h) as files. The code stands here because op/ knows nothing of
// files.
#include "base/status.h"
#include "graph/file/mapped_file.h"
#include "graph/file/new_file.h"
#include "op/conv/tuning.h"

namespace quern {
namespace {

constexpr size_t max_file = size_t{16} << 20;

qn_status load(Tuning& tuning, const char* path) {
  Shared<const MappedFile> file;
  QN_TRY(map_file(path, &file));
  if (file->size() > max_file) return fail(QN_INVALID_ARGUMENT, "%s: larger than %zu bytes", path, max_file);
  return tuning.read(path, {static_cast<const char*>(file->data()), file->size()});
}

qn_status save(const Tuning& tuning, const char* path) {
  const String text = tuning.text();
  NewFile file;
  QN_TRY(file.create(path));
  QN_TRY(file.put(text.data(), text.size()));
  return file.finish();
}

}  // namespace
}  // namespace quern

extern "C" {

qn_status qn_tuning_load_file(qn_tuning* tuning, const char* path) {
  return quern::guarded([=] {
    if (tuning == nullptr || path == nullptr) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_tuning_load_file: an argument is NULL");
    }
    return quern::load(*tuning->impl, path);
  });
}

qn_status qn_tuning_save_file(const qn_tuning* tuning, const char* path) {
  return quern::guarded([=] {
    if (tuning == nullptr || path == nullptr) {
      return quern::fail(QN_INVALID_ARGUMENT, "qn_tuning_save_file: an argument is NULL");
    }
    return quern::save(*tuning->impl, path);
  });
}

}  // extern "C"
