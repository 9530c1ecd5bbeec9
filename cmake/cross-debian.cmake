# Builds for the Linux of another architecture: with Debian's cross compiler, the packages that scripts/sysroot.sh has
# fetched, and qemu to run the tests. A toolchain file includes this file after it has set
#   CMAKE_SYSTEM_PROCESSOR
#   quern_debian      Debian's name of the architecture
#   quern_triple      what the names of the compiler and of library folders begin with
#   quern_emulator    command, then arguments
#   quern_flags       for every compiler; may be missing
#   quern_linker_flags  for every linker; may be missing
set(CMAKE_SYSTEM_NAME Linux)
set(QUERN_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-${quern_debian} CACHE PATH "Folder that scripts/sysroot.sh filled")
set(QUERN_CLANG "" CACHE STRING "Version of clang, lld and libc++ to build with in place of GCC; its C library stays")
get_filename_component(quern_sysroot ${QUERN_SYSROOT} ABSOLUTE)
if(NOT EXISTS ${quern_sysroot}/.complete)
  message(FATAL_ERROR "Run scripts/sysroot.sh ${quern_debian} first: ${quern_sysroot} is not filled")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QUERN_SYSROOT QUERN_CLANG)

set(quern_library_dirs ${quern_sysroot}/usr/lib/${quern_triple}:${quern_sysroot}/lib/${quern_triple})
set(quern_link "-Wl,-rpath-link,${quern_library_dirs} ${quern_linker_flags}")
if(QUERN_CLANG)
  set(quern_llvm ${quern_sysroot}/usr/lib/llvm-${QUERN_CLANG})
  foreach(language C CXX ASM)
    set(CMAKE_${language}_COMPILER_TARGET ${quern_triple})
    set(CMAKE_${language}_COMPILER clang-${QUERN_CLANG})
  endforeach()
  set(CMAKE_CXX_COMPILER clang++-${QUERN_CLANG})
  # libc++ must come before the sysroot's headers of the C library. Hence -I, as FlatBuffers' folder in the sysroot is
  # given by -isystem.
  set(quern_cxx_flags "-nostdinc++ -I${quern_llvm}/include/c++/v1")
  string(APPEND quern_link " -fuse-ld=lld -stdlib=libc++ -L${quern_llvm}/lib")
else()
  set(CMAKE_C_COMPILER ${quern_triple}-gcc)
  set(CMAKE_CXX_COMPILER ${quern_triple}-g++)
  set(CMAKE_ASM_COMPILER ${quern_triple}-gcc)
endif()
set(CMAKE_C_FLAGS_INIT "${quern_flags}")
set(CMAKE_CXX_FLAGS_INIT "${quern_flags} ${quern_cxx_flags}")
set(CMAKE_ASM_FLAGS_INIT "${quern_flags}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${quern_link}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${quern_link}")

# Libraries and headers come from the sysroot; the C library to link with is the cross compiler's own.
set(CMAKE_FIND_ROOT_PATH ${quern_sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE ${quern_triple})

list(GET quern_emulator 0 command)
list(SUBLIST quern_emulator 1 -1 arguments)
set(CMAKE_CROSSCOMPILING_EMULATOR ${command} -L ${quern_sysroot} ${arguments})
