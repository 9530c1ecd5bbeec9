#include "op/conv/tuning.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>

#include "base/cpu.h"
#include "base/math.h"
#include "base/search.h"
#include "base/status.h"
#include "op/conv/choose.h"

namespace quern {
namespace {

constexpr std::string_view header = "quern-tuning 3";
constexpr std::string_view header_without_types = "quern-tuning 2";  // an older text: all its problems are of f32
constexpr size_t max_line = 1024;
// Arrays of characters need no relocation, as pointers to them would.
constexpr char operators[][16] = {"conv2d", "fully_connected"};  // indexed by TunedProblem::matrix
constexpr char strides[][12] = {"dense", "strided", "in_blocked", "out_blocked", "blocked"};  // indexed by Places

// The numbers of a line, in the order of TunedProblem::numbers.
struct Field {
  char name[9];
  uint8_t count;
  char separator;
};
constexpr Field fields[] = {
    {"inputs", 1, ' '}, {"input", 4, 'x'},    {"channels", 1, ' '}, {"groups", 1, ' '}, {"kernel", 2, 'x'},
    {"stride", 2, 'x'}, {"dilation", 2, 'x'}, {"padding", 4, ','},  {"stored", 2, ','}, {"tasks", 1, ' '},
};

// A line that is being read. Each function takes what it looks for off the beginning of the line, if it stands there.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  bool literal(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  // Accepts no leading zeros, so that equal problems have equal texts.
  bool number(size_t* value) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value);
    const auto digits = static_cast<size_t>(end - rest_.data());
    if (error != std::errc() || (digits > 1 && rest_[0] == '0')) return false;
    rest_.remove_prefix(digits);
    return true;
  }
  // Takes everything up to a space or the end of the line.
  std::string_view word() {
    const std::string_view found = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(found.size());
    return found;
  }
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// How much of `text` a message shows with %.*s: all of a short text, the beginning of a long one.
int shown(std::string_view text) { return static_cast<int>(std::min<size_t>(text.size(), 48)); }

// The index of `word` in a list of words; the size of the list if it is none of them.
template <class List>
size_t index_of(const List& list, std::string_view word) {
  return quern::place_of(list, [&](std::string_view known) { return known == word; });
}

// Do kernels of this level exist on this architecture?
bool level_of_ours(uint32_t isa) {
  return any_of(gemm_rows(), [&](const GemmRow& row) { return row.isa == isa; });
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= 64 && all_of(text, allowed);
}

qn_status read_numbers(const char* where, Line& line, TunedProblem* problem) {
  size_t* number = problem->numbers.data();
  for (const Field& field : fields) {
    if (!line.literal(" ") || !line.literal(field.name) || !line.literal("=")) {
      return fail(QN_INVALID_ARGUMENT, "%s: \"%s=\" should stand before \"%.*s\"", where, field.name,
                  shown(line.rest()), line.rest().data());
    }
    for (size_t i = 0; i < field.count; ++i) {
      if (i > 0 && !line.literal({&field.separator, 1})) {
        return fail(QN_INVALID_ARGUMENT, "%s: \"%s\" takes %zu numbers with '%c' between", where, field.name,
                    size_t{field.count}, field.separator);
      }
      if (!line.number(number++)) {
        return fail(QN_INVALID_ARGUMENT, "%s: \"%s\" has no number, or too large a one, before \"%.*s\"", where,
                    field.name, shown(line.rest()), line.rest().data());
      }
    }
  }
  return QN_OK;
}

qn_status read_level(const char* where, Line& line, TunedProblem* problem) {
  if (!line.literal(" strides=")) return fail(QN_INVALID_ARGUMENT, "%s: \"strides=\" is missing", where);
  const std::string_view word = line.word();
  const size_t index = index_of(strides, word);
  if (index == std::size(strides)) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown strides \"%.*s\"", where, shown(word), word.data());
  }
  problem->places = static_cast<TunedProblem::Places>(index);
  if (!line.literal(" isa=")) return fail(QN_INVALID_ARGUMENT, "%s: \"isa=\" is missing", where);
  const String level(line.word());
  problem->isa = isa_from_name(level.c_str());
  if (problem->isa != 0) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: unknown level \"%.48s\"", where, level.c_str());
}

