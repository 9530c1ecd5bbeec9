// Counts what the process takes from malloc, whoever asks.
#pragma once

#include <cstddef>

namespace quern {

// Calls `exceeded` as soon as the bytes in use exceed those of now by more than `limit`, or one request alone does.
void watch_memory(size_t limit, void (*exceeded)());

}  // namespace quern
