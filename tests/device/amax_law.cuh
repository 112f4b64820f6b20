// SPDX-License-Identifier: Apache-2.0
// The functions of the device for support/amax_law.hpp.
#pragma once

#include <fourscale/device/gemm_mma_sync.cuh>
#include <fourscale/device/statistics.cuh>

#include "matches_host.cuh"
#include "support/amax_law_groups.hpp"

namespace fourscale::test::law {

struct device_machine {
  template <class T>
  using memory = device_buffer<T>;
  template <class T>
  static std::vector<T> fetch(memory<T> const& m) {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return m.to_host();
  }

  template <class F>
  static constexpr bool has_gemm = mma::has_instruction<F, F>;
  /// Each instruction of mxf8f6f4 keeps 25 bits below its largest term: see gemm_oracle_test.cpp.
  static constexpr double gemm_tolerance = 64 * 0x1p-23;

  template <class M, class F, class Layout, class Recipe, class Blocks>
  static errc quantize(M const& x, block_scaled_view<F, Layout> const& q, Recipe const& recipe,
                       Blocks shape) {
    if constexpr (requires { recipe.scale; })
      return device::quantize(x, q, recipe, shape);
    else
      return device::quantize(x, q, recipe);
  }
  template <class... Arguments>
  static errc quantize_grouped(Arguments const&... arguments) {
    return device::quantize_grouped(arguments...);
  }
  template <class... Arguments>
  static errc quantize_both(Arguments const&... arguments) {
    return device::quantize_both(arguments...);
  }
  template <class... Arguments>
  static errc transpose(Arguments const&... arguments) {
    return device::transpose(arguments...);
  }
  template <class... Arguments>
  static errc dequantize(Arguments const&... arguments) {
    return device::dequantize(arguments...);
  }
  template <class A, class B>
  static errc gemm(A const& a, B const& b, matrix_view<float> const& d) {
    return device::gemm_mma_sync<mma::model>(a, b, d);
  }
  template <class F, class Layout>
  static errc statistics_of(matrix_view<float const> const& x, block_scaled_view<F, Layout> const& q,
                            statistics& s) {
    const device_buffer<statistics> out(std::vector<statistics>(1));
    const device_buffer<u8> workspace(device::statistics_workspace_bytes);
    const errc e = device::statistics_of(x, q, out.data(), workspace.data());
    s = fetch(out)[0];
    return e;
  }
};

}  // namespace fourscale::test::law
