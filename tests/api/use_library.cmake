# Installs this build, then builds and runs the README's program against it as somebody else would;
# configures it a second time with the sources as a subdirectory.
#
# cmake -D BUILD=... -D SOURCE=... -D WORK=... -D GENERATOR=... -D COMPILER=... -P use_library.cmake
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(code)
    message(FATAL_ERROR "${ARGN}: ${code}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
must(${WORK}/prefix/bin/parallax --version)
if(NOT output MATCHES "^parallax [0-9]+\\.[0-9]+")
  message(FATAL_ERROR "the installed program's version is '${output}'")
endif()

# The first block of C++ in the README.
file(READ ${SOURCE}/README.md readme)
string(FIND "${readme}" "```cpp\n" start)
string(SUBSTRING "${readme}" ${start} -1 readme)
string(SUBSTRING "${readme}" 7 -1 readme)
string(FIND "${readme}" "```" end)
string(SUBSTRING "${readme}" 0 ${end} program)
foreach(way installed subdirectory)
  file(WRITE ${WORK}/${way}/main.cc "${program}")
endforeach()

set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/tests/api/consumer
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Debug)
must(${configure} -B ${WORK}/installed -D CMAKE_PREFIX_PATH=${WORK}/prefix)
must(${CMAKE_COMMAND} --build ${WORK}/installed)
must(${configure} -B ${WORK}/subdirectory -D PARALLAX_SOURCE=${SOURCE})

# Its model, where it has been written; the refusal of one that is not there in any case.
set(model ${SOURCE}/models/generated/mobilenetv2.onnx)
if(EXISTS ${model})
  must(${WORK}/installed/consumer ${model})
  if(NOT output MATCHES "^class [0-9]+ of 1000")
    message(FATAL_ERROR "the README's program printed '${output}'")
  endif()
endif()
execute_process(COMMAND ${WORK}/installed/consumer ${WORK}/none.onnx
                RESULT_VARIABLE code ERROR_VARIABLE output)
if(NOT code EQUAL 1 OR NOT output MATCHES "none.onnx': No such file")
  message(FATAL_ERROR "a model that is not there gave ${code}: ${output}")
endif()
