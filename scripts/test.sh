#!/bin/bash
# Installs missing packages, builds everything and runs all tests. Arguments go to ctest.
set -euo pipefail
. "$(dirname "$0")/common.sh"
scripts/setup.sh build test check
configure build/release --preset release >/dev/null
cmake --build --preset release
ctest --preset release "$@"
