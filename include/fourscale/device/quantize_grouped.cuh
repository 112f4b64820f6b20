// SPDX-License-Identifier: Apache-2.0
// Many matrices of one width, packed row by row, in one launch: the experts of an MoE layer. Where the groups
// begin is read on the device, so the launch depends on nothing but the size of the packed matrix.
#pragma once

#include "../view/row_groups.hpp"
#include "divisor.cuh"
#include "quantize_raw.cuh"
#include "store.cuh"

namespace fourscale::device {

namespace detail {

/// What a CTA works on: `rows` rows of group `group` from row `row` of the packed matrix on; tile `index` of
/// the group. No rows: nothing.
struct group_tile {
  int group;
  i64 index, row, rows;
};

/// Groups in tiles of Rows rows, numbered so that no sum over the groups is needed to find one: the tiles of
/// group g begin at offsets[g] / Rows + g, which is behind all those of the groups before. Some numbers are
/// nobody's.
template <int Rows>
struct group_tiles {
  row_groups groups;

  static i64 bound(i64 rows, i64 count) { return rows / Rows + count; }

  /// By all lanes of a warp together: of 32 groups at a time, the last that begins at `tile` or before.
  FOURSCALE_D group_tile find(i64 tile) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int first = 0, count = static_cast<int>(groups.count);
    while (count > 1) {
      const int step = (count - 1) / 32 + 1, mine = lane * step;
      const bool before = mine < count && begin(first + mine) <= tile;
      const int last = __popc(__ballot_sync(0xffff'ffffu, before)) - 1;
      first += last * step;
      count = count - last * step < step ? count - last * step : step;
    }
    const i64 index = tile - begin(first), row = groups.offsets[first] + index * Rows,
              left = groups.offsets[first + 1] - row;
    return {first, index, row, left < Rows ? left : Rows};
  }

 private:
  FOURSCALE_D i64 begin(int g) const {
    return static_cast<i64>(static_cast<u64>(groups.offsets[g]) / Rows) + g;
  }
};

/// The tile of a CTA: `along` threads take the blocks of a row, `rows / quarters` rows at a time. Linear
/// scales are written where they lie, a sector by a warp; swizzled ones gather in shared memory.
template <class Layout>
struct grouped_shape {
  static constexpr int along = Layout::has_padding ? 8 : 32, quarters = 4,
                       distance = cta_threads / along, rows = distance * quarters;
};

/// The scales of a tile of 128 rows x 8 blocks, and where the scales of its group begin.
template <class Layout>
struct grouped_scales {
  template <class F>
  FOURSCALE_D void put(block_scaled_view<F, Layout> const& q, i64 row, i64 block, int, int,
                       typename F::scale scale) {
    q.store_scale(row, block, scale);
  }
  FOURSCALE_D void put_padding(int, int) {}
  FOURSCALE_D void count_before(row_groups const&, int) {}
  template <class F>
  FOURSCALE_D void store(block_scaled_view<F, Layout> const&, group_tile const&, i64) {}
};
template <>
struct grouped_scales<swizzled_128x4> {
  alignas(16) u8 tiles[2][512];
  u32 before[cta_threads / 32];  ///< tiles of 128 rows in the groups before: a sum for each warp

