// SPDX-License-Identifier: Apache-2.0
// The amaxes and both copies of many small matrices, in one launch for all (many.cuh). The CTAs do the same
// work as those of amax(), amax_both() and quantize_both().
#pragma once

#include "amax.cuh"
#include "copies.cuh"
#include "many.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Zeroes `count` floats from `at` on, at most 32.
struct clear_arguments {
  float* at;
  u32 count;
};
template <class Arguments>
FOURSCALE_KERNEL void clear_many_kernel(const __grid_constant__ many_arguments<Arguments> all) {
  Arguments const& one = all.of(all.find().problem);
  if (threadIdx.x < one.count) one.at[threadIdx.x] = 0.0f;
}

template <class T>
struct amax_arguments {
  matrix_view<T const> x;
  i32* largest;
};
template <int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_many_kernel(const __grid_constant__ many_arguments<amax_arguments<T>> all) {
  const auto at = all.find();
  amax_arguments<T> const& one = all.of(at.problem);
  raise_by_vectors<N>(one.x, at.cta, one.largest);
}

template <class T, class Transform>
struct column_amax_arguments {
  matrix_view<T const> x;
  Transform transform;
  i64 ctas_along;
  i32 *largest, *largest_transformed;
};
template <int N, class T, class Transform>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    column_amax_many_kernel(const __grid_constant__ many_arguments<column_amax_arguments<T, Transform>> all) {
  const auto at = all.find();
  auto const& one = all.of(at.problem);
  raise_by_columns<N>(one.x, one.transform, one.ctas_along, at.cta, one.largest, one.largest_transformed);
}

/// The tiles of one matrix: `along` in a row, `down` in a column.
template <class Copies>
struct tiles_arguments {
  Copies copies;
  u32 along, down;

  /// The place of the tile that CTA number `cta` of the matrix takes. CTAs begin at the last tile and take
  /// columns of place_of_tile::down tiles, as those of a grid for this matrix alone do.
  FOURSCALE_D typename Copies::place_of_tile place(u32 cta) const {
    constexpr u32 step = Copies::place_of_tile::down;
    const u32 at = along * down - 1 - cta, first = at / (along * step) * step, in_band = at - first * along,
              height = down - first < step ? down - first : step;
    return {copies.rows_inside, copies.cols_inside, {first + in_band % height, in_band / height}};
  }
};
template <class Copies>
FOURSCALE_KERNEL void __launch_bounds__(Copies::threads, cta::tile_ctas<Copies::tile_cols>)
    quantize_many_tiles_kernel(const __grid_constant__ many_arguments<tiles_arguments<Copies>> all) {
  __shared__ typename Copies::memory tile;
  const auto at = all.find();
  auto const& one = all.of(at.problem);
  cta::quantize_tile(one.copies, one.place(at.cta), tile);
}
template <class Copies>
FOURSCALE_KERNEL void __launch_bounds__(Copies::threads, square_ctas<Copies>)
    quantize_many_squares_kernel(const __grid_constant__ many_arguments<tiles_arguments<Copies>> all) {
  __shared__ typename Copies::memory tile;
  __shared__ shared_arguments<tiles_arguments<Copies>> own;
  const u32 at = own.take(all);
  cta::quantize_tile_of_squares(own.get().copies, own.get().place(at), tile);
}

/// Collects the amaxes of many matrices of T; those of the columnwise copies too, if Transform is not
/// identity. Call add() for each matrix, then run().
template <class F, class T, class Transform>
struct amaxes_of_many {
  static constexpr bool both = !same_type<Transform, identity>;
  static constexpr int n = both ? F::block_size : amax_values<T>;
  static constexpr bool can = !both || has_column_amax<n, T, Transform>;

  static auto kernel() {
    if constexpr (both)
      return &column_amax_many_kernel<n, T, decltype(Transform{}.prepared())>;
    else
      return &amax_many_kernel<n, T>;
  }
  static auto arguments() {
    if constexpr (both)
      return column_amax_arguments<T, decltype(Transform{}.prepared())>{
          {}, Transform{}.prepared(), 0, {}, {}};
    else
      return amax_arguments<T>{};
  }
  many_launches<clear_arguments> clears;
  many_launches<decltype(arguments())> launches;

  explicit amaxes_of_many(cudaStream_t stream)
      : clears{&clear_many_kernel<clear_arguments>, 32, stream}, launches{kernel(), cta_threads, stream} {}

  /// True if add() takes x.
  static bool fits(matrix_view<T const> const& x) {
    if constexpr (both)
      return fits_column_amax<n>(x, Transform{});
    else
      return fits_amax_vectors<n>(as_few_rows(x));
  }
  /// Writes the amax of x to *amax, and, if there are two, the second one to amax[1].
  errc add(matrix_view<T const> const& x, [[maybe_unused]] Transform const& t, float* amax) {
    i32* const largest = reinterpret_cast<i32*>(amax);
    if constexpr (both) {
      return add({x, t.prepared(), ceil_div<i64>(x.cols, 64), largest, largest + 1}, column_amax_ctas<n>(x),
                 amax);
    } else {
      const auto m = as_few_rows(x);
      return add({m, largest}, grid_for(amax_vector_threads<n>(m)), amax);
    }
  }
  errc run() {
    const errc e = clears.run();
    return e != errc::ok ? e : launches.run();
  }

 private:
  errc add(decltype(arguments()) const& one, i64 ctas, float* amax) {
    // Else `launches` would run by itself, before these amaxes are zeroed.
    if (launches.is_full(ctas))
      if (const errc e = run(); e != errc::ok) return e;
    if (const errc e = clears.add({amax, both ? 2u : 1u}, 1); e != errc::ok) return e;
    return launches.add(one, ctas);
  }
};

/// Collects both copies of many matrices of T. Call add() for each matrix, then run().
template <class T, class F, class L, bool Is2d, class Rowwise, class Columnwise>
struct copies_of_many {
  static constexpr path best = best_path_of_both<F, Is2d, T, Rowwise, Columnwise>();
  static constexpr bool can = best == path::both || best == path::both_squares;
  static auto prepared(auto const& quantizer) {
    if constexpr (Is2d)
      return quantizer;
    else
      return cta::prepared(quantizer);
  }
  using copies =
      cta::tile_copies<T, F, L, L, decltype(prepared(Rowwise{})), decltype(prepared(Columnwise{}))>;
  static auto kernel() {
    if constexpr (Is2d)
      return &quantize_many_squares_kernel<copies>;
    else
      return &quantize_many_tiles_kernel<copies>;
  }
  many_launches<tiles_arguments<copies>> launches;

  explicit copies_of_many(cudaStream_t stream)
      : launches{kernel(), static_cast<int>(copies::threads), stream} {}

  /// True if add() takes the matrix. It takes no large ones, because their scales have a kernel of their own.
  static bool fits(matrix_view<T const> const& x, block_scaled_view<F, L> const& q,
                   block_scaled_view<F, L> const& qt) {
    return x.rows * x.cols < spread_from && path_of_both<Is2d, Rowwise, Columnwise>(x, q, qt) == best;
  }
  errc add(matrix_view<T const> const& x, block_scaled_view<F, L> const& q, block_scaled_view<F, L> const& qt,
           Rowwise const& rowwise, Columnwise const& columnwise) {
    copies p{x, q, qt, prepared(rowwise), prepared(columnwise)};
    const auto [along, down] = complete_tiles(p);
    return launches.add({p, static_cast<u32>(along), static_cast<u32>(down)}, along * down);
  }
  errc run() { return launches.run(); }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
