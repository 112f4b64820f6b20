// SPDX-License-Identifier: Apache-2.0
// Dequantizes matrices to float, bf16 or fp16, on a stream: by rows where these are aligned to 16 bytes,
// otherwise by tiles in shared memory.
#pragma once

#include "../block/quantize.hpp"
#include "../cta/load_codes.cuh"
#include "../mma/elements_to_bf16.hpp"
#include "../view/requirements.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// What the eight magnitudes of E2M1 become in one block, under its factor f, as 16-bit values. Their low and
/// high bytes are in separate words, as __byte_perm looks them up. They are powers of two times f and 1.5 f,
/// which differ in the exponent alone. `valid`: all of them but 0 are normal.
template <class T>
struct magnitude_table {
  static constexpr bool is_bf16 = same_type<T, bf16>;
  u32 low[2], high[2];
  bool valid;

  explicit FOURSCALE_D magnitude_table(float f) {
    constexpr float least = is_bf16 ? 0x1p-124f : 0x1p-12f, most = is_bf16 ? 0x1p124f : 0x1p12f;
    const float larger = ptx::mul_rn_f32(f, 1.5f);
    constexpr u32 step = is_bf16 ? 0x80u : 0x400u;  // one more in the exponent
    const u32 one = from_float<T>(f).bits | u32{from_float<T>(larger).bits} << 16;
    const u32 two = one + step * 0x1'0001u, four = two + step * 0x1'0001u,
              none = (one - step) << 16;  // 0, 0.5
    low[0] = __byte_perm(none, one, 0x6420), high[0] = __byte_perm(none, one, 0x7531);
    low[1] = __byte_perm(two, four, 0x6420), high[1] = __byte_perm(two, four, 0x7531);
    valid = f >= least && f <= most;
  }
  /// Decodes four codes, in the low half of a word, to two words of two values each.
  FOURSCALE_D void decode(u32 codes, u32 (&words)[2]) const {
    const u32 index = codes & 0x7777u;
    // prmt gives 0xff, the sign of 0x80 in all bits, where bit 3 of the code is set, and 0x80 where it is
    // not.
    const u32 signs = ptx::prmt_b32(0x8080'8080u, 0, codes & 0x8888u) << 1 & 0x8080'8080u;
    const u32 l = __byte_perm(low[0], low[1], index), h = __byte_perm(high[0], high[1], index) | signs;
    words[0] = __byte_perm(l, h, 0x5140);
    words[1] = __byte_perm(l, h, 0x7362);
  }
};

/// The values of codes under the factor of their block, as dequantize_block() has them.
template <class E, int N>
FOURSCALE_D void to_floats(packed<E, N> codes, float factor, float (&x)[N]) {
  if constexpr (E::width == 8 || E::bias < 0) {
    decode(codes, x);
  } else {  // these take fewer instructions four at a time
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 4) {
      u32 two[2];
      mma::four_to_bf16<E>(static_cast<u32>(codes.bits >> (E::width * i)), two);
      FOURSCALE_UNROLL
      for (int j = 0; j < 4; ++j)
        x[i + j] = bit_cast<float>(j % 2 == 0 ? two[j / 2] << 16 : two[j / 2] & 0xffff'0000u);
    }
  }
  FOURSCALE_UNROLL
  for (float& value : x) value = ptx::mul_rn_f32(value, factor);
}
/// The same, rounded to T.
template <class T, class E, int N>
FOURSCALE_D cta::values<T, N> to_values(packed<E, N> codes, float factor) {
  if constexpr (same_type<E, e2m1> && cta::is_packed<T>) {
    const magnitude_table<T> table(factor);
    cta::values<T, N> v;
    FOURSCALE_UNROLL
    for (int i = 0; i < N; i += 4) {
      u32 pair[2];
      table.decode(codes.bits >> (4 * i), pair);
      v.words[i / 2] = pair[0], v.words[i / 2 + 1] = pair[1];
    }
    if (table.valid) return v;
  }
  float x[N];
  to_floats(codes, factor, x);
  return cta::values<T, N>::rounded(x);
}

/// True for a matrix in memory and for its transpose: neighbours in a row, or in a column of the transpose,
/// are neighbours in memory.
template <class M>
inline constexpr bool has_lines = false;
template <class T>
inline constexpr bool has_lines<matrix_view<T>> = true;
template <class T>
inline constexpr bool has_lines<transposed_view<T>> = true;
template <class T>
FOURSCALE_D i64 leading_dimension(matrix_view<T> const& y) {
  return y.ld;
}
template <class T>
FOURSCALE_D i64 leading_dimension(transposed_view<T> const& y) {
  return y.base.ld;
}

/// For a y whose rows are aligned to 16 bytes. A group is the values that fill 16 bytes of y, so that every
/// store is whole. Groups are counted along rows; a thread takes four of them. blockIdx.y counts chunks of
/// rows.
inline constexpr int dequantize_groups = 4;
template <class F, class Layout, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    dequantize_rows_kernel(block_scaled_view<F, Layout, u8 const> q, matrix_view<T> y, cta::divisor groups,
                           u32 chunk_rows) {
  constexpr int n = 16 / static_cast<int>(sizeof(T)), in_block = F::block_size / n;
  using E = typename F::element;
  using group = packed<E, n>;
  const i64 first_row = i64{blockIdx.y} * chunk_rows, rows_left = q.rows - first_row;
  const u32 count = static_cast<u32>(rows_left < chunk_rows ? rows_left : chunk_rows) * groups.d;
  const u32 first = blockIdx.x * (cta_threads * dequantize_groups) + threadIdx.x;
  u8 const* const codes = q.codes + (first_row * groups.d + first) * group::bytes;
  group codes_of[dequantize_groups];
  typename F::scale scale[dequantize_groups] = {};
  FOURSCALE_UNROLL
  for (int k = 0; k < dequantize_groups; ++k)
    if (const u32 i = first + static_cast<u32>(k) * cta_threads; i < count) {
      const u32 row = groups.quotient(i);
      codes_of[k] = cta::load_codes<E, n>(codes + k * cta_threads * group::bytes, true);
      scale[k] = q.load_scale(first_row + row, (i - row * groups.d) / in_block);
    }
  const tensor_scale<F> of_tensor = q.amax.scale_of_all();
  FOURSCALE_UNROLL
  for (int k = 0; k < dequantize_groups; ++k) {
    const u32 i = first + static_cast<u32>(k) * cta_threads;
    if (i >= count) continue;
    const u32 in_chunk = groups.quotient(i);
    const i64 row = first_row + in_chunk;
    const tensor_scale<F> tensor = tensor_scale_of(q.amax, row, of_tensor);
    const float factor = tensor.dequantize_factor(decode(scale[k]));
    to_values<T>(codes_of[k], factor).store(&y.at(row, i64{i - in_chunk * groups.d} * n));
  }
}

/// For any other y: a tile in shared memory, where values lie in the order of y's memory. It has 64 lines of
/// 256 bytes; a line is a part of a row of y, or of a column of a transposed y.
template <class M>
struct dequantize_tile {
  using T = typename M::value_type;
  static constexpr bool by_columns = M::is_transposed, has_pairs = has_lines<M> && cta::is_packed<T>;
  static constexpr int lines = 64, places = has_pairs ? 128 : 64, rows = by_columns ? places : lines,
                       cols = by_columns ? lines : places;
  uint_t<has_pairs ? 16 : 32> values[lines][places + (has_pairs ? 2 : 1)];  ///< bits of T, or of float

