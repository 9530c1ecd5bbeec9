# Finds the headers of FP16: target FP16::FP16.
find_path(FP16_INCLUDE_DIR fp16.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FP16 REQUIRED_VARS FP16_INCLUDE_DIR)
if(FP16_FOUND AND NOT TARGET FP16::FP16)
  add_library(FP16::FP16 INTERFACE IMPORTED)
  set_target_properties(FP16::FP16 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${FP16_INCLUDE_DIR}")
endif()
mark_as_advanced(FP16_INCLUDE_DIR)
