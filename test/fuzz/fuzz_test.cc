// Damaged models, tuning files, pictures and arrays: each is refused with a clear error or loads normally, within 10 s
// and 1 GiB.
//
// QUERN_FUZZ_SEED and QUERN_FUZZ_SCALE (a multiplier of the number of variants) can be set; both are printed.
#include <gtest/gtest.h>
#include <quern/quern.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "../tool/pictures.h"
#include "convert/convert.h"
#include "convert/keras/keras.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "guard.h"
#include "mutate.h"
#include "seeds.h"
#include "tool/input/image.h"
#include "tool/input/npy.h"

namespace quern {
namespace {

// Variants of each kind of file.
constexpr size_t quern_variants = 900, onnx_variants = 900, tflite_variants = 900, caffe_variants = 500,
                 png_variants = 500, tensorflow_variants = 600, other_variants = 250;
static_assert(quern_variants + onnx_variants + 2 * caffe_variants + png_variants >= 2000);

// What a session may take for a model of these sizes; damaged ones that want more must get a clear refusal.
constexpr size_t session_memory = size_t{128} << 20;
// A model that came out larger than this is not run: it would be slow without being wrong.
constexpr size_t largest_run = size_t{4} << 20;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

uint64_t fuzz_seed() { return number_from("QUERN_FUZZ_SEED", 20240607); }

struct Variant {
  std::string what;
  std::string bytes;
};

// `count` damaged copies, taken in turns from the seeds.
std::vector<Variant> make_variants(const std::vector<Seed>& seeds, Format format, size_t count) {
  count *= number_from("QUERN_FUZZ_SCALE", 1);
  Random random(fuzz_seed());
  std::vector<Variant> variants;
  for (size_t i = 0; i < count; ++i) {
    const Seed& seed = seeds[i % seeds.size()];
    std::string what;
    std::string bytes = mutate(seed.bytes, format, random, &what);
    variants.push_back({seed.name + ", variant " + std::to_string(i) + ", " + what, std::move(bytes)});
  }
  // What no mutation of a valid file gives.
  variants.push_back({"empty", ""});
  variants.push_back({"one byte", "\x89"});
  variants.push_back({"zeros", std::string(100000, '\0')});
  variants.push_back({"ones", std::string(100000, '\xff')});
  return variants;
}

// Runs `load` on the valid files, which must load, and on the variants, which must end well.
void check(const char* kind, const std::vector<Seed>& seeds, const std::vector<Variant>& variants,
           const std::function<void(const std::string&)>& load) {
  const std::vector<Outcome> valid = run_guarded(seeds.size(), [&](size_t i) { load(seeds[i].bytes); });
  for (size_t i = 0; i < seeds.size(); ++i)
    EXPECT_EQ(valid[i].ending, Ending::loaded)
        << seeds[i].name << ": " << ending_name(valid[i].ending) << ": " << valid[i].message;

  const std::vector<Outcome> outcomes = run_guarded(variants.size(), [&](size_t i) { load(variants[i].bytes); });
  std::map<Ending, size_t> counts;
  for (size_t i = 0; i < variants.size(); ++i) {
    ++counts[outcomes[i].ending];
    if (outcomes[i].ending == Ending::loaded || outcomes[i].ending == Ending::refused) continue;
    ADD_FAILURE() << kind << ", " << variants[i].what << " (" << variants[i].bytes.size()
                  << " bytes): " << ending_name(outcomes[i].ending) << ": " << outcomes[i].message;
    if (const char* folder = std::getenv("QUERN_FUZZ_SAVE")) {
      const std::string path = std::string(folder) + "/" + kind + "_" + std::to_string(i);
      if (FILE* file = std::fopen(path.c_str(), "wb")) {
        std::fwrite(variants[i].bytes.data(), 1, variants[i].bytes.size(), file);
        std::fclose(file);
      }
    }
  }
  // A check that refuses everything, or nothing, has not looked.
  EXPECT_GT(counts[Ending::refused], variants.size() / 20) << kind;
  std::printf("%s: %zu valid files, %zu variants (seed %llu): %zu refused, %zu loaded\n", kind, seeds.size(),
              variants.size(), static_cast<unsigned long long>(fuzz_seed()), counts[Ending::refused],
              counts[Ending::loaded]);
}

void require(qn_status status) {
  if (status != QN_OK) throw Error(qn_last_message());
}

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
  void operator()(qn_tuning* tuning) const { qn_tuning_release(tuning); }
};
using ModelOwner = std::unique_ptr<qn_model, Release>;
using TuningOwner = std::unique_ptr<qn_tuning, Release>;

// Plans the model and runs it on zeros.
void use_model(qn_model* model, const qn_session_options* options = nullptr) {
  const AllocatorBudget budget(session_memory);
  qn_session* session = nullptr;
  require(qn_session_create(model, options, &session));
  const std::unique_ptr<qn_session, Release> owner(session);
  if (qn_session_memory(session) > largest_run) return;
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
  require(qn_session_run(session, inputs.data()));
  for (size_t i = 0; i < qn_model_output_count(model); ++i) {
    const void* data = nullptr;
    require(qn_session_output(session, i, &data));
  }
}

void use_graph(Graph graph) {
  require(optimize(graph));
  qn_model* model = nullptr;
  require(make_model(std::move(graph), nullptr, &model));
  const ModelOwner owner(model);
  use_model(model);
}

TEST(Fuzz, Quern) {
  const std::vector<Seed> seeds = quern_seeds();
  check("quern", seeds, make_variants(seeds, Format::quern, quern_variants), [](const std::string& bytes) {
    // Exactly as many bytes as the file has, so that a sanitizer sees a read beyond.
    const std::unique_ptr<void, void (*)(void*)> image(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64),
                                                       std::free);
    std::memcpy(image.get(), bytes.data(), bytes.size());
    qn_model* model = nullptr;
    require(qn_model_load_memory(image.get(), bytes.size(), nullptr, &model));
    const ModelOwner owner(model);
    use_model(model);
  });
}

