// SPDX-License-Identifier: Apache-2.0
// D = A * B^T in NVFP4 on a GPU, from bf16 matrices: find both amaxes, quantize, multiply. No call allocates
// or synchronizes, so all of them go into one graph. D has the bits that Blackwell's tensor cores are
// modelled to give, and that host::gemm gives on a CPU, whichever kernel multiplies here.
#include <fourscale/device/gemm.cuh>
#include <fourscale/fourscale.cuh>
#include <fourscale/host/gemm_blackwell.hpp>
#include <vector>

#include "support/gpu.cuh"

namespace f4 = fourscale;
using example::array, example::require;
using f4::bf16, f4::errc, f4::i64;

namespace {

constexpr i64 m = 512, n = 384, k = 1024;

/// A matrix [rows, k], and the memory of its quantized form. Scales in tiles of 128 x 4 are what tcgen05
/// reads; on other GPUs, linear scales are as good.
struct operand {
  i64 rows;
  array<bf16> x{rows * k};
  array<f4::u8> codes{f4::code_bytes<f4::nvfp4>(rows, k)},
      scales{f4::scale_bytes<f4::nvfp4, f4::swizzled_128x4>(rows, k)};
  array<float> amax{1};

  f4::matrix_view<bf16 const> values() const { return {x.data, rows, k}; }
  f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> quantized() const {
    return {codes.data, scales.data, rows, k, f4::amax_in(amax.data)};
  }
};

errc multiply(operand const& a, operand const& b, f4::matrix_view<bf16> const& d,
              f4::device::gemm_workspace workspace, cudaStream_t stream) {
  for (operand const* of : {&a, &b}) {
    errc e = f4::device::amax(of->values(), of->amax.data, stream);
    if (e == errc::ok) e = f4::device::quantize(of->values(), of->quantized(), f4::quantizer{}, stream);
    if (e != errc::ok) return e;  // the rule that was broken, by message(e); the output is untouched
  }
  return f4::device::gemm(a.quantized(), b.quantized(), d, {}, f4::accumulate::blackwell{}, workspace,
                          stream);
}

}  // namespace

int main() {
  example::need_gpu();
  const operand a{m}, b{n};
  f4::u32 state = 1;
  for (operand const* of : {&a, &b})
    for (i64 i = 0; i < of->x.count; ++i) {
      state = state * 1664525u + 1013904223u;
      of->x[i] = f4::from_float<bf16>(static_cast<float>(static_cast<f4::i32>(state)) * 0x1p-31f);
    }
  const array<bf16> d(m * n);
  const array<f4::u8> workspace(f4::device::gemm_workspace_bytes(m, n, k));

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t step;
  require(cudaStreamCreate(&stream));
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  require(multiply(a, b, {d.data, m, n}, {workspace.data, workspace.count}, stream));
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiate(&step, graph, 0));
  require(cudaGraphLaunch(step, stream));
  require(cudaStreamSynchronize(stream));

  std::vector<bf16> want(m * n);
  require(f4::host::gemm(a.quantized(), b.quantized(), f4::matrix_view<bf16>{want, m, n}, {},
                         f4::accumulate::blackwell{}));
  const bool same = __builtin_memcmp(d.data, want.data(), want.size() * sizeof(bf16)) == 0;
  std::printf("%lld x %lld x %lld: the GPU's outputs are the CPU's %s\n", static_cast<long long>(m),
              static_cast<long long>(n), static_cast<long long>(k), same ? "in every bit" : "NOT EVERYWHERE");
  require(cudaGraphExecDestroy(step));
  require(cudaGraphDestroy(graph));
  require(cudaStreamDestroy(stream));
  return same ? 0 : 1;
}
