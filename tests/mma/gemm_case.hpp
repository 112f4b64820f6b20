// SPDX-License-Identifier: Apache-2.0
// One GEMM: its operands, what D holds before it, and what the chained model makes of them.
#pragma once

#include <cmath>

#include "gemm_operand.hpp"
#include "gemm_oracle.hpp"
#include "support/catch.hpp"
#include "support/same_bits.hpp"

namespace fourscale::test {

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

/// An operand, and its amax.
template <class F, class Layout>
struct gemm_operand {
  gemm_operand_data<F, Layout> data;
  amax_from amax;
  std::vector<float> row_amax;

  gemm_operand(gemm_operand_data<F, Layout> const& bytes, u64 seed, amax_from from)
      : data(bytes), amax(from) {
    for (i64 i = 0; i < data.rows; ++i)
      row_amax.push_back(std::fabs(gaussian(static_cast<u64>(i) + seed)) + 0.5f);
  }
  block_scaled_view<F, Layout> on_host() {
    block_scaled_view<F, Layout> q = data.view();
    if (amax == amax_from::rows) q.amax = amax_of_rows(row_amax.data());
    return q;
  }
};

/// A GEMM and what D holds before it: values, in the gaps between its rows and behind it as well.
template <class F, class LA, class G, class LB, class T>
struct gemm_case {
  static constexpr i64 behind = 64;  ///< elements behind D that must stay as they are
  gemm_options o;
  gemm_operand<F, LA> a;
  gemm_operand<G, LB> b;
  std::vector<T> before;

  explicit gemm_case(gemm_options const& options)
      : gemm_case(options, {options.m, options.k, 1 + static_cast<u64>(options.m), options.start_a},
                  {options.n, options.k, 2 + static_cast<u64>(options.n), options.start_b}) {}
  gemm_case(gemm_options const& options, gemm_operand_data<F, LA> const& of_a,
            gemm_operand_data<G, LB> const& of_b)
      : o(options),
        a(of_a, 1 + static_cast<u64>(o.m), o.amax_a),
        b(of_b, 2 + static_cast<u64>(o.n), o.amax_b),
        before(static_cast<size_t>(o.m * ld() + behind)) {
    for (size_t i = 0; i < before.size(); ++i) before[i] = from_float<T>(gaussian(i) * 100.0f);
  }
  i64 ld() const { return o.n + o.gap; }
  matrix_view<T> view_of(T* d) const { return {d, o.m, o.n, ld()}; }

  /// The sums of the chained model.
  std::vector<float> sums(step_order order = step_order::ascending) {
    return chained_sums(a.on_host(), b.on_host(), order);
  }
  /// D, if the accumulators hold these.
  std::vector<T> output_of(std::vector<float> const& of) {
    std::vector<T> d = before;
    store_sums(of, a.on_host(), b.on_host(), view_of(d.data()), o.factors);
    return d;
  }
  std::vector<T> oracle(step_order order = step_order::ascending) { return output_of(sums(order)); }

  /// D after `gemm(a, b, d, factors)` on the host.
  template <class Gemm>
  std::vector<T> on_host(Gemm const& gemm) {
    std::vector<T> d = before;
    REQUIRE(gemm(a.on_host(), b.on_host(), view_of(d.data()), o.factors) == errc::ok);
    return d;
  }
  /// The same on the device: gemm_case.cuh.
  template <class Gemm>
  std::vector<T> on_device(Gemm const& gemm, errc expected = errc::ok) const {
    return run_on_device(*this, gemm, expected);
  }
};

/// NVFP4 operands that buffers with linear scales hold, to FP32.
template <class Buffer>
gemm_case<nvfp4, linear, nvfp4, linear, float> nvfp4_case(Buffer const& a, Buffer const& b,
                                                          gemm_factors factors = {}) {
  using data = gemm_operand_data<nvfp4, linear>;
  return {{a.rows, b.rows, a.cols, factors}, data(a), data(b)};
}

}  // namespace fourscale::test
