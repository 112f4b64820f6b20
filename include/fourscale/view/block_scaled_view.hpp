// SPDX-License-Identifier: Apache-2.0
// A non-owning view of a quantized matrix: its codes, scales and amax, and the sizes that its buffers must
// have.
#pragma once

#include "../block/packed_block.hpp"
#include "matrix_view.hpp"
#include "scale_layout.hpp"
#include "tensor_amax.hpp"

namespace FOURSCALE_NAMESPACE {

/// Bytes of the codes of a rows x cols matrix: row-major, packed, rows * cols * width / 8. cols is a multiple
/// of the block size.
template <block_format F>
FOURSCALE_HD constexpr i64 code_bytes(i64 rows, i64 cols) {
  return rows * (cols / F::block_size) * block_code_bytes<F>;
}

/// Bytes of the scales of a rows x cols matrix, padding included.
template <block_format F, scale_layout Layout = linear>
FOURSCALE_HD constexpr i64 scale_bytes(i64 rows, i64 cols) {
  return Layout::padded_rows(rows) * Layout::padded_blocks(cols / F::block_size) * block_scale_bytes<F>;
}

/// A rows x cols matrix in format F with blocks along its rows, and the amax that determines its tensor
/// scale. `Byte` is u8, or u8 const for an input. 2-D blocks are stored the same way: each row repeats their
/// scale. Capacities are in bytes; -1 means that only the caller knows.
template <block_format F, scale_layout Layout = linear, class Byte = u8>
struct block_scaled_view {
  using block_format_type = F;
  using layout = Layout;

  Byte* codes = nullptr;
  Byte* scales = nullptr;
  i64 rows = 0, cols = 0;
  tensor_amax<F> amax{};
  i64 code_capacity = -1, scale_capacity = -1;

  FOURSCALE_HD constexpr block_scaled_view() {}
  FOURSCALE_HD constexpr block_scaled_view(Byte* c, Byte* s, i64 r, i64 n, tensor_amax<F> a = {})
      : codes(c), scales(s), rows(r), cols(n), amax(a) {}
  /// From containers of bytes. validate() then checks their sizes.
  template <detail::container_of<Byte> C, detail::container_of<Byte> S>
  FOURSCALE_H constexpr block_scaled_view(C& c, S& s, i64 r, i64 n, tensor_amax<F> a = {})
      : block_scaled_view(c.data(), s.data(), r, n, a) {
    code_capacity = static_cast<i64>(c.size());
    scale_capacity = static_cast<i64>(s.size());
  }
  /// A view of constants from a view of variables.
  template <class B>
  requires same_type<Byte, B const> FOURSCALE_HD constexpr block_scaled_view(
      block_scaled_view<F, Layout, B> const& q)
      : codes(q.codes),
        scales(q.scales),
        rows(q.rows),
        cols(q.cols),
        amax(q.amax),
        code_capacity(q.code_capacity),
        scale_capacity(q.scale_capacity) {}

  FOURSCALE_HD constexpr i64 blocks() const { return cols / F::block_size; }
  FOURSCALE_HD constexpr i64 code_offset(i64 row, i64 block) const {
    return (row * blocks() + block) * block_code_bytes<F>;
  }
  FOURSCALE_HD constexpr i64 scale_offset(i64 row, i64 block) const {
    return Layout::offset(row, block, blocks()) * block_scale_bytes<F>;
  }

  FOURSCALE_HD constexpr void store_scale(i64 row, i64 block, typename F::scale scale) const {
    [[maybe_unused]] Byte* to = scales + scale_offset(row, block);
    FOURSCALE_UNROLL
    for (int i = 0; i < block_scale_bytes<F>; ++i) to[i] = static_cast<u8>(scale.bits >> (8 * i));
  }
  FOURSCALE_HD constexpr typename F::scale load_scale(i64 row, i64 block) const {
    [[maybe_unused]] Byte* from = scales + scale_offset(row, block);
    u32 bits = 0;
#if FOURSCALE_DEVICE_PASS
    if constexpr (block_scale_bytes<F> == 4)
      if (!is_constant_evaluated() && reinterpret_cast<u64>(from) % 4 == 0)
        return {*reinterpret_cast<u32 const*>(from)};
#endif
    FOURSCALE_UNROLL
    for (int i = 0; i < block_scale_bytes<F>; ++i) bits |= u32{from[i]} << (8 * i);
    return {static_cast<decltype(F::scale::bits)>(bits)};
  }

  /// Reads the code of one element.
  FOURSCALE_HD constexpr typename F::element load_code(i64 row, i64 col) const {
    constexpr int width = F::element::width;
    const i64 bit = col % F::block_size * width;
    Byte* from = codes + code_offset(row, col / F::block_size) + bit / 8;
    u32 word = from[0];
    if (8 % width != 0 && bit % 8 + width > 8) word |= u32{from[1]} << 8;
    return {static_cast<u8>((word >> (bit % 8)) & ((1u << width) - 1))};
  }

  /// Writes one block. Different threads may write different blocks, since no two blocks share a byte.
  FOURSCALE_HD constexpr void store(i64 row, i64 block, packed_block<F> const& b) const {
    store_scale(row, block, b.scale);
    Byte* to = codes + code_offset(row, block);
#if FOURSCALE_DEVICE_PASS
    if (!is_constant_evaluated() && block_code_bytes<F> % 8 == 0 && reinterpret_cast<u64>(to) % 8 == 0) {
      FOURSCALE_UNROLL
      for (int i = 0; i < block_code_bytes<F>; i += 8) {
        u64 word = 0;
        FOURSCALE_UNROLL
        for (int j = 0; j < 8; ++j) word |= u64{b.codes[i + j]} << (8 * j);
        *reinterpret_cast<u64*>(to + i) = word;
      }
      return;
    }
#endif
    FOURSCALE_UNROLL
    for (int i = 0; i < block_code_bytes<F>; ++i) to[i] = b.codes[i];
  }

  /// Reads one block.
  FOURSCALE_HD constexpr packed_block<F> load(i64 row, i64 block) const {
    packed_block<F> b{load_scale(row, block), {}};
    Byte* from = codes + code_offset(row, block);
    FOURSCALE_UNROLL
    for (int i = 0; i < block_code_bytes<F>; ++i) b.codes[i] = from[i];
    return b;
  }
};

}  // namespace FOURSCALE_NAMESPACE
