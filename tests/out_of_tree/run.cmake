# Installs tern, takes include/ and the CMake package alone into a bare root, builds plugin/ there, and shows the result
# to the installed program, which was built before the plugin was.
include(${SOURCE_DIR}/tests/installed.cmake)
file(GLOB backends RELATIVE ${root}/installed ${root}/installed/lib/tern/backends/*.so)
if(NOT EXISTS ${root}/installed/bin/tern OR NOT backends)
  finish("installing: expected bin/tern and lib/tern/backends/*.so, found ${backends}")
endif()

# The bare root, and what the plugin is told of it.
file(COPY ${root}/installed/include ${root}/installed/lib/cmake DESTINATION ${root}/bare/sdk)
file(RENAME ${root}/bare/sdk/cmake ${root}/bare/sdk/lib_cmake)
file(MAKE_DIRECTORY ${root}/bare/sdk/lib)
file(RENAME ${root}/bare/sdk/lib_cmake ${root}/bare/sdk/lib/cmake)
file(COPY ${PLUGIN_DIR} DESTINATION ${root}/bare)
run("reading the plugin's includes" ${C_COMPILER} -std=c11 -M -I${root}/bare/sdk/include ${root}/bare/plugin/backend.c)
string(FIND "${out}" "${SOURCE_DIR}/" leak)
if(NOT leak EQUAL -1)
  finish("the plugin includes files of tern's tree:\n${out}")
endif()
set(flags "")
if(SANITIZE)
  set(flags -DCMAKE_C_FLAGS=-fsanitize=${SANITIZE})
endif()
run("configuring the plugin" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${root}/bare/plugin -B ${root}/bare/build
  -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${root}/bare/sdk
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF ${flags})
run("building the plugin" ${CMAKE_COMMAND} --build ${root}/bare/build)
set(plugin ${root}/bare/build/libtern_example.so)

# Dropped into a folder of $TERN_BACKEND_PATH, it appears beside the installed ones.
set(tern ${CMAKE_COMMAND} -E env TERN_HOME=${root}/home TERN_BACKEND_PATH=${root}/bare/build ${root}/installed/bin/tern)
run("listing the devices" ${tern} devices --json)
string(JSON count LENGTH "${out}")
set(names "")
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON backend GET "${out}" ${i} backend)
  list(APPEND names ${backend})
  if(backend STREQUAL "example")
    string(JSON device GET "${out}" ${i} devices 0 device)
    string(JSON health GET "${out}" ${i} devices 0 health)
    string(JSON file GET "${out}" ${i} file)
  endif()
endforeach()
list(LENGTH backends installed)
math(EXPR expected "${installed} + 1")
if(NOT device STREQUAL "example:0" OR NOT health STREQUAL "ok" OR NOT file STREQUAL plugin OR NOT count EQUAL expected)
  finish("expected example:0 of ${plugin}, healthy, beside ${backends}; found ${names}, ${device}, ${health}, ${file}")
endif()

# Named by its file, it passes every test of what it has and of what it says that it has not.
run("testing the plugin" ${tern} selftest --backend ${plugin} --json)
string(JSON passed GET "${out}" passed)
string(JSON count LENGTH "${out}" ops)
math(EXPR last "${count} - 1")
set(native 0)
foreach(i RANGE ${last})
  string(JSON op GET "${out}" ops ${i} op)
  if(op STREQUAL "axpby")
    string(JSON native GET "${out}" ops ${i} native)
  endif()
endforeach()
if(NOT passed STREQUAL "ON" OR native LESS 10)
  finish("the selftest: expected axpby's cases to run and pass, found passed ${passed}, ${native} of them native")
endif()

# It has one op, so a command that needs others cannot do with it; what that command does without is no fault.
execute_process(COMMAND ${tern} selftest --backend ${plugin} --op act_mul softcap --require train
  RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT status EQUAL 1 OR NOT out MATCHES "needed by train .*the host would have to run it: act_mul: this device has no kernel"
   OR NOT out MATCHES "softcap[^\n]*  ok")
  finish("the selftest with --require: expected act_mul to be missed and softcap not, found ${status}:\n${out}${err}")
endif()
file(REMOVE_RECURSE ${root})
