// A program whose functions are called as some of cpuinfo and pthreadpool, and which uses templates of the standard
// library that Quern uses, too: Quern in libquern_all.a has its own.
#include <quern/quern.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

extern "C" {
void taken() {
  std::puts("a function of the program was called");
  std::exit(1);
}
#define TAKEN(name) \
  void name() { taken(); }
TAKEN(cpuinfo_initialize)
TAKEN(cpuinfo_get_clusters_count)
TAKEN(cpuinfo_get_l1d_cache)
TAKEN(cpuinfo_get_l2_cache)
TAKEN(pthreadpool_create)
TAKEN(pthreadpool_destroy)
TAKEN(pthreadpool_parallelize_1d)
TAKEN(qn_gemm_f32_4x8_ref)
}

int main() {
  std::vector<size_t> sizes;
  std::vector<float> values;
  std::vector<std::string> words;
  std::mutex mutex;
  for (int i = 0; i < 100; ++i) {
    const std::lock_guard<std::mutex> lock(mutex);
    sizes.push_back(static_cast<size_t>(i));
    values.push_back(1);
    words.push_back(std::string("word ") + std::to_string(i));
  }
  float sum;
  if (qn_gemm_f32(1, 1, 100, values.data(), 100, values.data(), 1, 0, nullptr, 0, 1000, &sum, 1, nullptr)) return 1;
  if (sum != 100 || sizes.back() != 99 || words.back() != "word 99") return 1;
  if (*qn_cpu_level() == '\0') return 1;
  std::printf("quern %s\n", qn_version());
  return 0;
}
