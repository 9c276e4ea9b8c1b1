# cmake -DSOURCE=x.cu -DNAME=x -DLISTED=<preprocessed> -DRESULT=x.cpp -P: a source of the host with the kernels of a .cu in a
# namespace of their own, and their registration.
file(READ ${LISTED} text)
string(REGEX MATCHALL "TERN_KERNEL_BEGIN[^;{}]*TERN_KERNEL_END" kernels "${text}")
set(result "#include \"tests/fakes/cuda/emulated.h\"\nnamespace kernels_of_${NAME} {\n#include \"${SOURCE}\"\n}\n")
string(APPEND result "namespace {\nusing namespace kernels_of_${NAME};\n")
foreach(kernel IN LISTS kernels)
  string(REGEX REPLACE "[ \t\r\n]+" " " kernel "${kernel}")
  if(NOT kernel MATCHES "^TERN_KERNEL_BEGIN ([A-Za-z_0-9]+) \\| (.*) TERN_KERNEL_END$")
    message(FATAL_ERROR "${SOURCE}: can't read ${kernel}")
  endif()
  string(APPEND result "const tern::cuda::emulated::Registered registered_${CMAKE_MATCH_1}(\"${CMAKE_MATCH_1}\", "
    "&kernels_of_${NAME}::${CMAKE_MATCH_1}, ${CMAKE_MATCH_2});\n")
endforeach()
string(APPEND result "}  // namespace\n")
file(WRITE ${RESULT} "${result}")