TEST(Fuzz, QuernFile) {
  const std::vector<Seed> seeds = quern_seeds();
  const TemporaryFile file(".qn");
  check("quern file", seeds, make_variants(seeds, Format::bytes, other_variants), [&](const std::string& bytes) {
    file.write(bytes);
    use_graph(import_model({file.path()}));
  });
}

TEST(Fuzz, Onnx) {
  const std::vector<Seed> seeds = onnx_seeds();
  const TemporaryFile file(".onnx");
  check("onnx", seeds, make_variants(seeds, Format::protobuf, onnx_variants), [&](const std::string& bytes) {
    file.write(bytes);
    use_graph(import_onnx(file.path()));
  });
}

TEST(Fuzz, Tflite) {
  const std::vector<Seed> seeds = tflite_seeds();
  const TemporaryFile file(".tflite");
  check("tflite", seeds, make_variants(seeds, Format::bytes, tflite_variants), [&](const std::string& bytes) {
    file.write(bytes);
    use_graph(import_tflite(file.path()));
  });
}

TEST(Fuzz, OnnxWithExternalData) {
  const TemporaryFile file(".onnx"), data_file(".data");
  std::string data;
  const std::string location = std::filesystem::path(data_file.path()).filename().string();
  const std::vector<Seed> seeds = {external_onnx_seed(location, &data)};
  data_file.write(data);
  check("onnx with external data", seeds, make_variants(seeds, Format::protobuf, other_variants),
        [&](const std::string& bytes) {
          file.write(bytes);
          use_graph(import_onnx(file.path()));
        });
  // The other way round: the model is whole, and its data has another size.
  file.write(seeds[0].bytes);
  const std::vector<Outcome> outcomes = run_guarded(data.size() / 16, [&](size_t i) {
    data_file.write(data.substr(0, 16 * i));
    import_onnx(file.path());
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.ending, Ending::refused) << ending_name(outcome.ending);
}

TEST(Fuzz, TensorFlow) {
  const std::vector<Seed> seeds = tensorflow_seeds();
  const TemporaryFile file(".pb");
  check("tensorflow", seeds, make_variants(seeds, Format::protobuf, tensorflow_variants),
        [&](const std::string& bytes) {
          file.write(bytes);
          use_graph(import_tensorflow(file.path()));
        });
}

TEST(Fuzz, TensorFlowText) {
  const std::vector<Seed> seeds = {tensorflow_text_seed()};
  const TemporaryFile file(".pbtxt");
  check("tensorflow text", seeds, make_variants(seeds, Format::text, other_variants), [&](const std::string& bytes) {
    file.write(bytes);
    use_graph(import_tensorflow(file.path()));
  });
}

TEST(Fuzz, CaffeNet) {
  for (const CaffeSeed& seed : caffe_seeds()) {
    const TemporaryFile net(".prototxt"), weights(".caffemodel");
    weights.write(seed.weights);
    const std::vector<Seed> seeds = {{seed.name + ".prototxt", seed.net}};
    check("prototxt", seeds, make_variants(seeds, Format::text, caffe_variants / 2), [&](const std::string& bytes) {
      net.write(bytes);
      use_graph(import_caffe(net.path(), weights.path()));
    });
  }
}

TEST(Fuzz, CaffeWeights) {
  for (const CaffeSeed& seed : caffe_seeds()) {
    const TemporaryFile net(".prototxt"), weights(".caffemodel");
    net.write(seed.net);
    const std::vector<Seed> seeds = {{seed.name + ".caffemodel", seed.weights}};
    check("caffemodel", seeds, make_variants(seeds, Format::protobuf, caffe_variants / 2),
          [&](const std::string& bytes) {
            weights.write(bytes);
            use_graph(import_caffe(net.path(), weights.path()));
          });
  }
}

TEST(Fuzz, KerasConfig) {
  const std::vector<Seed> seeds = keras_configs();
  check("keras config", seeds, make_variants(seeds, Format::text, caffe_variants),
        [](const std::string& bytes) { use_graph(keras::import_contents(keras_contents(bytes), {})); });
}

// What a process that a hostile file has taken over may send.
TEST(Fuzz, KerasStream) {
  const std::vector<Seed> seeds = keras_streams();
  check("keras stream", seeds, make_variants(seeds, Format::bytes, other_variants), [](const std::string& bytes) {
    size_t at = 0;
    const keras::Read read = [&](void* data, size_t size) {
      if (size > bytes.size() - at) throw Error("the end");
      std::copy_n(bytes.data() + at, size, static_cast<char*>(data));  // no bytes may have no address
      at += size;
    };
    use_graph(keras::import_contents(keras::read_contents(read, 8 * bytes.size() + 1024), {}));
  });
}

#ifdef QUERN_HAS_HDF5
// libhdf5 may crash on these, but only its own process.
TEST(Fuzz, KerasFile) {
  const std::vector<Seed> seeds = keras_files();
  const TemporaryFile file(".h5");
  check("h5", seeds, make_variants(seeds, Format::bytes, other_variants), [&](const std::string& bytes) {
    file.write(bytes);
    use_graph(import_keras(file.path()));
  });
}
#endif

void decode_picture(const std::string& bytes) {
  const Image image = decode_image({bytes.begin(), bytes.end()}, "picture");
  if (image.pixels.size() != image.width * image.height * image.channels) throw std::logic_error("wrong size");
}

// Choices that were measured for the layers of a model, and the model planned by what a damaged file makes of them.
TEST(Fuzz, Tuning) {
  const TemporaryFile file(".qn"), choices(".tune");
  file.write(quern_seeds()[0].bytes);
  qn_model* loaded = nullptr;
  require(qn_model_load_file(file.path().c_str(), nullptr, &loaded));
  const ModelOwner model(loaded);
  const auto use = [&](const TuningOwner& tuning, bool tune) {
    qn_session_options options;
    qn_session_options_init(&options);
    options.tuning = tuning.get();
    options.tune = tune;
    use_model(model.get(), &options);
  };
  const auto make = [] {
    qn_tuning* tuning = nullptr;
    require(qn_tuning_create(&tuning));
    return TuningOwner(tuning);
  };
  const TuningOwner measured = make();
  use(measured, true);
  ASSERT_GT(qn_tuning_count(measured.get()), 1u);
  require(qn_tuning_save_file(measured.get(), choices.path().c_str()));
  const std::vector<Seed> seeds = {{"choices", choices.read()}};
  check("tuning", seeds, make_variants(seeds, Format::text, other_variants), [&](const std::string& bytes) {
    choices.write(bytes);
    const TuningOwner tuning = make();
    require(qn_tuning_load_file(tuning.get(), choices.path().c_str()));
    use(tuning, false);
  });
}

TEST(Fuzz, Png) {
  const std::vector<Seed> seeds = png_seeds();
  std::vector<Variant> variants = make_variants(seeds, Format::png, png_variants);
  for (const uint32_t side : {0u, 1u, 32767u, 32768u, 65535u, 0x7fffffffu, 0xffffffffu})
    variants.push_back({"claims side " + std::to_string(side), png_claiming(side, side)});
  check("png", seeds, variants, decode_picture);
}

TEST(Fuzz, Jpeg) {
  const std::vector<Seed> seeds = jpeg_seeds();
  check("jpeg", seeds, make_variants(seeds, Format::bytes, other_variants), decode_picture);
}

TEST(Fuzz, Npy) {
  const std::vector<Seed> seeds = npy_seeds();
  check("npy", seeds, make_variants(seeds, Format::text, other_variants), [](const std::string& bytes) {
    decode_npy({bytes.begin(), bytes.end()}, "array");
  });
}

// ---- the guard itself -----------------------------------------------------------------------------------------------

TEST(FuzzGuard, TellsEndingsApart) {
  const std::vector<std::function<void()>> cases = {
      [] {},
      [] { throw Error("no such thing"); },
      [] { throw Error(""); },
      [] { throw std::bad_alloc(); },
      [] {
        void* volatile block = std::malloc(allocation_limit / 2);  // volatile: compilers leave out what nobody looks at
        std::free(block);
      },
      [] {
        static void* volatile blocks[40];
        for (void* volatile& block : blocks) block = std::malloc(allocation_limit / 32);
      },
      [] { std::abort(); },
      [] { std::_Exit(0); },
      [] {},
  };
  const Ending want[] = {Ending::loaded,   Ending::refused, Ending::unclear, Ending::unclear, Ending::loaded,
                         Ending::too_much, Ending::crashed, Ending::crashed, Ending::loaded};
  const std::vector<Outcome> outcomes = run_guarded(cases.size(), [&](size_t i) { cases[i](); });
  ASSERT_EQ(outcomes.size(), std::size(want));
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(outcomes[i].ending, want[i]) << "case " << i << ": " << ending_name(outcomes[i].ending);
}

TEST(FuzzGuard, EndsWhatHangs) {
  const std::vector<Outcome> outcomes = run_guarded(1, [](size_t) {
    for (volatile bool forever = true; forever;) {}
  });
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].ending, Ending::too_long);
}

}  // namespace
}  // namespace quern
