// SPDX-License-Identifier: Apache-2.0
// `machine` for a CPU: the functions of host/. That of machine_cuda.cuh has the same members.
#pragma once

#include <cfenv>
#include <fourscale/host/dequantize.hpp>
#include <fourscale/host/ms_eden.hpp>
#include <fourscale/recipe/linear_host.hpp>

#include "key.hpp"

namespace fourscale_jax {

/// While a `machine` lives, floating-point arithmetic is as at the start of a program. XLA's threads flush
/// subnormal numbers to zero, and PyTorch's may; the library needs them kept. Threads that OpenMP starts
/// meanwhile inherit this environment.
class machine {
 public:
  explicit machine(void*) {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~machine() { std::fesetenv(&before_); }
  machine(machine const&) = delete;
  machine& operator=(machine const&) = delete;

  template <class T>
  errc amax(matrix_view<T> const& x, float* to) const {
    return f4::host::amax(x, to);
  }
  /// The amax after a transform of every 128 values of a row.
  template <class T>
  errc amax(matrix_view<T> const& x, f4::hadamard<128> const& t, float* to) const {
    return f4::host::amax<128>(x, t, to);
  }
  template <class F, class T, class Transform>
  errc amax_both(matrix_view<T> const& x, Transform const& t, float* to, float* to_t) const {
    return f4::host::amax_both<F>(x, t, to, to_t);
  }
  template <class... Arguments>
  errc quantize_both(Arguments const&... arguments) const {
    return f4::host::quantize_both(arguments...);
  }
  template <class... Arguments>
  errc quantize(Arguments const&... arguments) const {
    return f4::host::quantize(arguments...);
  }
  errc signs(u32 const* key, u32 gemm, float* to) const {
    for (int i = 0; i < 128; ++i) to[i] = sign_of(key, gemm, i);
    return errc::ok;
  }
  template <class Q, class Y>
  errc dequantize(Q const& q, Y const& y) const {
    return f4::host::dequantize(q, y);
  }
  template <class A, class B, class D>
  errc gemm(A const& a, B const& b, D const& d, void*, i64) const {
    if constexpr (A::block_format_type::element::width == 4)
      return f4::host::gemm(a, b, d, {}, f4::accumulate::blackwell{});
    else
      return f4::host::gemm(a, b, d);
  }

 private:
  std::fenv_t before_{};
};

}  // namespace fourscale_jax
