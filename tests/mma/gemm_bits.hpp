// SPDX-License-Identifier: Apache-2.0
// One list of GEMMs and one number for all bits of their results: the same on a CPU, on the models of the
// Blackwell kernels, on the decoded kernels of sm_80 and sm_90a and on Blackwell itself.
#pragma once

#include <cstdio>

#include "gemm_table.hpp"

namespace fourscale::test {

/// Of every D of the list, as the chained model gives it. It changes when the list or its data does, and for
/// no other reason.
inline constexpr u64 bits_of_list = 0xeedb'3a48'2da5'6478;

/// FNV-1a with 64 bits: http://www.isthe.com/chongo/tech/comp/fnv
struct fnv1a {
  u64 state = 0xcbf2'9ce4'8422'2325;

  constexpr fnv1a& add(u8 byte) {
    state = (state ^ byte) * 0x100'0000'01b3;
    return *this;
  }
  constexpr void add(float x) {
    for (u32 i = 0; i < 4; ++i) add(static_cast<u8>(bit_cast<u32>(x) >> (8 * i)));
  }
};
static_assert(fnv1a{}.add(u8{'a'}).state == 0xaf63'dc4c'8601'ec8c);

/// Shapes that every kernel takes, TMA included: K is a multiple of 32.
template <class F>
void add_gemms(auto const& gemm, fnv1a& hash) {
  using one = gemm_case<F, swizzled_128x4, F, swizzled_128x4, float>;
  const auto add = [&](one c) {
    for (const float x : gemm(c)) hash.add(x);
  };
  for (gemm_options const& o : std::vector<gemm_options>{
           {33, 70, 96}, {130, 260, 352, {1.25f, 0.5f}}, {257, 129, 640, {0.37f, 0.0f}}}) {
    add(one(o));  // any code and scale
    for (const kind what : kinds)
      add(one(o, gemm_operand_data<F, swizzled_128x4>(operand<F, swizzled_128x4>(what, o.m, o.k, 1)),
              gemm_operand_data<F, swizzled_128x4>(operand<F, swizzled_128x4>(what, o.n, o.k, 2))));
  }
}

/// Prints the line of a path and checks it. `gemm(c)` is D of a gemm_case.
void check_bits_of_list(char const* path, auto const& gemm) {
  fnv1a hash;
  add_gemms<nvfp4>(gemm, hash);
  add_gemms<mxfp4>(gemm, hash);
  std::printf("gemm bits  %016llx  %s\n", static_cast<unsigned long long>(hash.state), path);
  CHECK(hash.state == bits_of_list);
}

}  // namespace fourscale::test
