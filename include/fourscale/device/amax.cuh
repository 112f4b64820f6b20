// SPDX-License-Identifier: Apache-2.0
// The amax (largest magnitude) of a matrix, on a stream: as it is, after a transform, for both copies from
// one read, or of each row.
#pragma once

#include "../cta/quantize_block.cuh"
#include "../transform/hadamard.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// For rows that are aligned to 16 bytes, with x.cols a multiple of N. A thread takes four vectors of N
/// values, and loads all of them before it uses the first. `cta` is the number of the CTA.
inline constexpr int amax_vectors = 4;
template <int N, class T>
FOURSCALE_D void raise_by_vectors(matrix_view<T const> const& x, u32 cta, i32* largest) {
  const i64 along = x.cols / N, count = x.rows * along;
  const i64 first = cta * i64{cta_threads * amax_vectors} + threadIdx.x;
  cta::values<T, N> raw[amax_vectors] = {};
  FOURSCALE_UNROLL
  for (int k = 0; k < amax_vectors; ++k) {
    const i64 i = first + k * cta_threads, row = x.rows == 1 ? 0 : i / along;
    if (i < count) raw[k] = cta::values<T, N>::load(&x.at(row, (i - row * along) * N));
  }
  i32 mine = 0;
  FOURSCALE_UNROLL
  for (int k = 0; k < amax_vectors; ++k) {
    const i32 magnitude = bit_cast<i32>(raw[k].amax());
    mine = magnitude > mine ? magnitude : mine;
  }
  raise_by_cta(mine, largest);
}
template <int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_vectors_kernel(matrix_view<T const> x, i32* largest) {
  raise_by_vectors<N>(x, blockIdx.x, largest);
}
/// The number of threads that raise_by_vectors() takes.
template <int N, class T>
i64 amax_vector_threads(matrix_view<T const> const& x) {
  return ceil_div<i64>(x.rows * (x.cols / N), amax_vectors);
}
template <int N, class T>
bool fits_amax_vectors(matrix_view<T const> const& x) {
  return x.cols % N == 0 && rows_are_vectors(x);
}
/// The N of raise_by_vectors() for values of T: 32 bytes.
template <class T>
inline constexpr int amax_values = 32 / static_cast<int>(sizeof(T));
/// The matrix as one long row if there are no gaps between rows: the kernel then needs no division.
template <class T>
matrix_view<T const> as_few_rows(matrix_view<T const> const& x) {
  if (x.ld == x.cols) return {x.data, 1, x.rows * x.cols};
  return x;
}

/// For any rows, value by value.
template <class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads) amax_kernel(matrix_view<T const> x, i32* largest) {
  i32 mine = 0;
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < x.rows * x.cols;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = x.rows == 1 ? 0 : i / x.cols;
    const i32 magnitude = amax_bits(to_float(x.at(row, i - row * x.cols)));
    mine = magnitude > mine ? magnitude : mine;
  }
  raise_by_cta(mine, largest);
}

/// A thread takes N values of a row, transforms them, and keeps the largest magnitude.
template <int N, class M, class Transform>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    transformed_amax_kernel(M x, bool vectors, Transform transform, i32* largest) {
  const i64 blocks = x.cols / N;
  i32 mine = 0;
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < x.rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % x.rows : i / blocks,
              block = M::is_transposed ? i / x.rows : i % blocks;
    float values[N];
    load_block(x, row, block, vectors, values);
    transform(values);
    const i32 magnitude = bit_cast<i32>(block_amax(values));
    mine = magnitude > mine ? magnitude : mine;
  }
  raise_by_cta(mine, largest);
}

/// The larger one of `most` and the largest magnitude that the transform makes of two columns, before it is
/// rounded to bf16. Rounding keeps the order, so the caller rounds only the largest of all.
template <int N, class T, int M>
FOURSCALE_D float larger_sum(cta::column_pair<T, N> const& columns,
                             fourscale::prepared_hadamard<M> const& transform, float most) {
  FOURSCALE_UNROLL
  for (int which = 0; which < 2; ++which) {
    float sums[N];
    transform.sums(cta::column_block<T, N>{&columns, which}, sums);
    FOURSCALE_UNROLL
    for (int j = 0; j < N; ++j) most = fmaxf(most, fabsf(sums[j]));  // NaN is dropped
  }
  return most;
}

