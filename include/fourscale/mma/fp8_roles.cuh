// SPDX-License-Identifier: Apache-2.0
// The kernel body of D = A * B^T of FP8 on the tensor cores of Hopper. Their sums of FP8 have fewer bits than
// f32. So tensor cores sum only a group of 128 products along K, from zero. The group's sum is then added in
// f32, under the group's scales if it has any.
//
// A persistent kernel. A CTA of three warpgroups takes tiles of 128 x 192, or of 128 x 128. The two CTAs of a
// cluster take tiles in the same columns, and each loads half of B for both, by multicast. The roles, and the
// barriers that each role arrives at:
//
//   load     one thread has TMA fill a stage with a group of A, and of half of B for both CTAs  -> `full`
//   scale    three warps fetch the scales of a run of groups, if there are any              -> `scales_full`
//   multiply two warpgroups, 64 rows each; one adds in f32 while the other one multiplies
//            -> `empty` of both CTAs, `scales_empty`
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "../ptx/cluster.cuh"
#include "../ptx/cp_async.cuh"
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
/// A run: as many groups as the pipeline has stages. Group i of a run is always in stage i, so that the
/// unrolled inner loop knows all addresses.
inline constexpr int run_groups = stages;
inline constexpr int strips = tile_rows / output_rows, scale_warps = 3;
inline constexpr int multiply_registers = 232, other_registers = 40;  ///< of a thread

/// The shared memory of a CTA, for tiles of Cols columns.
template <int Cols>
struct shared_memory {
  static constexpr int a_bytes = tile_rows * group_values, b_bytes = Cols * group_values;
  alignas(1024) u8 a[stages][a_bytes];
  alignas(1024) u8 b[stages][b_bytes];
  output_memory<Cols, strips> output;         ///< of each multiply warp
  output_rows_of_warp<Cols> outputs[strips];  ///< of each multiply warp
  /// The scales of two runs: in each, those of the tile's rows of A, then of its columns of B.
  alignas(16) float scales[2][tile_rows + Cols][run_groups];
  alignas(8) std::uint64_t full[stages], empty[stages], outputs_there[strips], scales_full[2],
      scales_empty[2];
};

/// D = alpha * A * B^T + beta * D: the arguments of the kernel.
template <class F, class LA, class G, class LB, class T, class Factors>
struct problem {
  using a_element = typename F::element;
  using b_element = typename G::element;
  static constexpr ptx::f8 type_a = same_type<a_element, e4m3> ? ptx::f8::e4m3 : ptx::f8::e5m2,
                           type_b = same_type<b_element, e4m3> ? ptx::f8::e4m3 : ptx::f8::e5m2;
  /// Whether groups have scales.
  static constexpr bool scaled = block_scale_bytes<F> != 0;
  static constexpr bool linear_scales = same_type<LA, linear> && same_type<LB, linear>;
  CUtensorMap map_a,
      map_b;          ///< of codes: boxes of a group by tile_rows, and by half the columns of a tile
  CUtensorMap map_d;  ///< if outputs go by boxes: see output_rows.cuh
  block_scaled_view<F, LA, u8 const> a;
  block_scaled_view<G, LB, u8 const> b;
  matrix_view<T> d;
  Factors factor_of;  ///< the factor of an output
  float beta;

  FOURSCALE_HD i32 groups() const { return static_cast<i32>(ceil_div<i64>(a.cols, group_values)); }
  FOURSCALE_HD i32 runs() const { return ceil_div<i32>(groups(), run_groups); }
};

/// The factor of an output: alpha with the tensor scales of its row and its column, (alpha * decode_a) *
/// decode_b, rounded after each operation. It is alpha where the formats have no tensor scales.
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

/// One thread calls it.
template <class P, int Cols>
FOURSCALE_D void init_barriers(shared_memory<Cols>& m) {
  for (auto& there : m.outputs_there) cuda::ptx::mbarrier_init(&there, 1);
  for (int i = 0; i < stages; ++i) {
    cuda::ptx::mbarrier_init(m.full + i, 1);
    cuda::ptx::mbarrier_init(m.empty + i, strips * cluster_ctas);
  }
  for (int i = 0; i < 2; ++i) {
    cuda::ptx::mbarrier_init(m.scales_full + i, 32 * scale_warps);
    cuda::ptx::mbarrier_init(m.scales_empty + i, strips);
  }
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

/// The load role, one thread. TMA writes zeros beyond K and beyond the last row, which change no sum. Returns
/// when all stages have been read, in both CTAs.
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
  // A CTA must not exit while the other one may still arrive at its barriers.
  for (auto& empty : m.empty) ptx::mbarrier_wait(ptx::shared_address(&empty), parity);
}

