// SPDX-License-Identifier: Apache-2.0
// The kernel for 2-D blocks of any view and of any size; quantize_tiles.cuh has faster ones for some. A tile
// is such a block, and a thread takes one row of it.
#pragma once

#include "../cta/quantize_block.cuh"
#include "../cta/sink.cuh"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {
namespace detail {

/// The rows of a tile are in N neighbouring threads; these functions reduce over them, and give all of them
/// the result. The threads of a tile call them together, and if N > 32 all threads of the CTA.
template <int N>
struct rows_of_tile {
  static_assert(cta_threads % N == 0 && (N < 32 ? 32 % N == 0 : N % 32 == 0));

  static FOURSCALE_D i32 max(i32 mine) {
    if constexpr (N <= 32) {
      return __reduce_max_sync(lanes(), mine);
    } else {
      __shared__ i32 of_warp[cta_threads / 32];
      __syncthreads();  // the values of the previous call have been read
      mine = __reduce_max_sync(0xffff'ffffu, mine);
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
      __syncthreads();
      const int first = static_cast<int>(threadIdx.x) / N * (N / 32);
      FOURSCALE_UNROLL
      for (int i = 0; i < N / 32; ++i) mine = of_warp[first + i] > mine ? of_warp[first + i] : mine;
      return mine;
    }
  }

  /// The sum over the rows: adds in pairs at distance N / 2, N / 4, ... 1.
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

/// The scale of a 2-D block, under either kind of scaling policy. `row` is the thread's row of it, `inside`
/// is true if that row is in the matrix, and `tile` is the position of the block.
template <class F, class Scale>
FOURSCALE_D block_scale<F> choose_tile_scale(float const (&row)[F::block_size], bool inside,
                                             Scale const& scale, tensor_scale<F> const& tensor,
                                             position tile) {
  using rows = rows_of_tile<F::block_size>;
  const float amax = bit_cast<float>(rows::max(bit_cast<i32>(block_amax(row))));
  if constexpr (amax_scaling_policy<Scale, F>) {
    return scale_for<F>(scale, amax, tensor, tile);
  } else {
    block_scale<F> c[2]{{{}, 0.0f}, {{}, 0.0f}};
    scale.candidates(F{}, amax, tensor, c);
    float errors[2];
    FOURSCALE_UNROLL
    for (int k = 0; k < 2; ++k) errors[k] = rows::sum(inside ? scale.error(F{}, row, c[k], tensor) : 0.0f);
    return less_magnitude(errors[1], errors[0]) ? c[1] : c[0];
  }
}

/// Each row of a tile has a thread; the threads of a tile are neighbours. Tiles of the padding zero their
/// scales.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_2d_kernel(M x, bool vectors, block_scaled_view<F, Layout> q, Quantizer quantizer) {
  constexpr int n = F::block_size;
  const tensor_scale<F> tensor = shared_tensor_scale<F>(q.amax);
  cta::no_memory unused;
  const i64 rows = round_up<i64>(Layout::padded_rows(q.rows), n), blocks = Layout::padded_blocks(q.blocks());
  // The loop runs over whole CTAs, so that no thread leaves before the others of its tile.
  for (i64 first = blockIdx.x * i64{cta_threads}; first < rows * blocks;
       first += i64{gridDim.x} * cta_threads) {
    const i64 i = first + threadIdx.x, row = i / (n * blocks) * n + i % n, block = i / n % blocks;
    const bool inside = row < q.rows && block < q.blocks();
    float values[n] = {};
    if (inside) load_block(x, row, block, vectors, values);
    const block_scale<F> scaled =
        choose_tile_scale<F>(values, inside, quantizer.scale, tensor, position{row / n * n, block * n});
    if (inside) {
      packed_block<F> packed{scaled.scale, {}};
      round_block<F>(values, scaled.multiplier, quantizer.round, position{row, block * n}, packed.codes);
      cta::view_sink<F, Layout>{q}.store(unused, {row, block}, packed);
    } else if (row < Layout::padded_rows(q.rows)) {
      q.store_scale(row, block, {});
    }
  }
}

template <class F, class Layout, class M, class Quantizer>
void launch_2d_view(M const& x, block_scaled_view<F, Layout> const& q, Quantizer const& quantizer,
                    cudaStream_t stream) {
  const i64 rows = round_up<i64>(Layout::padded_rows(q.rows), F::block_size);
  quantize_2d_kernel<<<grid_for(rows * Layout::padded_blocks(q.blocks())), cta_threads, 0, stream>>>(
      x, rows_are_vectors(x), q, quantizer);
}

}  // namespace detail
}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
