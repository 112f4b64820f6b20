# SPDX-License-Identifier: Apache-2.0
# cmake -D compiler= -D source= -D include= -P expect_failure.cmake
# The source says in its comments what the compiler must say, and may add flags:
#   // expect: some text of the message
#   // flags: -std=c++17
# and for which compiler or processor it is alone, by CMake's names of them; tests/CMakeLists.txt leaves it out elsewhere:
#   // only: GNU
file(STRINGS ${source} expect REGEX "^// expect: ")
string(REGEX REPLACE "^// expect: " "" expect "${expect}")
file(STRINGS ${source} flags REGEX "^// flags: ")
string(REGEX REPLACE "^// flags: " "" flags "${flags}")
separate_arguments(flags UNIX_COMMAND "${flags}")
if(expect STREQUAL "")
  message(FATAL_ERROR "${source} has no `// expect: text` line")
endif()

execute_process(COMMAND ${compiler} -std=c++20 ${flags} -I${include} -fsyntax-only ${source}
  RESULT_VARIABLE result ERROR_VARIABLE output OUTPUT_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "${source} compiles, and must not")
endif()
string(FIND "${output}" "${expect}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${source} fails to compile as it must, but does not say\n  ${expect}\nIt says\n${output}")
endif()
