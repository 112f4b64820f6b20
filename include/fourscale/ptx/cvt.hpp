// SPDX-License-Identifier: Apache-2.0
// One function for each conversion instruction (cvt, PTX ISA 9.7.9.21), named as in PTX with `_` for `.`.
// The first PTX source goes to the high part of the result, so the functions take (hi, lo) as the manual
// does. Forms with four sources take a (highest), b, e, f (lowest). The headers in formats/ specify NaN,
// infinity and other special values. Ask arch::has_cvt_* first: a call from a pass without the instruction
// is a link error that names the targets it needs.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE::ptx {

FOURSCALE_HD void cvt_of_fp8_needs_sm_89_or_later();
FOURSCALE_HD void cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
FOURSCALE_HD void cvt_rs_needs_sm_100a_or_sm_103a();

/// cvt.rn.satfinite.e4m3x2.f32 d, hi, lo;   PTX 8.1, sm_89 and later.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e4m3x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_FP8
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
#else
  cvt_of_fp8_needs_sm_89_or_later();
#endif
  return d;
}

/// cvt.rn.satfinite.e5m2x2.f32 d, hi, lo;   PTX 8.1, sm_89 and later.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e5m2x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_FP8
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
#else
  cvt_of_fp8_needs_sm_89_or_later();
#endif
  return d;
}

/// cvt.rn.satfinite.e4m3x2.f16x2 d, v;   PTX 8.1, sm_89 and later.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e4m3x2_f16x2([[maybe_unused]] u32 v) {
  u16 d{};
#if FOURSCALE_HAS_CVT_FP8
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(d) : "r"(v));
#else
  cvt_of_fp8_needs_sm_89_or_later();
#endif
  return d;
}

/// cvt.rn.satfinite.e5m2x2.f16x2 d, v;   PTX 8.1, sm_89 and later.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e5m2x2_f16x2([[maybe_unused]] u32 v) {
  u16 d{};
#if FOURSCALE_HAS_CVT_FP8
  asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(d) : "r"(v));
#else
  cvt_of_fp8_needs_sm_89_or_later();
#endif
  return d;
}

/// cvt.rn.satfinite.e2m3x2.f32 d, hi, lo;   PTX 8.6; one element a byte, bits 7:6 zero.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e2m3x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rn.satfinite.e2m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rn.satfinite.e3m2x2.f32 d, hi, lo;   PTX 8.6; one element a byte, bits 7:6 zero.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e3m2x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rn.satfinite.e3m2x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rp.satfinite.ue8m0x2.f32 d, hi, lo;   PTX 8.6; rounds the magnitude toward +infinity, ignores the
/// sign.
FOURSCALE_HD inline u16 cvt_rp_satfinite_ue8m0x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rz.satfinite.ue8m0x2.f32 d, hi, lo;   PTX 8.6; rounds the magnitude toward zero, ignores the sign.
FOURSCALE_HD inline u16 cvt_rz_satfinite_ue8m0x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rz.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rp.satfinite.ue8m0x2.bf16x2 d, v;   PTX 8.6; as from f32.
FOURSCALE_HD inline u16 cvt_rp_satfinite_ue8m0x2_bf16x2([[maybe_unused]] u32 v) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rp.satfinite.ue8m0x2.bf16x2 %0, %1;" : "=h"(d) : "r"(v));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rz.satfinite.ue8m0x2.bf16x2 d, v;   PTX 8.6; as from f32.
FOURSCALE_HD inline u16 cvt_rz_satfinite_ue8m0x2_bf16x2([[maybe_unused]] u32 v) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rz.satfinite.ue8m0x2.bf16x2 %0, %1;" : "=h"(d) : "r"(v));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rn.satfinite.e2m1x2.f32 d, hi, lo;   PTX 8.6. The code goes through a local .b8 and a mov, because
/// inline asm cannot bind a .b8.
FOURSCALE_HD inline u16 cvt_rn_satfinite_e2m1x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo) {
  u16 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; mov.b16 %0, {t, 0}; }"
      : "=h"(d)
      : "f"(hi), "f"(lo));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// Four cvt.rn.satfinite.e2m1x2.f32 packed into one word, with x[0] in bits 3:0. ptxas folds the packing into
