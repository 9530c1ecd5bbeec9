// The samples of a data set for a model's inputs: images, and arrays that may hold many samples each.
#pragma once

#include <string>
#include <vector>

#include "tool/input/npy.h"
#include "tool/input/rounds.h"
#include "tool/model.h"

namespace quern {

// How an array divides into samples along its first dimension.
struct Slices {
  size_t count = 1;
  std::vector<size_t> shape;  // of one
  bool images = false;        // uint8 pixels, which preprocessing makes an input of
};
// Divides an array for an input. Bit d of `open` says that the input's dimension d is dynamic.
//
//   array                  input                         samples
//   N x H x W, uint8       an image                      N gray images
//   N x H x W x C, uint8   an image                      N images of 1 or 3 channels; C may also come before H
//   k B x rest             B x ...                       k, of shape B x rest
//   N x B x rest           B x rest                      N
//   k B x other            B x rest, as many elements    k, reshaped to the input
//
// All others are one sample. Throws Error, which calls the array `who`, if it is empty, or if uint8 values for an image
// are no images, or if the first dimension is no multiple of the input's.
Slices slice_array(const NpyArray& array, const qn_port& input, unsigned open, const std::string& who);

// The samples in the files for one input of a model.
class Samples {
 public:
  // Images and arrays (read_array); a folder stands for the files in it (inputs_in). Arrays of several samples and
  // the first array remain in memory; all other files are read when it is their turn. `flags` must outlive this.
  Samples(const std::vector<std::string>& files, const qn_model* model, size_t index, const InputFlags& flags);
  size_t size() const { return size_; }
  // The file that has sample `i`.
  const std::string& file_of(size_t i) const { return file_with(i).path; }
  // Makes sample `i` the content of the input. `model` may be another model with the same inputs.
  InputData read(size_t i, const qn_model* model) const;

 private:
  struct File {
    std::string path;
    size_t first;  // sample
    Slices slices;
    NpyArray array;  // without elements if the file is read again
  };
  const File& file_with(size_t i) const;
  NpyArray read_file_array(const std::string& path) const;
  void add(const std::string& path, const qn_model* model);

  size_t index_, size_ = 0;
  std::string input_;  // its name
  const InputFlags& flags_;
  std::vector<File> files_;
};

// The samples for all inputs of a model, as rounds: an input with one sample gets it in every round. Of a state,
// taken_in() tells.
class SampleSet {
 public:
  // `files`: for each input. Throws CLI::ValidationError for `flag` if inputs have different numbers of samples.
  SampleSet(const char* flag, const std::vector<std::vector<std::string>>& files, const qn_model* model,
            const InputFlags& flags);
  size_t size() const { return size_; }
  // The file of each round's first input.
  std::vector<std::string> files() const;
  std::vector<InputData> read(size_t round, const qn_model* model) const;

 private:
  std::vector<Samples> inputs_;
  size_t size_ = 0;
};

}  // namespace quern
