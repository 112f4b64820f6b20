// SPDX-License-Identifier: Apache-2.0
// The kernels for 1-D blocks. A thread takes whole blocks, so nothing is exchanged between threads; it asks
// for all of its input before it computes, because what bounds the kernel is how many bytes are on their way.
#pragma once

#include "divisor.cuh"
#include "quantize_swizzled.cuh"

namespace fourscale::device::detail {

/// A matrix_view of a type that comes as cta::values.
template <class M>
inline constexpr bool is_rows_in_memory = false;
template <class T>
inline constexpr bool is_rows_in_memory<matrix_view<T>> = is_raw<T>;

/// How many blocks a thread takes: 128 bytes of input, or one block.
template <class F, class T>
inline constexpr int blocks_per_thread = F::block_size* static_cast<int>(sizeof(T)) >= 128
                                             ? 1
                                             : 128 / (F::block_size * static_cast<int>(sizeof(T)));

/// The blocks of a thread: the first, and others at distances of cta_threads. Blocks of the layout, its
/// padding included, are counted along rows.
template <bool Gaps, class F, class Layout, class T>
struct row_blocks {
  matrix_view<T const> x;
  block_scaled_view<F, Layout> q;
  divisor blocks;    ///< of a row
  i64 first_row;     ///< of the chunk that `count` blocks are in
  u32 count, first;  ///< within it
  i64 first_of_all = first_row * blocks.d + first;

  FOURSCALE_D u32 at(int k) const { return first + static_cast<u32>(k) * cta_threads; }
  FOURSCALE_D i64 row(int k) const { return first_row + blocks.quotient(at(k)); }
  FOURSCALE_D i64 block(int k) const { return at(k) - blocks.quotient(at(k)) * blocks.d; }
  FOURSCALE_D position where(int k) const { return {row(k), block(k) * F::block_size}; }
  FOURSCALE_D bool inside(int k) const {
    return at(k) < count && (!Layout::has_padding || (row(k) < q.rows && block(k) < q.blocks()));
  }
  FOURSCALE_D bool is_padding(int k) const { return Layout::has_padding && at(k) < count && !inside(k); }

  /// Without gaps between rows the compiler knows the distances.
  FOURSCALE_D cta::values<T, F::block_size> load(int k) const {
    constexpr int n = F::block_size;
    if constexpr (Gaps)
      return cta::values<T, n>::load(&x.at(row(k), block(k) * n));
    else
      return cta::values<T, n>::load(x.data + first_of_all * n + i64{k} * (cta_threads * n));
  }
  FOURSCALE_D void store(int k, packed_block<F> const& b) const {
    if constexpr (Layout::has_padding) {
      store_aligned_block(q, row(k), block(k), b);
    } else {
      constexpr int codes = block_code_bytes<F>, scales = block_scale_bytes<F>;
      store_codes<code_word<F>>(b.codes, q.codes + first_of_all * codes + i64{k} * (cta_threads * codes));
      [[maybe_unused]] u8* const to = q.scales + first_of_all * scales + i64{k} * (cta_threads * scales);
      FOURSCALE_UNROLL
      for (int i = 0; i < scales; ++i) to[i] = static_cast<u8>(b.scale.bits >> (8 * i));
    }
  }
};

/// A matrix in memory whose rows are vectors, aligned codes, one tensor scale. blockIdx.y counts `chunk_rows`
/// rows at a time, so that 32 bits count the blocks within.
template <bool Gaps, class F, class Layout, class T, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, ctas_for<F, Quantizer>)
    quantize_rows_kernel(matrix_view<T const> x, block_scaled_view<F, Layout> q,
                         Quantizer recipe, divisor blocks, u32 chunk_rows) {
  constexpr int each = blocks_per_thread<F, T>;
  const i64 first_row = i64{blockIdx.y} * chunk_rows, rows_left = Layout::padded_rows(q.rows) - first_row;
  const u32 rows = static_cast<u32>(rows_left < chunk_rows ? rows_left : chunk_rows);
  const row_blocks<Gaps, F, Layout, T> work{
      x, q, blocks, first_row, rows * blocks.d, cta_from_end() * (cta_threads * each) + threadIdx.x};
  cta::values<T, F::block_size> raw[each];
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k)
    if (work.inside(k)) raw[k] = work.load(k);
  const tensor_scale<F> tensor = q.amax.scale_of_row(0);
  u32 again = 0;
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    if (work.inside(k)) {
      const attempt<F> result = try_quantize_raw<F, T>(raw[k], recipe, tensor, work.where(k));
      work.store(k, result.block);
      again |= static_cast<u32>(!result.valid) << k;
    }
    if (work.is_padding(k)) q.store_scale(work.row(k), work.block(k), {});
  }
#pragma unroll 1
  for (int k = 0; again >> k != 0; ++k)
    if (again >> k & 1u) work.store(k, quantize_raw<F>(work.load(k), recipe, tensor, work.where(k)));
}

/// Any other view. A thread takes a block; neighbouring threads take neighbours in memory: the next block of
/// the row, or for a transposed matrix the next row. Blocks of the padding store a zero scale.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_blocks_kernel(M x, bool vectors, block_scaled_view<F, Layout> q,
                           Quantizer recipe) {
  const tensor_scale<F> of_tensor = shared_tensor_scale<F>(q.amax);
  const i64 rows = Layout::padded_rows(q.rows), blocks = Layout::padded_blocks(q.blocks());
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < rows * blocks;
       i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % rows : i / blocks,
              block = M::is_transposed ? i / rows : i % blocks;
    if (row < q.rows && block < q.blocks()) {
      float values[F::block_size];
      load_block(x, row, block, vectors, values);
      const tensor_scale<F> tensor = tensor_scale_of(q.amax, row, of_tensor);
      store_block(q, row, block,
                  quantize_block<F>(values, recipe, tensor, position{row, block * F::block_size}));
    } else {
      q.store_scale(row, block, {});
    }
  }
}

/// 1-D blocks of any view.
template <class F, class Layout, class M, class Quantizer>
void launch_rows(M const& x, block_scaled_view<F, Layout> const& q,
                 Quantizer const& recipe, cudaStream_t stream) {
  const i64 rows = Layout::padded_rows(q.rows), blocks = Layout::padded_blocks(q.blocks());
  if constexpr (is_rows_in_memory<M>) {
    using value = typename M::value_type;
    if constexpr (__is_same(Layout, swizzled_128x4) && block_scale_bytes<F> == 1)
      if (launch_swizzled<F, value>(x, q, recipe, stream)) return;
    if (rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.amax.kind != amax_kind::per_row &&
        row_chunks::can_take(blocks)) {
      const row_chunks chunks(rows, blocks, blocks_per_thread<F, value>);
      using Scheduled = decltype(scheduled(recipe));
      auto* const kernel = Layout::has_padding || (x.ld != x.cols && x.rows > 1)
                               ? &quantize_rows_kernel<true, F, Layout, value, Scheduled>
                               : &quantize_rows_kernel<false, F, Layout, value, Scheduled>;
      kernel<<<chunks.grid, cta_threads, 0, stream>>>(
          x, q, scheduled(recipe), divisor(static_cast<u32>(blocks)), static_cast<u32>(chunks.rows));
      return;
    }
  }
  quantize_blocks_kernel<<<grid_for(rows * blocks), cta_threads, 0, stream>>>(x, false, q, recipe);
}

}  // namespace fourscale::device::detail
