// quern_mutate: how much of a kernel's code would the checker miss?
//
// Each instruction of an assembly kernel is overwritten with no-ops in turn, in a process of its own that runs the
// kernel's whole check. The check fails: the mutant is killed. It passes: the mutant survives, and survivors.txt must
// say why that is right. A mutant that survivors.txt explains counts as a survivor without being run, because a check
// that passes takes far longer than one that fails. Explanations may match more than the survivors, so if the score of
// a file is too low that way, these mutants run, too, until it suffices; all of them run with --explained. Instruction
// boundaries come from the disassembler. No-ops, which align loops, are no mutants: to overwrite them changes nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "base/cpu.h"
#include "checker.h"
#include "selftest.h"

namespace quern::check {
namespace {

struct Instruction {
  size_t offset, size;  // bytes from the symbol, bytes
  std::string text;
};
using Code = std::vector<Instruction>;
using Symbols = std::map<std::string, Code>;   // by name
using Files = std::map<std::string, Symbols>;  // by assembly file: asm/x86/gemm_f32_avx2.S

// Everything but no-ops that the disassembler says about the library's assembly objects, of those files that are wanted.
Files disassemble(const std::string& objdump, const std::string& library, const std::string& folder,
                  const std::function<bool(const std::string&)>& wanted) {
  static const std::regex object(R"((\S+\.S)\.o?b?j?:\s+file format.*)"), symbol(R"([0-9a-f]+ <(\w+)>:)"),
      instruction(R"(\s+([0-9a-f]+):\t((?:[0-9a-f]{2,8} )+)\s*(?:\t(.*))?)"),
      no_op(R"((nop|xchg\s+%?ax,%?ax|data16.*nop.*|cs nop.*)\b.*)");
  setenv("LC_ALL", "C", 1);               // objdump speaks the user's language
  setenv("LIBRARY", library.c_str(), 1);  // whose path may have any characters
  std::istringstream lines(output_of(objdump + " -d --wide --insn-width=16 \"$LIBRARY\""));
  Files files;
  Symbols* symbols = nullptr;
  Code* code = nullptr;
  size_t begin = 0;
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("file format") != std::string::npos) {
      const std::string file = std::regex_match(line, match, object) ? folder + "/" + match[1].str() : "";
      symbols = !file.empty() && wanted(file) ? &files[file] : nullptr;
      code = nullptr;
    } else if (symbols == nullptr) {
      continue;
    } else if (std::regex_match(line, match, symbol)) {
      code = &(*symbols)[match[1].str()];
      begin = std::stoul(line, nullptr, 16);
    } else if (code != nullptr && std::regex_match(line, match, instruction)) {
      if (std::regex_match(match[3].str(), no_op)) continue;
      const std::string bytes = match[2].str();
      const auto digits = std::count_if(bytes.begin(), bytes.end(), [](char c) { return c != ' '; });
      const size_t offset = std::stoul(match[1].str(), nullptr, 16) - begin;
      code->push_back({offset, static_cast<size_t>(digits) / 2, match[3].str()});
    }
  }
  return files;
}

// Survivors that are right: "kernel | instruction | reason", the first two as regular expressions over the whole text.
struct Explanation {
  std::regex kernel, instruction;
  std::string reason;
};

std::string trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<Explanation> read_explanations(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Explanation> list;
  for (std::string line; std::getline(file, line);) {
    if (trim(line).empty() || line[0] == '#') continue;
    const size_t first = line.find(" | "), second = line.find(" | ", first + 3);
    if (second == std::string::npos) throw std::runtime_error(path + ": not 'kernel | instruction | reason': " + line);
    list.push_back({std::regex(trim(line.substr(0, first))),
                    std::regex(trim(line.substr(first + 3, second - first - 3))), trim(line.substr(second + 3))});
  }
  return list;
}

constexpr double least_percent = 95;  // of a file's mutants that must be killed

