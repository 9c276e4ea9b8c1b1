# Installs tern into a root, builds examples/embed against it where no header of tern's tree can be found, and runs it.
include(${SOURCE_DIR}/tests/installed.cmake)
# Moved after it was installed: nothing in the package may know where it was.
file(RENAME ${root}/installed ${root}/tern)
file(COPY ${SOURCE_DIR}/examples/embed DESTINATION ${root})
run("configuring the program" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${root}/embed -B ${root}/build
  -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${root}/tern
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run("building the program" ${CMAKE_COMMAND} --build ${root}/build)
run("reading what it was built of" ${CMAKE_COMMAND} -E cat ${root}/build/CMakeCache.txt)
string(FIND "${out}" "${SOURCE_DIR}/" leak)
if(NOT leak EQUAL -1)
  finish("the program was built of tern's tree:\n${out}")
endif()
run("writing the model" ${TINY_MODEL} ${root})
run("running the program" ${CMAKE_COMMAND} -E env --unset=TERN_BACKEND_PATH TERN_HOME=${root}/home
  TERN_CACHE_DIR=${root}/cache TERN_ACCELERATOR=cpu ${root}/build/embed ${root}/model ${root}/rows.jsonl ${root}/out)
# An answer before the first step, three steps, a checkpoint of three steps.
if(NOT out MATCHES "^.+\nstep 1/3, loss [0-9.]+\nstep 2/3, loss [0-9.]+\nstep 3/3, loss [0-9.]+\nsaved ${root}/out/checkpoint-3\n$")
  finish("running the program: expected an answer, three steps and a checkpoint, found\n${out}")
endif()
if(NOT EXISTS ${root}/out/checkpoint-3/adapter_model.safetensors)
  finish("running the program: expected an adapter in ${root}/out/checkpoint-3, found none")
endif()
file(REMOVE_RECURSE ${root})
