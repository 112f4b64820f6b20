// SPDX-License-Identifier: Apache-2.0
// Packed operands of a GEMM to their decoded form, bounds included where they are needed, in one pass.
#pragma once

#include "../mma/decoded_operand.cuh"
#include "dequantize.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

inline constexpr int decode_warps = mma::bounds_rows;  ///< a warp takes a row
inline constexpr int lane_values = 32;                 ///< that a lane takes at a time, in groups of 16
inline constexpr int lane_groups = lane_values / mma::group_values;
inline constexpr int lanes_a_step = mma::decoded_step / lane_values;
inline constexpr int decode_steps = 32 / lanes_a_step;  ///< that a warp takes at a time

/// 16 codes in two words: every bit that a magnitude has, in halves, and the sum of their squares.
FOURSCALE_D inline model::code_facts facts_of_codes(u32 const (&codes)[2]) {
  u32 any = 0, squares = 0;
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    // The magnitudes 0 to 12 of four codes, a byte each.
    const u32 m = __byte_perm(0x0302'0100u, 0x0c08'0604u, codes[i / 2] >> (16 * (i % 2)) & 0x7777u);
    any |= m;
    squares = __dp4a(m, m, squares);
  }
  any |= any >> 16;
  return {(any | any >> 8) & 0xffu, squares};
}

/// Adds the facts of the lanes whose numbers differ in `bit`.
FOURSCALE_D inline void add_across(model::value_facts& x, int bit) {
  model::value_facts other;
  other.squares = __shfl_xor_sync(~0u, x.squares, bit);
  other.lowest = __shfl_xor_sync(~0u, x.lowest, bit);
  other.largest_scale = __shfl_xor_sync(~0u, x.largest_scale, bit);
  x.add(other);
}

/// Facts of the values before each step, of those in the warp; `before` has the ones before the warp's, and
/// then all.
FOURSCALE_D inline model::value_facts facts_before(model::value_facts const& step,
                                                   model::value_facts& before) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  model::value_facts sum = step;
  FOURSCALE_UNROLL
  for (int distance = lanes_a_step; distance < 32; distance *= 2) {
    const float squares = __shfl_up_sync(~0u, sum.squares, distance);
    const int lowest = __shfl_up_sync(~0u, sum.lowest, distance);
    if (lane >= distance) {
      sum.squares += squares;
      sum.lowest = min(sum.lowest, lowest);
    }
  }
  model::value_facts result = before;
  const float squares = __shfl_up_sync(~0u, sum.squares, lanes_a_step);
  const int lowest = __shfl_up_sync(~0u, sum.lowest, lanes_a_step);
  if (lane >= lanes_a_step) {
    result.squares += squares;
    result.lowest = min(result.lowest, lowest);
  }
  before.squares += __shfl_sync(~0u, sum.squares, 31);
  before.lowest = min(before.lowest, __shfl_sync(~0u, sum.lowest, 31));
  return result;
}

/// The table of a scale of which 1.5 times is exact in bf16, too; 0 gives zeros, and NaN gives NaNs.
FOURSCALE_D inline magnitude_table<bf16> exact_table(float scale) {
  const u32 one = __byte_perm(bit_cast<u32>(scale), bit_cast<u32>(ptx::mul_rn_f32(scale, 1.5f)), 0x7632);
  magnitude_table<bf16> table(one);
  const u32 keep = scale == 0.0f ? 0u : ~0u, nan = scale == scale ? 0u : ~0u;
  FOURSCALE_UNROLL
  for (int i = 0; i < 2; ++i) {
    table.low[i] = (table.low[i] & keep) | nan;
    table.high[i] = (table.high[i] & keep) | nan;
  }
  return table;
}

