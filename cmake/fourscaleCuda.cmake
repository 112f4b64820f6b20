# SPDX-License-Identifier: Apache-2.0
# fourscale::cuda: fourscale::fourscale for targets with CUDA sources. It is the same in a subdirectory, in an
# installed package and in a Conan package. What depends on CUDA is decided when the build is generated, so CUDA may
# be enabled before or after, or never.
if(NOT TARGET fourscale::cuda)
  add_library(fourscale::cuda INTERFACE IMPORTED GLOBAL)
  # C++ sources see the toolkit's headers if somebody has found the toolkit. nvcc needs no help.
  target_link_libraries(fourscale::cuda INTERFACE fourscale::fourscale $<TARGET_NAME_IF_EXISTS:CUDA::toolkit>)
  # cxx_std_20 does not reach nvcc, and CMake before 3.26 does not know that nvcc has C++20.
  if(CMAKE_VERSION VERSION_LESS 3.26)
    target_compile_options(fourscale::cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  else()
    set_property(TARGET fourscale::cuda PROPERTY
      INTERFACE_COMPILE_FEATURES $<$<BOOL:$<CUDA_COMPILER_VERSION>>:cuda_std_20>)
  endif()
endif()
