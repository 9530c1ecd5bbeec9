// Labels of images and other samples: in tables and in arrays.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tool/input/npy.h"

namespace quern {

struct LabelledImage {
  std::string file;
  size_t label;
};

// Reads comma-separated values; a value that holds a comma must be quoted. If the first line ends in an integer label,
// the table has no header, and its first two columns are file and label. Otherwise the first line is a header, and two
// columns count: "file" (or "image", "filename") and "label_index" (or "label", "index", "class"; spaces for '_' and
// capitals are allowed). Throws Error; `who` names the table in messages.
std::vector<LabelledImage> parse_truth(std::string_view text, const std::string& who);

// Reads the labels of such a table alone, whose rows need no file: a table without a header may have one column, of
// labels. Throws Error.
std::vector<size_t> parse_labels(std::string_view text, const std::string& who);

// Reads the labels of samples, which come from files of these names: an array has them in the order of the samples, a table
// by the names of the files, without folders, or, if a file has several samples, in their order, too. Throws Error.
std::vector<size_t> labels_of_samples(const std::string& path, const std::vector<std::string>& files);

constexpr size_t max_truth_bytes = size_t{256} << 20;

// Returns an array's elements as labels: integers, none negative, of shape N or N x 1. Throws Error.
std::vector<size_t> array_labels(const NpyArray& array, const std::string& who);

}  // namespace quern
