# Runs COMMAND, which compiles an image of kernels by nvcc of VERSION, and keeps in REPORT what ptxas tells of each:
# registers, spilled bytes. What else the compiler says, its warnings and errors, is shown.
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(WRITE ${REPORT} "nvcc ${VERSION}\n${said}")
string(REGEX REPLACE "(ptxas info [^\n]*|[^\n]* bytes stack frame, [^\n]*)\n" "" shown "${said}")
if(shown)
  message("${shown}")
endif()
if(NOT result EQUAL 0)
  file(REMOVE ${REPORT})
  string(REPLACE ";" " " command "${COMMAND}")
  message(FATAL_ERROR "It ended with ${result}: ${command}")
endif()
