// Classifies a picture, as classify.c does, in C++17. Handles release the objects that they own, and a call that fails
// throws an exception.
//
//     classify MODEL.qn PICTURE [CLASS]
//
// PICTURE is a binary PGM (gray) or PPM (colours) without comments. It must have the size that the model takes. CLASS
// is the number of the right class: with it, the exit status is 1 if the model finds another class.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <quern/quern.hpp>
#include <stdexcept>
#include <string>
#include <vector>

// Reads a picture, which must have this size. Returns its bytes row by row, `channels` for each pixel.
static std::vector<char> read_picture(const char* path, size_t height, size_t width, size_t channels) {
  std::ifstream file(path, std::ios::binary);
  std::string kind;
  size_t columns = 0, rows = 0, largest = 0;
  std::vector<char> pixels(height * width * channels);
  file >> kind >> columns >> rows >> largest;
  file.get();
  if (kind != (channels == 1 ? "P5" : "P6") || rows != height || columns != width || largest != 255 ||
      !file.read(pixels.data(), static_cast<std::streamsize>(pixels.size())))
    throw std::runtime_error(std::string(path) + ": not a picture as the model takes it");
  return pixels;
}

// Makes the model's input from a picture: one channel after the other, as in ONNX and Caffe. Subtracts a mean from each
// pixel and scales the difference.
static std::vector<float> make_input(const qn::Model& model, const char* path) {
  const qn_tensor tensor = model.input(0).tensor;
  const qn_preprocessing wanted = model.preprocessing(0);
  const size_t channels = tensor.shape[1];
  if (tensor.type != QN_F32 || tensor.rank != 4 || tensor.shape[0] != 1 || (channels != 1 && channels != 3) ||
      !wanted.present)
    throw std::runtime_error("the model does not take one picture");
  const std::vector<char> bytes = read_picture(path, tensor.shape[2], tensor.shape[3], channels);
  std::vector<float> input;
  for (size_t c = 0; c < channels; ++c) {
    const size_t from = wanted.bgr ? channels - 1 - c : c;
    for (size_t i = from; i < bytes.size(); i += channels)
      input.push_back((static_cast<unsigned char>(bytes[i]) - wanted.mean[c]) * wanted.scale[c]);
  }
  return input;
}

int main(int argc, char** argv) try {
  if (argc < 3) throw std::runtime_error("usage: classify MODEL.qn PICTURE [CLASS]");
  const qn::Model model = qn::Model::load_file(argv[1]);
  auto options = qn::init(qn_session_options_init);
  options.threads = 2;
  qn::Session session = qn::Session::create(model, &options);

  const std::vector<float> input = make_input(model, argv[2]);
  const qn_tensor output = model.output(0).tensor;
  std::vector<float> scores(qn_tensor_bytes(&output) / sizeof(float));
  session.bind_output(0, scores.data(), scores.size() * sizeof(float));
  session.run({input.data()});

  const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
  std::cout << "class " << best << ", " << 100 * scores[best] << "%\n";
  return argc > 3 && std::stol(argv[3]) != best;
} catch (const std::exception& error) {  // also catches qn::Error, which has a status
  std::cerr << error.what() << '\n';
  return 1;
}
