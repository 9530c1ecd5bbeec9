# Builds for another architecture's Linux with Debian's cross compiler, the packages that scripts/sysroot.sh fetched, and
# qemu to run the tests.  Included by a toolchain file, which has set
#   CMAKE_SYSTEM_PROCESSOR
#   quern_debian      Debian's name of the architecture
#   quern_triple      what the names of the compiler and of library folders begin with
#   quern_emulator    command, then arguments
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${quern_triple}-gcc)
set(CMAKE_CXX_COMPILER ${quern_triple}-g++)
set(CMAKE_ASM_COMPILER ${quern_triple}-gcc)

set(QUERN_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-${quern_debian} CACHE PATH "Folder that scripts/sysroot.sh filled")
get_filename_component(quern_sysroot ${QUERN_SYSROOT} ABSOLUTE)
if(NOT EXISTS ${quern_sysroot}/.complete)
  message(FATAL_ERROR "Run scripts/sysroot.sh ${quern_debian} first: ${quern_sysroot} is not filled")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QUERN_SYSROOT)

# Libraries and headers come from there; the C library to link with is the cross compiler's own.
set(CMAKE_FIND_ROOT_PATH ${quern_sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE ${quern_triple})
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${quern_sysroot}/usr/lib/${quern_triple}:${quern_sysroot}/lib/${quern_triple}")

list(GET quern_emulator 0 command)
list(SUBLIST quern_emulator 1 -1 arguments)
set(CMAKE_CROSSCOMPILING_EMULATOR ${command} -L ${quern_sysroot} ${arguments})
