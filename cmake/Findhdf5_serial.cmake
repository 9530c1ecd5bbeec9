# Finds the shared libhdf5, the build without MPI. (CMake's own module runs a compiler of HDF5, which does not work for
# other architectures.) Targets: hdf5_serial::hdf5_serial for programs that link it, hdf5_serial::headers for those that
# load it. Both define QUERN_HDF5, the name to load it by.
find_path(hdf5_serial_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
set(all_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(CMAKE_FIND_LIBRARY_SUFFIXES ${CMAKE_SHARED_LIBRARY_SUFFIX})
find_library(hdf5_serial_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${all_suffixes})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(hdf5_serial REQUIRED_VARS hdf5_serial_LIBRARY hdf5_serial_INCLUDE_DIR)
if(hdf5_serial_FOUND AND NOT TARGET hdf5_serial::hdf5_serial)
  # libhdf5.so is there for linkers: it is a link to libhdf5.so.103.3.0, and what is linked asks for libhdf5.so.103.
  file(REAL_PATH "${hdf5_serial_LIBRARY}" name)
  string(REGEX REPLACE "^.*/([^/]*\\.so\\.[0-9]+)[^/]*$" "\\1" name "${name}")
  add_library(hdf5_serial::headers INTERFACE IMPORTED)
  target_include_directories(hdf5_serial::headers INTERFACE "${hdf5_serial_INCLUDE_DIR}")
  target_compile_definitions(hdf5_serial::headers INTERFACE QUERN_HDF5="${name}")
  add_library(hdf5_serial::hdf5_serial UNKNOWN IMPORTED)
  set_target_properties(hdf5_serial::hdf5_serial PROPERTIES IMPORTED_LOCATION "${hdf5_serial_LIBRARY}")
  target_link_libraries(hdf5_serial::hdf5_serial INTERFACE hdf5_serial::headers)
endif()
mark_as_advanced(hdf5_serial_INCLUDE_DIR hdf5_serial_LIBRARY)
