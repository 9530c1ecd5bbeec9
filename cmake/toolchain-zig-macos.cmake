# Builds for macOS on any machine, with the clang, linker, headers and library stubs of the Python package ziglang:
#
#   pip install ziglang==0.17.1 && cmake --preset macos-arm64
#
# The result is linked, but cannot be run here. QUERN_MACOS_ARCH is arm64 or x86_64.
set(QUERN_MACOS_ARCH arm64 CACHE STRING "arm64 or x86_64")
set(QUERN_ZIG "" CACHE FILEPATH "The program zig; without, that of Python's package ziglang")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QUERN_MACOS_ARCH QUERN_ZIG)
if(NOT QUERN_ZIG)
  execute_process(COMMAND python3 -c "import ziglang, os; print(os.path.dirname(ziglang.__file__) + '/zig', end='')"
    OUTPUT_VARIABLE QUERN_ZIG ERROR_QUIET)
  if(NOT QUERN_ZIG)
    message(FATAL_ERROR "Run `pip install ziglang==0.17.1`, or say where zig is with QUERN_ZIG")
  endif()
endif()

set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR ${QUERN_MACOS_ARCH})
string(REPLACE arm64 aarch64 quern_target ${QUERN_MACOS_ARCH}-macos.11.0)  # zig's name of the architecture
set(CMAKE_C_COMPILER ${QUERN_ZIG} cc)
set(CMAKE_C_COMPILER_TARGET ${quern_target})
set(CMAKE_CXX_COMPILER ${QUERN_ZIG} c++)
set(CMAKE_CXX_COMPILER_TARGET ${quern_target})
set(CMAKE_ASM_COMPILER ${QUERN_ZIG} cc --target=${quern_target})
set(CMAKE_DEPFILE_FLAGS_ASM "-MD -MT <DEP_TARGET> -MF <DEP_FILE>")  # CMake does not know this assembler

# zig is one program with many subcommands, where CMake's rules expect many programs.
set(CMAKE_AR ${QUERN_ZIG} CACHE FILEPATH "")
set(CMAKE_RANLIB ${QUERN_ZIG} CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL ${QUERN_ZIG} CACHE FILEPATH "")  # CMake asks for this program, but does not use it here
foreach(language C CXX ASM)
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> ar q <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")
endforeach()

# Finds no libraries, headers or packages of this machine; only headers that are given by path.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