struct Score {
  size_t mutants = 0, killed = 0, explained = 0;
  size_t unexplained() const { return mutants - killed - explained; }
  double percent() const {
    return mutants == 0 ? 100 : 100.0 * static_cast<double>(killed) / static_cast<double>(mutants);
  }
};

// An emulator translates code when it first runs. If the process of each mutant had to translate the checker, the
// translation would take most of its time. So the parent runs the checker first, and its children inherit the translation.
// On a real CPU they would only inherit more memory.
constexpr bool emulated = QUERN_EMULATED;

// Runs the part of the checker that follows a fault.
void run_bad_kernels() {
  for (const BadKernel& bad : bad_kernels()) {
    if ((bad.isa & ~cpu().isa) != 0) continue;
    Checker checker(bad.name, bad.kernel);
    bad.kernel.check(checker);
  }
}

// Runs the kernel's whole check, which passes.
void run_unchanged(const Kernel& kernel) {
  Checker checker(kernel.row->name, kernel);
  kernel.check(checker);
  if (checker.failed()) throw std::runtime_error("it fails unchanged: " + checker.failure());
}

size_t size_of(const Code& code) { return code.back().offset + code.back().size; }

// The kernel with some bytes of its code overwritten: does its whole check pass?
bool survives(const Kernel& kernel, const Instruction& instruction, size_t code_size) {
  return in_child([&] {
    trap_after(static_cast<const char*>(kernel.code) + code_size);
    overwrite_with_noops(static_cast<const char*>(kernel.code) + instruction.offset, instruction.size);
    Checker checker(kernel.row->name, kernel);
    kernel.check(checker);
    return !checker.failed();
  });
}

class Mutator {
 public:
  Mutator(std::vector<Explanation> explanations, bool verbose)
      : explanations_(std::move(explanations)), verbose_(verbose) {}

  // Runs the mutants of a kernel that nothing explains. The others count as explained survivors.
  Score mutate(const Kernel& kernel, const Code& code) const {
    if (emulated) run_unchanged(kernel);
    Score score;
    for (const Instruction& instruction : code) {
      ++score.mutants;
      const Explanation* why = explanation(kernel, instruction);
      const bool killed = why == nullptr && !survives(kernel, instruction, size_of(code));
      score.killed += killed;
      score.explained += why != nullptr;
      if (why == nullptr && !killed) tell(kernel, instruction, "survived", "NOT EXPLAINED");
      if (why != nullptr && verbose_) tell(kernel, instruction, "was not run", why->reason);
    }
    return score;
  }

  // Runs the mutants that are explained and counts those that are killed nevertheless, until the score suffices. From the
  // last one on: of the kernels of tiles, whose check may be emulated, those at the end die.
  void kill_explained(const Kernel& kernel, const Code& code, double percent, Score* score) const {
    for (size_t i = code.size(); i-- > 0;) {
      const Instruction& instruction = code[i];
      const Explanation* why = explanation(kernel, instruction);
      if (why == nullptr) continue;
      if (score->percent() >= percent) return;
      const bool alive = survives(kernel, instruction, size_of(code));
      score->killed += !alive, score->explained -= !alive;
      if (verbose_) tell(kernel, instruction, alive ? "survived" : "was killed", why->reason);
    }
  }

 private:
  const Explanation* explanation(const Kernel& kernel, const Instruction& instruction) const {
    for (const Explanation& e : explanations_) {
      if (std::regex_match(kernel.row->name, e.kernel) && std::regex_match(instruction.text, e.instruction)) return &e;
    }
    return nullptr;
  }
  static void tell(const Kernel& kernel, const Instruction& instruction, const char* fate, const std::string& why) {
    std::printf("%s+%#zx %s: %s  (%s)\n", kernel.row->name, instruction.offset, fate, instruction.text.c_str(),
                why.c_str());
  }

  std::vector<Explanation> explanations_;
  bool verbose_;
};

struct Options {
  std::vector<std::string> files, kernels;
  bool all = false, explained = false, verbose = false;
};

