# find_package(parallax) gives parallax::parallax, static; these are the shared libraries it needs.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(Threads)
find_dependency(Protobuf)
find_dependency(PkgConfig)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
include(${CMAKE_CURRENT_LIST_DIR}/parallaxTargets.cmake)
