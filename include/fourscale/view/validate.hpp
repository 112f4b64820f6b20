// SPDX-License-Identifier: Apache-2.0
// The checks of arguments that host and device functions share. They are pure and read no element. They
// return the first rule that is broken.
#pragma once

#include "../scaling/delayed.hpp"
#include "block_scaled_view.hpp"
#include "block_shape.hpp"
#include "errc.hpp"
#include "percentile.hpp"
#include "requirements.hpp"

namespace FOURSCALE_NAMESPACE {

namespace detail {

inline constexpr i64 dimension_limit = i64{1} << 31;
inline constexpr i64 size_limit = i64{1} << 44;

/// The addresses [begin, end).
struct byte_range {
  u64 begin, end;
};
template <class T>
FOURSCALE_H byte_range bytes_of(T* p, i64 count) {
  const u64 begin = reinterpret_cast<u64>(p);
  return {begin, begin + static_cast<u64>(count) * sizeof(T)};
}
FOURSCALE_H constexpr bool overlap(byte_range a, byte_range b) { return a.begin < b.end && b.begin < a.end; }

FOURSCALE_H constexpr errc check_shape(i64 rows, i64 cols) {
  if (rows <= 0 || cols <= 0) return errc::empty_matrix;
  if (rows >= dimension_limit || cols >= dimension_limit || rows > (size_limit - 1) / cols)
    return errc::too_large;
  return errc::ok;
}

/// The same for all matrices of a GEMM: A (m x k), B (n x k) and D (m x n).
FOURSCALE_H constexpr errc check_gemm_shape(i64 m, i64 n, i64 k) {
  if (const errc e = check_shape(m, k); e != errc::ok) return e;
  if (const errc e = check_shape(n, k); e != errc::ok) return e;
  return check_shape(m, n);
}

/// Checks the pointer that an amax is written to.
FOURSCALE_H inline errc check_amax_output(float const* amax) {
  if (amax == nullptr) return errc::null_pointer;
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return errc::misaligned;
  return errc::ok;
}

FOURSCALE_H inline errc check_percentile(percentile_workspace const* workspace, float const* amax) {
  if (workspace == nullptr) return errc::null_pointer;
  if (const errc e = check_amax_output(amax); e != errc::ok) return e;
  return reinterpret_cast<u64>(workspace) % alignof(percentile_workspace) == 0 ? errc::ok : errc::misaligned;
}

}  // namespace detail

/// Checks a history of amaxes: not null, not empty, aligned, a rule that has a name, and an amax outside of
/// the history.
FOURSCALE_H inline errc validate(delayed_amax const& d) {
  if (d.history == nullptr || d.amax == nullptr) return errc::null_pointer;
  if (d.length < 1) return errc::empty_matrix;
  if (d.length >= detail::size_limit) return errc::too_large;
  if ((reinterpret_cast<u64>(d.history) | reinterpret_cast<u64>(d.amax)) % alignof(float) != 0)
    return errc::misaligned;
  if (detail::overlap(detail::bytes_of(d.history, d.length), detail::bytes_of(d.amax, 1)))
    return errc::overlap;
  const bool named = d.rule == amax_of_history::largest || d.rule == amax_of_history::most_recent;
  return named ? errc::ok : errc::bad_recipe;
}

/// Checks a matrix alone: not null, not empty, leading dimension, size, alignment to its element type,
/// capacity.
template <class T>
FOURSCALE_H errc validate(matrix_view<T> const& m) {
  if (const errc e = detail::check_shape(m.rows, m.cols); e != errc::ok) return e;
  if (m.data == nullptr) return errc::null_pointer;
  if (m.ld < m.cols) return errc::bad_leading_dimension;
  if (m.ld >= detail::dimension_limit || m.rows > (detail::size_limit - 1) / m.ld) return errc::too_large;
  if (reinterpret_cast<u64>(m.data) % alignof(T) != 0) return errc::misaligned;
  if (m.capacity >= 0 && m.extent() > m.capacity) return errc::buffer_too_small;
  return errc::ok;
}
template <class T>
FOURSCALE_H errc validate(transposed_view<T> const& m) {
  if (m.rows != m.base.cols || m.cols != m.base.rows) return errc::shape_mismatch;
  return validate(m.base);
}

namespace detail {

/// The bytes of the amaxes in memory: `rows` numbers if each row has its own, else one. Empty if there are
/// none.
template <class F>
FOURSCALE_H byte_range bytes_of_amax(tensor_amax<F> const& amax, i64 rows) {
  if (!F::has_tensor_scale || !amax.in_memory()) return {};
  return bytes_of(amax.data, amax.kind == amax_kind::per_row ? rows : 1);
}

/// True if the reference is one that the functions of tensor_amax.hpp can make. It may be another one,
/// because its fields can be edited and an enumeration may hold any number. Encode and decode scales exist
/// only for a whole matrix.
FOURSCALE_H constexpr bool names_amax(amax_reference const& amax) {
  const bool of_matrix = amax.kind == amax_kind::value || amax.kind == amax_kind::one;
  return amax.kind != amax_kind::missing && amax.kind <= amax_kind::per_group &&
         (amax.number == scale_number::amax || (of_matrix && amax.number <= scale_number::decode));
}

/// Checks an amax by itself: it is given, aligned, and overlaps neither codes nor scales.
template <class F>
FOURSCALE_H errc check_amax(tensor_amax<F> const& amax, i64 rows, byte_range codes, byte_range scales) {
  if (!F::has_tensor_scale) return errc::ok;
  if (!names_amax(amax)) return errc::no_amax;
  if (amax.kind == amax_kind::per_group) return errc::amax_of_groups;
  if (!amax.in_memory()) return errc::ok;
  if (amax.data == nullptr) return errc::null_pointer;
  if (reinterpret_cast<u64>(amax.data) % alignof(float) != 0) return errc::misaligned;
  const byte_range bytes = bytes_of_amax(amax, rows);
  return overlap(bytes, codes) || overlap(bytes, scales) ? errc::overlap : errc::ok;
}

}  // namespace detail

/// Checks a quantized matrix alone: whole blocks, buffers not null and large enough, codes apart from scales,
/// an amax where the format has a tensor scale.
template <class F, class Layout, class Byte>
FOURSCALE_H errc validate(block_scaled_view<F, Layout, Byte> const& q) {
  if (const errc e = detail::check_shape(q.rows, q.cols); e != errc::ok) return e;
  if (q.cols % F::block_size != 0) return errc::partial_block;
  constexpr bool has_scales = block_scale_bytes<F> != 0;
  if (q.codes == nullptr || (q.scales == nullptr && has_scales)) return errc::null_pointer;
  const i64 codes = code_bytes<F>(q.rows, q.cols), scales = scale_bytes<F, Layout>(q.rows, q.cols);
  if (q.code_capacity >= 0 && q.code_capacity < codes) return errc::buffer_too_small;
  if (q.scale_capacity >= 0 && q.scale_capacity < scales) return errc::buffer_too_small;
  const detail::byte_range in_codes = detail::bytes_of(q.codes, codes),
                           in_scales = detail::bytes_of(q.scales, scales);
  if (detail::overlap(in_codes, in_scales)) return errc::overlap;
  return detail::check_amax(q.amax, q.rows, in_codes, in_scales);
}

namespace detail {

/// True if a byte of the matrix lies in `range`.
template <class T>
FOURSCALE_H bool overlaps(matrix_view<T> const& m, byte_range range) {
  return overlap(bytes_of(m.data, m.extent()), range);
}
template <class T>
FOURSCALE_H bool overlaps(transposed_view<T> const& m, byte_range range) {
  return overlaps(m.base, range);
}
template <class F, class Layout, class Byte>
FOURSCALE_H bool overlaps(block_scaled_view<F, Layout, Byte> const& q, byte_range range) {
  return overlap(bytes_of(q.codes, code_bytes<F>(q.rows, q.cols)), range) ||
         overlap(bytes_of(q.scales, scale_bytes<F, Layout>(q.rows, q.cols)), range);
}
/// True if x shares a byte with the codes, the scales or the amax of q. A matrix that is only read may share
/// its amax with q, which only reads it, too.
template <class M, class F, class Layout, class Byte>
FOURSCALE_H bool overlaps(M const& x, block_scaled_view<F, Layout, Byte> const& q) {
  constexpr bool only_read = requires { M::is_only_read; };
  return overlaps(x, bytes_of(q.codes, code_bytes<F>(q.rows, q.cols))) ||
         overlaps(x, bytes_of(q.scales, scale_bytes<F, Layout>(q.rows, q.cols))) ||
         (!only_read && overlaps(x, bytes_of_amax(q.amax, q.rows)));
}

}  // namespace detail

/// Checks a matrix and its quantized form together, for either direction: quantize() or dequantize().
template <matrix_like M, class F, class Layout, class Byte, class Blocks = blocks_1d>
FOURSCALE_H errc validate(M const& x, block_scaled_view<F, Layout, Byte> const& q, Blocks = {}) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (x.rows != q.rows || x.cols != q.cols) return errc::shape_mismatch;
  if (const errc e = validate(q); e != errc::ok) return e;
  if constexpr (Blocks::is_2d) {
    if (Blocks::rows != F::block_size || Blocks::cols != F::block_size) return errc::wrong_block_shape;
    if (F::has_tensor_scale && q.amax.kind == amax_kind::per_row) return errc::row_amax_with_tiles;
  }
  return detail::overlaps(x, q) ? errc::overlap : errc::ok;
}

