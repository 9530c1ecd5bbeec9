# 64-bit ARM; the tests run as a Cortex-A53, the oldest core that matters.
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(quern_debian arm64)
set(quern_triple aarch64-linux-gnu)
set(quern_emulator qemu-aarch64 -cpu cortex-a53)
# Phones have pages of up to 16 KiB. (By default GNU ld aligns for 64 KiB, and pads files by up to that.)
set(quern_linker_flags -Wl,-z,max-page-size=16384)
include(${CMAKE_CURRENT_LIST_DIR}/cross-debian.cmake)