/// The scales that one thread of the scale warps fetches: those of every 96th row, counted over a tile's rows
/// of A and then of B. Beyond the last row it fetches the scales of the last row: the products there are
/// zeros, and are not stored. Beyond the last group, scales are 0.
template <class P, int Cols>
struct scale_reader {
  static constexpr int threads = 32 * scale_warps, each = (tile_rows + Cols + threads - 1) / threads;
  static constexpr u32 scale_bytes = sizeof(float), run_bytes = run_groups * scale_bytes;
  P const& p;
  u32 first;           ///< the thread's first row
  i64 row, col;        ///< of the tile
  u8 const* at[each];  ///< the scales of the thread's rows in group 0
  bool wide;           ///< whether a row's scales of a run are 16 bytes, at a multiple of 16

  FOURSCALE_D scale_reader(P const& problem, walk<Cols> const& tile, int warp)
      : p(problem), first(32 * static_cast<u32>(warp) + threadIdx.x % 32), row(tile.row()), col(tile.col()) {
    wide = P::linear_scales && p.groups() % run_groups == 0 &&
           (reinterpret_cast<u64>(p.a.scales) | reinterpret_cast<u64>(p.b.scales)) % run_bytes == 0;
    FOURSCALE_UNROLL
    for (int j = 0; j < each; ++j) at[j] = find(j, 0);
  }
  /// Starts the copies of the thread's scales of a run to a buffer. They arrive at scales_full by themselves.
  /// The requests go to many rows, so that each costs as much as one for a whole line. So the scales of a row
  /// come in one request where `wide`.
  FOURSCALE_D void copy(shared_memory<Cols>& m, i32 run, u32 buffer) const {
    FOURSCALE_UNROLL
    for (int j = 0; j < each; ++j) {
      if (index(j) >= tile_rows + Cols) break;
      const u32 to = ptx::shared_address(m.scales[buffer][index(j)]);
      if (wide) {
        ptx::cp_async_cg_16(to, at[j] + static_cast<u32>(run) * u64{run_bytes});
      } else {
        FOURSCALE_UNROLL
        for (u32 i = 0; i < run_groups; ++i) {
          const i32 group = run * run_groups + static_cast<i32>(i);
          const bool there = group < p.groups();
          ptx::cp_async_ca_4(to + i * scale_bytes, there ? find(j, group) : at[j], there ? 4 : 0);
        }
      }
    }
    ptx::cp_async_mbarrier_arrive_noinc(ptx::shared_address(m.scales_full + buffer));
  }

 private:
  FOURSCALE_D u32 index(int j) const { return first + static_cast<u32>(j * threads); }
  template <class View>
  FOURSCALE_D static u8 const* scale_of(View const& q, i64 of_row, i64 group) {
    return q.scales + q.scale_offset(min(of_row, q.rows - 1), group);
  }
  FOURSCALE_D u8 const* find(int j, i64 group) const {
    return index(j) < tile_rows ? scale_of(p.a, row + index(j), group)
                                : scale_of(p.b, col + index(j) - tile_rows, group);
  }
};

/// The scale role, warp `warp` of scale_warps: fetches a run's scales while those of the run before are used.
template <class P, int Cols>
FOURSCALE_D void fetch_scales(P const& p, shared_memory<Cols>& m, int warp) {
  u32 number = 0;  // of runs
  for (walk<Cols> tile(p); tile.more(); tile.next()) {
    const scale_reader<P, Cols> reader(p, tile, warp);
#pragma unroll 1
    for (int run = 0; run < p.runs(); ++run, ++number) {
      const u32 buffer = number & 1;
      ptx::mbarrier_wait(ptx::shared_address(m.scales_empty + buffer), number >> 1 & 1 ^ 1);
      reader.copy(m, run, buffer);
    }
  }
}

