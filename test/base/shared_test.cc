// Objects with several owners end with the last of them.
#include "base/shared.h"

#include <gtest/gtest.h>

namespace quern {
namespace shared_test {

struct Counted {
  explicit Counted(int* alive) : alive_(alive) { ++*alive_; }
  ~Counted() { --*alive_; }
  int* alive_;
};
struct alignas(64) Derived : Counted {
  using Counted::Counted;
  char wide[100] = {};
};

TEST(Shared, EndsWithTheLastOwner) {
  int alive = 0;
  Shared<const void> last;
  {
    const Shared<Derived> first = make_shared<Derived>(&alive);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.get()) % 64, 0u);
    EXPECT_EQ(block_of(first.get()), reinterpret_cast<const char*>(first.get()) - 64);
    const Shared<Counted> base = first;
    Shared<Counted> copy = base;
    const Shared<Counted>& itself = copy;
    copy = itself;
    last = std::move(copy);
    EXPECT_EQ(copy, nullptr);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 1);
  last = nullptr;
  EXPECT_EQ(alive, 0);
}

TEST(Shared, IsRememberedWithoutBeingKept) {
  int alive = 0;
  Remembered<const Counted> memory;
  EXPECT_TRUE(memory.is_gone());
  EXPECT_EQ(memory.lock(), nullptr);
  {
    const Shared<Counted> owner = make_shared<Counted>(&alive);
    memory = Remembered<const Counted>(owner);
    EXPECT_FALSE(memory.is_gone());
    EXPECT_EQ(memory.lock().get(), owner.get());
  }
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(memory.is_gone());
  EXPECT_EQ(memory.lock(), nullptr);
}

}  // namespace shared_test
}  // namespace quern
