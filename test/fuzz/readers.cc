#include "readers.h"

#include <quern/extra.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "coder.h"
#include "convert/convert.h"
#include "convert/keras/keras.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "guard.h"
#include "plan.h"

namespace quern {
namespace {

// What a session may take for a model of the seeds' sizes; damaged ones that want more must get a clear refusal.
constexpr size_t session_memory = size_t{128} << 20;
// A model that came out larger than this is not run: it would be slow without being wrong.
constexpr size_t largest_run = size_t{4} << 20;

// Cancels a session's run after a second of computing: the loop of a valid model may have any number of rounds.
class Stopwatch {
 public:
  explicit Stopwatch(qn_session* session) {
    running() = session;
    std::signal(SIGPROF, [](int) {
      if (qn_session* late = running()) qn_session_cancel(late);
    });
    set(1);
  }
  ~Stopwatch() {
    set(0);
    running() = nullptr;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  static std::atomic<qn_session*>& running() {
    static std::atomic<qn_session*> session{nullptr};
    return session;
  }
  static void set(time_t seconds) {
    const itimerval time = {{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &time, nullptr);
  }
};

void run_on_zeros(qn_session* session, const qn_model* model) {
  std::vector<std::vector<char>> buffers;
  std::vector<const void*> inputs;
  for (size_t i = 0; i < qn_model_input_count(model); ++i) {
    qn_tensor tensor;
    require(qn_session_input_tensor(session, i, &tensor));
    const size_t bytes = qn_tensor_bytes(&tensor);
    if (bytes > largest_run) return;
    buffers.emplace_back(bytes);
    inputs.push_back(buffers.back().data());
  }
  const Stopwatch stopwatch(session);
  require(qn_session_run(session, inputs.data()));
  for (size_t i = 0; i < qn_model_output_count(model); ++i) {
    const void* data = nullptr;
    require(qn_session_output(session, i, &data));
  }
}

void read_quern(const std::string& bytes) {
  // Exactly as many bytes as the file has, so that a sanitizer sees a read beyond.
  const std::unique_ptr<void, void (*)(void*)> image(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64), std::free);
  std::memcpy(image.get(), bytes.data(), bytes.size());
  qn_model* model = nullptr;
  require(qn_model_load_memory(image.get(), bytes.size(), nullptr, &model));
  const ModelOwner owner(model);
  use_model(model);
}

template <Graph (*import)(const std::string&, const ImportOptions&)>
void read_file_with(const std::string& bytes, const char* extension) {
  const TemporaryFile file(extension);
  file.write(bytes);
  use_graph(import(file.path(), {}));
}

void read_onnx(const std::string& bytes) { read_file_with<import_onnx>(bytes, ".onnx"); }
void read_tflite(const std::string& bytes) { read_file_with<import_tflite>(bytes, ".tflite"); }
void read_tensorflow(const std::string& bytes) { read_file_with<import_tensorflow>(bytes, ".pb"); }
void read_tensorflow_text(const std::string& bytes) { read_file_with<import_tensorflow>(bytes, ".pbtxt"); }

void read_caffe(const std::string& bytes) {
  const TemporaryFile net(".prototxt"), weights(".caffemodel");
  const auto [text, content] = two_parts(bytes);
  net.write(text);
  weights.write(content);
  use_graph(import_caffe(net.path(), content.empty() ? "" : weights.path()));
}

void read_keras(const std::string& bytes) {
  const auto [config, stream] = two_parts(bytes);
  keras::Contents contents = contents_of_stream(stream);
  contents.config = config;
  use_graph(keras::import_contents(contents, {}));
}

std::vector<Seed> all_onnx_seeds() {
  std::vector<Seed> seeds = onnx_seeds();
  for (Seed& seed : onnx_operator_seeds()) seeds.push_back(std::move(seed));
  return seeds;
}

}  // namespace

const std::vector<Reader>& readers() {
  require(qn_extra_register());
  static const std::vector<Reader> table = {
      {"qn", Format::quern, quern_seeds, read_quern, 1800},
      {"onnx", Format::protobuf, all_onnx_seeds, read_onnx, 1800},
      {"tflite", Format::bytes, tflite_seeds, read_tflite, 900},
      {"pb", Format::protobuf, tensorflow_seeds, read_tensorflow, 600},
      {"pbtxt", Format::text, tensorflow_text_seeds, read_tensorflow_text, 250},
      {"caffe", Format::text_and_protobuf, caffe_seeds, read_caffe, 1000},
      {"keras", Format::text_and_bytes, keras_seeds, read_keras, 750},
      {"coder", Format::bytes, coder_seeds, read_coder, 1500},
      {"plan", Format::text, plan_seeds, read_plan, 250},
  };
  return table;
}

void require(qn_status status) {
  if (status != QN_OK) throw Error(qn_last_message());
}

// What an importer accepts, a session must take: another refusal than for lack of memory is a fault of the importer, and
// ends the process.
void expect_taken(qn_status status) {
  if (status != QN_OK && status != QN_OUT_OF_MEMORY) {
    std::fprintf(stderr, "imported, but refused then: %s\n", qn_last_message());
    std::abort();
  }
  require(status);
}

// Whether all tensors fit the memory of a session. Kernels do not address images of gigabytes.
bool has_usual_sizes(const Graph& graph) {
  return std::all_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& tensor) {
    size_t bytes;
    return tensor_size(tensor.type, tensor.shape, &bytes) && bytes <= session_memory;
  });
}

void use_model(qn_model* model, const qn_session_options* options, void (*check)(qn_status)) {
  const AllocatorBudget budget(session_memory);
  qn_session* session = nullptr;
  check(qn_session_create(model, options, &session));
  const std::unique_ptr<qn_session, Release> owner(session);
  if (qn_session_memory(session) <= largest_run) run_on_zeros(session, model);
}

void use_graph(Graph graph) {
  void (*const check)(qn_status) = has_usual_sizes(graph) ? expect_taken : require;
  require(optimize(graph));  // convert refuses what it refuses
  qn_model* model = nullptr;
  check(make_model(std::move(graph), nullptr, &model));
  const ModelOwner owner(model);
  use_model(model, nullptr, check);
}

}  // namespace quern
