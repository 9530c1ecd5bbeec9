# Finds libhdf5, the build without MPI: target hdf5_serial::hdf5_serial. (CMake's own module runs a compiler of HDF5, which
# does not work for other architectures.)
find_path(hdf5_serial_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(hdf5_serial_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(hdf5_serial REQUIRED_VARS hdf5_serial_LIBRARY hdf5_serial_INCLUDE_DIR)
if(hdf5_serial_FOUND AND NOT TARGET hdf5_serial::hdf5_serial)
  add_library(hdf5_serial::hdf5_serial UNKNOWN IMPORTED)
  set_target_properties(hdf5_serial::hdf5_serial PROPERTIES IMPORTED_LOCATION "${hdf5_serial_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${hdf5_serial_INCLUDE_DIR}")
endif()
mark_as_advanced(hdf5_serial_INCLUDE_DIR hdf5_serial_LIBRARY)
