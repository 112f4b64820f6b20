// SPDX-License-Identifier: Apache-2.0
// The amax of a matrix that is never in memory but made by a producer (cta/producer.cuh), on a stream.
#pragma once

#include "../cta/producer.cuh"
#include "amax.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The type and the number of the values in a producer's block.
template <class Block>
struct block_of;
template <class T, int N>
struct block_of<cta::values<T, N>> {
  using value = T;
  static constexpr int size = N;
};

/// A thread takes four blocks; the producer makes all of them before it uses the first.
template <cta::producer Producer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    producer_amax_kernel(Producer source, i64 along, i32* largest) {
  const i64 count = source.rows * along, first = blockIdx.x * i64{cta_threads * amax_vectors} + threadIdx.x;
  typename Producer::block_type made[amax_vectors] = {};
  FOURSCALE_UNROLL
  for (int k = 0; k < amax_vectors; ++k) {
    const i64 i = first + k * cta_threads, row = i / along;
    if (i < count) made[k] = source.load(cta::place_in(along, row, i - row * along));
  }
  i32 mine = 0;
  FOURSCALE_UNROLL
  for (int k = 0; k < amax_vectors; ++k) {
    const i32 magnitude = bit_cast<i32>(made[k].amax());
    mine = magnitude > mine ? magnitude : mine;
  }
  raise_by_cta(mine, largest);
}

/// Both amaxes. A CTA calls the producer for a tile of 128 rows x 64 columns and keeps its values in shared
/// memory; then it goes through the tile by columns for the second amax.
inline constexpr int amax_tile_rows = 128, amax_tile_cols = 64;
template <int N, cta::producer Producer, int M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    producer_amax_both_kernel(Producer source, fourscale::prepared_hadamard<M> transform, i64 ctas_along,
                              i32* largest, i32* largest_transformed) {
  using T = typename block_of<typename Producer::block_type>::value;
  constexpr int along = amax_tile_cols / N, pairs = amax_tile_cols / 2;
  __shared__ __align__(16) u32 words[amax_tile_rows][pairs];
  const i64 cta_row = blockIdx.x / ctas_along, first_row = cta_row * amax_tile_rows,
            first_block = (blockIdx.x - cta_row * ctas_along) * along;
  i32 mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < amax_tile_rows * along; i += cta_threads) {
    const int r = i / along, b = i % along;
    typename Producer::block_type made{};
    if (first_row + r < source.rows && first_block + b < source.cols / N)
      made = source.load(cta::place_in(source.cols / N, first_row + r, first_block + b));
    const i32 magnitude = bit_cast<i32>(made.amax());
    mine = magnitude > mine ? magnitude : mine;
    made.store(reinterpret_cast<T*>(&words[r][b * (N / 2)]));
  }
  raise_by_cta(mine, largest);
  __syncthreads();
  float most = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < amax_tile_rows / N * pairs; i += cta_threads)
    most = larger_sum(cta::column_pair<T, N>(&words[i / pairs * N][i % pairs], pairs), transform, most);
  raise_by_cta(bit_cast<i32>(to_float(from_float<bf16>(most))), largest_transformed);
}

template <cta::producer Producer>
errc validate_producer(Producer const& source, float const* amax) {
  using block = block_of<typename Producer::block_type>;
  if (const errc e = fourscale::detail::check_shape(source.rows, source.cols); e != errc::ok) return e;
  if (source.cols % block::size != 0) return errc::partial_block;
  return fourscale::detail::check_amax_output(amax);
}

}  // namespace detail

/// Writes the largest magnitude of what a producer makes to *amax (device memory), as amax() of the matrix
/// gives it. The producer is asked for each block once. A memset of 4 bytes and a kernel on the stream,
/// graph-capturable; never synchronises, never allocates. Errors: empty_matrix, too_large, partial_block,
/// null_pointer, misaligned; *amax is then untouched.
template <cta::producer Producer>
errc amax(Producer const& source, float* amax, cudaStream_t stream = nullptr) {
  if (const errc e = detail::validate_producer(source, amax); e != errc::ok) return e;
  const i64 along = source.cols / detail::block_of<typename Producer::block_type>::size,
            ctas = ceil_div<i64>(source.rows * along, detail::cta_threads * detail::amax_vectors);
  if (ctas > 0x7fff'ffff) return errc::too_large;
  if (cudaMemsetAsync(amax, 0, sizeof(float), stream) != cudaSuccess) return errc::cuda_failed;
  detail::producer_amax_kernel<<<static_cast<unsigned>(ctas), detail::cta_threads, 0, stream>>>(
      source, along, reinterpret_cast<i32*>(amax));
  return detail::launched();
}

/// Both amaxes of what a producer of 16-bit values makes, under a Hadamard transform to bf16, as amax_both()
/// of the matrix gives them. The producer is asked for each block once. One memset or two, and a kernel on
/// the stream. Errors: as above, and partial_block for a number of rows that is no multiple of the block
/// size; both outputs are then untouched.
template <block_format F, cta::producer Producer, transform_policy<F::block_size> Transform>
errc amax_both(Producer const& source, Transform const& transform, float* amax, float* amax_t,
               cudaStream_t stream = nullptr) {
  constexpr int n = F::block_size;
  using block = detail::block_of<typename Producer::block_type>;
  static_assert(block::size == n && detail::has_column_amax<n, typename block::value, Transform>,
                "Both amaxes of a producer are those of 16-bit values, in blocks of the format, under a "
                "Hadamard transform to bf16.");
  for (float const* out : {amax, amax_t})
    if (const errc e = detail::validate_producer(source, out); e != errc::ok) return e;
  if (source.rows % n != 0) return errc::partial_block;
  const i64 along = ceil_div<i64>(source.cols, detail::amax_tile_cols),
            ctas = along * ceil_div<i64>(source.rows, detail::amax_tile_rows);
  if (ctas > 0x7fff'ffff) return errc::too_large;
  if (const errc e = detail::clear_amaxes(amax, amax_t, stream); e != errc::ok) return e;
  detail::producer_amax_both_kernel<n><<<static_cast<unsigned>(ctas), detail::cta_threads, 0, stream>>>(
      source, transform.prepared(), along, reinterpret_cast<i32*>(amax), reinterpret_cast<i32*>(amax_t));
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
