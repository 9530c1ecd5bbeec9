#!/bin/bash
# Installs a build into an empty folder, moves it, and builds a C program and the examples against it through CMake and
# through pkg-config, shared and static.  Usage: install_test.sh SOURCE_DIR BUILD_DIR VERSION CC CXX [FLAGS OF CXX...]
set -euo pipefail
source=$1 build=$2 version=$3 cc=$4 cxx=$5
shift 5
cxx_flags=("$@")
here=$(realpath "$(dirname "$0")")
. "$here/common.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cmake --install "$build" --prefix "$work/first" >/dev/null
mv first prefix  # nothing installed may remember where it was
prefix=$work/prefix
pc=$(find "$prefix" -name quern.pc)
libdir=$(dirname "$(dirname "$pc")")

abi=${version%%.*}
[ "$abi" != 0 ] || abi=${version%.*}  # before 1.0, minor versions may differ
needs_quern() { readelf -d "$1" | grep -q "NEEDED.*libquern.so.$abi\]"; }
expect_linkage() {  # expect_linkage NAME: NAME_shared uses libquern.so by its SONAME, NAME_static does not
  needs_quern "./$1_shared" || { echo "$1_shared does not use libquern.so" >&2; exit 1; }
  ! needs_quern "./$1_static" || { echo "$1_static uses libquern.so" >&2; exit 1; }
}

cmake -S "$here/consumer" -B cmake -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
  -DQUERN_VERSION="$version" >cmake.log 2>&1 && cmake --build cmake >>cmake.log 2>&1 || { cat cmake.log >&2; exit 1; }
expect "CMake, shared" cmake/consumer_shared
expect "CMake, static" cmake/consumer_static
expect "CMake, libquern-extra" cmake/consumer_extra
expect "CMake, libquern-extra, static" cmake/consumer_extra_static
(cd cmake && expect_linkage consumer)
examples_by_cmake "CMake, shared" -DCMAKE_PREFIX_PATH="$prefix"
examples_by_cmake "CMake, static" -DCMAKE_PREFIX_PATH="$prefix" -DQUERN_EXAMPLES_LIBRARY=quern::quern_static

export PKG_CONFIG_PATH=$libdir/pkgconfig
[ "$(pkg-config --modversion quern)" = "$version" ] || { echo "quern.pc has another version" >&2; exit 1; }
read -ra flags <<<"$(pkg-config --cflags quern)"
read -ra libs <<<"$(pkg-config --libs quern)"
"$cc" -std=c11 -Wall -Wextra -Werror -pedantic "${flags[@]}" "$here/consumer/consumer.c" "${libs[@]}" -o consumer_shared
LD_LIBRARY_PATH=$libdir examples_by_hand "pkg-config, shared" "${flags[@]}" "${libs[@]}"
read -ra libs <<<"$(pkg-config --libs --static quern)"
libs=("${libs[@]/#-lquern/-l:libquern.a}")
"$cc" "${flags[@]}" "$here/consumer/consumer.c" "${libs[@]}" -o consumer_static
examples_by_hand "pkg-config, static" "${flags[@]}" "${libs[@]}"
expect "pkg-config, shared" env LD_LIBRARY_PATH="$libdir" ./consumer_shared
expect "pkg-config, static" ./consumer_static
expect_linkage consumer
read -ra extra <<<"$(pkg-config --cflags --libs quern-extra)"
"$cc" -DWITH_EXTRA "$here/consumer/consumer.c" "${extra[@]}" -o consumer_extra
expect "pkg-config, libquern-extra" env LD_LIBRARY_PATH="$libdir" ./consumer_extra
read -ra extra <<<"$(pkg-config --cflags --libs --static quern-extra)"
extra=("${extra[@]/#-lquern-extra/-l:libquern-extra.a}")
"$cc" -DWITH_EXTRA "$here/consumer/consumer.c" "${extra[@]/%-lquern/-l:libquern.a}" -o consumer_extra_static
expect "pkg-config, libquern-extra, static" ./consumer_extra_static

