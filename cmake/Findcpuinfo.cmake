# Finds cpuinfo, of which Debian ships no usable CMake files: target cpuinfo::cpuinfo.
find_path(cpuinfo_INCLUDE_DIR cpuinfo.h)
find_library(cpuinfo_LIBRARY cpuinfo)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cpuinfo REQUIRED_VARS cpuinfo_LIBRARY cpuinfo_INCLUDE_DIR)
if(cpuinfo_FOUND AND NOT TARGET cpuinfo::cpuinfo)
  add_library(cpuinfo::cpuinfo UNKNOWN IMPORTED)
  set_target_properties(cpuinfo::cpuinfo PROPERTIES IMPORTED_LOCATION "${cpuinfo_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${cpuinfo_INCLUDE_DIR}")
endif()
mark_as_advanced(cpuinfo_INCLUDE_DIR cpuinfo_LIBRARY)
