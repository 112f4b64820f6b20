// SPDX-License-Identifier: Apache-2.0
// What every GEMM with Blackwell's bits is tried on, host or device: a table of shapes, and each of them with
// each kind of data. The chained model runs once for a shape and a kind, whatever the layouts and the type of
// D.
#pragma once

#include "gemm_case.hpp"
#include "gemm_data.hpp"

namespace fourscale::test {

/// In K: steps of 64 that are whole, or end after a block; rows of codes that are no multiple of 16 bytes; 1
/// to 16 steps. In M and N: one, a few, and a tile of any kernel, less or more.
inline std::vector<gemm_options> const& shapes_of_table() {
  using enum amax_from;
  static const std::vector<gemm_options> shapes = {
      // less than a step, one step, one instruction
      {1, 1, 16},
      {1, 1, 32},
      {1, 1, 64},
      {2, 3, 48},
      {16, 8, 64},
      {17, 9, 32},
      {64, 64, 64},
      {5, 130, 16},
      // a tile; one row, one column
      {128, 128, 128},
      {128, 192, 64},
      {128, 192, 128},
      {128, 256, 192},
      {64, 256, 64},
      {1, 200, 256},
      {200, 1, 256},
      {3, 300, 128},
      {300, 2, 160},
      // ragged in M, N and K
      {127, 193, 320},
      {129, 127, 208},
      {33, 17, 80},
      {63, 97, 208},
      {65, 31, 96},
      {64, 48, 144},
      {130, 7, 112},
      {257, 130, 96},
      {31, 257, 176},
      {140, 60, 224},
      {66, 67, 352},
      // many steps
      {40, 72, 1024},
      {9, 11, 2080},
      {20, 24, 1840},
      {50, 34, 832},
      // alpha and beta
      {70, 90, 160, {0.37f, 0.0f}},
      {70, 90, 160, {-1.5f, 0.75f}, 5},
      {70, 90, 160, {0.0f, 1.0f}},
      {61, 62, 352, {1.25f, 0.5f}, 4},
      {17, 33, 448, {0.01f, 0.25f}, 7},
      {96, 100, 128, {1.0f, 1.0f}},
      // gaps between rows of D; codes at any address
      {65, 50, 192, {}, 3, 1, 0},
      {50, 65, 192, {}, 0, 0, 7},
      {40, 50, 96, {0.5f, 2.0f}, 2, 1, 9},
      {30, 28, 1136, {}, 0, 8, 4},
      // amaxes in memory, and of rows
      {140, 20, 96, {}, 0, 0, 0, device, device},
      {20, 140, 96, {0.3f, 0.1f}, 0, 0, 0, device, view},
      {133, 70, 128, {}, 0, 0, 0, rows, view},
      {70, 133, 128, {1.1f, 0.5f}, 0, 0, 0, view, rows},
      {100, 90, 640, {1.1f, 0.0f}, 0, 0, 0, rows, rows},
  };
  return shapes;
}

/// The same codes and scales under another layout of scales.
template <class Layout, class F, class From>
host_buffer<F, Layout> in_layout(host_buffer<F, From> const& q) {
  host_buffer<F, Layout> to(q.rows, q.cols, q.amax);
  to.codes = q.codes;
  for (i64 row = 0; row < q.rows; ++row)
    for (i64 block = 0; block < q.view().blocks(); ++block)
      to.view().store_scale(row, block, q.view().load_scale(row, block));
  return to;
}

/// run(case, sums of the model) for each shape that the format allows, kind, and type of D with its layouts.
/// B is of the same kind, or Gaussian in every other shape. A `part` of the shapes: every `parts`-th of them.
template <class F, class G = F, class Run>
void for_each_of_table(Run const& run, int part = 0, int parts = 1) {
  int count = 0;
  for (gemm_options const& o : shapes_of_table()) {
    if (o.k % F::block_size != 0 || count++ % parts != part) continue;
    const bool gaussian_b = count / parts % 2 == 0;
    for (const kind what : kinds) {
      const kind other = gaussian_b ? kind::gaussian : what;
      INFO(F::name << " x " << G::name << ' ' << o.m << " x " << o.n << " x " << o.k << ", gap " << o.gap
                   << ", kinds " << name_of(what) << " and " << name_of(other));
      const auto a = operand<F, linear>(what, o.m, o.k, 1);
      const auto b = operand<G, linear>(other, o.n, o.k, 2);
      const gemm_operand_data<F, linear> la(a, o.start_a);
      const gemm_operand_data<G, linear> lb(b, o.start_b);
      const gemm_operand_data<F, swizzled_128x4> sa(in_layout<swizzled_128x4>(a), o.start_a);
      const gemm_operand_data<G, swizzled_128x4> sb(in_layout<swizzled_128x4>(b), o.start_b);
      gemm_case<F, linear, G, linear, float> first(o, la, lb);
      const std::vector<float> sums = first.sums();
      run(first, sums);
      run(gemm_case<F, swizzled_128x4, G, swizzled_128x4, bf16>(o, sa, sb), sums);
      run(gemm_case<F, linear, G, swizzled_128x4, fp16>(o, la, sb), sums);
    }
  }
}

}  // namespace fourscale::test
