// How many CPUs this process may use.
#include "base/cpus.h"

#include <cpuinfo.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

#include "pretended.h"

namespace quern {
namespace cpus_test {

TEST(Cpus, FastCoresAreThoseAboveTheSlowestCluster) {
  const auto cluster = [](uint32_t cores, cpuinfo_uarch uarch, uint64_t frequency) {
    cpuinfo_cluster made = {};
    made.core_count = cores;
    made.uarch = uarch;
    made.frequency = frequency;
    return made;
  };
  const auto fast = [](const std::vector<cpuinfo_cluster>& clusters) {
    return fast_cores(clusters.data(), clusters.size());
  };
  const cpuinfo_cluster big = cluster(1, cpuinfo_uarch_cortex_x1, 2800),
                        middle = cluster(3, cpuinfo_uarch_cortex_a78, 2400),
                        little = cluster(4, cpuinfo_uarch_cortex_a55, 1800);
  EXPECT_EQ(fast({big, middle, little}), 4u);
  EXPECT_EQ(fast({middle, little}), 3u);
  EXPECT_EQ(fast({middle}), 3u);
  EXPECT_EQ(fast({}), 1u) << "cpuinfo knows none";
  // The same cores, at another clock and at the same one.
  EXPECT_EQ(fast({cluster(4, cpuinfo_uarch_cortex_a53, 2000), cluster(4, cpuinfo_uarch_cortex_a53, 1500)}), 4u);
  EXPECT_EQ(fast({little, little}), 8u);
  EXPECT_EQ(fast({big, little, little}), 1u);
}

#ifdef __linux__
// The affinity of a thread of its own, so that this thread's does not change.
TEST(Cpus, AffinityLimitsThem) {
  const Pretended nothing({});
  EXPECT_GE(usable_cores(), 1u);
  std::thread([] {
    const size_t before = usable_cores();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores(), 1u) << "of " << before;
    std::thread([] { EXPECT_EQ(usable_cores(), 1u) << "threads inherit it"; }).join();
  }).join();
}
#endif

TEST(Cpus, ArePretended) {
  const Pretended many({{"QUERN_CPUS", "64"}});
  EXPECT_EQ(usable_cores(), 64u);
}

// A tree of control groups, in a folder.
class Quota : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "quern_cpus_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  size_t quota(const std::string& groups) {
    write("cgroup", groups);
    return cpu_quota((folder_ / "cgroup").c_str(), (folder_ / "sys").c_str());
  }

  std::filesystem::path folder_;
};

TEST_F(Quota, OfVersion2) {
  EXPECT_EQ(quota("0::/a/b\n"), no_quota) << "no such folders";
  write("sys/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), no_quota);
  write("sys/a/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 2u) << "a third thread would wait half of the time";
  write("sys/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1u);
  write("sys/a/b/cpu.max", "800000 100000\n");
  write("sys/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 3u) << "of the group around it";
  EXPECT_EQ(quota("0::/a\n"), 3u);
  EXPECT_EQ(quota("0::/c\n"), no_quota) << "of another group";
  EXPECT_EQ(quota("0::/\n"), no_quota);
  write("sys/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 2u) << "a container's own groups";
  EXPECT_EQ(quota("0::/docker/123/\n"), 2u) << "named as the host does";
}

TEST_F(Quota, OfVersion1) {
  const std::string groups = "12:pids:/x\n4:cpu,cpuacct:/a\n3:cpuset:/b\n0::/u\n";
  write("sys/cpu/b/cpu.cfs_quota_us", "100000\n");
  write("sys/cpu/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(groups), no_quota) << "b limits memory nodes, not time";
  write("sys/cpu/a/cpu.cfs_quota_us", "-1\n");
  write("sys/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(groups), no_quota);
  write("sys/cpu/a/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(quota(groups), 4u);
  write("sys/cpu/cpu.cfs_quota_us", "100000\n");
  write("sys/cpu/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(quota(groups), 2u);
}

TEST_F(Quota, WrongFilesSetNoLimit) {
  for (const char* text : {"", "x", "100000", "100000 x", "100000 0", "-100000 100000", "0 0"}) {
    write("sys/cpu.max", text);
    EXPECT_EQ(quota("0::/\n"), no_quota) << text;
  }
  write("sys/cpu.max", "100000 100000");
  for (const char* text : {"", "0", "0:", "\n\n"}) EXPECT_EQ(quota(text), no_quota) << text;
  EXPECT_EQ(quota("0::/../..//x//\n"), 1u);
  EXPECT_EQ(quota("0::/" + std::string(10000, 'x') + "\n"), 1u) << "the mount counts, whatever the group is called";
  EXPECT_EQ(cpu_quota((folder_ / "nothing").c_str(), (folder_ / "sys").c_str()), no_quota);
}

}  // namespace cpus_test
}  // namespace quern
