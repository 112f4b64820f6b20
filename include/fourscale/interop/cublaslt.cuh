// SPDX-License-Identifier: Apache-2.0
// cuBLASLt as the library that multiplies for a GEMM with accumulate::native. gemm_native.cuh decodes NVFP4
// to bf16, and cuBLASLt multiplies these values as the GEMM's plan says; device::plan_native() makes a plan
// by timing cuBLASLt's kernels. This is the only header that includes <cublasLt.h>: link CUDA::cublasLt, or
// -lcublasLt.
#pragma once

#include <cublasLt.h>

#include "../device/gemm_native.cuh"
#include "../recipe/linear.hpp"

namespace FOURSCALE_NAMESPACE {

namespace interop {

/// A plan: how cuBLASLt multiplies the decoded operands of a GEMM. device::plan_native() makes it, and it is
/// for the device on which it was made. It is a value and owns no resources. Sums are in f32, also where
/// cuBLASLt splits K.
class cublaslt_plan {
 public:
  static constexpr i64 workspace_bytes = i64{32} << 20;  ///< what cuBLAS recommends for Hopper
  static constexpr int most_candidates = 8;

  /// True if the plan was made for such a D (m x n, leading dimension, type) and as many values along K. D
  /// may be at another address if that is aligned as well.
  template <class T>
  FOURSCALE_H bool is_for(matrix_view<T> const& d, i64 values) const {
    return d.rows == rows_ && d.cols == cols_ && d.ld == ld_ && padded(values) == k_ &&
           type_of_d<T>() == d_type_ && reinterpret_cast<u64>(d.data) % alignment_ == 0;
  }

  /// D = alpha * A * B^T + beta * D, with `factors` in device memory. device::gemm calls it after it has
  /// checked all arguments.
  template <class T>
  FOURSCALE_H errc multiply(mma::decoded_operand const& a, mma::decoded_operand const& b,
                            matrix_view<T> const& d, gemm_factors const* factors, u8* workspace,
                            cudaStream_t stream) const {
    descriptors x(*this);
    if (!x.made || cublasLtMatmul(handle_, &x.operation, &factors->alpha, b.values, &x.b, a.values, &x.a,
                                  &factors->beta, d.data, &x.d, d.data, &x.d, &algorithm_, workspace,
                                  u64{workspace_bytes}, stream) != CUBLAS_STATUS_SUCCESS)
      return errc::cuda_failed;
    return errc::ok;
  }

  /// Writes plans for this D and `values` values along K, in the order of cuBLASLt's heuristics. Returns how
  /// many.
  template <class T>
  FOURSCALE_H static int candidates(cublasLtHandle_t handle, matrix_view<T> const& d, i64 values,
                                    cublaslt_plan (&plans)[most_candidates]) {
    cublaslt_plan shape;
    shape.handle_ = handle;
    shape.d_type_ = type_of_d<T>();
    shape.rows_ = d.rows, shape.cols_ = d.cols, shape.ld_ = d.ld, shape.k_ = padded(values);
    const u64 address = reinterpret_cast<u64>(d.data), lowest = address & (~address + 1);
    shape.alignment_ = lowest < 256 ? static_cast<u32>(lowest) : 256u;
    descriptors x(shape);
    preference wanted(shape);
    cublasLtMatmulHeuristicResult_t results[most_candidates];
    int found = 0, good = 0;
    if (!x.made || !wanted.made ||
        cublasLtMatmulAlgoGetHeuristic(handle, &x.operation, &x.b, &x.a, &x.d, &x.d, &wanted.value,
                                       most_candidates, results, &found) != CUBLAS_STATUS_SUCCESS)
      return 0;
    for (int i = 0; i < found; ++i)
      if (results[i].state == CUBLAS_STATUS_SUCCESS) {
        plans[good] = shape;
        plans[good++].algorithm_ = results[i].algo;
      }
    return good;
  }

 private:
  template <class T>
  FOURSCALE_H static constexpr cudaDataType_t type_of_d() {
    static_assert(same_type<T, bf16> || same_type<T, float>, "cuBLASLt multiplies bf16 to bf16 or to float.");
    return same_type<T, bf16> ? CUDA_R_16BF : CUDA_R_32F;
  }
  FOURSCALE_H static constexpr i64 padded(i64 values) { return round_up<i64>(values, mma::decoded_step); }

  /// The GEMM as cuBLASLt sees it, in column-major order: D^T (n x m) = (B^T)^T * A^T. The descriptors are
  /// made for each call. This allocates nothing, and so a plan can be a plain value.
  struct descriptors {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, d;
    bool made;

