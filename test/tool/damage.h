// Damaged files for tests of readers.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "convert/common/error.h"
#include "convert/zoo/random.h"

namespace quern {

// Reads a file two bits of which are flipped, 2,000 times: each must be read, or be refused with a message.
template <class Read>
void read_with_flipped_bits(const std::string& good, const Read& read) {
  zoo::Random random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 2; ++flips)
      bad[random.bits() % bad.size()] ^= static_cast<char>(1 << random.bits() % 8);
    try {
      read(bad);
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
}

}  // namespace quern
