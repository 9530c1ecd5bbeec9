# 32-bit ARM like Android's armeabi-v7a: NEON, Thumb, and floats passed in integer registers. The tests run as a core
# with NEON and without FMA. Only the kernels' and the C API's tests are built: scripts/sysroot.sh fetches no more
# packages for armel.
set(CMAKE_SYSTEM_PROCESSOR armv7)
set(quern_debian armel)
set(quern_triple arm-linux-gnueabi)
set(quern_flags "-march=armv7-a -mthumb -mfpu=neon -mfloat-abi=softfp")
set(quern_emulator qemu-arm -cpu cortex-a9)
include(${CMAKE_CURRENT_LIST_DIR}/cross-debian.cmake)
