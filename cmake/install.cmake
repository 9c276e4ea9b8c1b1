# What is installed: bin/tern, lib/tern/backends/*.so (by each backend), include/tern, and the CMake package with which a
# backend is built anywhere: find_package(tern) gives tern::accel, the include directory and nothing else.
# `cmake --install build --component sdk` installs the last two alone.
include(CMakePackageConfigHelpers)

set(TERN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
install(DIRECTORY include/tern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk FILES_MATCHING PATTERN "*.h")

add_library(tern_accel_interface INTERFACE)
set_target_properties(tern_accel_interface PROPERTIES EXPORT_NAME accel)
target_include_directories(tern_accel_interface INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS tern_accel_interface EXPORT ternTargets)
install(EXPORT ternTargets NAMESPACE tern:: DESTINATION ${TERN_PACKAGE_DIR} COMPONENT sdk)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ternConfig.cmake.in ${PROJECT_BINARY_DIR}/ternConfig.cmake
  INSTALL_DESTINATION ${TERN_PACKAGE_DIR})
# The headers keep their promise for all of a major version of the interface; before 1.0 for all of a minor one.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ternConfigVersion.cmake COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/ternConfig.cmake ${PROJECT_BINARY_DIR}/ternConfigVersion.cmake
  DESTINATION ${TERN_PACKAGE_DIR} COMPONENT sdk)

if(TARGET tern)
  set_target_properties(tern PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/tern")
  install(TARGETS tern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
