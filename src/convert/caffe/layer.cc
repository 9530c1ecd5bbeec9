#include "convert/caffe/layer.h"

#include <algorithm>

#include "base/math.h"

namespace quern::caffe {
namespace {

std::string text_of(const Shape& shape) {
  std::string text;
  for (const size_t d : shape) text.append(text.empty() ? "" : " x ").append(std::to_string(d));
  return text.empty() ? "one number" : text;
}

Shape shape_of(const schema::BlobProto& blob, const Layer& layer) {
  std::vector<int64_t> dims(blob.shape().dim().begin(), blob.shape().dim().end());
  if (!blob.has_shape()) dims = {blob.num(), blob.channels(), blob.height(), blob.width()};
  Shape shape;
  for (const int64_t d : dims) {
    if (d < 0) layer.fail("a blob of weights has a negative size");
    if (d != 1) shape.push_back(static_cast<size_t>(d));
  }
  return shape;
}

}  // namespace

// Returns the numbers of a blob of weights, which must have the expected shape. Dimensions of 1 are not compared,
// because in old files every blob has four dimensions.
std::vector<float> Layer::blob(int index, const Shape& expected) const {
  const schema::BlobProto& blob = blobs->Get(index);
  Shape wanted = expected;
  wanted.erase(std::remove(wanted.begin(), wanted.end(), 1u), wanted.end());
  size_t count = 1;
  for (const size_t d : expected) {
    if (!checked_mul(count, d, &count)) fail("too many weights");
  }
  const Shape found = shape_of(blob, *this);
  if (found != wanted) {
    fail("blob " + std::to_string(index) + " is " + text_of(found) + ", the layer needs " + text_of(expected));
  }
  const int stored = blob.double_data_size() > 0 ? blob.double_data_size() : blob.data_size();
  if (static_cast<size_t>(stored) != count) {
    fail("blob " + std::to_string(index) + " holds " + std::to_string(stored) + " numbers instead of " +
         std::to_string(count));
  }
  if (blob.double_data_size() > 0) return {blob.double_data().begin(), blob.double_data().end()};
  return {blob.data().begin(), blob.data().end()};
}

}  // namespace quern::caffe
