// SPDX-License-Identifier: Apache-2.0
// gemm() with accumulate::native: sums within a bound in place of Blackwell's bits, by whatever kernel is
// fastest on this device. Opt-in, as gemm.cuh is. With a plan, such as that of interop/cublaslt.cuh, a
// library multiplies; this header needs no library. docs/native_gemm.md derives the bound.
#pragma once

#include "gemm_fp8.cuh"
#include "gemm_mx_native.cuh"

namespace FOURSCALE_NAMESPACE::device {
inline namespace FOURSCALE_ARCH {

namespace detail {

template <class Plan>
inline constexpr bool is_plan = !same_type<Plan, accumulate::no_plan>;

/// Whether values without their tensor scales are exact in bf16, and their sums far from the ends of f32:
/// true for NVFP4 by NVFP4. Not for MXFP4: a block scale may be 2^127.
template <class F, class G>
inline constexpr bool sums_stay_in_f32 = same_type<F, G>&& model::has_steps_of_64<F>&& F::has_tensor_scale;

/// Checks a plan: null_pointer, other_plan. `values`: how many lie along K.
template <class Plan, class T>
errc check_plan(accumulate::native<Plan> how, matrix_view<T> const& d, i64 values) {
  if constexpr (is_plan<Plan>) {
    if (how.plan == nullptr) return errc::null_pointer;
    if (!how.plan->is_for(d, values)) return errc::other_plan;
  }
  return errc::ok;
}
template <class T>
errc check_plan(accumulate::blackwell, matrix_view<T> const&, i64) {
  return errc::ok;
}

/// One thread writes alpha with the tensor scales, and beta, for a library that reads them on the device.
template <class Factors>
FOURSCALE_KERNEL void factors_kernel(Factors factor_of, float beta, gemm_factors* to) {
  *to = {factor_of(0, 0), beta};
}

/// A GEMM by a plan whose arguments have been checked: see decoded_call. In the workspace, the factors lie
/// behind the decoded operands, and the library's own workspace behind the factors.
template <class F, class LA, class G, class LB, class T>
struct planned_call : decoded_call<F, LA, G, LB, decoded_pair> {
  using base = decoded_call<F, LA, G, LB, decoded_pair>;
  using base::p, base::behind;
  matrix_view<T> d;
  mma::factor_of_output<F, G> factor_of;
  float beta;

  template <class BA, class BB>
  planned_call(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
               matrix_view<T> const& to, gemm_factors factors, void* workspace)
      : base(a, b, {}, workspace), d(to), factor_of(factors.alpha, a.amax, b.amax), beta(factors.beta) {}

  errc decode(cudaStream_t stream) const {
    if (const errc e = base::template decode<false>(stream); e != errc::ok) return e;
    factors_kernel<<<1, 1, 0, stream>>>(factor_of, beta, reinterpret_cast<gemm_factors*>(behind()));
    return launched();
  }
  template <class Plan>
  errc multiply(Plan const& plan, cudaStream_t stream) const {
    return plan.multiply(p.a, p.b, d, reinterpret_cast<gemm_factors const*>(behind()),
                         behind() + mma::decoded_operand::alignment, stream);
  }
};

/// Decodes the operands and lets the plan multiply. The workspace must be large enough.
template <class A, class B, class T, class Plan>
errc run_planned(A const& a, B const& b, matrix_view<T> const& d, gemm_factors factors, Plan const& plan,
                 gemm_workspace workspace, cudaStream_t stream) {
  const planned_call call(a, b, d, factors, aligned_begin(workspace));
  const errc e = call.decode(stream);
  return e != errc::ok ? e : call.multiply(plan, stream);
}

}  // namespace detail

/// The bytes of workspace for A (m x k) and B (n x k): gemm_workspace_bytes(m, n, k), and with a plan those
/// that its library needs.
template <class Plan>
i64 gemm_workspace_bytes(i64 m, i64 n, i64 k, accumulate::native<Plan>) {
  i64 bytes = gemm_workspace_bytes(m, n, k);
  if constexpr (detail::is_plan<Plan>) bytes += mma::decoded_operand::alignment + Plan::workspace_bytes;
  return bytes;
}

/// D = alpha * A * B^T + beta * D like gemm() with accumulate::blackwell, but each sum of K products is
/// within the bound of docs/native_gemm.md and need not have Blackwell's bits, and each operation of the
/// epilogue is rounded at most once. A NaN scale gives NaN in its row or column. D is not read when beta = 0.
///
/// NVFP4 before Blackwell: values are decoded, and the plan's library multiplies them. Without a plan, or if
/// rows have amaxes or alpha is 0, the kernels of accumulate::blackwell do, as if every certificate held. The
/// same kernels multiply MXFP8, MXFP6 and MXFP4 by one another, which take no plan; if a block that is not
/// all zeros has a scale beyond 2^-100 .. 2^32, the whole GEMM is added in double. MXFP4 by itself, and all
/// that Blackwell's block-scaled tensor cores take, goes to accumulate::blackwell.
///
/// Three kernels or fewer on the stream, and the library's; never synchronises, never allocates. Errors:
/// those of accumulate::blackwell; null_pointer, if the plan is null; other_plan, if it is for another GEMM;
/// cuda_failed, if its library fails. D is then untouched.
template <class F, class LA, class BA, class G, class LB, class BB, class T, class Plan>
errc gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
          matrix_view<T> const& d, gemm_factors factors, accumulate::native<Plan> how,
          gemm_workspace workspace, cudaStream_t stream = nullptr) {
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  const auto to = detail::as_output(d);
  using own = typename detail::own_type<T>::type;
  using kernels = detail::kernels_of_gemm<F, LA, G, LB, own>;
  if (const errc e = detail::check_plan(how, to, a.cols); e != errc::ok) return e;
  if constexpr (detail::sums_stay_in_f32<F, G>) {
    const gemm_kernel kernel = kernels::choose(a, b);
    if (kernel == gemm_kernel::wgmma || kernel == gemm_kernel::bf16) {
      const i64 bytes = gemm_workspace_bytes(a.rows, b.rows, a.cols, how);
      if (const errc e = detail::check_workspace(a, b, to, workspace, bytes); e != errc::ok) return e;
      if constexpr (detail::is_plan<Plan>)
        if (factors.alpha != 0.0f && !a.amax.by_row() && !b.amax.by_row())
          return detail::run_planned(a, b, to, factors, *how.plan, workspace, stream);
      return detail::run_decoded<kernels, false>(kernel, a, b, to, factors, workspace, stream, nullptr);
    }
  }
  if constexpr (model::has_steps_of_32<F, G>) {
    if (const gemm_kernel kernel = kernels::choose(a, b);
        kernel == gemm_kernel::f16 || kernel == gemm_kernel::wgmma) {
      const i64 bytes = gemm_workspace_bytes(a.rows, b.rows, a.cols);
      if (const errc e = detail::check_workspace(a, b, to, workspace, bytes); e != errc::ok) return e;
      using native_kernels = detail::native_mx_kernels<F, LA, G, LB, own>;
      return detail::run_decoded<native_kernels, false>(native_kernels::choose(), a, b, to, factors,
                                                        workspace, stream, nullptr);
    }
  }
  return gemm(a, b, d, factors, accumulate::blackwell{}, workspace, stream);
}

/// The same for FP8, per tensor or under scales of 128 values, by gemm_fp8(), which uses no workspace.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
requires(is_fp8<F>&& is_fp8<G>) errc
    gemm(block_scaled_view<F, LA, BA> const& a, block_scaled_view<G, LB, BB> const& b,
         matrix_view<T> const& d, gemm_factors factors, accumulate::native<>, gemm_workspace = {},
         cudaStream_t stream = nullptr) {
  return gemm_fp8(a, b, d, factors, stream);
}

}  // namespace FOURSCALE_ARCH
}  // namespace FOURSCALE_NAMESPACE::device
