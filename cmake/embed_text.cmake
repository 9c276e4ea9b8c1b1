# Writes a C++ source that holds a file's text: -DFILE=data/plugins/shim.py -DNAME=tern::data::plugin_shim
# -DHEADER=data/plugin_host.h -DOUTPUT=FILE -P cmake/embed_text.cmake
string(REGEX MATCH "^(.*)::([a-z_]+)$" NAME "${NAME}")
set(namespace ${CMAKE_MATCH_1})
set(function ${CMAKE_MATCH_2})
file(READ ${FILE} body HEX)
string(REGEX REPLACE "(................................................................)" "\\1\"\n\"" body "${body}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" body "${body}")
file(WRITE ${OUTPUT} "// Made by cmake/embed_text.cmake.\n#include \"${HEADER}\"\n\nnamespace ${namespace} {\n\n"
  "std::string_view ${function}() {\n  using namespace std::string_view_literals;\n  return\n\"${body}\"sv;\n}\n\n"
  "}  // namespace ${namespace}\n")
