// SPDX-License-Identifier: Apache-2.0
// Opt-in, because it includes <cuda.h> and <cuda/ptx>. gemm() multiplies block-scaled operands with the bits
// of Blackwell's tensor cores, by the kernel that is fastest on the current device. The bits of D are the
// same with each kernel. The kernels that decode operands first (wgmma, bf16, f16) ran on Hopper. The two
// for Blackwell (tcgen05, mma_sync) were assembled, and their models ran; they never ran on Blackwell.
#pragma once

#include "../view/accumulate.hpp"
#include "gemm_bf16.cuh"
#include "gemm_f16.cuh"
#include "gemm_tcgen05.cuh"
#include "gemm_wgmma_in_32s.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

/// Device memory in which a GEMM works, at any address. Its contents mean nothing to the caller.
struct gemm_workspace {
  void* data = nullptr;
  i64 bytes = 0;
};

/// The kernel that multiplies.
enum class gemm_kernel : u8 {
  tcgen05,   ///< sm_100, 103, 110: block-scaled tensor cores, operands by TMA
  mma_sync,  ///< sm_120, 121: block-scaled mma.sync
  wgmma,     ///< sm_90a: operands decoded to bf16; one addition toward zero for each step of 64 or 32
  bf16,      ///< sm_80 and later: as wgmma, but by mma.sync
  f16        ///< sm_80 and later: MXFP8, MXFP6 and MXFP4 in steps of K = 32, by mma.sync of fp16
};

/// The bytes of workspace for A (m x k) and B (n x k), enough for every kernel: about 2.2 bytes a value; at
/// most 14 MB for accumulators that one cluster hands to the next along K; and, for certificates, 2^-10 times
/// m * n or, where m * n * k is 2^36 or more, 2^-16 times that. Only gemm_kernel::wgmma, bf16 and f16 use a
/// workspace. 0 for sizes that no GEMM has.
inline i64 gemm_workspace_bytes(i64 m, i64 n, i64 k, accumulate::blackwell = {}) {
  if (fourscale::detail::check_gemm_shape(m, n, k) != errc::ok) return 0;
  using mma::decoded_operand;
  // As many for longer K, which has no certificates: what suffices for some tokens then does for fewer.
  const i64 all_steps = ceil_div<i64>(k, mma::decoded_step), most = model::most_steps - 1,
            steps = all_steps < most ? all_steps : most;
  const i64 certified = detail::strips_of(nullptr, m, n, steps).bytes(steps),
            failed = mma::failed_strips::bytes(m, n);
  return decoded_operand::in(nullptr, m, k).bytes() + decoded_operand::in(nullptr, n, k).bytes() +
         detail::sample_bytes + detail::carried_memory::bytes(detail::carried_memory::clusters(m, n)) +
         (certified > failed ? certified : failed) + decoded_operand::alignment;
}

namespace detail {

/// The kernel to try first on a device of this compute capability. `tma`: tcgen05 can read the operands.
constexpr gemm_kernel best_kernel(int major, bool tma) {
  if (major == 12) return gemm_kernel::mma_sync;
  if ((major == 10 || major == 11) && tma) return gemm_kernel::tcgen05;
  return major == 9 ? gemm_kernel::wgmma : gemm_kernel::bf16;
}

inline int compute_capability_major() { return device_attribute(cudaDevAttrComputeCapabilityMajor); }

/// The kernels for operands and a D of these types: which ones exist, which ones the code was compiled for,
/// and which one to take.
template <class F, class LA, class G, class LB, class T>
struct kernels_of_gemm {
  using a_type = block_scaled_view<F, LA, u8 const>;
  using b_type = block_scaled_view<G, LB, u8 const>;
  using by_wgmma = wgmma_call<F, LA, G, LB, T>;
  using by_mma_sync = bf16_call<F, LA, G, LB, T>;
  using by_wgmma_in_32s = call_in_32s<F, LA, G, LB, T>;
  using by_f16 = f16_call<F, LA, G, LB, T>;
  static constexpr bool decodes = same_type<F, G> && model::has_steps_of_64<F>;
  static constexpr bool has_steps_of_32 = model::has_steps_of_32<F, G>, in_32s = mma::has_run_limits<F, G>;
  /// Blackwell has a block-scaled instruction that takes these codes as they lie in memory.
  static constexpr bool has_instruction = mma::has_instruction<F, G>;
  static_assert(decodes || has_steps_of_32,
                "accumulate::blackwell multiplies NVFP4 by NVFP4, and MX formats by each other.");
  static constexpr bool swizzled =
      has_instruction && same_type<LA, swizzled_128x4> && same_type<LB, swizzled_128x4>;

