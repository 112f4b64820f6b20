// SPDX-License-Identifier: Apache-2.0
// The data of the small GEMMs and their oracle: codes and scales as functions of their indices, the bytes
// that they make in shared memory, and the chained dot.
#pragma once

#include <fourscale/model/block_scaled_dot.hpp>
#include <fourscale/model/shared_memory.hpp>

#include "support/data.hpp"

namespace fourscale::test {

struct gemm_case {
  model::mma_format format = model::nvfp4_mma;
  u32 n = 64, m = 128, ctas = 1;
  model::swizzle mode = model::swizzle::b128;
  u32 steps = 4;  ///< instructions along K
  bool a_in_tensor = false;
  bool read_16x256b = false;
};

/// Row i of A, or column i of B: the code of element k and the scale of chunk j.
struct gemm_operand {
  gemm_case const& c;
  bool is_b;

  FOURSCALE_HD model::element_type type() const { return is_b ? c.format.b : c.format.a; }
  FOURSCALE_HD u64 seed(u32 i, u32 k) const { return (u64{i} << 32 | k) * 2 + is_b; }
  FOURSCALE_HD u32 width() const {
    if (type() == model::element_type::e2m1) return 4;
    return type() == model::element_type::e2m3 || type() == model::element_type::e3m2 ? 6 : 8;
  }
  FOURSCALE_HD u32 code(u32 i, u32 k) const {
    const u32 r = static_cast<u32>(mix(seed(i, k)) >> 20) & ((1u << width()) - 1);
    return width() == 8 && (r & 0x78) == 0x78 ? r ^ 0x40u : r;  // no NaN, no infinity
  }
  FOURSCALE_HD u32 scale(u32 i, u32 j) const {
    const u32 r = static_cast<u32>(mix(seed(i, j) + 77) >> 12);
    return c.format.scale == model::scale_type::ue8m0 ? 118 + r % 16 : 0x2c + r % 24;
  }

  /// What an instruction makes of it, for the oracle.
  FOURSCALE_HD model::operand_row row(u32 i, u32 step) const {
    model::operand_row x;
    const bool wide = c.format.kind == model::mma_kind::mxf8f6f4;
    const u32 count = wide ? 32 : 64, bits = wide ? 8 : 4;
    for (u32 k = 0; k < count; ++k) {
      u64 value = code(i, step * count + k);
      if (wide && width() == 4) value <<= 2;
      x.words[k * bits / 64] |= value << (k * bits % 64);
    }
    const u32 scales = count / static_cast<u32>(c.format.block);
    for (u32 j = 0; j < scales; ++j) x.scales |= scale(i, step * scales + j) << (8 * j);
    return x;
  }

  /// Byte `byte` of the 32 * steps that a row takes in shared memory. mxf8f6f4: 16 elements, then padding.
  FOURSCALE_HD u8 byte_in_shared(u32 i, u32 byte) const {
    const bool wide = c.format.kind == model::mma_kind::mxf8f6f4;
    const u32 per_chunk = wide ? 16 : 32, first = byte / 16 * per_chunk;
    u32 value = 0;
    for (u32 bit = 0; bit < 8; ++bit) {
      const u32 at = byte % 16 * 8 + bit, k = at / width();
      const u32 b = k < per_chunk ? code(i, first + k) >> (at % width()) & 1u : bit & 1u;
      value |= b << bit;
    }
    return static_cast<u8>(value);
  }
};

/// D of the oracle: the dot, chained over K in order.
FOURSCALE_HD inline float gemm_expected(gemm_case const& c, u32 m, u32 n) {
  const gemm_operand a{c, false}, b{c, true};
  float d = 0.0f;
  for (u32 step = 0; step < c.steps; ++step)
    d = model::block_scaled_dot(c.format, a.row(m, step), b.row(n, step), d);
  return d;
}

}  // namespace fourscale::test
