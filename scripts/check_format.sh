#!/bin/bash
# Names the C and C++ files that clang-format (of Debian 12) would change; with --fix, changes them.
set -euo pipefail
. "$(dirname "$0")/common.sh"
tool=${CLANG_FORMAT:-clang-format-14}
mode=(--dry-run --Werror)
[ "${1:-}" != --fix ] || mode=(-i)
find include src test bench examples \( -name '*.h' -o -name '*.hpp' -o -name '*.cc' -o -name '*.cpp' -o -name '*.c' \) -print0 | xargs -0 "$tool" "${mode[@]}"