/// Finds the amax of 16-bit values in memory (unless `largest` is null), and that of their columns after the
/// transform of N rows at a time. A thread takes two columns over 4 * N rows; x.rows is a multiple of N. All
/// threads of a CTA call it.
inline constexpr int column_blocks = 4, column_warps = cta_threads / 32;
template <int N, class T, int M>
FOURSCALE_D void raise_by_columns(matrix_view<T const> const& x,
                                  fourscale::prepared_hadamard<M> const& transform, i64 ctas_along, u32 cta,
                                  i32* largest, i32* largest_transformed) {
  const i64 cta_row = cta / ctas_along;
  const i64 col = (cta - cta_row * ctas_along) * 64 + threadIdx.x % 32 * 2;
  i64 row = cta_row * (N * column_blocks * column_warps) + threadIdx.x / 32 * (N * column_blocks);
  u32 plain = 0;
  float most = 0.0f;
#pragma unroll 1
  for (int i = 0; i < column_blocks && row < x.rows && col < x.cols; ++i, row += N) {
    const cta::column_pair<T, N> columns(reinterpret_cast<u32 const*>(&x.at(row, col)), x.ld / 2);
    plain = cta::detail::larger_magnitudes<T, false>(plain, columns.template magnitudes<false>());
    most = larger_sum(columns, transform, most);
  }
  if (largest != nullptr) {
    raise_by_cta(bit_cast<i32>(cta::detail::pair_amax<T, false>(plain)), largest);
    __syncthreads();
  }
  raise_by_cta(bit_cast<i32>(to_float(from_float<bf16>(most))), largest_transformed);
}
template <int N, class T, int M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    column_amax_kernel(matrix_view<T const> x, fourscale::prepared_hadamard<M> transform, i64 ctas_along,
                       i32* largest, i32* largest_transformed) {
  raise_by_columns<N>(x, transform, ctas_along, blockIdx.x, largest, largest_transformed);
}

/// Zeroes two amaxes: by one operation if they are neighbours in memory.
inline errc clear_amaxes(float* amax, float* amax_t, cudaStream_t stream) {
  const bool side_by_side = amax_t == amax + 1;
  cudaError_t e = cudaMemsetAsync(amax, 0, side_by_side ? 2 * sizeof(float) : sizeof(float), stream);
  if (e == cudaSuccess && !side_by_side) e = cudaMemsetAsync(amax_t, 0, sizeof(float), stream);
  return e == cudaSuccess ? errc::ok : errc::cuda_failed;
}

template <int N, class T>
i64 column_amax_ctas(matrix_view<T const> const& x) {
  return ceil_div<i64>(x.cols, 64) * ceil_div<i64>(x.rows, N * column_blocks * column_warps);
}
/// True for 16-bit values and a transform with a fast form for them.
template <int N, class T, class Transform>
inline constexpr bool has_column_amax = cta::is_packed<T>&& requires(Transform const t) {
  t.prepared().factors;
};
/// True if, in addition, x can be read in pairs of 16-bit values.
template <int N, class T, class Transform>
bool fits_column_amax(matrix_view<T const> const& x, [[maybe_unused]] Transform const& transform) {
  return has_column_amax<N, T, Transform> && x.ld % 2 == 0 && x.cols % 2 == 0 &&
         reinterpret_cast<u64>(x.data) % 4 == 0 && column_amax_ctas<N>(x) <= 0x7fff'ffff;
}
template <int N, class T, class Transform>
void launch_column_amax(matrix_view<T const> const& x, Transform const& transform, float* amax, float* amax_t,
                        cudaStream_t stream) {
  if constexpr (has_column_amax<N, T, Transform>)
    column_amax_kernel<N><<<static_cast<unsigned>(column_amax_ctas<N>(x)), cta_threads, 0, stream>>>(
        x, transform.prepared(), ceil_div<i64>(x.cols, 64), reinterpret_cast<i32*>(amax),
        reinterpret_cast<i32*>(amax_t));
}

/// The amax of each row. In a matrix in memory a warp takes a row. In a transposed matrix a thread takes 1024
/// values of a row, so that neighbouring threads, which take neighbouring rows, read neighbours in memory.
inline constexpr i64 row_chunk = 1024;
template <class M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads) row_amax_kernel(M x, i32* out) {
  const i64 thread = blockIdx.x * i64{cta_threads} + threadIdx.x;
  const i64 row = M::is_transposed ? thread % x.rows : thread / 32;
  const i64 first = M::is_transposed ? thread / x.rows * row_chunk : thread % 32;
  if (row >= x.rows || first >= (M::is_transposed ? x.cols : 32)) return;
  const i64 end = M::is_transposed && first + row_chunk < x.cols ? first + row_chunk : x.cols;
  i32 mine = 0;
  for (i64 col = first; col < end; col += M::is_transposed ? 1 : 32) {
    const i32 magnitude = amax_bits(to_float(x.at(row, col)));
    mine = magnitude > mine ? magnitude : mine;
  }
  if constexpr (M::is_transposed) {
    atomicMax(out + row, mine);
  } else {
    mine = __reduce_max_sync(0xffff'ffffu, mine);
    if (threadIdx.x % 32 == 0) out[row] = mine;
  }
}

}  // namespace detail

