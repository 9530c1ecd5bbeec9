// Names of classes.
#pragma once

#include <string>
#include <vector>

#include "base/string.h"
#include "base/vector.h"

namespace quern {

// Reads a file with one name per line, from class 0 on. Throws Error.
std::vector<std::string> read_labels(const std::string& path);

// Converts names to those that a model's file can hold. Throws Error for one that is no plain text; `who` says where it is.
Vector<String> stored_labels(const std::vector<std::string>& labels, const std::string& who);

// Returns the name of a class, or "class N" if it has none.
std::string label_of(const std::vector<std::string>& labels, size_t label);

}  // namespace quern
