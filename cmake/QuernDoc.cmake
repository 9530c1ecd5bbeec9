# Target `doc`: the reference of the public API, made from the headers and first_page.md, in BUILD/doc/html. It is
# installed only if it has been built.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
  set(QUERN_DOC_DIR ${PROJECT_BINARY_DIR}/doc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in ${QUERN_DOC_DIR}/Doxyfile @ONLY)
  if(QUERN_INSTALL)
    install(DIRECTORY ${QUERN_DOC_DIR}/html DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
  endif()
  add_custom_target(doc COMMAND ${DOXYGEN} ${QUERN_DOC_DIR}/Doxyfile
    VERBATIM COMMENT "API reference: ${QUERN_DOC_DIR}/html/index.html")
endif()
