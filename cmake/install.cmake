# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/fourscale)

configure_package_config_file(cmake/fourscaleConfig.cmake.in fourscaleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(fourscaleConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

install(TARGETS fourscale EXPORT fourscaleTargets)
install(EXPORT fourscaleTargets NAMESPACE fourscale:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/fourscaleConfig.cmake ${PROJECT_BINARY_DIR}/fourscaleConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/fourscaleCuda.cmake DESTINATION ${package_dir})
install(DIRECTORY include/fourscale DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
