// SPDX-License-Identifier: Apache-2.0
// Back to float, bf16 or fp16, on a stream.
#pragma once

#include "../block/quantize.hpp"
#include "../view/requirements.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// A thread takes a block.
template <class F, class Layout, class M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    dequantize_kernel(block_scaled_view<F, Layout, u8 const> q, M y, bool vectors) {
  constexpr int n = F::block_size;
  const tensor_scale<F> of_tensor = shared_tensor_scale<F>(q.amax);
  const i64 count = q.rows * q.blocks();
  for (i64 i = blockIdx.x * i64{cta_threads} + threadIdx.x; i < count; i += i64{gridDim.x} * cta_threads) {
    const i64 row = M::is_transposed ? i % q.rows : i / q.blocks(),
              block = M::is_transposed ? i / q.rows : i % q.blocks();
    float values[n];
    dequantize_block(q.load(row, block), values, tensor_scale_of(q.amax, row, of_tensor));
    if constexpr (M::is_transposed) {
      FOURSCALE_UNROLL
      for (int j = 0; j < n; ++j) y.at(row, block * n + j) = from_float<typename M::value_type>(values[j]);
    } else {
      store_values(values, vectors, &y.at(row, block * n));
    }
  }
}

/// What the eight magnitudes of E2M1 become in one block, as 16-bit values: their low bytes, their high
/// bytes, as __byte_perm looks them up. Valid while all of them but 0 are normal: powers of two times f
/// and 1.5 f, which differ in the exponent alone.
template <class T>
struct magnitude_table {
  static constexpr bool is_bf16 = same_type<T, bf16>;
  u32 low[2], high[2];
  bool valid;

  explicit FOURSCALE_D magnitude_table(float f) {
    constexpr float least = is_bf16 ? 0x1p-124f : 0x1p-12f, most = is_bf16 ? 0x1p124f : 0x1p12f;
    const float larger = ptx::mul_rn_f32(f, 1.5f);
    constexpr u32 step = is_bf16 ? 0x80u : 0x400u;  // of the exponent
    const u32 one = from_float<T>(f).bits | u32{from_float<T>(larger).bits} << 16;
    const u32 two = one + step * 0x1'0001u, four = two + step * 0x1'0001u,
              none = (one - step) << 16;  // 0, 0.5
    low[0] = __byte_perm(none, one, 0x6420), high[0] = __byte_perm(none, one, 0x7531);
    low[1] = __byte_perm(two, four, 0x6420), high[1] = __byte_perm(two, four, 0x7531);
    valid = f >= least && f <= most;
  }
  /// Four codes, in the low half of a word, to two words of two values each.
  FOURSCALE_D void decode(u32 codes, u32 (&words)[2]) const {
    const u32 index = codes & 0x7777u;
    // 0xff, the sign of 0x80 over and over, where bit 3 of the code is set; else 0x80.
    const u32 signs = ptx::prmt_b32(0x8080'8080u, 0, codes & 0x8888u) << 1 & 0x8080'8080u;
    const u32 l = __byte_perm(low[0], low[1], index), h = __byte_perm(high[0], high[1], index) | signs;
    words[0] = __byte_perm(l, h, 0x5140);
    words[1] = __byte_perm(l, h, 0x7362);
  }
};

/// E2M1 to 16-bit values in a matrix whose rows are vectors: a thread takes eight values at a time, 16 bytes,
/// so that every store is whole. Groups of eight are counted along rows.
inline constexpr int dequantize_groups = 4;
template <class F, class Layout, class T>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    dequantize_rows_kernel(block_scaled_view<F, Layout, u8 const> q, matrix_view<T> y, cta::divisor groups,
                           u32 chunk_rows) {
  constexpr int n = F::block_size, in_block = n / 8;
  const i64 first_row = i64{blockIdx.y} * chunk_rows, rows_left = q.rows - first_row;
  const u32 count = static_cast<u32>(rows_left < chunk_rows ? rows_left : chunk_rows) * groups.d;
  const u32 first = blockIdx.x * (cta_threads * dequantize_groups) + threadIdx.x;
  u32 const* const codes = reinterpret_cast<u32 const*>(q.codes) + first_row * groups.d + first;
  u32 word[dequantize_groups] = {};
  typename F::scale scale[dequantize_groups] = {};
  FOURSCALE_UNROLL
  for (int k = 0; k < dequantize_groups; ++k)
    if (const u32 i = first + static_cast<u32>(k) * cta_threads; i < count) {
      const u32 row = groups.quotient(i), group = i - row * groups.d;
      word[k] = codes[k * cta_threads];
      scale[k] = q.load_scale(first_row + row, group / in_block);
    }
  const tensor_scale<F> tensor = q.amax.scale();
  FOURSCALE_UNROLL
  for (int k = 0; k < dequantize_groups; ++k) {
    const u32 i = first + static_cast<u32>(k) * cta_threads;
    if (i >= count) continue;
    const u32 row = groups.quotient(i), group = i - row * groups.d;
    const float factor = tensor.dequantize_factor(decode(scale[k]));
    const magnitude_table<T> table(factor);
    cta::values<T, 8> values;
    u32 pair[2];
    FOURSCALE_UNROLL
    for (int half = 0; half < 2; ++half) {
      table.decode(word[k] >> (16 * half), pair);
      values.words[2 * half] = pair[0], values.words[2 * half + 1] = pair[1];
    }
    if (!table.valid) {
      FOURSCALE_UNROLL
      for (int j = 0; j < 8; ++j) {
        const typename F::element code{static_cast<u8>(word[k] >> (4 * j) & 0xfu)};
        values.set(j, from_float<T>(ptx::mul_rn_f32(decode(code), factor)));
      }
    }
    values.store(&y.at(first_row + row, i64{group} * 8));
  }
}

/// Launches the kernel above where it applies; false where it does not.
template <class F, class Layout, class M>
bool launch_dequantize_rows(block_scaled_view<F, Layout, u8 const> const& q, M const& y,
                            cudaStream_t stream) {
  if constexpr (!M::is_transposed && same_type<typename F::element, e2m1>) {
    using T = typename M::value_type;
    if constexpr (cta::is_packed<T>) {
      const i64 groups = q.cols / 8;
      if (!rows_are_vectors(y) || reinterpret_cast<u64>(q.codes) % 4 != 0 ||
          q.amax.kind == amax_kind::per_row || !row_chunks::can_take(groups))
        return false;
      const row_chunks chunks(q.rows, groups, dequantize_groups);
      dequantize_rows_kernel<F, Layout, T><<<chunks.grid, cta_threads, 0, stream>>>(
          q, y, cta::divisor(static_cast<u32>(groups)), static_cast<u32>(chunks.rows));
      return true;
    }
  }
  return false;
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
    detail::dequantize_kernel<<<detail::grid_for(q.rows * q.blocks()), detail::cta_threads, 0, stream>>>(
        input, output, detail::rows_are_vectors(output));
    return detail::launched();
  }
  return errc::ok;
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
