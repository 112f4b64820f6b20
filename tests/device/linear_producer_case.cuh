// SPDX-License-Identifier: Apache-2.0
// Linear layers of X and dY that are never in memory, on the device: every bit is the host's, which has them
// in memory. By a function of row and column, and by a producer of blocks.
#pragma once

#include "linear_case.cuh"
#include "recipe/gated.hpp"

namespace fourscale::test {

/// The same values, a block at a time.
template <int N>
struct gated_blocks {
  using block_type = cta::values<bf16, N>;
  gated f;
  i64 rows, cols;

  __device__ block_type load(cta::place const& at) const {
    block_type block{};
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) block.set(i, f(at.row, at.block * N + i));
    return block;
  }
};

/// The tensors on both machines.
struct gated_on_device : gated_matrix {
  device_buffer<bf16> copy;

  gated_on_device(i64 r, i64 c, u64 seed) : gated_matrix(r, c, seed), copy(gate_up) {}
  gated on_device() const { return {copy.data(), cols}; }
};

/// Forward and backward, from what `source` makes of a tensor.
template <linear_recipe R, class L, class Source>
void check_source(linear_shape s, Source source) {
  INFO(s.tokens << " x " << s.in << " x " << s.out);
  const gated_on_device x(s.tokens, s.in, 21), dy(s.tokens, s.out, 22);
  linear_case<R, L> h(s);
  h.x = x.values;
  h.dy = dy.values;
  linear_on_device<R, L> d(h);
  REQUIRE(h.forward() == errc::ok);
  REQUIRE(h.backward() == errc::ok);
  const typename decltype(d)::layer run;
  REQUIRE(run.forward(source(x), d.in_w(), h.key, &d.t, d.out_y()) == errc::ok);
  REQUIRE(run.backward(source(dy), h.key, &d.t, d.out_dx(), d.out_dw(), 0.0f) == errc::ok);
  check_same_as_host(d);
}

template <linear_recipe R, class L = linear>
void check_producers(linear_shape s) {
  if (!gpu_or_warn()) return;
  constexpr int n = format_of<R.fprop.a>::block_size;
  check_source<R, L>(s, [](gated_on_device const& m) { return computed(m.rows, m.cols, m.on_device()); });
  check_source<R, L>(s, [](gated_on_device const& m) {
    return gated_blocks<n>{m.on_device(), m.rows, m.cols};
  });
}

}  // namespace fourscale::test
