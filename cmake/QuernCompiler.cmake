# Refuses C++ compilers older than those that stage `oldest` of .ci/run tests.
set(QUERN_OLDEST_GNU 11)
set(QUERN_OLDEST_Clang 14)
set(QUERN_OLDEST_AppleClang 14)
set(quern_oldest "${QUERN_OLDEST_${CMAKE_CXX_COMPILER_ID}}")
if(quern_oldest AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS quern_oldest)
  message(FATAL_ERROR "expected C++ compiler ${CMAKE_CXX_COMPILER_ID} ${quern_oldest} or later, "
    "found ${CMAKE_CXX_COMPILER_VERSION}: ${CMAKE_CXX_COMPILER}")
endif()
