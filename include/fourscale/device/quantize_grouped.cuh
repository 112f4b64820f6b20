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

/// Groups in tiles of 2^log_rows rows, numbered so that no sum over the groups is needed to find one: the
/// tiles of group g begin at (offsets[g] >> log_rows) + g, which is behind all those of the groups before.
/// Some numbers are nobody's.
struct group_tiles {
  row_groups groups;
  int log_rows;

  i64 bound(i64 rows) const { return (rows >> log_rows) + groups.count; }

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
    const i64 index = tile - begin(first), row = groups.offsets[first] + (index << log_rows),
              left = groups.offsets[first + 1] - row, most = i64{1} << log_rows;
    return {first, index, row, left < most ? left : most};
  }

 private:
  FOURSCALE_D i64 begin(int g) const { return (groups.offsets[g] >> log_rows) + g; }
};

/// How a CTA's threads lie over its tile: `along` of them along a row, `distance` rows at once. A thread
/// takes one block in each of several steps: first to the right, 2^log_wide times, then down.
struct grouped_shape {
  int along, distance, log_wide;

  FOURSCALE_HD constexpr int right(int step) const { return along * (step & ((1 << log_wide) - 1)); }
  FOURSCALE_HD constexpr int down(int step) const { return distance * (step >> log_wide); }
  constexpr i64 tiles_along(i64 blocks) const { return ceil_div<i64>(blocks, i64{along} << log_wide); }
};

/// Blocks of a thread that are on their way at once: 128 bytes of input, or one.
template <int N, class T>
inline constexpr int grouped_batch = N * sizeof(T) > 64   ? 1
                                     : N * sizeof(T) > 32 ? 2
                                                          : 4;

/// Linear: a batch is all that a thread takes, and as much of it as possible along the row. Swizzled: tiles
/// of 128 rows, which few rows of a group leave empty; what there is is then wide.
template <class Layout, int Batch>
FOURSCALE_HD constexpr grouped_shape grouped_shape_of(int log_wide) {
  constexpr int along = Layout::has_padding ? 8 : 32;
  return {along, cta_threads / along, log_wide};
}
template <class Layout, int Batch>
grouped_shape grouped_shape_for(i64 blocks) {
  constexpr int most = Layout::has_padding ? 1 : Batch / 2;  // log2 of 4: 2, of 2: 1, of 1: 0
  int log_wide = 0;
  while (log_wide < most && grouped_shape_of<Layout, Batch>(log_wide).tiles_along(blocks) > 1) ++log_wide;
  return grouped_shape_of<Layout, Batch>(log_wide);
}
template <class Layout, int Batch>
group_tiles tiles_of(row_groups const& groups, int log_wide) {
  return {groups, Layout::has_padding ? 7 : 3 + Batch / 2 - log_wide};
}

/// Scales on their way to memory. Linear ones go where they lie, a sector by a warp.
template <class Layout>
struct grouped_scales {
  FOURSCALE_D void count_before(row_groups const&, int) {}
  template <class F>
  FOURSCALE_D void put(block_scaled_view<F, Layout> const& q, i64 row, i64 block, int, int,
                       typename F::scale scale) {
    q.store_scale(row, block, scale);
  }
  template <class F>
  FOURSCALE_D void store(block_scaled_view<F, Layout> const&, group_tile const&, i64, int) {}
};

/// Swizzled ones gather in shared memory: tiles of 128 rows x 4 blocks, at most 4 in a row. Where they go is
/// behind those of the groups before, which the CTA counts while its input is on its way.
template <>
struct grouped_scales<swizzled_128x4> {
  alignas(16) u8 tiles[4][512];
  u32 before[cta_threads / 32];  ///< tiles of the groups before along the rows: a sum for each warp

