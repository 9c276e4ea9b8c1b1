# Answers are held to schemas and grammars where xgrammar is: a folder with include/ and lib/libxgrammar.a, which
# script/bootstrap builds from PyPI's source package. engine/grammar/ has a source for either case.
set(home $ENV{TERN_HOME})
if(NOT home)
  set(home $ENV{HOME}/.cache/tern)
endif()
set(TERN_XGRAMMAR_ROOT ${home}/libraries/xgrammar-0.2.8 CACHE PATH "folder with xgrammar's include/ and lib/libxgrammar.a")

# tern_xgrammar(<target>): gives the target make_grammar_compiler().
function(tern_xgrammar target)
  if(NOT EXISTS ${TERN_XGRAMMAR_ROOT}/lib/libxgrammar.a)
    message(STATUS "Answers are not constrained: no xgrammar in ${TERN_XGRAMMAR_ROOT}")
    target_sources(${target} PRIVATE engine/grammar/absent.cpp)
    return()
  endif()
  target_sources(${target} PRIVATE engine/grammar/xgrammar.cpp)
  # The installed libraries link it too, so it goes with them.
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${TERN_XGRAMMAR_ROOT}/lib/libxgrammar.a>
    $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/tern/libxgrammar.a>)
  install(FILES ${TERN_XGRAMMAR_ROOT}/lib/libxgrammar.a DESTINATION ${CMAKE_INSTALL_LIBDIR}/tern COMPONENT library)
  target_include_directories(${target} SYSTEM PRIVATE ${TERN_XGRAMMAR_ROOT}/include)
endfunction()
