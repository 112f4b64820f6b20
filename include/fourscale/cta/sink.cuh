// SPDX-License-Identifier: Apache-2.0
// Sinks: where the quantized blocks of a walk go.
//
// A sink is an argument of a kernel. It has
//   memory                         what it needs of the CTA's shared memory, a type
//   begin(memory, cursor)          called by all threads, while their first values are on their way
//   store(memory, place, block)    called by the thread that made the block; called again if the block is
//                                  computed again, and then the second one counts
//   clear(memory, place)           zeroes a scale of the padding
//   finish(memory, cursor)         called by all threads, after the last block
#pragma once

#include "../view/block_scaled_view.hpp"
#include "walk.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// Stores codes in words of `Word` bytes: 1, 8 or 16. Their number and the address are multiples of it.
template <int Word, int Bytes>
FOURSCALE_D void store_codes(u8 const (&codes)[Bytes], u8* to) {
  FOURSCALE_UNROLL
  for (int i = 0; i < Bytes; i += Word) {
    u32 words[4] = {};
    FOURSCALE_UNROLL
    for (int j = 0; j < Word; ++j) words[j / 4] |= u32{codes[i + j]} << (8 * (j % 4));
    if constexpr (Word == 16)
      *reinterpret_cast<vector16*>(to + i) = {{words[0], words[1], words[2], words[3]}};
    else if constexpr (Word == 8)
      *reinterpret_cast<u64*>(to + i) = u64{words[1]} << 32 | words[0];
    else
      to[i] = codes[i];
  }
}

/// The same in words of 8 bytes if the address is a multiple of 8, else byte by byte.
template <int Bytes>
FOURSCALE_D void store_codes_anywhere(u8 const (&codes)[Bytes], u8* to) {
  if (reinterpret_cast<u64>(to) % 8 == 0)
    store_codes<8>(codes, to);
  else
    store_codes<1>(codes, to);
}

/// The bytes of the widest word, 8 or 16, of which the codes of every block are a multiple.
template <class F>
inline constexpr int code_word = block_code_bytes<F> % 16 == 0 ? 16 : 8;

struct no_memory {};

/// Stores each block by itself, to any view in any layout.
template <class F, class Layout>
struct view_sink {
  using memory = no_memory;
  block_scaled_view<F, Layout> q;

  template <class Cursor>
  FOURSCALE_D void begin(memory&, Cursor const&) const {}
  FOURSCALE_D void store(memory&, place const& at, packed_block<F> const& b) const {
    q.store_scale(at.row, at.block, b.scale);
    u8* const to = q.codes + q.code_offset(at.row, at.block);
    store_codes_anywhere(b.codes, to);
  }
  FOURSCALE_D void clear(memory&, place const& at) const { q.store_scale(at.row, at.block, {}); }
  template <class Cursor>
  FOURSCALE_D void finish(memory&, Cursor const&) const {}
};

/// Stores with linear scales, by the index of a block: the blocks of a thread are a constant number of bytes
/// apart. `codes` is a multiple of code_word<F>.
template <class F>
struct linear_sink {
  using memory = no_memory;
  u8 *codes, *scales;

  template <class Cursor>
  FOURSCALE_D void begin(memory&, Cursor const&) const {}
  FOURSCALE_D void store(memory&, place const& at, packed_block<F> const& b) const {
    store_codes<code_word<F>>(b.codes, codes + at.index * block_code_bytes<F>);
    [[maybe_unused]] u8* const to = scales + at.index * block_scale_bytes<F>;
    FOURSCALE_UNROLL
    for (int i = 0; i < block_scale_bytes<F>; ++i) to[i] = static_cast<u8>(b.scale.bits >> (8 * i));
  }
  FOURSCALE_D void clear(memory&, place const&) const {}
  template <class Cursor>
  FOURSCALE_D void finish(memory&, Cursor const&) const {}
};

/// Stores with swizzled scales, for a walk over tiles or over groups. Scales are gathered in shared memory by
/// tiles of 128 rows x 4 blocks; written one by one they would touch every sector eight times. `Aligned`:
/// q.codes is a multiple of code_word<F>. `Tiles`: the tiles of a CTA, one after the other along a row.
template <class F, bool Aligned, int Tiles = 2>
struct swizzled_sink {
  static_assert(block_scale_bytes<F> == 1, "Only scales of one byte are gathered.");
  struct memory {
    alignas(16) u8 tiles[Tiles][512];
    u32 before[threads / 32];  ///< for a walk over groups, see count_before()
  };
  block_scaled_view<F, swizzled_128x4> q;

  template <class Cursor>
  FOURSCALE_D void begin(memory& shared, Cursor const& cursor) const {
    if constexpr (requires { cursor.count_before(shared.before); }) cursor.count_before(shared.before);
  }
  FOURSCALE_D void store(memory& shared, place const& at, packed_block<F> const& b) const {
    u8* const to = q.codes + q.code_offset(at.row, at.block);
    if (Aligned)
      store_codes<code_word<F>>(b.codes, to);
    else
      store_codes_anywhere(b.codes, to);
    (&shared.tiles[0][0])[at.gathered] = b.scale.bits;
  }
  FOURSCALE_D void clear(memory& shared, place const& at) const { (&shared.tiles[0][0])[at.gathered] = 0; }
  template <class Cursor>
  FOURSCALE_D void finish(memory& shared, Cursor const& cursor) const {
    __syncthreads();
    const int which = static_cast<int>(threadIdx.x) / 32, row = static_cast<int>(threadIdx.x) % 32;
    const i64 tiles = ceil_div<i64>(q.blocks(), 4), tile = cursor.first_block() / 4 + which;
    if (which >= Tiles || tile >= tiles || cursor.rows_in_tile() == 0) return;
    u8* const to = q.scales + (cursor.scale_tile_row(shared.before) * tiles + tile) * 512 + row * 16;
    vector16 v = reinterpret_cast<vector16 const*>(shared.tiles[which])[row];
    FOURSCALE_UNROLL
    for (int k = 0; k < 4; ++k) v.words[k] = row + 32 * k < cursor.rows_in_tile() ? v.words[k] : 0;
    if (reinterpret_cast<u64>(to) % 16 == 0) {
      *reinterpret_cast<vector16*>(to) = v;
    } else {
      FOURSCALE_UNROLL
      for (int i = 0; i < 16; ++i) to[i] = static_cast<u8>(v.words[i / 4] >> (8 * (i % 4)));
    }
  }
};

/// A row of the output, for kernels of your own that take whole rows: addresses are computed once a row.
/// Codes are stored in words of 8 bytes, so q.codes must be a multiple of 8.
template <class F, class Layout>
struct output_row {
  block_scaled_view<F, Layout> q;
  i64 row;
  u8 *codes, *scales;

  FOURSCALE_D output_row(block_scaled_view<F, Layout> const& view, i64 r)
      : q(view), row(r), codes(q.codes + q.code_offset(r, 0)), scales(q.scales + q.scale_offset(r, 0)) {}

  /// `block` is signed, so that the offsets of several blocks, a constant apart, may be part of the
  /// instructions.
  FOURSCALE_D void store(int block, packed_block<F> const& b) const {
    if constexpr (same_type<Layout, linear> && block_scale_bytes<F> == 1)
      scales[block] = b.scale.bits;
    else
      q.store_scale(row, block, b.scale);
    store_codes<8>(b.codes, codes + i64{block} * block_code_bytes<F>);
  }
};

}  // namespace FOURSCALE_NAMESPACE::cta