/// The scales of a run in shared memory. A whole warp constructs it.
template <int Cols>
struct run_scales {
  static constexpr int parts = Cols / 64;
  float const (*of)[run_groups];  ///< of a row of A, then of a column of B
  u32 shared = 0;                 ///< bit i: in group i, each 64 columns of B share a scale

  FOURSCALE_D explicit run_scales(float const (&scales)[tile_rows + Cols][run_groups]) : of(scales) {
    const u32 lane = threadIdx.x % 32;
    u32 differ = 0;
    FOURSCALE_UNROLL
    for (int i = 0; i < parts; ++i) {
      const uint4 one = words_of(64 * i);
      FOURSCALE_UNROLL
      for (u32 j = 0; j < 64; j += 32) {
        const uint4 x = words_of(64 * static_cast<u32>(i) + j + lane);
        differ |=
            u32{x.x != one.x} | u32{x.y != one.y} << 1 | u32{x.z != one.z} << 2 | u32{x.w != one.w} << 3;
      }
    }
    shared = ~__reduce_or_sync(~0u, differ);
  }
  FOURSCALE_D float of_row(u32 row, u32 group) const { return of[row][group]; }
  FOURSCALE_D float of_col(u32 col, u32 group) const { return of[tile_rows + col][group]; }

 private:
  FOURSCALE_D uint4 words_of(u32 col) const { return *reinterpret_cast<uint4 const*>(of[tile_rows + col]); }
};

/// The products of a warp's row scales and B's scales in a group. They can be used where each 64 columns of B
/// share a scale, as with blocks of 128 x 128. An output then takes one FMA for the group. By a whole warp.
template <int Cols>
struct factors_of_group {
  float of[2][Cols / 64];  ///< of the lane's two rows
  /// Whether they can be used, the same in all lanes. Each must be a normal number, or 0 where a scale is 0.
  bool there;

