// SPDX-License-Identifier: Apache-2.0
// A kernel that is built at run time, without nvcc: the quantizer is part of its text, and NVRTC compiles it
// for the GPU of this machine. Views have the same types in the program and in the kernel, so they are the
// kernel's arguments. The bits are those of host::quantize(). Without a GPU the kernel is compiled and not
// run.
#include <cuda_runtime.h>
#include <nvrtc.h>

#include <fourscale/fourscale.hpp>
#include <string>

#include "support/gpu.cuh"

namespace f4 = fourscale;
using f4::bf16, f4::i64, f4::nvfp4, example::require;

namespace {

/// The text of the kernel. QUANTIZER is a macro that compile() defines. A CTA takes a tile of 128 rows and 8
/// blocks.
constexpr char const* source = R"(
#include <fourscale/fourscale.cuh>
namespace f4 = fourscale;
namespace cta = fourscale::cta;

extern "C" __global__ void __launch_bounds__(cta::threads)
    quantize(f4::matrix_view<f4::bf16 const> x, f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> q) {
  using producer = cta::matrix_producer<f4::bf16, 16, cta::access::vectors>;
  using sink = cta::swizzled_sink<f4::nvfp4, true>;
  __shared__ sink::memory memory;
  const auto walk = cta::tile_walk<4>::over(q.rows, q.blocks());
  cta::quantize<f4::nvfp4, false>(walk.begin(), producer{x.data, x.rows, x.cols, x.ld}, sink{q}, memory, q.amax,
                                  cta::prepared(QUANTIZER));
}
)";

/// Compiles the kernel with this quantizer for `arch`, and returns its machine code.
std::string compile(std::string const& quantizer, std::string const& arch) {
  const std::string define = "-DQUANTIZER=" + quantizer, target = "--gpu-architecture=" + arch;
  char const* options[] = {"-std=c++20", "-I" FOURSCALE_INCLUDE, define.c_str(), target.c_str()};
  nvrtcProgram program = nullptr;
  nvrtcResult result = nvrtcCreateProgram(&program, source, "kernel.cu", 0, nullptr, nullptr);
  if (result == NVRTC_SUCCESS) result = nvrtcCompileProgram(program, 4, options);
  if (result != NVRTC_SUCCESS) {
    std::size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    nvrtcGetProgramLog(program, log.data());
    std::printf("%s: %s\n", nvrtcGetErrorString(result), log.c_str());
    std::exit(1);
  }
  std::size_t size = 0;
  nvrtcGetCUBINSize(program, &size);
  std::string code(size, '\0');
  nvrtcGetCUBIN(program, code.data());
  nvrtcDestroyProgram(&program);
  std::printf("%s: %zu bytes for %s\n", quantizer.c_str(), code.size(), arch.c_str());
  return code;
}

/// Runs the kernel on a matrix; true if its codes and scales are those of host::quantize().
bool same_as_host(std::string const& code, f4::quantizer_for<nvfp4> auto const& quantizer) {
  constexpr i64 rows = 300, cols = 4112;  // both end inside a tile: there is padding to zero
  const example::array<bf16> values(rows * cols);
  for (i64 i = 0; i < rows * cols; ++i)
    values[i] = f4::from_float<bf16>(static_cast<float>(i * 7919 % 2003 - 1001) / 256);
  const example::array<float> amax(1);
  f4::matrix_view<bf16 const> x{values.data, rows, cols};
  const f4::tensor_amax<nvfp4> scale{f4::amax_in(amax.data),
                                     quantizer};  // four over six has a range of its own
  f4::host_buffer<nvfp4, f4::swizzled_128x4> expected(rows, cols, scale);
  f4::device_buffer<nvfp4, f4::swizzled_128x4> result(rows, cols, scale);
  require(f4::host::amax(x, amax.data));
  require(f4::host::quantize(x, expected.view(), quantizer));

  // The runtime's form of the driver's cuLibraryLoadData(): with it, the program also starts where there is
  // no driver.
  cudaLibrary_t library;
  cudaKernel_t kernel;
  require(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  require(cudaLibraryGetKernel(&kernel, library, "quantize"));
  auto q = result.view();
  void* arguments[] = {&x, &q};
  const unsigned tiles = static_cast<unsigned>(f4::ceil_div<i64>(rows, 128) * f4::ceil_div<i64>(cols, 128));
  require(cudaLaunchKernel(reinterpret_cast<void const*>(kernel), dim3(tiles), dim3(256), arguments));
  const bool same = example::equal(example::to_host(result), expected);
  require(cudaLibraryUnload(library));
  std::printf("  kernel = host: %s\n", same ? "in every bit" : "NOT EQUAL");
  return same;
}

}  // namespace

/// The same expression twice: as a value for the host, and as text for NVRTC.
#define BOTH(...) __VA_ARGS__, #__VA_ARGS__

int main() {
  int devices = 0;
  const bool runs = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  std::string arch = "sm_90a";
  if (runs) {
    cudaDeviceProp gpu;
    require(cudaGetDeviceProperties(&gpu, 0));
    arch = "sm_" + std::to_string(10 * gpu.major + gpu.minor) + (gpu.major >= 9 ? "a" : "");
  }
  bool good = true;
  const auto check = [&](auto const& quantizer, char const* text) {
    const std::string code = compile(text, arch);
    good &= !runs || same_as_host(code, quantizer);
  };
  check(BOTH(f4::quantizer{}));
  check(BOTH(f4::quantizer{f4::stochastic{f4::philox{7, 0}}}));
  check(BOTH(f4::quantizer{f4::nearest_even{}, f4::four_over_six<>{}}));
  check(BOTH(f4::quantizer{f4::nearest_even{}, f4::two_level{}, f4::hadamard<16>{f4::te_signs}}));
  if (!runs) std::printf("There is no GPU here: the kernels were compiled, and did not run.\n");
  return good ? 0 : 1;
}
