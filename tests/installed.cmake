# For tests of what is installed: a scratch folder `root`, and commands that run in it.
execute_process(COMMAND mktemp -d OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

function(finish message)
  file(REMOVE_RECURSE ${root})
  message(FATAL_ERROR "${message}")
endfunction()

# run(<what it does> <command...>): sets `out`.
function(run what)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${root} RESULT_VARIABLE status OUTPUT_VARIABLE text
    ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    finish("${what}: ${ARGN}\nended with ${status}\n${text}\n${errors}")
  endif()
  set(out "${text}" PARENT_SCOPE)
endfunction()

run("installing" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${root}/installed)