/// 16 codes times their scale, in order.
FOURSCALE_D inline void decode_group(u32 low, u32 high, float scale, u32 (&words)[8]) {
  const magnitude_table<bf16> table = exact_table(scale);
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    u32 pair[2];
    table.decode((i < 2 ? low : high) >> (16 * (i % 2)), pair);
    words[2 * i] = pair[0];
    words[2 * i + 1] = pair[1];
  }
}

/// Stores 32 bytes of each lane, 64 bytes apart, so that every store writes whole sectors: an even lane and
/// the next one store the even one's bytes, then the odd one's.
FOURSCALE_D inline void store_group(u32 const (&words)[8], u8* to, bool there) {
  const bool odd = threadIdx.x % 2 != 0;
  u32 other[4], first[4], second[4];
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) other[i] = __shfl_xor_sync(~0u, odd ? words[i] : words[4 + i], 1);
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    first[i] = odd ? other[i] : words[i];
    second[i] = odd ? words[4 + i] : other[i];
  }
  if (!there) return;
  u8* const of_first = odd ? to - 2 * lane_values + 16 : to;
  *reinterpret_cast<uint4*>(of_first) = {first[0], first[1], first[2], first[3]};
  *reinterpret_cast<uint4*>(of_first + 2 * lane_values) = {second[0], second[1], second[2], second[3]};
}

/// What a lane takes of a row: 32 codes and the scales of two groups; zeros beyond the matrix.
template <class F>
struct decode_input {
  u32 codes[4] = {};
  typename F::scale scales[lane_groups]{};
};

/// Reads a lane's part of a row, from 32 times `lane_values` codes after the other.
template <class F, class Layout>
struct row_reader {
  static constexpr int together = 32 * lane_values, blocks_together = together / F::block_size;
  /// Scales in these layouts are as far apart everywhere, four blocks and two in a lane: addresses are added.
  static constexpr bool has_strides = same_type<Layout, linear> || same_type<Layout, swizzled_128x4>;
  static constexpr i64 stride = Layout::offset(0, blocks_together, 0) - Layout::offset(0, 0, 0);
  static_assert(!has_strides || (blocks_together % 4 == 0 && Layout::offset(0, 1, 0) == 1));

  block_scaled_view<F, Layout, u8 const> const& q;
  u8 const *codes, *scales;
  i64 row;
  int col, left;
  bool wide;

  FOURSCALE_D row_reader(block_scaled_view<F, Layout, u8 const> const& from, i64 of_row, int first)
      : q(from),
        codes(q.codes + of_row * (q.cols / 2) + first / 2),
        scales(q.scales + q.scale_offset(of_row, first / F::block_size)),
        row(of_row),
        col(first),
        left(of_row < q.rows ? static_cast<int>(q.cols) - first : 0),
        wide(reinterpret_cast<u64>(q.codes) % 16 == 0 && q.cols % lane_values == 0) {}

  FOURSCALE_D decode_input<F> next() {
    decode_input<F> x;
    if (left > 0) read(x);
    codes += together / 2, scales += stride, col += together, left -= together;
    return x;
  }

 private:
  FOURSCALE_D void read(decode_input<F>& x) const {
    if (wide) {
      const uint4 words = *reinterpret_cast<uint4 const*>(codes);
      x.codes[0] = words.x, x.codes[1] = words.y, x.codes[2] = words.z, x.codes[3] = words.w;
    } else {
#pragma unroll 1
      for (int i = 0; i < lane_values / 2 && 2 * i < left; ++i) {
        const u32 byte = u32{codes[i]} << (8 * (i % 4));
        FOURSCALE_UNROLL
        for (int k = 0; k < 4; ++k) x.codes[k] |= k == i / 4 ? byte : 0u;
      }
    }
    const auto scale = [&](int i) -> typename F::scale {
      if constexpr (has_strides)
        return {scales[i]};
      else
        return q.load_scale(row, col / F::block_size + i);
    };
    x.scales[0] = scale(0);
    if (F::block_size == lane_values)
      x.scales[1] = x.scales[0];
    else if (left > mma::group_values)
      x.scales[1] = scale(1);
  }
};

