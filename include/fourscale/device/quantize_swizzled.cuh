// SPDX-License-Identifier: Apache-2.0
// The kernel for 1-D blocks under swizzled scales: a CTA takes 128 rows x 8 blocks, whose scales are 1 KiB in
// a row, and gathers them in shared memory. Written one by one they would touch every sector eight times.
#pragma once

#include "divisor.cuh"
#include "quantize_raw.cuh"
#include "store.cuh"

namespace fourscale::device::detail {

/// A tile of 128 rows x 8 blocks. A thread takes a block of rows r, r + 32, r + 64 and r + 96: `k` says
/// which.
template <class F, class T>
struct swizzled_tile {
  static constexpr int n = F::block_size, along = 8, quarters = 4;
  using scale_bytes = u8[along / 4][512];

  matrix_view<T const> const& x;
  block_scaled_view<F, swizzled_128x4> const& q;
  scale_bytes& scales;  ///< in shared memory, as in memory
  i64 tile_row, tile_col;
  int r = static_cast<int>(threadIdx.x) / along, b = static_cast<int>(threadIdx.x) % along;
  i64 row = tile_row * 128 + r, block = tile_col * along + b;
  bool in_row = block < q.blocks();

  FOURSCALE_D bool inside(int k) const { return in_row && row + 32 * k < q.rows; }
  FOURSCALE_D position where(int k) const { return {row + 32 * k, block * n}; }
  FOURSCALE_D cta::values<T, n> load(int k) const {
    return cta::values<T, n>::load(&x.at(row + 32 * k, block * n));
  }
  FOURSCALE_D u8& scale(int k) const { return scales[b / 4][16 * r + 4 * k + b % 4]; }
  FOURSCALE_D void store(int k, packed_block<F> const& packed) const {
    store_codes<code_word<F>>(packed.codes, q.codes + q.code_offset(row + 32 * k, block));
    scale(k) = packed.scale.bits;
  }
  /// After a barrier: the scales to memory.
  FOURSCALE_D void store_scales() const {
    const i64 tile = tile_col * (along / 4) + threadIdx.x / 32, tiles = ceil_div<i64>(q.blocks(), 4);
    if (threadIdx.x < along / 4 * 32 && tile < tiles)
      reinterpret_cast<vector16*>(q.scales + (tile_row * tiles + tile) * 512)[threadIdx.x % 32] =
          reinterpret_cast<vector16 const*>(scales[threadIdx.x / 32])[threadIdx.x % 32];
  }
};

template <class F, class T, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, F::block_size > 16 ? 3 : ctas_for<F, Quantizer>)
    quantize_swizzled_kernel(matrix_view<T const> x, block_scaled_view<F, swizzled_128x4> q, Quantizer recipe, divisor tiles_along) {
  using tile_type = swizzled_tile<F, T>;
  constexpr int bytes = tile_type::n * sizeof(T), each = bytes > 64 ? 1 : bytes > 32 ? 2 : 4;
  __shared__ __align__(16) typename tile_type::scale_bytes scales;
  const u32 at = cta_from_end(), tile_row = tiles_along.quotient(at);
  const tile_type tile{x, q, scales, tile_row, at - tile_row * tiles_along.d};
  cta::values<T, tile_type::n> raw[each];
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k)
    if (tile.inside(k)) raw[k] = tile.load(k);
  const tensor_scale<F> tensor = q.amax.scale_of_row(0);
  u32 again = 0;
#pragma unroll 1
  for (int first = 0; first < tile.quarters; first += each) {
    FOURSCALE_UNROLL
    for (int i = 0; i < each; ++i)
      if (each < tile.quarters && first > 0 && tile.inside(first + i)) raw[i] = tile.load(first + i);
    FOURSCALE_UNROLL
    for (int i = 0; i < each; ++i) {
      const int k = first + i;
      if (tile.inside(k)) {
        const attempt<F> result = try_quantize_raw<F, T>(raw[i], recipe, tensor, tile.where(k));
        tile.store(k, result.block);
        again |= static_cast<u32>(!result.valid) << k;
      } else {
        tile.scale(k) = 0;
      }
    }
  }
#pragma unroll 1
  for (int k = 0; again >> k != 0; ++k)
    if (again >> k & 1u) tile.store(k, quantize_raw<F>(tile.load(k), recipe, tensor, tile.where(k)));
  __syncthreads();
  tile.store_scales();
}

/// Launches it, if x lies in memory as vectors and the output is aligned. False: it does not fit.
template <class F, class T, class Quantizer>
bool launch_swizzled(matrix_view<T const> const& x, block_scaled_view<F, swizzled_128x4> const& q, Quantizer const& recipe, cudaStream_t stream) {
  if (!rows_are_vectors(x) || q.amax.kind == amax_kind::per_row ||
      (reinterpret_cast<u64>(q.codes) | reinterpret_cast<u64>(q.scales)) % 16 != 0)
    return false;
  const i64 along = ceil_div<i64>(q.blocks(), 8), tiles = along * ceil_div<i64>(q.rows, 128);
  if (tiles > 0x7fff'ffff) return false;
  quantize_swizzled_kernel<<<static_cast<unsigned>(tiles), cta_threads, 0, stream>>>(
      x, q, scheduled(recipe), divisor(static_cast<u32>(along)));
  return true;
}

}  // namespace fourscale::device::detail
