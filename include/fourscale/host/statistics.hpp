// SPDX-License-Identifier: Apache-2.0
// The quantization error of a matrix (block/statistics.hpp), on the CPU. Sums are in the fixed order that
// strip_walk defines there, so host and device give the same bits.
#pragma once

#include "../block/statistics.hpp"
#include "../view/validate.hpp"

namespace FOURSCALE_NAMESPACE::host {
inline namespace FOURSCALE_CPU {

namespace detail {

/// Joins neighbours in a binary tree, until s[0] has all of s[0 .. n). Further empty statistics would not
/// change the result.
inline void join_neighbours(statistics* s, i64 n) {
  for (i64 distance = 1; distance < n; distance *= 2)
    for (i64 i = 0; i + distance < n; i += 2 * distance) s[i] += s[i + distance];
}

/// The statistics of the strips of one walk: summed for each lane, then joined. The walk must have a strip.
template <matrix_like M, class F, class Layout, class Byte>
statistics walk_statistics(M const& x, block_scaled_view<F, Layout, Byte> const& q, i64 walk) {
  using strips = fourscale::detail::strip_walk;
  strips at(q.rows, walk);
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
  join_neighbours(lanes, q.blocks() < strips::width ? q.blocks() : strips::width);
  return lanes[0];
}

}  // namespace detail

/// Compares q with x, the matrix that it was quantized from. For a columnwise copy pass transposed(x); if the
/// quantizer transforms, pass the transformed matrix. 2-D blocks count once for each of their rows. It uses
/// all cores under OpenMP; the result does not depend on their number, and is that of
/// device::statistics_of(). Errors: see validate(); *out is then untouched.
template <matrix_like M, class F, class Layout, class Byte>
errc statistics_of(M const& x, block_scaled_view<F, Layout, Byte> const& q, statistics* out) {
  if (const errc e = validate(x, q); e != errc::ok) return e;
  if (out == nullptr) return errc::null_pointer;
  using strips = fourscale::detail::strip_walk;
  constexpr i64 groups = 32, of_group = strips::walks / groups;
  const i64 walks_with_blocks = q.rows * ceil_div<i64>(q.blocks(), strips::width);  // they come first
  statistics all[groups];
#ifdef _OPENMP
#pragma omp parallel for if (q.rows * q.cols > 65536)
#endif
  for (i64 group = 0; group < groups; ++group) {
    const i64 left = walks_with_blocks - group * of_group;
    if (left <= 0) continue;
    statistics walks[of_group];
    const i64 count = left < of_group ? left : of_group;
    for (i64 i = 0; i < count; ++i) walks[i] = detail::walk_statistics(x, q, group * of_group + i);
    detail::join_neighbours(walks, count);
    all[group] = walks[0];
  }
  detail::join_neighbours(all, groups);
  *out = all[0];
  return errc::ok;
}

}  // namespace FOURSCALE_CPU
}  // namespace FOURSCALE_NAMESPACE::host
