# tern_pages(<target>): the target gets server/pages/assets and Debian's KaTeX, as a source that is made of them.
function(tern_pages target)
  find_path(TERN_KATEX_DIR katex.min.css PATHS /usr/share/javascript/katex NO_DEFAULT_PATH
    DOC "the folder of KaTeX: katex.js, katex.min.css, fonts")
  if(NOT TERN_KATEX_DIR)
    message(FATAL_ERROR "KaTeX, with which the chat page shows maths, was not found: install libjs-katex, or name its "
      "folder by -DTERN_KATEX_DIR=DIRECTORY")
  endif()
  set(assets ${PROJECT_SOURCE_DIR}/server/pages/assets)
  file(GLOB pages CONFIGURE_DEPENDS ${assets}/*)
  file(GLOB katex CONFIGURE_DEPENDS ${TERN_KATEX_DIR}/katex.js ${TERN_KATEX_DIR}/katex.min.css ${TERN_KATEX_DIR}/fonts/*.woff2)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_pages.cmake)
  set(source ${PROJECT_BINARY_DIR}/embedded_pages.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DASSETS=${assets} -DKATEX=${TERN_KATEX_DIR} -DOUTPUT=${source} -P ${script}
    DEPENDS ${script} ${pages} ${katex}
    COMMENT "Embedding the web pages" VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# tern_embedded_text(<target> <file> <function> <header>): the target gets a source in which the function, which the header
# declares, gives the file's text.
function(tern_embedded_text target file function header)
  cmake_path(GET file STEM name)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake)
  set(source ${PROJECT_BINARY_DIR}/embedded_${name}.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DFILE=${PROJECT_SOURCE_DIR}/${file} -DNAME=${function} -DHEADER=${header}
      -DOUTPUT=${source} -P ${script}
    DEPENDS ${script} ${PROJECT_SOURCE_DIR}/${file}
    COMMENT "Embedding ${file}" VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
