#!/bin/bash
# Makes the reference of the API: all functions of the headers are there, those that QN_INIT makes, too, and nothing tells
# where it was made.  Usage: doc_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
cmake --build "$build" --target doc
html=$build/doc/html

names=$(cat "$source"/include/quern/*.h |
  sed -nE 's/^QN_INIT(_OUTPUT)?\((qn_[a-z0-9_]+)\)$/\2_init/p; s/^QN_API [^(]*\b(qn_[a-z0-9_]+)\(.*/\1/p')
[ "$(wc -w <<<"$names")" -gt 50 ] || { echo "the headers have few functions: $names" >&2; exit 1; }
missing=0
for name in $names; do
  grep -qF "</span>$name()</h2>" "$html"/group__*.html || { echo "$name is not in the reference" >&2; missing=1; }
done
grep -qF 'group__cpp.html' "$html/index.html" || { echo "the first page does not lead to the C++ API" >&2; missing=1; }
! grep -rlF "$source" "$html" >&2 || { echo "the reference remembers where it was made" >&2; missing=1; }
exit $missing
