# The library for other projects: parallax::parallax, the same target through add_subdirectory and,
# after `cmake --install`, through find_package(parallax). Installs the program and headers as well.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(parallax::parallax ALIAS parallax_api)
set_target_properties(parallax_api PROPERTIES EXPORT_NAME parallax)
target_compile_features(parallax_api PUBLIC cxx_std_20)

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

# The room and all rooms below it: a static library brings none of its own along.
function(parallax_rooms_below target list)
  set(found ${${list}} ${target})
  get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
  list(FILTER linked INCLUDE REGEX "^parallax_")
  foreach(room ${linked})
    if(NOT room IN_LIST found)
      parallax_rooms_below(${room} found)
    endif()
  endforeach()
  set(${list} ${found} PARENT_SCOPE)
endfunction()
set(library_rooms "")
parallax_rooms_below(parallax_api library_rooms)

install(TARGETS parallax RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${library_rooms} EXPORT parallax
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/parallax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/parallax)
install(EXPORT parallax NAMESPACE parallax:: FILE parallaxTargets.cmake DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/parallaxConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/parallaxConfig.cmake ${CMAKE_BINARY_DIR}/generated/parallaxConfigVersion.cmake
        DESTINATION ${package_folder})
