// Trained models, where they are present.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "source_dir.h"

namespace quern::compress_test {

// The folder of models in $QUERN_ASSETS, or in ../shared/assets beside the sources; empty if there is none.
inline std::string trained_models() {
  const char* const named = std::getenv("QUERN_ASSETS");
  const std::string folder = std::string(named != nullptr ? named : QUERN_SOURCE_DIR "/../shared/assets") + "/models/";
  return std::filesystem::exists(folder) ? folder : "";
}

}  // namespace quern::compress_test
