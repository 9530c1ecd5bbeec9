// The files that a command feeds to a model, one after the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tool/input/npy.h"
#include "tool/input/preprocess.h"
#include "tool/input/shapes.h"
#include "tool/model.h"

namespace quern {

// The files of one run: one for each input of the model; "" for a state that the run takes from the run before.
using Round = std::vector<std::string>;

// Returns how many rounds there are with these numbers of files or samples for each input. Throws CLI::ValidationError for
// `flag` if the numbers contradict each other, or an input other than a state has none.
size_t count_rounds(const char* flag, const std::vector<size_t>& counts, const qn_model* model);
// Returns which of the `count` files or samples of an input round `round` takes; nothing for a state that it takes from
// the round before.
std::optional<size_t> taken_in(size_t round, size_t count, bool state);
bool is_state(const qn_model* model, size_t input);

// Makes the rounds from the files for each input. An input with one file gets it in every round; inputs with several
// files get one after the other, and must have equally many. A state gets its file, if there is one, in the first round
// alone. Throws CLI::ValidationError for `flag`.
std::vector<Round> plan_rounds(const char* flag, const std::vector<std::vector<std::string>>& files,
                               const qn_model* model);

// What flags say about inputs: the flags for images, and --shape.
struct InputFlags {
  ImageFlags images;
  Sizes sizes;
};
void add_input_flags(CLI::App& app, InputFlags* flags);

// Makes the content of an input of the model from an image, or from an array. Throws Error, which calls it `who`, if it
// has another size than --shape says.
InputData make_input(Image image, const std::string& who, const qn_model* model, size_t index, const InputFlags& flags);
InputData make_input(const NpyArray& array, const std::string& who, const qn_model* model, size_t index,
                     const InputFlags& flags);
// Reads a .npy array or an image for an input of the model. The path may be "" for a state, as in a Round.
InputData read_input(const std::string& path, const qn_model* model, size_t index, const InputFlags& flags);

// --input [NAME=]FILE of commands that measure, and the input flags.
void add_measured_inputs(CLI::App& app, std::vector<std::string>* files, InputFlags* flags);

// Reads the arguments [NAME=]FILE of `flag`, one for each input. Without any, fills the session's inputs with random
// values, and warns of dynamic dimensions.
std::vector<InputData> read_or_make_inputs(const char* flag, const std::vector<std::string>& files,
                                           const qn_model* model, const qn_session* session, const InputFlags& flags);

// Plans the only round. Throws CLI::ValidationError for `flag` if an input has several files.
Round plan_round(const char* flag, const std::vector<std::string>& files, const qn_model* model);

// Returns the .npy arrays and pictures in a folder, sorted by name. Throws Error if there are none.
std::vector<std::string> inputs_in(const std::string& folder);

}  // namespace quern
