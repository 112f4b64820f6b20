// SPDX-License-Identifier: Apache-2.0
// D = alpha * A * B^T + beta * D on the block-scaled tensor cores of sm_120 and sm_121, or on their model.
// The kernel is the same; only its instruction set differs (mma/instruction_set.cuh). With mma::model it ran
// on an H200, bit for bit what the chained model gives on the host; with mma::hardware it was assembled, its
// machine code was read, and it never ran.
#pragma once

#include "../mma/cta_tile.cuh"
#include "../view/gemm_epilogue.hpp"
#include "../view/gemm_factors.hpp"
#include "../view/validate.hpp"
#include "launch.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// The arguments of the kernel.
template <class F, class LayoutA, class G, class LayoutB, class T>
struct gemm_problem {
  block_scaled_view<F, LayoutA, u8 const> a;
  block_scaled_view<G, LayoutB, u8 const> b;
  matrix_view<T> d;
  gemm_factors factors;
  i64 tiles_along;      ///< how many tiles lie side by side
  bool wide_a, wide_b;  ///< rows_are_chunks() of a, of b
};

/// Stores 16 rows of a warp's sums to D, from (row, col) on.
template <class F, class LayoutA, class G, class LayoutB, class T>
FOURSCALE_D void store_strip(gemm_problem<F, LayoutA, G, LayoutB, T> const& p, i64 row, i64 col,
                             mma::sum_strip const& strip) {
  const output_factors<F, G> factor_for(p.factors.alpha, p.a.amax.range, p.b.amax.range);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) % 32; i < mma::instruction_rows * mma::warp_cols; i += 32) {
    const i64 r = row + i / mma::warp_cols, c = col + i % mma::warp_cols;
    if (r >= p.d.rows || c >= p.d.cols) continue;
    const float factor = factor_for(amax_of_row(p.a, r), amax_of_row(p.b, c));
    const float sum = strip.sums[i / mma::warp_cols][i % mma::warp_cols];
    store_output(p.d.at(r, c), factor, sum, p.factors.beta);
  }
}

/// Stores a warp's sums to D from (row, col) on, 16 rows at a time, through the warp's strip of shared
/// memory, so that lanes store neighbours of a row.
template <class F, class LayoutA, class G, class LayoutB, class T>
FOURSCALE_D void store_tile(gemm_problem<F, LayoutA, G, LayoutB, T> const& p, i64 row, i64 col,
                            mma::warp_tile<F, G> const& tile, mma::sum_strip& strip) {
  FOURSCALE_UNROLL
  for (int m = 0; m < tile.m_tiles; ++m) {
    mma::store_sums(tile.d[m], strip);
    __syncwarp();
    store_strip(p, row + m * mma::instruction_rows, col, strip);
    __syncwarp();
  }
}

/// A CTA computes one tile of D. In a compilation pass without the instruction the kernel is empty, and
/// gemm_mma_sync() refuses to launch it.
template <class Set, class F, class LayoutA, class G, class LayoutB, class T>
FOURSCALE_KERNEL void __launch_bounds__(mma::cta_threads)
    gemm_mma_sync_kernel([[maybe_unused]] gemm_problem<F, LayoutA, G, LayoutB, T> p) {
  if constexpr (Set::available()) {
    __shared__ __align__(16) mma::cta_memory<Set, F, G> memory;
    const i64 tile_row = blockIdx.x / p.tiles_along, row = tile_row * mma::tile_rows;
    const i64 col = (blockIdx.x - tile_row * p.tiles_along) * mma::tile_rows;
    mma::warp_tile<F, G> tile;
    mma::multiply<Set>(mma::operand_rows<F, LayoutA>{p.a, row, p.wide_a},
                       mma::operand_rows<G, LayoutB>{p.b, col, p.wide_b}, memory, tile);
    __syncthreads();
    store_tile(p, row + mma::warp_row(), col + mma::warp_col(), tile, memory.sums[threadIdx.x / 32]);
  }
}

/// True if every row of codes begins at a multiple of 16 bytes.
template <class F, class Layout>
bool rows_are_chunks(block_scaled_view<F, Layout, u8 const> const& q) {
  return reinterpret_cast<u64>(q.codes) % mma::chunk_bytes == 0 &&
         q.cols * F::element::width / 8 % mma::chunk_bytes == 0;
}

/// no_instruction if this device has the empty kernel, or no code at all. The runtime's error is cleared, or
/// the next launch would report it as its own. `memory`: the static shared memory by which has_code() knows
/// that the kernel is not empty.
template <class Kernel>
errc check_available(Kernel* kernel, u64 memory) {
  cudaFuncAttributes attributes{};
  const cudaError_t e = cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel));
  if (e != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return errc::no_instruction;
  }
  return has_code(attributes, memory) ? errc::ok : errc::no_instruction;
}
/// Whether this device has code of this kernel of wgmma in which wgmma is not serialized: see
/// arch::is_relocatable.
template <class Kernel>
bool has_fast_wgmma(Kernel* kernel) {
  return !arch::is_relocatable && check_available(kernel, 1) == errc::ok;
}

}  // namespace detail

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N) in bf16, fp16 or float: NVFP4 by NVFP4,
/// MXFP4 by MXFP4, MXFP8 by MXFP8 (E4M3 or E5M2, also one by the other). Any M and N; K is a multiple of the
/// block size, and the kernel pads it with zeros to the K of the instruction. Products are added as
/// model::block_scaled_dot does, chained along K in order; then the epilogue of view/gemm_epilogue.hpp
/// follows. D is not read when beta = 0.
///
/// All pointers are device memory, those of the amaxes included. One kernel on the stream; never
/// synchronises, never allocates. Fastest if all rows of codes begin at multiples of 16 bytes; else codes are
/// read byte by byte.
///
/// Errors: those of host::gemm; and no_instruction if the device has no such instruction, or this code was
/// not compiled for sm_120f, sm_120a, sm_121a. D is then untouched.
template <mma::instruction_set Set = mma::hardware, class F, class LA, class BA, class G, class LB, class BB,
          class T>
errc gemm_mma_sync(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                   matrix_view<T> const& d, gemm_factors factors = {}, cudaStream_t stream = nullptr) {
  static_assert(F::block_size == G::block_size, "Both operands of a GEMM need blocks of the same size.");
  static_assert(mma::has_instruction<F, G>,
                "mma.sync multiplies NVFP4 by NVFP4, MXFP4 by MXFP4, and MXFP8 by MXFP8 (E4M3 or E5M2).");
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  auto* const kernel = &detail::gemm_mma_sync_kernel<Set, F, LA, G, LB, T>;
  if (const errc e = detail::check_available(kernel, sizeof(mma::cta_memory<Set, F, G>)); e != errc::ok)
    return e;
  const i64 along = ceil_div<i64>(d.cols, mma::tile_rows),
            tiles = along * ceil_div<i64>(d.rows, mma::tile_rows);
  detail::gemm_problem<F, LA, G, LB, T> p{a, b, d, factors, along, false, false};
  p.wide_a = detail::rows_are_chunks(p.a);
  p.wide_b = detail::rows_are_chunks(p.b);
  kernel<<<static_cast<unsigned>(tiles), mma::cta_threads, 0, stream>>>(p);
  return detail::launched();
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
