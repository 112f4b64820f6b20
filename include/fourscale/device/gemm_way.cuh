// SPDX-License-Identifier: Apache-2.0
// take_sample(): samples of two packed operands, by which the GEMM by wgmma chooses between certificates and
// blocks of 16 (mma/wgmma_way.cuh). A sample is eight rows of A with eight of B in 16 steps. CTAs of their
// own take the samples while other CTAs of the same launch decode.
#pragma once

#include "../mma/wgmma_way.cuh"
#include "gemm_decode_rows.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// What a lane has of a sample's eight rows: its half of a step, and the lowest bit of a step's values.
struct sampled_half {
  half_step half;
  int lowest;
};
/// Brings eight rows of a packed operand to shared memory, a warp each, in as many steps as a part has, and
/// leaves their widths in `rows`. All threads of a CTA call it, and need a barrier behind it.
template <class F, class Layout>
FOURSCALE_D sampled_half look_at_sample(block_scaled_view<F, Layout, u8 const> const& q, i64 row_group,
                                        int first_step, decode_input& x, row_facts& known,
                                        rows_memory& rows) {
  const u32 lane = threadIdx.x % 32;
  row_reader<F, Layout> reader(q, row_group * mma::bounds_rows + threadIdx.x / 32,
                               first_step * mma::decoded_step + static_cast<int>(lane) * lane_values);
  reader.start(x);
  ptx::cp_async_wait_all();
  const half_step half = look_at<true>(reader, x, known, 0);
  __syncwarp();
  const model::value_facts facts = known.of_step<typename F::scale>(lane < decode_steps);
  rows.put_width(facts);
  __syncwarp();  // before the next sample comes to `known`
  return {half, facts.lowest};
}

/// Where a sample is taken. The places are a sequence that fills A, B and K evenly: multiples of 1 / g, 1 /
/// g^2 and 1 / g^3 without their whole parts, where g^4 = g + 1 (M. Roberts, The unreasonable effectiveness
/// of quasirandom sequences, 2018). Samples i and i + way_pairs have the same steps.
struct place_of_sample {
  i64 row_group, col_group;
  int first_step;

  FOURSCALE_HD place_of_sample(u32 sample, i64 rows, i64 cols, int steps)
      : row_group(part(sample * 0xd1b5'4a33u, ceil_div<i64>(rows, mma::bounds_rows))),
        col_group(part(sample * 0xabc9'8389u, ceil_div<i64>(cols, mma::bounds_rows))),
        first_step(static_cast<int>(
                       part(sample % mma::wgmma::way_pairs * 0x8cb9'2ba7u, ceil_div(steps, decode_steps))) *
                   decode_steps) {}

 private:
  /// The whole part of n * x / 2^32, for n < 2^32.
  FOURSCALE_HD static i64 part(u32 x, i64 n) { return static_cast<i64>(u64{x} * static_cast<u32>(n) >> 32); }
};

/// Takes one of mma::wgmma::way_samples samples and stores it. All threads of a CTA call it.
template <class F, class LA, class G, class LB>
FOURSCALE_D void take_sample(block_scaled_view<F, LA, u8 const> const& a,
                             block_scaled_view<G, LB, u8 const> const& b, u32 sample, decode_memory& m,
                             mma::wgmma::way_sample* to) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto steps = static_cast<int>(ceil_div<i64>(a.cols, mma::decoded_step));
  const place_of_sample place(sample, a.rows, b.rows, steps);
  const int first = place.first_step;
  decode_input* const parts = m.stages[warp].part;
  const sampled_half of[2] = {look_at_sample(a, place.row_group, first, parts[0], m.facts[warp], m.rows[0]),
                              look_at_sample(b, place.col_group, first, parts[1], m.facts[warp], m.rows[1])};
  __syncthreads();
  const largest_word at;
  const model::step_bounds of_a{m.rows[0].widths[at.step].largest()},
      of_b{m.rows[1].widths[at.step].largest()};
  const bool open = at.word == 0 && !sums_are_exact(of_a, of_b);
  __shared__ u32 uncertified;
  if (threadIdx.x == 0) uncertified = 0;
  const int open_steps = __syncthreads_count(open);
  if (open_steps != 0) {  // else widths alone certify all; the test saves time where operands are small
    FOURSCALE_UNROLL
    for (int i = 0; i < 2; ++i)
      m.magnitudes[i].put(
          parts[i].codes[lane], of[i].half.scales,
          __shfl_sync(~0u, m.rows[i].unit_of(of[i].lowest), static_cast<int>(lane / lanes_a_step)));
    __syncthreads();
    u32 sum = __dp4a(at.of(m.magnitudes[0]), at.of(m.magnitudes[1]), 0u);
    FOURSCALE_UNROLL
    for (int bit = 1; bit < largest_word::in_step; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
    if (open && !model::sums_are_exact(sum, of_a.width, of_b.width)) atomicOr(&uncertified, 1u << at.step);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    to[sample] = {static_cast<u16>(min(decode_steps, steps - first)), static_cast<u16>(uncertified),
                  static_cast<u16>(open_steps), 0};
}

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
