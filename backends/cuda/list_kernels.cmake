# Writes OUTPUT: the names of the kernels in PREPROCESSED, a space behind each, macros that make kernels included.
file(READ ${PREPROCESSED} text)
string(REGEX MATCHALL
       "extern \"C\" __attribute__\\(\\(global\\)\\) void (__attribute__\\(\\(launch_bounds\\([^)]*\\)\\)\\) )?[A-Za-z0-9_]+"
       found "${text}")
set(names "")
foreach(kernel ${found})
  string(REGEX REPLACE ".* ([A-Za-z0-9_]+)$" "\\1 " name "${kernel}")
  string(APPEND names "${name}")
endforeach()
if(names STREQUAL "")
  message(FATAL_ERROR "${PREPROCESSED} has no kernels")
endif()
file(WRITE ${OUTPUT} "${names}")
