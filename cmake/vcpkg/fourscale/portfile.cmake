# SPDX-License-Identifier: Apache-2.0
# An overlay port of the source tree that it lies in. A port in a registry fetches a release instead.
set(SOURCE_PATH ${CMAKE_CURRENT_LIST_DIR}/../../..)
set(VCPKG_BUILD_TYPE release)  # headers only

vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH} OPTIONS
  -DFOURSCALE_BUILD_TESTS=OFF -DFOURSCALE_BUILD_BENCH=OFF -DFOURSCALE_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST ${SOURCE_PATH}/LICENSE)
