// SPDX-License-Identifier: Apache-2.0
// GEMMs drawn at random: shapes, factors, strides, and operands whose scales and codes follow a pattern that
// is drawn, too. They meet what no list thinks of: rows, steps and blocks of all sizes side by side.
#pragma once

#include <algorithm>

#include "gemm_case.hpp"
#include "support/dice.hpp"
#include "support/everywhere.hpp"

namespace fourscale::test {

/// How the scales and codes of an operand are drawn. Scales are exponents (E8M0) or, with three bits behind
/// the exponent, E4M3: all in eighths of a power of two.
struct operand_pattern {
  i64 rows_together, blocks_together;  ///< that share a scale, before noise
  i64 middle, spread, slope;           ///< of scales; `slope`: from one end of K to the other
  i64 zero_scales, nan_scales, far_scales, zero_codes, zero_groups;  ///< one in so many, or none if 0
  bool large_codes;                                                  ///< 2 and more

  operand_pattern(dice& d, bool e4m3_scales) {
    constexpr i64 groups[] = {1, 1, 2, 8, 16, 64, 100000};
    constexpr i64 rarely[] = {0, 0, 0, 4, 50, 1000};
    rows_together = d.one_of(groups), blocks_together = d.one_of(groups);
    middle = e4m3_scales ? d.below(127) : 8 * (100 + d.below(56));
    spread = d.one_of({1, 8, 24, 64, 127});
    slope = d.one_in(3) ? d.below(255) - 127 : 0;
    zero_scales = d.one_of(rarely), far_scales = d.one_of(rarely);
    nan_scales = d.one_in(8) ? 2000 : 0;
    zero_codes = d.one_of(rarely), zero_groups = d.one_of(rarely);
    large_codes = d.one_in(4);
  }
};

/// Operand data under such a pattern. `repeats`: every second step is the one before; `negated`, where signs
/// are bits of a byte.
template <class F, class Layout>
gemm_operand_data<F, Layout> random_operand(dice& d, i64 rows, i64 cols, i64 start, bool repeats,
                                            bool negated) {
  constexpr int width = F::element::width;
  constexpr u8 signs = width == 4 ? 0x88 : width == 8 ? 0x80 : 0;
  constexpr bool e4m3_scales = same_type<typename F::scale, e4m3>;
  constexpr i64 most = e4m3_scales ? 0x7e : 8 * 254;
  const operand_pattern p(d, e4m3_scales);
  const u64 seed = d.bits();
  const auto drawn = [&](u64 what, i64 i) { return mix(seed + what + 16 * static_cast<u64>(i)) >> 8; };
  const auto chance = [&](i64 one_in, u64 what, i64 i) {
    return one_in != 0 && static_cast<i64>(drawn(what, i)) % one_in == 0;
  };
  gemm_operand_data<F, Layout> x(rows, cols, 1 + seed % 100, start);
  const block_scaled_view<F, Layout> q = x.view();
  constexpr i64 block_bytes = F::block_size * width / 8, step_blocks = 64 / F::block_size;
  const i64 blocks = q.blocks();
  for (i64 i = 0; i < rows * blocks; ++i) {
    const i64 row = i / blocks, block = i % blocks;
    const bool again = repeats && block / step_blocks % 2 == 1;
    const i64 like = again ? block - step_blocks : block, of = row * blocks + like;
    const u64 noise = drawn(1, row / p.rows_together * blocks + like / p.blocks_together);
    i64 eighths = p.middle + static_cast<i64>(noise) % p.spread + p.slope * like / blocks;
    if (chance(p.far_scales, 2, of)) eighths = noise % 2 == 0 ? most : 8;
    eighths = chance(p.zero_scales, 3, of) ? 0 : std::clamp<i64>(eighths, 1, most);
    u8 scale = static_cast<u8>(e4m3_scales ? eighths : eighths / 8);
    if (chance(p.nan_scales, 4, i)) scale = e4m3_scales ? 0x7f : 0xff;
    q.store_scale(row, block, {scale});
    const bool zeros = chance(p.zero_groups, 5, of);
    for (i64 j = 0; j < block_bytes; ++j) {
      const i64 at = of * block_bytes + j;
      u8 codes = x.code(drawn(6, at) << 20);
      if (p.large_codes && width == 4) codes |= 0x44;
      if (zeros || chance(p.zero_codes, 7, at)) codes = 0;
      x.codes[static_cast<size_t>(start + i * block_bytes + j)] = again && negated ? codes ^ signs : codes;
    }
  }
  return x;
}

/// The GEMM of this seed. `most`: rows and columns at most, `most_k`: values along K.
template <class F, class G, class Layout, class T>
gemm_case<F, Layout, G, Layout, T> random_gemm(u64 seed, i64 most, i64 most_k) {
  dice d(seed);
  static_assert(F::block_size == G::block_size);
  constexpr i64 unit = F::block_size;
  const float not_a_number = bit_cast<float>(0xffc0'0001u);
  constexpr amax_from froms[] = {amax_from::view, amax_from::device, amax_from::rows};
  gemm_options o{d.size(most), d.size(most), unit * d.size(most_k / unit)};
  o.factors.alpha = d.one_of({1.0f, 1.0f, -0.37f, 0.0f, 0x1p-130f, 0x1p120f, not_a_number});
  if (!same_type<T, fp16>) o.factors.beta = d.one_of({0.0f, 0.0f, 1.0f, -0.75f, not_a_number});
  o.gap = d.one_of({0, 0, 8, 1, 6});
  o.start_a = d.one_of({0, 0, 16, 8, 1}), o.start_b = d.one_of({0, 0, 16, 8, 2});
  if (F::has_tensor_scale) o.amax_a = d.one_of(froms), o.amax_b = d.one_of(froms);
  const bool cancels = d.one_in(4);  // sums come back to 0
  const auto a = random_operand<F, Layout>(d, o.m, o.k, o.start_a, cancels, true);
  gemm_case<F, Layout, G, Layout, T> c(o, a,
                                       random_operand<G, Layout>(d, o.n, o.k, o.start_b, cancels, false));
  if (d.one_in(3))
    for (size_t i = 0; i < c.before.size(); ++i) c.before[i] = from_float<T>(ugly(i + seed));
  return c;
}

/// check(case, seed) of the first `count` seeds, or of `all` if the test is exhaustive.
template <class F, class G, class Layout, class T>
void for_random_gemms(u64 count, u64 all, i64 most, i64 most_k, auto const& check) {
  for (u64 seed = 0; seed < (exhaustive() ? all : count); ++seed) {
    auto c = random_gemm<F, G, Layout, T>(seed, most, most_k);
    INFO("seed " << seed << ": " << F::name << " by " << G::name << ", " << c.o.m << " x " << c.o.n << " x "
                 << c.o.k << ", gap " << c.o.gap);
    check(c, seed);
  }
}

}  // namespace fourscale::test
