// SPDX-License-Identifier: Apache-2.0
// Whole matrices on a stream. The kernels are loops around quantize_block(), so their bits are those of the
// host.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device {

namespace detail {

/// One block of a row as floats: contiguous in a matrix, one value from each of N rows in a transposed one.
template <int N, class T>
FOURSCALE_D void load_block(matrix_view<T const> const& x, i64 row, i64 block, bool vectors,
                            float (&values)[N]) {
  load_values<N>(&x.at(row, block * N), vectors, values);
}
template <int N, class T>
FOURSCALE_D void load_block(transposed_view<T const> const& x, i64 row, i64 block, bool, float (&values)[N]) {
  FOURSCALE_UNROLL
  for (int i = 0; i < N; ++i) values[i] = to_float(x.at(row, block * N + i));
}

template <class F, class Layout>
FOURSCALE_D void store_block(block_scaled_view<F, Layout> const& q, i64 row, i64 block,
                             packed_block<F> const& b) {
  q.scales[q.scale_offset(row, block)] = b.scale.bits;
  store_codes(b.codes, q.codes + q.code_offset(row, block));
}

/// A thread takes a block. Neighbouring threads take neighbours in memory: the next block of the row, or for
/// a transposed matrix the next row. Blocks of the padding store a zero scale.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_1d_kernel(M x, bool vectors, block_scaled_view<F, Layout> q, float const* amax,
                       Quantizer recipe) {
  const tensor_scale<F> tensor = shared_tensor_scale<F>(amax, q.tensor_scale);
  const i64 rows = Layout::padded_rows(q.rows), blocks = Layout::padded_blocks(q.blocks());
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % rows : i / blocks,
              block = M::is_transposed ? i / rows : i % blocks;
    if (row < q.rows && block < q.blocks()) {
      float values[F::block_size];
      load_block(x, row, block, vectors, values);
      store_block(q, row, block,
                  quantize_block<F>(values, recipe, tensor, position{row, block * F::block_size}));
    } else {
      q.scales[q.scale_offset(row, block)] = 0;
    }
  }
}

/// As many neighbouring lanes as a tile has rows take it, a row each; they share its amax by shuffles.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_2d_kernel(M x, bool vectors, block_scaled_view<F, Layout> q, float const* amax,
                       Quantizer recipe) {
  constexpr int n = F::block_size;
  static_assert(32 % n == 0, "A tile must fit the lanes of a warp.");
  const tensor_scale<F> tensor = shared_tensor_scale<F>(amax, q.tensor_scale);
  const i64 rows = round_up<i64>(Layout::padded_rows(q.rows), n), blocks = Layout::padded_blocks(q.blocks());
  // rows * blocks is a multiple of n but not of 32, so whole groups of n lanes leave the loop together.
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = i / (n * blocks) * n + i % n, block = i / n % blocks;
    const bool inside = row < q.rows && block < q.blocks();
    float values[n] = {};
    if (inside) load_block(x, row, block, vectors, values);
    i32 largest = bit_cast<i32>(block_amax(values));
    const unsigned lanes = n == 32 ? 0xffff'ffffu : ((1u << (n % 32)) - 1) << (threadIdx.x % 32 / n * n);
    largest = __reduce_max_sync(lanes, largest);
    if (inside) {
      const block_scale<F> scaled = recipe.scale(F{}, bit_cast<float>(largest), tensor);
      packed_block<F> packed{scaled.scale, {}};
      round_block<F>(values, scaled.multiplier, recipe.round, position{row, block * n}, packed.codes);
      store_block(q, row, block, packed);
    } else if (row < Layout::padded_rows(q.rows)) {
      q.scales[q.scale_offset(row, block)] = 0;
    }
  }
}

/// The view with a const element type, as kernels take it.
template <class T>
matrix_view<typename matrix_view<T>::value_type const> as_input(matrix_view<T> const& x) {
  return x;
}
template <class T>
transposed_view<typename matrix_view<T>::value_type const> as_input(transposed_view<T> const& x) {
  return {as_input(x.base), x.rows, x.cols};
}

}  // namespace detail

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), ...) makes the columnwise copy.
/// All pointers are device memory. `blocks_1d{}`, or `blocks_2d<16, 16>{}` (32 for MX) for square tiles. For
/// formats with a tensor scale, `amax` points to the amax on the device (from amax(), reduced over ranks or
/// delayed as the caller likes), or is null for q.tensor_scale. Every code and scale is written, padding with
/// zero; equal to host::quantize in every bit. One kernel on the stream; never synchronises, never allocates.
/// Errors: see validate(); q is then untouched.
template <matrix_like M, class F, class Layout, class Blocks, quantizer_for<F> Quantizer>
requires requires { Blocks::is_2d; }
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, Blocks shape, float const* amax,
                     Quantizer const& recipe, cudaStream_t stream = nullptr) {
  if (const errc e = validate(x, q, shape); e != errc::ok) return to_cuda_error(e);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  const i64 padded_rows = round_up<i64>(Layout::padded_rows(q.rows), Blocks::is_2d ? F::block_size : 1);
  const unsigned grid = detail::grid_for(padded_rows * Layout::padded_blocks(q.blocks()));
  const auto input = detail::as_input(x);
  const bool vectors = detail::rows_are_vectors(stored(x));
  if constexpr (Blocks::is_2d) {
    static_assert(__is_same(decltype(recipe.transform), identity), "2-D blocks take no transform.");
    detail::quantize_2d_kernel<<<grid, detail::cta_threads, 0, stream>>>(input, vectors, q, amax, recipe);
  } else {
    detail::quantize_1d_kernel<<<grid, detail::cta_threads, 0, stream>>>(input, vectors, q, amax, recipe);
  }
  return cudaPeekAtLastError();
}

/// 1-D blocks, amax on the device.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, float const* amax,
                     Quantizer const& recipe = {}, cudaStream_t stream = nullptr) {
  return quantize(x, q, blocks_1d{}, amax, recipe, stream);
}

/// 1-D blocks under q.tensor_scale: MX formats, or a tensor scale that the host knows.
template <matrix_like M, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& recipe = {},
                     cudaStream_t stream = nullptr) {
  return quantize(x, q, blocks_1d{}, nullptr, recipe, stream);
}

}  // namespace fourscale::device
