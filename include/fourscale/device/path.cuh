// SPDX-License-Identifier: Apache-2.0
// Decides which kernel a call takes, for the launch and for explain() alike: first by types, so that only
// kernels that some call can take are compiled; then by the buffers and amaxes of the call.
#pragma once

#include "quantize_2d.cuh"
#include "quantize_rows.cuh"
#include "quantize_tiles.cuh"
#include "quantize_wide.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {
namespace detail {

/// The kernels. docs/pipeline.md has a table of which call takes which.
enum class path : u8 {
  rows,             ///< 1-D blocks along rows, of a matrix in memory or of a producer
  wide,             ///< blocks of 128, or 128 x 128, of a matrix in memory, by several threads each
  wide_columns,     ///< the same along columns, by tiles of 128 x 128
  columns,          ///< 1-D blocks along columns of a matrix in memory, by tiles
  values,           ///< 1-D blocks of any view, value by value
  row_squares,      ///< 2-D blocks of a matrix in memory, by tiles
  column_squares,   ///< the same, the columnwise copy
  rows_of_squares,  ///< 2-D blocks of any view
  both,             ///< both copies of a matrix in memory, by tiles
  both_squares,     ///< the same in 2-D blocks
  both_wide,        ///< both copies in blocks of 128, or 128 x 128, by tiles of 128 x 128
  one_by_one,       ///< both copies, each by a path of its own; in 2-D blocks the second from the first
};

constexpr bool is_by_tiles(path p) {
  return p == path::columns || p == path::row_squares || p == path::column_squares || p == path::both ||
         p == path::both_squares;
}

/// From this number of values on, a separate kernel for the scales of squares is worth its launch; measured
/// on an H200.
inline constexpr i64 spread_from = i64{1} << 26;

/// What as_input() returns for a view: a matrix in memory, its transpose, or anything else.
enum class source : u8 { matrix, transposed, other };
template <class M>
inline constexpr source source_of = source::other;
template <class T>
inline constexpr source source_of<matrix_view<T const>> = source::matrix;
template <class T>
inline constexpr source source_of<transposed_view<T const>> = source::transposed;

/// The matrix in memory behind either of the two.
template <class T>
matrix_view<T const> const& in_memory(matrix_view<T const> const& x) {
  return x;
}
template <class T>
matrix_view<T const> const& in_memory(transposed_view<T const> const& x) {
  return x.base;
}

/// The path that the types of a call allow.
template <class F, bool Is2d, class M, class Quantizer>
constexpr path best_path() {
  using value = typename M::value_type;
  constexpr source from = source_of<M>;
  if constexpr (from == source::other) return Is2d ? path::rows_of_squares : path::values;
  if (is_loadable<value> && cta::is_wide<F, Quantizer>)
    return from == source::matrix ? path::wide : path::wide_columns;
  if constexpr (Is2d) {
    if (!has_tiles<value, F> || !cta::has_like_squares<F, Quantizer>) return path::rows_of_squares;
    return from == source::matrix ? path::row_squares : path::column_squares;
  }
  if (from == source::matrix) return is_loadable<value> ? path::rows : path::values;
  return has_tiles<value, F> ? path::columns : path::values;
}

/// The path of a call: the best one, or, if tiles do not fit its buffers, the one that takes any buffers.
template <bool Is2d, class Quantizer, class M, class F, class Layout>
path path_of(M const& x, block_scaled_view<F, Layout> const& q) {
  constexpr path best = best_path<F, Is2d, M, Quantizer>();
  if constexpr (is_by_tiles(best))
    if (!fits_tiles(in_memory(x), q)) return Is2d ? path::rows_of_squares : path::values;
  return best;
}

/// True if both copies have the same type of quantizer, and it rounds squares alike.
template <class F, class Rowwise, class Columnwise>
inline constexpr bool both_like_squares = same_type<Rowwise, Columnwise>&& cta::has_like_squares<F, Rowwise>;

/// True if the columnwise copy of squares of 128 x 128, made from the source, is the transpose of the rowwise
/// one: that is so if both have the same quantizer, which rounds each value by itself.
template <class F, class T, class Rowwise, class Columnwise>
inline constexpr bool both_wide_squares = is_loadable<T>&& same_type<Rowwise, Columnwise>&&
    cta::is_wide<F, Rowwise>&& same_type<decltype(Rowwise::round), nearest_even>;

/// The path that the types allow for both copies of a matrix of T, and below it the path of a call.
template <class F, bool Is2d, class T, class Rowwise, class Columnwise>
constexpr path best_path_of_both() {
  constexpr bool wide = is_loadable<T> && cta::is_wide<F, Rowwise> && cta::is_wide<F, Columnwise>;
  if (Is2d ? both_wide_squares<F, T, Rowwise, Columnwise> : wide) return path::both_wide;
  constexpr bool squares = has_tiles<T, F> || (same_type<T, float> && has_tiles<bf16, F>);
  if (Is2d)
    return squares && both_like_squares<F, Rowwise, Columnwise> ? path::both_squares : path::one_by_one;
  return has_tiles<T, F> ? path::both : path::one_by_one;
}
template <bool Is2d, class Rowwise, class Columnwise, class T, class F, class Layout, class LayoutT>
path path_of_both(matrix_view<T const> const& x, block_scaled_view<F, Layout> const& q,
                  block_scaled_view<F, LayoutT> const& qt) {
  constexpr path best = best_path_of_both<F, Is2d, T, Rowwise, Columnwise>();
  if constexpr (is_by_tiles(best))
    if (!fits_tiles(x, q) || !fits_tiles(x, qt) || q.amax.by_row() || qt.amax.by_row())
      return path::one_by_one;
  return best;
}

}  // namespace detail
}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
