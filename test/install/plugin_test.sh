#!/bin/bash
# A shared library that was made of plugin.c works, and exports its own function alone, but for what is weak: templates of
# the C++ library, which every program in C++ has, and ends of segments, which linkers export beside libc++.
# Usage: plugin_test.sh LIBRARY VERSION CC
set -euo pipefail
library=$(realpath "$1") version=$2 cc=$3
exported=$(nm -D --defined-only --format=posix "$library" |
  awk '$2 !~ /[vVwW]/ && $1 !~ /^(__bss_start|_edata|_end)$/ { print $1 }')
[ "$exported" = plugin_version ] || { echo "$library exports: $exported" >&2; exit 1; }
IFS=. read -r major minor patch <<<"$version"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/main.c" <<'END'
#include <stdio.h>
int plugin_version(void);
int main(void) { return printf("%d", plugin_version()) < 0; }
END
"$cc" "$folder/main.c" "$library" -Wl,-rpath,"$(dirname "$library")" -o "$folder/main"
printed=$("$folder/main")
[ "$printed" = $((major * 10000 + minor * 100 + patch)) ] || { echo "$library: printed '$printed'" >&2; exit 1; }
