// SPDX-License-Identifier: Apache-2.0
// The GEMM of wgmma_roles.cuh in steps of 32, for MXFP6 and MXFP4 by one another: chains of two wgmma from
// zero, and one addition rounded toward zero for each. Each run of eight steps, or each fourth one, begins
// with an inequality for every output (run_limits.cuh), which proves that the adder drops nothing. TMA brings
// its terms with the run's first stage. Where it does not hold, the warp's strip of D is left alone and
// marked, and gemm_kernel::f16 makes it. So warps 1 to 3 have nothing to do.
#pragma once

#include "failed_strips.cuh"
#include "run_limits.cuh"
#include "wgmma_roles.cuh"

namespace FOURSCALE_NAMESPACE::mma::wgmma {

/// The arguments of the kernel. It does not count steps.
template <class T, class Factors, int LimitRuns>
struct problem_in_32s : problem<T, Factors> {
  static constexpr int limit_runs = LimitRuns;  ///< that share their limits
  run_limits limits_a, limits_b;
  failed_strips failed;
};

static_assert(run_values == run_steps * decoded_step);
inline constexpr int chains = 2 * run_steps;  ///< of a run

/// Products of 32 values along K, of a warpgroup's 64 rows: chains for the first columns of a tile, and for
/// the last. While one is added the other one is made; the warpgroups take no turns.
template <int Cols>
struct products_of_32 {
  static constexpr int first_cols = Cols == 192 ? 128 : 64, last_cols = Cols - first_cols;
  static constexpr int in_flight = last_cols != 0 ? 1 : 0;  ///< chains, while one is added
  accumulator<first_cols> first;
  accumulator<last_cols != 0 ? last_cols : 64> last;
};
/// Issues chain `number` of a run from zero, for the columns from `first_col` on.
template <int Cols, int N>
FOURSCALE_D void issue_chain(multiply_state<Cols> const& s, int number, u32 run, int first_col,
                             float (&to)[N]) {
  const u32 word =
                s.stage(number / 2, run) * (tile<Cols>::stage_bytes / 16) + 4 * static_cast<u32>(number % 2),
            a = s.a_word + word, b = s.b_word() + word + static_cast<u32>(first_col * decoded_row_bytes / 16);
  ptx::wgmma_fence();
  FOURSCALE_UNROLL
  for (u32 block = 0; block < 2; ++block) ptx::wgmma_bf16(to, a + 2 * block, b + 2 * block, block != 0);
  ptx::wgmma_commit_group();
}
/// Adds the products of a chain that is done to the sums from element `First` on, rounded toward zero. keep()
/// has them added before the next chain is issued: else the compiler would copy products, and spill.
template <int First, int N, int M>
FOURSCALE_D void add_products(float (&sums)[M], float const (&products)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) {
    sums[First + i] = __fadd_rz(sums[First + i], products[i]);
    ptx::keep(sums[First + i]);
  }
}

/// Whether all of a thread's sums keep their bits in run `run`, whose first stage is there, and in those that
/// share its limits.
template <int Cols>
FOURSCALE_D bool are_kept(shared_memory<Cols> const& m, u32 run, accumulator<Cols> const& sums) {
  limits_of_run<Cols> const& of = m.of_runs[run % tile<Cols>::stage_runs];
  constexpr u32 bytes = sizeof(run_limit);
  const u32 lane = threadIdx.x % 32, row = static_cast<u32>(strip_of_thread() * output_rows) + lane / 4,
            rows = ptx::shared_address(of.rows + row), cols = ptx::shared_address(of.cols + lane % 4 * 2);
  // The largest as whole numbers, three at a time: of floats that are not negative these have the same order,
  // and NaN comes last.
  u32 largest[2]{}, norm = 0;
  FOURSCALE_UNROLL
  for (int group = 0; group < tile<Cols>::col_groups; ++group) {
    const uint4 two = ptx::load_shared_u32x4(cols + static_cast<u32>(group) * 8 * bytes);
    norm = __vimax3_u32(norm, two.y, two.w);
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i) {
      float const* const sum = sums + 4 * group + 2 * i;
      largest[i] = __vimax3_u32(largest[i], bit_cast<u32>(__fmul_rn(fabsf(sum[0]), bit_cast<float>(two.x))),
                                bit_cast<u32>(__fmul_rn(fabsf(sum[1]), bit_cast<float>(two.z))));
    }
  }
  bool all = true;
  FOURSCALE_UNROLL
  for (u32 i = 0; i < 2; ++i) {
    const uint2 of_row = ptx::load_shared_u32x2(rows + i * 8 * bytes);
    all = all && fmaf(bit_cast<float>(of_row.y), bit_cast<float>(norm), bit_cast<float>(largest[i])) <
                     bit_cast<float>(of_row.x);
  }
  __syncwarp();  // all lanes have read
  return all;
}

