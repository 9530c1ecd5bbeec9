# The rules of `cmake --install`: headers, libraries, the quern command, the CMake package and files for pkg-config.
include(CMakePackageConfigHelpers)
set(quern_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/quern)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(QUERN_BUILD_SHARED)
  install(TARGETS quern_shared EXPORT quern-shared)
  install(EXPORT quern-shared NAMESPACE quern:: DESTINATION ${quern_package_dir})
endif()
if(QUERN_BUILD_STATIC)
  install(TARGETS quern_static EXPORT quern-static)
  install(EXPORT quern-static NAMESPACE quern:: DESTINATION ${quern_package_dir})
endif()
if(TARGET quern_all)
  install(TARGETS quern_all EXPORT quern-all)
  install(EXPORT quern-all NAMESPACE quern:: DESTINATION ${quern_package_dir})
endif()
if(TARGET quern)
  install(TARGETS quern)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(APPLE)  # entries for the manifest of an app that links the library
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/PrivacyInfo.xcprivacy DESTINATION ${CMAKE_INSTALL_DATADIR}/quern)
endif()

# The libraries that a program needs beside libquern.a: dependencies of the runtime, and libraries that a C++ compiler
# adds.
set(quern_cxx_libraries ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_ITEM quern_cxx_libraries ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
set(quern_private_libraries cpuinfo pthreadpool)
if(QUERN_DEPS_DIR)
  # They were built here from source, so they are installed as well.
  if(TARGET clog)
    list(INSERT quern_private_libraries 1 clog)
  endif()
  foreach(library IN LISTS quern_private_libraries)
    install(FILES $<TARGET_FILE:${library}> DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
endif()

install(FILES cmake/Findcpuinfo.cmake cmake/Findpthreadpool.cmake cmake/FindFP16.cmake DESTINATION ${quern_package_dir})
configure_package_config_file(cmake/quern-config.cmake.in quern-config.cmake INSTALL_DESTINATION ${quern_package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(quern-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/quern-config.cmake ${PROJECT_BINARY_DIR}/quern-config-version.cmake
  DESTINATION ${quern_package_dir})

# The files for pkg-config find their prefix from the folder they lie in, so an installed tree can be moved. A folder
# that is given as an absolute path stays as it is.
set(quern_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(quern_pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  cmake_path(RELATIVE_PATH quern_pc_prefix BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${quern_pc_dir})
  string(PREPEND quern_pc_prefix "\${pcfiledir}/")
endif()
set(quern_pc_libdir "\${prefix}")
set(quern_pc_includedir "\${prefix}")
cmake_path(APPEND quern_pc_libdir ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND quern_pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
list(TRANSFORM quern_private_libraries PREPEND -l OUTPUT_VARIABLE quern_pc_libraries)
list(TRANSFORM quern_cxx_libraries PREPEND -l OUTPUT_VARIABLE quern_pc_cxx_libraries)
list(APPEND quern_pc_libraries ${quern_pc_cxx_libraries} -pthread)
list(REMOVE_DUPLICATES quern_pc_libraries)
list(JOIN quern_pc_libraries " " quern_pc_libraries)
list(JOIN quern_pc_cxx_libraries " " quern_pc_cxx_libraries)
foreach(name IN ITEMS quern quern_all)
  if(NOT name STREQUAL "quern_all" OR TARGET quern_all)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${quern_pc_dir})
  endif()
endforeach()