  /// Whether there is such a kernel for these formats, whatever the code was compiled for.
  static constexpr bool takes(gemm_kernel which) {
    return which == gemm_kernel::f16     ? has_steps_of_32
           : which == gemm_kernel::wgmma ? decodes || in_32s
           : which == gemm_kernel::bf16  ? decodes
                                         : has_instruction;
  }
  static bool tma_can_read(a_type const& a, b_type const& b) {
    if constexpr (swizzled) return tcgen05_refusal(a) == nullptr && tcgen05_refusal(b) == nullptr;
    return false;
  }
  static bool available(gemm_kernel which) {
    if constexpr (has_instruction) {
      if (which == gemm_kernel::mma_sync) {
        using hardware = mma::hardware;
        return check_available(&gemm_mma_sync_kernel<hardware, F, LA, G, LB, T>,
                               sizeof(mma::cta_memory<hardware, F, G>)) == errc::ok;
      }
      if (which == gemm_kernel::tcgen05) {
        using hardware = mma::tcgen05::hardware<2>;
        return check_available(&gemm_tcgen05_kernel<mma::tcgen05::tile<F, G, 2, 256>, hardware,
                                                    mma::tcgen05::problem<F, G, T>>,
                               1) == errc::ok;
      }
    }
    if constexpr (decodes) return which == gemm_kernel::bf16 || by_wgmma::available();
    if constexpr (in_32s) return which == gemm_kernel::wgmma && by_wgmma_in_32s::available();
    return false;
  }
  static gemm_kernel choose(a_type const& a, b_type const& b) {
    const gemm_kernel best = best_kernel(compute_capability_major(), tma_can_read(a, b));
    if (available(best)) return best;
    return decodes ? gemm_kernel::bf16 : gemm_kernel::f16;
  }
};

/// Checks a workspace of which a GEMM needs `bytes`: no_workspace if it is null or too small, overlap if it
/// shares a byte with a matrix or an amax.
template <class A, class B, class T>
errc check_workspace(A const& a, B const& b, matrix_view<T> const& d, gemm_workspace workspace, i64 bytes) {
  if (workspace.data == nullptr || workspace.bytes < bytes) return errc::no_workspace;
  namespace rules = fourscale::detail;
  const rules::byte_range memory = rules::bytes_of(static_cast<u8*>(workspace.data), workspace.bytes);
  const bool shared = rules::overlaps(d, memory) || rules::overlaps(a, memory) || rules::overlaps(b, memory);
  const bool with_amax = rules::overlap(rules::bytes_of_amax(a.amax, a.rows), memory) ||
                         rules::overlap(rules::bytes_of_amax(b.amax, b.rows), memory);
  return shared || with_amax ? errc::overlap : errc::ok;
}
inline u8* aligned_begin(gemm_workspace workspace) {
  return reinterpret_cast<u8*>(
      round_up<u64>(reinterpret_cast<u64>(workspace.data), u64{mma::decoded_operand::alignment}));
}

/// Decodes the operands into a workspace that check_workspace() has accepted, and multiplies. Without
/// `Certify` no bounds are found, and every step counts as certified: accumulate::native.
template <class Call, bool Certify, class A, class B, class T>
errc decode_and_multiply(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors,
                         gemm_workspace workspace, cudaStream_t stream, gemm_steps* steps) {
  const Call call(a, b, d, factors, aligned_begin(workspace), steps);
  if (call.state != errc::ok) return call.state;
  const errc e = call.template decode<Certify>(stream);
  return e != errc::ok ? e : call.multiply(stream);
}
/// The same with the call of these Kernels for gemm_kernel::wgmma, or else for bf16.
template <class Kernels, bool Certify = true, class A, class B, class T>
errc run_decoded(gemm_kernel kernel, A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors,
                 gemm_workspace workspace, cudaStream_t stream, gemm_steps* steps) {
  return kernel == gemm_kernel::wgmma ? decode_and_multiply<typename Kernels::by_wgmma, Certify>(
                                            a, b, d, factors, workspace, stream, steps)
                                      : decode_and_multiply<typename Kernels::by_mma_sync, Certify>(
                                            a, b, d, factors, workspace, stream, steps);
}

}  // namespace detail

