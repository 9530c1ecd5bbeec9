#include "bench.h"
namespace quern {
void register_operators(const std::vector<size_t>&) {}
}  // namespace quern
