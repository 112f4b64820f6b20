// SPDX-License-Identifier: Apache-2.0
// GEMMs drawn at random, and how Hopper's kernel cuts and adds them: D of each kernel compared with the
// CPU's, bit by bit. gemm_random_test.cpp compares the CPU with the model.
#pragma once

#include "mma/cpu_gemm.hpp"
#include "mma/gemm_calls.cuh"
#include "mma/gemm_random.hpp"

namespace fourscale::test {

/// Hopper's kernel in one of its tiles and ways, whatever the plan and the samples say.
struct drawn_wgmma_gemm {
  device::detail::wgmma_plan::cut cut;
  int clusters;           ///< that share the last tiles; 0: as the plan has it
  float by_blocks_above;  ///< mma::wgmma::problem::by_blocks_above
  bool ahead;             ///< strips are certified ahead
  gemm_steps* counted;

  drawn_wgmma_gemm(dice& d, gemm_steps* steps)
      : cut(d.one_of(device::detail::wgmma_plan::cuts)),
        clusters(d.one_in(3) ? static_cast<int>(1 + d.below(8)) : 0),
        by_blocks_above(d.one_of({-1.0f, 1.0f, 1.0f})),
        ahead(d.one_in(3)),
        counted(steps) {}

  template <class A, class B, class T>
  errc operator()(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors) const {
    using strips = mma::wgmma::certified_strips;
    namespace in = device::detail;
    const bool shares = clusters != 0 && cut.lie != mma::cluster_tiles::low &&
                        in::clusters_of(d.rows, d.cols, cut.cols, cut.lie) > clusters;
    const i64 behind = round_up<i64>(
        device::gemm_workspace_bytes(a.rows, b.rows, a.cols) + in::carried_memory::bytes(clusters),
        mma::decoded_operand::alignment);
    const i64 strip_bytes = strips::in(nullptr, a.rows, b.rows).bytes(ceil_div<i64>(a.cols, 64));
    return in_workspace(behind + strip_bytes, counted, [&](u8* workspace, gemm_steps* steps) {
      const auto may = [&](in::wgmma_plan::cut const& c) { return c.cols == cut.cols && c.lie == cut.lie; };
      in::wgmma_call call(a, b, d, factors, workspace, steps, may, shares ? clusters : 0);
      call.p.by_blocks_above = by_blocks_above;
      if (ahead) {
        call.p.certified = strips::in(workspace + behind, a.rows, b.rows);
        call.p.certified.least_open = 0;
      }
      if (shares) call.plan.split = call.p.split = true;
      errc e = call.state;
      if (e == errc::ok) e = call.decode(nullptr);
      return e == errc::ok ? call.multiply(nullptr) : e;
    });
  }
};

template <class F, class Layout, class T>
void check_random_gemm(u64 seed) {
  dice d(seed + 1'000'000);
  auto c = random_gemm<F, F, Layout, T>(seed, 700, 4096);
  INFO("seed " << seed << ": " << c.o.m << " x " << c.o.n << " x " << c.o.k << ", gap " << c.o.gap);
  const std::vector<T> want = c.on_host(cpu_gemm{});
  const auto matches = [&](std::vector<T> const& got, gemm_steps const& steps) {
    CHECK(same_bits(got, want));
    CHECK(steps.in_f32 + steps.in_double + steps.by_model == c.o.m * c.o.n * ceil_div<i64>(c.o.k, 64));
  };
  gemm_steps steps;
  matches(c.on_device(bf16_gemm{&steps}), steps);
  if (device::detail::compute_capability_major() != 9) return;
  const drawn_wgmma_gemm gemm(d, &steps);
  INFO(gemm.cut.cols << " columns, lie " << static_cast<int>(gemm.cut.lie) << ", clusters " << gemm.clusters
                     << ", by blocks above " << gemm.by_blocks_above << ", ahead " << gemm.ahead);
  matches(c.on_device(gemm), steps);
}

/// Those of the first `count` seeds, or of `all` if the test is exhaustive.
template <class F, class Layout, class T>
void check_random_gemms(u64 count, u64 all) {
  if (!gpu_or_warn()) return;
  for (u64 seed = 0; seed < (exhaustive() ? all : count); ++seed) check_random_gemm<F, Layout, T>(seed);
}

}  // namespace fourscale::test
