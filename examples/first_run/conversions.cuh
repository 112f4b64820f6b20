// SPDX-License-Identifier: Apache-2.0
// Probes of the conversions. ask(i) returns what the portable definition says of input i, and what this GPU
// does. possible() says whether there is an instruction to ask about. It is read in each compilation pass, as
// arch:: is. Probes that call an instruction directly are templates, so that a pass without the instruction
// does not compile them.
#pragma once

#include "harness.cuh"

namespace first_run {

namespace portable = fourscale::portable;
namespace ptx = fourscale::ptx;

/// The second value of a pair, whose first has the bits i: i times an odd number. So as i runs through all
/// words, every float comes in both halves of the pair.
FOURSCALE_HD inline u32 partner(u64 i) { return static_cast<u32>(i) * 0x9e37'79b1u; }

struct always {
  FOURSCALE_HD static constexpr bool possible() { return true; }
};
struct with_fp8 {
  FOURSCALE_HD static constexpr bool possible() { return f4::arch::has_cvt_fp8; }
};
struct with_narrow {
  FOURSCALE_HD static constexpr bool possible() { return f4::arch::has_cvt_narrow; }
};

/// encode<F>() of a pair: cvt.rn.satfinite.<F>x2.f32, or the software in its place.
template <class F>
struct nearest : always {
  static FOURSCALE_D outcome ask(u64 i) {
    const u32 lo = static_cast<u32>(i), hi = partner(i);
    return {u64{hi} << 32 | lo,
            u64{portable::encode<F>(as_float(hi)).bits} << F::width | portable::encode<F>(as_float(lo)).bits,
            f4::encode<F>(as_float(lo), as_float(hi)).bits};
  }
};

/// encode() of eight values to E2M1 at once: on Hopper by magic numbers, on Blackwell by four cvt, merged.
struct nearest_e2m1x8 : always {
  static FOURSCALE_D outcome ask(u64 i) {
    const u32 own = static_cast<u32>(i);
    float x[8];
    u64 definition = 0;
    for (int k = 0; k < 8; ++k) {
      x[k] = as_float(k % 2 ? partner(own + static_cast<u32>(k)) : own + static_cast<u32>(k) * 0x1357'9bdfu);
      definition |= u64{portable::encode<f4::e2m1>(x[k]).bits} << (4 * k);
    }
    return {own, definition, f4::encode<f4::e2m1>(x).bits};
  }
};

/// FP32 to E8M0, rounded in direction D.
template <portable::direction D>
struct power_of_two : always {
  static FOURSCALE_D outcome ask(u64 i) {
    const float x = as_float(static_cast<u32>(i));
    const f4::e8m0 here =
        D == portable::direction::toward_zero ? f4::encode_down<f4::e8m0>(x) : f4::encode_up<f4::e8m0>(x);
    return {i, portable::encode_power_of_two<D>(x).bits, here.bits};
  }
};

/// cvt.{rp,rz}.satfinite.ue8m0x2.bf16x2. (A template, so that other passes do not compile it.)
template <portable::direction D>
struct power_of_two_bf16 : with_narrow {
  static FOURSCALE_D outcome ask(u64 i) {
    const u32 v = static_cast<u32>(i);
    const u32 lo = portable::encode_power_of_two<D>(as_float(v << 16)).bits,
              hi = portable::encode_power_of_two<D>(as_float(v & 0xffff'0000u)).bits;
    return {i, u64{hi} << 8 | lo,
            D == portable::direction::toward_zero ? ptx::cvt_rz_satfinite_ue8m0x2_bf16x2(v)
                                                  : ptx::cvt_rp_satfinite_ue8m0x2_bf16x2(v)};
  }
};

/// cvt.rn.satfinite.<F>x2.f16x2.
template <class F>
struct nearest_f16 : with_fp8 {
  static FOURSCALE_D outcome ask(u64 i) {
    const u32 v = static_cast<u32>(i);
    const float lo = f4::to_float(f4::fp16{static_cast<u16>(v)}),
                hi = f4::to_float(f4::fp16{static_cast<u16>(v >> 16)});
    return {i, u64{portable::encode<F>(hi).bits} << 8 | portable::encode<F>(lo).bits,
            __is_same(F, f4::e4m3) ? ptx::cvt_rn_satfinite_e4m3x2_f16x2(v)
                                   : ptx::cvt_rn_satfinite_e5m2x2_f16x2(v)};
  }
};

/// cvt.rn.f16x2.<F>x2: two codes to fp16. Each code has a byte; two codes of E2M1 share one.
template <class F>
struct widened {
  FOURSCALE_HD static constexpr bool possible() {
    return F::width == 8 ? f4::arch::has_cvt_fp8 : f4::arch::has_cvt_narrow;
  }
  static FOURSCALE_D u32 convert(u16 v) {
    if constexpr (__is_same(F, f4::e2m1)) return ptx::cvt_rn_f16x2_e2m1x2(v);
    if constexpr (__is_same(F, f4::e2m3)) return ptx::cvt_rn_f16x2_e2m3x2(v);
    if constexpr (__is_same(F, f4::e3m2)) return ptx::cvt_rn_f16x2_e3m2x2(v);
    if constexpr (__is_same(F, f4::e4m3)) return ptx::cvt_rn_f16x2_e4m3x2(v);
    if constexpr (__is_same(F, f4::e5m2)) return ptx::cvt_rn_f16x2_e5m2x2(v);
  }
  static FOURSCALE_D outcome ask(u64 i) {
    constexpr u32 apart = F::width == 4 ? 4 : 8, mask = (1u << F::width) - 1;
    const u32 lo = static_cast<u32>(i) & mask, hi = static_cast<u32>(i >> F::width) & mask;
    const f4::fp16 x = f4::from_float<f4::fp16>(portable::decode(F{static_cast<u8>(lo)})),
                   y = f4::from_float<f4::fp16>(portable::decode(F{static_cast<u8>(hi)}));
    return {i, u64{y.bits} << 16 | x.bits, convert(static_cast<u16>(hi << apart | lo))};
  }
};

/// cvt.rn.bf16x2.ue8m0x2.
template <class F>
struct widened_scale : with_narrow {
  static FOURSCALE_D outcome ask(u64 i) {
    const f4::bf16 lo = f4::from_float<f4::bf16>(portable::decode(F{static_cast<u8>(i)})),
                   hi = f4::from_float<f4::bf16>(portable::decode(F{static_cast<u8>(i >> 8)}));
    return {i, u64{hi.bits} << 16 | lo.bits, ptx::cvt_rn_bf16x2_ue8m0x2(static_cast<u16>(i))};
  }
};

/// encode_stochastic() of four values: cvt.rs.satfinite.<F>x4.f32, or the software in its place. `Special`:
/// NaN, infinity and the largest float alone. Else any float for odd i, and ordinary magnitudes for even i.
template <class F, bool Special>
struct dithered : always {
  static FOURSCALE_D float value(u64 i, u32 k) {
    const u32 r = random_word(i, k);
    if constexpr (Special) {
      constexpr u32 all[] = {0x7f80'0000u, 0x7fc0'0000u, 0x7f80'0001u, 0x7f7f'ffffu};
      return as_float(all[r % 4] | (r & 0x8000'0000u));
    }
    return as_float(i % 2 ? r : (r & 0x807f'ffffu) | (116 + (r >> 23) % 20) << 23);
  }
  static FOURSCALE_D outcome ask(u64 i) {
    const u32 word = random_word(i, 4);
    const float x[4] = {value(i, 0), value(i, 1), value(i, 2), value(i, 3)};
    u64 definition = 0;
    for (int k = 0; k < 4; ++k)
      definition |= u64{portable::encode_stochastic<F>(x[k], f4::dither_bits<F>(word, k)).bits}
                    << (k * F::width);
    return {i, definition, f4::encode_stochastic<F>(x, word).bits};
  }
};

/// encode_stochastic() to bf16: cvt.rs.bf16x2.f32, or the software in its place.
struct dithered_bf16 : always {
  static FOURSCALE_D outcome ask(u64 i) {
    const u32 lo = random_word(i, 0), hi = random_word(i, 1), word = random_word(i, 2);
    f4::bf16 y[2];
    f4::encode_stochastic(as_float(lo), as_float(hi), word, y);
    return {i, u64{definition(hi, word >> 16)} << 16 | definition(lo, word & 0xffffu),
            u64{y[1].bits} << 16 | y[0].bits};
  }
  static FOURSCALE_D u32 definition(u32 bits, u32 dither) {
    const u32 magnitude = bits & 0x7fff'ffffu;
    if (magnitude > f4::float_inf_bits) return 0x7fff;
    return (bits + (magnitude < f4::float_inf_bits ? dither : 0)) >> 16;
  }
};

}  // namespace first_run
