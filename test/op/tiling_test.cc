// How products are divided among threads.
#include "op/core/tiling.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/memory.h"

namespace quern::test {
namespace tiling_test {

struct Shape {
  size_t m, n, mr, nr, c_bytes;
  size_t pass_rows = SIZE_MAX;
};

// Kernels of tiles, of vectors of bytes, and of floats.
constexpr Shape shapes[] = {{3136, 256, 256, 32, 1, 32}, {49, 2048, 256, 32, 1, 32}, {196, 1000, 12, 32, 1},
                            {1, 1000, 1, 16, 1},         {3136, 40, 8, 8, 4},        {7, 33, 6, 16, 4}};

Tiling make(const Shape& s, size_t tasks) {
  const size_t together = panels_of_line(s.c_bytes == 1 ? KernelType::qs8c : KernelType::f32, s.nr, tasks);
  return Tiling({.m = s.m,
                 .n = s.n,
                 .mr = s.mr,
                 .nr = s.nr * together,
                 .pass_rows = s.pass_rows,
                 .row_bytes = 256,
                 .panel_bytes = s.nr * 256 * together},
                tasks);
}

TEST(Tiling, CoversEachElementOnceAndNoCacheLineTwice) {
  for (const Shape& s : shapes) {
    for (const size_t tasks : {1, 2, 3, 8}) {
      SCOPED_TRACE(testing::Message() << s.m << "x" << s.n << ", " << tasks << " tasks");
      const Tiling tiling = make(s, tasks);
      std::vector<int> written(s.m * s.n), writer(s.m * divide_up(s.n * s.c_bytes, cache_line), -1);
      for (size_t task = 0; task < tiling.tasks(); ++task) {
        tiling.run(nullptr, task, [&](size_t, size_t begin, size_t end, size_t n, size_t channels) {
          ASSERT_LE(channels, tiling.channels());
          ASSERT_EQ(n % s.nr, 0u);
          for (size_t m = begin; m < end; ++m) {
            for (size_t i = n; i < n + channels; ++i) {
              ++written[m * s.n + i];
              int& of_line = writer[m * divide_up(s.n * s.c_bytes, cache_line) + i * s.c_bytes / cache_line];
              if (of_line < 0) of_line = static_cast<int>(task);
              if (QN_ARCH_X86_64) {
                EXPECT_EQ(of_line, static_cast<int>(task));
              }
            }
          }
        });
      }
      EXPECT_EQ(std::count(written.begin(), written.end(), 1), static_cast<ptrdiff_t>(written.size()));
      if (HasFailure()) return;
    }
  }
}

// A kernel of tiles accepts so many rows that their number would be uneven.
TEST(Tiling, GivesAllThreadsAsManyTiles) {
  if (!has_tiles) GTEST_SKIP() << "no kernels of tiles here";
  for (const size_t tasks : {2, 3, 4}) {
    const Tiling tiling = make(shapes[0], tasks);
    EXPECT_EQ(divide_up(shapes[0].m, tiling.rows()) % tasks, 0u) << tasks;
  }
}

}  // namespace tiling_test
}  // namespace quern::test
