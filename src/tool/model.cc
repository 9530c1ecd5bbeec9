#include "tool/model.h"

#include <fmt/format.h>
#include <fp16.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "convert/zoo/random.h"
#include "graph/file/format.h"
#include "graph/pass/observer.h"
#include "graph/pass/passes.h"
#include "tool/output/detections.h"

namespace quern {

void check(qn_status status) {
  if (status == QN_OK) return;
  const std::string message = qn_last_message();
  throw Error(message.empty() ? qn_status_string(status) : message);
}

std::vector<std::string> ModelFiles::paths() const {
  return weights.empty() ? std::vector<std::string>{model} : std::vector<std::string>{model, weights};
}

bool ModelFiles::is_quern() const { return model.ends_with(".qn") && weights.empty(); }

void add_model_files(CLI::App& app, ModelFiles* files) {
  app.add_option(
         "MODEL", files->model,
         "A .qn file, a model of ONNX, TensorFlow Lite (.tflite), TensorFlow (.pb) or Keras (.h5), or a Caffe network "
         "(.prototxt)")
      ->required();
  app.add_option("WEIGHTS", files->weights, "The Caffe network's weights (.caffemodel)");
}

void add_threads(CLI::App& app, size_t* threads, size_t (*all)()) {
  app.add_option("--threads", *threads, "How many threads run the model; 0: one for each fast core that they may use")
      ->transform(
          [all](const std::string& text) { return text == "0" && all != nullptr ? std::to_string(all()) : text; })
      ->check(CLI::Range(all != nullptr ? 1 : 0, 1024).description(""))
      ->type_name("N")
      ->capture_default_str();
}

Graph load_graph(const ModelFiles& files, const ImportOptions& options, const PassObserver* observer) {
  Graph graph = import_model(files.paths(), options);
  recognize_detections(&graph);
  if (files.is_quern() && options.outputs.empty()) return graph;
  check(observer == nullptr ? optimize(graph) : optimize(graph, *observer));
  return graph;
}

ModelPtr load_model(const ModelFiles& files, const std::vector<ImportOptions::Input>& sizes) {
  qn_model* model = nullptr;
  if (files.is_quern() && sizes.empty()) {
    check(qn_model_load_file(files.model.c_str(), nullptr, &model));
  } else {
    ImportOptions options;
    options.sizes = sizes;
    check(make_model(load_graph(files, options), nullptr, &model));
  }
  return ModelPtr(model);
}

qn_port input_port(const qn_model* model, size_t index) {
  qn_port port;
  qn_port_init(&port);
  check(qn_model_input(model, index, &port));
  return port;
}

qn_preprocessing input_preprocessing(const qn_model* model, size_t index) {
  qn_preprocessing preprocessing;
  qn_preprocessing_init(&preprocessing);
  check(qn_model_preprocessing(model, index, &preprocessing));
  return preprocessing;
}

std::vector<qn_port> input_ports(const qn_model* model) {
  std::vector<qn_port> ports;
  for (size_t i = 0; i < qn_model_input_count(model); ++i) ports.push_back(input_port(model, i));
  return ports;
}

std::vector<qn_port> output_ports(const qn_model* model) {
  std::vector<qn_port> ports(qn_model_output_count(model));
  for (size_t i = 0; i < ports.size(); ++i) {
    qn_port_init(&ports[i]);
    check(qn_model_output(model, i, &ports[i]));
  }
  return ports;
}

void add_tuning(CLI::App& app, TuningFlags* flags) {
  const auto nonempty = CLI::Validator([](std::string& name) { return name.empty() ? "no file" : ""; }, "");
  CLI::Option* tune =
      app.add_option("--tune", flags->tune,
                     "Measure algorithms and kernels for what FILE, if it exists, has no choice for, and store the "
                     "fastest there; takes a while")
          ->check(nonempty)
          ->type_name("FILE");
  app.add_option("--tuned", flags->tuned, "Use the choices stored in FILE")
      ->check(nonempty)
      ->type_name("FILE")
      ->excludes(tune);
}

void add_algorithm(CLI::App& app, qn_algorithm* algorithm) {
  std::vector<std::string> names;
  for (int a = QN_ALGORITHM_AUTO;; ++a) {
    const std::string name = qn_algorithm_string(static_cast<qn_algorithm>(a));
    if (name == "?") break;
    names.push_back(name);
  }
  const auto set = [algorithm, names](const std::string& name) {
    *algorithm = static_cast<qn_algorithm>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  app.add_option_function<std::string>(
         "--algorithm", set,
         fmt::format("Of convolutions and fully connected layers, where it applies: one of {}. sparse leaves out zero "
                     "weights, but of depthwise layers; dense never does",
                     fmt::join(names, ", ")))
      ->check(CLI::IsMember(names).description(""))
      ->type_name("NAME");
}

TuningFile::TuningFile(const TuningFlags& flags) : path_(flags.tune) {
  if (flags.tune.empty() && flags.tuned.empty()) return;
  qn_tuning* tuning = nullptr;
  check(qn_tuning_create(&tuning));
  tuning_.reset(tuning);
  const std::string& path = flags.tune.empty() ? flags.tuned : flags.tune;
  std::error_code error;
  if (path == flags.tuned || std::filesystem::exists(path, error)) check(qn_tuning_load_file(tuning, path.c_str()));
  saved_ = qn_tuning_count(tuning);
}

void TuningFile::set(qn_session_options* options) const {
  options->tuning = tuning_.get();
  options->tune = !path_.empty();
}

void TuningFile::save() {
  if (path_.empty() || qn_tuning_count(tuning_.get()) == saved_) return;
  check(qn_tuning_save_file(tuning_.get(), path_.c_str()));
  saved_ = qn_tuning_count(tuning_.get());
}

Threads::Threads(size_t count) {
  check(make_pool(count, &pool_));
  check(qn_parallel_from_pthreadpool(pool_.get(), &parallel_));
}

SessionPtr make_session(qn_model* model, const SessionSettings& settings) {
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = settings.threads;
  options.profile = settings.profile;
  options.algorithm = settings.algorithm;
  options.parallel = settings.parallel;
  options.arena = settings.arena;
  if (settings.any_size) options.memory_limit = SIZE_MAX;
  if (settings.tuning != nullptr) settings.tuning->set(&options);
  qn_session* session = nullptr;
  check(qn_session_create(model, &options, &session));
  return SessionPtr(session);
}

double run_session(qn_session* session, const std::vector<InputData>& inputs) {
  bool same = true;
  std::vector<qn_tensor> tensors;
  std::vector<const void*> data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    qn_tensor now;
    check(qn_session_input_tensor(session, i, &now));
    const bool carried = inputs[i].bytes.empty() && qn_tensor_bytes(&inputs[i].tensor) != 0;
    const qn_tensor& wanted = carried ? now : inputs[i].tensor;
    same = same && now.rank == wanted.rank && std::equal(now.shape, now.shape + now.rank, wanted.shape);
    tensors.push_back(wanted);
    data.push_back(carried ? nullptr : inputs[i].bytes.data());
  }
  if (!same) check(qn_session_resize_all(session, tensors.data()));
  const auto start = std::chrono::steady_clock::now();
  check(qn_session_run(session, data.data()));
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::vector<unsigned char> floats_as(const std::vector<float>& values, qn_type type) {
  const size_t item = qn_type_size(type);
  std::vector<unsigned char> bytes(values.size() * item);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = fp16_ieee_from_fp32_value(values[i]);
    if (type == QN_F32) {
      std::memcpy(&bytes[i * item], &values[i], sizeof(float));
    } else if (type == QN_F16) {
      std::memcpy(&bytes[i * item], &half, sizeof half);
    } else {
      throw Error("an input of integers takes no images or measured runs");
    }
  }
  return bytes;
}

std::vector<InputData> random_inputs(const qn_session* session, size_t count) {
  std::vector<InputData> inputs(count);
  zoo::Random random(1);
  for (size_t i = 0; i < count; ++i) {
    qn_tensor& tensor = inputs[i].tensor;
    check(qn_session_input_tensor(session, i, &tensor));
    const bool floats = tensor.type == QN_F32 || tensor.type == QN_F16;
    std::vector<float> values(qn_tensor_bytes(&tensor) / qn_type_size(tensor.type));
    for (float& value : values) value = 1.75f * random.even();  // variance 1
    if (floats) inputs[i].bytes = floats_as(values, tensor.type);
    if (floats) continue;
    inputs[i].bytes.resize(qn_tensor_bytes(&tensor));  // integers of 0 and 1, which every type has
    for (size_t k = 0; k < values.size(); ++k) inputs[i].bytes[k * qn_type_size(tensor.type)] = values[k] > 0;
  }
  return inputs;
}

std::string shape_text(const size_t* shape, size_t rank) {
  return fmt::format("{}", fmt::join(shape, shape + rank, "x"));
}

}  // namespace quern
