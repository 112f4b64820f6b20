// SPDX-License-Identifier: Apache-2.0
// FP8 in blocks of 128 values along rows, or of 128 x 128 (along columns: quantize_wide_columns.cuh). Eight
// neighbouring threads share a row of a block; each holds a piece of it, sixteen values. A thread that held a
// whole block would have no registers for another one. The bits are those of fourscale::quantize_block().
#pragma once

#include "quantize.cuh"
#include "reduce.cuh"

namespace FOURSCALE_NAMESPACE::cta {

inline constexpr int piece_values = 16;  ///< values of a block that a thread holds
inline constexpr int pieces_of_block = 8;
inline constexpr int wide_block = piece_values * pieces_of_block;

/// True if a block of F goes by pieces: it has 128 values, 8-bit codes, an FP32 scale and no tensor scale,
/// and the quantizer needs nothing of it but its amax.
template <class F, class Quantizer>
inline constexpr bool is_wide =
    F::block_size == wide_block&& F::element::width == 8 && !F::has_tensor_scale &&
    same_type<typename F::scale, f32> && detail::is_plain<Quantizer> &&
    amax_scaling_policy<decltype(Quantizer::scale), F>;

/// A scale layout for a walk that counts pieces in place of blocks.
template <class Layout>
struct layout_of_pieces {
  FOURSCALE_H static constexpr i64 padded_rows(i64 rows) { return Layout::padded_rows(rows); }
  FOURSCALE_H static constexpr i64 padded_blocks(i64 pieces) {
    return Layout::padded_blocks(pieces / pieces_of_block) * pieces_of_block;
  }
};

/// Stores pieces. A place counts pieces: `block` in its row, `index` in all. `Aligned`: q.codes is a multiple
/// of 16, q.scales of 4.
template <class F, class Layout, bool Aligned>
struct wide_sink {
  block_scaled_view<F, Layout> q;