constexpr const char* usage =
    "usage: quern_mutate (--all | --file asm/ISA/NAME.S ... | --kernel NAME ...) [--explained] [--seed N] [--verbose]\n"
    "Prints the share of instructions per file, no-ops apart, whose loss the checker notices. Mutants that\n"
    "test/check/survivors.txt explains run with --explained, and where a file is below 95% without.\n"
    "Exit status: 1 when a file is below 95% or a survivor is not explained, 77 when this CPU runs none of the "
    "kernels.\n";

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--all") {
      options.all = true;
    } else if (option == "--explained") {
      options.explained = true;
    } else if (option == "--verbose") {
      options.verbose = true;
    } else if (i + 1 < argc && option == "--file") {
      options.files.push_back(argv[++i]);
    } else if (i + 1 < argc && option == "--kernel") {
      options.kernels.push_back(argv[++i]);
    } else if (i + 1 < argc && option == "--seed") {
      setenv("QUERN_SEED", argv[++i], 1);
    } else {
      return std::nullopt;
    }
  }
  if (!options.all && options.files.empty() && options.kernels.empty()) return std::nullopt;
  return options;
}

bool has(const std::vector<std::string>& list, const std::string& x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

bool file_wanted(const Options& options, const std::string& file) { return options.all || has(options.files, file); }

int run(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  // To read the text takes longer than to write it, most of all in an emulator. A kernel may be in any file.
  const auto read = [&](const std::string& file) { return !options.kernels.empty() || file_wanted(options, file); };
  const Files files = disassemble(QUERN_OBJDUMP, QUERN_LIBRARY, QUERN_ASM_FOLDER, read);
  Mutator mutator(read_explanations(QUERN_SOURCE_DIR "/test/check/survivors.txt"), options.verbose);
  std::map<std::string, Kernel> kernels;
  for (const Kernel& kernel : all_kernels()) kernels.emplace(kernel.row->name, kernel);

  if (emulated) run_bad_kernels();
  bool good = true;
  size_t found = 0, tried = 0;
  for (const auto& [file, symbols] : files) {
    Score score;
    std::vector<std::pair<Kernel, Code>> mutated;
    for (const auto& [name, code] : symbols) {
      if (!file_wanted(options, file) && !has(options.kernels, name)) continue;
      ++found;
      const auto kernel = kernels.find(name);
      if (kernel == kernels.end()) throw std::runtime_error(file + ": " + name + " is in no table");
      if (!can_check(kernel->second)) {
        std::printf("%s skipped: needs %s\n", name.c_str(), isa_name(kernel->second.row->isa));
        continue;
      }
      const Score one = mutator.mutate(kernel->second, code);
      score.mutants += one.mutants, score.killed += one.killed, score.explained += one.explained;
      mutated.emplace_back(kernel->second, code);
    }
    if (score.mutants == 0) continue;
    ++tried;
    const double enough = options.explained ? 101 : least_percent;  // 101: all of them run
    for (const auto& [kernel, code] : mutated) mutator.kill_explained(kernel, code, enough, &score);
    std::printf("%s: %zu instructions, %zu killed, %zu survivors explained, %zu not: %.1f%%\n", file.c_str(),
                score.mutants, score.killed, score.explained, score.unexplained(), score.percent());
    std::fflush(stdout);
    good = good && score.percent() >= least_percent && score.unexplained() == 0;
  }
  if (found == 0) throw std::runtime_error("no such file or kernel");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("mutation: %zu files, %.1f seconds, seed %llu\n", tried, seconds.count(),
              static_cast<unsigned long long>(seed()));
  if (tried == 0) return 77;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace quern::check

int main(int argc, char** argv) {
  const auto options = quern::check::parse(argc, argv);
  if (!options) {
    std::fprintf(stderr, "%s", quern::check::usage);
    return 2;
  }
  try {
    return quern::check::run(*options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "quern_mutate: %s\n", e.what());
    return 1;
  }
}
