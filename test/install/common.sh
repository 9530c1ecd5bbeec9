# To be sourced: what tests of the installed library share. Compilers: $cc, and $cxx with the array $cxx_flags; the
# library's version: $version. Goes to another folder.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

expect() {  # expect WHAT COMMAND...: the command prints the version
  local what=$1 printed
  shift
  printed=$("$@") || { echo "$what: failed" >&2; exit 1; }
  [ "$printed" = "quern $version" ] || { echo "$what: printed '$printed' instead of 'quern $version'" >&2; exit 1; }
  echo "$what: ok"
}

# All examples are built and run; each checks its own result.
examples=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../examples")

examples_by_cmake() {  # examples_by_cmake WHAT SETTING...
  local what=$1
  shift
  { rm -rf examples && cmake -S "$examples" -B examples -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="${cxx_flags[*]}" "$@" && cmake --build examples &&
    ctest --test-dir examples --output-on-failure --no-tests=error; } >examples.log 2>&1 ||
    { cat examples.log >&2; echo "examples, $what: failed" >&2; exit 1; }
  echo "examples, $what: ok"
}

examples_by_hand() {  # examples_by_hand WHAT FLAG...: without CMake, with these flags for C and C++
  local what=$1 source compile
  shift
  for source in "$examples"/*.{c,cpp}; do
    compile=("$cc" -std=c11)
    [[ $source != *.cpp ]] || compile=("$cxx" "${cxx_flags[@]}" -std=c++17)
    "${compile[@]}" -Wall -Wextra -Wpedantic -Werror "$source" "$@" -pthread -lm -o example
    local arguments=("$examples"/digits/digit{s.qn,_7.pgm} 7)  # as in CMakeLists.txt
    [[ $source != */custom* ]] || arguments=("$examples/custom/average.qn")
    ./example "${arguments[@]}" >/dev/null ||
      { echo "examples, $what: $source failed" >&2; exit 1; }
  done
  echo "examples, $what: ok"
}
