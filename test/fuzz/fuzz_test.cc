// Damaged models, tuning files, pictures and arrays: each is refused with a clear error or loads normally, within 10 s
// of processor time and 1 GiB.
//
// QUERN_FUZZ_SEED and QUERN_FUZZ_SCALE (a multiplier of the number of variants) can be set; both are printed.
#include <gtest/gtest.h>
#include <quern/quern.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <thread>

#include "../tool/data_sets.h"
#include "../tool/pictures.h"
#include "convert/convert.h"
#include "convert/keras/keras.h"
#include "convert/zoo/builder.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "guard.h"
#include "mutate.h"
#include "readers.h"
#include "seeds.h"
#include "tool/input/arrays.h"
#include "tool/input/image.h"
#include "tool/input/npy.h"
#include "tool/input/samples.h"
#include "tool/input/truth.h"

namespace quern {

// Names a case.
static void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

namespace fuzz_test {

// Variants of files that no reader of the table reads.
constexpr size_t png_variants = 500, other_variants = 250;

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

class FuzzReader : public testing::TestWithParam<Reader> {};

TEST_P(FuzzReader, EndsWell) {
  const Reader& reader = GetParam();
  const std::vector<Seed> seeds = reader.seeds();
  check(reader.name, seeds, make_variants(seeds, reader.format, reader.variants), reader.read);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzReader, testing::ValuesIn(readers()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Fuzz, QuernFile) {
  const std::vector<Seed> seeds = quern_seeds();
  const TemporaryFile file(".qn");
  check("quern file", seeds, make_variants(seeds, Format::bytes, 4 * other_variants), [&](const std::string& bytes) {
    file.write(bytes);
    use_graph(import_model({file.path()}));
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

// What a process that a hostile file has taken over may send.
TEST(Fuzz, KerasStream) {
  const std::vector<Seed> seeds = keras_streams();
  check("keras stream", seeds, make_variants(seeds, Format::bytes, other_variants),
        [](const std::string& bytes) { use_graph(keras::import_contents(contents_of_stream(bytes), {})); });
}

#ifdef QUERN_HDF5
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

// Makes inputs of all samples in a file, and labels of its array.
class SampleReader {
 public:
  explicit SampleReader(const std::string& extension) : file_(extension) {
    zoo::Builder b("net", 5);
    b.output("y", b.conv("conv", b.input(8), {4, 3, 2, zoo::Activation::relu}).tensor);
    Graph graph = b.finish();
    require(infer_shapes(graph));
    qn_model* made = nullptr;
    require(make_model(std::move(graph), nullptr, &made));
    model_.reset(made);
  }

  void read(const std::string& bytes) const {
    file_.write(bytes);
    const InputFlags flags;
    const Samples samples({file_.path()}, model_.get(), 0, flags);
    for (size_t i = 0; i < samples.size(); ++i) samples.read(i, model_.get());
    try {
      array_labels(read_array(file_.path(), {"labels"}), "labels");
    } catch (const Error&) {}
  }

 private:
  const TemporaryFile file_;
  ModelOwner model_;
};

TEST(Fuzz, Samples) {
  const struct {
    const char* extension;
    std::vector<Seed> seeds;
    Format format;
  } kinds[] = {{".npy", npy_sample_seeds(), Format::text},
               {".npz", npz_sample_seeds(), Format::bytes},
               {".idx", idx_sample_seeds(), Format::bytes}};
  for (const auto& kind : kinds) {
    const SampleReader reader(kind.extension);
    check(kind.extension + 1, kind.seeds, make_variants(kind.seeds, kind.format, other_variants),
          [&](const std::string& bytes) { reader.read(bytes); });
  }
}

// Arrays that are damaged within a whole archive, whose checksums hold.
TEST(Fuzz, ArraysInArchives) {
  const std::vector<Seed> arrays = npy_sample_seeds();
  std::vector<Seed> seeds;
  for (const Seed& array : arrays) seeds.push_back({array.name, make_zip({{"x.npy", array.bytes}}, true)});
  std::vector<Variant> variants = make_variants(arrays, Format::text, other_variants);
  for (Variant& variant : variants) variant.bytes = make_zip({{"x.npy", variant.bytes}}, true);
  const SampleReader reader(".npz");
  check("arrays in npz", seeds, variants, [&](const std::string& bytes) { reader.read(bytes); });
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

TEST(FuzzGuard, EndsAnEndlessLoop) {
  const auto loop = [](size_t) {
    for (volatile bool forever = true; forever;) {}
  };
  const std::vector<Outcome> outcomes = run_guarded(1, loop, 1);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].ending, Ending::too_long);
}

// A case that waits, as on a loaded machine, has not used its time.
TEST(FuzzGuard, CountsProcessorTime) {
  const auto wait = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1500)); };
  const std::vector<Outcome> outcomes = run_guarded(1, wait, 1);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].ending, Ending::loaded);
}

}  // namespace fuzz_test
}  // namespace quern
