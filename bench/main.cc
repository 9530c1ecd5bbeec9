// quern-bench: every row of the kernel tables and the operator shapes of well-known networks.
//
// Flags are those of google-benchmark, and --threads=1,2: the numbers of threads that operators run with.
#include <cstdio>

#include "base/cpus.h"
#include "bench.h"
#include "tool/standard_output.h"

namespace quern {

int bench_main(int argc, char** argv) {
  std::vector<size_t> threads = {1};
  const size_t cores = usable_cores();
  if (cores > 1) threads.push_back(cores);
  const char* list = take_flag(&argc, argv, "--threads=");
  if (list != nullptr && !parse_counts(list, &threads)) {
    std::fprintf(stderr, "quern-bench: --threads takes numbers with commas between, like 1,2\n");
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;

  benchmark::AddCustomContext("quern_isa", isa_name(float_level()));
  for (const Peak& peak : measure_peaks()) {
    const char* const name = peak.loop->of == PeakOf::bytes ? "quern_peak_gops_of_bytes_" : "quern_peak_gflops_";
    benchmark::AddCustomContext(text(name, isa_name(peak.loop->isa)), std::to_string(peak.ops_per_second * 1e-9));
  }
  register_kernels();
  register_streams();
  register_operators(threads);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace quern

int main(int argc, char** argv) {
  quern::open_standard_streams();
  return quern::finish_output("quern-bench", quern::bench_main(argc, argv));
}
