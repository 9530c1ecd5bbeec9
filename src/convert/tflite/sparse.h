// Sparse constants.
#pragma once

#include "convert/tflite/node.h"

namespace quern::tflite {

// Makes a dense array of a sparse constant. `from` has the shape of the tensor and the bytes of the elements that are
// stored; all others are 0.
Array densify(const Array& from, const schema::Sparsity& sparsity, Builder& builder);

}  // namespace quern::tflite
