#!/bin/bash
# Fills a folder with the packages of another architecture that a cross build and its tests need: libraries, headers and
# the C library, from Debian.
#
#   scripts/sysroot.sh [arm64 | armhf | armel] [FOLDER]  default: arm64, build/sysroot-ARCH of this repository
#
# apt keeps its state within the folder, so the system stays untouched and root is not needed. Packages that are already
# there stay: a second run does nothing.
set -eu

arch=${1:-arm64}
. "$(dirname "$0")/common.sh"
root=${2:-build/sysroot-$arch}
packages="libcpuinfo-dev libpthreadpool-dev libfp16-dev libflatbuffers-dev libprotobuf-dev
          libgtest-dev libstdc++6 libcli11-dev libfmt-dev nlohmann-json3-dev libjpeg62-turbo-dev libpng-dev
          libhdf5-dev"
llvm="libc++-19-dev libc++abi-19-dev"  # for builds with clang

case $arch in
    arm64) packages="$packages $llvm libbenchmark-dev" ;;  # this preset builds the benchmarks, too
    armhf) packages="$packages $llvm" ;;
    armel) packages="libcpuinfo-dev libpthreadpool-dev libfp16-dev libflatbuffers-dev libgtest-dev libstdc++6 $llvm" ;;
    *) echo "sysroot.sh: arm64, armhf and armel are known, not $arch" >&2; exit 2 ;;
esac
mkdir -p "$root"
root=$(realpath "$root")
if [ "$(cat "$root/.complete" 2>/dev/null)" = "$packages" ]; then
    echo "sysroot.sh: $root is complete"
    exit 0
fi

state=$root/.apt
mkdir -p "$state/lists/partial" "$state/archives/partial" "$state/preferences.d"
: >"$state/status"          # nothing is installed there, so apt fetches every dependency
private_apt() {
    apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User="$(id -un)" \
        -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::State::lists="$state/lists" \
        -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives" -o Dir::Etc::preferencesparts="$state/preferences.d" \
        -o Dir::Log="$state" "$@"
}
# Goes on if a mirror does not match one of its lists: the next step names whatever is missing then.
private_apt update || echo "sysroot.sh: going on with the package lists that are there" >&2
# shellcheck disable=SC2086
private_apt -y --no-install-recommends --download-only install $packages
for package in "$state"/archives/*.deb; do
    dpkg -x "$package" "$root"
done
rm -rf "$state"
echo "$packages" >"$root/.complete"
echo "sysroot.sh: $root is complete"
