# SPDX-License-Identifier: Apache-2.0
# fourscale::cuda, the same for an installed package and for a subdirectory; needs CUDA::cudart.
# cxx_std_20 does not reach nvcc, so the CUDA dialect is asked for as well: by the flag where CMake (before 3.26)
# does not know that nvcc has it, or CUDA is not enabled yet.
if(NOT TARGET fourscale::cuda)
  add_library(fourscale::cuda INTERFACE IMPORTED GLOBAL)
  target_link_libraries(fourscale::cuda INTERFACE fourscale::fourscale CUDA::cudart)
  if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_features(fourscale::cuda INTERFACE cuda_std_20)
  else()
    target_compile_options(fourscale::cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()
endif()