  FOURSCALE_D void count_before(row_groups const& groups, int group) {
    u32 mine = 0;
    for (int g = static_cast<int>(threadIdx.x); g < group; g += cta_threads)
      mine += static_cast<u32>((groups.offsets[g + 1] - groups.offsets[g] + 127) >> 7);
    mine = __reduce_add_sync(0xffff'ffffu, mine);
    if (threadIdx.x % 32 == 0) before[threadIdx.x / 32] = mine;
  }
  template <class F>
  FOURSCALE_D void put(block_scaled_view<F, swizzled_128x4> const&, i64, i64, int row, int block,
                       typename F::scale scale) {
    tiles[block / 4][row % 32 * 16 + row / 32 * 4 + block % 4] = scale.bits;
  }
  /// Those from `block` on, 2 << log_wide tiles; what is beyond the group's rows or the matrix's columns is
  /// zero.
  template <class F>
  FOURSCALE_D void store(block_scaled_view<F, swizzled_128x4> const& q, group_tile const& place, i64 block,
                         int log_wide) {
    __syncthreads();
    const int which = static_cast<int>(threadIdx.x) / 32, row = static_cast<int>(threadIdx.x) % 32;
    const i64 blocks_left = q.blocks() - block - 4 * which;
    if (which >= 2 << log_wide || blocks_left <= 0) return;
    i64 tile_row = place.index;
    FOURSCALE_UNROLL
    for (u32 sum : before) tile_row += sum;
    const u32 inside = blocks_left >= 4 ? 0xffff'ffffu : (1u << (8 * blocks_left)) - 1;
    vector16 v = reinterpret_cast<vector16 const*>(tiles[which])[row];
    FOURSCALE_UNROLL
    for (int k = 0; k < 4; ++k) v.words[k] = row + 32 * k < place.rows ? v.words[k] & inside : 0;
    u8* const to = q.scales + (tile_row * ceil_div<i64>(q.blocks(), 4) + block / 4 + which) * 512 + row * 16;
    if (reinterpret_cast<u64>(to) % 16 == 0) {
      *reinterpret_cast<vector16*>(to) = v;
    } else {
      FOURSCALE_UNROLL
      for (int i = 0; i < 16; ++i) to[i] = static_cast<u8>(v.words[i / 4] >> (8 * (i % 4)));
    }
  }
};

/// A block of a row of x, as vectors or value by value.
template <bool Aligned, class T, int N>
FOURSCALE_D cta::values<T, N> load_block_values(T const* from) {
  if constexpr (Aligned) {
    return cta::values<T, N>::load(from);
  } else {
    cta::values<T, N> block{};
    FOURSCALE_UNROLL
    for (int i = 0; i < N; ++i) block.set(i, from[i]);
    return block;
  }
}

/// `Aligned`: rows are vectors, codes words, and no row has an amax of its own.
template <bool Aligned, class F, class Layout, class T, class Quantizer>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads, Aligned ? 4 : 2)
    quantize_grouped_kernel(matrix_view<T const> x, block_scaled_view<F, Layout> q, group_tiles tiles, Quantizer recipe, divisor tiles_along, int log_wide) {
  constexpr int n = F::block_size, batch = grouped_batch<n, T>;
  __shared__ grouped_scales<Layout> scales;
  const grouped_shape shape = grouped_shape_of<Layout, batch>(log_wide);
  const u32 tile = cta_from_end(), tile_row = tiles_along.quotient(tile);
  const group_tile place = tiles.find(tile_row);
  if (place.rows <= 0) return;
  const int thread = static_cast<int>(threadIdx.x), r = thread / shape.along, b = thread % shape.along;
  const i64 first_block = i64{tile - tile_row * tiles_along.d} * (shape.along << log_wide),
            blocks = q.blocks() - first_block - b;
  const auto row = [&](int step) { return place.row + r + shape.down(step); };
  const auto block = [&](int step) { return first_block + b + shape.right(step); };
  const auto where = [&](int step) { return position{row(step), block(step) * n}; };
  const auto inside = [&](int step) {
    return r + shape.down(step) < place.rows && shape.right(step) < blocks;
  };
  const auto load = [&](int step) {
    return load_block_values<Aligned, T, n>(&x.at(row(step), block(step) * n));
  };
  const auto store = [&](int step, packed_block<F> const& packed) {
    store_codes<Aligned ? code_word<F> : 1>(packed.codes, q.codes + q.code_offset(row(step), block(step)));
    scales.put(q, row(step), block(step), r + shape.down(step), b + shape.right(step), packed.scale);
  };
  cta::values<T, n> raw[batch];
  FOURSCALE_UNROLL
  for (int i = 0; i < batch; ++i)
    if (inside(i)) raw[i] = load(i);
  scales.count_before(tiles.groups, place.group);
  const tensor_scale<F> of_group =
      q.amax.scale_of_group(place.group, place.row);
  const auto tensor = [&](int step) {
    if constexpr (Aligned)
      return of_group;
    else
      return tensor_scale_of(q.amax, row(step), of_group);
  };
  const int down = static_cast<int>(place.rows + shape.distance - 1) / shape.distance,
            steps = Layout::has_padding ? down << log_wide : batch;
  u32 again = 0;
#pragma unroll 1
  for (int first = 0; first < steps; first += batch) {
    FOURSCALE_UNROLL
    for (int i = 0; i < batch; ++i)
      if (first > 0 && inside(first + i)) raw[i] = load(first + i);
    FOURSCALE_UNROLL
    for (int i = 0; i < batch; ++i) {
      const int step = first + i;
      if (!inside(step)) continue;
      const attempt<F> result = try_quantize_raw<F, T>(raw[i], recipe, tensor(step), where(step));
      store(step, result.block);
      again |= static_cast<u32>(!result.valid) << step;
    }
  }
#pragma unroll 1
  for (int step = 0; again >> step != 0; ++step)
    if (again >> step & 1u) store(step, quantize_raw<F>(load(step), recipe, tensor(step), where(step)));
  scales.store(q, place, first_block, log_wide);
}

