// The files that a command feeds to a model, one after the other.
#pragma once

#include <string>
#include <vector>

#include "tool/input/preprocess.h"
#include "tool/model.h"

namespace quern {

// The files of one run: one for each input of the model; "" for a state that the run takes from the run before.
using Round = std::vector<std::string>;

// Makes the rounds from the files for each input. An input with one file gets it in every round; inputs with several
// files get one after the other, and must have equally many. A state gets its file, if there is one, in the first round
// alone. Throws CLI::ValidationError for `flag`.
std::vector<Round> plan_rounds(const char* flag, const std::vector<std::vector<std::string>>& files,
                               const qn_model* model);

// Reads a .npy array or a picture for an input of the model. The path may be "" for a state, as in a Round.
InputData read_input(const std::string& path, const qn_model* model, size_t index, const ImageFlags& flags);

// Returns the .npy arrays and pictures in a folder, sorted by name. Throws Error if there are none.
std::vector<std::string> inputs_in(const std::string& folder);

}  // namespace quern
