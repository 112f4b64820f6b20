// SPDX-License-Identifier: Apache-2.0
// D = A * B^T of FP8 on the tensor cores of Hopper, whose sums of FP8 have fewer bits than f32: a group of
// 128 products along K is summed there, from zero, and then added in f32, under the group's scales if it has
// any. A CTA of three warpgroups takes a tile of 128 x 192, or 128 x 128, and two CTAs of a cluster share its
// columns. The roles:
//
//   load     one warp has TMA fill a stage with a group of A and half of B, for both CTAs  -> `full`
//   scale    three warps fetch the scales of the group, if there are any                   -> `full`
//   multiply two warpgroups, 64 rows each: one adds in f32 while the other one multiplies  -> `empty`
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/cluster.cuh"
#include "../ptx/elect.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/wgmma_f8.cuh"
#include "../view/block_scaled_view.hpp"
#include "../view/gemm_factors.hpp"
#include "output_rows.cuh"
#include "tile_walk.cuh"

namespace FOURSCALE_NAMESPACE::mma::fp8 {

inline constexpr int cluster_ctas = 2, multiply_groups = 2, threads = 128 * (1 + multiply_groups);
inline constexpr int tile_rows = 64 * multiply_groups, stages = 4, group_values = 128;  ///< a row of a stage
/// Groups of a tile go in runs, a stage each, so that the inner loop knows all addresses.
inline constexpr int run_groups = stages;
inline constexpr int strips = tile_rows / output_rows, scale_warps = 3;
inline constexpr int multiply_registers = 232, other_registers = 40;  ///< of a thread

template <int Cols>
struct shared_memory {
  static constexpr int a_bytes = tile_rows * group_values, b_bytes = Cols * group_values;
  alignas(1024) u8 a[stages][a_bytes];
  alignas(1024) u8 b[stages][b_bytes];
  output_rows_of_warp<Cols> outputs[strips];  ///< of each warp
  alignas(16) float scale_a[stages][tile_rows], scale_b[stages][Cols];
  alignas(8) std::uint64_t full[stages], empty[stages], outputs_there[strips];
};

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class F, class LA, class G, class LB, class T, class Factors>
struct problem {
  using a_element = typename F::element;
  using b_element = typename G::element;
  static constexpr ptx::f8 type_a = same_type<a_element, e4m3> ? ptx::f8::e4m3 : ptx::f8::e5m2,
                           type_b = same_type<b_element, e4m3> ? ptx::f8::e4m3 : ptx::f8::e5m2;
  /// Groups have scales of their own.
  static constexpr bool scaled = block_scale_bytes<F> != 0;
  CUtensorMap map_a,
      map_b;          ///< of the codes: boxes of a group by tile_rows, and by half the columns of a tile
  CUtensorMap map_d;  ///< if outputs go by boxes: see output_rows.cuh
  block_scaled_view<F, LA, u8 const> a;
  block_scaled_view<G, LB, u8 const> b;
  matrix_view<T> d;
  Factors factor_of;  ///< of an output
  float beta;

  FOURSCALE_HD i32 groups() const { return static_cast<i32>(ceil_div<i64>(a.cols, group_values)); }
  FOURSCALE_HD i32 runs() const { return ceil_div<i32>(groups(), run_groups); }
};

/// alpha and the tensor scales of a row and a column: (alpha * decode_a) * decode_b, rounded after each
/// operation; alpha, where there are none.
template <class F, class G>
struct factor_of_output {
  float alpha;
  tensor_amax<F> a;
  tensor_amax<G> b;

