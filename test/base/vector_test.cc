// Vector: what it holds after each member, and what it does with elements that own memory.
#include "base/vector.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/string.h"

namespace quern {
namespace vector_test {

// One vector of each kind of elements: copied as bytes, and with constructors.
template <class T>
class VectorOf : public testing::Test {
 public:
  static T value(int i);
  static std::vector<T> list(std::initializer_list<int> of) {
    std::vector<T> made;
    for (const int i : of) made.push_back(value(i));
    return made;
  }
  static void expect(const Vector<T>& vector, std::initializer_list<int> of) {
    EXPECT_EQ(std::vector<T>(vector.begin(), vector.end()), list(of));
    EXPECT_EQ(vector.size(), of.size());
    EXPECT_EQ(vector.empty(), of.size() == 0);
    EXPECT_GE(vector.capacity(), vector.size());
  }
};
template <>
int VectorOf<int>::value(int i) {
  return i;
}
template <>
String VectorOf<String>::value(int i) {
  return i == 0 ? String() : String(std::string(40, static_cast<char>('a' + i)));
}

using Types = testing::Types<int, String>;
TYPED_TEST_SUITE(VectorOf, Types);

TYPED_TEST(VectorOf, IsMadeAndAssigned) {
  using V = Vector<TypeParam>;
  const auto value = [this](int i) { return this->value(i); };
  const auto list = this->list({1, 2, 3});
  const std::list<TypeParam> linked(list.begin(), list.end());
  V v;
  this->expect(v, {});
  this->expect(V(2), {0, 0});
  this->expect(V(2, value(5)), {5, 5});
  this->expect(V({value(1), value(2)}), {1, 2});
  this->expect(V(list.data(), list.data() + 3), {1, 2, 3});
  this->expect(V(linked.begin(), linked.end()), {1, 2, 3});
  v.assign(list.begin(), list.end());
  this->expect(v, {1, 2, 3});
  V copy = v, moved = std::move(v);
  this->expect(v, {});
  this->expect(copy, {1, 2, 3});
  EXPECT_TRUE(copy == moved);
  v = copy;
  v.assign(2, v[1]);
  this->expect(v, {2, 2});
  EXPECT_TRUE(copy != v);
  v.swap(copy);
  this->expect(v, {1, 2, 3});
  const V& same = v;
  v = same;
  this->expect(v, {1, 2, 3});
}

TYPED_TEST(VectorOf, GrowsAndShrinks) {
  const auto value = [this](int i) { return this->value(i); };
  Vector<TypeParam> v;
  for (int i = 0; i < 100; ++i) v.push_back(value(i % 7));
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(v[i], value(static_cast<int>(i % 7)));
  v.resize(3);
  this->expect(v, {0, 1, 2});
  v.resize(5);
  this->expect(v, {0, 1, 2, 0, 0});
  v.resize(6, value(4));
  this->expect(v, {0, 1, 2, 0, 0, 4});
  v.pop_back();
  EXPECT_EQ(v.emplace_back(), value(0));
  v.front() = v.back() = value(6);
  this->expect(v, {6, 1, 2, 0, 0, 6});
  EXPECT_EQ(std::vector<TypeParam>(v.rbegin(), v.rend()), this->list({6, 0, 0, 2, 1, 6}));
  v.reserve(1000);
  EXPECT_GE(v.capacity(), 1000u);
  v.clear();
  this->expect(v, {});
  EXPECT_GE(v.capacity(), 1000u);
}

TYPED_TEST(VectorOf, InsertsAndErases) {
  const auto value = [this](int i) { return this->value(i); };
  const auto list = this->list({7, 8});
  Vector<TypeParam> v;
  EXPECT_EQ(*v.insert(v.begin(), value(1)), value(1));
  EXPECT_EQ(*v.insert(v.end(), value(3)), value(3));
  EXPECT_EQ(*v.insert(v.begin() + 1, value(2)), value(2));
  this->expect(v, {1, 2, 3});
  EXPECT_EQ(*v.insert(v.begin() + 1, list.begin(), list.end()), value(7));
  this->expect(v, {1, 7, 8, 2, 3});
  EXPECT_EQ(*v.erase(v.begin()), value(7));
  EXPECT_EQ(*v.erase(v.begin() + 1, v.begin() + 3), value(3));
  this->expect(v, {7, 3});
  v.erase(v.end() - 1);
  this->expect(v, {7});
  v.insert(v.end(), list.begin(), list.end());
  erase_if(v, [&](const TypeParam& each) { return each == value(7); });
  this->expect(v, {8});
}

// Its own element, which growing moves.
TYPED_TEST(VectorOf, TakesItsOwnElement) {
  Vector<TypeParam> v(1, this->value(3));
  for (int i = 0; i < 40; ++i) v.push_back(v[0]);
  v.resize(1000, v[0]);
  v.insert(v.begin(), v[1]);
  for (const TypeParam& each : v) EXPECT_EQ(each, this->value(3));
  EXPECT_EQ(v.size(), 1001u);
}

TEST(Vector, RefusesMoreThanThereCanBe) {
  Vector<uint64_t> v(1);
  EXPECT_THROW(v.resize(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(v.reserve(SIZE_MAX / 8 + 1), std::bad_alloc);
  EXPECT_THROW(v.resize(SIZE_MAX, 1), std::bad_alloc);
  EXPECT_EQ(v, Vector<uint64_t>{0});
  EXPECT_THROW(Vector<std::unique_ptr<int>>(SIZE_MAX / 2), std::bad_alloc);
}

// An element that cannot be copied leaves nothing behind (memory is counted by the sanitizers).
struct Rare {
  static inline int copies_left = 0;
  Rare() = default;
  Rare(Rare&&) = default;
  Rare(const Rare&) {
    if (copies_left-- == 0) throw std::bad_alloc();
  }
  std::unique_ptr<int> owned = std::make_unique<int>(1);
};

TEST(Vector, SurvivesAnElementThatThrows) {
  const Rare one;
  Rare::copies_left = 3;
  EXPECT_THROW(Vector<Rare>(5, one), std::bad_alloc);
  const Vector<Rare> three(3);
  Rare::copies_left = 2;
  EXPECT_THROW(Vector<Rare>{three}, std::bad_alloc);
}

}  // namespace vector_test
}  // namespace quern
