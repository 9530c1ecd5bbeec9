// Scratch memory of operators: its size must not be a product of sizes that a file chooses.
#include <atomic>
#include <cstdlib>
#include <new>

#include "near.h"

namespace quern::test {
namespace memory_test {

std::atomic<size_t> largest{0};  // request to operator new, in bytes

}  // namespace memory_test
}  // namespace quern::test

// All forms but the aligned ones: those of a sanitizer would not fit to these.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  std::atomic<size_t>& largest = quern::test::memory_test::largest;
  for (size_t before = largest; size > before && !largest.compare_exchange_weak(before, size);) {}
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(size_t size) {
  if (void* const data = operator new(size, std::nothrow)) return data;
  throw std::bad_alloc();
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return operator new(size, std::nothrow); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { std::free(data); }

namespace quern::test {
namespace memory_test {

// Runs a node whose tensors are small. One block of scratch memory may have 8 MiB.
void check(const NodeCase& node) {
  SCOPED_TRACE(node.kind);
  largest = 0;
  std::vector<Elements> outputs;
  EXPECT_EQ(NodeModel(node, node.inputs.size()).run(&outputs), "");
  EXPECT_LE(largest, size_t{8} << 20);
}

// A column for each position and a row for each channel and tap would be 256 MiB, and 17 MiB for the last.
TEST(ExtraMemory, Columns) {
  const Elements any = floats({}, {}), kernel = random_floats({1, 1, 64, 64});
  check({"conv", {random_floats({1, 1, 191, 191}), kernel}, {any}});
  check({"conv_transposed", {random_floats({1, 1, 128, 128}), kernel}, {any}});
  check({"deform_conv",
         {random_floats({1, 32, 128, 128}), random_floats({1, 32, 3, 3}), random_floats({1, 18, 126, 126})},
         {any}});
}

// A score for each query and key would be 64 MiB.
TEST(ExtraMemory, Attention) {
  const Elements any = floats({}, {}), x = random_floats({1, 1, 4096, 2});
  check({"attention", {x, x, x}, {any}});
}

}  // namespace memory_test
}  // namespace quern::test
