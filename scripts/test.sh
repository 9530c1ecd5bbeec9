#!/bin/bash
# Installs missing packages, builds everything and runs all tests. Arguments go to ctest.
# `scripts/test.sh engines` compares with other engines instead; further arguments go to scripts/compare_engines.py.
set -euo pipefail
. "$(dirname "$0")/common.sh"
scripts/setup.sh build test check
configure build/release --preset release >/dev/null
cmake --build --preset release
if [ "${1:-}" = engines ]; then
  shift
  scripts/setup.sh engines
  exec scripts/compare_engines.py "$@"
fi
CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)} ctest --preset release "$@"
