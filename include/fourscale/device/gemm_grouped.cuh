// SPDX-License-Identifier: Apache-2.0
// Many GEMMs with Blackwell's bits by two kernels on Hopper, such as those of the experts of an MoE layer.
// decode_groups_kernel() decodes all operands, gemm_grouped_kernel() multiplies (mma/wgmma_groups.cuh). One
// by one, small GEMMs leave most of a GPU idle. All A lie in one decoded operand and all B in another:
// grouped_place says where, grouped_call prepares both launches.
#pragma once

#include "gemm_decode_short.cuh"
#include "gemm_native.cuh"
#include "many.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

using mma::wgmma::most_groups;

/// The dimension of the decoded operands along which the GEMMs lie one behind the other. `rows`: all have
/// the same K and as many rows of B. `k`: all have the same M and N.
enum class groups_along : u8 { rows, k };

/// One GEMM of many. A has a multiple of 16 rows: TMA stores 16 rows of D at a time, up to D's last row.
template <class F, class L>
struct grouped_operands {
  block_scaled_view<F, L, u8 const> a, b;
  i64 d_row;  ///< its first row of D
};

/// The arguments of decode_groups_kernel(): the operands, which parts of the two decoded operands they fill,
/// and where the factors of the outputs go.
template <class F, class L>
struct decode_problem {
  using format = F;
  struct group {
    block_scaled_view<F, L, u8 const> a, b;
    i32 a_row, b_row, first_step, steps;
  };
  mma::decoded_operand to_a, to_b;
  float alpha;
  float* factors;                                ///< [group]
  mma::wgmma::way_sample* samples;               ///< [way_samples]
  u8 group_of_pair[mma::wgmma::way_pairs] = {};  ///< the GEMM from which a pair of samples is taken
  many_arguments<group> groups{};
  static_assert(many_arguments<group>::most == most_groups);
};

/// A CTA decodes eight rows of an operand, or several times eight (row_groups_at_once()). The last CTAs take
/// samples, as those of decode_kernel() do.
template <bool Certify, class P>
FOURSCALE_KERNEL void __launch_bounds__(32 * decode_warps, 4)
    decode_groups_kernel(const __grid_constant__ P p) {
  __shared__ decode_memory m;
  if constexpr (arch::has_wgmma) cudaTriggerProgrammaticLaunchCompletion();  // the next kernel begins early
  if constexpr (!Certify) {
    if (blockIdx.x == 0 && threadIdx.x < mma::wgmma::way_samples) p.samples[threadIdx.x] = {};
  } else if (blockIdx.x >= p.groups.ctas()) {
    const u32 sample = blockIdx.x - p.groups.ctas();
    auto const& of_sample = p.groups.of(p.group_of_pair[sample % mma::wgmma::way_pairs]);
    return take_sample(of_sample.a, of_sample.b, sample, m, p.samples);
  }
  const auto [number, cta] = p.groups.find();
  auto const& group = p.groups.of(number);
  const int groups_at_once = row_groups_at_once(group.steps);
  const i64 at = i64{cta} * groups_at_once, groups_a = mma::decoded_operand::groups_of(group.a.rows);
  if (at == 0 && threadIdx.x == 0) {
    using F = typename P::format;
    p.factors[number] = mma::factor_of_output<F, F>(p.alpha, group.a.amax, group.b.amax)(0, 0);
  }
  const bool of_a = at < groups_a;
  auto const& from = of_a ? group.a : group.b;
  const mma::decoded_part to(of_a ? p.to_a : p.to_b, of_a ? group.a_row : group.b_row, from.rows,
                             group.first_step, group.steps);
  const i64 row_group = of_a ? at : at - groups_a;
  if (groups_at_once == 4)
    decode_short_rows<Certify, 4>(from, to, row_group, m);
  else if (groups_at_once == 2)
    decode_short_rows<Certify, 2>(from, to, row_group, m);
  else
    decode_rows<Certify>(from, to, row_group, m);
}

/// As gemm_wgmma_kernel(), for the tiles of many GEMMs. P: mma::wgmma::grouped_problem.
template <int Cols, class P>
FOURSCALE_KERNEL void __launch_bounds__(mma::wgmma::threads, 1)
    gemm_grouped_kernel([[maybe_unused]] const __grid_constant__ P p) {
  if constexpr (arch::has_wgmma) {
    extern __shared__ __align__(1024) u8 bytes[];
    auto& m = *reinterpret_cast<mma::wgmma::grouped_memory<Cols>*>(bytes);
    static_assert(sizeof(m) <= mma::hopper_shared_bytes);
    multiply_decoded(p, m);
  }
}