  FOURSCALE_D u8& at(int thread, int k) {
    const int r = thread / 8, b = thread % 8;
    return tiles[b / 4][16 * r + 4 * k + b % 4];
  }
  template <class F>
  FOURSCALE_D void put(block_scaled_view<F, swizzled_128x4> const&, i64, i64, int thread, int k,
                       typename F::scale scale) {
    at(thread, k) = scale.bits;
  }
  FOURSCALE_D void put_padding(int thread, int k) { at(thread, k) = 0; }
  FOURSCALE_D void count_before(row_groups const& groups, int group) {
    u32 mine = 0;
    for (int g = static_cast<int>(threadIdx.x); g < group; g += cta_threads)
      mine += static_cast<u32>(static_cast<u64>(groups.offsets[g + 1] - groups.offsets[g] + 127) / 128);
    mine = __reduce_add_sync(0xffff'ffffu, mine);
    if (threadIdx.x % 32 == 0) before[threadIdx.x / 32] = mine;
  }
  template <class F>
  FOURSCALE_D void store(block_scaled_view<F, swizzled_128x4> const& q, group_tile const& place,
                         i64 tile_col) {
    __syncthreads();
    const i64 along = ceil_div<i64>(q.blocks(), 4), tile = tile_col * 2 + threadIdx.x / 32;
    if (threadIdx.x >= 64 || tile >= along) return;
    i64 row = place.index;
    FOURSCALE_UNROLL
    for (u32 sum : before) row += sum;
    u8* const to = q.scales + (row * along + tile) * 512 + threadIdx.x % 32 * 16;
    vector16 const& from = reinterpret_cast<vector16 const*>(tiles[threadIdx.x / 32])[threadIdx.x % 32];
    if (reinterpret_cast<u64>(to) % 16 == 0) {
      *reinterpret_cast<vector16*>(to) = from;
    } else {
      FOURSCALE_UNROLL
      for (int i = 0; i < 16; ++i) to[i] = static_cast<u8>(from.words[i / 4] >> (8 * (i % 4)));
    }
  }
};

/// A block of a row of x, as vectors or value by value.
template <bool Aligned, class T, int N>
FOURSCALE_D raw_block<T, N> load_raw_block(T const* from) {
  if constexpr (Aligned) {
    return load_raw<T, N>(from);
  } else {
    raw_block<T, N> block{};
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) block.set(i, from[i]);
    return block;
  }
}

/// `Aligned`: rows are vectors, codes words, and no row has an amax of its own.
template <bool Aligned, class F, class Layout, class T, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, 4)
    quantize_grouped_kernel(matrix_view<T const> x, block_scaled_view<F, Layout> q, row_groups groups,
                            float const* amax, Quantizer recipe, divisor tiles_along) {
  using shape = grouped_shape<Layout>;
  constexpr int n = F::block_size, each = n * sizeof(T) > 64 ? 1 : n * sizeof(T) > 32 ? 2 : 4;
  __shared__ grouped_scales<Layout> scales;
  const u32 tile = cta_from_end(), tile_row = tiles_along.quotient(tile);
  const i64 tile_col = tile - tile_row * tiles_along.d;
  const group_tile place = group_tiles<shape::rows>{groups}.find(tile_row);
  if (place.rows <= 0) return;
  const int thread = static_cast<int>(threadIdx.x), r = thread / shape::along;
  const i64 row = place.row + r, block = tile_col * shape::along + thread % shape::along;
  const i64 rows = block < q.blocks() ? place.rows - r : 0;  // of this thread, all distances counted
  const auto inside = [&](int k) { return shape::distance * k < rows; };
  const auto where = [&](int k) { return position{row + shape::distance * k, block * n}; };
  const auto load = [&](int k) {
    return load_raw_block<Aligned, T, n>(&x.at(row + shape::distance * k, block * n));
  };
  const auto store = [&](int k, packed_block<F> const& packed) {
    u8* const to = q.codes + q.code_offset(row + shape::distance * k, block);
    store_codes<Aligned ? code_word<F> : 1>(packed.codes, to);
    scales.put(q, row + shape::distance * k, block, thread, k, packed.scale);
  };
  raw_block<T, n> raw[each];
  FOURSCALE_UNROLL
  for (int k = 0; k < each; ++k)
    if (inside(k)) raw[k] = load(k);
  scales.count_before(groups, place.group);
  const tensor_scale<F> of_group =
      own_tensor_scale<F>(amax == nullptr ? nullptr : amax + place.group, q.tensor_scale,
                          [&](float a) { return tensor_scale_for<F>(recipe.scale, a); });
  const auto tensor = [&](int k) {
    if constexpr (Aligned)
      return of_group;
    else
      return tensor_scale_of(q, row + shape::distance * k, recipe.scale, of_group);
  };
  u32 again = 0;
#pragma unroll 1
  for (int first = 0; first < shape::quarters; first += each) {
    FOURSCALE_UNROLL
    for (int i = 0; i < each; ++i)
      if (each < shape::quarters && first > 0 && inside(first + i)) raw[i] = load(first + i);
    FOURSCALE_UNROLL
    for (int i = 0; i < each; ++i) {
      const int k = first + i;
      if (inside(k)) {
        const attempt<F> result = try_quantize_raw<F, T>(raw[i], recipe, tensor(k), where(k));
        store(k, result.block);
        again |= static_cast<u32>(!result.valid) << k;
      } else {
        scales.put_padding(thread, k);
      }
    }
  }
#pragma unroll 1
  for (int k = 0; again >> k != 0; ++k)
    if (again >> k & 1u) store(k, quantize_raw<F>(load(k), recipe, tensor(k), where(k)));
  scales.store(q, place, tile_col);
}

/// Four vectors of N values a thread, or the same values one by one.
template <bool Aligned, int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_grouped_kernel(matrix_view<T const> x, row_groups groups, i32* largest, divisor tiles_along) {
  using shape = grouped_shape<linear>;
  const u32 tile = blockIdx.x, tile_row = tiles_along.quotient(tile);
  const group_tile place = group_tiles<shape::rows>{groups}.find(tile_row);
  if (place.rows <= 0) return;
  const i64 r = threadIdx.x / shape::along,
            col = (i64{tile - tile_row * tiles_along.d} * shape::along + threadIdx.x % shape::along) * N;
  i32 mine = 0;
  const auto raise = [&](i32 magnitude) { mine = magnitude > mine ? magnitude : mine; };
  if constexpr (Aligned) {
    raw_block<T, N> raw[shape::quarters] = {};
    FOURSCALE_UNROLL
    for (int k = 0; k < shape::quarters; ++k)
      if (col < x.cols && r + shape::distance * k < place.rows)
        raw[k] = load_raw<T, N>(&x.at(place.row + r + shape::distance * k, col));
    FOURSCALE_UNROLL
    for (int k = 0; k < shape::quarters; ++k) raise(bit_cast<i32>(raw_amax(raw[k])));
  } else {
    for (i64 i = r; i < place.rows; i += shape::distance)
      for (i64 c = col; c < col + N && c < x.cols; ++c) raise(amax_bits(to_float(x.at(place.row + i, c))));
  }
  raise_by_cta(mine, largest + place.group);
}

/// CTAs of one launch: more than fit in a grid are too many.
inline errc grouped_grid(i64 rows_of_tiles, i64 along, unsigned& ctas) {
  if (along > 0x7fff'ffff || rows_of_tiles > 0x7fff'ffff / along) return errc::too_large;
  ctas = static_cast<unsigned>(rows_of_tiles * along);
  return errc::ok;
}

}  // namespace detail

/// The largest magnitude of each group of packed rows to amax[0 .. groups.count) (device memory), as amax()
/// gives it; 0 for an empty group. A memset and a kernel on the stream, graph-capturable; never synchronises,
/// never allocates. Errors: see validate(); `amax` is then untouched. The offsets are trusted.
template <class T>
cudaError_t amax_grouped(matrix_view<T> const& x, row_groups const& groups, float* amax,
                         cudaStream_t stream = nullptr) {
  const matrix_view<typename matrix_view<T>::value_type const> m = x;
  if (const errc e = validate(m); e != errc::ok) return to_cuda_error(e);
  if (const errc e = validate(groups); e != errc::ok) return to_cuda_error(e);
  if (amax == nullptr) return to_cuda_error(errc::null_pointer);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  constexpr int n = 32 / static_cast<int>(sizeof(T));
  using shape = detail::grouped_shape<linear>;
  const i64 along = ceil_div<i64>(m.cols, i64{shape::along} * n);
  unsigned ctas = 0;
  const errc fits =
      detail::grouped_grid(detail::group_tiles<shape::rows>::bound(m.rows, groups.count), along, ctas);
  if (fits != errc::ok) return to_cuda_error(fits);
  const cudaError_t cleared =
      cudaMemsetAsync(amax, 0, static_cast<u64>(groups.count) * sizeof(float), stream);
  if (cleared != cudaSuccess) return cleared;
  using value = typename matrix_view<T>::value_type;
  auto* const kernel = m.cols % n == 0 && detail::rows_are_vectors(m)
                           ? &detail::amax_grouped_kernel<true, n, value>
                           : &detail::amax_grouped_kernel<false, n, value>;
  kernel<<<ctas, detail::cta_threads, 0, stream>>>(m, groups, reinterpret_cast<i32*>(amax),
                                                   detail::divisor(static_cast<u32>(along)));
  return cudaPeekAtLastError();
}

/// Quantizes each group of packed rows under its own tensor scale, of amax[g] on the device, or all under
/// q.tensor_scale if `amax` is null; every pointer is device memory, groups.offsets included. Equal to
/// host::quantize_grouped in every bit, and so to quantize() of each group by itself, but for random
/// rounding, which takes the row of the packed matrix. One kernel on the stream, graph-capturable; never
/// synchronises, never allocates. Errors: see validate_grouped(); q is then untouched. The offsets are
/// trusted.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
cudaError_t quantize_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                             row_groups const& groups, float const* amax, Quantizer const& recipe = {},
                             cudaStream_t stream = nullptr) {
  static_assert(detail::is_raw<T>, "Grouped quantization reads values of two or four bytes.");
  static_assert(block_scale_bytes<F> == 1 || !Layout::has_padding,
                "Only scales of one byte have a layout with padding.");
  if (const errc e = validate_grouped(x, q, groups); e != errc::ok) return to_cuda_error(e);
  if (reinterpret_cast<u64>(amax) % alignof(float) != 0) return to_cuda_error(errc::misaligned);
  using shape = detail::grouped_shape<Layout>;
  const i64 along = ceil_div<i64>(q.blocks(), shape::along);
  unsigned ctas = 0;
  const errc fits =
      detail::grouped_grid(detail::group_tiles<shape::rows>::bound(q.rows, groups.count), along, ctas);
  if (fits != errc::ok) return to_cuda_error(fits);
  const auto input = detail::as_input(x);
  using value = typename matrix_view<T>::value_type;
  using scheduled = decltype(detail::scheduled(recipe));
  const bool aligned = detail::rows_are_vectors(x) && q.row_amax == nullptr &&
                       reinterpret_cast<u64>(q.codes) % detail::code_word<F> == 0;
  auto* const kernel = aligned ? &detail::quantize_grouped_kernel<true, F, Layout, value, scheduled>
                               : &detail::quantize_grouped_kernel<false, F, Layout, value, scheduled>;
  kernel<<<ctas, detail::cta_threads, 0, stream>>>(input, q, groups, amax, detail::scheduled(recipe),
                                                   detail::divisor(static_cast<u32>(along)));
  return cudaPeekAtLastError();
}

}  // namespace fourscale::device
