// Arguments of the form [NAME=]FILE.
#pragma once

#include <quern/graph.h>

#include <string>
#include <vector>

namespace quern {

// Returns for each port the files that are meant for it. Names and files may themselves hold '=', '/' and ':'. So text
// before an '=' is a name only if a port has that name; of several such names the longest counts. A file without a name
// is for a model's only port, and must exist if it holds an '='. Throws CLI::ValidationError for `flag`; `what` says
// what the ports are, input or output.
std::vector<std::vector<std::string>> name_files(const char* flag, const char* what,
                                                 const std::vector<std::string>& arguments,
                                                 const std::vector<qn_port>& ports);

}  // namespace quern
