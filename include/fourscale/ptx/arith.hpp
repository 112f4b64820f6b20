// SPDX-License-Identifier: Apache-2.0
// Arithmetic instructions as functions. First the IEEE 754 binary32 operations of all numerics: one rounding
// each, to nearest even unless the name says otherwise, with subnormals kept. In device code each is the PTX
// instruction itself, so that nvcc's --use_fast_math (flush to zero, approximate division) and its
// contraction of a*b+c cannot change a bit. On the host they are `*`, `+` and `/`, also kept from
// contraction. Functions for device code alone follow at the end.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

namespace detail {

/// Rounds the double product or quotient of two floats to float in a constant expression, where overflow to
/// infinity would be an error. The product is exact in double. The quotient is rounded twice, and still is
/// the correctly rounded float, because 53 >= 2 * 24 + 2.
FOURSCALE_HD constexpr float round_constant(double x) {
  if (x >= 0x1.ffffffp127) return bit_cast<float>(float_inf_bits);
  if (x <= -0x1.ffffffp127) return bit_cast<float>(float_inf_bits | 0x8000'0000u);
  return static_cast<float>(x);
}

}  // namespace detail

/// mul.rn.f32 d, a, b;   PTX ISA 9.7.3.6, all targets.
FOURSCALE_HD constexpr float mul_rn_f32(float a, float b) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    float d;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
  }
#endif
  if (is_constant_evaluated()) return detail::round_constant(static_cast<double>(a) * static_cast<double>(b));
  return FOURSCALE_ROUNDED_PRODUCT(a, b);
}

/// add.rn.f32 d, a, b;   PTX ISA 9.7.3.3, all targets.
FOURSCALE_HD constexpr float add_rn_f32(float a, float b) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    float d;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
  }
#endif
  return a + b;
}

/// fma.rp.f32 d, a, b, c;   PTX ISA 9.7.3.7, all targets. a * b + c, rounded up. a and b must be finite,
/// their product must be exact in float, and c and the result must be positive.
FOURSCALE_HD constexpr float fma_rp_f32(float a, float b, float c) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    float d;
    asm("fma.rp.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
  }
#endif
  const float product = mul_rn_f32(a, b), sum = product + c, part = sum - product,
              rest = (product - (sum - part)) + (c - part);  // Knuth's two-sum
  return rest > 0.0f ? bit_cast<float>(bit_cast<u32>(sum) + 1) : sum;
}

/// max.NaN.f32 d, a, b;   PTX ISA 9.7.3.12, sm_80 and later. NaN if a or b is NaN; +0 is more than -0.
FOURSCALE_HD constexpr float max_nan_f32(float a, float b) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
  }
#endif
  if (a != a || b != b) return bit_cast<float>(0x7fff'ffffu);
  if (a == b) return bit_cast<float>(bit_cast<u32>(a) & bit_cast<u32>(b));
  return a < b ? b : a;
}

/// div.rn.f32 d, a, b;   PTX ISA 9.7.3.8, all targets. Division by zero gives +-infinity (0 / 0 and
/// NaN / 0 give NaN). The host code spells that out, because a constant expression may not divide by zero.
FOURSCALE_HD constexpr float div_rn_f32(float a, float b) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    float d;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
  }
#endif
  if (b == 0.0f) {
    const u32 sign = (bit_cast<u32>(a) ^ bit_cast<u32>(b)) & 0x8000'0000u;
    return bit_cast<float>(a == 0.0f || a != a ? 0x7fff'ffffu : float_inf_bits | sign);
  }
  if (is_constant_evaluated()) return detail::round_constant(static_cast<double>(a) / static_cast<double>(b));
  float divisor = b;
  FOURSCALE_FORGET(divisor);
  return a / divisor;
}

/// rcp.rn.f32 d, a;   PTX ISA 9.7.3.13, all targets. 1 / a, rounded once.
FOURSCALE_HD constexpr float rcp_rn_f32(float a) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    float d;
    asm("rcp.rn.f32 %0, %1;" : "=f"(d) : "f"(a));
    return d;
  }
