# Builds cpuinfo and pthreadpool from QUERN_DEPS_DIR, for size: targets cpuinfo::cpuinfo and pthreadpool::pthreadpool.

# Adds one of the two by its own CMake files. Settings for these stay within this function. Their targets are not
# installed, and are built only if one of ours needs them. Warnings about their headers are not reported.
function(quern_build_dependency name)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # the variables below take the place of options with their names,
  set(CMAKE_POLICY_DEFAULT_CMP0126 NEW)  # and of variables in the cache
  set(CMAKE_POLICY_DEFAULT_CMP0069 NEW)  # interprocedural optimization
  set(CMAKE_WARN_DEPRECATED OFF)  # about the versions of CMake that they still support
  set(CPUINFO_LIBRARY_TYPE static)
  set(CPUINFO_LOG_LEVEL none)
  set(CPUINFO_LOG_TO_STDIO ON)  # otherwise Android's log library would be linked, although nothing is logged
  set(PTHREADPOOL_LIBRARY_TYPE static)
  foreach(part TOOLS UNIT_TESTS MOCK_TESTS TESTS BENCHMARKS PKG_CONFIG)
    set(CPUINFO_BUILD_${part} OFF)
    set(PTHREADPOOL_BUILD_${part} OFF)
    set(FXDIV_BUILD_${part} OFF)
  endforeach()
  set(FXDIV_SOURCE_DIR ${QUERN_DEPS_DIR}/FXdiv)  # pthreadpool would download it
  foreach(part LIBS GOOGLETEST GOOGLEBENCHMARK)  # settings of cpuinfo for parts that are not built
    set(USE_SYSTEM_${part} OFF)
  endforeach()
  set(CCACHE_BINARY OFF)  # pthreadpool would set up ccache for the whole build
  add_subdirectory(${QUERN_DEPS_DIR}/${name} ${PROJECT_BINARY_DIR}/deps/${name} EXCLUDE_FROM_ALL SYSTEM)

  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden
    COMPILE_WARNING_AS_ERROR OFF)
  target_compile_options(${name} PRIVATE -w -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
    -fno-unwind-tables $<$<CONFIG:Release>:-Os>)
  if(QUERN_SMALL)
    target_compile_options(${name} PRIVATE ${quern_small_flags} "$<$<CONFIG:Release>:${quern_small_optimization}>")
    set_target_properties(${name} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ${quern_has_ipo})
  endif()
endfunction()

foreach(name cpuinfo pthreadpool)
  if(NOT TARGET ${name})  # a project around this one may have a target of its own
    quern_build_dependency(${name})
  endif()
  if(NOT TARGET ${name}::${name})  # newer versions define the alias themselves
    add_library(${name}::${name} ALIAS ${name})
  endif()
endforeach()
