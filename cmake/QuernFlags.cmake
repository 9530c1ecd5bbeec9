# Flags of every target of ours, as the interface target quern_flags.
add_library(quern_flags INTERFACE)
target_compile_options(quern_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow -Wvla -Wundef>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wno-unknown-attributes>)  # gnu::noclone, which clang has no need of
# Files of more than 2 GiB on 32-bit systems, too.
target_compile_definitions(quern_flags INTERFACE _FILE_OFFSET_BITS=64)
if(QUERN_WERROR)
  target_compile_options(quern_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(QUERN_SANITIZE)
  # GCC 12 loses track of what vectors allocate and std::function holds once it has instrumented them, and warns of frees
  # and reads that are sound.
  target_compile_options(quern_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-free-nonheap-object -Wno-maybe-uninitialized>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${QUERN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>
    # A caller in C, and a file, may put any int into an enumeration; the library looks at the value and refuses it.
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=enum>)
  target_link_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE})
endif()
