// What a call has acquired is noted, found again and undone, each thing once.
#include "base/journal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "base/memory.h"

namespace quern {
namespace journal_test {

std::map<const void*, size_t> undone;
void undo(void* thing, size_t argument) { EXPECT_TRUE(undone.emplace(thing, argument).second); }

class JournalTest : public testing::Test {
 protected:
  void SetUp() override { undone.clear(); }
  // Addresses as allocators give them, which share their low bits.
  void* thing(size_t i) { return things_.data() + 16 * i; }

  static constexpr size_t things = 2000;

 private:
  std::vector<char> things_ = std::vector<char>(16 * things);
};

TEST_F(JournalTest, UndoesWhatWasNotForgotten) {
  Journal journal;
  std::map<const void*, size_t> noted;
  std::mt19937 random(1);
  for (size_t step = 0; step < 20000; ++step) {
    void* const one = thing(random() % things);
    if (noted.count(one) == 0) {
      ASSERT_TRUE(journal.note(one, step, undo));
      noted[one] = step;
    } else {
      journal.forget(one);
      noted.erase(one);
    }
    ASSERT_EQ(journal.holds(one), noted.count(one) == 1);
  }
  for (size_t i = 0; i < things; ++i) EXPECT_EQ(journal.holds(thing(i)), noted.count(thing(i)) == 1);
  journal.undo_all();
  EXPECT_EQ(undone, noted);
  journal.undo_all();
  EXPECT_EQ(undone, noted) << "nothing is undone twice";
}

TEST_F(JournalTest, CountsHolds) {
  Journal journal;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(journal.note_again(thing(0), undo));
  ASSERT_TRUE(journal.note_again(thing(1), undo));
  EXPECT_TRUE(journal.forget_once(thing(0)));
  EXPECT_TRUE(journal.forget_once(thing(1)));
  EXPECT_FALSE(journal.forget_once(thing(2))) << "which it does not know";
  journal.undo_all();
  EXPECT_EQ(undone, (std::map<const void*, size_t>{{thing(0), 2}}));
}

TEST_F(JournalTest, KeepsAll) {
  Journal journal;
  ASSERT_TRUE(journal.note(thing(0), 1, undo));
  journal.keep_all();
  journal.undo_all();
  EXPECT_TRUE(undone.empty());
}

TEST_F(JournalTest, SaysThatItHasNoRoom) {
  static size_t left;
  left = 1;
  const qn_allocator allocator = {nullptr,
                                  [](void*, size_t size, size_t) { return left-- > 0 ? std::malloc(size) : nullptr; },
                                  [](void*, void* pointer, size_t) { std::free(pointer); },
                                  {}};
  ASSERT_EQ(qn_set_allocator(&allocator), QN_OK);
  Journal journal;
  size_t noted = 0;
  while (noted < things && journal.note(thing(noted), noted, undo)) ++noted;
  EXPECT_GT(noted, 0u);
  EXPECT_LT(noted, things);
  journal.undo_all();
  EXPECT_EQ(undone.size(), noted);
  ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
}

}  // namespace journal_test
}  // namespace quern