    FOURSCALE_H explicit descriptors(cublaslt_plan const& p) {
      const cublasOperation_t transposed = CUBLAS_OP_T;
      const cublasLtPointerMode_t in_device_memory = CUBLASLT_POINTER_MODE_DEVICE;
      const u64 m = static_cast<u64>(p.rows_), n = static_cast<u64>(p.cols_), k = static_cast<u64>(p.k_);
      made = ok(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
             ok(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                               sizeof transposed)) &&
             ok(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                                               &in_device_memory, sizeof in_device_memory)) &&
             ok(cublasLtMatrixLayoutInit(&a, CUDA_R_16BF, k, m, p.k_)) &&
             ok(cublasLtMatrixLayoutInit(&b, CUDA_R_16BF, k, n, p.k_)) &&
             ok(cublasLtMatrixLayoutInit(&d, p.d_type_, n, m, p.ld_));
    }
  };
  /// What an algorithm may use: workspace, alignment of D, reduction. Where K is split, only reduction in f32
  /// is allowed. A reduction in place, or in the type of D, would round the parts of a bf16 D.
  struct preference {
    cublasLtMatmulPreferenceOpaque_t value;
    bool made;

    FOURSCALE_H explicit preference(cublaslt_plan const& p) {
      const u64 bytes = workspace_bytes;
      const u32 reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      made = ok(cublasLtMatmulPreferenceInit(&value)) &&
             ok(cublasLtMatmulPreferenceSetAttribute(&value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                     sizeof bytes)) &&
             ok(cublasLtMatmulPreferenceSetAttribute(&value, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                     &reduction, sizeof reduction)) &&
             ok(cublasLtMatmulPreferenceSetAttribute(&value, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                     &p.alignment_, sizeof p.alignment_)) &&
             ok(cublasLtMatmulPreferenceSetAttribute(&value, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                                     &p.alignment_, sizeof p.alignment_));
    }
  };
  FOURSCALE_H static bool ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  cudaDataType_t d_type_ = CUDA_R_32F;
  i64 rows_ = 0, cols_ = 0, k_ = 0, ld_ = 0;
  u32 alignment_ = 256;  ///< of D, in bytes
};

/// The plans of a linear layer's three GEMMs in one object, which stands for a plan: each GEMM takes the plan
/// that is for it. Also a value, made by device::plan_native().
struct cublaslt_linear_plans {
  static constexpr i64 workspace_bytes = cublaslt_plan::workspace_bytes;

  cublaslt_plan plans[3];
  int count = 0;  ///< at most 3: GEMMs that one plan is for share it

  template <class T>
  FOURSCALE_H bool is_for(matrix_view<T> const& d, i64 values) const {
    return find(d, values) != nullptr;
  }
  template <class T>
  FOURSCALE_H errc multiply(mma::decoded_operand const& a, mma::decoded_operand const& b,
                            matrix_view<T> const& d, gemm_factors const* factors, u8* workspace,
                            cudaStream_t stream) const {
    cublaslt_plan const* const plan = find(d, a.padded_k());
    return plan == nullptr ? errc::other_plan : plan->multiply(a, b, d, factors, workspace, stream);
  }

 private:
  template <class T>
  FOURSCALE_H cublaslt_plan const* find(matrix_view<T> const& d, i64 values) const {
    for (int i = 0; i < count; ++i)
      if (plans[i].is_for(d, values)) return plans + i;
    return nullptr;
  }
};

}  // namespace interop