  FOURSCALE_D u32& pair(int line, int place) { return reinterpret_cast<u32&>(values[line][place]); }

  /// Puts eight values of each of two rows into the tile: rows `row` and row + 1, from column c on.
  template <class E>
  FOURSCALE_D void put(packed<E, 8> const (&groups)[2], float const (&factors)[2], int row, int c) {
    if constexpr (has_pairs) {
      const cta::values<T, 8> upper = to_values<T>(groups[0], factors[0]),
                              lower = to_values<T>(groups[1], factors[1]);
      FOURSCALE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const u32 a = upper.words[i], b = lower.words[i];
        pair(by_columns ? c + 2 * i : row, by_columns ? row : c + 2 * i) =
            by_columns ? __byte_perm(a, b, 0x5410) : a;
        pair(by_columns ? c + 2 * i + 1 : row + 1, by_columns ? row : c + 2 * i) =
            by_columns ? __byte_perm(a, b, 0x7632) : b;
      }
    } else {
      FOURSCALE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float x[8];
        to_floats(groups[half], factors[half], x);
        FOURSCALE_UNROLL
        for (int j = 0; j < 8; ++j)
          values[by_columns ? c + j : row + half][by_columns ? row + half : c + j] = bit_cast<u32>(x[j]);
      }
    }
  }
  /// A warp stores a line to `to`, which is a multiple of four bytes.
  FOURSCALE_D void store(int line, T* to) requires has_pairs {
    FOURSCALE_UNROLL
    for (int i = static_cast<int>(threadIdx.x) % 32 * 2; i < places; i += 64)
      reinterpret_cast<u32&>(to[i]) = pair(line, i);
  }
  /// A warp stores the first `count` values of a line to `to`.
  FOURSCALE_D void store(int line, int count, T* to) requires has_pairs {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Two values at a time, at multiples of four bytes. If `to` is not one, its first value is stored alone.
    const int alone = static_cast<int>(reinterpret_cast<u64>(to) / 2 % 2);
    if (alone != 0 && lane == 0) to[0] = T{values[line][0]};
    FOURSCALE_UNROLL
    for (int i = 0; i < places; i += 64) {
      const int place = i + 2 * lane + alone;
      if (place + 1 < count)
        reinterpret_cast<u32&>(to[place]) =
            alone == 0 ? pair(line, place) : values[line][place] | u32{values[line][place + 1]} << 16;
      else if (place < count)
        to[place] = T{values[line][place]};
    }
  }
};
/// A CTA takes tiles of y from top to bottom. `words`: the result of cta::are_words() for the codes.
template <class F, class Layout, class M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    dequantize_tiles_kernel(block_scaled_view<F, Layout, u8 const> q, M y, bool words) {
  using memory = dequantize_tile<M>;
  constexpr int n = 8, in_row = memory::cols / n, each = memory::rows / 2 * in_row / cta_threads;
  using E = typename F::element;
  using group = packed<E, n>;
  __shared__ __align__(8) memory tile;
  const int thread = static_cast<int>(threadIdx.x), of_row = thread % in_row, c = of_row * n;
  const tensor_scale<F> of_tensor = shared_tensor_scale<F>(q.amax);
  const i64 col = i64{blockIdx.x} * memory::cols;
  const int cols = static_cast<int>(q.cols - col < memory::cols ? q.cols - col : memory::cols);
  for (i64 row = i64{blockIdx.y} * memory::rows; row < q.rows; row += i64{gridDim.y} * memory::rows) {
    const int rows = static_cast<int>(q.rows - row < memory::rows ? q.rows - row : memory::rows);
    // A thread takes the same columns of several pairs of rows.
    const auto row_of = [&](int k) { return (thread + k * cta_threads) / in_row * 2; };
    group groups[each][2];
    typename F::scale scales[each][2] = {};
    FOURSCALE_UNROLL
    for (int k = 0; k < each; ++k) FOURSCALE_UNROLL
    for (int half = 0; half < 2; ++half)
      if (const int r = row_of(k) + half; r < rows && c < cols) {
        u8 const* const from = q.codes + ((row + r) * (q.cols / n) + col / n + of_row) * group::bytes;
        groups[k][half] = cta::load_codes<E, n>(from, words);
        scales[k][half] = q.load_scale(row + r, (col + c) / F::block_size);
      }
    FOURSCALE_UNROLL
    for (int k = 0; k < each; ++k) {
      const int r = row_of(k);
      if (r >= rows || c >= cols) continue;
      float factors[2] = {};
      FOURSCALE_UNROLL
      for (int half = 0; half < 2; ++half)
        if (r + half < rows) {
          const tensor_scale<F> tensor = tensor_scale_of(q.amax, row + r + half, of_tensor);
          factors[half] = tensor.dequantize_factor(decode(scales[k][half]));
        }
      tile.put(groups[k], factors, r, c);
    }
    __syncthreads();
    const int lines = memory::by_columns ? cols : rows, places = memory::by_columns ? rows : cols;
    const auto at = [&](int line, int place) -> decltype(auto) {
      return memory::by_columns ? y.at(row + place, col + line) : y.at(row + line, col + place);
    };
    constexpr int warps = cta_threads / 32;
    if constexpr (memory::has_pairs) {
      auto* to = &at(thread / 32, 0);
      const i64 ld = leading_dimension(y);
      const bool in_pairs = reinterpret_cast<u64>(&at(0, 0)) % 4 == 0 && ld % 2 == 0;
      if (in_pairs && lines == memory::lines && places == memory::places) {
        FOURSCALE_UNROLL
        for (int i = 0; i < memory::lines; i += warps, to += warps * ld) tile.store(thread / 32 + i, to);
      } else {
#pragma unroll 1
        for (int line = thread / 32; line < lines; line += warps, to += warps * ld)
          tile.store(line, places, to);
      }
    } else {
      for (int line = thread / 32; line < lines; line += warps) FOURSCALE_UNROLL
      for (int place = thread % 32; place < memory::places; place += 32)
        if (place < places)
          at(line, place) = from_float<typename M::value_type>(bit_cast<float>(tile.values[line][place]));
    }
    __syncthreads();
  }
}

