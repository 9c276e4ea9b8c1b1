# Writes OUTPUT, a C++ source that holds the compiled kernels of FOLDER/<name>.fatbin for each name of FILES, with the names
# of their kernels as <name>.names has them, ARCHITECTURES and the VERSION of nvcc.
set(text "// Made by embed.cmake.\n#include \"backends/cuda/modules.h\"\n\n")
foreach(file ${FILES})
  string(APPEND text "asm(\".section .rodata\\n.balign 64\\n.globl tern_cuda_${file}\\n.hidden tern_cuda_${file}\\n\"\n"
         "    \"tern_cuda_${file}:\\n.incbin \\\"${FOLDER}/${file}.fatbin\\\"\\n.balign 64\\n.text\\n\");\n"
         "extern \"C\" const unsigned char tern_cuda_${file}[];\n")
endforeach()
string(APPEND text "\nnamespace tern::cuda {\n\n")
if(FILES)
  string(APPEND text "std::span<const Image> images() {\n  static const Image all[] = {\n")
  foreach(file ${FILES})
    file(READ ${FOLDER}/${file}.names names)
    string(APPEND text "      {\"${file}\", \"${names}\", tern_cuda_${file}},\n")
  endforeach()
  string(APPEND text "  };\n  return all;\n}\n")
else()
  string(APPEND text "std::span<const Image> images() { return {}; }\n")
endif()
string(REPLACE ";" ", " architectures "${ARCHITECTURES}")
string(APPEND text "const char* built_architectures() { return \"${architectures}\"; }\n"
       "const char* built_by() { return \"${VERSION}\"; }\n\n}  // namespace tern::cuda\n")
file(WRITE ${OUTPUT} "${text}")