namespace device {
inline namespace FOURSCALE_ARCH {

namespace detail {

/// Two CUDA events, which measure the time between them.
struct stopwatch {
  cudaEvent_t begin{}, end{};

  stopwatch() = default;
  stopwatch(stopwatch const&) = delete;
  ~stopwatch() {
    if (begin != nullptr) cudaEventDestroy(begin);
    if (end != nullptr) cudaEventDestroy(end);
  }
  bool made() { return cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess; }
  /// The milliseconds that `calls` calls take on the stream; infinity if one fails. Waits for them.
  template <class Call>
  float time(Call const& call, int calls, cudaStream_t stream) {
    float ms = 0.0f;
    bool good = cudaEventRecord(begin, stream) == cudaSuccess;
    for (int i = 0; i < calls; ++i) good = good && call() == errc::ok;
    good = good && cudaEventRecord(end, stream) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
           cudaEventElapsedTime(&ms, begin, end) == cudaSuccess;
    return good ? ms : bit_cast<float>(float_inf_bits);
  }
};

}  // namespace detail

/// Makes the plan of accumulate::native{&plan} for GEMMs of NVFP4 with these shapes and this D. It runs each
/// of the kernels that cuBLASLt's heuristics name on the operands, and takes the fastest. Call it once,
/// before the GEMMs: it overwrites D, creates events, and waits for the stream, which must not be captured.
/// Errors: those of gemm(); null_pointer, if there is no handle; cuda_failed, if CUDA fails or cuBLASLt has
/// no kernel. The plan is then untouched, and so is D unless CUDA failed.
template <class F, class LA, class BA, class G, class LB, class BB, class T>
errc plan_native(cublasLtHandle_t handle, block_scaled_view<F, LA, BA> const& a,
                 block_scaled_view<G, LB, BB> const& b, matrix_view<T> const& d, gemm_workspace workspace,
                 interop::cublaslt_plan& plan, cudaStream_t stream = nullptr) {
  static_assert(detail::sums_stay_in_f32<F, G>, "A plan of accumulate::native multiplies NVFP4 by NVFP4.");
  using interop::cublaslt_plan;
  constexpr int turns = 7, calls = 2;
  if (const errc e = validate_gemm(a, b, d); e != errc::ok) return e;
  if (handle == nullptr) return errc::null_pointer;
  const auto to = detail::as_output(d);
  const i64 bytes = gemm_workspace_bytes(a.rows, b.rows, a.cols, accumulate::native{&plan});
  if (const errc e = detail::check_workspace(a, b, to, workspace, bytes); e != errc::ok) return e;
  cublaslt_plan plans[cublaslt_plan::most_candidates];
  const int count = cublaslt_plan::candidates(handle, to, a.cols, plans);
  detail::stopwatch watch;
  if (count == 0 || !watch.made()) return errc::cuda_failed;
  const detail::planned_call call(a, b, to, {}, detail::aligned_begin(workspace));
  if (const errc e = call.decode(stream); e != errc::ok) return e;
  float least = bit_cast<float>(float_inf_bits);
  int best = -1;
  for (int i = 0; i < turns * count; ++i) {
    cublaslt_plan const& candidate = plans[i % count];
    const float ms = watch.time([&] { return call.multiply(candidate, stream); }, calls, stream);
    if (i >= count && ms < least) least = ms, best = i % count;  // the first turn warms up
  }
  if (best < 0) return errc::cuda_failed;
  plan = plans[best];
  return errc::ok;
}

/// Makes the plans of a linear layer whose GEMMs write Y, dX and dW, each as above, in the layer's workspace.
/// The layer's tensors must be placed in memory; they need not be quantized yet. Layers of one shape can
/// share the plans. MX formats need no plans, and get none. Errors: as above; the plans are then untouched.
template <linear_recipe R, class L, class Y, class D, class G>
errc plan_native(cublasLtHandle_t handle, linear_tensors<R, L> const& t, matrix_view<Y> const& y,
                 matrix_view<D> const& dx, matrix_view<G> const& dw, interop::cublaslt_linear_plans& plans,
                 cudaStream_t stream = nullptr) {
  if (const errc e = validate_gemm(t.x.rowwise, t.w.rowwise, y); e != errc::ok) return e;
  if (const errc e = validate_gemm(t.dy.rowwise, t.w.columnwise, dx); e != errc::ok) return e;
  if (const errc e = validate_gemm(t.dy.columnwise, t.x.columnwise, dw); e != errc::ok) return e;
  using format = typename decltype(t.w)::format;
  interop::cublaslt_linear_plans made;
  [[maybe_unused]] const auto add = [&](auto const& a, auto const& b, auto const& d) {
    if (made.is_for(detail::as_output(d), a.cols)) return errc::ok;
    const errc e = plan_native(handle, a, b, d, {t.gemm.data, t.gemm.bytes}, made.plans[made.count], stream);
    made.count += e == errc::ok;
    return e;
  };
  if constexpr (detail::sums_stay_in_f32<format, format>) {
    if (const errc e = add(t.x.rowwise, t.w.rowwise, y); e != errc::ok) return e;
    if (const errc e = add(t.dy.rowwise, t.w.columnwise, dx); e != errc::ok) return e;
    if (const errc e = add(t.dy.columnwise, t.x.columnwise, dw); e != errc::ok) return e;
  }
  plans = made;
  return errc::ok;
}

}  // namespace FOURSCALE_ARCH
}  // namespace device
}  // namespace FOURSCALE_NAMESPACE
