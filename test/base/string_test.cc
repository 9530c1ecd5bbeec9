// The text of base/string.h.
#include "base/string.h"

#include <gtest/gtest.h>

#include <string>

#include "base/memory.h"

namespace quern {
namespace string_test {

TEST(StringTest, HoldsWhatItWasGiven) {
  const String none, empty(""), text("text"), zero(std::string_view("a\0b", 3));
  EXPECT_EQ(none, empty);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0u);
  EXPECT_STREQ(none.c_str(), "");
  EXPECT_STREQ(text.c_str(), "text");
  EXPECT_EQ(std::string(text), "text");
  EXPECT_EQ(std::string(zero), std::string("a\0b", 3));
  EXPECT_EQ(zero.size(), 3u);
}

TEST(StringTest, GrowsAsStdStringDoes) {
  String text;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string piece(static_cast<size_t>(i % 7), static_cast<char>('a' + i % 26));
    text.append(piece) += '-';
    expected.append(piece) += '-';
    ASSERT_EQ(std::string_view(text), expected);
    ASSERT_EQ(text.c_str()[text.size()], 0);
  }
}

TEST(StringTest, ComparesAsStdStringDoes) {
  const std::string texts[] = {"", "a", "ab", "b", "B", "\xff", "ba", std::string("a\0", 2)};
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      EXPECT_EQ(String(a) == String(b), a == b) << a << " " << b;
      EXPECT_EQ(String(a) < String(b), a < b) << a << " " << b;
      EXPECT_EQ(String(a) == b, a == b) << a << " " << b;
    }
  }
}

TEST(StringTest, StaysWholeWithoutMemory) {
  String text("kept"), other("kept, too");
  const qn_allocator none = {
      nullptr, [](void*, size_t, size_t) -> void* { return nullptr; }, [](void*, void*, size_t) {}, {}};
  ASSERT_EQ(qn_set_allocator(&none), QN_OK);
  EXPECT_THROW(text.append("more than there is room for"), std::bad_alloc);
  EXPECT_THROW(other = text, std::bad_alloc);
  ASSERT_EQ(qn_set_allocator(nullptr), QN_OK);
  EXPECT_STREQ(other.c_str(), "kept, too");
  EXPECT_STREQ(text.c_str(), "kept");
}

}  // namespace string_test
}  // namespace quern
