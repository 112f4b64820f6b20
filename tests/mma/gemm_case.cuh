// SPDX-License-Identifier: Apache-2.0
// One GEMM with random operands: the same bytes on the host for the oracle and on the device for a kernel.
#pragma once

#include <cmath>
#include <cstring>
#include <fourscale/device/gemm_mma_sync.cuh>

#include "device/matches_host.cuh"
#include "gemm_operand.hpp"
#include "gemm_oracle.hpp"

namespace fourscale::test {

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Where the amax of the device's view is: in the view, in device memory, or in device memory for each row.
enum class amax_from { view, device, rows };

/// Sizes and what a user may choose. `gap`: elements between rows of D. `start`: bytes before the codes of A
/// and B in an allocation, so that anything but 0 takes the path for unaligned codes.
struct gemm_options {
  i64 m, n, k;
  gemm_factors factors{};
  i64 gap = 0, start_a = 0, start_b = 0;
  amax_from amax_a = amax_from::view, amax_b = amax_from::view;
};

/// An operand on both machines.
template <class F, class Layout>
struct gemm_operand {
  gemm_operand_data<F, Layout> data;
  amax_from amax;
  std::vector<float> row_amax;

  gemm_operand(i64 rows, i64 cols, u64 seed, i64 start, amax_from from)
      : data(rows, cols, seed, start), amax(from) {
    for (i64 i = 0; i < rows; ++i) row_amax.push_back(std::fabs(gaussian(static_cast<u64>(i) + seed)) + 0.5f);
  }
  block_scaled_view<F, Layout> on_host() {
    block_scaled_view<F, Layout> q = data.view();
    if (amax == amax_from::rows) q.amax = amax_of_rows(row_amax.data());
    return q;
  }
};

/// The device's copy of it.
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

/// A GEMM and what D holds before it: values, in the gaps between its rows and behind it as well.
template <class F, class LA, class G, class LB, class T>
struct gemm_case {
  gemm_options o;
  gemm_operand<F, LA> a;
  gemm_operand<G, LB> b;
  std::vector<T> before;

  explicit gemm_case(gemm_options const& options)
      : o(options),
        a(o.m, o.k, 1 + static_cast<u64>(o.m), o.start_a, o.amax_a),
        b(o.n, o.k, 2 + static_cast<u64>(o.n), o.start_b, o.amax_b),
        before(static_cast<size_t>(o.m * ld() + canary)) {
    for (size_t i = 0; i < before.size(); ++i) before[i] = from_float<T>(gaussian(i) * 100.0f);
  }
  i64 ld() const { return o.n + o.gap; }
  matrix_view<T> view_of(T* d) const { return {d, o.m, o.n, ld()}; }

  std::vector<T> oracle(step_order order = step_order::ascending) {
    std::vector<T> d = before;
    gemm_oracle(a.on_host(), b.on_host(), view_of(d.data()), o.factors, order);
    return d;
  }
  /// D after `gemm(a, b, d, factors)` on the device, which must return `expected`.
  template <class Gemm>
  std::vector<T> on_device(Gemm gemm, errc expected = errc::ok) const {
    const device_gemm_operand<F, LA> x(a);
    const device_gemm_operand<G, LB> y(b);
    const device_buffer<T> d(before);
    CHECK(gemm(x.view, y.view, view_of(d.data()), o.factors) == expected);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return d.to_host();
  }
};

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
