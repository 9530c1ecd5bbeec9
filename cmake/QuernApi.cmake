# quern_public_functions(VARIABLE HEADER...): the names of the functions that include/quern/HEADER.h declares with
# QN_API or QN_INIT.
function(quern_public_functions variable)
  set(names)
  foreach(header IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/quern/${header}.h)
    file(READ ${PROJECT_SOURCE_DIR}/include/quern/${header}.h content)
    string(REGEX REPLACE "\nQN_INIT\\((qn_[a-z0-9_]+)\\)" "\nQN_API void \\1_init_sized(" content "${content}")
    string(REGEX MATCHALL "QN_API [^(;]*qn_[a-z0-9_]+\\(" declarations "${content}")
    list(TRANSFORM declarations REPLACE ".*(qn_[a-z0-9_]+)\\($" "\\1")
    list(APPEND names ${declarations})
  endforeach()
  set(${variable} ${names} PARENT_SCOPE)
endfunction()
