# 32-bit ARM: ARMv7 with hardware floating point; CPUs need not have NEON. The tests run as a core with NEON and FMA.
set(CMAKE_SYSTEM_PROCESSOR armv7)
set(quern_debian armhf)
set(quern_triple arm-linux-gnueabihf)
set(quern_emulator qemu-arm -cpu cortex-a15)
include(${CMAKE_CURRENT_LIST_DIR}/cross-debian.cmake)
