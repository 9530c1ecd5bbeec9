# Stands in for the file of this name of Android's NDK, where there is none: it answers to the same variables, searches
# alike, and passes the same options to clang, lld and libc++. The C library is Debian's.
set(CMAKE_SYSTEM_NAME Android)
set(CMAKE_SYSTEM_VERSION 1)  # CMake's own support stays out of it
set(QUERN_SYSROOTS "" CACHE PATH "Folder with sysroot-arm64 and sysroot-armel, which scripts/sysroot.sh filled")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANDROID_ABI ANDROID_PLATFORM ANDROID_STL QUERN_SYSROOTS)
if(NOT ANDROID_STL STREQUAL "c++_static" OR NOT ANDROID_PLATFORM MATCHES "^android-([0-9]+)$")
  message(FATAL_ERROR "ANDROID_STL and ANDROID_PLATFORM: '${ANDROID_STL}' and '${ANDROID_PLATFORM}'")
endif()
set(level ${CMAKE_MATCH_1})

if(ANDROID_ABI STREQUAL "arm64-v8a")
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(triple aarch64-linux-gnu)
  set(sysroot ${QUERN_SYSROOTS}/sysroot-arm64)
elseif(ANDROID_ABI STREQUAL "armeabi-v7a")
  set(CMAKE_SYSTEM_PROCESSOR armv7-a)
  set(triple arm-linux-gnueabi)
  set(sysroot ${QUERN_SYSROOTS}/sysroot-armel)
  set(flags "-march=armv7-a -mthumb -mfpu=neon -mfloat-abi=softfp")
elseif(ANDROID_ABI STREQUAL "x86_64")
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
  set(triple x86_64-linux-gnu)
else()
  message(FATAL_ERROR "ANDROID_ABI: '${ANDROID_ABI}'")
endif()
set(llvm ${sysroot}/usr/lib/llvm-19)

set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_ASM_COMPILER clang-19)
foreach(language C CXX ASM)
  set(CMAKE_${language}_COMPILER_TARGET ${triple})
  set(CMAKE_${language}_FLAGS_INIT "-g -DANDROID -isystem ${CMAKE_CURRENT_LIST_DIR}/../../include -fdata-sections \
-ffunction-sections -funwind-tables -fstack-protector-strong -no-canonical-prefixes -D_FORTIFY_SOURCE=2 -Wformat \
-Werror=format-security ${flags}")
endforeach()
# What clang would define for Android. This C++ library would then ask for Android's C library.
string(PREPEND CMAKE_C_FLAGS_INIT "-D__ANDROID__ -D__ANDROID_API__=${level} ")
string(PREPEND CMAKE_CXX_FLAGS_INIT "-nostdinc++ -isystem ${llvm}/include/c++/v1 ")
set(link "-fuse-ld=lld-19 -stdlib=libc++ -L${llvm}/lib -static-libstdc++ -Wl,--build-id=sha1 -Wl,--no-rosegment \
-Wl,--fatal-warnings -Wl,--gc-sections -Wl,--no-undefined -Qunused-arguments")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${link}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${link}")

# As there: nothing is found outside the NDK, which has none of our dependencies.
list(APPEND CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/../..)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
