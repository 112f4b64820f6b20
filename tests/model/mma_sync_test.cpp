// SPDX-License-Identifier: Apache-2.0
// mma.sync with block scales: fragments against the formulas of the PTX manual, scale selectors against its
// words, and whole tiles against the dot of rows and columns written down as matrices.
#include <fourscale/model/mma_sync.hpp>

#include "support/data.hpp"
#include "support/everywhere.hpp"

using namespace fourscale;
using namespace fourscale::model;

namespace {

struct rc {
  u32 r, c;
};

// PTX ISA 9.7.14.5, m16n8k64 and m16n8k32: g = lane / 4, t = lane % 4.
FOURSCALE_HD constexpr rc manual_a(mma_kind kind, u32 lane, u32 i) {
  const u32 g = lane >> 2, t = lane & 3;
  if (kind == mma_kind::mxf8f6f4) return {g + 8 * (i >> 2 & 1), 4 * t + (i & 3) + (i >= 8 ? 16 : 0)};
  return {g + 8 * (i >> 3 & 1), 8 * t + (i & 7) + (i >= 16 ? 32 : 0)};
}
FOURSCALE_HD constexpr rc manual_b(mma_kind kind, u32 lane, u32 i) {
  const u32 g = lane >> 2, t = lane & 3;
  if (kind == mma_kind::mxf8f6f4) return {4 * t + (i & 3) + (i >= 4 ? 16 : 0), g};
  return {8 * t + (i & 7) + (i >= 8 ? 32 : 0), g};
}
FOURSCALE_HD constexpr rc manual_c(u32 lane, u32 i) {
  return {(lane >> 2) + (i >= 2 ? 8u : 0u), (lane & 3) * 2 + (i & 1)};
}

constexpr bool same(matrix_place x, rc y) { return x.row == y.r && x.column == y.c; }

/// The places equal the manual's, and cover rows x columns once.
constexpr bool fragments_hold(mma_kind kind) {
  const u32 k = kind == mma_kind::mxf8f6f4 ? 32 : 64, each = elements_per_register(kind);
  bool seen_a[16][64] = {}, seen_b[64][8] = {}, ok = true;
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 i = 0; i < 4 * each; ++i) {
      const matrix_place p = fragment_a(kind, lane, i);
      ok = ok && same(p, manual_a(kind, lane, i)) && p.row < 16 && p.column < k && !seen_a[p.row][p.column];
      seen_a[p.row][p.column] = true;
    }
    for (u32 i = 0; i < 2 * each; ++i) {
      const matrix_place p = fragment_b(kind, lane, i);
      ok = ok && same(p, manual_b(kind, lane, i)) && p.row < k && p.column < 8 && !seen_b[p.row][p.column];
      seen_b[p.row][p.column] = true;
    }
    for (u32 i = 0; i < 4; ++i) ok = ok && same(fragment_c(lane, i), manual_c(lane, i));
  }
  return ok;
}
static_assert(fragments_hold(mma_kind::mxf4nvf4) && fragments_hold(mma_kind::mxf4) &&
              fragments_hold(mma_kind::mxf8f6f4));

/// thread-id-a 0: lanes 0 and 1 of each quad, 1: lanes 2 and 3, even lanes for rows 0 to 7, odd ones for 8 to
/// 15; thread-id-b q: lane q of each quad.
constexpr bool scale_lanes_hold() {
  bool ok = true;
  for (u32 lane = 0; lane < 32; ++lane) {
    const u32 in_quad = lane & 3;
    ok = ok && scale_lane_a((in_quad & 1) * 8 + (lane >> 2), in_quad >> 1) == lane;
    ok = ok && scale_lane_b(lane >> 2, in_quad) == lane;
  }
  return ok;
}
static_assert(scale_lanes_hold());

constexpr mma_format e5m2_by_e2m1{mma_kind::mxf8f6f4, 32, scale_type::ue8m0, element_type::e5m2,
                                  element_type::e2m1};
static_assert(valid_selectors(nvfp4_mma, {0, 1}, {0, 3}) && !valid_selectors(nvfp4_mma, {1, 0}, {0, 0}));
static_assert(valid_selectors(mxfp4_mma, {2, 0}, {0, 2}) && !valid_selectors(mxfp4_mma, {0, 0}, {1, 0}));
static_assert(valid_selectors(mxfp8_mma, {3, 0}, {1, 0}) && !valid_selectors(mxfp8_mma, {4, 0}, {0, 0}));
static_assert(!valid_selectors(nvfp4_mma, {0, 2}, {0, 0}) && !valid_selectors(nvfp4_mma, {0, 0}, {0, 4}));

