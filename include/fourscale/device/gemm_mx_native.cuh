// SPDX-License-Identifier: Apache-2.0
// accumulate::native of MXFP8, MXFP6 and MXFP4 by one another. Elements times their scales are decoded to
// bf16 (gemm_decode_mx.cuh), and the kernels of accumulate::blackwell multiply them as if every certificate
// held. If a scale is so far from 1 that bf16 or an f32 sum may not hold its values, these kernels leave D
// alone, and the kernel behind them adds the whole GEMM in double. Bound: docs/native_gemm.md.
#pragma once

#include "gemm.cuh"
#include "gemm_decode_mx.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Shared memory for a tile of 64 x 64 outputs, sixteen a thread: one block of A and B along K, [k][row].
struct tile_in_double {
  static constexpr int side = 64, each = 4, across = side / each, threads = across * across;
  double a[mma::block_values][side + 1], b[mma::block_values][side + 1];

  /// The scale as a double, made from its bits: 2^-127 is not a normal float, and under --use_fast_math a
  /// conversion by way of float would make it 0.
  FOURSCALE_HD static constexpr double scale_of(e8m0 scale) {
    constexpr u64 bias = 1023 - e8m0::bias, nan = u64{0x7ff8} << 48;
    return bit_cast<double>(scale.bits == e8m0::nan_bits ? nan : (scale.bits + bias) << 52);
  }
  /// Loads a block of 64 rows, by all threads. Rows behind the last one are zeros.
  template <class F, class Layout>
  FOURSCALE_D static void load(block_scaled_view<F, Layout, u8 const> const& q, i64 first_row, i64 block,
                               double (&to)[mma::block_values][side + 1]) {
    static_assert(F::block_size == mma::block_values);
    constexpr int values = F::block_size * side / threads, parts = F::block_size / values;
    const int row = static_cast<int>(threadIdx.x) / parts,
              first = static_cast<int>(threadIdx.x) % parts * values;
    const bool there = first_row + row < q.rows;
    const double scale = there ? scale_of(q.load_scale(first_row + row, block)) : 0.0;
    FOURSCALE_UNROLL
    for (int i = first; i < first + values; ++i)
      to[i][row] =
          there ? double{decode(q.load_code(first_row + row, block * F::block_size + i))} * scale : 0.0;
  }
};

/// The whole GEMM in double, if the samples refuse the values, so that the kernels before leave D alone; else
/// nothing. Any number of CTAs. Each sum is rounded once, to f32, before the epilogue.
template <class F, class LA, class G, class LB, class T>
FOURSCALE_KERNEL void __launch_bounds__(tile_in_double::threads)
    gemm_in_double_kernel(block_scaled_view<F, LA, u8 const> a, block_scaled_view<G, LB, u8 const> b,
                          matrix_view<T> d, gemm_factors factors, mma::wgmma::way_sample const* samples) {
  if (!mma::wgmma::sum_of_samples(samples).refused) return;
  constexpr int side = tile_in_double::side, each = tile_in_double::each, across = tile_in_double::across;
  __shared__ tile_in_double m;
  const int x = static_cast<int>(threadIdx.x) % across, y = static_cast<int>(threadIdx.x) / across;
  const i64 down = ceil_div<i64>(d.rows, side), tiles = down * ceil_div<i64>(d.cols, side);
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const i64 row = tile % down * side, col = tile / down * side;
    double sums[each][each] = {};
    for (i64 block = 0; block < a.blocks(); ++block) {
      __syncthreads();
      m.load(a, row, block, m.a), m.load(b, col, block, m.b);
      __syncthreads();
      for (int k = 0; k < F::block_size; ++k) FOURSCALE_UNROLL
      for (int i = 0; i < each; ++i) FOURSCALE_UNROLL
      for (int j = 0; j < each; ++j)
        sums[i][j] = fma(m.a[k][y + across * i], m.b[k][x + across * j], sums[i][j]);
    }
    FOURSCALE_UNROLL
    for (int i = 0; i < each; ++i) FOURSCALE_UNROLL
    for (int j = 0; j < each; ++j) {
      const i64 r = row + y + across * i, c = col + x + across * j;
      if (r >= d.rows || c >= d.cols) continue;
      const float sum = __double2float_rn(sums[i][j]);
      T& to = d.at(r, c);
      to = factors.beta == 0.0f ? gemm_output<T>(factors.alpha, sum)
                                : gemm_output<T>(factors.alpha, sum, factors.beta, to);
    }
  }
}

/// A GEMM of such operands, whose arguments have been checked. `Call`, wgmma_call or bf16_call, multiplies;
/// decoding is this struct's own, and so is the kernel in double.
template <class Call, class T>
struct native_mx_call : Call {
  using Call::a, Call::b, Call::p, Call::behind;

  template <class A, class B>
  native_mx_call(A const& x, B const& y, matrix_view<T> const& d, gemm_factors factors, void* workspace,
                 gemm_steps* steps)
      : Call(x, y, d, factors, workspace, steps) {
    p.samples = reinterpret_cast<mma::wgmma::way_sample*>(behind());  // where wgmma_call has them, too
  }
  template <bool>
  errc decode(cudaStream_t stream) const {
    decoded_besides besides{{}, {}, p.samples, {}};
    if constexpr (requires { this->zeros(); }) besides.zeros[0] = this->zeros();
    const i64 ctas = mma::wgmma::way_samples + p.a.row_groups() + p.b.row_groups();
    decode_mx_kernel<0>
        <<<static_cast<unsigned>(ctas), 32 * decode_warps, 0, stream>>>(a, b, p.a, p.b, besides);
    return launched();
  }
  errc multiply(cudaStream_t stream) const {
    if (const errc e = Call::multiply(stream); e != errc::ok) return e;
    const i64 tiles = ceil_div<i64>(p.d.rows, tile_in_double::side) *
                      ceil_div<i64>(p.d.cols, tile_in_double::side),
              most = 4 * i64{device_attribute(cudaDevAttrMultiProcessorCount)};
    gemm_in_double_kernel<<<static_cast<unsigned>(tiles < most ? tiles : most), tile_in_double::threads, 0,
                            stream>>>(a, b, p.d, {p.factor_of.alpha, p.beta}, p.samples);
    return launched();
  }
};

/// The kernels that take operands decoded this way, under the names that run_decoded() asks for.
template <class F, class LA, class G, class LB, class T>
struct native_mx_kernels {
  using by_wgmma = native_mx_call<wgmma_call<F, LA, G, LB, T>, T>;
  using by_mma_sync = native_mx_call<bf16_call<F, LA, G, LB, T>, T>;

  static gemm_kernel choose() {
    const bool hopper = best_kernel(compute_capability_major(), false) == gemm_kernel::wgmma;
    return hopper && by_wgmma::available() ? gemm_kernel::wgmma : gemm_kernel::bf16;
  }
};

}  // namespace detail

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
