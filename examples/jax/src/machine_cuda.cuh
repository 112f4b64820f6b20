// SPDX-License-Identifier: Apache-2.0
// `machine` for a GPU: the functions of device/ on a stream. That of machine_cpu.hpp has the same members.
#pragma once

#include <fourscale/device/dequantize.cuh>
#include <fourscale/device/ms_eden.cuh>
#include <fourscale/recipe/linear.cuh>

#include "key.hpp"

namespace fourscale_jax {

/// Writes the 128 signs, one a thread. A template, so that only the call that launches it has its code.
template <class = void>
__global__ void signs_kernel(u32 const* key, u32 gemm, float* to) {
  to[threadIdx.x] = sign_of(key, gemm, static_cast<int>(threadIdx.x));
}

struct machine {
  cudaStream_t stream;

  explicit machine(void* s) : stream(static_cast<cudaStream_t>(s)) {}
  template <class T>
  errc amax(matrix_view<T> const& x, float* to) const {
    return f4::device::amax(x, to, stream);
  }
  /// The amax after a transform of every 128 values of a row.
  template <class T>
  errc amax(matrix_view<T> const& x, f4::hadamard<128> const& t, float* to) const {
    return f4::device::amax<128>(x, t, to, stream);
  }
  template <class F, class T, class Transform>
  errc amax_both(matrix_view<T> const& x, Transform const& t, float* to, float* to_t) const {
    return f4::device::amax_both<F>(x, t, to, to_t, stream);
  }
  template <class... Arguments>
  errc quantize_both(Arguments const&... arguments) const {
    return f4::device::quantize_both(arguments..., stream);
  }
  template <class... Arguments>
  errc quantize(Arguments const&... arguments) const {
    return f4::device::quantize(arguments..., stream);
  }
  errc signs(u32 const* key, u32 gemm, float* to) const {
    signs_kernel<><<<1, 128, 0, stream>>>(key, gemm, to);
    return cudaGetLastError() == cudaSuccess ? errc::ok : errc::cuda_failed;
  }
  template <class Q, class Y>
  errc dequantize(Q const& q, Y const& y) const {
    return f4::device::dequantize(q, y, stream);
  }
  template <class A, class B, class D>
  errc gemm(A const& a, B const& b, D const& d, void* workspace, i64 bytes) const {
    if constexpr (A::block_format_type::element::width == 4)
      return f4::device::gemm(a, b, d, {}, f4::accumulate::blackwell{}, {workspace, bytes}, stream);
    else
      return f4::device::gemm(a, b, d, {}, f4::accumulate::native{}, {}, stream);
  }
};

}  // namespace fourscale_jax
