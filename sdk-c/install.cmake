# cmake --install: headers, libraries, the pkg-config files chan.pc and chan-client.pc, the CMake package Chan with the
# targets Chan::chan, Chan::chan_static and Chan::client, manual pages and shell completion.
include(CMakePackageConfigHelpers)

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Chan)
set(packaging ${CMAKE_CURRENT_SOURCE_DIR}/packaging)

install(DIRECTORY include/chan DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN client.h EXCLUDE)
install(TARGETS chan chan_static EXPORT ChanTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ChanTargets NAMESPACE Chan:: DESTINATION ${package_directory})

configure_package_config_file(${packaging}/ChanConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ChanConfig.cmake
                              INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ChanConfigVersion.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ChanConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ChanConfigVersion.cmake
        DESTINATION ${package_directory})

# Relative to where the .pc file lies, so that the tree can be moved (cmake --install --prefix).
file(RELATIVE_PATH CHAN_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
foreach(directory LIBDIR INCLUDEDIR)
  cmake_path(APPEND CHAN_PC_${directory} "\${prefix}" "${CMAKE_INSTALL_${directory}}")
endforeach()
configure_file(${packaging}/chan.pc.in chan.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/chan.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Where Debian's python3 looks.
install(FILES python/chan.py DESTINATION lib/python3/dist-packages)

file(GLOB library_pages CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/man/*.3)
if(NOT CHAN_BUILD_CLIENT)
  list(FILTER library_pages EXCLUDE REGEX "/chan_client\\.3$")
endif()
install(FILES ${library_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

if(CHAN_BUILD_CLIENT)
  # The client depends on libcurl and jansson only inside, so a program that links it needs neither.
  set_target_properties(chan_client PROPERTIES EXPORT_NAME client)
  install(FILES include/chan/client.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/chan)
  install(TARGETS chan_client EXPORT ChanClientTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ChanClientTargets NAMESPACE Chan:: DESTINATION ${package_directory})
  configure_file(${packaging}/chan-client.pc.in chan-client.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/chan-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

# The programs' pages and completion; here, because this file is read whatever is built.
include(${PROJECT_SOURCE_DIR}/cli/man/install.cmake)
