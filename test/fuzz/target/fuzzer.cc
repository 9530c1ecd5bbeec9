// A reader of ../readers.h as libFuzzer calls it; see ../README.md.
//
//   quern_fuzzer --reader=onnx FOLDER              begins with the files in FOLDER
//   quern_fuzzer --reader=onnx --seeds=FOLDER      writes the seeds of this reader, and no more
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "../readers.h"
#include "convert/common/error.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace quern {
namespace {

const Reader* chosen = nullptr;

[[noreturn]] void stop(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(2);
}

const Reader* reader_of(const std::string& name) {
  std::string names;
  for (const Reader& reader : readers()) {
    if (reader.name == name) return &reader;
    names.append(" ").append(reader.name);
  }
  stop("--reader=NAME must be one of" + names);
}

// The value of an argument --NAME=VALUE; libFuzzer leaves those alone.
std::string argument(int argc, char** argv, const std::string& name) {
  const std::string begin = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], begin.c_str(), begin.size()) == 0) return argv[i] + begin.size();
  }
  return "";
}

void write_seeds(const std::string& folder) {
  for (const Seed& seed : chosen->seeds()) std::ofstream(folder + "/" + seed.name, std::ios::binary) << seed.bytes;
}

}  // namespace
}  // namespace quern

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  quern::chosen = quern::reader_of(quern::argument(*argc, *argv, "reader"));
  const std::string folder = quern::argument(*argc, *argv, "seeds");
  if (!folder.empty()) {
    quern::write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    quern::chosen->read({reinterpret_cast<const char*>(data), size});
  } catch (const quern::Error& error) {  // any other exception is a finding
    const std::string message = error.what();
    if (message.empty() || message.find('\n') != std::string::npos) {
      std::fprintf(stderr, "unclear error: '%s'\n", message.c_str());
      std::abort();
    }
  }
  return 0;
}

// Half of the mutations know the format; libFuzzer's own know what the code has compared bytes with.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  quern::Random random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string what;
  const std::string bytes =
      quern::mutate({reinterpret_cast<const char*>(data), size}, quern::chosen->format, random, &what);
  const size_t result = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), result);
  return result;
}
