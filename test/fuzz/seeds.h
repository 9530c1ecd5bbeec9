// Small valid files of every kind that programs of ours read, made here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convert/keras/contents.h"

namespace quern {

struct Seed {
  std::string name;
  std::string bytes;
};

std::vector<Seed> onnx_seeds();
// One node each, of the operators that libquern-extra runs.
std::vector<Seed> onnx_operator_seeds();
// The first of them with its constants in a file beside it, named `location`, whose bytes go to `data`.
Seed external_onnx_seed(const std::string& location, std::string* data);
std::vector<Seed> tflite_seeds();
std::vector<Seed> tensorflow_seeds();
std::vector<Seed> tensorflow_text_seeds();
// Models of ours, converted from the other ones, as they are, optimised, and with few weights left; those of one node
// only as they are. Some are files of version 2, whose contents are coded.
std::vector<Seed> quern_seeds();

// Models that are two files: a text, a NUL, and bytes, which may be none.
std::pair<std::string, std::string> two_parts(const std::string& bytes);
// A net and its weights.
std::vector<Seed> caffe_seeds();
// An architecture, and a stream of the rest of a file's contents.
std::vector<Seed> keras_seeds();

// Contents of files of Keras, as the process that reads them sends them.
std::vector<Seed> keras_streams();
// Throws an Error if `bytes` end too early.
keras::Contents contents_of_stream(const std::string& bytes);
#ifdef QUERN_HDF5
std::vector<Seed> keras_files();
#endif

std::vector<Seed> png_seeds();
std::vector<Seed> jpeg_seeds();
std::vector<Seed> npy_seeds();
// Samples for an input of 1 x 3 x 8 x 8: in .npy arrays, in .npz archives, and in idx files.
std::vector<Seed> npy_sample_seeds();
std::vector<Seed> npz_sample_seeds();
std::vector<Seed> idx_sample_seeds();

// A file that goes when this does.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& extension);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const std::string& bytes) const;
  std::string read() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quern
