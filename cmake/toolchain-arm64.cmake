# Builds for 64-bit ARM Linux with Debian's cross compiler, the packages that scripts/sysroot.sh fetched, and qemu to run
# the tests, as the oldest core that counts.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)

set(QUERN_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-arm64 CACHE PATH "Folder that scripts/sysroot.sh filled")
get_filename_component(quern_sysroot ${QUERN_SYSROOT} ABSOLUTE)
if(NOT EXISTS ${quern_sysroot}/.complete)
  message(FATAL_ERROR "Run scripts/sysroot.sh first: ${quern_sysroot} is not filled")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QUERN_SYSROOT)

# Libraries and headers come from there; the C library to link with is the cross compiler's own.
set(CMAKE_FIND_ROOT_PATH ${quern_sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${quern_sysroot}/usr/lib/aarch64-linux-gnu:${quern_sysroot}/lib/aarch64-linux-gnu")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${quern_sysroot} -cpu cortex-a53)
