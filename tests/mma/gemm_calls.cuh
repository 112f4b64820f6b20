// SPDX-License-Identifier: Apache-2.0
// The GEMMs with Blackwell's bits, each with a workspace of its own, to be handed to a gemm_case. `counted`
// receives how the steps were added.
#pragma once

#include <fourscale/device/gemm.cuh>

#include "gemm_case.cuh"

namespace fourscale::test {

/// device::gemm: whatever this device does it with.
struct blackwell_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols);
    const device_buffer<u8> workspace(bytes);
    const device_buffer<gemm_steps> steps(std::vector<gemm_steps>(1));
    const errc e = device::gemm(a, b, d, factors, accumulate::blackwell{}, {workspace.data(), bytes}, nullptr,
                                steps.data());
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    if (counted != nullptr) *counted = steps.to_host()[0];
    return e;
  }
};

/// The kernel that any GPU from sm_80 on has, likewise.
struct bf16_gemm {
  gemm_steps* counted = nullptr;
  int most_stages = mma::bf16_tile::most_stages;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    using mma::decoded_operand;
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    const device_buffer<u8> workspace(decoded_operand::in(nullptr, a.rows, a.cols).bytes() +
                                      decoded_operand::in(nullptr, b.rows, b.cols).bytes());
    const device_buffer<gemm_steps> steps(std::vector<gemm_steps>(1));
    const device::detail::bf16_call call(a, b, d, factors, workspace.data(), steps.data());
    errc e = call.decode(nullptr);
    if (e == errc::ok) e = call.multiply(nullptr, most_stages);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    if (counted != nullptr) *counted = steps.to_host()[0];
    return e;
  }
};

/// The kernel of steps of 32 that any GPU from sm_80 on has, likewise.
struct f16_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    using mma::f16_operand;
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    const device_buffer<u8> workspace(f16_operand::in(nullptr, a.rows, a.cols).bytes() +
                                      f16_operand::in(nullptr, b.rows, b.cols).bytes());
    const device_buffer<gemm_steps> steps(std::vector<gemm_steps>(1));
    const device::detail::f16_call call(a, b, d, factors, workspace.data(), steps.data());
    errc e = call.decode(nullptr);
    if (e == errc::ok) e = call.multiply(nullptr);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    if (counted != nullptr) *counted = steps.to_host()[0];
    return e;
  }
};

/// That of Hopper with tiles of so many columns, likewise; if it is not 0, by so many clusters, which share
/// the last tiles.
template <int Cols, int Clusters = 0>
struct wgmma_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    const device_buffer<u8> workspace(device::gemm_workspace_bytes(a.rows, b.rows, a.cols) +
                                      device::detail::carried_memory::bytes(Clusters));
    const device_buffer<gemm_steps> steps(std::vector<gemm_steps>(1));
    const device::detail::wgmma_call call(a, b, d, factors, workspace.data(), steps.data(), Cols, Clusters);
    if (Clusters != 0) CHECK(call.plan.split);
    errc e = call.state;
    if (e == errc::ok) e = call.decode(nullptr);
    if (e == errc::ok) e = call.multiply(nullptr);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    if (counted != nullptr) *counted = steps.to_host()[0];
    return e;
  }
};

}  // namespace fourscale::test