/// Four vectors of N values a thread, or the same values one by one.
template <bool Aligned, int N, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    amax_grouped_kernel(matrix_view<T const> x, group_tiles tiles, i32* largest, divisor tiles_along,
                        int log_wide) {
  constexpr int batch = 4;
  const grouped_shape shape = grouped_shape_of<linear, batch>(log_wide);
  const u32 tile = blockIdx.x, tile_row = tiles_along.quotient(tile);
  const group_tile place = tiles.find(tile_row);
  if (place.rows <= 0) return;
  const int r = static_cast<int>(threadIdx.x) / shape.along, b = static_cast<int>(threadIdx.x) % shape.along;
  const i64 first_block = i64{tile - tile_row * tiles_along.d} * (shape.along << log_wide) + b;
  cta::values<T, N> raw[batch] = {};
  i32 mine = 0;
  const auto raise = [&](i32 magnitude) { mine = magnitude > mine ? magnitude : mine; };
  FOURSCALE_UNROLL
  for (int i = 0; i < batch; ++i) {
    const i64 row = r + shape.down(i), col = (first_block + shape.right(i)) * N;
    if (row >= place.rows) continue;
    if constexpr (Aligned) {
      if (col < x.cols) raw[i] = cta::values<T, N>::load(&x.at(place.row + row, col));
    } else {
      for (i64 c = col; c < col + N && c < x.cols; ++c) raise(amax_bits(to_float(x.at(place.row + row, c))));
    }
  }
  if constexpr (Aligned) {
    FOURSCALE_UNROLL
    for (int i = 0; i < batch; ++i) raise(bit_cast<i32>(raw_amax(raw[i])));
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
errc amax_grouped(matrix_view<T> const& x, row_groups const& groups, float* amax,
                         cudaStream_t stream = nullptr) {
  const matrix_view<typename matrix_view<T>::value_type const> m = x;
  if (const errc e = validate(m); e != errc::ok) return e;
  if (const errc e = validate(groups); e != errc::ok) return e;
  if (amax == nullptr) return errc::null_pointer;
  constexpr int n = 32 / static_cast<int>(sizeof(T));
  const i64 vectors = ceil_div<i64>(m.cols, n);
  const detail::grouped_shape shape = detail::grouped_shape_for<linear, 4>(vectors);
  const detail::group_tiles tiles = detail::tiles_of<linear, 4>(groups, shape.log_wide);
  const i64 along = shape.tiles_along(vectors);
  unsigned ctas = 0;
  const errc fits = detail::grouped_grid(tiles.bound(m.rows), along, ctas);
  if (fits != errc::ok) return fits;
  const cudaError_t cleared =
      cudaMemsetAsync(amax, 0, static_cast<u64>(groups.count) * sizeof(float), stream);
  if (cleared != cudaSuccess) return errc::cuda_failed;
  using value = typename matrix_view<T>::value_type;
  auto* const kernel = m.cols % n == 0 && detail::rows_are_vectors(m)
                           ? &detail::amax_grouped_kernel<true, n, value>
                           : &detail::amax_grouped_kernel<false, n, value>;
  kernel<<<ctas, detail::cta_threads, 0, stream>>>(m, tiles, reinterpret_cast<i32*>(amax),
                                                   detail::divisor(static_cast<u32>(along)), shape.log_wide);
  return detail::launched();
}

/// Quantizes each group of packed rows under its own amax if q has amax_of_groups(), else under the one of q;
/// every pointer is device memory, groups.offsets included. Equal to
/// host::quantize_grouped in every bit, and so to quantize() of each group by itself, but for random
/// rounding, which takes the row of the packed matrix. One kernel on the stream, graph-capturable; never
/// synchronises, never allocates. Errors: see validate_grouped(); q is then untouched. The offsets are
/// trusted.
template <class T, class F, class Layout, quantizer_for<F> Quantizer = quantizer<>>
errc quantize_grouped(matrix_view<T> const& x, block_scaled_view<F, Layout> const& q,
                             row_groups const& groups, Quantizer const& recipe = {},
                             cudaStream_t stream = nullptr) {
  static_assert(detail::is_raw<T>, "Grouped quantization reads values of two or four bytes.");
  static_assert(block_scale_bytes<F> == 1 || !Layout::has_padding,
                "Only scales of one byte have a layout with padding.");
  if (const errc e = validate_grouped(x, q, groups, recipe); e != errc::ok) return e;
  using value = typename matrix_view<T>::value_type;
  constexpr int batch = detail::grouped_batch<F::block_size, value>;
  const detail::grouped_shape shape = detail::grouped_shape_for<Layout, batch>(q.blocks());
  const detail::group_tiles tiles = detail::tiles_of<Layout, batch>(groups, shape.log_wide);
  const i64 along = shape.tiles_along(q.blocks());
  unsigned ctas = 0;
  const errc fits = detail::grouped_grid(tiles.bound(q.rows), along, ctas);
  if (fits != errc::ok) return fits;
  const auto input = detail::as_input(x);
  using scheduled = decltype(detail::scheduled(recipe));
  const bool aligned = detail::rows_are_vectors(x) && q.amax.kind != amax_kind::per_row &&
                       reinterpret_cast<u64>(q.codes) % detail::code_word<F> == 0;
  auto* const kernel = aligned ? &detail::quantize_grouped_kernel<true, F, Layout, value, scheduled>
                               : &detail::quantize_grouped_kernel<false, F, Layout, value, scheduled>;
  kernel<<<ctas, detail::cta_threads, 0, stream>>>(input, q, tiles, detail::scheduled(recipe),
                                                   detail::divisor(static_cast<u32>(along)), shape.log_wide);
  return detail::launched();
}

}  // namespace fourscale::device