/// Launches dequantize_rows_kernel where it applies; returns false where it does not.
template <class F, class Layout, class M>
bool launch_dequantize_rows(block_scaled_view<F, Layout, u8 const> const& q, M const& y,
                            cudaStream_t stream) {
  using T = typename M::value_type;
  if constexpr (!M::is_transposed && has_lines<M> && (sizeof(T) == 2 || sizeof(T) == 4)) {
    constexpr int n = 16 / static_cast<int>(sizeof(T));
    const i64 groups = q.cols / n;
    if (!rows_are_vectors(y) || !cta::are_words<typename F::element, n>(q.codes) ||
        !row_chunks::can_take(groups))
      return false;
    const row_chunks chunks(q.rows, groups, dequantize_groups);
    dequantize_rows_kernel<F, Layout, T><<<chunks.grid, cta_threads, 0, stream>>>(
        q, y, cta::divisor(static_cast<u32>(groups)), static_cast<u32>(chunks.rows));
    return true;
  }
  return false;
}

template <class F, class Layout, class M>
void launch_dequantize_tiles(block_scaled_view<F, Layout, u8 const> const& q, M const& y,
                             cudaStream_t stream) {
  using memory = dequantize_tile<M>;
  constexpr i64 most = 0xffff;  // of a grid's second dimension
  const i64 along = ceil_div<i64>(q.cols, memory::cols), down = ceil_div<i64>(q.rows, memory::rows);
  const dim3 grid(static_cast<unsigned>(along), static_cast<unsigned>(down < most ? down : most));
  const bool words = cta::are_words<typename F::element, 8>(q.codes);
  dequantize_tiles_kernel<<<grid, cta_threads, 0, stream>>>(q, y, words);
}

}  // namespace detail

/// Writes the values of q into y (or into transposed(y), for a columnwise copy), as host::dequantize does.
/// All pointers are device memory, that of the amax included. One kernel on the stream; never synchronises,
/// never allocates. Errors: see validate(); y is then untouched.
template <class F, class Layout, class Byte, class M>
errc dequantize(block_scaled_view<F, Layout, Byte> const& q, M const& y, cudaStream_t stream = nullptr) {
  if constexpr (fourscale::detail::can_write<M>()) {
    if (const errc e = validate(y, q); e != errc::ok) return e;
    const block_scaled_view<F, Layout, u8 const> input = q;
    const auto output = detail::as_output(y);
    if (detail::launch_dequantize_rows(input, output, stream)) return detail::launched();
    detail::launch_dequantize_tiles(input, output, stream);
    return detail::launched();
  }
  return errc::ok;
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