/// What the certificate needs to know of a group.
struct group_facts {
  model::value_facts of_values;
  float scale;  ///< 0 if all values are
  u32 exponent_byte;
};

/// Decodes a group.
template <class F>
FOURSCALE_D group_facts decode_scaled(u32 low, u32 high, typename F::scale scale, u32 (&words)[8]) {
  const u32 codes[2] = {low, high};
  const model::scale_parts parts(scale);
  const bool in_values = parts.nan || mma::is_in_values(parts.exponent) || parts.value == 0.0f;
  decode_group(low, high, in_values ? parts.value : 1.0f, words);
  const model::value_facts facts(facts_of_codes(codes), parts);
  return {facts, facts.squares == 0.0f ? 0.0f : parts.value,
          static_cast<u8>(parts.nan ? mma::nan_exponent : parts.exponent)};
}

/// What the warps of a CTA know of their rows' steps, to be made that of eight rows.
struct certify_memory {
  model::step_magnitudes magnitudes[decode_warps][decode_steps];
  model::step_bounds bounds[decode_steps][decode_warps];
};

/// Codes of the magnitudes of a group's 16 values, a byte each.
FOURSCALE_D inline uint4 magnitudes_of(u32 low, u32 high, float scale, model::value_facts const& step) {
  model::magnitude_codes codes;  // of what bounds nothing
  if (step.squares < model::value_facts::infinite()) codes = {scale, step.lowest};
  u32 words[4];
  FOURSCALE_UNROLL
  for (int i = 0; i < 4; ++i)
    words[i] = __byte_perm(codes.low, codes.high, (i < 2 ? low : high) >> (16 * (i % 2)) & 0x7777u);
  return {words[0], words[1], words[2], words[3]};
}

/// What eight rows have in the warps' steps from `first` on: the largest of each.
FOURSCALE_D inline void store_largest(mma::decoded_operand const& to, i64 row_group, int first,
                                      certify_memory const& of_rows) {
  constexpr int words = sizeof(model::step_magnitudes) / 4;
  static_assert(decode_steps * words == 32 * decode_warps, "A word for each thread.");
  const int mine = static_cast<int>(threadIdx.x), step = mine / words;
  if (arch::has_wgmma && first + step < to.steps) {  // others do not read them
    u32 rows[decode_warps];
    FOURSCALE_UNROLL
    for (int i = 0; i < decode_warps; ++i)
      rows[i] = reinterpret_cast<u32 const*>(of_rows.magnitudes[i])[mine];
    reinterpret_cast<u32*>(to.magnitudes + (first + step) * to.row_groups() + row_group)[mine % words] =
        mma::largest_bytes(rows);
  }
  if (mine >= decode_steps || first + mine >= to.steps) return;
  model::step_bounds bounds;
  FOURSCALE_UNROLL
  for (int i = 0; i < decode_warps; ++i) {
    bounds.width = max(bounds.width, of_rows.bounds[mine][i].width);
    bounds.span = max(bounds.span, of_rows.bounds[mine][i].span);
  }
  to.bounds[(first + mine) * to.row_groups() + row_group] = bounds;
}

