#include "tool/input/shapes.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "convert/sizes.h"

namespace quern {

ImportOptions::Input parse_shape(const std::string& flag, const std::string& text) {
  const size_t equals = text.rfind('=');
  ImportOptions::Input input;
  if (equals != std::string::npos) input.name = text.substr(0, equals);
  const std::string shape = equals == std::string::npos ? text : text.substr(equals + 1);
  std::istringstream sizes(shape);
  for (std::string size; std::getline(sizes, size, 'x');) {
    const bool is_number =
        !size.empty() && size.size() < 10 && size.find_first_not_of("0123456789") == std::string::npos;
    input.shape.push_back(is_number ? std::stoul(size) : 0);
  }
  const bool positive = std::find(input.shape.begin(), input.shape.end(), size_t{0}) == input.shape.end();
  if (input.shape.empty() || input.shape.size() > QN_MAX_RANK || !positive || shape.ends_with('x'))
    throw CLI::ValidationError(flag, fmt::format("expected a shape such as 1x3x320x320, got \"{}\"", shape));
  if (equals == 0) throw CLI::ValidationError(flag, fmt::format("expected a name before the '=' of \"{}\"", text));
  return input;
}

void add_shapes(CLI::App& app, Sizes* sizes) {
  const auto add = [sizes](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) sizes->push_back(parse_shape("--shape", text));
  };
  app.add_option_function<std::vector<std::string>>(
         "--shape", add,
         "The shape of input NAME, which may be left out where there is only one, such as 1x3x320x320; or the size of "
         "all dimensions that the source model names DIMENSION. May be repeated. Default: the shapes in the model")
      ->allow_extra_args(false)
      ->type_name("[NAME=]SHAPE|DIMENSION=N");
}

void warn_of_open_sizes(const Graph& graph, const std::vector<std::string>& files) {
  std::vector<std::string> list;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (i < files.size() && !files[i].empty()) continue;
    const Port& port = graph.inputs[i];
    const Tensor& tensor = tensor_of(graph, port.tensor);
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if ((port.open >> d & 1) == 0) continue;
      const std::string name = dimension_name(port, d);
      list.push_back(fmt::format("dimension {}{} of input '{}' is {}", d, name.empty() ? "" : " (" + name + ")",
                                 tensor.name.c_str(), tensor.shape[d]));
    }
  }
  if (list.empty()) return;
  std::string line =
      fmt::format("dynamic dimensions take default sizes: {}; set them with --shape", fmt::join(list, ", "));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  std::fputs(("quern: " + line + "\n").c_str(), stderr);
}

}  // namespace quern
