#!/bin/bash
# Installs the Debian packages that Quern needs, as root or through sudo. Asks no questions; does nothing if all
# packages are installed.
#
#   scripts/setup.sh [build] [test] [fuzz] [arm64] [armv7] [clang] [oldest] [targets] [engines] [predict] [peers] [check]
#     [ccache] [training]
#
# Default: build test.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# For building the library, the tools and the benchmarks.
build=(g++ cmake ninja-build libcpuinfo-dev libpthreadpool-dev libfp16-dev libflatbuffers-dev flatbuffers-compiler
       libcli11-dev libfmt-dev nlohmann-json3-dev libjpeg62-turbo-dev libpng-dev libprotobuf-dev protobuf-compiler
       libhdf5-dev libcairo2-dev libgtest-dev libbenchmark-dev)
# Programs that some tests call.
test=(binutils doxygen locales pkg-config python3 python3-numpy)
# Sanitizers, libFuzzer and what counts coverage, for the presets asan, ubsan, tsan and fuzz.
fuzz=(clang-19 lld-19 libclang-rt-19-dev llvm-19)
# Cross compilers and emulators: for 64-bit ARM, and for 32-bit ARM with either way to pass floats.
arm64=(g++-aarch64-linux-gnu qemu-user)
armv7=(g++-arm-linux-gnueabihf g++-arm-linux-gnueabi qemu-user)
# clang, lld and libc++, as phones' toolchains have them; googletest is built with these.
clang=(clang-19 lld-19 libc++-19-dev libc++abi-19-dev googletest)
# The oldest compiler of each family that builds Quern.
oldest=(g++-11 clang-14)
# For virtual environments of Python: scripts/check_targets.py needs the package ziglang in one.
targets=(python3-venv)
# The same for the engines that scripts/compare_engines.py compares with.
engines=(python3-venv)
# llvm-mca: scripts/predict.py predicts the speed of arm64 kernels with it.
predict=(llvm-19)
# Libraries that bench/peers compares Quern with.
peers=(libdnnl-dev libopenblas-pthread-dev libblis-openmp-dev)
# Programs that check the sources.
check=(clang-format-14 clang-14 git)
# Keeps what compilers made, for .ci/run.
ccache=(ccache)
# For scripts/train_digits.py; large packages.
training=(python3-torch python3-sklearn)

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build test)
wanted=()
for group in "${groups[@]}"; do
  case $group in
    build | test | fuzz | arm64 | armv7 | clang | oldest | targets | engines | predict | peers | check | ccache | training)
      declare -n list=$group
      wanted+=("${list[@]}")
      ;;
    *)
      echo "setup.sh: no group '$group'; there are build, test, fuzz, arm64, armv7, clang, oldest, targets, engines, predict, peers, check, ccache, training" >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "setup.sh: run this as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3)
"${apt[@]}" update >/dev/null
"${apt[@]}" install --no-install-recommends "${missing[@]}" >/dev/null
