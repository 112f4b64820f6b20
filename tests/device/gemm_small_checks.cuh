// SPDX-License-Identifier: Apache-2.0
// What the tests of device::gemm_weight_only ask of one case, for each type of X.
#pragma once

#include "device/gemm_small_case.cuh"

namespace fourscale::test::weight_only {

using mma::weight_only::tuning;

/// Plans other than the library's own: by wgmma where it is, and by mma.sync.
inline constexpr tuning plans[] = {{2},
                                   {4},
                                   {8},
                                   {0, 0, 0, 8},
                                   {0, 0, 0, 64},
                                   // By mma.sync.
                                   {1, 0, 0, 0, true},
                                   {2, 0, 0, 0, true},
                                   {4, 0, 0, 0, true},
                                   {8, 0, 0, 0, true},
                                   {2, 8, 4, 0, true},
                                   {8, 4, 2, 0, true},
                                   {0, 6, 3, 0, true},
                                   {0, 0, 0, 64, true},
                                   {1, 4, 2, 64, true},
                                   {0, 0, 0, 8, true}};

/// An exact case by a plan, twice.
template <class Case>
void check_plan(Case c, tuning const& t) {
  INFO(c.o.m << " x " << c.o.n << " x " << c.o.k << ", " << t.ctas << " CTAs, " << t.warps << " warps, "
             << t.depth << " halves, " << t.rows << " rows, " << t.mma_sync);
  const auto got = c.by_plan(t), want = c.oracle();
  INFO(first_difference(got, want, c.o.n + c.o.gap));
  CHECK(same_bits(got, want));
  CHECK(same_bits(got, c.by_plan(t)));
}

/// NaN scales, zero blocks, infinities.
template <class Case>
void check_special(Case c) {
  const auto q = c.view();
  q.store_scale(5, 7, {0x7f});   // a NaN
  q.store_scale(17, 0, {0xff});  // another
  q.store_scale(20, 1, {0x00});  // zero
  q.store_scale(21, 1, {0x80});  // -0
  q.store_scale(22, 1, {0xb8});  // -1
  for (i64 k = 0; k < c.o.k; ++k) {
    u8& byte = c.codes[static_cast<size_t>((30 * c.o.k + k) / 2)];
    byte = static_cast<u8>(k % 2 ? byte | 0x80 : 0x08);  // row 30: -0
  }
  c.x_at(2, 3) = from_float<typename decltype(c.x)::value_type>(bit_cast<float>(float_inf_bits));
  c.x_at(4, 190) = from_float<typename decltype(c.x)::value_type>(-bit_cast<float>(float_inf_bits));
  c.x_at(6, 100) = from_float<typename decltype(c.x)::value_type>(bit_cast<float>(0x7fc0'0000u));
  for (auto& d : c.before) d = {};
  const auto got = c.on_device();
  CHECK(same_values(got, c.oracle()));
  for (i64 m = 0; m < 9; ++m)
    for (const i64 n : {5, 17}) CHECK(std::isnan(to_float(got[static_cast<size_t>(m * c.o.n + n)])));
  CHECK(!std::isnan(to_float(got[0])));
}

/// Row r has scale r in its last block and zero in others, and codes in turn; row m of X picks one of them.
template <class Case>
void check_values(Case c) {
  const i64 last = c.o.k - 16;
  for (i64 r = 0; r < 256; ++r) {
    for (i64 b = 0; b <= last / 16; ++b) c.view().store_scale(r, b, {static_cast<u8>(b < last / 16 ? 0 : r)});
    for (i64 k = 0; k < 8; ++k)
      c.codes[static_cast<size_t>((r * c.o.k + last) / 2 + k)] = static_cast<u8>(2 * k | (2 * k + 1) << 4);
  }
  for (i64 m = 0; m < 16; ++m)
    for (i64 k = 0; k < c.o.k; ++k)
      c.x_at(m, k) = from_float<typename decltype(c.x)::value_type>(m + last == k ? 1.0f : 0.0f);
  CHECK(same_values(c.on_device(), c.oracle()));
}

}  // namespace fourscale::test::weight_only