qn_status read_type(const char* where, Line& line, TunedProblem* problem) {
  if (!line.literal(" type=")) return fail(QN_INVALID_ARGUMENT, "%s: \"type=\" is missing", where);
  const std::string_view word = line.word();
  problem->type = type_from_name(word);
  if (problem->type != KernelType::count) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: unknown type \"%.*s\"", where, shown(word), word.data());
}

qn_status read_choice(const char* where, Line& line, uint32_t isa, TunedChoice* choice) {
  const std::string_view algorithm = line.literal(" ") ? line.word() : "";
  choice->algorithm = algorithm_from_name(algorithm);
  if (choice->algorithm == QN_ALGORITHM_AUTO) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown algorithm \"%.*s\"", where, shown(algorithm), algorithm.data());
  }
  const std::string_view kernel = line.literal(" ") ? line.word() : "";
  if (!is_name(kernel) || (level_of_ours(isa) && !known_kernel(choice->algorithm, kernel))) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown kernel \"%.*s\" for algorithm %s", where, shown(kernel),
                kernel.data(), qn_algorithm_string(choice->algorithm));
  }
  choice->kernel = kernel;
  if (line.done()) return QN_OK;
  return fail(QN_INVALID_ARGUMENT, "%s: there is more after the kernel: \"%.*s\"", where, shown(line.rest()),
              line.rest().data());
}

qn_status read_line(const char* where, std::string_view text, bool typed, Tuning::Entry* entry) {
  if (text.size() > max_line) return fail(QN_INVALID_ARGUMENT, "%s: longer than %zu characters", where, max_line);
  Line line(text);
  const std::string_view op = line.word();
  const size_t index = index_of(operators, op);
  if (index == std::size(operators)) {
    return fail(QN_INVALID_ARGUMENT, "%s: unknown operator \"%.*s\"", where, shown(op), op.data());
  }
  TunedProblem problem;
  problem.matrix = index == 1;
  QN_TRY(read_numbers(where, line, &problem));
  QN_TRY(read_level(where, line, &problem));
  if (typed) QN_TRY(read_type(where, line, &problem));
  entry->problem = text.substr(0, text.size() - line.rest().size());
  if (!typed) entry->problem.append(" type=").append(type_name(KernelType::f32));
  return read_choice(where, line, problem.isa, &entry->choice);
}

// The place of a line, "name:number", as messages show it.
struct Place {
  char text[256];
  Place(const char* name, size_t number) { std::snprintf(text, sizeof text, "%.200s:%zu", name, number); }
};

// Checks the first line of a text, and reads each line after it into an entry.
qn_status read_lines(const char* name, std::string_view text, Tuning::Entries* entries) {
  bool typed = true;
  for (size_t number = 1; number == 1 || !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (number > 1) {
      QN_TRY(read_line(Place(name, number).text, line, typed, &entries->emplace_back()));
    } else if (line == header_without_types) {
      typed = false;
    } else if (line != header) {
      return fail(QN_INVALID_ARGUMENT, "%s: the first line is not \"%s\"", Place(name, 1).text, header.data());
    }
  }
  return QN_OK;
}

// Sorts the entries, which are in the order of their lines, by problem. Fails if two lines have the same problem.
qn_status sort_entries(const char* name, Tuning::Entries* entries) {
  Vector<uint32_t> order(entries->size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto problem = [&](uint32_t i) -> const String& { return (*entries)[i].problem; };
  heap_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int compared = compare(problem(a), problem(b));
    return compared < 0 || (compared == 0 && a < b);
  });
  size_t second = SIZE_MAX;  // the first entry that repeats the problem of an earlier line
  for (size_t i = 1; i < order.size(); ++i) {
    if (problem(order[i]) == problem(order[i - 1])) second = std::min<size_t>(second, order[i]);
  }
  if (second != SIZE_MAX) {
    constexpr size_t first_line = 2;
    return fail(QN_INVALID_ARGUMENT, "%s: an earlier line has the same problem", Place(name, second + first_line).text);
  }
  Tuning::Entries sorted;
  sorted.reserve(order.size());
  for (const uint32_t i : order) sorted.push_back(std::move((*entries)[i]));
  *entries = std::move(sorted);
  return QN_OK;
}

}  // namespace