  FOURSCALE_HD bool same_for_all() const { return !a.by_row() && !b.by_row(); }
  FOURSCALE_HD float operator()([[maybe_unused]] i64 row, [[maybe_unused]] i64 col) const {
    if constexpr (F::has_tensor_scale)
      return ptx::mul_rn_f32(ptx::mul_rn_f32(alpha, a.scale_of_row(row).decode), b.scale_of_row(col).decode);
    else
      return alpha;
  }
};

template <int Cols>
using walk = tile_walk<tile_rows, Cols, cluster_ctas>;

template <class P, int Cols>
FOURSCALE_D void init_barriers(shared_memory<Cols>& m) {
  for (auto& there : m.outputs_there) cuda::ptx::mbarrier_init(&there, 1);
  for (int i = 0; i < stages; ++i) {
    cuda::ptx::mbarrier_init(m.full + i, P::scaled ? 1 + scale_warps : 1);
    cuda::ptx::mbarrier_init(m.empty + i, strips * cluster_ctas);
  }
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

/// One thread. Behind K and the last row TMA writes zeros, which change no sum.
template <class P, int Cols>
FOURSCALE_D void load(P const& p, shared_memory<Cols>& m) {
  using memory = shared_memory<Cols>;
  const i32 rank = static_cast<i32>(blockIdx.x % cluster_ctas);
  constexpr int half_cols = Cols / cluster_ctas, half_bytes = memory::b_bytes / cluster_ctas;
  u32 parity = 1;  // the first time around, a wait passes at once
  for (walk<Cols> tile(p); tile.more(); tile.next()) {
    const i32 row = tile.row(), col = tile.col() + rank * half_cols, groups = run_groups * p.runs();
    for (i32 group = 0; group < groups; ++group) {
      const int stage = group % stages;
      ptx::mbarrier_wait(ptx::shared_address(m.empty + stage), parity);
      if (stage == stages - 1) parity ^= 1;
      std::uint64_t* const full = m.full + stage;
      cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                           cuda::ptx::space_shared, full, memory::a_bytes + memory::b_bytes);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, m.a[stage], &p.map_a,
                                      {group * group_values, row}, full);
      cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global,
                                      m.b[stage] + rank * half_bytes, &p.map_b, {group * group_values, col},
                                      full, static_cast<std::uint16_t>((1 << cluster_ctas) - 1));
    }
  }
}

/// The scale of a row in a group; 0 behind the last row and the last group.
template <class View>
FOURSCALE_D float scale_of_group(View const& q, i64 row, i64 group) {
  return row < q.rows && group * group_values < q.cols
             ? *reinterpret_cast<float const*>(q.scales + q.scale_offset(row, group))
             : 0.0f;
}

/// Warp `warp` of scale_warps. Scales are on their way before their stage is free.
template <class P, int Cols>
FOURSCALE_D void fetch_scales(P const& p, shared_memory<Cols>& m, int warp) {
  constexpr int threads = 32 * scale_warps, each = (tile_rows + Cols + threads - 1) / threads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const i32 groups = run_groups * p.runs();
  u32 parity = 1;
  for (walk<Cols> tile(p); tile.more(); tile.next()) {
    u32 row = static_cast<u32>(tile.row()), col = static_cast<u32>(tile.col());
    for (i32 group = 0; group < groups; ++group) {
      const int stage = group % stages;
      ptx::keep(row), ptx::keep(col);  // or the divisions behind them are done here
      float scale[each];
      FOURSCALE_UNROLL
      for (int j = 0; j < each; ++j) {
        const int i = 32 * warp + lane + j * threads;
        scale[j] = i < tile_rows ? scale_of_group(p.a, i64{row} + i, group)
                                 : scale_of_group(p.b, i64{col} + i - tile_rows, group);
      }
      ptx::mbarrier_wait(ptx::shared_address(m.empty + stage), parity);
      if (stage == stages - 1) parity ^= 1;
      FOURSCALE_UNROLL
      for (int j = 0; j < each; ++j) {
        const int i = 32 * warp + lane + j * threads;
        if (i < tile_rows)
          m.scale_a[stage][i] = scale[j];
        else if (i < tile_rows + Cols)
          m.scale_b[stage][i - tile_rows] = scale[j];
      }
      __syncwarp();
      if (lane == 0) ptx::mbarrier_arrive(ptx::shared_address(m.full + stage));
    }
  }
}

/// Adds what a group's products make. (part * a) * b: a part of 0 stays 0 whatever the scales.
template <class P, int Cols>
FOURSCALE_D void add_group(shared_memory<Cols> const& m, u32 stage, int strip, float (&sums)[Cols / 2],
                           float const (&part)[Cols / 2]) {
  if constexpr (!P::scaled) {
    FOURSCALE_UNROLL
    for (int i = 0; i < Cols / 2; ++i) sums[i] += part[i];
  } else {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float const* const rows = m.scale_a[stage] + strip * output_rows + lane / 4;
    float const* const cols = m.scale_b[stage] + lane % 4 * 2;
    const float a[2] = {rows[0], rows[8]};
    FOURSCALE_UNROLL
    for (int i = 0; i < Cols / 8; ++i) {
      const float2 b = *reinterpret_cast<float2 const*>(cols + 8 * i);
      FOURSCALE_UNROLL
      for (int j = 0; j < 4; ++j) {
        float& sum = sums[4 * i + j];
        sum = ptx::fma_rn_f32(ptx::mul_rn_f32(part[4 * i + j], a[j / 2]), j % 2 == 0 ? b.x : b.y, sum);
      }
    }
  }
}

