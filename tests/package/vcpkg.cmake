# SPDX-License-Identifier: Apache-2.0
# cmake -D port=DIR -D prefix=DIR -P vcpkg.cmake: runs a port with stand-ins for the functions of vcpkg.
set(CURRENT_PACKAGES_DIR ${prefix})
file(READ ${port}/vcpkg.json manifest)
string(JSON PORT GET ${manifest} name)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${prefix}.build ${arg_OPTIONS} -DCMAKE_INSTALL_PREFIX=${prefix})
endfunction()

function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build ${prefix}.build --target install)
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  configure_file(${arg_FILE_LIST} ${prefix}/share/${PORT}/copyright COPYONLY)
endfunction()

include(${port}/portfile.cmake)
