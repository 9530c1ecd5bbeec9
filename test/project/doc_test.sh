#!/bin/bash
# Makes the reference of the API: it has all functions of the headers, with those that QN_INIT makes, and nothing tells
# where it was made.  Usage: doc_test.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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

# Made once more in a folder whose name cannot be a part of the text, as a checkout's may be: /quern, /code.
there=$(realpath "$work")/$(basename "$work")
mkdir -p "$there/cmake"
cp -R "$source/include" "$source/examples" "$there"
cp "$source"/cmake/{Doxyfile.in,first_page.md} "$there/cmake"
echo 'configure_file("${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in" "${QUERN_DOC_DIR}/Doxyfile" @ONLY)' >"$work/configure.cmake"
cmake -D PROJECT_SOURCE_DIR="$there" -D QUERN_DOC_DIR="$there/doc" -P "$work/configure.cmake"
doxygen "$there/doc/Doxyfile"
[ -e "$there/doc/html/index.html" ]
! grep -rlF "$(basename "$work")" "$there/doc/html" >&2 || { echo "the reference remembers where it was made" >&2; missing=1; }
exit $missing