/// Multiplies a run, whose first chains are already issued, and issues the first chains of the next run, as
/// multiply_run() does. With `asks` the run has limits: returns whether the thread's sums keep their bits.
template <int Cols>
FOURSCALE_D bool multiply_run_in_32s(shared_memory<Cols> const& m, multiply_state<Cols> const& s,
                                     multiply_place& x, bool asks, accumulator<Cols>& sums,
                                     products_of_32<Cols>& of) {
  using products = products_of_32<Cols>;
  // The compiler lets each wgmma wait for the one before unless a loop begins with one chain in flight, and
  // waits for it first. So that of the last columns is issued behind it.
  const bool more = x.left > 1;
  const u32 run = s.same_in_all(x.run());
  bool kept = true;
  if (asks) kept = are_kept(m, run, sums);  // while the tensor core works
  FOURSCALE_UNROLL
  for (int i = 0; i < chains; ++i) {
    const bool last = i + 1 == chains;
    const int next = last ? 0 : i + 1;
    const u32 next_run = last ? run + 1 : run;
    if (i == 0) {
      ptx::wgmma_wait_group<0>();
      if constexpr (products::in_flight != 0) issue_chain(s, 0, run, products::first_cols, of.last);
    } else {
      ptx::wgmma_wait_group<products::in_flight>();
    }
    if (i % 2 == 1 && products::in_flight == 0) release_stage(s, i / 2, run);
    add_products<0>(sums, of.first);
    if (next % 2 == 0 && (!last || more)) wait_for_stage(s, next / 2, next_run);
    issue_chain(s, next, next_run, 0, of.first);
    if constexpr (products::in_flight != 0) {
      ptx::wgmma_wait_group<products::in_flight>();
      if (i % 2 == 1) release_stage(s, i / 2, run);
      add_products<products::first_cols / 2>(sums, of.last);
      if (!last) issue_chain(s, next, next_run, products::first_cols, of.last);
    }
  }
  x.next_run();
  return kept;
}

/// Marks a strip of outputs as failed. A whole warp.
template <int Cols, class P>
FOURSCALE_D void mark(P const& p, output_place at) {
  const int lane = static_cast<int>(threadIdx.x) % 32, col = at.col + lane * failed_strips::cols;
  static_assert(output_rows == failed_strips::rows && Cols % failed_strips::cols == 0);
  if (lane >= Cols / failed_strips::cols || at.row >= p.d.rows || col >= p.d.cols) return;
  *p.failed.any = 1;
  p.failed.of(at.row, col) = 1;
}

/// The end of part `number`, as end_part(). `kept`: whether all sums of the thread kept their bits. If not,
/// one of the sums that are handed over becomes NaN, which no certified sum is. A whole warp.
template <class P, int Cols>
FOURSCALE_D void end_part_in_32s(P const& p, shared_memory<Cols>& m, u32 number, bool kept,
                                 accumulator<Cols>& sums) {
  const int strip = strip_of_thread();
  const u32 part = ptx::shared_address(m.parts + number % tile<Cols>::parts);
  const part_end end(part, strip);
  if (end.is_first) {
    if (!kept) sums[0] = bit_cast<float>(0x7fff'ffffu);
    p.carried.template leave<multiply_threads>(static_cast<int>(blockIdx.x),
                                               static_cast<int>(threadIdx.x) - 128, sums);
  } else if (__all_sync(~0u, kept)) {
    m.outputs[strip].store(
        p, m.output[strip], m.outputs_there + strip, m.outputs[strip].how(), end.at,
        [&] { return part_end(part, strip).at; }, sums);
  } else {
    m.outputs[strip].leave_alone(m.outputs_there + strip);
    mark<Cols>(p, end.at);
  }
}

/// The role `multiply`: a warpgroup, with 64 rows of every part of a tile.
template <class P, int Cols>
FOURSCALE_D void multiply_in_32s(P const& p, shared_memory<Cols>& m, int group) {
  const int strip = static_cast<int>(threadIdx.x) / 32 - 4;
  const multiply_state<Cols> s(m, group, has_low_tiles<Cols>(p));
  m.outputs[strip].prepare(p);
  if (p.a.steps == 0) return;
  accumulator<Cols> sums;
  products_of_32<Cols> products;
  wait_for_stage(s, 0, 0);
  issue_chain(s, 0, 0, 0, products.first);
  multiply_place x{static_cast<u32>(m.all_runs)};
  while (x.left != 0) {
    tile_part const& part = m.parts[x.part() % tile<Cols>::parts];
    begin_part(p, part.is_second != 0, sums);
    const int first = part.first, runs = part.runs;
    bool kept = sums[0] == sums[0];  // else a warp before has failed
#pragma unroll 1
    for (int run = 0; run < runs; ++run) {
      if (run == 1 && part.is_first == 0)  // by then TMA has read the outputs before: no wait
        m.outputs[strip].ask(p, m.output[strip], m.outputs_there + strip,
                             {part.row + strip * output_rows, part.col});
      const bool asks = (first + run) % P::limit_runs == 0;
      kept &= multiply_run_in_32s(m, s, x, asks, sums, products);
    }
    end_part_in_32s(p, m, x.part(), kept, sums);
    x.next_part();
  }
  ptx::wgmma_wait_group<0>();
  m.outputs[strip].finish();
}

}  // namespace FOURSCALE_NAMESPACE::mma::wgmma
