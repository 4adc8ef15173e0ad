# parallax_room(NAME [ROOMS room...] [LINK target...]): the static library parallax_NAME of every
# source under src/NAME. A room without sources becomes an interface, so the table can be complete.

set(PARALLAX_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these falsely from its own AVX-512 header and from std::variant's destructor.
  list(APPEND PARALLAX_WARNINGS -Wno-maybe-uninitialized -Wno-uninitialized)
  if(PARALLAX_SANITIZE STREQUAL "thread")
    list(APPEND PARALLAX_WARNINGS -Wno-tsan)  # Asio's fences, which that sanitizer does not model
  endif()
endif()

function(parallax_flags target scope)
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  if(NOT scope STREQUAL "INTERFACE")
    target_compile_options(${target} PRIVATE ${PARALLAX_WARNINGS})
  endif()
  # Coverage guides the fuzzer; kernels see only shapes that were checked before.
  if(PARALLAX_FUZZ AND NOT target STREQUAL "parallax_kernels")
    target_compile_options(${target} ${scope} -fsanitize=fuzzer-no-link)
  endif()
  if(PARALLAX_SANITIZE)
    target_compile_options(${target} ${scope} -fsanitize=${PARALLAX_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(${target} ${scope} -fsanitize=${PARALLAX_SANITIZE})
  endif()
endfunction()

function(parallax_room name)
  cmake_parse_arguments(ARG "" "" "ROOMS;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  if(sources)
    add_library(parallax_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(parallax_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  parallax_flags(parallax_${name} ${scope})
  foreach(room ${ARG_ROOMS})
    target_link_libraries(parallax_${name} ${scope} parallax_${room})
  endforeach()
  target_link_libraries(parallax_${name} ${scope} ${ARG_LINK})
endfunction()
