#!/bin/bash
# libquern_all.a: shows the functions of the headers and no others, links with the system's libraries alone, and beside
# other copies of cpuinfo and pthreadpool.  Usage: all_test.sh BUILD_DIR VERSION CC CXX [FLAGS OF CXX...]
set -euo pipefail
build=$(realpath "$1") version=$2 cc=$3 cxx=$4
shift 4
cxx_flags=("$@")
here=$(realpath "$(dirname "$0")")
. "$here/common.sh"
if [ ! -e "$build/src/libquern_all.a" ]; then
  echo "skipped: this build has no libquern_all.a, for which QUERN_DEPS_DIR must be set"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
library=$(find prefix -name libquern_all.a)
libdir=$(realpath "$(dirname "$library")")
include=$work/prefix/include

# What can be seen from outside.
nm --extern-only --defined-only --format=posix "$library" | awk 'NF > 1 { print $1 }' | sort >visible
sort "$build/generated/public_functions.txt" >public
diff public visible >&2 || { echo "the library shows something else than the functions of the headers" >&2; exit 1; }

# The lines of README.md.
cmake -S "$here/consumer" -B cmake -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DQUERN_VERSION="$version" -DQUERN_ALL=ON >cmake.log 2>&1 && cmake --build cmake >>cmake.log 2>&1 ||
  { cat cmake.log >&2; exit 1; }
expect "CMake" cmake/consumer_all
examples_by_cmake "CMake" -DCMAKE_PREFIX_PATH="$work/prefix" -DQUERN_EXAMPLES_LIBRARY=quern::quern_all
read -ra flags <<<"$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs quern_all)"
"$cc" "$here/consumer/consumer.c" "${flags[@]}" -o packaged
expect "pkg-config" ./packaged
examples_by_hand "pkg-config" "${flags[@]}"
"$cc" -c -I"$include" "$here/consumer/consumer.c" -o consumer.o
"$cxx" "$@" consumer.o "$library" -o plain
expect "a C++ compiler and no other library" ./plain
cxx_library=stdc++
[[ " $* " != *" -stdlib=libc++ "* ]] || cxx_library=c++
examples_by_hand "the archive alone" -I"$include" "$library" -l$cxx_library
[ "$(readelf -d plain | grep -c 'NEEDED.*\(quern\|cpuinfo\|pthreadpool\)')" = 0 ]

# The same functions again, in whole, before it and after it.
others=$(printf '%s\n' "$libdir"/lib{cpuinfo,pthreadpool}.a)
for order in "$others $library" "$library $others"; do
  "$cxx" "$@" consumer.o -Wl,--whole-archive $order -Wl,--no-whole-archive -o twice
  expect "with two copies of cpuinfo and pthreadpool" ./twice
done

# A program's own functions of these names, and its templates, do not replace those in the library.
"$cxx" "$@" -std=c++11 -O0 -I"$include" "$here/own_names.cc" "$library" -o own
expect "with a program's own functions" ./own

"$cc" -shared -fPIC "$here/plugin.c" "${flags[@]}" -o libplugin.so
"$here/plugin_test.sh" libplugin.so "$version" "$cc"
echo "in a shared library: ok"