  FOURSCALE_D factors_of_group(run_scales<Cols> const& scales, u32 group, u32 row) {
    bool holds = (scales.shared >> group & 1) != 0;
    FOURSCALE_UNROLL
    for (u32 i = 0; i < Cols / 64; ++i) FOURSCALE_UNROLL
    for (u32 j = 0; j < 2; ++j) {
      const float a = scales.of_row(row + 8 * j, group), b = scales.of_col(64 * i, group),
                  factor = ptx::mul_rn_f32(a, b);
      const bool normal = (fabsf(factor) >= 0x1p-126f) & (fabsf(factor) <= bit_cast<float>(0x7f7f'ffffu)),
                 zero = (factor == 0.0f) & ((a == 0.0f) | (b == 0.0f));  // & and |: no branches
      holds &= normal | zero;
      of[j][i] = factor;
    }
    there = __all_sync(~0u, holds);
  }
  FOURSCALE_D void add(float (&sums)[Cols / 2], float const (&part)[Cols / 2]) const {
    FOURSCALE_UNROLL
    for (int i = 0; i < Cols / 2; ++i) sums[i] = ptx::fma_rn_f32(part[i], of[i % 4 / 2][i / 32], sums[i]);
  }
};

/// Adds a group's sums under a scale for each column, where factors_of_group cannot be used. (part * a) * b:
/// a part of 0 stays 0 under any finite scales. `row`: the lane's first row in the tile.
template <int Cols>
FOURSCALE_D void add_scaled(run_scales<Cols> const& scales, u32 group, u32 row, float (&sums)[Cols / 2],
                            float const (&part)[Cols / 2]) {
  const float a[2] = {scales.of_row(row, group), scales.of_row(row + 8, group)};
  const u32 col = threadIdx.x % 4 * 2;
  FOURSCALE_UNROLL
  for (u32 i = 0; i < Cols / 8; ++i) {
    const float b[2] = {scales.of_col(8 * i + col, group), scales.of_col(8 * i + col + 1, group)};
    FOURSCALE_UNROLL
    for (u32 j = 0; j < 4; ++j) {
      float& sum = sums[4 * i + j];
      sum = ptx::fma_rn_f32(ptx::mul_rn_f32(part[4 * i + j], a[j / 2]), b[j % 2], sum);
    }
  }
}

/// What a multiply warp needs for each group, found once. The shuffle tells the compiler that the warpgroup's
/// number is the same in all lanes. So descriptors are in uniform registers, from which wgmma takes them.
template <class P, int Cols>
struct multiply_state {
  using memory = shared_memory<Cols>;
  u32 first_a, first_b;  ///< low words of the descriptors of stage 0
  u32 full, empty;       ///< addresses of the barriers of stage 0; `empty`: in CTA lane % 2 of the cluster
  bool tells;            ///< whether the lane arrives at `empty`: one lane for each CTA of the cluster

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
  /// Issues the products of a group, summed from zero to `part`: four wgmma of 32 values, 32 bytes, along K.
  FOURSCALE_D void issue(u32 stage, float (&part)[Cols / 2]) const {
    const u32 a = first_a + stage * (memory::a_bytes / 16), b = first_b + stage * (memory::b_bytes / 16);
    ptx::wgmma_fence();
    FOURSCALE_UNROLL
    for (u32 i = 0; i < 4; ++i) ptx::wgmma_f8<P::type_a, P::type_b>(part, a + 2 * i, b + 2 * i, i != 0);
    ptx::wgmma_commit_group();
  }
};

/// Adds the groups of a run. After each group it issues the products of the next one; after the last, those
/// of the next run's first group (`more`: there is such a run). add(group, wait) adds `part` to the sums. It
/// calls wait() before it reads `part`: this waits for the products and releases their stage.
template <class P, int Cols, class Add>
FOURSCALE_D void multiply_run(multiply_state<P, Cols> const& s, u32 parity, bool more,
                              float (&part)[Cols / 2], Add const& add) {
  FOURSCALE_UNROLL
  for (u32 stage = 0; stage < stages; ++stage) {
    const bool last = stage + 1 == stages;
    const u32 next = last ? 0 : stage + 1;
    if (!last || more) s.wait_for(next, last ? parity ^ 1 : parity);
    add(stage, [&] {
      ptx::wgmma_wait_group<0>();
      s.release(stage);
    });
    s.issue(next, part);
  }
}

/// The multiply role, a warpgroup: 64 rows of each tile. Only the additions stand between the products of a
/// group and those of the next one. While the sums of a tile are stored, the first products of the next tile
/// are made. Behind the last tile such products are made, too, and dropped: with a branch there, the compiler
/// would wait for every wgmma.
template <class P, int Cols>
FOURSCALE_D void multiply(P const& p, shared_memory<Cols>& m, int of_warp) {
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4, runs = p.runs();
  const multiply_state<P, Cols> s(m, of_warp);
  m.outputs[strip].prepare(p);
  float sums[Cols / 2], part[Cols / 2];
  walk<Cols> tile(p);
  int left = runs * tile.left();
  u32 number = 0;  // of runs
  if (left > 0) s.wait_for(0, 0);
  s.issue(0, part);
  for (; tile.more(); tile.next()) {
    FOURSCALE_UNROLL
    for (float& sum : sums) sum = 0.0f;
#pragma unroll 1
    for (int run = 0; run < runs; ++run, ++number) {
      const bool more = --left > 0;
      const u32 parity = number & 1;
      if constexpr (P::scaled) {
        const u32 row = static_cast<u32>(strip * output_rows) + threadIdx.x % 32 / 4;
        ptx::mbarrier_wait(ptx::shared_address(m.scales_full + parity), number >> 1 & 1);
        const run_scales<Cols> scales(m.scales[parity]);
        multiply_run(s, parity, more, part, [&](u32 group, auto const& wait) {
          const factors_of_group<Cols> factors(scales, group, row);
          wait();
          if (factors.there)
            factors.add(sums, part);
          else
            add_scaled(scales, group, row, sums, part);
        });
        __syncwarp();  // all lanes have read the scales
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ptx::shared_address(m.scales_empty + parity));
      } else {
        multiply_run(s, parity, more, part, [&](u32, auto const& wait) {
          wait();
          FOURSCALE_UNROLL
          for (int i = 0; i < Cols / 2; ++i) sums[i] += part[i];
        });
      }
    }
    const output_place at{tile.row() + strip * output_rows, tile.col()};
    m.outputs[strip].store(
        p, m.output[strip], m.outputs_there + strip, m.outputs[strip].how(), at, [&] { return at; }, sums);
    __syncwarp();
  }
  ptx::wgmma_wait_group<0>();
  m.outputs[strip].finish();
}

}  // namespace FOURSCALE_NAMESPACE::mma::fp8
