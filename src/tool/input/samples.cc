#include "tool/input/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>

#include "graph/file/format.h"
#include "tool/input/arrays.h"

namespace quern {
namespace {

using Shape = std::vector<size_t>;

// Numbers of elements do not overflow: those of a whole array are bounded by its file, and it has some.
size_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<size_t>());
}

Shape without_first(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

bool is_u8(const NpyArray& array) { return array.kind == 'u' && array.item == 1; }

bool takes_images(const qn_port& input, unsigned open) {
  const qn_type type = input.tensor.type;
  return (type == QN_F32 || type == QN_F16 || type == QN_S8 || type == QN_U8) &&
         image_port(input.tensor.shape, input.tensor.rank, open);
}

// Is this the shape of N images?
bool are_images(const Shape& shape) {
  const bool gray = shape.size() == 3 && shape[2] != 3;  // else it is one image with three channels
  return gray || image_port(shape.data(), shape.size());
}

// Images of an array have one or three channels, which come first or last; gray ones may have no dimension for that.
Image image_of(const NpyArray& slice, const std::string& who) {
  const Shape& shape = slice.shape;
  const Shape four = shape.size() == 2 ? Shape{1, 1, shape[0], shape[1]} : Shape{1, shape[0], shape[1], shape[2]};
  const ImagePort port = *image_port(four.data(), four.size());
  check_image_size(port.width, port.height, who);
  Image image = {port.width, port.height, port.channels, slice.bytes};
  if (!port.channels_first || port.channels == 1) return image;
  const size_t count = port.width * port.height;
  for (size_t c = 0; c < port.channels; ++c)
    for (size_t i = 0; i < count; ++i) image.pixels[i * port.channels + c] = slice.bytes[c * count + i];
  return image;
}

NpyArray slice_of(const NpyArray& array, const Slices& slices, size_t i) {
  const auto bytes = static_cast<std::ptrdiff_t>(array.bytes.size() / slices.count);
  const auto begin = array.bytes.begin() + static_cast<std::ptrdiff_t>(i) * bytes;
  return {array.kind, array.item, slices.shape, {begin, begin + bytes}};
}

}  // namespace

Slices slice_array(const NpyArray& array, const qn_port& input, unsigned open, const std::string& who) {
  const Shape& shape = array.shape;
  const Shape port(input.tensor.shape, input.tensor.shape + input.tensor.rank);
  const Slices one = {1, shape, false};
  if (array.bytes.empty()) throw Error(fmt::format("{}: expected samples, got an array without elements", who));
  if (is_u8(array) && takes_images(input, open)) {
    if (!are_images(shape))
      throw Error(
          fmt::format("{}: expected uint8 images, N x H x W or N x H x W x C with 1 or 3 channels, got shape {}", who,
                      fmt::join(shape, "x")));
    return {shape[0], without_first(shape), true};
  }
  if (shape.empty()) return one;
  if (shape.size() == port.size() + 1 && (port.empty() || shape[1] == port[0]))
    return {shape[0], without_first(shape), false};
  if (port.empty()) return one;
  const bool same_rank = shape.size() == port.size();
  const bool reshaped = !same_rank && product(without_first(shape)) == product(without_first(port));
  const size_t batch = port[0];
  if (batch == 0 || !(reshaped || (same_rank && shape[0] > batch))) return one;
  if (shape[0] % batch != 0)
    throw Error(fmt::format("{}: expected a multiple of {} items, the batch of input \"{}\", got {}; see --shape", who,
                            batch, input.name, shape[0]));
  Shape slice = reshaped ? port : shape;
  slice[0] = batch;
  return {shape[0] / batch, slice, false};
}

Samples::Samples(const std::vector<std::string>& files, const qn_model* model, size_t index, const InputFlags& flags)
    : index_(index), input_(input_port(model, index).name), flags_(flags) {
  for (const std::string& path : files) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      add(path, model);
      continue;
    }
    for (const std::string& file : inputs_in(path)) add(file, model);
  }
}

NpyArray Samples::read_file_array(const std::string& path) const {
  return read_array(path, {input_, "images", "x", "data"});
}

void Samples::add(const std::string& path, const qn_model* model) {
  File file = {path, size_, {}, {}};
  if (!is_image_name(path)) {
    NpyArray array = read_file_array(path);
    const Port& input = model_graph(*model).inputs[index_];
    const qn_port port = input_port(model, index_);
    file.slices = input.unsized ? Slices{1, array.shape, false} : slice_array(array, port, input.open, path);
    if (is_u8(array) && !file.slices.images && flags_.images.any() && qn_model_input_count(model) == 1)
      throw Error(
          fmt::format("{}: input \"{}\" of shape {} takes no images, to which --mean, --scale and the like apply", path,
                      input_, shape_text(port.tensor.shape, port.tensor.rank)));
    if (files_.empty() || file.slices.shape != array.shape) file.array = std::move(array);
  }
  size_ += file.slices.count;
  files_.push_back(std::move(file));
}

const Samples::File& Samples::file_with(size_t i) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), i,
                                      [](size_t sample, const File& file) { return sample < file.first; });
  return *(after - 1);
}

InputData Samples::read(size_t i, const qn_model* model) const {
  const File& file = file_with(i);
  if (is_image_name(file.path)) return make_input(read_image(file.path), file.path, model, index_, flags_);
  if (file.array.bytes.empty()) return make_input(read_file_array(file.path), file.path, model, index_, flags_);
  const NpyArray slice = slice_of(file.array, file.slices, i - file.first);
  const std::string who = file.slices.count == 1 ? file.path : fmt::format("{}: sample {}", file.path, i - file.first);
  if (file.slices.images) return make_input(image_of(slice, who), who, model, index_, flags_);
  return make_input(slice, who, model, index_, flags_);
}

SampleSet::SampleSet(const char* flag, const std::vector<std::vector<std::string>>& files, const qn_model* model,
                     const InputFlags& flags) {
  std::vector<size_t> counts;
  for (size_t i = 0; i < files.size(); ++i) {
    inputs_.emplace_back(files[i], model, i, flags);
    counts.push_back(inputs_.back().size());
  }
  size_ = count_rounds(flag, counts, model);
}

std::vector<std::string> SampleSet::files() const {
  std::vector<std::string> files;
  for (size_t round = 0; round < size_; ++round)
    files.push_back(inputs_[0].file_of(inputs_[0].size() == 1 ? 0 : round));
  return files;
}

std::vector<InputData> SampleSet::read(size_t round, const qn_model* model) const {
  std::vector<InputData> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::optional<size_t> taken = taken_in(round, inputs_[i].size(), is_state(model, i));
    inputs.push_back(taken ? inputs_[i].read(*taken, model) : InputData{input_port(model, i).tensor, {}});
  }
  return inputs;
}

}  // namespace quern
