// Sizes of a model's inputs that the user asks for (ImportOptions::sizes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/convert.h"

namespace quern {

// Returns the size that is asked for dimension `d` of an input of this name and rank; NULL if none is. `dimension` is
// the source model's name of the dimension; it may be empty.
const size_t* asked_size(const std::vector<ImportOptions::Input>& sizes, const std::string& input, size_t rank,
                         size_t d, const std::string& dimension);

// Returns the whole shape that is asked for an input of unknown rank; NULL if none is.
const std::vector<size_t>* asked_shape(const std::vector<ImportOptions::Input>& sizes, const std::string& input);

// The name of a port's dimension in the source model; empty without one.
std::string dimension_name(const Port& port, size_t d);

// Returns the dimensions of an input whose sizes are asked for: bit d stands for dimension d.
uint8_t asked_dimensions(const std::vector<ImportOptions::Input>& sizes, const Graph& graph, const Port& input);

// Gives the inputs of a graph these sizes, and infers all shapes. The dimensions are no longer open. Throws Error if
// the model has no such input or dimension, or cannot have these sizes.
void set_sizes(const std::vector<ImportOptions::Input>& sizes, Graph* graph);

}  // namespace quern
