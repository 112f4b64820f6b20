// SPDX-License-Identifier: Apache-2.0
// Opt-in, because it includes <cuda.h> and <cuda/ptx>: the one GEMM with Blackwell's bits, by whatever this
// device does it fastest with. The bits are the same on each. Ran on Hopper; the two kernels for Blackwell
// were assembled, their models ran, and they never did.
#pragma once

#include "../view/accumulate.hpp"
#include "gemm_tcgen05.cuh"
#include "gemm_wgmma.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

/// Device memory that a GEMM works in, at any address. What it holds means nothing to the caller.
struct gemm_workspace {
  void* data = nullptr;
  i64 bytes = 0;
};

/// How a GEMM multiplies.
enum class gemm_kernel : u8 {
  tcgen05,   ///< sm_100, 103, 110: block-scaled tensor cores, operands by TMA
  mma_sync,  ///< sm_120, 121: block-scaled mma.sync
  wgmma,     ///< sm_90a: bf16 and one addition toward zero for each step
  model      ///< any other: the same bits in integers, far slower
};

/// The bytes of workspace for A (m x k) and B (n x k), enough for every kernel: about 2.13 bytes a value.
/// Only gemm_kernel::wgmma uses it.
inline i64 gemm_workspace_bytes(i64 m, i64 n, i64 k) {
  using mma::decoded_operand;
  return decoded_operand::in(nullptr, m, k).bytes() + decoded_operand::in(nullptr, n, k).bytes() +
         decoded_operand::alignment;
}

namespace detail {

/// The best that a device of this compute capability has, if the code was compiled for it. `tma`: tcgen05 can
/// read the operands.
constexpr gemm_kernel best_kernel(int major, bool tma) {
  if (major == 12) return gemm_kernel::mma_sync;
  if (major == 10 || major == 11) return tma ? gemm_kernel::tcgen05 : gemm_kernel::model;
  return major == 9 ? gemm_kernel::wgmma : gemm_kernel::model;
}

template <class F, class B>
bool tma_can_read(block_scaled_view<F, swizzled_128x4, B> const& q) {
  return tcgen05_refusal(q) == nullptr;
}
template <class F, class L, class B>
bool tma_can_read(block_scaled_view<F, L, B> const&) {
  return false;
}

inline int compute_capability_major() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
                 cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess
             ? major
             : 0;
}

template <class F, class LA, class G, class LB, class T>
errc run_wgmma(block_scaled_view<F, LA, u8 const> const& a, block_scaled_view<G, LB, u8 const> const& b,
               matrix_view<T> const& d, gemm_factors factors, gemm_workspace workspace, cudaStream_t stream,
               gemm_steps* steps) {
  if (workspace.data == nullptr || workspace.bytes < gemm_workspace_bytes(a.rows, b.rows, a.cols))
    return errc::no_workspace;
  namespace rules = fourscale::detail;
  const rules::byte_range memory = rules::bytes_of(static_cast<u8*>(workspace.data), workspace.bytes);
  if (rules::overlaps(d, memory) || rules::overlaps(a, memory) || rules::overlaps(b, memory))
    return errc::overlap;
  u8* const aligned = reinterpret_cast<u8*>(
      round_up<u64>(reinterpret_cast<u64>(workspace.data), u64{mma::decoded_operand::alignment}));
  const wgmma_call<F, LA, G, LB, T> call(a, b, d, factors, aligned, steps);
  if (call.state != errc::ok) return call.state;
  const errc e = call.decode(stream);
  return e != errc::ok ? e : call.multiply(stream);
}

}  // namespace detail

/// The kernel that gemm() takes for these operands on the current device.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
gemm_kernel kernel_of_gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                           matrix_view<T> const&) {
  const bool tma = detail::tma_can_read(a) && detail::tma_can_read(b);
  gemm_kernel best = detail::best_kernel(detail::compute_capability_major(), tma);
  if constexpr (same_type<F, G> && mma::has_decoded_form<F>) {
    if (best == gemm_kernel::wgmma && !detail::wgmma_call<F, LA, G, LB, T>::available())
      best = gemm_kernel::model;
  } else {
    if (best == gemm_kernel::wgmma) best = gemm_kernel::model;
  }
  return best;
}

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N) in bf16, fp16 or float, with the bits
/// of model::block_scaled_dot chained along K in order, and of the epilogue in view/gemm_epilogue.hpp: NVFP4
/// by NVFP4, MXFP4 by MXFP4, MXFP8 by MXFP8 (E4M3 or E5M2, also one by the other). Any M and N; K a multiple
/// of the block size. D is not read when beta = 0. `steps`, device memory unless it is null, is added to: how
/// gemm_kernel::wgmma added its steps; the others leave it alone.
///
/// One or two kernels on the stream; never synchronises, never allocates. Errors: those of host::gemm;
/// no_workspace, if gemm_kernel::wgmma gets too little; overlap, if the workspace shares a byte with a
/// matrix. D is then untouched.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
          matrix_view<T> const& d, gemm_factors factors, accumulate::blackwell, gemm_workspace workspace,
          cudaStream_t stream = nullptr, gemm_steps* steps = nullptr) {
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  const auto to = detail::as_output(d);
  switch (kernel_of_gemm(a, b, to)) {
    case gemm_kernel::tcgen05:
      if constexpr (same_type<LA, swizzled_128x4> && same_type<LB, swizzled_128x4>)
        return gemm_tcgen05(a, b, to, factors, {}, stream);
      return errc::no_instruction;
    case gemm_kernel::mma_sync:
      return gemm_mma_sync(a, b, to, factors, stream);
    case gemm_kernel::wgmma:
      if constexpr (same_type<F, G> && mma::has_decoded_form<F>)
        return detail::run_wgmma<F, LA, G, LB>(a, b, to, factors, workspace, stream, steps);
      return errc::no_instruction;
    default:
      return gemm_mma_sync<mma::model>(a, b, to, factors, stream);
  }
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
