// SPDX-License-Identifier: Apache-2.0
// Operands of MXFP8, MXFP6 and MXFP4 made for the bounds of the certificate: for the CPU's GEMM and the
// device's. Each list calls run(case), and says of what a case is one.
#pragma once

#include <fourscale/model/certificate_8bit.hpp>

#include "gemm_table.hpp"

namespace fourscale::test {

template <class F, class G = F>
using mx_case = gemm_case<F, linear, G, linear, float>;

/// m x 4 x k, all zeros under scales of 1.
template <class F, class G = F>
mx_case<F, G> mx_zeros(i64 m, i64 k) {
  mx_case<F, G> c({m, 4, k});
  for (auto* codes : {&c.a.data.codes, &c.b.data.codes}) codes->assign(codes->size(), 0);
  for (auto* scales : {&c.a.data.scales, &c.b.data.scales}) scales->assign(scales->size(), e8m0::bias);
  return c;
}
/// Element k of every row; its block is under 2^exponent.
template <class F, class L>
void mx_set(gemm_operand_data<F, L>& x, i64 k, float value, int exponent = 0) {
  for (i64 row = 0; row < x.rows; ++row) {
    packed_block<F> block = x.view().load(row, k / 32);
    block.set(static_cast<int>(k % 32), encode<typename F::element>(value));
    block.scale = e8m0{static_cast<u8>(e8m0::bias + exponent)};
    x.view().store(row, k / 32, block);
  }
}

/// Every code, NaN and infinity among them; then every scale, too: run(case).
template <class F>
void for_all_codes(auto const& run) {
  for (const bool any_scale : {false, true}) {
    mx_case<F> c({19, 37, 96});
    for (size_t i = 0; i < c.a.data.codes.size(); ++i) c.a.data.codes[i] = static_cast<u8>(mix(i) >> 8);
    if (any_scale)
      for (size_t i = 0; i < c.a.data.scales.size(); ++i)
        c.a.data.scales[i] = static_cast<u8>(mix(i + 99) >> 8);
    run(c);
  }
}

/// One element of `code` and a block under `scale` among ones and zeros.
template <class F>
mx_case<F> mx_with_code(u8 code, u8 scale) {
  mx_case<F> c = mx_zeros<F>(3, 96);
  for (i64 k = 0; k < 96; ++k) mx_set(c.b.data, k, 1.0f);
  mx_set(c.a.data, 3, 1.0f);
  c.a.data.codes[96 + 40] = code;
  c.a.data.scales[3 + 1] = scale;  // row 1, block 1
  return c;
}

/// The same for every format of 6 and 8 bits.
void for_all_mx_codes(auto const& run) {
  for_all_codes<mxfp8_e4m3>(run);
  for_all_codes<mxfp8_e5m2>(run);
  for_all_codes<mxfp6_e2m3>(run);
  for_all_codes<mxfp6_e3m2>(run);
}

/// One NaN, infinity or NaN scale among ones and zeros: run(case).
void for_each_not_finite(auto const& run) {
  const auto with = [&](auto c) { run(c); };
  with(mx_with_code<mxfp8_e4m3>(0x7f, 127));
  with(mx_with_code<mxfp8_e5m2>(0x7d, 127));
  with(mx_with_code<mxfp8_e5m2>(0x7c, 127));
  with(mx_with_code<mxfp8_e5m2>(0xfc, 127));
  with(mx_with_code<mxfp8_e4m3>(0x00, 255));
  with(mx_with_code<mxfp8_e4m3>(0x38, 255));
}

/// 31 products of 448 * b, less in some rows, and one of last_a * last_b.
template <class F, class G>
mx_case<F, G> mx_sum(float b, float last_a, float last_b) {
  auto c = mx_zeros<F, G>(16, 32);
  for (i64 k = 0; k < 31; ++k) mx_set(c.a.data, k, 448.0f), mx_set(c.b.data, k, b);
  for (i64 row = 0; row < 16; ++row) c.a.data.codes[static_cast<size_t>(row * 32)] -= static_cast<u8>(row);
  mx_set(c.a.data, 31, last_a), mx_set(c.b.data, 31, last_b);
  return c;
}
/// The one product is 2^-down: the sum has 23 + down bits.
inline mx_case<mxfp8_e4m3> mx_large_sum(int down, float sign) {
  return mx_sum<mxfp8_e4m3, mxfp8_e4m3>(448.0f, sign, 1.0f / static_cast<float>(1 << down));
}

/// The same where B's elements are split at whole numbers: 31 products of 448 * 28, and one of 2^-down.
inline mx_case<mxfp8_e4m3, mxfp6_e3m2> mx_large_sum_of_e3m2(int down, float sign) {
  return mx_sum<mxfp8_e4m3, mxfp6_e3m2>(28.0f, sign * 4 / static_cast<float>(1 << down), 0.25f);
}
/// The same where B's elements are split at 2048: 31 of 3584, less in some rows, and one of 2^-down, times
/// ones. The sum has 17 + down bits.
inline mx_case<mxfp8_e5m2> mx_large_sum_of_e5m2(int down, float sign) {
  mx_case<mxfp8_e5m2> c = mx_zeros<mxfp8_e5m2>(16, 32);
  for (i64 k = 0; k < 32; ++k) mx_set(c.a.data, k, 1.0f);
  for (i64 k = 0; k < 31; ++k) mx_set(c.b.data, k, 3584.0f);
  for (i64 row = 0; row < 3; ++row) c.b.data.codes[static_cast<size_t>(row * 32)] -= static_cast<u8>(row);
  mx_set(c.b.data, 31, sign / static_cast<float>(1 << down));
  return c;
}

/// 15 products of 448 * b, one of 2^-9 * low, then -448 * b 15 times: a sum of 2^-9 * low, of which f32 has
/// nothing left after the first sixteen. Where B's elements are split, b and `low` have the same part.
template <class F, class G>
mx_case<F, G> mx_cancelling(float b, float low) {
  auto c = mx_zeros<F, G>(4, 32);
  for (i64 k = 0; k < 15; ++k)
    for (const i64 half : {0, 16}) mx_set(c.a.data, half + k, half == 0 ? 448.0f : -448.0f);
  for (i64 k = 0; k < 31; ++k) mx_set(c.b.data, k, k == 15 ? low : b);
  mx_set(c.a.data, 15, 0x1p-9f);
  return c;
}
/// With both first parts, and with both second parts, of each type that is split: run(case).
void for_each_cancelling(auto const& run) {
  const auto both = [&]<class F, class G>(F, G, float b, float low) {
    auto c = mx_cancelling<F, G>(b, low);
    run(c);
  };
  both(mxfp8_e4m3{}, mxfp8_e4m3{}, 448.0f, 4.0f), both(mxfp8_e4m3{}, mxfp8_e4m3{}, 1.875f, 0x1p-8f);
  both(mxfp8_e4m3{}, mxfp6_e3m2{}, 28.0f, 1.0f), both(mxfp8_e4m3{}, mxfp6_e3m2{}, 0.4375f, 0x1p-4f);
  both(mxfp8_e5m2{}, mxfp8_e5m2{}, 57344.0f, 2048.0f), both(mxfp8_e5m2{}, mxfp8_e5m2{}, 1792.0f, 4.0f);
}

/// A product `apart` bits below another, in the same step, a step before it or a step behind: the adder drops
/// it where they are more than 25 apart, and an exact sum, rounded toward zero, would not. run(case).
void for_each_apart(int apart, auto const& run) {
  mx_case<mxfp8_e4m3> same = mx_zeros<mxfp8_e4m3>(4, 32), before = mx_zeros<mxfp8_e4m3>(4, 64),
                      behind = before;
  mx_set(same.a.data, 3, 256.0f), mx_set(same.b.data, 3, 256.0f);
  mx_set(same.a.data, 7, -0x1p-9f),
      mx_set(same.b.data, 7, bit_cast<float>(static_cast<u32>(127 + 25 - apart) << 23));
  mx_set(before.a.data, 3, -1.0f, -apart), mx_set(before.b.data, 3, 1.0f);
  mx_set(before.a.data, 40, 1.0f), mx_set(before.b.data, 40, 1.0f);
  mx_set(behind.a.data, 3, 1.0f), mx_set(behind.b.data, 3, 1.0f);
  mx_set(behind.a.data, 40, -1.0f, -apart), mx_set(behind.b.data, 40, 1.0f);
  for (auto* c : {&same, &before, &behind}) run(*c);
  if (apart > 28) return;
  // 2^-9 has the exponent -6 in the adder, so the sum that is exact in f32 has three bits less than there are
  // between what the adder sees.
  auto subnormal = mx_zeros<mxfp8_e4m3, mxfp8_e5m2>(4, 32);
  for (const i64 k : {3, 7}) mx_set(subnormal.a.data, k, 0x1p-9f);
  mx_set(subnormal.b.data, 3, 512.0f);
  mx_set(subnormal.b.data, 7, -bit_cast<float>(static_cast<u32>(127 + 12 - apart) << 23));
  run(subnormal);
}

/// An accumulator of 24 bits: its lowest is `below` bits under a product, its highest 23 bits above that.
inline mx_case<mxfp6_e3m2> mx_accumulator_below(int below) {
  mx_case<mxfp6_e3m2> c = mx_zeros<mxfp6_e3m2>(4, 96);
  mx_set(c.a.data, 0, -1.0f, 23 - below), mx_set(c.b.data, 0, 1.0f);
  mx_set(c.a.data, 32, -1.0f, -below), mx_set(c.b.data, 32, 1.0f);
  mx_set(c.a.data, 64, 1.0f), mx_set(c.b.data, 64, 1.0f);
  return c;
}

/// An accumulator that is 2^bits times as large as the product of the lowest bits of A and of B, in a step
/// whose products are `above` bits above that, as no element has the lowest bit of both sides.
template <class F, class G = F>
mx_case<F, G> mx_apart_in_place(int above, int bits) {
  using model::detail::power_of_two;
  constexpr int of_a = subnormal_exponent<typename F::element>,
                of_b = subnormal_exponent<typename G::element>;
  auto c = mx_zeros<F, G>(4, 64);
  mx_set(c.a.data, 0, 1.0f, of_a + of_b + bits), mx_set(c.b.data, 0, 1.0f);
  mx_set(c.a.data, 35, -power_of_two(of_a)), mx_set(c.b.data, 35, power_of_two(of_b + above));
  mx_set(c.a.data, 39, 1.0f), mx_set(c.b.data, 39, power_of_two(of_b));
  return c;
}

}  // namespace fourscale::test
