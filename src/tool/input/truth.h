// Tables of labelled images.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct LabelledImage {
  std::string file;
  size_t label;
};

// Comma-separated values, quoted where a value holds a comma. With a header, the columns called "file" (or "image",
// "filename") and "label_index" (or "label", "index", "class"; spaces for '_' and capitals allowed) count; a table
// whose first line ends in an integer label has none: its first two columns are file and label.
// Throws Error; `who` names the table in messages.
std::vector<LabelledImage> parse_truth(std::string_view text, const std::string& who);

}  // namespace quern
