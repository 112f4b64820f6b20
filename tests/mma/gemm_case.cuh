// SPDX-License-Identifier: Apache-2.0
// A gemm_case on the device: the same bytes as the host's, and D after a kernel.
#pragma once

#include <fourscale/device/gemm_mma_sync.cuh>

#include "device/matches_host.cuh"
#include "gemm_case.hpp"

namespace fourscale::test {

/// The device's copy of an operand.
template <class F, class Layout>
struct device_gemm_operand {
  device_buffer<u8> codes, scales;
  device_buffer<float> row_amax, amax;
  block_scaled_view<F, Layout> view;

  explicit device_gemm_operand(gemm_operand<F, Layout> const& x)
      : codes(x.data.codes),
        scales(x.data.scales),
        row_amax(x.row_amax),
        amax(std::vector<float>{x.data.amax}),
        view(x.data.view(codes.data(), scales.data())) {
    if (x.amax == amax_from::rows) view.amax = amax_of_rows(row_amax.data());
    if (x.amax == amax_from::device) view.amax = amax_in(amax.data());
  }
};

/// The bytes of A and B as a kernel decodes them.
template <class Operand, class A, class B>
i64 decoded_bytes(A const& a, B const& b) {
  return Operand::in(nullptr, a.rows, a.cols).bytes() + Operand::in(nullptr, b.rows, b.cols).bytes();
}

/// D after `gemm(a, b, d, factors)` on the device, which must return `expected`.
template <class Gemm, class F, class LA, class G, class LB, class T>
std::vector<T> run_on_device(gemm_case<F, LA, G, LB, T> const& c, Gemm const& gemm, errc expected) {
  const device_gemm_operand<F, LA> a(c.a);
  const device_gemm_operand<G, LB> b(c.b);
  const device_buffer<T> d(c.before);
  CHECK(gemm(a.view, b.view, c.view_of(d.data()), c.o.factors) == expected);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  return d.to_host();
}

/// device::gemm_mma_sync, to be handed to a gemm_case.
template <class Set>
struct gemm_with {
  cudaStream_t stream = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    return device::gemm_mma_sync<Set>(a, b, d, factors, stream);
  }
};

}  // namespace fourscale::test
