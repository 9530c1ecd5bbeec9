#include <fmt/format.h>
#include <quern/extra.h>
#include <quern/quern.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/cpu.h"
#include "tool/command/command.h"
#include "tool/standard_output.h"

namespace quern {
namespace {

struct Command {
  const char* name;
  const char* summary;
  Action (*declare)(CLI::App&);
};
constexpr Command commands[] = {
    {"convert", "Convert a model of ONNX, TensorFlow, TensorFlow Lite, Keras or Caffe to .qn", convert_command},
    {"info", "Describe a model, or this machine", info_command},
    {"run", "Run a model on arrays or images", run_command},
    {"diff", "Find the first tensor in which two models differ", diff_command},
    {"bench", "Measure how fast a model runs", bench_command},
    {"profile", "Time each operator of a model", profile_command},
    {"predict", "Estimate the time on a phone's core that is not here", predict_command},
    {"eval", "Accuracy of a classifier on labelled images", eval_command},
    {"export", "Write a model as ONNX", export_command},
    {"prune", "Set the smallest weights of a model to 0, remove its smallest channels or split layers", prune_command},
    {"quantize", "Make a model compute with bytes", quantize_command},
    {"compress", "Make a model's file small", compress_command},
    {"zoo", "Make a reference architecture with random weights", zoo_command},
};

constexpr int failure = 1, usage_error = 2;

// Prints a message on one line, whatever characters are in the names that it quotes.
int complain(std::string message, int status) {
  for (char& c : message)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  std::fputs(("quern: " + message + "\n").c_str(), stderr);  // fmt::print would throw if this fails
  return status;
}

// Prints what the library logs.
void print_log(void*, qn_log_level, const char* line) { fmt::print(stderr, "quern: {}\n", line); }

int run(int argc, char** argv) {
  qn_set_log(print_log, nullptr);
  if (qn_extra_register() != QN_OK) return complain(qn_last_message(), failure);
  CLI::App app("Runs neural networks on CPUs.", "quern");
  app.set_version_flag("--version", std::string("quern ") + qn_version());
  app.require_subcommand(1);
  Action chosen;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->callback([&chosen, action = command.declare(*sub)] { chosen = action; });
  }
  const auto is_first = [&](const Command& command) { return std::strcmp(command.name, argv[1]) == 0; };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(std::begin(commands), std::end(commands), is_first))
    return complain(fmt::format("no command \"{}\" (see quern --help)", argv[1]), usage_error);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    std::ostringstream text;
    const int status = app.exit(done, text, text);
    fmt::print("{}", text.str());
    return status;
  } catch (const CLI::ParseError& error) {
    const auto used = app.get_subcommands();
    const std::string help = used.empty() ? "quern --help" : fmt::format("quern {} --help", used[0]->get_name());
    return complain(fmt::format("{} (see {})", error.what(), help), usage_error);
  }
  const int status = chosen();
  cpu();  // reports wrong environment variables also if the command did not ask; not before, as `bench --isa` sets one
  return status;
}

// Runs a command. Prints a message if it fails. Sets `unwritten` to the errno if standard output is the reason.
int run_and_complain(int argc, char** argv, int* unwritten) {
  try {
    return run(argc, argv);
  } catch (const CLI::ParseError& error) {  // arguments that contradict the model or each other
    return complain(error.what(), usage_error);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", failure);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return complain(error.what(), failure);
    *unwritten = error.code().value();
    return failure;
  } catch (const std::exception& error) {
    return complain(error.what(), failure);
  }
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
#ifdef __GLIBC__
  // Blocks as large as weights go back to the system when they are freed, whatever was freed before: glibc would raise
  // the limit, and keep files that have been read in memory for as long as a model is converted.
  mallopt(M_MMAP_THRESHOLD, 1 << 18);
#endif
  quern::open_standard_streams();
  int unwritten = 0;
  const int status = quern::run_and_complain(argc, argv, &unwritten);
  return quern::finish_output("quern", status, unwritten);
}
