// The importer without the file.
#pragma once

#include "convert/keras/contents.h"
#include "graph/ir/ir.h"

namespace quern::keras {

// Imports what a file holds. `outputs` are as in ImportOptions; layers within a model have its name before their own:
// "backbone/conv".
Graph import_contents(const Contents& contents, const std::vector<std::string>& outputs);

}  // namespace quern::keras
