// SPDX-License-Identifier: Apache-2.0
// Whole matrices on a stream. The kernels are loops around quantize_block(), so their bits are those of the
// host.
#pragma once

#include "../block/quantize.hpp"
#include "launch.cuh"

namespace fourscale::device {

namespace detail {

template <class F, class Layout>
FOURSCALE_D void store_block(block_scaled_view<F, Layout> const& q, i64 row, i64 block,
                             packed_block<F> const& b) {
  q.store_scale(row, block, b.scale);
  store_codes(b.codes, q.codes + q.code_offset(row, block));
}

/// The tensor scale that a row is quantized under: by its own amax if it has one.
template <class F, class Layout, class Scale>
FOURSCALE_D tensor_scale<F> tensor_scale_of([[maybe_unused]] block_scaled_view<F, Layout> const& q,
                                            [[maybe_unused]] i64 row, [[maybe_unused]] Scale const& scale,
                                            tensor_scale<F> const& of_tensor) {
  if constexpr (F::has_tensor_scale)
    if (q.row_amax != nullptr) return tensor_scale_for<F>(scale, q.row_amax[row]);
  return of_tensor;
}

/// A thread takes a block. Neighbouring threads take neighbours in memory: the next block of the row, or for
/// a transposed matrix the next row. Blocks of the padding store a zero scale.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_1d_kernel(M x, bool vectors, block_scaled_view<F, Layout> q, float const* amax,
                       Quantizer recipe) {
  const tensor_scale<F> of_tensor = shared_tensor_scale<F>(
      amax, q.tensor_scale, [&](float a) { return tensor_scale_for<F>(recipe.scale, a); });
  const i64 rows = Layout::padded_rows(q.rows), blocks = Layout::padded_blocks(q.blocks());
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % rows : i / blocks,
              block = M::is_transposed ? i / rows : i % blocks;
    if (row < q.rows && block < q.blocks()) {
      float values[F::block_size];
      load_block(x, row, block, vectors, values);
      const tensor_scale<F> tensor = tensor_scale_of(q, row, recipe.scale, of_tensor);
      store_block(q, row, block,
                  quantize_block<F>(values, recipe, tensor, position{row, block * F::block_size}));
    } else {
      q.store_scale(row, block, {});
    }
  }
}

/// The rows of a tile, one in each of N neighbouring threads, share what they found.
template <int N>
struct tile_rows {
  static_assert(cta_threads % N == 0 && (N < 32 ? 32 % N == 0 : N % 32 == 0));

