# Sourced by all scripts: what a script needs of its surroundings, whatever the user's shell has. Goes to the root of the
# repository.
export LC_ALL=C.UTF-8  # numbers with points, messages in English, for programs that parse them
unset CDPATH           # otherwise `cd NAME` may go to another folder, and prints its name
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# configure FOLDER ARGUMENT...: runs cmake with these arguments in the build folder FOLDER.
# CMake writes absolute paths into a build folder. If the tree has another path now, through a symbolic link, CMake runs
# under the path of the first time: another one would compile everything again. If the tree was copied or moved with its
# build folder, which CMake refuses, the folder is configured afresh.
configure() {
  local folder=$1 first='' fresh=()
  shift
  [ ! -e "$folder/CMakeCache.txt" ] || first=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt")
  if [ -n "$first" ] && ! [ "$first" -ef . ]; then
    echo "$PWD/$folder was configured in $first. It is configured afresh here, and everything is compiled again." >&2
    fresh=(--fresh)
    first=''
  fi
  (cd -- "${first:-.}" && cmake ${fresh[@]+"${fresh[@]}"} "$@" -B "$folder")
}
