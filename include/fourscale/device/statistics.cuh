// SPDX-License-Identifier: Apache-2.0
// Statistics of the error of a quantized matrix, on a stream. The order of all sums is fixed (strip_walk in
// block/statistics.hpp).
#pragma once

#include "../block/statistics.hpp"
#include "dequantize.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The struct statistics as words, which shuffles can move and shared memory can hold without a constructor.
struct statistics_words {
  u32 words[sizeof(statistics) / 4];
};

/// Joins the statistics of lanes [0, Count) of each warp into lane 0, neighbours first. All lanes take part.
template <int Count>
FOURSCALE_D void join_lanes(statistics& s) {
  FOURSCALE_UNROLL
  for (u32 distance = 1; distance < Count; distance *= 2) {
    auto other = __builtin_bit_cast(statistics_words, s);
    FOURSCALE_UNROLL
    for (u32& word : other.words) word = __shfl_down_sync(0xffff'ffffu, word, distance);
    s += __builtin_bit_cast(statistics, other);
  }
}

/// Joins the statistics of all threads of a CTA, which all call it; thread 0 writes them to *out.
FOURSCALE_D inline void join_cta(statistics s, statistics* out) {
  constexpr int warps = cta_threads / 32;
  __shared__ statistics_words of_warp[warps];
  join_lanes<32>(s);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = __builtin_bit_cast(statistics_words, s);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  s = threadIdx.x < warps ? __builtin_bit_cast(statistics, of_warp[threadIdx.x]) : statistics{};
  join_lanes<warps>(s);
  if (threadIdx.x == 0) *out = s;
}

inline constexpr int statistics_ctas = fourscale::detail::strip_walk::walks * 32 / cta_threads;

/// A warp takes a strip_walk, and a thread one of its lanes. A CTA writes its sum to of_cta[blockIdx.x].
template <class F, class Layout, class M>
FOURSCALE_KERNEL void __launch_bounds__(cta_threads)
    statistics_kernel(M x, bool vectors, block_scaled_view<F, Layout, u8 const> q, statistics* of_cta) {
  constexpr int n = F::block_size;
  const tensor_scale<F> of_tensor = shared_tensor_scale<F>(q.amax);
  statistics s;
  fourscale::detail::strip_walk at(q.rows, (blockIdx.x * i64{cta_threads} + threadIdx.x) / 32);
  const i64 rows_on = at.rows_on(), blocks_on = at.blocks_on(), blocks = q.blocks();
  for (; at.first_block < blocks; at.next(rows_on, blocks_on)) {
    const i64 block = at.first_block + threadIdx.x % 32;
    if (block >= blocks) continue;
    float values[n];
    load_block(x, at.row, block, vectors, values);
    s += block_statistics<F>(values, q.load(at.row, block), tensor_scale_of(q.amax, at.row, of_tensor),
                             position{at.row, block * n}, q.cols);
  }
  join_cta(s, of_cta + blockIdx.x);
}

/// Joins the sums of the CTAs of statistics_kernel, a thread for each. CTAs without work were not launched.
template <int Threads>
FOURSCALE_KERNEL void __launch_bounds__(Threads)
    join_statistics_kernel(statistics const* of_cta, int ctas, statistics* out) {
  join_cta(static_cast<int>(threadIdx.x) < ctas ? of_cta[threadIdx.x] : statistics{}, out);
}
static_assert(statistics_ctas == cta_threads, "One CTA joins all others, a thread for each.");

/// The number of CTAs to launch: fewer where there are fewer strips, because lanes without a block add
/// nothing.
inline int statistics_ctas_for(i64 rows, i64 blocks) {
  const i64 strips = rows * ceil_div<i64>(blocks, fourscale::detail::strip_walk::width);
  const i64 ctas = ceil_div<i64>(strips, cta_threads / 32);
  return static_cast<int>(ctas < statistics_ctas ? ctas : statistics_ctas);
}

inline errc check_statistics(void const* p) {
  if (p == nullptr) return errc::null_pointer;
  return reinterpret_cast<u64>(p) % alignof(statistics) != 0 ? errc::misaligned : errc::ok;
}

}  // namespace detail

/// Bytes of device memory, aligned to 8, that statistics_of() works in.
inline constexpr i64 statistics_workspace_bytes = detail::statistics_ctas * i64{sizeof(statistics)};

/// Writes to *out (device memory) how q compares with the matrix it was quantized from: the bits of
/// host::statistics_of(). For a columnwise copy, pass transposed(x). All pointers are device memory;
/// `workspace` has statistics_workspace_bytes. Two kernels on the stream, graph-capturable; never
/// synchronises, never allocates. Errors: see validate(); *out is then untouched.
template <matrix_like M, class F, class Layout, class Byte>
errc statistics_of(M const& x, block_scaled_view<F, Layout, Byte> const& q, statistics* out, void* workspace,
                   cudaStream_t stream = nullptr) {
  if (const errc e = validate(x, q); e != errc::ok) return e;
  if (const errc e = detail::check_statistics(out); e != errc::ok) return e;
  if (const errc e = detail::check_statistics(workspace); e != errc::ok) return e;
  const auto input = detail::as_input(x);
  const block_scaled_view<F, Layout, u8 const> quantized = q;
  auto* const of_cta = static_cast<statistics*>(workspace);
  const int ctas = detail::statistics_ctas_for(q.rows, q.blocks());
  detail::statistics_kernel<<<static_cast<unsigned>(ctas), detail::cta_threads, 0, stream>>>(
      input, detail::rows_are_vectors(input), quantized, of_cta);
  if (const errc e = detail::launched(); e != errc::ok) return e;
  detail::join_statistics_kernel<detail::statistics_ctas>
      <<<1, detail::statistics_ctas, 0, stream>>>(of_cta, ctas, out);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