/// How far the first `count` GEMMs fill the two decoded operands. When all have been added, the members that
/// take `at` place both operands, the samples and the factors in memory at `at`, a multiple of 256 bytes.
struct grouped_place {
  groups_along along;
  i64 a_rows = 0, b_rows = 0, steps = 0;
  int count = 0;

  static constexpr i64 run = mma::wgmma::run_steps, row_unit = mma::decoded_part::row_unit;
  static constexpr i64 padded_rows(i64 rows) { return round_up<i64>(rows, row_unit); }
  /// Steps of K values; whole runs where GEMMs follow each other along K.
  i64 steps_of(i64 k) const {
    const i64 of_k = ceil_div<i64>(k, mma::decoded_step);
    return along == groups_along::k ? round_up<i64>(of_k, run) : of_k;
  }
  /// Adds a GEMM of this shape.
  void add(i64 m, i64 n, i64 k) {
    if (along == groups_along::rows)
      a_rows += padded_rows(m), b_rows += padded_rows(n), steps = steps_of(k);
    else
      a_rows = m, b_rows = n, steps += steps_of(k);
    ++count;
  }
  mma::decoded_operand a(u8* at) const {
    return mma::decoded_operand::in(at, a_rows, steps * mma::decoded_step);
  }
  mma::decoded_operand b(u8* at) const {
    return mma::decoded_operand::in(at + a(at).bytes(), b_rows, steps * mma::decoded_step);
  }
  mma::wgmma::way_sample* samples(u8* at) const {
    return reinterpret_cast<mma::wgmma::way_sample*>(at + operand_bytes());
  }
  float* factors(u8* at) const { return reinterpret_cast<float*>(at + operand_bytes() + sample_bytes); }
  i64 bytes() const {
    constexpr i64 unit = mma::decoded_operand::alignment;
    return operand_bytes() + sample_bytes + round_up<i64>(most_groups * i64{sizeof(float)}, unit) + unit;
  }

 private:
  i64 operand_bytes() const { return a(nullptr).bytes() + b(nullptr).bytes(); }
};

/// Bytes of workspace, at any address, in which `count` GEMMs go at once. Along rows: m rows of A in total,
/// n rows of B and k values along K in each. Along k: m by n outputs in each, k values along K in total.
inline i64 grouped_bytes(groups_along along, i64 m, i64 n, i64 k, i64 count) {
  grouped_place all{along};
  if (along == groups_along::rows) {
    all.a_rows = m + count * grouped_place::row_unit, all.b_rows = count * grouped_place::padded_rows(n);
    all.steps = all.steps_of(k);
  } else {
    all.a_rows = m, all.b_rows = n;
    all.steps = k / mma::decoded_step + count * grouped_place::run;
  }
  return all.bytes();
}

/// Time for the end of a tile, in hundredths of a run. FP32 outputs, to which D is added, go by TMA where
/// shared memory has room for all of them: in tiles of 128 columns. As measured: docs/gemm_experiments.md.
template <class T>
constexpr i64 end_of_tile(int cols) {
  return sizeof(T) == 2 ? 100 : cols == 128 ? 150 : 250;
}

/// How the tiles of many GEMMs are cut, as wgmma_plan::of() does for one. P: mma::wgmma::grouped_problem.
template <class P, class May>
wgmma_plan plan_of_groups(P const& p, i64 at_once, May const& may) {
  using T = typename decltype(p.d)::value_type;
  wgmma_plan best{};
  i64 least = 0;
  for (wgmma_plan::cut const& c : wgmma_plan::cuts) {
    if (!may(c)) continue;
    i64 tiles = 0, runs = 0;
    for (int i = 0; i < p.count; ++i) {
      mma::wgmma::gemm_group const& g = p.groups[i];
      const i64 of_group = clusters_of(g.d_row_end - g.d_row, p.d.cols, c.cols, c.lie);
      tiles += of_group, runs += of_group * (100 * g.runs + end_of_tile<T>(c.cols));
    }
    const i64 time = runs / tiles * ceil_div<i64>(tiles, at_once) * c.time;
    if (best.tile_cols != 0 && time >= least) continue;
    best = {c.cols, static_cast<int>(tiles < at_once ? tiles : at_once), false, c.lie};
    least = time;
  }
  return best;
}

/// A call of many GEMMs whose arguments are checked: D = alpha * A * B^T + beta * D, each to rows of its own
/// of one D. decode(), then multiply().
template <class F, class L, class T>
struct grouped_call {
  using problem = mma::wgmma::grouped_problem<T>;
  decode_problem<F, L> decoded;
  problem p;
  wgmma_plan plan{};
  errc state = errc::ok;  ///< whether it could be prepared