  static FOURSCALE_D i32 max(i32 mine) {
    if constexpr (N <= 32) {
      return __reduce_max_sync(lanes(), mine);
    } else {
      __shared__ i32 of_warp[cta_threads / 32];
      __syncthreads();  // the values of the tile before have been read
      mine = __reduce_max_sync(0xffff'ffffu, mine);
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
      __syncthreads();
      const int first = static_cast<int>(threadIdx.x) / N * (N / 32);
      FOURSCALE_UNROLL
      for (int i = 0; i < N / 32; ++i) mine = of_warp[first + i] > mine ? of_warp[first + i] : mine;
      return mine;
    }
  }

  /// In pairs at distance N / 2, N / 4, ... 1.
  static FOURSCALE_D float sum(float mine) {
    static_assert(N <= 32, "A scaling policy that weighs its candidates needs tiles of at most 32 rows.");
    FOURSCALE_UNROLL
    for (int distance = N / 2; distance >= 1; distance /= 2)
      mine = ptx::add_rn_f32(mine, __shfl_xor_sync(lanes(), mine, distance));
    return mine;
  }

 private:
  static FOURSCALE_D unsigned lanes() {
    return N == 32 ? 0xffff'ffffu : ((1u << (N % 32)) - 1) << (threadIdx.x % 32 / N * N);
  }
};

/// The scale of a 2-D block from the thread's row of it, by either kind of policy.
template <class F, class Scale>
FOURSCALE_D block_scale<F> choose_tile_scale(float const (&row)[F::block_size], bool inside,
                                             Scale const& scale, tensor_scale<F> const& tensor,
                                             position tile) {
  using rows = tile_rows<F::block_size>;
  const float amax = bit_cast<float>(rows::max(bit_cast<i32>(block_amax(row))));
  if constexpr (amax_scaling_policy<Scale, F>) {
    return scale_for<F>(scale, amax, tensor, tile);
  } else {
    block_scale<F> c[2]{};
    scale.candidates(F{}, amax, tensor, c);
    float errors[2];
    FOURSCALE_UNROLL
    for (int k = 0; k < 2; ++k) errors[k] = rows::sum(inside ? scale.error(F{}, row, c[k], tensor) : 0.0f);
    return less_magnitude(errors[1], errors[0]) ? c[1] : c[0];
  }
}

/// As many neighbouring threads as a tile has rows take it, a row each.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_2d_kernel(M x, bool vectors, block_scaled_view<F, Layout> q, float const* amax,
                       Quantizer recipe) {
  constexpr int n = F::block_size;
  const tensor_scale<F> tensor = shared_tensor_scale<F>(
      amax, q.tensor_scale, [&](float a) { return tensor_scale_for<F>(recipe.scale, a); });
  const i64 rows = round_up<i64>(Layout::padded_rows(q.rows), n), blocks = Layout::padded_blocks(q.blocks());
  // The loop runs over whole CTAs, so that no thread leaves before the others of its tile.
  for (i64 first = blockIdx.x * i64{cta_threads}; first < rows * blocks;
       first += i64{gridDim.x} * cta_threads) {
    const i64 i = first + threadIdx.x, row = i / (n * blocks) * n + i % n, block = i / n % blocks;
    const bool inside = row < q.rows && block < q.blocks();
    float values[n] = {};
    if (inside) load_block(x, row, block, vectors, values);
    const block_scale<F> scaled =
        choose_tile_scale<F>(values, inside, recipe.scale, tensor, position{row / n * n, block * n});
    if (inside) {
      packed_block<F> packed{scaled.scale, {}};
      round_block<F>(values, scaled.multiplier, recipe.round, position{row, block * n}, packed.codes);
      store_block(q, row, block, packed);
    } else if (row < Layout::padded_rows(q.rows)) {
      q.store_scale(row, block, {});
    }
  }
}

}  // namespace detail

/// Quantizes x into q, blocks along the rows of x; quantize(transposed(x), ...) makes the columnwise copy.
/// All pointers are device memory, q.row_amax included. `blocks_1d{}`, or `blocks_2d<16, 16>{}` (32 for MX)
/// for square tiles. For formats with a tensor scale, `amax` points to the amax on the device (from amax(),
/// reduced over ranks or delayed as the caller likes), or is null for q.tensor_scale. Every code and scale is
/// written, padding with zero; equal to host::quantize in every bit. One kernel on the stream; never
/// synchronises, never allocates. Errors: see validate(); q is then untouched.
template <matrix_like M, class F, class Layout, class Blocks, quantizer_for<F> Quantizer>
requires requires { Blocks::is_2d; }
cudaError_t quantize(M const& x, block_scaled_view<F, Layout> const& q, Blocks shape, float const* amax,
                     Quantizer const& recipe, cudaStream_t stream = nullptr) {
  if (const errc e = validate(x, q, shape); e != errc::ok) return to_cuda_error(e);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  const i64 padded_rows = round_up<i64>(Layout::padded_rows(q.rows), Blocks::is_2d ? F::block_size : 1);
  const unsigned grid = detail::grid_for(padded_rows * Layout::padded_blocks(q.blocks()));
  const auto input = detail::as_input(x);
  const bool vectors = detail::rows_are_vectors(input);
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