/// The kernel that gemm() takes for these operands on the current device.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
gemm_kernel kernel_of_gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
                           matrix_view<T> const&) {
  return detail::kernels_of_gemm<F, LA, G, LB, typename detail::own_type<T>::type>::choose(a, b);
}

/// D = alpha * A * B^T + beta * D for A (M x K), B (N x K), D (M x N) in bf16, fp16 or float: NVFP4 by
/// NVFP4, MXFP4 by MXFP4, and any two of MXFP8, MXFP6 and MXFP4. M, N and K are 1 or more, K a multiple of
/// the block size. The result has the bits of model::block_scaled_dot chained along K in order, and of the
/// epilogue in view/gemm_epilogue.hpp. D is not read when beta = 0. `steps` is null or in device memory:
/// gemm_kernel::wgmma, bf16 and f16 add to it how they added their steps; the other kernels leave it alone.
///
/// Launches four kernels or fewer on the stream; never synchronises, never allocates. Errors: those of
/// host::gemm; no_workspace, if the kernel needs a workspace and gets too little; overlap, if the workspace
/// shares a byte with a matrix or an amax; too_large, for more than the kernel counts (from 2^28 tiles, or
/// 2^30 rows, columns or values along K on). D is then untouched. And cuda_failed.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
          matrix_view<T> const& d, gemm_factors factors, accumulate::blackwell, gemm_workspace workspace,
          cudaStream_t stream = nullptr, gemm_steps* steps = nullptr) {
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  const auto to = detail::as_output(d);
  using own = typename detail::own_type<T>::type;
  using kernels = detail::kernels_of_gemm<F, LA, G, LB, own>;
  const gemm_kernel kernel = kernels::choose(a, b);
  if constexpr (kernels::swizzled)
    if (kernel == gemm_kernel::tcgen05) return detail::gemm_by_pairs(a, b, to, factors, stream);
  if constexpr (kernels::has_instruction)
    if (kernel == gemm_kernel::mma_sync) return gemm_mma_sync(a, b, to, factors, stream);
  const i64 bytes = gemm_workspace_bytes(a.rows, b.rows, a.cols);
  if (const errc e = detail::check_workspace(a, b, to, workspace, bytes); e != errc::ok) return e;
  if constexpr (kernels::in_32s)
    if (kernel == gemm_kernel::wgmma)
      return detail::decode_and_multiply<typename kernels::by_wgmma_in_32s, true>(a, b, to, factors,
                                                                                  workspace, stream, steps);
  if constexpr (kernels::decodes)
    return detail::run_decoded<kernels>(kernel, a, b, to, factors, workspace, stream, steps);
  else
    return detail::decode_and_multiply<typename kernels::by_f16, true>(a, b, to, factors, workspace, stream,
                                                                       steps);
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
