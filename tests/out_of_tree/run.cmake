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
run("reading the plugin's includes" ${C_COMPILER} -std=c11 -M -I${root}/bare/sdk/include ${root}/bare/backend-template/backend.c
  ${root}/bare/backend-template/kernels.c ${root}/bare/backend-template/ops.c ${root}/bare/backend-template/runtime.c)
string(FIND "${out}" "${SOURCE_DIR}/" leak)
if(NOT leak EQUAL -1)
  finish("the plugin includes files of tern's tree:\n${out}")
endif()
set(flags "")
if(SANITIZE)
  set(flags -DCMAKE_C_FLAGS=-fsanitize=${SANITIZE})
endif()
run("configuring the plugin" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${root}/bare/backend-template -B ${root}/bare/build
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
set(written "")
foreach(i RANGE ${last})
  string(JSON op GET "${out}" ops ${i} op)
  string(JSON native GET "${out}" ops ${i} native)
  if(native GREATER 10)
    list(APPEND written ${op})
  endif()
endforeach()
if(NOT passed STREQUAL "ON" OR NOT written STREQUAL "cast_copy;axpby;mul;matmul")
  finish("the selftest: expected four ops to run and pass, found passed ${passed}, native ${written}")
endif()

# It has four ops, so a command that needs others cannot do with it; what that command does without is no fault.
execute_process(COMMAND ${tern} selftest --backend ${plugin} --op act_mul softcap --require train
  RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT status EQUAL 1 OR NOT out MATCHES "needed by train .*the host would have to run it: act_mul: this device has no kernel"
   OR NOT out MATCHES "softcap[^\n]*  ok")
  finish("the selftest with --require: expected act_mul to be missed and softcap not, found ${status}:\n${out}${err}")
endif()

# Another plugin puts a kernel of its own in front of it, and hands the rest on.
file(COPY ${PLUGIN_DIR}/../attention-plugin DESTINATION ${root}/bare)
run("configuring the plugin in front" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${root}/bare/attention-plugin
  -B ${root}/bare/build/plugin -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_PREFIX_PATH=${root}/bare/sdk -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF ${flags})
run("building the plugin in front" ${CMAKE_COMMAND} --build ${root}/bare/build/plugin)
file(COPY ${root}/bare/build/plugin/libtern_attentive.so DESTINATION ${root}/bare/build)
run("testing the plugin in front" ${tern} selftest --backend ${root}/bare/build/libtern_attentive.so
  --op attention axpby --json)
foreach(i RANGE 1)
  string(JSON native GET "${out}" ops ${i} native)
  if(native LESS 20)
    finish("the plugin in front: expected attention and axpby to run and pass, found\n${out}")
  endif()
endforeach()

# As a Debian package: installed beside tern its device is listed, removed it's gone.
find_program(dpkg dpkg)
if(dpkg)
  execute_process(COMMAND ${CMAKE_CPACK_COMMAND} -G DEB WORKING_DIRECTORY ${root}/bare/build
    RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  file(GLOB package ${root}/bare/build/*.deb)
  if(NOT status EQUAL 0 OR NOT package)
    finish("packing: ${out}${err}")
  endif()
  set(host ${root}/host)
  file(MAKE_DIRECTORY ${host}/usr ${host}/var/lib/dpkg/info ${host}/var/lib/dpkg/updates)
  file(TOUCH ${host}/var/lib/dpkg/status)
  file(COPY ${root}/installed/bin ${root}/installed/lib DESTINATION ${host}/usr)
  set(dpkg_in ${CMAKE_COMMAND} -E env PATH=$ENV{PATH}:/usr/sbin:/sbin ${dpkg} --root=${host} --force-not-root
    --force-script-chrootless --log=${root}/dpkg.log)
  set(tern ${CMAKE_COMMAND} -E env TERN_HOME=${root}/home ${host}/usr/bin/tern)
  run("installing the package" ${dpkg_in} -i ${package})
  run("listing the devices with the package" ${tern} devices)
  if(NOT out MATCHES "example:0")
    finish("the package is installed, and example:0 isn't listed:\n${out}")
  endif()
  run("removing the package" ${dpkg_in} -r tern-backend-example)
  run("listing the devices without the package" ${tern} devices)
  if(out MATCHES "example")
    finish("the package is removed, and its device is still listed:\n${out}")
  endif()
endif()
file(REMOVE_RECURSE ${root})
