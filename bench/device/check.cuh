// SPDX-License-Identifier: Apache-2.0
// What the device wrote compared with what the host makes of the same values: every bit of codes and scales.
#pragma once

#include "harness.cuh"

namespace bench {

/// Rows of a source.
struct row_range {
  i64 first, count;
};

/// The rows that are compared: the first 2048 and, where the place of a value does not matter, the last ones;
/// all of them under FOURSCALE_EXHAUSTIVE=1. The tests compare whole matrices.
template <class Quantizer>
std::vector<row_range> compared_rows(i64 rows, Quantizer const& recipe) {
  constexpr i64 most = 2048;
  if (rows <= most || std::getenv("FOURSCALE_EXHAUSTIVE") != nullptr) return {{0, rows}};
  if (!__is_same(decltype(recipe.round), f4::nearest_even)) return {{0, most}};
  const i64 last = (rows - most) / 128 * 128;
  return {{0, most}, {last, rows - last}};
}

template <class T>
std::vector<T> to_host(T const* from, i64 count) {
  std::vector<T> v(static_cast<size_t>(count));
  require(cudaMemcpy(v.data(), from, v.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}
/// `bytes` bytes of each of `rows` rows, `pitch` apart.
inline std::vector<u8> to_host(u8 const* from, i64 rows, i64 bytes, i64 pitch) {
  std::vector<u8> v(static_cast<size_t>(rows * bytes));
  if (v.empty()) return v;
  require(cudaMemcpy2D(v.data(), static_cast<size_t>(bytes), from, static_cast<size_t>(pitch),
                       static_cast<size_t>(bytes), static_cast<size_t>(rows), cudaMemcpyDeviceToHost));
  return v;
}

/// Codes and scales of the rows `r` of x, or of those columns of q if it is the copy of transposed(x).
template <bool Transposed, class F, class Layout, class T, class Quantizer, class Blocks>
void check_rows(row_range r, f4::block_scaled_view<F, Layout> const& q, f4::matrix_view<T const> const& x,
                Quantizer const& recipe, Blocks shape) {
  const std::vector<T> values = to_host(x.data + r.first * x.ld, (r.count - 1) * x.ld + x.cols);
  const f4::matrix_view<T const> part{values, r.count, x.cols, x.ld};
  const i64 rows = Transposed ? q.rows : r.count, cols = Transposed ? r.count : q.cols;
  const i64 row = Transposed ? 0 : r.first, col = Transposed ? r.first : 0;

  std::vector<u8> codes(static_cast<size_t>(f4::code_bytes<F>(rows, cols)));
  std::vector<u8> scales(static_cast<size_t>(f4::scale_bytes<F, Layout>(rows, cols)) + 1);
  std::vector<float> amax;
  f4::block_scaled_view<F, Layout> h{codes, scales, rows, cols, q.amax};
  if (q.amax.in_memory()) {
    const bool of_rows = q.amax.kind == f4::amax_kind::per_row;
    amax = to_host(q.amax.data, of_rows ? q.rows : 1);
    h.amax.data = amax.data() + (of_rows ? row : 0);
  }
  if constexpr (Transposed)
    require(f4::host::quantize(f4::transposed(part), h, recipe, shape));
  else
    require(f4::host::quantize(part, h, recipe, shape));
  scales.pop_back();

  const i64 code_row = f4::code_bytes<F>(1, q.cols);
  require(to_host(q.codes + row * code_row + f4::code_bytes<F>(1, col), rows, f4::code_bytes<F>(1, cols),
                  code_row) == codes,
          "the codes differ from the host's");
  constexpr i64 band = Layout::padded_rows(1);  // of rows whose scales lie together
  u8 const* const from =
      q.scales + f4::scale_bytes<F, Layout>(row, q.cols) + f4::scale_bytes<F, Layout>(band, col);
  require(to_host(from, f4::ceil_div(rows, band), f4::scale_bytes<F, Layout>(band, cols),
                  f4::scale_bytes<F, Layout>(band, q.cols)) == scales,
          "the scales differ from the host's");
}

/// All pointers of q and x are device memory.
template <class F, class Layout, class T, class Quantizer, class Blocks = f4::blocks_1d>
void check(f4::block_scaled_view<F, Layout> const& q, f4::matrix_view<T const> const& x,
           Quantizer const& recipe, Blocks shape = {}) {
  for (const row_range r : compared_rows(x.rows, recipe)) check_rows<false>(r, q, x, recipe, shape);
}
template <class F, class Layout, class T, class Quantizer, class Blocks = f4::blocks_1d>
void check(f4::block_scaled_view<F, Layout> const& q, f4::transposed_view<T const> const& x,
           Quantizer const& recipe, Blocks shape = {}) {
  for (const row_range r : compared_rows(x.base.rows, recipe)) check_rows<true>(r, q, x.base, recipe, shape);
}

/// The first and the last values of both, every bit.
template <class T>
void check_same(T const* on_device, std::vector<T> const& want, char const* what) {
  const std::vector<T> got = to_host(on_device, static_cast<i64>(want.size()));
  require(__builtin_memcmp(got.data(), want.data(), want.size() * sizeof(T)) == 0, what);
}

}  // namespace bench