/// Checks a quantized matrix that a quantizer writes: its amax must be brought to the quantizer's range.
template <class F, class Layout, class Quantizer>
FOURSCALE_H errc validate(block_scaled_view<F, Layout, u8> const& q, Quantizer const& quantizer) {
  if (const errc e = validate(q); e != errc::ok) return e;
  return q.amax.range == quantizer_range<F>(quantizer) ? errc::ok : errc::other_range;
}

/// The same, together with the matrix that it is quantized from.
template <matrix_like M, class F, class Layout, class Blocks, class Quantizer>
FOURSCALE_H errc validate(M const& x, block_scaled_view<F, Layout, u8> const& q, Blocks shape,
                          Quantizer const& quantizer) {
  if (const errc e = validate(x, q, shape); e != errc::ok) return e;
  return q.amax.range == quantizer_range<F>(quantizer) ? errc::ok : errc::other_range;
}

/// The same for a quantizer that works on groups of `group` consecutive values of a row.
template <matrix_like M, class F, class Layout, class Quantizer>
FOURSCALE_H errc validate_groups(M const& x, block_scaled_view<F, Layout, u8> const& q, int group,
                                 Quantizer const& quantizer) {
  if (const errc e = validate(x, q, blocks_1d{}, quantizer); e != errc::ok) return e;
  return x.cols % group != 0 ? errc::partial_block : errc::ok;
}

