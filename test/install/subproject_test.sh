#!/bin/bash
# Builds a project that has Quern's sources within, by add_subdirectory and by FetchContent: it gets the libraries and
# nothing else.  Usage: subproject_test.sh SOURCE_DIR VERSION CC CXX [SETTING OF CMAKE...]
set -euo pipefail
source=$1 version=$2 cc=$3 cxx=$4
shift 4
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
must() { "$@" >log 2>&1 || { cat log >&2; echo "failed: $*" >&2; exit 1; }; }

for fetch in ON OFF; do
  must cmake -S "$here/subproject" -B "$fetch" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_BUILD_TYPE=Release -DQUERN_SOURCE="$source" -DFETCH="$fetch" "$@"
  must ctest --test-dir "$fetch" --show-only
  grep -q "^Total Tests: 0$" log || { cat log >&2; echo "Quern brought tests" >&2; exit 1; }
done

# Static libraries alone.
must cmake -S "$here/subproject" -B static -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_BUILD_TYPE=Release -DQUERN_SOURCE="$source" -DBUILD_SHARED_LIBS=OFF "$@"

must cmake --build OFF --target app_shared app_static plugin
for app in app_shared app_static; do
  [ "$(OFF/$app)" = "quern $version" ] || { echo "$app does not run" >&2; exit 1; }
done
"$here/plugin_test.sh" OFF/libplugin.so "$version" "$cc"
must cmake --build OFF --target examples/all
must ctest --test-dir OFF/examples --output-on-failure --no-tests=error
must cmake --install OFF --prefix prefix
[ "$(find prefix ! -type d)" = prefix/bin/app_static ] || { find prefix >&2; echo "Quern installed something" >&2; exit 1; }
echo "add_subdirectory, FetchContent: ok"
