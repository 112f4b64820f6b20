# SPDX-License-Identifier: Apache-2.0
# What CPM does with a version and a repository: it fetches the tag vVERSION.
function(CPMAddPackage)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;VERSION;GIT_REPOSITORY" "")
  include(FetchContent)
  FetchContent_Declare(${arg_NAME} GIT_REPOSITORY ${arg_GIT_REPOSITORY} GIT_TAG v${arg_VERSION})
  FetchContent_MakeAvailable(${arg_NAME})
endfunction()
