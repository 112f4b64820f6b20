# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_DATADIR}/fourscale)
set(pc_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)

configure_package_config_file(cmake/fourscaleConfig.cmake.in fourscaleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(fourscaleConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

# The .pc file says where the headers are from where it is itself, so that a prefix may be moved.
string(REGEX REPLACE "[^/]+" ".." pc_to_prefix ${pc_dir})
configure_file(cmake/fourscale.pc.in fourscale.pc @ONLY)

install(TARGETS fourscale EXPORT fourscaleTargets)
install(EXPORT fourscaleTargets NAMESPACE fourscale:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/fourscaleConfig.cmake ${PROJECT_BINARY_DIR}/fourscaleConfigVersion.cmake
              cmake/fourscaleCuda.cmake LICENSE DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/fourscale.pc DESTINATION ${pc_dir})
install(DIRECTORY include/fourscale DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