/// the conversions (no PRMT).
FOURSCALE_HD inline u32 cvt_rn_satfinite_e2m1x8_f32([[maybe_unused]] float const (&x)[8]) {
  u32 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("{ .reg .b8 b0, b1, b2, b3;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b0, %2, %1;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b1, %4, %3;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b2, %6, %5;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b3, %8, %7;\n\t"
      "mov.b32 %0, {b0, b1, b2, b3}; }"
      : "=r"(d)
      : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rs.satfinite.e2m1x4.f32 d, {a, b, e, f}, rbits;   PTX 8.7, sm_100a and sm_103a.
FOURSCALE_HD inline u16 cvt_rs_satfinite_e2m1x4_f32([[maybe_unused]] float a, [[maybe_unused]] float b,
                                                    [[maybe_unused]] float e, [[maybe_unused]] float f,
                                                    [[maybe_unused]] u32 rbits) {
  u16 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.satfinite.e2m1x4.f32 %0, {%1, %2, %3, %4}, %5;"
      : "=h"(d)
      : "f"(a), "f"(b), "f"(e), "f"(f), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rs.satfinite.e4m3x4.f32 d, {a, b, e, f}, rbits;   PTX 8.7, sm_100a and sm_103a.
FOURSCALE_HD inline u32 cvt_rs_satfinite_e4m3x4_f32([[maybe_unused]] float a, [[maybe_unused]] float b,
                                                    [[maybe_unused]] float e, [[maybe_unused]] float f,
                                                    [[maybe_unused]] u32 rbits) {
  u32 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.satfinite.e4m3x4.f32 %0, {%1, %2, %3, %4}, %5;"
      : "=r"(d)
      : "f"(a), "f"(b), "f"(e), "f"(f), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rs.satfinite.e5m2x4.f32 d, {a, b, e, f}, rbits;   PTX 8.7, sm_100a and sm_103a.
FOURSCALE_HD inline u32 cvt_rs_satfinite_e5m2x4_f32([[maybe_unused]] float a, [[maybe_unused]] float b,
                                                    [[maybe_unused]] float e, [[maybe_unused]] float f,
                                                    [[maybe_unused]] u32 rbits) {
  u32 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.satfinite.e5m2x4.f32 %0, {%1, %2, %3, %4}, %5;"
      : "=r"(d)
      : "f"(a), "f"(b), "f"(e), "f"(f), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rs.satfinite.e2m3x4.f32 d, {a, b, e, f}, rbits;   PTX 8.7, sm_100a and sm_103a.
FOURSCALE_HD inline u32 cvt_rs_satfinite_e2m3x4_f32([[maybe_unused]] float a, [[maybe_unused]] float b,
                                                    [[maybe_unused]] float e, [[maybe_unused]] float f,
                                                    [[maybe_unused]] u32 rbits) {
  u32 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.satfinite.e2m3x4.f32 %0, {%1, %2, %3, %4}, %5;"
      : "=r"(d)
      : "f"(a), "f"(b), "f"(e), "f"(f), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rs.satfinite.e3m2x4.f32 d, {a, b, e, f}, rbits;   PTX 8.7, sm_100a and sm_103a.
FOURSCALE_HD inline u32 cvt_rs_satfinite_e3m2x4_f32([[maybe_unused]] float a, [[maybe_unused]] float b,
                                                    [[maybe_unused]] float e, [[maybe_unused]] float f,
                                                    [[maybe_unused]] u32 rbits) {
  u32 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.satfinite.e3m2x4.f32 %0, {%1, %2, %3, %4}, %5;"
      : "=r"(d)
      : "f"(a), "f"(b), "f"(e), "f"(f), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rs.bf16x2.f32 d, hi, lo, rbits;   PTX 8.7, sm_100a and sm_103a.
FOURSCALE_HD inline u32 cvt_rs_bf16x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo,
                                          [[maybe_unused]] u32 rbits) {
  u32 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.bf16x2.f32 %0, %1, %2, %3;" : "=r"(d) : "f"(hi), "f"(lo), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rs.f16x2.f32 d, hi, lo, rbits;   PTX 8.7, sm_100a and sm_103a. Each element uses 13 bits of rbits;
/// their order has not been measured.
FOURSCALE_HD inline u32 cvt_rs_f16x2_f32([[maybe_unused]] float hi, [[maybe_unused]] float lo,
                                         [[maybe_unused]] u32 rbits) {
  u32 d{};
#if FOURSCALE_HAS_CVT_RS
  asm("cvt.rs.f16x2.f32 %0, %1, %2, %3;" : "=r"(d) : "f"(hi), "f"(lo), "r"(rbits));
#else
  cvt_rs_needs_sm_100a_or_sm_103a();
#endif
  return d;
}

/// cvt.rn.f16x2.e4m3x2 d, v;   PTX 8.1, sm_89 and later; exact.
FOURSCALE_HD inline u32 cvt_rn_f16x2_e4m3x2([[maybe_unused]] u16 v) {
  u32 d{};
#if FOURSCALE_HAS_CVT_FP8
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(v));
#else
  cvt_of_fp8_needs_sm_89_or_later();
#endif
  return d;
}

/// cvt.rn.f16x2.e5m2x2 d, v;   PTX 8.1, sm_89 and later; exact.
FOURSCALE_HD inline u32 cvt_rn_f16x2_e5m2x2([[maybe_unused]] u16 v) {
  u32 d{};
#if FOURSCALE_HAS_CVT_FP8
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(d) : "h"(v));
#else
  cvt_of_fp8_needs_sm_89_or_later();
#endif
  return d;
}

/// cvt.rn.f16x2.e2m3x2 d, v;   PTX 8.6; exact, one element a byte.
FOURSCALE_HD inline u32 cvt_rn_f16x2_e2m3x2([[maybe_unused]] u16 v) {
  u32 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rn.f16x2.e2m3x2 %0, %1;" : "=r"(d) : "h"(v));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rn.f16x2.e3m2x2 d, v;   PTX 8.6; exact, one element a byte.
FOURSCALE_HD inline u32 cvt_rn_f16x2_e3m2x2([[maybe_unused]] u16 v) {
  u32 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rn.f16x2.e3m2x2 %0, %1;" : "=r"(d) : "h"(v));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rn.f16x2.e2m1x2 d, v;   PTX 8.6; exact. The pair is the low byte of v.
FOURSCALE_HD inline u32 cvt_rn_f16x2_e2m1x2([[maybe_unused]] u16 v) {
  u32 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("{ .reg .b8 t, z; mov.b16 {t, z}, %1; cvt.rn.f16x2.e2m1x2 %0, t; }" : "=r"(d) : "h"(v));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

/// cvt.rn.bf16x2.ue8m0x2 d, v;   PTX 8.6; exact.
FOURSCALE_HD inline u32 cvt_rn_bf16x2_ue8m0x2([[maybe_unused]] u16 v) {
  u32 d{};
#if FOURSCALE_HAS_CVT_NARROW
  asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(d) : "h"(v));
#else
  cvt_of_4_and_6_bit_formats_needs_sm_100f_103f_110f_120f_or_121f();
#endif
  return d;
}

#if FOURSCALE_DEVICE_PASS
/// cvt.rn.bf16x2.f32 d, hi, lo;   PTX 7.0, sm_80 and later; every NaN gives 0x7FFF. (The conversion of one
/// value is a slower instruction.)
FOURSCALE_D inline u32 cvt_rn_bf16x2_f32(float hi, float lo) {
  u32 d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}

/// cvt.rn.f16x2.f32 d, hi, lo;   PTX 7.0, sm_80 and later; every NaN gives 0x7FFF.
FOURSCALE_D inline u32 cvt_rn_f16x2_f32(float hi, float lo) {
  u32 d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}

/// cvt.f32.f16 d, v;   PTX 1.0, all targets; exact.
FOURSCALE_D inline float cvt_f32_f16(u16 v) {
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(v));
  return d;
}
#endif

}  // namespace FOURSCALE_NAMESPACE::ptx
