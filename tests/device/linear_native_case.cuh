// SPDX-License-Identifier: Apache-2.0
// A linear layer whose GEMMs are those of accumulate::native: Y, dX and dW compared with the exact products
// of the quantized copies.
#pragma once

#include "linear_case.cuh"
#include "mma/gemm_within_bound.hpp"

namespace fourscale::test {

template <class F, class G, class L, class T>
void check_product(block_scaled_view<F, L> const& a, block_scaled_view<G, L> const& b, float beta,
                   std::vector<T> const& before, std::vector<T> const& got) {
  const gemm_distance d = distance_from_exact(a, b, {1.0f, beta}, b.rows, before, got);
  CHECK(d.wrong == 0);
}

/// After a whole step of d, which added beta * `before` to dW. The copies are the host's: those that outlive
/// the step are compared here, the others by the tests of Blackwell's bits.
template <class OnDevice>
void check_step_within_bound(OnDevice const& d, float beta, std::vector<float> const& before) {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  auto& h = d.h;
  REQUIRE(h.forward() == errc::ok);
  {
    INFO("Y");
    check_product(h.t.x.rowwise, h.t.w.rowwise, 0.0f, {}, d.y.to_host());
  }
  REQUIRE(h.backward() == errc::ok);
  {
    INFO("dX");
    check_product(h.t.dy.rowwise, h.t.w.columnwise, 0.0f, {}, d.dx.to_host());
  }
  {
    INFO("dW, beta " << beta);
    check_product(h.t.dy.columnwise, h.t.x.columnwise, beta, before, d.dw.to_host());
  }
  const bool same_w = d.weights.to_host() == h.weights, same_saved = d.saved.to_host() == h.saved;
  CHECK(same_w);
  CHECK(same_saved);
}

/// Two microbatches: dW is NaN before the first, and the second is added to it.
template <class OnDevice>
void check_two_microbatches(OnDevice& d) {
  INFO(d.s.tokens << " x " << d.s.in << " x " << d.s.out);
  std::vector<float> before(d.h.dw.size(), bit_cast<float>(0x7fc0'0000u));
  REQUIRE(cudaMemcpy(d.dw.data(), before.data(), before.size() * sizeof(float), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  for (u32 microbatch = 0; microbatch < 2; ++microbatch) {
    d.h.key.microbatch = microbatch;
    const float beta = microbatch == 0 ? 0.0f : 1.0f;
    REQUIRE(d.step(beta, nullptr) == errc::ok);
    check_step_within_bound(d, beta, before);
    before = d.dw.to_host();
  }
}

/// A step in a graph, launched twice: onto dW, and onto what that made of it. The kernels have run before.
template <class OnDevice>
void check_captured(OnDevice& d) {
  const captured_step step([&d](cudaStream_t stream) { return d.step(1.0f, stream); });
  for (int launch = 0; launch < 2; ++launch) {
    const std::vector<float> before = d.dw.to_host();
    REQUIRE(cudaMemset(d.y.data(), poison, d.h.y.size() * sizeof(bf16)) == cudaSuccess);
    REQUIRE(cudaMemset(d.dx.data(), poison, d.h.dx.size() * sizeof(bf16)) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // the graph's stream does not wait for memset's
    step.launch();
    check_step_within_bound(d, 1.0f, before);
  }
}

}  // namespace fourscale::test
