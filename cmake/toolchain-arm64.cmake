# 64-bit ARM; the tests run as the oldest core that counts.
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(quern_debian arm64)
set(quern_triple aarch64-linux-gnu)
set(quern_emulator qemu-aarch64 -cpu cortex-a53)
# Pages as phones have them. (Where they may have 64 KiB, GNU ld pads files by up to that.)
set(quern_linker_flags -Wl,-z,max-page-size=16384)
include(${CMAKE_CURRENT_LIST_DIR}/cross-debian.cmake)