/// One tile: matrices of codes from the seed i, registers filled by the manual's maps, every lane and byte
/// that the selectors leave out filled with NaN scales.
struct tile_equals_dots {
  mma_format f;
  scale_selector a, b;

  FOURSCALE_HD u32 code(u64 i, u32 row, u32 k) const {
    const u32 r = static_cast<u32>(test::mix((i * 64 + row) * 64 + k) >> 9);
    if (f.kind != mma_kind::mxf8f6f4) return r & 15;
    const u32 byte = r & 255;
    return (byte & 0x78) == 0x78 ? byte ^ 0x40u : byte;
  }
  FOURSCALE_HD u32 scale(u64 i, u32 row, u32 j) const {
    const u32 r = static_cast<u32>(test::mix((i * 64 + row) * 4 + j + 1000) >> 9);
    return f.scale == scale_type::ue8m0 ? 120 + r % 14 : 0x30 + r % 16;
  }
  FOURSCALE_HD operand_row row_of(u64 i, u32 row) const {
    const u32 bits = f.kind == mma_kind::mxf8f6f4 ? 8 : 4, chunks = 256 / bits / static_cast<u32>(f.block);
    operand_row x;
    for (u32 k = 0; k < 256 / bits; ++k) x.words[k * bits / 64] |= u64{code(i, row, k)} << (k * bits % 64);
    for (u32 j = 0; j < chunks; ++j) x.scales |= scale(i, row, j) << (8 * j);
    return x;
  }
  FOURSCALE_HD u32 scale_register(u64 i, u32 row, scale_selector s, u32 selected) const {
    u32 word = 0xffff'ffffu;
    const u32 chunks = static_cast<u32>(f.scales());
    for (u32 j = 0; j < chunks && s.thread_id == selected; ++j) {
      word &= ~(255u << (8 * (s.byte_id + j)));
      word |= scale(i, row, j) << (8 * (s.byte_id + j));
    }
    return word;
  }

  /// Rows 0 to 15 of A are matrix rows 0 to 15, columns of B 16 to 23.
  FOURSCALE_HD void fill(u64 i, warp_registers& w) const {
    const u32 bits = f.kind == mma_kind::mxf8f6f4 ? 8 : 4, each = 32 / bits;
    for (u32 lane = 0; lane < 32; ++lane) {
      for (u32 reg = 0; reg < 4; ++reg) {
        w.a[lane][reg] = 0, w.b[lane][reg % 2] = 0;
        w.c[lane][reg] = test::gaussian(i * 128 + lane * 4 + reg);
      }
      for (u32 e = 0; e < 4 * each; ++e) {
        const rc at = manual_a(f.kind, lane, e);
        w.a[lane][e / each] |= code(i, at.r, at.c) << (e % each * bits);
      }
      for (u32 e = 0; e < 2 * each; ++e) {
        const rc at = manual_b(f.kind, lane, e);
        w.b[lane][e / each] |= code(i, 16 + at.c, at.r) << (e % each * bits);
      }
      w.scale_a[lane] = scale_register(i, (lane & 1) * 8 + lane / 4, a, lane % 4 / 2);
      w.scale_b[lane] = scale_register(i, 16 + lane / 4, b, lane % 4);
    }
  }
  FOURSCALE_HD bool operator()(u64 i) const {
    warp_registers w;
    fill(i, w);
    for (u32 lane = 0; lane < 32; ++lane)
      for (u32 reg = 0; reg < 4; ++reg) {
        const rc at = manual_c(lane, reg);
        const float want = block_scaled_dot(f, row_of(i, at.r), row_of(i, 16 + at.c), w.c[lane][reg]);
        const float got = mma_sync(f, w, a, b, lane, reg);
        if (bit_cast<u32>(got) != bit_cast<u32>(want) || want != want) return false;
      }
    return true;
  }
};

}  // namespace

TEST_CASE("mma.sync: a tile equals the dots of its rows and columns, for every selector",
          "[model][mma_sync]") {
  constexpr mma_format formats[] = {nvfp4_mma, mxfp4_mma, mxfp8_mma, e5m2_by_e2m1};
  for (mma_format const& f : formats)
    for (u32 id = 0; id < 4; ++id)
      for (u32 thread = 0; thread < 4; ++thread) {
        const scale_selector a{id, thread / 2}, b{id, thread};
        if (valid_selectors(f, a, b)) test::check_everywhere(8, tile_equals_dots{f, a, b});
      }
}