/// Checks both copies of x: q of x itself, and qt of its transpose. With 2-D blocks they share their scales,
/// so their amaxes must be equal.
template <matrix_like M, class F, class Layout, class LayoutT, class Blocks, class Rowwise, class Columnwise>
FOURSCALE_H errc validate_both(M const& x, block_scaled_view<F, Layout, u8> const& q,
                               block_scaled_view<F, LayoutT, u8> const& qt, Blocks shape,
                               Rowwise const& rowwise, Columnwise const& columnwise) {
  if (const errc e = validate(x, q, shape, rowwise); e != errc::ok) return e;
  if (const errc e = validate(transposed(x), qt, shape, columnwise); e != errc::ok) return e;
  if (Blocks::is_2d && F::has_tensor_scale && !(q.amax == qt.amax)) return errc::other_amax;
  return detail::overlaps(q, qt) || detail::overlaps(qt, q) ? errc::overlap : errc::ok;
}

/// Checks the transpose qt of a quantized matrix q, whose amax it takes over. An amax for each row is
/// refused: in the transpose, the rows are columns.
template <class F, class Layout, class Byte, class LayoutT>
FOURSCALE_H errc validate_transpose(block_scaled_view<F, Layout, Byte> const& q,
                                    block_scaled_view<F, LayoutT, u8> const& qt) {
  if (const errc e = validate(q); e != errc::ok) return e;
  if (const errc e = validate(qt); e != errc::ok) return e;
  if (q.rows != qt.cols || q.cols != qt.rows) return errc::shape_mismatch;
  if (F::has_tensor_scale && q.amax.kind == amax_kind::per_row) return errc::row_amax_with_tiles;
  if (F::has_tensor_scale && !(q.amax == qt.amax)) return errc::other_amax;
  return detail::overlaps(q, qt) ? errc::overlap : errc::ok;
}

/// Checks D = A * B^T with A (M x K), B (N x K), D (M x N). D must share no byte with A or B.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
FOURSCALE_H errc validate_gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                               matrix_view<T> const& d) {
  static_assert(detail::writable_view<matrix_view<T>>,
                "D is written: it must be a matrix_view<T>, not a matrix_view<T const>.");
  if (const errc e = validate(a); e != errc::ok) return e;
  if (const errc e = validate(b); e != errc::ok) return e;
  if (const errc e = validate(d); e != errc::ok) return e;
  if (a.cols != b.cols || d.rows != a.rows || d.cols != b.rows) return errc::shape_mismatch;
  return detail::overlaps(d, a) || detail::overlaps(d, b) ? errc::overlap : errc::ok;
}

/// The same where A (M x K) is a matrix of values, not quantized.
template <class T, class G, class LB, class BB, class U>
FOURSCALE_H errc validate_gemm(matrix_view<T> const& a, block_scaled_view<G, LB, BB> const& b,
                               matrix_view<U> const& d) {
  static_assert(detail::writable_view<matrix_view<U>>,
                "D is written: it must be a matrix_view<T>, not a matrix_view<T const>.");
  if (const errc e = validate(a); e != errc::ok) return e;
  if (const errc e = validate(b); e != errc::ok) return e;
  if (const errc e = validate(d); e != errc::ok) return e;
  if (a.cols != b.cols || d.rows != a.rows || d.cols != b.rows) return errc::shape_mismatch;
  return detail::overlaps(d, detail::bytes_of(a.data, a.extent())) || detail::overlaps(d, b) ? errc::overlap
                                                                                             : errc::ok;
}

/// Checks a transform of each N consecutive values of a row, from x to y.
template <int N, matrix_like M, class T>
FOURSCALE_H errc validate_transform(M const& x, matrix_view<T> const& y) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = validate(y); e != errc::ok) return e;
  if (x.rows != y.rows || x.cols != y.cols) return errc::shape_mismatch;
  if (x.cols % N != 0) return errc::partial_block;
  return overlaps(x, detail::bytes_of(y.data, y.extent())) ? errc::overlap : errc::ok;
}

}  // namespace FOURSCALE_NAMESPACE
