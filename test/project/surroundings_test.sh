#!/bin/bash
# The scripts and the build in surroundings that users have: an odd path, a locale with decimal commas, an exported CDPATH,
# an old Python in front, a symbolic link to the tree, a build folder that was copied with it.
# Usage: surroundings_test.sh SOURCE_DIR QUERN PYTHON CC CXX
set -euo pipefail
source=$(realpath "$1") quern=$(realpath "$2") python=$3
export CC=$4 CXX=$5
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; cat "$work"/log >&2; exit 1; }
must() { "$@" >"$work/log" 2>&1 || fail "failed: $*"; }
expect() { grep -qF -- "$1" "$work/log" || fail "expected '$1', got:"; }

tree="$work/zwei Wörter (ä)"
mkdir "$tree"
cp -R "$source"/{CHANGELOG.md,CMakeLists.txt,CMakePresets.json,asm,bench,cmake,examples,include,scripts,src,test} "$tree"

# A locale with decimal commas, and a CDPATH that leads away from folders of the tree.
localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" 2>/dev/null || { echo "skipped: no locales (package locales)"; exit 77; }
mkdir -p "$work"/{elsewhere/scripts,demo,python}
export LOCPATH=$work LC_ALL=de_DE.UTF-8 CDPATH=$work/elsewhere
[ "$(bash -c 'printf %.1f 0,5')" = 0,5 ] || fail "the locale has no decimal commas"

# The demo, with this build's command.
cat >"$work/demo/cmake" <<END
#!/bin/bash
[ "\$1" != --build ] || { mkdir -p "\$2/src/tool" && ln -sf "$quern" "\$2/src/tool/quern"; }
END
printf '#!/bin/sh\necho installed\n' >"$work/demo/dpkg-query"
chmod +x "$work"/demo/*
cd "$tree"
PATH=$work/demo:$PATH must scripts/demo.sh
rows=$(grep -cE 'digit_[0-9]\.png +[a-z]+ +([1-9][0-9]|100)\.[0-9]{2}% +[0-9]+\.[0-9]{3} ms$' "$work/log") || true
[ "$rows" = 10 ] || fail "$rows of 10 rows have a confidence and a time:"

# CMake runs under that path. It passes over a Python that is too old.
printf 'import sys\nsys.version_info = (3, 9, 18, "final", 0)\n' >"$work/python/sitecustomize.py"
printf '#!/bin/sh\nPYTHONPATH=%s exec %s "$@"\n' "'$work/python'" "'$python'" >"$work/python/python3"
chmod +x "$work/python/python3"
[ "$("$work/python/python3" -c 'import sys; print(sys.version_info[1])')" = 9 ] || fail "this Python does not look old"
configure() {  # as scripts do, in the current folder
  must bash -c '. scripts/common.sh; configure build/release --preset release -D QUERN_BUILD_BENCH=OFF "$@"' bash "$@"
}
PATH=$work/python:$PATH configure
expect "Found Python3: "
! grep -F "Found Python3: $work" "$work/log" >&2 || fail "CMake takes a Python that is too old"

# Everything that the build generates.
generated() { ninja -C build/release -t targets rule CUSTOM_COMMAND | grep '^[^/].*\.\(cc\|h\)$'; }
mapfile -t files < <(generated)
[ ${#files[@]} -ge 4 ] || fail "the build generates ${#files[@]} files"
must ninja -C build/release "${files[@]}"

# Through a symbolic link the same build goes on.
ln -s "$tree" "$work/link"
cd "$work/link"
configure
must ninja -C build/release "${files[@]}"
expect "no work to do"
! cmake --preset release >"$work/log" 2>&1 || fail "CMake takes the link's path for another tree:"
tr -s ' \n' ' ' <"$work/log" >"$work/words" && mv "$work/words" "$work/log"
expect "was configured in $tree"

# A copy of the tree, with its build folder, is configured afresh.
cp -R "$tree" "$work/copy"
cd "$work/copy"
configure
expect "$work/copy/build/release was configured in $tree."
must ninja -C build/release "${files[@]}"
grep -qF "CMAKE_HOME_DIRECTORY:INTERNAL=$work/copy" build/release/CMakeCache.txt || fail "the copy builds another tree"

# The test of the reference does not depend on the name of the checkout: this one is a part of words in the text.
if command -v doxygen >/dev/null; then
  ln -s "$work/copy" "$work/code"
  cd "$work"
  must code/test/project/doc_test.sh code code/build/release
fi
