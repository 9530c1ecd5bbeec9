# Target quern_all: libquern_all.a, one object that holds the runtime, cpuinfo and pthreadpool. Only the functions of
# include/quern/ are visible from outside, so a program may have other copies of cpuinfo and pthreadpool. Needs
# QUERN_DEPS_DIR.
include(QuernApi)
include(CheckLinkerFlag)
file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/include/quern ${PROJECT_SOURCE_DIR}/include/quern/*.h)
list(TRANSFORM headers REPLACE "\\.h$" "")
quern_public_functions(names ${headers})
list(JOIN names "\n" names)
set(quern_names_file ${PROJECT_BINARY_DIR}/generated/public_functions.txt)
file(CONFIGURE OUTPUT ${quern_names_file} CONTENT "${names}\n" @ONLY)

# The compiler's command that makes one object of several: for the same target and by the same linker as for a program,
# but without other options for programs, which linkers refuse here.
separate_arguments(quern_relink NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS}")
list(FILTER quern_relink INCLUDE REGEX "^(-m|-fuse-ld=|--?target|-B|--gcc-toolchain)")
if(CMAKE_CXX_COMPILER_TARGET)
  list(APPEND quern_relink --target=${CMAKE_CXX_COMPILER_TARGET})
endif()
if(CMAKE_SYSROOT)
  list(APPEND quern_relink --sysroot=${CMAKE_SYSROOT})
endif()
list(APPEND quern_relink -r -nostdlib)

# Functions made from templates lie in groups; of several groups with one name a linker keeps only one. Once our
# functions are local, a program's group must not replace ours. So groups are dissolved here, by the linker or after it.
check_linker_flag(CXX "-r;-nostdlib;-Wl,--force-group-allocation" QUERN_LINKS_WITHOUT_GROUPS)
set(quern_hide --keep-global-symbols=${quern_names_file})
if(QUERN_LINKS_WITHOUT_GROUPS)
  list(APPEND quern_relink -Wl,--force-group-allocation)
else()
  list(APPEND quern_hide --remove-section=.group)
endif()

set(quern_all_object ${CMAKE_CURRENT_BINARY_DIR}/quern_all.o)
set(quern_all_libraries $<TARGET_FILE:cpuinfo::cpuinfo> $<TARGET_FILE:pthreadpool::pthreadpool>)
if(TARGET clog)
  list(APPEND quern_all_libraries $<TARGET_FILE:clog>)
endif()
add_custom_command(OUTPUT ${quern_all_object}
  COMMAND ${CMAKE_CXX_COMPILER} ${quern_relink} ${quern_common_objects} $<TARGET_OBJECTS:quern_hidden_objects>
    ${quern_all_libraries} -o ${quern_all_object}
  COMMAND ${CMAKE_OBJCOPY} ${quern_hide} ${quern_all_object}
  DEPENDS ${quern_common_objects} $<TARGET_OBJECTS:quern_hidden_objects> ${quern_all_libraries}
    ${quern_names_file}
  COMMAND_EXPAND_LISTS VERBATIM COMMENT "One object of the runtime, cpuinfo and pthreadpool")
add_library(quern_all STATIC ${quern_all_object})
set_source_files_properties(${quern_all_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(quern_all PROPERTIES LINKER_LANGUAGE CXX)
target_compile_definitions(quern_all INTERFACE QN_STATIC)
target_include_directories(quern_all INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(quern_all INTERFACE $<BUILD_INTERFACE:Threads::Threads> $<INSTALL_INTERFACE:quern::system>)
add_library(quern::quern_all ALIAS quern_all)
