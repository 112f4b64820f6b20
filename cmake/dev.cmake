# SPDX-License-Identifier: Apache-2.0
# What our own tests, benchmarks and examples are compiled with; a consumer of the library never comes here.

find_program(ccache ccache)
if(ccache AND PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ccache})
endif()

set(fourscale_cuda ${FOURSCALE_CUDA})
if(fourscale_cuda)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
find_package(OpenMP COMPONENTS CXX)
find_package(Threads REQUIRED)

# Errors come from CMAKE_COMPILE_WARNING_AS_ERROR, which the presets set.
add_library(fourscale_dev INTERFACE)
target_link_libraries(fourscale_dev INTERFACE fourscale::fourscale Threads::Threads)
target_compile_options(fourscale_dev INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion>
  $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--extended-lambda;-Xcompiler=-Wall,-Wextra,-Wconversion>)
if(fourscale_cuda)
  target_link_libraries(fourscale_dev INTERFACE fourscale::cuda)
endif()
if(OpenMP_CXX_FOUND)
  target_link_libraries(fourscale_dev INTERFACE OpenMP::OpenMP_CXX)
  target_compile_options(fourscale_dev INTERFACE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-fopenmp>)
endif()

# Every header of the library as "folder/name.hpp"; interop/ needs the CUDA toolkit and is left out without it.
file(GLOB_RECURSE fourscale_headers RELATIVE ${PROJECT_SOURCE_DIR}/include/fourscale CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/fourscale/*.hpp ${PROJECT_SOURCE_DIR}/include/fourscale/*.cuh)

# GPU tests are built everywhere and run where there is a GPU.
set(fourscale_gpu OFF)
find_program(nvidia_smi nvidia-smi)
if(fourscale_cuda AND nvidia_smi)
  execute_process(COMMAND ${nvidia_smi} -L RESULT_VARIABLE result OUTPUT_VARIABLE gpus ERROR_QUIET)
  if(result EQUAL 0 AND gpus MATCHES "GPU 0")
    set(fourscale_gpu ON)
  endif()
endif()