#endif
  return div_rn_f32(1.0f, a);
}

/// fma.rn.f32 d, a, b, c;   PTX ISA 9.7.3.7, all targets. a * b + c, rounded once.
FOURSCALE_HD inline float fma_rn_f32(float a, float b, float c) {
#if FOURSCALE_DEVICE_PASS
  float d;  // __fmaf_rn would be fma.rn.ftz under --use_fast_math
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// mul.wide.u32 d, a, b;   PTX ISA 9.7.1.3, all targets. Inline asm, because nvcc uses more instructions for
/// u64{a} * b.
FOURSCALE_HD constexpr u64 mul_wide_u32(u32 a, u32 b) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    u64 d;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(d) : "r"(a), "r"(b));
    return d;
  }
#endif
  return u64{a} * b;
}

/// prmt.b32 d, a, b, selector;   PTX ISA 9.7.9.7, all targets. Each nibble of `selector`, the lowest first,
/// selects one byte of d from a0 a1 a2 a3 b0 b1 b2 b3 by its index. Bit 3 of a nibble gives eight copies of
/// the selected byte's sign bit instead.
FOURSCALE_HD constexpr u32 prmt_b32(u32 a, u32 b, u32 selector) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    u32 d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
    return d;
  }
#endif
  const u64 bytes = u64{b} << 32 | a;
  u32 d = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 nibble = selector >> (4 * i) & 0xfu,
              byte = static_cast<u32>(bytes >> (8 * (nibble & 7u))) & 0xffu;
    d |= (nibble & 8u ? (byte & 0x80u ? 0xffu : 0u) : byte) << (8 * i);
  }
  return d;
}

/// lop3.b32 d, mask, a, b, 0xca;   PTX ISA 9.7.8.6, all targets. The bits of a where mask has ones, and those
/// of b elsewhere. Written with & and |, it may become two instructions, because compilers narrow masks.
FOURSCALE_HD constexpr u32 lop3_select_b32(u32 mask, u32 a, u32 b) {
#if FOURSCALE_DEVICE_PASS
  if (!is_constant_evaluated()) {
    u32 d;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(d) : "r"(mask), "r"(a), "r"(b));
    return d;
  }
#endif
  return (mask & a) | (~mask & b);
}

#if FOURSCALE_CUDA

