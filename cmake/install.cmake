# What is installed: bin/tern, lib/tern/backends/*.so (by each backend), include/tern, and the CMake package.
#   find_package(tern) gives tern::accel, the include directory with which a backend is built anywhere, and nothing else.
#   find_package(tern COMPONENTS engine train) gives the libraries as well, for programs that embed tern.
# `cmake --install build --component sdk` installs include/tern/*.h and the package for backends alone.
include(CMakePackageConfigHelpers)

set(TERN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
install(DIRECTORY include/tern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk FILES_MATCHING PATTERN "*.h")

# The libraries: static, with the headers that those of session, engine and train include.
if(TARGET tern_session)
  set(libraries base ops accel comm graph io media checkpoint hub tokenizer jinja chat data nn models session train engine)
  foreach(folder ${libraries})
    set_target_properties(tern_${folder} PROPERTIES EXPORT_NAME ${folder})
    list(APPEND library_targets tern_${folder})
    install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern/library COMPONENT library
      FILES_MATCHING PATTERN "*.h")
  endforeach()
  set_target_properties(tern_accel PROPERTIES EXPORT_NAME devices)  # tern::accel is the interface of backends
  set_target_properties(tern_flags PROPERTIES EXPORT_NAME library)
  target_include_directories(tern_flags INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tern/library> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(tern_flags INTERFACE $<INSTALL_INTERFACE:cxx_std_20>)
  install(TARGETS tern_flags ${library_targets} EXPORT ternLibraries
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/tern COMPONENT library)
  install(EXPORT ternLibraries NAMESPACE tern:: DESTINATION ${TERN_PACKAGE_DIR} COMPONENT library)
  install(FILES cmake/ternDependencies.cmake DESTINATION ${TERN_PACKAGE_DIR} COMPONENT library)
endif()

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
