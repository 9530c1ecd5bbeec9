// The C API of models: from C, from memory, and when memory runs out.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/status.h"
#include "c_api.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace api_test {

TEST(Api, FromC) {
  GraphBuilder b;
  b.output(b.node(OpKind::clamp, {b.input("x", {2, 4})}, range(0, std::numeric_limits<float>::infinity())), "y");
  const std::string path = ::testing::TempDir() + "quern_api_test.qn";
  expect_ok(write_model_file(b.done(), path.c_str()));
  const char* problem = use_model_from_c(path.c_str());
  EXPECT_EQ(problem, nullptr) << problem << ": " << qn_last_message();
  std::remove(path.c_str());
}

// Copies to an address that is `shift` bytes beyond a multiple of 64.
struct Shifted {
  Shifted(const Vector<unsigned char>& bytes, size_t shift) : buffer(bytes.size() + 64), data(buffer.data()) {
    data = static_cast<unsigned char*>(buffer.data()) + shift;
    std::memcpy(data, bytes.data(), bytes.size());
  }
  Buffer buffer;
  void* data;
};

TEST(Api, MemoryAlignedOrNot) {
  Vector<unsigned char> bytes;
  expect_ok(write_model(sample_graph(), &bytes));
  for (const size_t shift : {0, 1, 16}) {
    const Shifted image(bytes, shift);
    qn_model* model = nullptr;
    ASSERT_EQ(qn_model_load_memory(image.data, bytes.size(), nullptr, &model), QN_OK) << qn_last_message();
    const auto* begin = static_cast<const unsigned char*>(image.data);
    for (const Constant& constant : model_graph(*model).constants) {
      const bool inside = constant.data >= begin && constant.data < begin + bytes.size();
      EXPECT_EQ(inside, shift == 0) << "aligned images are used where they are, others copied";
    }
    qn_model_release(model);
  }
  qn_model* model;
  EXPECT_EQ(qn_model_load_memory(bytes.data(), 10, nullptr, &model), QN_BAD_MODEL);
  EXPECT_EQ(qn_model_load_memory(nullptr, 10, nullptr, &model), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_model_load_memory(bytes.data(), bytes.size(), nullptr, nullptr), QN_INVALID_ARGUMENT);
}

// An allocator that fails from some allocation on, and counts what has not been given back.
struct Scarce {
  std::atomic<long> until_failure{0}, blocks{0}, bytes{0};

  static void* allocate(void* context, size_t size, size_t alignment) {
    auto* self = static_cast<Scarce*>(context);
    if (self->until_failure.fetch_sub(1) <= 0) return nullptr;
    void* pointer = nullptr;
    if (posix_memalign(&pointer, std::max(alignment, sizeof(void*)), size) != 0) return nullptr;
    self->blocks += 1;
    self->bytes += static_cast<long>(size);
    return pointer;
  }
  static void release(void* context, void* pointer, size_t size) {
    auto* self = static_cast<Scarce*>(context);
    self->blocks -= 1;
    self->bytes -= static_cast<long>(size);
    std::free(pointer);
  }
};

// Loads, plans and measures, runs, resizes and runs again, beside another session of the arena. The first failure is
// returned.
qn_status whole_life(const void* data, size_t size) {
  struct Handles {
    qn_model* model = nullptr;
    qn_session *session = nullptr, *other = nullptr;
    qn_tuning* tuning = nullptr;
    qn_arena* arena = nullptr;
    ~Handles() {
      qn_arena_release(arena);
      qn_session_release(other);
      qn_tuning_release(tuning);
      qn_session_release(session);
      qn_model_release(model);
    }
  } h;
  static const float zeros[2 * 8 * 8 * 3] = {};
  const void* const inputs[] = {zeros, zeros};
  const size_t shape[] = {2, 8, 8, 3};
  QN_TRY(qn_model_load_memory(data, size, nullptr, &h.model));
  QN_TRY(qn_tuning_create(&h.tuning));
  qn_session_options options;
  qn_session_options_init(&options);
  QN_TRY(qn_arena_create(nullptr, 64, &h.arena));
  options.arena = h.arena;
  QN_TRY(qn_session_create(h.model, &options, &h.other));
  options.tuning = h.tuning;
  options.tune = 1;
  QN_TRY(qn_session_create(h.model, &options, &h.session));
  QN_TRY(qn_session_run(h.session, inputs));
  const qn_status resized = qn_session_resize(h.session, 0, 4, shape);
  EXPECT_EQ(qn_session_run(h.session, inputs), QN_OK) << "also after a failed resize";
  EXPECT_EQ(qn_session_run(h.other, inputs), QN_OK) << "also where the arena has not grown";
  return resized;
}

void every_allocation_may_fail(FileForm form) {
  Graph graph = sample_graph();
  graph.nodes[6].attributes.values = {-1, 128};  // a reshape that takes any batch
  Vector<unsigned char> bytes;
  expect_ok(write_model(graph, &bytes, form));
  auto* image = static_cast<unsigned char*>(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64));
  std::memcpy(image, bytes.data(), bytes.size());
  ASSERT_EQ(whole_life(image, bytes.size()), QN_OK) << qn_last_message();

  static Scarce scarce;
  const qn_allocator allocator = {&scarce, Scarce::allocate, Scarce::release, {}};
  ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
  int failures = 0;
  for (long n = 0;; ++n) {
    scarce.until_failure = n;
    const qn_status status = whole_life(image, bytes.size());
    ASSERT_EQ(scarce.blocks, 0) << "leaked when allocation " << n << " failed";
    ASSERT_EQ(scarce.bytes, 0) << "released with another size when allocation " << n << " failed";
    if (status == QN_OK) break;
    ASSERT_EQ(status, QN_OUT_OF_MEMORY) << qn_last_message();
    ++failures;
  }
  EXPECT_EQ(qn_set_allocator(nullptr), QN_OK);
  EXPECT_GT(failures, 100);
  std::free(image);
}

TEST(Api, EveryAllocationMayFail) { every_allocation_may_fail(FileForm::plain); }

TEST(Api, EveryAllocationMayFailWhereFilesAreCoded) { every_allocation_may_fail(FileForm::coded); }

}  // namespace api_test
}  // namespace quern::test