/// Writes the largest magnitude of x to *amax (device memory): NaN is dropped, infinity stays. A separate
/// step from quantize(), so that ranks can reduce it in between. Two operations on the stream (a 4-byte
/// memset and a kernel), graph-capturable; never synchronises, never allocates. Errors: see validate(); *amax
/// is then untouched.
template <class T>
errc amax(matrix_view<T> const& x, float* amax, cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  const auto m = detail::as_few_rows(detail::as_input(x));
  constexpr int n = detail::amax_values<T>;
  if (cudaMemsetAsync(amax, 0, sizeof(float), stream) != cudaSuccess) return errc::cuda_failed;
  i32* const largest = reinterpret_cast<i32*>(amax);
  if (detail::fits_amax_vectors<n>(m)) {
    const unsigned ctas = detail::grid_for(detail::amax_vector_threads<n>(m));
    detail::amax_vectors_kernel<n><<<ctas, detail::cta_threads, 0, stream>>>(m, largest);
  } else {
    detail::amax_kernel<<<detail::few_ctas(m.rows * m.cols), detail::cta_threads, 0, stream>>>(m, largest);
  }
  return detail::launched();
}

/// As above, after `transform` of N consecutive values of each row at a time. Also rejects an x.cols that is
/// no multiple of N.
template <int N, matrix_like M, transform_policy<N> Transform>
errc amax(M const& x, Transform const& transform, float* amax, cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (x.cols % N != 0) return errc::partial_block;
  if (const errc e = fourscale::detail::check_amax_output(amax); e != errc::ok) return e;
  if (cudaMemsetAsync(amax, 0, sizeof(float), stream) != cudaSuccess) return errc::cuda_failed;
  const auto input = detail::as_input(x);
  if constexpr (M::is_transposed && requires { input.base.ld; })
    if (detail::fits_column_amax<N>(input.base, transform)) {
      detail::launch_column_amax<N>(input.base, transform, nullptr, amax, stream);
      return detail::launched();
    }
  detail::transformed_amax_kernel<N>
      <<<detail::few_ctas(x.rows * (x.cols / N)), detail::cta_threads, 0, stream>>>(
          input, detail::rows_are_vectors(input), transform, reinterpret_cast<i32*>(amax));
  return detail::launched();
}

/// The amax that quantize() to format F needs if its quantizer transforms. For instance,
/// amax<nvfp4>(transposed(x), hadamard<16>{signs}, ...) is the amax of the columnwise copy.
template <block_format F, matrix_like M, transform_policy<F::block_size> Transform>
errc amax(M const& x, Transform const& transform, float* out, cudaStream_t stream = nullptr) {
  return amax<F::block_size>(x, transform, out, stream);
}

/// Both amaxes of a tensor: *amax is that of x, for the rowwise copy; *amax_t is that of transposed(x) after
/// `transform`, for the columnwise one. x is read once if the transform is a Hadamard transform to bf16 and x
/// holds pairs of 16-bit values (an even number in a row, rows at multiples of 4 bytes), otherwise twice. One
/// memset or two, and a kernel or two; never synchronises, never allocates. Also rejects an x.rows that is no
/// multiple of the block size; both outputs are then untouched.
template <block_format F, class T, transform_policy<F::block_size> Transform>
errc amax_both(matrix_view<T> const& x, Transform const& transform, float* amax, float* amax_t,
               cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  const auto m = detail::as_input(x);
  if (x.rows % F::block_size != 0) return errc::partial_block;
  float* const outputs[] = {amax, amax_t};
  for (float* out : outputs)
    if (const errc e = fourscale::detail::check_amax_output(out); e != errc::ok) return e;
  if (detail::fits_column_amax<F::block_size>(m, transform)) {
    if (const errc e = detail::clear_amaxes(amax, amax_t, stream); e != errc::ok) return e;
    detail::launch_column_amax<F::block_size>(m, transform, amax, amax_t, stream);
    return detail::launched();
  }
  if (const errc e = device::amax(x, amax, stream); e != errc::ok) return e;
  return device::amax<F>(transposed(x), transform, amax_t, stream);
}

/// Writes the largest magnitude of each row to out[0 .. x.rows) (device memory), for amax_of_rows(). The rows
/// of transposed(x) are the columns of x: their amaxes are for the columnwise copy. Errors as amax().
template <matrix_like M>
errc row_amax(M const& x, float* out, cudaStream_t stream = nullptr) {
  if (const errc e = validate(x); e != errc::ok) return e;
  if (const errc e = fourscale::detail::check_amax_output(out); e != errc::ok) return e;
  const cudaError_t cleared = cudaMemsetAsync(out, 0, static_cast<u64>(x.rows) * sizeof(float), stream);
  if (cleared != cudaSuccess) return errc::cuda_failed;
  const i64 threads = x.rows * (M::is_transposed ? ceil_div(x.cols, detail::row_chunk) : i64{32});
  detail::row_amax_kernel<<<detail::grid_for(threads), detail::cta_threads, 0, stream>>>(
      detail::as_input(x), reinterpret_cast<i32*>(out));
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
