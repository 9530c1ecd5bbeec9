#!/bin/bash
# Installs missing packages, builds everything and runs all tests. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build test check
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release "$@"
