// SPDX-License-Identifier: Apache-2.0
// The kernels for 1-D blocks. A thread takes whole blocks, so nothing is exchanged between threads; it asks
// for all of its input before it computes, because what bounds the kernel is how many bytes are on their way.
#pragma once

#include "raw.cuh"
#include "store.cuh"

namespace fourscale::device::detail {

/// quantize_block() of raw values.
template <class F, class T, class Quantizer>
FOURSCALE_D packed_block<F> quantize_raw(raw_block<T, F::block_size> const& block, Quantizer const& recipe,
                                         tensor_scale<F> const& tensor, position where) {
  float values[F::block_size];
  to_floats(block, values);
  if constexpr (__is_same(decltype(recipe.transform), identity) &&
                amax_scaling_policy<decltype(recipe.scale), F>) {
    const block_scale<F> scaled = scale_for<F>(recipe.scale, raw_amax(block), tensor, where);
    packed_block<F> packed{scaled.scale, {}};
    round_block<F>(values, scaled.multiplier, recipe.round, where, packed.codes);
    return packed;
  } else {
    return quantize_block<F>(values, recipe, tensor, where);
  }
}

/// Division by a number that all threads share, for numerators below 2^31: n * ceil(2^p / d) >> p is exact
/// for p = 31 + ceil(log2 d) (Granlund and Montgomery, PLDI 1994).
struct divisor {
  u32 d, multiplier;
  int shift;

  explicit divisor(u32 by) : d(by), multiplier(0), shift(31) {
    while ((u64{1} << (shift - 31)) < d) ++shift;
    multiplier = static_cast<u32>(((u64{1} << shift) + d - 1) / d);
  }
  FOURSCALE_D u32 quotient(u32 n) const { return static_cast<u32>((u64{n} * multiplier) >> shift); }
};

/// A matrix_view of a type with a raw_block.
template <class M>
inline constexpr bool is_rows_in_memory = false;
template <class T>
inline constexpr bool is_rows_in_memory<matrix_view<T>> = is_raw<T>;

/// How many blocks a thread takes: 128 bytes of input, or one block.
template <class F, class T>
inline constexpr int blocks_per_thread = F::block_size* static_cast<int>(sizeof(T)) >= 128
                                             ? 1
                                             : 128 / (F::block_size * static_cast<int>(sizeof(T)));

/// A matrix in memory whose rows are vectors, aligned codes, one tensor scale. Blocks of the layout, its
/// padding included, are counted along rows; blockIdx.y counts `chunk_rows` rows at a time, so that 32 bits
/// count the blocks within.
template <class F, class Layout, class T, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, 4)
    quantize_rows_kernel(matrix_view<T const> x, block_scaled_view<F, Layout> q, float const* amax,
                         Quantizer recipe, divisor blocks, u32 chunk_rows) {
  constexpr int n = F::block_size, each = blocks_per_thread<F, T>;
  const i64 first_row = i64{blockIdx.y} * chunk_rows, rows_left = Layout::padded_rows(q.rows) - first_row;
  const u32 rows = static_cast<u32>(rows_left < chunk_rows ? rows_left : chunk_rows), count = rows * blocks.d;
  const u32 first = blockIdx.x * (cta_threads * each) + threadIdx.x;
  raw_block<T, n> raw[each];
  i64 at_row[each], at_block[each];
  bool inside[each];
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    const u32 i = first + static_cast<u32>(k) * cta_threads, r = blocks.quotient(i);
    at_row[k] = first_row + r, at_block[k] = i - r * blocks.d;
    inside[k] = i < count && (!Layout::has_padding || (at_row[k] < q.rows && at_block[k] < q.blocks()));
    if (inside[k]) raw[k] = load_raw<T, n>(&x.at(at_row[k], at_block[k] * n));
  }
  const tensor_scale<F> tensor = own_tensor_scale<F>(
      amax, q.tensor_scale, [&](float a) { return tensor_scale_for<F>(recipe.scale, a); });
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k) {
    if (inside[k]) {
      const position where{at_row[k], at_block[k] * n};
      store_aligned_block(q, at_row[k], at_block[k], quantize_raw<F>(raw[k], recipe, tensor, where));
    } else if (Layout::has_padding && first + static_cast<u32>(k) * cta_threads < count) {
      q.store_scale(at_row[k], at_block[k], {});
    }
  }
}

/// Any other view. A thread takes a block; neighbouring threads take neighbours in memory: the next block of
/// the row, or for a transposed matrix the next row. Blocks of the padding store a zero scale.
template <class F, class Layout, class M, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    quantize_blocks_kernel(M x, bool vectors, block_scaled_view<F, Layout> q, float const* amax,
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

/// 1-D blocks of any view.
template <class F, class Layout, class M, class Quantizer>
void launch_rows(M const& x, block_scaled_view<F, Layout> const& q, float const* amax,
                 Quantizer const& recipe, cudaStream_t stream) {
  const i64 rows = Layout::padded_rows(q.rows), blocks = Layout::padded_blocks(q.blocks());
  if constexpr (is_rows_in_memory<M>) {
    using value = typename M::value_type;
    if (rows_are_vectors(x) && reinterpret_cast<u64>(q.codes) % code_word<F> == 0 && q.row_amax == nullptr) {
      const i64 most = (i64{1} << 31) / blocks - 1, chunk = rows < most ? rows : most;
      const dim3 grid(
          static_cast<unsigned>(ceil_div<i64>(chunk * blocks, cta_threads * blocks_per_thread<F, value>)),
          static_cast<unsigned>(ceil_div(rows, chunk)));
      quantize_rows_kernel<<<grid, cta_threads, 0, stream>>>(
          x, q, amax, recipe, divisor(static_cast<u32>(blocks)), static_cast<u32>(chunk));
      return;
    }
  }
  quantize_blocks_kernel<<<grid_for(rows * blocks), cta_threads, 0, stream>>>(x, false, q, amax, recipe);
}

}  // namespace fourscale::device::detail
