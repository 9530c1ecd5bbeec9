# The interface target quern_flags: flags for all our targets.
add_library(quern_flags INTERFACE)
target_compile_options(quern_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow -Wvla -Wundef>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  # Clang does not know gnu::noclone, and warns of what the standard library of GCC 12 deprecates and uses itself.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wno-unknown-attributes -Wno-deprecated-declarations>)
# Files may be larger than 2 GiB on 32-bit systems, too.
target_compile_definitions(quern_flags INTERFACE _FILE_OFFSET_BITS=64)
if(QUERN_WERROR)
  target_compile_options(quern_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(QUERN_SANITIZE)
  # In instrumented code GCC 12 loses track of the memory of vectors and std::function, and warns of frees and reads
  # that are sound.
  target_compile_options(quern_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-free-nonheap-object -Wno-maybe-uninitialized>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-free-nonheap-object -Wno-maybe-uninitialized>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${QUERN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>
    # A caller in C or a file may put any int into an enumeration; the library checks the value and refuses it.
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=enum>
    # Clang's check of virtual functions makes programs in C need the C++ part of its runtime, which they do not link.
    $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-fno-sanitize=vptr>)
  target_link_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE})
endif()

# quern_optimize_less(TARGET [LEVEL]): for code that need not be fast, LEVEL instead of a release's optimization.
# Sanitized, it gets none at all: optimizing what sanitizers add doubles the time. A fuzzer needs it fast.
function(quern_optimize_less target)
  set(level "$<$<CONFIG:Release>:${ARGN}>")
  if(QUERN_SANITIZE AND NOT QUERN_SANITIZE MATCHES fuzzer)
    set(level -O0)
  endif()
  target_compile_options(${target} PRIVATE ${level})
endfunction()

# quern_precompile(TARGET HEADERS...): the target's sources parse these headers once. Those of the standard library take
# longer than most of our sources. Each source includes what it needs nevertheless: a build may do without
# (CMAKE_DISABLE_PRECOMPILE_HEADERS).
# quern_precompile(TARGET REUSE_FROM OTHER): the headers of another target with the same options.
function(quern_precompile target)
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} ${ARGN})
  else()
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
    target_precompile_headers(${target} PRIVATE ${ARGN})
    # Clang keeps the headers' times otherwise, and what is compiled with them is new to ccache each time.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endfunction()

# quern_unite(LIST [BASE folder] [BATCH n]): replaces the sources in LIST of one folder and with the same options by one
# source that includes them, so that headers are parsed once; by one for n of them, if BATCH is given. It names them from
# the folder BASE on, which is src/ if none is given. Without QUERN_UNITY it changes nothing.
function(quern_unite list)
  if(NOT QUERN_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 x "" "BASE;BATCH" "")
  if(NOT x_BASE)
    set(x_BASE ${PROJECT_SOURCE_DIR}/src)
  endif()
  set(united)
  set(groups)
  set(count 0)
  foreach(source IN LISTS ${list})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${x_BASE} OUTPUT_VARIABLE path)
    if(NOT path MATCHES "\\.cc$")
      list(APPEND united ${source})
      continue()
    endif()
    cmake_path(GET path PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    get_property(options SOURCE ${source} PROPERTY COMPILE_OPTIONS)
    if(options)
      string(MD5 hash "${options}")
      string(APPEND group _${hash})
    endif()
    if(x_BATCH)
      math(EXPR batch "${count} / ${x_BATCH}")
      math(EXPR count "${count} + 1")
      string(APPEND group _${batch})
    endif()
    list(APPEND groups ${group})
    set(options_${group} "${options}")
    get_property(alone_${group} SOURCE ${source} PROPERTY SKIP_PRECOMPILE_HEADERS)
    string(APPEND text_${group} "#include \"${path}\"\n")
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${list}/${group}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${group}}" @ONLY)
    # A name of one source may hide one of another.
    set_property(SOURCE ${file} PROPERTY COMPILE_OPTIONS "${options_${group}}" -Wno-shadow)
    set_property(SOURCE ${file} PROPERTY SKIP_PRECOMPILE_HEADERS ${alone_${group}})
    list(APPEND united ${file})
  endforeach()
  set(${list} ${united} PARENT_SCOPE)
endfunction()

# Flags for small builds, for our code and for dependencies built with it: as little code as the compiler can make.
if(QUERN_SMALL)
  include(CheckCXXCompilerFlag)
  function(quern_best_flag result)  # sets `result` to the first flag that the compiler knows, or to nothing
    foreach(flag IN LISTS ARGN)
      string(MAKE_C_IDENTIFIER "QUERN_HAS${flag}" known)
      check_cxx_compiler_flag(${flag} ${known})
      if(${known})
        set(${result} ${flag} PARENT_SCOPE)
        return()
      endif()
    endforeach()
    set(${result} "" PARENT_SCOPE)
  endfunction()
  quern_best_flag(quern_small_optimization -Oz -Os)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instructions stay where the source has them. Fewer registers need saving, and the code repeats itself more often,
    # so it deflates better.
    list(APPEND quern_small_optimization -fno-schedule-insns2 -fno-tree-loop-im -fno-move-loop-invariants
      -fira-region=one -fno-gcse -fno-caller-saves)
  endif()
  set(quern_small_flags -fno-asynchronous-unwind-tables -fno-unwind-tables -fomit-frame-pointer)
  if(QUERN_ARCH STREQUAL arm64)
    quern_best_flag(inline_atomics -mno-outline-atomics)  # no calls of functions that ask what the CPU has
    list(APPEND quern_small_flags ${inline_atomics})
    # The library is smaller than 1 MiB, so one instruction makes an address. Not with clang: its linker, lld 19, cannot
    # link such references to variables of other libraries, as the one that guards the stack.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND quern_small_flags -mcmodel=tiny)
    endif()
  elseif(QUERN_ARCH STREQUAL arm)  # instructions of 16 bits where possible; every CPU has NEON
    list(APPEND quern_small_flags -mthumb -mfpu=neon)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Link-time optimization of everything at once, not the thin one: then functions share equal code. CMake would add
    # options for gold on Android; clang is to use the linker that it is told to use.
    foreach(language C CXX)
      set(CMAKE_${language}_COMPILE_OPTIONS_IPO -flto)
      set(CMAKE_${language}_LINK_OPTIONS_IPO "")
    endforeach()
    include(CheckCXXSourceCompiles)
    include(CMakePushCheckState)
    cmake_push_check_state()
    set(CMAKE_REQUIRED_FLAGS -flto)
    check_cxx_source_compiles("int main() { return 0; }" QUERN_LINKS_FLTO)
    cmake_pop_check_state()
    set(quern_has_ipo NO)
    set(quern_no_ipo "${CMAKE_CXX_COMPILER} -flto does not link.")
    if(QUERN_LINKS_FLTO)
      set(quern_has_ipo YES)
    endif()
  else()
    include(CheckIPOSupported)
    check_ipo_supported(RESULT quern_has_ipo OUTPUT quern_no_ipo LANGUAGES C CXX)
  endif()
  if(NOT quern_has_ipo)
    message(WARNING "Small builds are larger without interprocedural optimization. ${quern_no_ipo}")
  endif()
endif()
