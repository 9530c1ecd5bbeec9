// Arguments of the form [NAME=]FILE.
#pragma once

#include <quern/graph.h>

#include <string>
#include <vector>

namespace quern {

// For each port the files meant for it. Names may themselves hold '=', '/' and ':', and so may files: what precedes
// the '=' is a name if and only if it is a port's, and the longest such name counts. A file without a name is for
// the only port; one with '=' must exist then. Throws CLI::ValidationError for `flag`, about `what`: input or output.
std::vector<std::vector<std::string>> name_files(const char* flag, const char* what,
                                                 const std::vector<std::string>& arguments,
                                                 const std::vector<qn_port>& ports);

}  // namespace quern
