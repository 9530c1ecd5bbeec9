// Small valid files of every kind that programs of ours read, made here.
#pragma once

#include <string>
#include <vector>

#include "convert/keras/contents.h"

namespace quern {

struct Seed {
  std::string name;
  std::string bytes;
};

std::vector<Seed> onnx_seeds();
// The first of them with its constants in a file beside it, named `location`, whose bytes go to `data`.
Seed external_onnx_seed(const std::string& location, std::string* data);
std::vector<Seed> tflite_seeds();
std::vector<Seed> tensorflow_seeds();
Seed tensorflow_text_seed();
// Models of ours, converted from the other ones, as they are, optimised, and with few weights left.
std::vector<Seed> quern_seeds();

struct CaffeSeed {
  std::string name, net, weights;
};
std::vector<CaffeSeed> caffe_seeds();

// Architectures of Keras, and the contents of files, as the process that reads them sends them.
std::vector<Seed> keras_configs();
keras::Contents keras_contents(const std::string& config);
std::vector<Seed> keras_streams();
#ifdef QUERN_HAS_HDF5
std::vector<Seed> keras_files();
#endif

std::vector<Seed> png_seeds();
std::vector<Seed> jpeg_seeds();
std::vector<Seed> npy_seeds();

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
