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

# Every header of the library as "folder/name.hpp"; interop/ needs the CUDA toolkit and is left out without it, and so
# is what needs cuBLASLt.
file(GLOB_RECURSE fourscale_headers RELATIVE ${PROJECT_SOURCE_DIR}/include/fourscale CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/fourscale/*.hpp ${PROJECT_SOURCE_DIR}/include/fourscale/*.cuh)
if(fourscale_cuda AND NOT TARGET CUDA::cublasLt)
  message(STATUS "What multiplies by cuBLASLt is left out: this CUDA toolkit has no cuBLAS")
  list(FILTER fourscale_headers EXCLUDE REGEX "^interop/cublaslt.cuh$")
endif()

# GPU tests are built everywhere and run where there is a GPU.
set(fourscale_gpu OFF)
find_program(nvidia_smi nvidia-smi)
if(fourscale_cuda AND nvidia_smi)
  execute_process(COMMAND ${nvidia_smi} -L RESULT_VARIABLE result OUTPUT_VARIABLE gpus ERROR_QUIET)
  if(result EQUAL 0 AND gpus MATCHES "GPU 0")
    set(fourscale_gpu ON)
  endif()
endif()

# Where there is no GPU, what is compiled for one is not run: it only has to compile, and that soon.
#   tests, examples       no device code at all, and -O0 on the host; nvcc checks what would become PTX of 100a
#   benchmarks            not at all
#   tests/architectures   every header and the library's kernels: to machine code of every architecture, at that level
#   tests/codegen         as with a GPU: optimised, for the architectures that each file names
# FOURSCALE_ALL_ARCHITECTURES compiles the first two lines for every architecture, too. With a GPU, all is optimised and
# for CMAKE_CUDA_ARCHITECTURES; most tests a little less, see there.
option(FOURSCALE_ALL_ARCHITECTURES "Compile all CUDA code for every architecture, even without a GPU" OFF)
set(fourscale_only_compile OFF)
if(fourscale_cuda AND PROJECT_IS_TOP_LEVEL AND NOT fourscale_gpu)
  set(fourscale_only_compile ON)
  string(REGEX REPLACE "-O[1-3]" "-O0" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
endif()

# nvcc's options for code that need not be quick, for code that is run a few times, and for code that is not made;
# not every nvcc has them.
set(fourscale_fastest "")
set(fourscale_sooner "")
set(fourscale_no_device_code "")
if(fourscale_cuda)
  include(CheckCompilerFlag)
  check_compiler_flag(CUDA -Ofc=max fourscale_has_ofc)
  if(fourscale_has_ofc)
    set(fourscale_fastest -Ofc=max)
    set(fourscale_sooner -Ofc=min)
  endif()
  check_compiler_flag(CUDA -fdevice-syntax-only fourscale_has_syntax_only)
  if(fourscale_has_syntax_only)
    set(fourscale_no_device_code -fdevice-syntax-only)
  endif()
endif()

# Without a GPU, `target` is only to compile, for the architectures that may follow.
function(fourscale_only_to_compile target)
  if(NOT fourscale_only_compile)
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${fourscale_fastest}>)
  if(ARGN AND NOT FOURSCALE_ALL_ARCHITECTURES)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${ARGN}")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${fourscale_no_device_code}>)
  endif()
endfunction()
