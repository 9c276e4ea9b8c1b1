# One folder is one static library; its sources are what lies in it, so adding a file touches no list.

add_library(tern_flags INTERFACE)
# How tern itself is built; a program that links an installed tern chooses for itself.
target_compile_options(tern_flags INTERFACE "$<BUILD_INTERFACE:-Wall;-Wextra;$<$<CXX_COMPILER_ID:GNU>:-Werror>>"
  "$<BUILD_INTERFACE:-Wno-missing-field-initializers;-ffp-contract=off;-fvisibility=hidden>"
  # gcc 12 sees overflows in std::string's own copies where none are, as the length of a path or the order of headers has it
  # (https://gcc.gnu.org/PR105651, mended in 13). clang and the sanitizers judge the same sources.
  "$<BUILD_INTERFACE:$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds;-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread>>"
  # A source is named by its path in the tree, not on the builder's disk.
  "$<BUILD_INTERFACE:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Baseline only: kernels dispatch at run time to AVX2, AVX-512, VNNI and bf16.
  target_compile_options(tern_flags INTERFACE $<BUILD_INTERFACE:-march=x86-64-v2>)
endif()
target_include_directories(tern_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
find_package(Threads REQUIRED)
target_link_libraries(tern_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(TERN_SANITIZE)
  # gcc's manual: with sanitizers this warning sees what is not there.
  target_compile_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()

# The standard headers that nearly every source includes, compiled once: a third of the time of a clean build. Sources name
# what they include all the same, and TERN_PCH=OFF builds without. ccache takes such objects only where it is told that it
# may (CCACHE_SLOPPINESS in CMakePresets.json).
option(TERN_PCH "precompile the standard headers" ON)
set(TERN_PCH_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream>
  <stdexcept> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
if(TERN_PCH)
  add_library(tern_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/pch.cpp)
  target_link_libraries(tern_pch PRIVATE tern_flags)
  target_precompile_headers(tern_pch PRIVATE ${TERN_PCH_HEADERS})
endif()

# tern_precompiled(<target> [tern_test_pch]): the target's sources begin with the precompiled headers; programs name those of
# tests, as they are compiled as programs are.
function(tern_precompiled target)
  set(from tern_pch ${ARGN})
  list(GET from -1 from)
  if(TERN_PCH)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# tern_batched(<target>): four of its sources are compiled as one, so that what they share is read and instantiated once: a
# third less of a compiler's time. Sources name what they include all the same, and TERN_UNITY=OFF compiles each alone, as the debug preset and
# clang-tidy do. Folders whose
# files are all built alike, with the same names inside, say ALIKE and are compiled one by one.
option(TERN_UNITY "compile sources four at a time" ON)
function(tern_batched target)
  if(TERN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
    # What a class keeps to itself may lie in its source's own namespace, which isn't "included" by any other.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# tern_sources(<variable> <folder>...): every .cpp in the folders.
function(tern_sources out)
  set(all)
  foreach(folder ${ARGN})
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND all ${found})
  endforeach()
  set(${out} ${all} PARENT_SCOPE)
endfunction()

# tern_folder(<name> [COLD] [ALIKE] [ROOMS subfolder...] [DEPENDS folder...] [PACKAGES target...]): library tern_<name>.
function(tern_folder name)
  cmake_parse_arguments(F "COLD;ALIKE" "" "ROOMS;DEPENDS;PACKAGES" ${ARGN})
  list(TRANSFORM F_ROOMS PREPEND ${name}/)
  tern_sources(sources ${name} ${F_ROOMS})
  if(NOT sources)
    add_library(tern_${name} INTERFACE)
    set(kind INTERFACE)
  else()
    add_library(tern_${name} STATIC ${sources})
    tern_precompiled(tern_${name})
    if(NOT F_ALIKE)
      tern_batched(tern_${name})
    endif()
    if(F_COLD)
      target_compile_options(tern_${name} PRIVATE ${TERN_COLD_FLAGS})
    endif()
    set(kind PUBLIC)
  endif()
  target_link_libraries(tern_${name} ${kind} tern_flags)
  foreach(dep ${F_DEPENDS})
    target_link_libraries(tern_${name} ${kind} tern_${dep})
  endforeach()
  target_link_libraries(tern_${name} ${kind} ${F_PACKAGES})
endfunction()

# tern_program(<target> <folder> [COLD] [ROOMS subfolder...] ...): the folder without main.cpp is a library, so that tests can link it.
function(tern_program target folder)
  cmake_parse_arguments(F "COLD" "" "ROOMS;DEPENDS;PACKAGES" ${ARGN})
  list(TRANSFORM F_ROOMS PREPEND ${folder}/)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${folder}/main.cpp)
    return()
  endif()
  tern_sources(sources ${folder} ${F_ROOMS})
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/${folder}/main.cpp)
  add_library(tern_${folder} STATIC ${sources})
  tern_precompiled(tern_${folder})
  tern_batched(tern_${folder})
  if(F_COLD)
    target_compile_options(tern_${folder} PRIVATE ${TERN_COLD_FLAGS})
  endif()
  target_link_libraries(tern_${folder} PUBLIC tern_flags ${F_PACKAGES})
  foreach(dep ${F_DEPENDS})
    target_link_libraries(tern_${folder} PUBLIC tern_${dep})
  endforeach()
  add_executable(${target} ${PROJECT_SOURCE_DIR}/${folder}/main.cpp)
  target_link_libraries(${target} PRIVATE tern_${folder})
endfunction()
