// The part of commands that handles models: finding, loading, running.
#pragma once

#include <quern/graph.h>

#include <memory>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/thread_pool.h"
#include "convert/convert.h"

namespace CLI {
class App;
}

namespace quern {

struct PassObserver;  // graph/pass/observer.h

// Throws Error with the library's message if `status` is not QN_OK.
void check(qn_status status);

struct ReleaseModel {
  void operator()(qn_model* model) const { qn_model_release(model); }
};
struct ReleaseSession {
  void operator()(qn_session* session) const { qn_session_release(session); }
};
using ModelPtr = std::unique_ptr<qn_model, ReleaseModel>;
using SessionPtr = std::unique_ptr<qn_session, ReleaseSession>;

// The arguments MODEL [WEIGHTS].
struct ModelFiles {
  std::string model, weights;
  std::vector<std::string> paths() const;
  bool is_quern() const;  // is the model a .qn file, and so converted already?
};
void add_model_files(CLI::App& app, ModelFiles* files);
// --threads N. 0 becomes what all() returns; without it, 0 stays.
void add_threads(CLI::App& app, size_t* threads, size_t (*all)() = usable_cores);

// Imports and optimises a model. A .qn file was optimised when it was made, and is optimised again only if `options`
// change its outputs. Detections of known kinds of nodes are recognized. The observer, if there is one, sees what passes do.
Graph load_graph(const ModelFiles& files, const ImportOptions& options = {}, const PassObserver* observer = nullptr);
// Loads a model: maps a .qn file, or converts a model of another format in memory. Its inputs get these sizes.
ModelPtr load_model(const ModelFiles& files, const std::vector<ImportOptions::Input>& sizes = {});

qn_port input_port(const qn_model* model, size_t index);
qn_preprocessing input_preprocessing(const qn_model* model, size_t index);
std::vector<qn_port> input_ports(const qn_model* model);
std::vector<qn_port> output_ports(const qn_model* model);

// --tune FILE | --tuned FILE
struct TuningFlags {
  std::string tune, tuned;
};
void add_tuning(CLI::App& app, TuningFlags* flags);

// --algorithm NAME
void add_algorithm(CLI::App& app, qn_algorithm* algorithm);

// The file of measured choices that a command uses while it runs.
class TuningFile {
 public:
  explicit TuningFile(const TuningFlags& flags);
  void set(qn_session_options* options) const;
  // Writes the choices that --tune has measured since the last time, if there are any.
  void save();

 private:
  struct Release {
    void operator()(qn_tuning* tuning) const { qn_tuning_release(tuning); }
  };
  std::string path_;  // of --tune
  std::unique_ptr<qn_tuning, Release> tuning_;
  size_t saved_ = 0;  // choices written so far
};

// The threads of a session, which other work may use between its runs. One thread is the caller.
class Threads {
 public:
  explicit Threads(size_t count);
  const qn_parallel* parallel() const { return pool_ == nullptr ? nullptr : &parallel_; }

 private:
  Pool pool_;
  qn_parallel parallel_ = {};
};

struct SessionSettings {
  size_t threads = 1;
  bool profile = false;
  const TuningFile* tuning = nullptr;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  const qn_parallel* parallel = nullptr;  // NULL: the session has threads of its own
  bool any_size = false;                  // the user has asked for the sizes of inputs: they may take any memory
  qn_arena* arena = nullptr;              // NULL: the session has one of its own
};
SessionPtr make_session(qn_model* model, const SessionSettings& settings);

// One input tensor with its content; without a byte, the session's state is read, in its shape.
struct InputData {
  qn_tensor tensor;
  std::vector<unsigned char> bytes;
};
// Resizes the session if the inputs have other sizes, then runs it. Returns the milliseconds of the run alone.
double run_session(qn_session* session, const std::vector<InputData>& inputs);

// Returns the same numbers as elements of `type`, a float type.
std::vector<unsigned char> floats_as(const std::vector<float>& values, qn_type type);

// Inputs for measurements: each of the session's inputs at its size, filled with random numbers that are the same every
// time.
std::vector<InputData> random_inputs(const qn_session* session, size_t count);

// "1x3x224x224"
std::string shape_text(const size_t* shape, size_t rank);

}  // namespace quern