  FOURSCALE_D void store(place const& at, u8 const (&codes)[piece_values]) const {
    const i64 index = Layout::has_padding ? at.row * (q.blocks() * pieces_of_block) + at.block : at.index;
    u8* const to = q.codes + index * piece_values;
    if (Aligned || reinterpret_cast<u64>(to) % 16 == 0)
      store_codes<16>(codes, to);
    else
      store_codes_anywhere(codes, to);
  }
  FOURSCALE_D void store_scale(place const& at, f32 scale) const {
    const i64 block = at.block / pieces_of_block,
              offset = same_type<Layout, linear> ? at.index / pieces_of_block * block_scale_bytes<F>
                                                 : q.scale_offset(at.row, block);
    if constexpr (Aligned)
      *reinterpret_cast<u32*>(q.scales + offset) = scale.bits;
    else
      q.store_scale(at.row, block, scale);
  }
};

namespace detail {

/// F with blocks of one piece, for round_block().
template <class F>
struct piece_of : F {
  static constexpr int block_size = piece_values;
};

/// The position of the first value of a block, and of a piece.
FOURSCALE_D inline position block_position(place const& at) {
  return {at.row, at.block / pieces_of_block * wide_block};
}
FOURSCALE_D inline position piece_position(place const& at) { return {at.row, at.block * piece_values}; }

/// Rounds a piece under the multiplier of its block, and stores the codes.
template <class F, class Values, class Round, class Sink>
FOURSCALE_D void round_piece(Values const& piece, float multiplier, Round const& round, place const& at,
                             Sink const& sink) {
  float x[piece_values];
  u8 codes[piece_values];
  piece.to_floats(x);
  round_block<piece_of<F>>(x, multiplier, round, piece_position(at), codes);
  sink.store(at, codes);
}

/// Each of eight neighbouring lanes has `Count` numbers; lane i gets the largest number i % Count of all
/// eight. While a lane has several numbers, it gives half of them to another lane at each step. The numbers
/// are magnitudes and no NaN. All lanes of a warp take part.
template <int Count>
FOURSCALE_D float largest_of_lanes(float (&mine)[Count]) {
  static_assert(Count == 1 || Count == 2 || Count == 4 || Count == 8);
  FOURSCALE_UNROLL
  for (int distance = 1; distance < pieces_of_block; distance *= 2) {
    const bool upper = (threadIdx.x & static_cast<u32>(distance)) != 0;
    const auto raised = [&](float keep, float give) {
      const i32 a = bit_cast<i32>(keep), b = __shfl_xor_sync(0xffff'ffffu, bit_cast<i32>(give), distance);
      return bit_cast<float>(a > b ? a : b);
    };
    if (distance >= Count) {
      mine[0] = raised(mine[0], mine[0]);
    } else {
      FOURSCALE_UNROLL
      for (int i = 0; i < Count / (2 * distance); ++i)
        mine[i] = raised(upper ? mine[2 * i + 1] : mine[2 * i], upper ? mine[2 * i] : mine[2 * i + 1]);
    }
  }
  return mine[0];
}

}  // namespace detail

/// Quantizes blocks along rows; the cursor counts pieces. All threads of a CTA call it. Of the eight lanes
/// that share blocks, each chooses the scale of one step and stores it; the others get the multiplier from it
/// by a shuffle. `q` is prepared().
template <block_format F, class Cursor, producer Producer, class Sink, quantizer_for<F> Quantizer>
FOURSCALE_D void quantize_wide_rows(Cursor const& cursor, Producer const& source, Sink const& sink,
                                    Quantizer const& q) {
  constexpr int batch = Cursor::batch;
  typename Producer::block_type raw[batch] = {};
  FOURSCALE_UNROLL
  for (int k = 0; k < batch; ++k)
    if (cursor.inside(k)) raw[k] = source.load(cursor.at(k));
  float amaxes[batch];
  FOURSCALE_UNROLL
  for (int k = 0; k < batch; ++k) amaxes[k] = raw[k].amax();
  const int lane = static_cast<int>(threadIdx.x) % pieces_of_block, own = lane % batch;
  const place of_own = cursor.at(own);
  const block_scale<F> scaled = scale_for<F>(q.scale, detail::largest_of_lanes(amaxes), tensor_scale<F>{},
                                             detail::block_position(of_own));
  if (lane < batch) {
    if (cursor.inside(own))
      sink.store_scale(of_own, scaled.scale);
    else if (cursor.padding(own))
      sink.store_scale(of_own, {});
  }
  FOURSCALE_UNROLL
  for (int k = 0; k < batch; ++k) {
    const float multiplier = __shfl_sync(0xffff'ffffu, scaled.multiplier, k, pieces_of_block);
    if (cursor.inside(k)) detail::round_piece<F>(raw[k], multiplier, q.round, cursor.at(k), sink);
  }
}

/// A cursor over the pieces of a square of 128 x 128: a thread takes one piece in each of the rows r, r + 32,
/// r + 64 and r + 96.
template <class F, class Layout>
struct tile_cursor {
  static constexpr int batch = wide_block * pieces_of_block / threads;
  block_scaled_view<F, Layout> const& q;
  i64 first_row, first_piece;

  FOURSCALE_D place place_at(int r, int p) const {
    const i64 row = first_row + r, piece = first_piece + p;
    return {row, piece, row * (q.blocks() * pieces_of_block) + piece};
  }
  FOURSCALE_D place at(int k) const {
    const int thread = static_cast<int>(threadIdx.x);
    return place_at(thread / pieces_of_block + k * (threads / pieces_of_block), thread % pieces_of_block);
  }
  FOURSCALE_D bool is_inside(place const& p) const {
    return first_piece / pieces_of_block < q.blocks() && p.row < q.rows;
  }
  FOURSCALE_D bool inside(int k) const { return is_inside(at(k)); }
  FOURSCALE_D bool padding(int k) const { return !inside(k) && at(k).row < Layout::padded_rows(q.rows); }
};

/// Quantizes a square of 128 x 128, which has one scale, by the 256 threads of a CTA. All of them call it.
template <block_format F, producer Producer, class Layout, bool Aligned, quantizer_for<F> Quantizer>
FOURSCALE_D void quantize_wide_square(tile_cursor<F, Layout> const& cursor, Producer const& source,
                                      wide_sink<F, Layout, Aligned> const& sink, Quantizer const& q,
                                      reduction& shared) {
  constexpr int steps = tile_cursor<F, Layout>::batch;
  typename Producer::block_type raw[steps] = {};
  FOURSCALE_UNROLL
  for (int k = 0; k < steps; ++k)
    if (cursor.inside(k)) raw[k] = source.load(cursor.at(k));
  i32 most = 0;
  FOURSCALE_UNROLL
  for (int k = 0; k < steps; ++k) {
    const i32 amax = bit_cast<i32>(raw[k].amax());
    most = amax > most ? amax : most;
  }
  const block_scale<F> scaled =
      scale_for<F>(q.scale, largest(bit_cast<float>(most), shared), tensor_scale<F>{},
                   detail::block_position(cursor.place_at(0, 0)));
  if (const int thread = static_cast<int>(threadIdx.x); thread < wide_block) {
    const place of_row = cursor.place_at(thread, 0);
    if (of_row.row < Layout::padded_rows(sink.q.rows))
      sink.store_scale(of_row, cursor.is_inside(of_row) ? scaled.scale : f32{});
  }
  FOURSCALE_UNROLL
  for (int k = 0; k < steps; ++k)
    if (cursor.inside(k)) detail::round_piece<F>(raw[k], scaled.multiplier, q.round, cursor.at(k), sink);
}

}  // namespace FOURSCALE_NAMESPACE::cta