# The package fits requests for its minor version, and for no other.
version_file=$(dirname "$(find "$prefix" -name quern-config-version.cmake)")/quern-config-version.cmake
cat >fits.cmake <<END
string(REPLACE . ";" parts \${PACKAGE_FIND_VERSION})
list(GET parts 0 PACKAGE_FIND_VERSION_MAJOR)
list(GET parts 1 PACKAGE_FIND_VERSION_MINOR)
include($version_file)
if(NOT PACKAGE_VERSION_COMPATIBLE)
  message(FATAL_ERROR "no")
endif()
END
fits() { cmake "-DPACKAGE_FIND_VERSION=$1" -P fits.cmake; }
IFS=. read -r major minor patch <<<"$version"
fits "$major.$minor" && fits "$version" || { echo "the package does not fit its own version" >&2; exit 1; }
for other in "$major.$((minor + 1))" "$((major + 1)).$minor" "$major.$minor.$((patch + 1))"; do
  ! fits "$other" 2>/dev/null || { echo "the package fits $other, too" >&2; exit 1; }
done
[ "$minor" = 0 ] || ! fits "$major.$((minor - 1))" 2>/dev/null || { echo "the package fits an older version" >&2; exit 1; }

"$cc" -shared -fPIC "${flags[@]}" "$here/plugin.c" "${libs[@]}" -o libplugin.so
"$here/plugin_test.sh" libplugin.so "$version" "$cc"
echo "static, in a shared library: ok"

if [ -e "$build/doc/html/index.html" ]; then
  find "$prefix" -path '*/html/index.html' | grep -q . || { echo "the reference of the API is not installed" >&2; exit 1; }
fi
[ ! -e "$build/src/tool/quern" ] || "$prefix/bin/quern" --help >/dev/null
[ "$(nm -D --undefined-only "$libdir/libquern.so" | grep -c -i protobuf)" = 0 ]

# Folders given as absolute paths are where they were said to be.
expect_flags() {  # expect_flags LIBDIR INCLUDEDIR FLAGS
  cmake -S "$source" -B absolute -G Ninja -DQUERN_BUILD_TOOLS=OFF -DQUERN_BUILD_TESTS=OFF -DQUERN_BUILD_BENCH=OFF \
    -DCMAKE_INSTALL_PREFIX=/opt/quern "-DCMAKE_INSTALL_LIBDIR=$1" "-DCMAKE_INSTALL_INCLUDEDIR=$2" >absolute.log 2>&1 ||
    { cat absolute.log >&2; exit 1; }
  local flags
  flags=$(PKG_CONFIG_PATH=absolute pkg-config --cflags --libs quern)
  [ "${flags% }" = "$3" ] || { echo "quern.pc gives '$flags' instead of '$3'" >&2; exit 1; }
}
expect_flags /far/lib /near/include "-I/near/include -L/far/lib -lquern"
expect_flags /far/lib include "-I/opt/quern/include -L/far/lib -lquern"
expect_flags lib /near/include "-I/near/include -Labsolute/../../lib -lquern"
# That was configured without a build type: the library is optimized.
grep -q -e " -O3 " absolute/build.ninja || { echo "a build without a build type does not optimize" >&2; exit 1; }

# A package of static libraries alone, as a build with BUILD_SHARED_LIBS=OFF installs it.
rm "$libdir"/libquern*.so* "$libdir"/cmake/quern/quern-shared*
cmake -S "$here/consumer" -B static -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
  -DQUERN_VERSION="$version" -DQUERN_STATIC_ALONE=ON >cmake.log 2>&1 && cmake --build static >>cmake.log 2>&1 ||
  { cat cmake.log >&2; exit 1; }
expect "CMake, quern::quern is static" static/consumer_shared
expect "CMake, quern::extra is static" static/consumer_extra
