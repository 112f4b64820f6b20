// SPDX-License-Identifier: Apache-2.0
// The GEMMs with Blackwell's bits, each with a workspace of its own, to be handed to a gemm_case. `counted`
// receives how the steps were added.
#pragma once

#include <algorithm>
#include <fourscale/device/gemm.cuh>

#include "gemm_case.cuh"
#include "support/dice.hpp"

namespace fourscale::test {

inline bool hopper_or_warn() {
  if (!gpu_or_warn()) return false;
  if (device::detail::best_kernel(device::detail::compute_capability_major(), false) ==
      device::gemm_kernel::wgmma)
    return true;
  WARN("not run: wgmma is for Hopper only");
  return false;
}

/// call(workspace, steps) with memory of its own, which holds no zeros.
errc in_workspace(i64 bytes, gemm_steps* counted, auto const& call) {
  const device_buffer<u8> workspace(bytes);
  REQUIRE(cudaMemset(workspace.data(), 0xff, static_cast<size_t>(bytes)) == cudaSuccess);
  const device_buffer<gemm_steps> steps(std::vector<gemm_steps>(1));
  const errc e = call(workspace.data(), steps.data());
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  if (counted != nullptr) *counted = steps.to_host()[0];
  return e;
}

/// Decodes the operands of a prepared call, and multiplies.
errc decode_and_multiply(auto const& call, auto... more) {
  errc e = call.state;
  if (e == errc::ok) e = call.decode(nullptr);
  return e == errc::ok ? call.multiply(nullptr, more...) : e;
}

/// device::gemm: whatever this device does it with.
struct blackwell_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols);
    return in_workspace(bytes, counted, [&](u8* workspace, gemm_steps* steps) {
      return device::gemm(a, b, d, factors, accumulate::blackwell{}, {workspace, bytes}, nullptr, steps);
    });
  }
};

/// The kernel that any GPU from sm_80 on has, likewise.
struct bf16_gemm {
  gemm_steps* counted = nullptr;
  int most_stages = mma::bf16_tile::most_stages;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    const i64 bytes = decoded_bytes<mma::decoded_operand>(a, b);
    return in_workspace(bytes, counted, [&](u8* workspace, gemm_steps* steps) {
      const device::detail::bf16_call call(a, b, d, factors, workspace, steps);
      return decode_and_multiply(call, most_stages);
    });
  }
};

/// The kernel of steps of 32 that any GPU from sm_80 on has, likewise.
struct f16_gemm {
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    const i64 bytes = decoded_bytes<mma::f16_operand>(a, b);
    return in_workspace(bytes, counted, [&](u8* workspace, gemm_steps* steps) {
      const device::detail::f16_call call(a, b, d, factors, workspace, steps);
      return decode_and_multiply(call);
    });
  }
};

/// How Hopper's kernels cut D.
struct hopper_tiles {
  device::detail::wgmma_plan::cut cut;
  int clusters = 0;  ///< that share the last tiles; 0: as the plan has it

  /// For wgmma_plan: no other cut.
  bool operator()(device::detail::wgmma_plan::cut const& c) const {
    return c.cols == cut.cols && c.lie == cut.lie;
  }
  /// Has the clusters of a prepared call share, whatever its plan says.
  void share(auto& call) const {
    if (clusters == 0) return;
    CHECK(device::detail::clusters_of(call.p.d.rows, call.p.d.cols, cut.cols, cut.lie) > clusters);
    call.plan.split = call.p.split = true;
  }
};
/// Drawn for D of m x n.
struct drawn_tiles : hopper_tiles {
  drawn_tiles(dice& d, i64 m, i64 n) : hopper_tiles{d.one_of(device::detail::wgmma_plan::cuts)} {
    clusters = static_cast<int>(1 + d.below(8));
    const bool shares = d.one_in(3) && cut.lie != mma::cluster_tiles::low &&
                        device::detail::clusters_of(m, n, cut.cols, cut.lie) > clusters;
    if (!shares) clusters = 0;
  }
};

/// That of Hopper for MXFP6 and MXFP4 in steps of 32, likewise. `left` receives how many strips of 16 x 64
/// outputs it leaves to f16.
struct in_32s_gemm {
  gemm_steps* counted = nullptr;
  i64* left = nullptr;
  hopper_tiles tiles{{192, mma::cluster_tiles::stacked, 0}};

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    const i64 bytes = device::gemm_workspace_bytes(a.rows, b.rows, a.cols) +
                      device::detail::carried_memory::bytes(tiles.clusters);
    return in_workspace(bytes, counted, [&](u8* workspace, gemm_steps* steps) {
      device::detail::call_in_32s call(a, b, d, factors, workspace, steps, tiles, tiles.clusters);
      tiles.share(call);
      const errc e = decode_and_multiply(call);
      if (e == errc::ok && left != nullptr) *left = count_left(call.failed, d.rows, d.cols);
      return e;
    });
  }

 private:
  static i64 count_left(mma::failed_strips const& x, i64 m, i64 n) {
    std::vector<u8> bytes(static_cast<size_t>(x.bytes(m, n)));
    REQUIRE(cudaMemcpy(bytes.data(), x.any, bytes.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
    const i64 failed = std::count(bytes.begin() + 4, bytes.end(), u8{1});
    CHECK((bytes[0] != 0) == (failed != 0));
    return failed;
  }
};

/// That of Hopper, likewise, whatever the plan and the samples say.
struct wgmma_gemm_by {
  hopper_tiles tiles;
  float by_blocks_above;  ///< mma::wgmma::problem::by_blocks_above
  bool ahead;             ///< whether strips are certified ahead
  gemm_steps* counted;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
    using strips = mma::wgmma::certified_strips;
    const i64 others = round_up<i64>(device::gemm_workspace_bytes(a.rows, b.rows, a.cols) +
                                         device::detail::carried_memory::bytes(tiles.clusters),
                                     mma::decoded_operand::alignment),
              bytes = others +
                      strips::in(nullptr, a.rows, b.rows).bytes(ceil_div<i64>(a.cols, mma::decoded_step));
    return in_workspace(bytes, counted, [&](u8* workspace, gemm_steps* steps) {
      device::detail::wgmma_call call(a, b, d, factors, workspace, steps, tiles, tiles.clusters);
      call.p.by_blocks_above = by_blocks_above;
      if (ahead) {
        call.p.certified = strips::in(workspace + others, a.rows, b.rows);
        call.p.certified.least_open = 0;
        call.p.certified.by_products = true;
      }
      tiles.share(call);
      return decode_and_multiply(call);
    });
  }
};

/// The same with tiles of so many columns; if it is not 0, by so many clusters, which share the last tiles.
/// `ByBlocks`: whatever the data, and else never. `Lie`: how a cluster's tiles do. `Ahead`: strips are
/// certified ahead, whatever the data.
template <int Cols, int Clusters = 0, bool ByBlocks = false,
          mma::cluster_tiles Lie = mma::cluster_tiles::stacked, bool Ahead = false>
struct wgmma_gemm {
  static constexpr bool certifies = !ByBlocks;
  gemm_steps* counted = nullptr;

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    const wgmma_gemm_by gemm{{{Cols, Lie, 0}, Clusters}, ByBlocks ? -1.0f : 1.0f, Ahead, counted};
    return gemm(a, b, d, factors);
  }
};

}  // namespace fourscale::test
