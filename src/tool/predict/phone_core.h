// Cores of phones that a model's time is estimated for: what is known of them, and what is assumed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace quern::predict {

// Columns of predicted_loops.inc, in its order.
enum class CoreModel { a53, a55, a57, kryo, n1, n2, v1, v2, count };

struct PhoneCore {
  const char* name;
  CoreModel model;
  const char* model_name;  // as llvm-mca or scripts/scoreboard.py calls it
  const char* chip;        // a phone's, with such cores
  size_t count;            // of them in the chip
  double ghz;              // their clock there
  double peak;             // f32 multiply-accumulates per cycle
  bool in_order;
  size_t l1_bytes, last_bytes;  // of the first cache of data, and of the last one before memory
  double cache_bytes;           // per cycle, from the caches behind the first to one core
  double memory_gbs, all_gbs;   // from memory to one core, to all of them: 10^9 bytes per second
};

std::span<const PhoneCore> phone_cores();

// By its name ("a73", "cortex-a73") or that of a model ("n1", "neoverse-n1": the first core with it); NULL if unknown.
const PhoneCore* find_phone_core(const std::string& name);

// Cycles of an operation on a vector of four floats together with its load or store: in order, loads of 128 bits take
// two; out of order, as many start in a cycle as multiply-adds.
inline double vector_cycles(const PhoneCore& core) { return core.in_order ? 2 : 4 / core.peak; }

}  // namespace quern::predict
