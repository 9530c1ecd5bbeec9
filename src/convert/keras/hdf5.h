// Reads Keras' HDF5 files.
#pragma once

#include "convert/keras/contents.h"

namespace quern::keras {

// Reads a file in a process of its own, because libhdf5 is not safe on hostile files. Throws an Error if the file is
// damaged, or if this build has no libhdf5.
Contents read_hdf5(const std::string& path);

}  // namespace quern::keras