/// What a warpgroup needs for each group, found once. A shuffle tells the compiler that its number is the
/// same in all lanes: so it has descriptors in uniform registers, where wgmma takes them from.
template <class P, int Cols>
struct multiply_state {
  using memory = shared_memory<Cols>;
  u32 first_a, first_b;  ///< low words of the descriptors of stage 0
  u32 full, empty;       ///< addresses of barriers of stage 0; `empty` in the CTA that the lane tells
  bool tells;            ///< one lane for each CTA of the cluster

  FOURSCALE_D multiply_state(memory& m, int of_warp) {
    const u32 lane = threadIdx.x % 32;
    const int group = __shfl_sync(~0u, of_warp, 0);
    first_a =
        static_cast<u32>(ptx::wgmma_descriptor_b128(ptx::shared_address(m.a[0] + group * 64 * group_values)));
    first_b = static_cast<u32>(ptx::wgmma_descriptor_b128(ptx::shared_address(m.b[0])));
    full = ptx::shared_address(m.full);
    empty = ptx::mapa_shared_cluster(ptx::shared_address(m.empty), lane % cluster_ctas);
    tells = lane < cluster_ctas;
  }
  FOURSCALE_D void wait_for(u32 stage, u32 parity) const { ptx::mbarrier_wait(full + 8 * stage, parity); }
  FOURSCALE_D void release(u32 stage) const {
    if (tells) ptx::mbarrier_arrive_cluster(empty + 8 * stage);
  }
  /// The products of a group, from zero: 32 values, 32 bytes along K at a time.
  FOURSCALE_D void issue(u32 stage, float (&part)[Cols / 2]) const {
    const u32 a = first_a + stage * (memory::a_bytes / 16), b = first_b + stage * (memory::b_bytes / 16);
    ptx::wgmma_fence();
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 4; ++i) ptx::wgmma_f8<P::type_a, P::type_b>(part, a + 2 * i, b + 2 * i, i != 0);
    ptx::wgmma_commit_group();
  }
};

/// A warpgroup: 64 rows of each tile. Between the products of a group and the next ones stand only the
/// additions; while the sums of a tile leave, the first products of the next tile are made. Behind the last
/// tile some are made, too, which nobody takes: if that were a branch, the compiler would wait for every
/// wgmma.
template <class P, int Cols>
FOURSCALE_D void multiply(P const& p, shared_memory<Cols>& m, int of_warp) {
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4, runs = p.runs();
  const multiply_state<P, Cols> s(m, of_warp);
  m.outputs[strip].prepare(p);
  float sums[Cols / 2], part[Cols / 2];
  walk<Cols> tile(p);
  int left = runs * tile.left();
  u32 parity = 0;
  if (left > 0) s.wait_for(0, parity);
  s.issue(0, part);
  for (; tile.more(); tile.next()) {
    FOURSCALE_UNROLL
    for (float& sum : sums) sum = 0.0f;
#pragma unroll 1
    for (int run = 0; run < runs; ++run, parity ^= 1) {
      const bool more = --left > 0;
      FOURSCALE_UNROLL
      for (u32 stage = 0; stage < stages; ++stage) {
        const bool last = stage + 1 == stages;
        const u32 next = last ? 0 : stage + 1;
        if (!last || more) s.wait_for(next, last ? parity ^ 1 : parity);
        ptx::wgmma_wait_group<0>();
        if constexpr (!P::scaled) s.release(stage);
        add_group<P>(m, stage, strip, sums, part);
        if constexpr (P::scaled) {
          __syncwarp();  // all lanes have read the scales
          s.release(stage);
        }
        s.issue(next, part);
      }
    }
    m.outputs[strip].store(p, m.outputs_there + strip, tile.row() + strip * output_rows, tile.col(), sums);
    __syncwarp();
  }
  ptx::wgmma_wait_group<0>();
  m.outputs[strip].finish();
}

}  // namespace FOURSCALE_NAMESPACE::mma::fp8