/// Eight rows of an operand, a warp each. Without `Certify` no exponents are stored, and bounds that hold for
/// anything.
template <bool Certify, class F, class Layout>
FOURSCALE_D void decode_rows(block_scaled_view<F, Layout, u8 const> const& q, mma::decoded_operand const& to,
                             i64 row_group, certify_memory* of_rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const i64 row = row_group * mma::bounds_rows + warp;
  const int steps = static_cast<int>(to.steps);
  u8* const values = reinterpret_cast<u8*>(to.values + row * to.padded_k());
  u8* const exponents = reinterpret_cast<u8*>(to.exponents) + row * (to.padded_k() / mma::group_values);
  model::value_facts before;
  row_reader<F, Layout> reader(q, row, lane * lane_values);
  decode_input<F> next = reader.next();
  for (int first = 0; first < steps; first += decode_steps) {
    const decode_input<F> x = next;
    const int col = first * mma::decoded_step + lane * lane_values;
    next = reader.next();
    const bool there = row < to.rows && first + lane / lanes_a_step < steps;
    model::value_facts step;
    group_facts groups[lane_groups];
    FOURSCALE_UNROLL
    for (int i = 0; i < lane_groups; ++i) {
      u32 words[8];
      groups[i] = decode_scaled<F>(x.codes[2 * i], x.codes[2 * i + 1], x.scales[i], words);
      step.add(groups[i].of_values);
      store_group(words, values + 2 * col + 32 * i, there);
    }
    if constexpr (Certify) {
      if (there)
        *reinterpret_cast<u16*>(exponents + col / mma::group_values) =
            static_cast<u16>(groups[0].exponent_byte | groups[1].exponent_byte << 8);
      add_across(step, 1);
      if (first >= model::most_steps) step.squares = model::value_facts::infinite();
      certify_memory& of_eight = of_rows[first / decode_steps % 2];
      if constexpr (arch::has_wgmma) FOURSCALE_UNROLL
      for (int i = 0; i < lane_groups; ++i)
        reinterpret_cast<uint4*>(of_eight.magnitudes[warp])[lane_groups * lane + i] =
            magnitudes_of(x.codes[2 * i], x.codes[2 * i + 1], groups[i].scale, step);
      const model::step_bounds bounds = bounds_of_step(step, facts_before(step, before));
      if (lane % lanes_a_step == 0) of_eight.bounds[lane / lanes_a_step][warp] = bounds;
      __syncthreads();
      store_largest(to, row_group, first, of_eight);
    } else if (warp == 0 && lane < decode_steps && first + lane < steps) {
      to.bounds[(first + lane) * to.row_groups() + row_group] = {};
    }
  }
}

/// A CTA takes eight rows of A or of B.
template <bool Certify, class F, class LA, class G, class LB>
FOURSCALE_KERNEL void __launch_bounds__(32 * decode_warps)
    decode_kernel(block_scaled_view<F, LA, u8 const> a, block_scaled_view<G, LB, u8 const> b,
                  mma::decoded_operand to_a, mma::decoded_operand to_b) {
  __shared__ certify_memory of_rows[2];
  const i64 groups_a = to_a.row_groups(), group = blockIdx.x;
  if (group < groups_a)
    decode_rows<Certify>(a, to_a, group, of_rows);
  else
    decode_rows<Certify>(b, to_b, group - groups_a, of_rows);
}

/// What a GEMM from decoded operands is called with: a problem with .a and .b, which lie in `workspace`, at a
/// multiple of 256 bytes, as many as both have. decode(), then the kernel's own multiply().
template <class F, class LA, class G, class LB, class Problem>
struct decoded_call {
  block_scaled_view<F, LA, u8 const> a;
  block_scaled_view<G, LB, u8 const> b;
  Problem p;
  errc state = errc::ok;  ///< whether it could be prepared

  template <class BA, class BB>
  decoded_call(block_scaled_view<F, LA, BA> const& x, block_scaled_view<G, LB, BB> const& y,
               Problem const& problem, void* workspace)
      : a(x), b(y), p(problem) {
    u8* const at = static_cast<u8*>(workspace);
    p.a = mma::decoded_operand::in(at, a.rows, a.cols);
    p.b = mma::decoded_operand::in(at + p.a.bytes(), b.rows, b.cols);
  }
  template <bool Certify = true>
  errc decode(cudaStream_t stream) const {
    decode_kernel<Certify>
        <<<static_cast<unsigned>(p.a.row_groups() + p.b.row_groups()), 32 * decode_warps, 0, stream>>>(
            a, b, p.a, p.b);
    return launched();
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
