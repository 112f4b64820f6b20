# SPDX-License-Identifier: Apache-2.0
# fourscale_package(): what is compiled of fourscale_jax and of fourscale_torch: an extension module for CPUs, and a
# shared library for GPUs where there is an nvcc. The calls are compiled once where both are built.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
find_package(OpenMP COMPONENTS CXX)

# nanobind asks for Python by this name, of which one is found: from 3.12 on with its stable ABI.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(Python_EXECUTABLE ${Python3_EXECUTABLE})
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${Python3_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind REQUIRED CONFIG)

if(NOT TARGET fourscale::fourscale)
  set(FOURSCALE_INSTALL OFF)
  add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/../../.. fourscale)
endif()

function(fourscale_cpu_options target)
  target_link_libraries(${target} PRIVATE fourscale::fourscale)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
  if(NOT CMAKE_CXX_FLAGS MATCHES "-march=")
    target_compile_options(${target} PRIVATE -march=native)
  endif()
  if(OpenMP_CXX_FOUND)
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
  endif()
endfunction()

# CUDA code for the GPU of this machine, or for CMAKE_CUDA_ARCHITECTURES.
if(PROJECT_IS_TOP_LEVEL)
  set(fourscale_cuda OFF)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE gpu ERROR_QUIET)
    if(gpu MATCHES "^([0-9]+)[.]([0-9])")
      set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
      if(CMAKE_MATCH_1 GREATER_EQUAL 9)
        string(APPEND CMAKE_CUDA_ARCHITECTURES a)
      endif()
      string(APPEND CMAKE_CUDA_ARCHITECTURES -real)
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND CMAKE_CUDA_ARCHITECTURES)
    set(fourscale_cuda ON)
  endif()
endif()
if(fourscale_cuda)
  enable_language(CUDA)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
endif()

if(NOT TARGET fourscale_calls_cpu)
  add_library(fourscale_calls_cpu OBJECT ${CMAKE_CURRENT_LIST_DIR}/cpu.cpp)
  fourscale_cpu_options(fourscale_calls_cpu)
  if(fourscale_cuda)
    add_library(fourscale_calls_cuda OBJECT ${CMAKE_CURRENT_LIST_DIR}/cuda.cu)
    target_link_libraries(fourscale_calls_cuda PRIVATE fourscale::cuda)
    target_compile_options(fourscale_calls_cuda PRIVATE --extended-lambda)
  endif()
  if(NOT DEFINED SKBUILD)  # for the tests: host::linear_layer, called without XLA and PyTorch
    add_library(fourscale_reference MODULE ${CMAKE_CURRENT_LIST_DIR}/../tests/reference.cpp)
    fourscale_cpu_options(fourscale_reference)
    target_compile_options(fourscale_reference PRIVATE -O1)  # much is compiled, and little runs
  endif()
endif()

set(fourscale_module ${CMAKE_CURRENT_LIST_DIR}/module.cpp)

# Makes the module `_cpu` and the library for GPUs of a Python package `name` from the calls and `sources`. They are put
# next to its other modules, in the build tree too, where the package can be imported.
function(fourscale_package name) # sources
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  nanobind_add_module(${name}_cpu STABLE_ABI FREE_THREADED NB_SUPPRESS_WARNINGS
    $<TARGET_OBJECTS:fourscale_calls_cpu> ${fourscale_module} ${ARGN})
  set_target_properties(${name}_cpu PROPERTIES OUTPUT_NAME _cpu)
  if(TARGET fourscale_calls_cuda)
    add_library(${name}_cuda MODULE $<TARGET_OBJECTS:fourscale_calls_cuda> ${ARGN})
    target_link_libraries(${name}_cuda PRIVATE fourscale::cuda)
    set_target_properties(${name}_cuda PROPERTIES LINKER_LANGUAGE CUDA)
  endif()
  foreach(machine cpu cuda)
    if(TARGET ${name}_${machine})
      set_target_properties(${name}_${machine} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${folder})
      fourscale_cpu_options(${name}_${machine})
      if(DEFINED SKBUILD)
        install(TARGETS ${name}_${machine} DESTINATION ${name})
      endif()
    endif()
  endforeach()
  if(DEFINED SKBUILD)
    return()
  endif()
  add_custom_target(${name}_reference ALL COMMAND ${CMAKE_COMMAND} -E copy_if_different
    $<TARGET_FILE:fourscale_reference> ${folder})
  file(GLOB_RECURSE modules RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${name}/*.py)
  foreach(module IN LISTS modules)
    configure_file(${module} ${module} COPYONLY)
  endforeach()
endfunction()
