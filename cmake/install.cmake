# libkvasir.so as programs get it: all objects of the library, the public API alone exported (cmake/kvasir.map), headers,
# pkg-config and find_package(Kvasir). Component `api`; component `tool` is the command line, which a static build has
# inside one program. CPack makes archives and a Debian package of both (./dev package).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A library under a sanitizer needs a program under it.
if(CMAKE_POSITION_INDEPENDENT_CODE AND UNIX AND NOT KVASIR_FUZZ AND NOT KVASIR_SANITIZE)
  add_library(kvasir_api SHARED $<TARGET_OBJECTS:kvasir> ${KVASIR_ISA_OBJECTS})
  get_target_property(libraries kvasir LINK_LIBRARIES)
  target_link_libraries(kvasir_api PRIVATE ${libraries})
  target_include_directories(kvasir_api INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(kvasir_api PROPERTIES OUTPUT_NAME kvasir EXPORT_NAME kvasir VERSION ${PROJECT_VERSION} SOVERSION 0
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/api LINKER_LANGUAGE CXX
                        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/kvasir.map)
  if(NOT APPLE)
    target_link_options(kvasir_api PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/kvasir.map" LINKER:-z,defs)
  endif()

  install(TARGETS kvasir_api EXPORT Kvasir LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT api)
  install(DIRECTORY include/kvasir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT api)
  install(EXPORT Kvasir NAMESPACE Kvasir:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Kvasir FILE KvasirConfig.cmake COMPONENT api)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/KvasirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/KvasirConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Kvasir COMPONENT api)
  # Inside the Python package (pyproject.toml): the library, and the program that python/kvasir/__main__.py starts.
  install(FILES $<TARGET_FILE:kvasir_api> DESTINATION kvasir RENAME libkvasir.so COMPONENT python EXCLUDE_FROM_ALL)
  if(NOT KVASIR_SHARED)
    install(PROGRAMS $<TARGET_FILE:kvasir_main> DESTINATION kvasir/bin COMPONENT python EXCLUDE_FROM_ALL)
  endif()
  # The prefix is known when it is installed.
  set(KVASIR_PC ${PROJECT_SOURCE_DIR}/cmake/Kvasir.pc.in)
  install(CODE "set(PROJECT_VERSION ${PROJECT_VERSION})
set(CMAKE_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(CMAKE_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(${KVASIR_PC} ${PROJECT_BINARY_DIR}/kvasir.pc @ONLY)" COMPONENT api)
  install(FILES ${PROJECT_BINARY_DIR}/kvasir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT api)
endif()
if(NOT KVASIR_SHARED)
  install(TARGETS kvasir_main DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
  # What the program says of its own options, when it is installed. A cross build cannot run it.
  if(NOT CMAKE_CROSSCOMPILING)
    install(CODE "file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/shell)
foreach(shell bash zsh fish)
  execute_process(COMMAND $<TARGET_FILE:kvasir_main> completion \${shell} OUTPUT_FILE ${PROJECT_BINARY_DIR}/shell/\${shell} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND $<TARGET_FILE:kvasir_main> man OUTPUT_FILE ${PROJECT_BINARY_DIR}/shell/kvasir.1 COMMAND_ERROR_IS_FATAL ANY)" COMPONENT tool)
    install(FILES ${PROJECT_BINARY_DIR}/shell/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kvasir COMPONENT tool)
    install(FILES ${PROJECT_BINARY_DIR}/shell/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _kvasir COMPONENT tool)
    install(FILES ${PROJECT_BINARY_DIR}/shell/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME kvasir.fish COMPONENT tool)
    install(FILES ${PROJECT_BINARY_DIR}/shell/kvasir.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool)
  endif()
endif()

set(CPACK_PACKAGE_NAME kvasir)
set(CPACK_PACKAGE_VENDOR Kvasir)
set(CPACK_PACKAGE_CONTACT "The authors of Kvasir")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Language models with a compressed, reusable KV cache: program, library and headers")
set(CPACK_PACKAGE_FILE_NAME kvasir-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR TGZ DEB)
if(KVASIR_PORTABLE)  # dpkg-shlibdeps knows this system's C library alone
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.31), libgcc-s1")
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4, ca-certificates")  # for models that are downloaded
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_STRIP_FILES ON)
include(CPack)
