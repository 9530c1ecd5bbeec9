// The allocator: a user's replaces ours for everything, and gets back what it gave.
#include "base/vector.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/shared.h"
#include "base/string.h"

namespace quern {
namespace memory_test {

// Counts, remembers sizes, and says no on demand.
struct Recorder {
  std::map<void*, size_t> live;
  size_t allocations = 0, wrong_releases = 0, allowed = SIZE_MAX;

  static void* allocate(void* context, size_t size, size_t alignment) {
    auto* self = static_cast<Recorder*>(context);
    if (self->allocations >= self->allowed) return nullptr;
    ++self->allocations;
    void* pointer = nullptr;
    if (posix_memalign(&pointer, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0) return nullptr;
    self->live[pointer] = size;
    return pointer;
  }
  static void release(void* context, void* pointer, size_t size) {
    auto* self = static_cast<Recorder*>(context);
    const auto entry = self->live.find(pointer);
    if (entry == self->live.end() || entry->second != size) ++self->wrong_releases;
    if (entry != self->live.end()) self->live.erase(entry);
    std::free(pointer);
  }
};

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    const qn_allocator allocator = {&recorder_, Recorder::allocate, Recorder::release, {}};
    ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
  }
  void TearDown() override {
    EXPECT_TRUE(recorder_.live.empty());
    EXPECT_EQ(recorder_.wrong_releases, 0u);
    ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
  }
  Recorder recorder_;
};

struct Thing : Allocated {
  double value = 0;
};

TEST_F(Memory, EverythingComesFromTheUser) {
  {
    Buffer buffer(1000);
    Vector<int> numbers(10, 1);
    String text("a text");
    const auto shared = quern::make_shared<Thing>();
    const std::unique_ptr<Thing> thing(new Thing);
    EXPECT_EQ(recorder_.live.size(), 5u);  // what is shared has its counts in the same block
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % cache_line, 0u);
  }
  EXPECT_GE(recorder_.allocations, 5u);
}

TEST_F(Memory, AlignmentIsKept) {
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* pointer = allocate(3, alignment);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pointer) % alignment, 0u);
    release(pointer, 3);
  }
}

TEST_F(Memory, NothingIsStillSomething) {
  void* pointer = allocate(0);
  EXPECT_NE(pointer, nullptr);
  release(pointer, 0);
  release(nullptr, 10);
}

TEST_F(Memory, RefusalThrowsAndLeaksNothing) {
  recorder_.allowed = 1;
  Buffer first(10);
  EXPECT_THROW(Buffer second(10), std::bad_alloc);
  EXPECT_THROW(Vector<int>(10), std::bad_alloc);
  EXPECT_THROW(allocate(1), std::bad_alloc);
}

TEST_F(Memory, ASizeThatOverflowsNeverReachesTheUser) {
  EXPECT_THROW(Vector<double>(SIZE_MAX / 4), std::bad_alloc);
  EXPECT_EQ(recorder_.allocations, 0u);
}

TEST_F(Memory, BuffersMove) {
  Buffer a(10);
  void* data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 10u);
  Buffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
}

TEST(SetAllocator, RefusesHalfAnAllocator) {
  const qn_allocator no_release = {nullptr, Recorder::allocate, nullptr, {}};
  const qn_allocator no_allocate = {nullptr, nullptr, Recorder::release, {}};
  EXPECT_EQ(qn_set_allocator(&no_release), QN_INVALID_ARGUMENT);
  EXPECT_EQ(qn_set_allocator(&no_allocate), QN_INVALID_ARGUMENT);
  Buffer still_works(10);
  EXPECT_NE(still_works.data(), nullptr);
}

}  // namespace memory_test
}  // namespace quern
