// Sizes of a model's inputs, as users give them (--shape) and as commands choose them.
#pragma once

#include <string>
#include <vector>

#include "convert/convert.h"

namespace CLI {
class App;
}

namespace quern {

using Sizes = std::vector<ImportOptions::Input>;

// Reads "NAME=1x3x320x320" or, if the name may be missing, "1x3x320x320". Throws CLI::ValidationError for `flag`.
ImportOptions::Input parse_shape(const std::string& flag, const std::string& text);

// --shape [NAME=]1x3x320x320 | DIMENSION=4
void add_shapes(CLI::App& app, Sizes* sizes);

// Prints a warning that names the dynamic dimensions of inputs, with the sizes that the model has for them. `files`:
// one for each input, which then brings its own size; "" or a list that ends before the input: the input has none.
void warn_of_open_sizes(const Graph& graph, const std::vector<std::string>& files);

}  // namespace quern
