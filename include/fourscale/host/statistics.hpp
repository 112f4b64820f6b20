// SPDX-License-Identifier: Apache-2.0
// The error of a quantized matrix, on the CPU.
#pragma once

#include "../block/statistics.hpp"
#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// Joins neighbours until s[0] has all of s[0 .. N).
template <int N>
void join_neighbours(statistics (&s)[N]) {
  static_assert((N & (N - 1)) == 0, "Neighbours are joined in a binary tree.");
  for (int distance = 1; distance < N; distance *= 2)
    for (int i = 0; i < N; i += 2 * distance) s[i] += s[i + distance];
}

/// The strips of one walk, lane by lane.
template <matrix_like M, class F, class Layout, class Byte>
statistics walk_statistics(M const& x, block_scaled_view<F, Layout, Byte> const& q, i64 walk) {
  using strips = fourscale::detail::strip_walk;
  strips at(q.rows, walk);
  if (at.first_block >= q.blocks()) return {};
  statistics lanes[strips::width];
  for (const i64 rows_on = at.rows_on(), blocks_on = at.blocks_on(); at.first_block < q.blocks();
       at.next(rows_on, blocks_on)) {
    const tensor_scale<F> tensor = q.amax.scale_of_row(at.row);
    for (int lane = 0; lane < strips::width && at.first_block + lane < q.blocks(); ++lane) {
      const position where{at.row, (at.first_block + lane) * F::block_size};
      float values[F::block_size];
      for (int i = 0; i < F::block_size; ++i) values[i] = to_float(x.at(where.row, where.col + i));
      lanes[lane] +=
          block_statistics<F>(values, q.load(where.row, at.first_block + lane), tensor, where, q.cols);
    }
  }
  join_neighbours(lanes);
  return lanes[0];
}

}  // namespace detail

/// Compares q with the matrix it was quantized from (or with transposed(x), for a columnwise copy; with the
/// transformed matrix, where the quantizer transforms). 2-D blocks count once for each of their rows. On all
/// cores under OpenMP; the result does not depend on their number, and is that of device::statistics_of().
/// Errors: see validate(); *out is then untouched.
template <matrix_like M, class F, class Layout, class Byte>
errc statistics_of(M const& x, block_scaled_view<F, Layout, Byte> const& q, statistics* out) {
  if (const errc e = validate(x, q); e != errc::ok) return e;
  if (out == nullptr) return errc::null_pointer;
  constexpr int groups = 32, of_group = fourscale::detail::strip_walk::walks / groups;
  statistics all[groups];
#ifdef _OPENMP
#pragma omp parallel for if (q.rows * q.cols > 65536)
#endif
  for (int group = 0; group < groups; ++group) {
    statistics walks[of_group];
    for (int i = 0; i < of_group; ++i) walks[i] = detail::walk_statistics(x, q, group * i64{of_group} + i);
    detail::join_neighbours(walks);
    all[group] = walks[0];
  }
  detail::join_neighbours(all);
  *out = all[0];
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
