// SPDX-License-Identifier: Apache-2.0
// decode_short_rows(): decode_rows() for rows of four or eight steps. A CTA takes several groups of eight
// rows at once; otherwise most of its lanes would have nothing to do.
#pragma once

#include "gemm_decode_rows.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// How many groups of eight rows a CTA takes at once if each row has this many steps.
FOURSCALE_HD constexpr int row_groups_at_once(int steps) {
  return steps == decode_steps / 4 ? 4 : steps == decode_steps / 2 ? 2 : 1;
}

/// The bounds and magnitudes of one part, in which each `Steps` steps are of other rows. `part`, `half`: of
/// the lane's half of a step. All threads of a CTA call it.
template <class Scale, u32 Steps>
FOURSCALE_D void find_in_short_rows(mma::decoded_part const& to, i64 row_group, decode_input const& part,
                                    half_step const& half, decode_memory& m) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool there = lane < decode_steps;
  rows_memory& rows = m.rows[0];
  model::value_facts none;
  find_bounds<Steps>(m.facts[warp].of_step<Scale>(there), {&part, {half}, 1}, rows, m.magnitudes, none);
  if (warp == 0 && there) rows.store(to, row_group + lane / Steps, lane % Steps, lane);
  const largest_word largest;
  const u32 group = largest.step / Steps;
  reinterpret_cast<u32*>(to.magnitudes + largest.step % Steps * to.row_groups() + row_group +
                         group)[largest.word] = largest.of(m.magnitudes[0]);
}

/// Decodes `Groups` groups of eight rows of `to`, from row_group on, whose rows have `steps` = decode_steps
/// / Groups steps each. All threads of a CTA call it. What decode_rows() has for step i of a part is here
/// for step i % steps of group row_group + i / steps.
template <bool Certify, int Groups, class F, class Layout>
FOURSCALE_D void decode_short_rows(block_scaled_view<F, Layout, u8 const> const& q,
                                   mma::decoded_part const& to, i64 row_group, decode_memory& m) {
  constexpr u32 steps = decode_steps / Groups;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto group_of = [&](u32 step) { return row_group + step / steps; };
  const auto row_of = [&](u32 step) { return group_of(step) * mma::bounds_rows + warp; };
  const u32 step = lane / lanes_a_step,
            value = step % steps * mma::decoded_step + lane % lanes_a_step * lane_values;
  const i64 row = row_of(step);
  row_reader<F, Layout> reader(q, row, static_cast<int>(value));
  decode_stage& stage = m.stages[warp];
  decode_input& x = stage.part[0];
  reader.start(x);
  ptx::cp_async_wait_all();
  const half_step half = look_at<Certify>(reader, x, m.facts[warp], 0);
  stage.put(half.scales);
  FOURSCALE_UNROLL
  for (u32 i = 0; i < 4; ++i) {  // a store of the warp writes four steps
    constexpr u32 each = decode_steps / 4;
    const i64 to_row = row_of(i * each);
    const uint4 eight = stage.decoded(x, static_cast<int>(i));
    if (to_row < to.rows)
      *reinterpret_cast<uint4*>(to.values + to_row * to.padded_k() + i * each % steps * mma::decoded_step +
                                8 * lane) = eight;
  }
  if constexpr (!Certify) {
    if (threadIdx.x < decode_steps) to.bounds[to.bounds_at(group_of(threadIdx.x), threadIdx.x % steps)] = {};
  } else {
    if (row < to.rows)
      *reinterpret_cast<u16*>(reinterpret_cast<u8*>(to.exponents) + row * to.row_exponents() +
                              value / mma::group_values) = static_cast<u16>(half.exponents);
    find_in_short_rows<typename F::scale, steps>(to, row_group, x, half, m);
  }
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