  /// gemm(i): the grouped_operands of GEMM i. `place`: all of them have been added to it. `at`: as many
  /// bytes as `place` says, at a multiple of 256 bytes. `may(cut)`: which cuts the plan chooses from.
  template <class Gemms, class May = any_cut>
  grouped_call(Gemms const& gemm, grouped_place const& place, matrix_view<T> const& d, gemm_factors factors,
               u8* at, May const& may = {})
      : decoded{place.a(at), place.b(at), factors.alpha, place.factors(at), place.samples(at)},
        p{{{}, {}, {}, decoded.to_a, decoded.to_b, d, {1.0f, 0, 0}, factors.beta, nullptr},
          decoded.factors,
          place.count,
          {}} {
    grouped_place begin{place.along};
    for (int i = 0; i < p.count; ++i) add(gemm(i), begin, p.groups[i]);
    p.samples = decoded.samples;
    share_samples();
    const int at_once = clusters_at_once();
    if (at_once == 0) state = errc::cuda_failed;
    if (state != errc::ok) return;
    plan = plan_of_groups(p, at_once, may);
    p.lie = plan.lie;
    number_tiles();
    state = encode_decoded(p.a, tile_rows_of(p.lie), p.map_a);
    if (state == errc::ok) state = encode_decoded(p.b, plan.tile_cols / mma::wgmma::cluster_ctas, p.map_b);
    if (state == errc::ok) state = encode_outputs(p, plan.tile_cols, p.map_d);
  }
  template <bool Certify>
  errc decode(cudaStream_t stream) const {
    const u32 ctas = decoded.groups.ctas() + (Certify ? mma::wgmma::way_samples : 0);
    decode_groups_kernel<Certify><<<ctas, 32 * decode_warps, 0, stream>>>(decoded);
    return launched();
  }
  errc multiply(cudaStream_t stream) const {
    return for_tile_cols(plan.tile_cols, [&]<int Cols>() {
      return launch_wgmma<mma::wgmma::grouped_memory<Cols>>(&gemm_grouped_kernel<Cols, problem>, p,
                                                            plan.clusters, stream);
    });
  }

 private:
  static constexpr i32 run = mma::wgmma::run_steps;

  /// Adds a GEMM that lies from `begin` on, and moves `begin` behind it.
  void add(grouped_operands<F, L> const& x, grouped_place& begin, mma::wgmma::gemm_group& to) {
    if (begin.along == groups_along::rows)
      to.a_row = static_cast<i32>(begin.a_rows), to.b_row = static_cast<i32>(begin.b_rows);
    else
      to.first_run = static_cast<i32>(begin.steps) / run;
    const i32 steps = static_cast<i32>(begin.steps_of(x.a.cols));
    to.runs = ceil_div<i32>(steps, run);
    to.d_row = static_cast<i32>(x.d_row), to.d_row_end = static_cast<i32>(x.d_row + x.a.rows);
    begin.add(x.a.rows, x.b.rows, x.a.cols);
    const i64 row_groups =
        mma::decoded_operand::groups_of(x.a.rows) + mma::decoded_operand::groups_of(x.b.rows);
    decoded.groups.add({x.a, x.b, to.a_row, to.b_row, to.first_run * run, steps},
                       row_groups / row_groups_at_once(steps));
  }
  /// Shares the pairs of samples among the GEMMs by how many products each has. All have as many rows of B.
  void share_samples() {
    constexpr i64 pairs = mma::wgmma::way_pairs;
    const auto work = [&](int i) {
      return i64{p.groups[i].d_row_end - p.groups[i].d_row} * p.groups[i].runs;
    };
    i64 all = 0, end = work(0);
    for (int i = 0; i < p.count; ++i) all += work(i);
    int group = 0;
    for (i64 i = 0; i < pairs; ++i) {
      while (group + 1 < p.count && (2 * i + 1) * all >= 2 * pairs * end) end += work(++group);
      decoded.group_of_pair[i] = static_cast<u8>(group);
    }
  }
  /// Numbers the tiles of clusters, as the plan cuts them.
  void number_tiles() {
    i32 end = 0;
    for (int i = 0; i < p.count; ++i) {
      mma::wgmma::gemm_group& g = p.groups[i];
      const cluster_counts counts(g.d_row_end - g.d_row, p.d.cols, plan.tile_cols, plan.lie);
      g.row_tiles = static_cast<i32>(counts.down), g.col_tiles = static_cast<i32>(counts.along);
      g.end = end += g.row_tiles * g.col_tiles;
    }
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
