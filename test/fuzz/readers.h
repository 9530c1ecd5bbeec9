// What reads files that others made: the importers, the loader with the runner, the coder by itself, plans. One table for
// the tests here and for libFuzzer.
#pragma once

#include <quern/quern.h>

#include <memory>
#include <string>
#include <vector>

#include "mutate.h"
#include "seeds.h"

namespace quern {

struct Reader {
  const char* name;  // of files: their extension
  Format format;
  std::vector<Seed> (*seeds)();
  // Reads a file of these bytes and runs the model on zeros, if it is small. Throws Error if that is refused.
  void (*read)(const std::string& bytes);
  size_t variants;  // that the tests make of the seeds
};

const std::vector<Reader>& readers();

// Throws qn_last_message() as an Error.
void require(qn_status status);

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
  void operator()(qn_tuning* tuning) const { qn_tuning_release(tuning); }
};
using ModelOwner = std::unique_ptr<qn_model, Release>;
using TuningOwner = std::unique_ptr<qn_tuning, Release>;

// Plans a model and runs it on zeros, for a second at most: a valid file may ask for more. `check` gets the status of
// planning.
void use_model(qn_model* model, const qn_session_options* options = nullptr, void (*check)(qn_status) = require);
// The same with what an importer made, after the optimizer's passes. Only memory may lack.
void use_graph(Graph graph);

}  // namespace quern