String TunedProblem::text() const {
  String text(operators[matrix]);
  const size_t* number = numbers.data();
  for (const Field& field : fields) {
    text.append(" ").append(field.name);
    for (size_t i = 0; i < field.count; ++i) {
      text += i == 0 ? '=' : field.separator;
      // Not std::to_string, which takes memory past our allocator, nor std::to_chars, which libc++ before 15 keeps in
      // its runtime library.
      char digits[24];
      text.append({digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%zu", *number++))});
    }
  }
  return text.append(" strides=")
      .append(strides[places])
      .append(" isa=")
      .append(isa_name(isa))
      .append(" type=")
      .append(type_name(type));
}

size_t Tuning::place_of(const String& problem) const {
  const auto place = std::lower_bound(entries_.begin(), entries_.end(), problem,
                                      [](const Entry& entry, const String& p) { return entry.problem < p; });
  return static_cast<size_t>(place - entries_.begin());
}

bool Tuning::has(size_t place, const String& problem) const {
  return place < entries_.size() && entries_[place].problem == problem;
}

bool Tuning::find(const String& problem, TunedChoice* choice) const {
  const Lock lock(mutex_);
  const size_t place = place_of(problem);
  if (!has(place, problem)) return false;
  *choice = entries_[place].choice;
  return true;
}

void Tuning::set(const String& problem, const TunedChoice& choice) {
  const Lock lock(mutex_);
  if (entries_.size() == entries_.capacity()) {
    publish(block_of(this), [&] { entries_.reserve(2 * entries_.size() + 1); });
  }
  const size_t place = place_of(problem);
  publish(block_of(this), [&] {
    Entry entry = {problem, choice};
    if (has(place, problem)) {
      entries_[place] = std::move(entry);
    } else {
      entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(place), std::move(entry));
    }
  });
}

qn_status Tuning::read(const char* name, std::string_view text) {
  Entries read, all;
  QN_TRY(read_lines(name, text, &read));
  QN_TRY(sort_entries(name, &read));
  const Lock lock(mutex_);
  all.reserve(read.size() + entries_.size());
  // From here on nothing takes memory, so nothing fails. An entry that was read replaces the one for the same problem.
  auto known = entries_.begin();
  for (Entry& entry : read) {
    for (; known != entries_.end() && known->problem < entry.problem; ++known) all.push_back(std::move(*known));
    if (known != entries_.end() && known->problem == entry.problem) ++known;
    all.push_back(std::move(entry));
  }
  std::move(known, entries_.end(), std::back_inserter(all));
  entries_ = std::move(all);
  return QN_OK;
}

String Tuning::text() const {
  String text(header);
  text += '\n';
  const Lock lock(mutex_);
  for (const auto& [problem, choice] : entries_) {
    text.append(problem).append(" ").append(qn_algorithm_string(choice.algorithm));
    text.append(" ").append(choice.kernel).append("\n");
  }
  return text;
}

Tuning::Entries Tuning::entries() const {
  const Lock lock(mutex_);
  return entries_;
}

size_t Tuning::count() const {
  const Lock lock(mutex_);
  return entries_.size();
}

}  // namespace quern

using quern::fail;

extern "C" {

qn_status qn_tuning_create(qn_tuning** tuning) {
  return quern::guarded([=] {
    if (tuning == nullptr) return fail(QN_INVALID_ARGUMENT, "qn_tuning_create: tuning is NULL");
    std::unique_ptr<qn_tuning> made(new qn_tuning);
    made->impl = quern::make_shared<quern::Tuning>();
    *tuning = made.release();
    return QN_OK;
  });
}

qn_status qn_tuning_load_memory(qn_tuning* tuning, const char* text, size_t size) {
  return quern::guarded([=] {
    if (tuning == nullptr || text == nullptr) {
      return fail(QN_INVALID_ARGUMENT, "qn_tuning_load_memory: an argument is NULL");
    }
    return tuning->impl->read("qn_tuning_load_memory", {text, size});
  });
}

size_t qn_tuning_count(const qn_tuning* tuning) { return tuning == nullptr ? 0 : tuning->impl->count(); }
void qn_tuning_release(qn_tuning* tuning) { delete tuning; }

}  // extern "C"