namespace detail {

/// For sm_80, which has no .xorsign.abs: give a magnitude (of one value, or of two halves) the sign of a * b.
FOURSCALE_D inline float with_sign_of_product(float magnitude, float a, float b) {
  return bit_cast<float>(bit_cast<u32>(magnitude) | ((bit_cast<u32>(a) ^ bit_cast<u32>(b)) & 0x8000'0000u));
}
FOURSCALE_D inline u32 with_signs_of_products(u32 magnitudes, u32 a, u32 b) {
  return magnitudes | ((a ^ b) & 0x8000'8000u);
}

}  // namespace detail

/// min.xorsign.abs.f32 d, a, b;   PTX ISA 9.7.3.11 (7.2), sm_86 and later; other instructions give the same
/// on sm_80. The smaller of |a| and |b|, with the sign of a * b. A NaN loses to a number.
FOURSCALE_D inline float min_xorsign_abs_f32(float a, float b) {
#if FOURSCALE_DEVICE_PASS >= 860
  float d;
  asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
#else
  return detail::with_sign_of_product(fminf(fabsf(a), fabsf(b)), a, b);
#endif
}

/// max.xorsign.abs.f32 d, a, b;   PTX ISA 9.7.3.12 (7.2). As above, with the larger of |a| and |b|.
FOURSCALE_D inline float max_xorsign_abs_f32(float a, float b) {
#if FOURSCALE_DEVICE_PASS >= 860
  float d;
  asm("max.xorsign.abs.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
#else
  return detail::with_sign_of_product(fmaxf(fabsf(a), fabsf(b)), a, b);
#endif
}

/// mul.rn.sat.f32 d, a, b;   PTX ISA 9.7.3.6, all targets. Rounded, then clamped to 0 .. 1; NaN gives 0.
FOURSCALE_D inline float mul_rn_sat_f32(float a, float b) {
  float d;
  asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

/// add.rz.f32 d, a, b;   PTX ISA 9.7.3.3, all targets. Rounded toward zero, subnormals kept.
FOURSCALE_D inline float add_rz_f32(float a, float b) {
  float d;  // __fadd_rz would be add.rz.ftz under --use_fast_math
  asm("add.rz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

/// rcp.approx.ftz.f32 d, a;   PTX ISA 9.7.3.13, all targets: within 1 ulp of 1 / a.
FOURSCALE_D inline float rcp_approx_ftz_f32(float a) {
  float d;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(a));
  return d;
}

/// max{.NaN}.bf16x2 d, |a|, |b|;   PTX ISA 9.7.4.8 and 9.7.4.6 (7.0), sm_80 and later. The larger magnitude
/// of each half, in its low 15 bits. Ignore bit 15: from sm_86 on, this is max{.NaN}.xorsign.abs, which puts
/// the sign of the product there. With Nan, a NaN wins; without, it loses to a number.
template <bool Nan>
FOURSCALE_D u32 max_abs_bf16x2(u32 a, u32 b) {
  u32 d;
#if FOURSCALE_DEVICE_PASS >= 860
  if constexpr (Nan)
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else
    asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
  if constexpr (Nan)
    asm("{ .reg .b32 x, y; abs.bf16x2 x, %1; abs.bf16x2 y, %2; max.NaN.bf16x2 %0, x, y; }"
        : "=r"(d)
        : "r"(a), "r"(b));
  else
    asm("{ .reg .b32 x, y; abs.bf16x2 x, %1; abs.bf16x2 y, %2; max.bf16x2 %0, x, y; }"
        : "=r"(d)
        : "r"(a), "r"(b));
#endif
  return d;
}

/// The same for f16x2.
template <bool Nan>
FOURSCALE_D u32 max_abs_f16x2(u32 a, u32 b) {
  u32 d;
#if FOURSCALE_DEVICE_PASS >= 860
  if constexpr (Nan)
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
  if constexpr (Nan)
    asm("{ .reg .b32 x, y; abs.f16x2 x, %1; abs.f16x2 y, %2; max.NaN.f16x2 %0, x, y; }"
        : "=r"(d)
        : "r"(a), "r"(b));
  else
    asm("{ .reg .b32 x, y; abs.f16x2 x, %1; abs.f16x2 y, %2; max.f16x2 %0, x, y; }"
        : "=r"(d)
        : "r"(a), "r"(b));
#endif
  return d;
}

/// min.xorsign.abs.bf16x2 d, a, b;   PTX ISA 9.7.4.7 (7.2), sm_86 and later; other instructions give the same
/// on sm_80. The smaller magnitude of each half, with the sign of the product. A NaN loses to a number.
FOURSCALE_D inline u32 min_xorsign_abs_bf16x2(u32 a, u32 b) {
  u32 d;
#if FOURSCALE_DEVICE_PASS >= 860
  asm("min.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
#else
  const u32 x = a & 0x7fff'7fffu, y = b & 0x7fff'7fffu;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y));
  return detail::with_signs_of_products(d, a, b);
#endif
}

/// fma.rn.bf16x2 d, a, b, -0;   PTX ISA 9.7.4.4, sm_80 and later. Two products, each rounded once, with
/// subnormals kept. (sm_80 has no mul.bf16x2.)
FOURSCALE_D inline u32 mul_rn_bf16x2(u32 a, u32 b) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x8000'8000u));
  return d;
}

#endif

}  // namespace FOURSCALE_NAMESPACE::ptx
