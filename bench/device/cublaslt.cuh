// SPDX-License-Identifier: Apache-2.0
// The peer of our GEMMs: cublasLt's bf16 or FP8, the fastest of its own heuristics.
#pragma once

#include <cublasLt.h>

#include "harness.cuh"

namespace bench {

inline void require(cublasStatus_t s) { require(s == CUBLAS_STATUS_SUCCESS, cublasLtGetStatusString(s)); }

/// How the matrices of a GEMM lie: A as k x m, B as k x n. D in FP32, which is added to, or is not. Elements
/// of A and B; for FP8, whether sums may stay in the tensor core's accumulators.
struct gemm_form {
  bool a_by_columns = false, b_by_columns = false, adds_to_f32 = false;
  cudaDataType_t element = CUDA_R_16BF;
  bool fast_sums = false;
  bool to_f32 = false;
};

/// D (m x n) = A (m x k) * B (n x k)^T, row-major, D in bf16 if its form does not say FP32, sums in FP32.
class cublaslt_gemm {
 public:
  cublaslt_gemm(i64 m, i64 n, i64 k, gemm_form form = {})
      : workspace_(64 << 20), beta_(form.adds_to_f32 ? 1.0f : 0.0f) {
    require(cublasLtCreate(&handle_));
    require(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    // In columns: D^T (n x m) = (B^T)^T * A^T.
    const cublasOperation_t plain = CUBLAS_OP_N, transposed = CUBLAS_OP_T;
    require(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA,
                                           form.b_by_columns ? &plain : &transposed, sizeof plain));
    require(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB,
                                           form.a_by_columns ? &transposed : &plain, sizeof plain));
    if (form.fast_sums) {
      const std::int8_t on = 1;
      require(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &on, sizeof on));
    }
    const auto layout = [&](cublasLtMatrixLayout_t& to, i64 rows, bool by_columns) {
      const i64 along = by_columns ? rows : k, down = by_columns ? k : rows;
      require(cublasLtMatrixLayoutCreate(&to, form.element, u64(along), u64(down), along));
    };
    layout(b_, n, form.b_by_columns);
    layout(a_, m, form.a_by_columns);
    const bool f32 = form.adds_to_f32 || form.to_f32;
    require(cublasLtMatrixLayoutCreate(&d_, f32 ? CUDA_R_32F : CUDA_R_16BF, u64(n), u64(m), n));
    cublasLtMatmulPreference_t preference;
    require(cublasLtMatmulPreferenceCreate(&preference));
    const size_t bytes = workspace_.bytes();
    require(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                 sizeof bytes));
    int found = 0;
    require(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, b_, a_, d_, d_, preference, 8, heuristics_,
                                           &found));
    require(found > 0, "cublasLt has no heuristic for this shape");
    found_ = found;
    require(cublasLtMatmulPreferenceDestroy(preference));
  }
  cublaslt_gemm(cublaslt_gemm const&) = delete;
  ~cublaslt_gemm() {
    cublasLtMatrixLayoutDestroy(a_), cublasLtMatrixLayoutDestroy(b_), cublasLtMatrixLayoutDestroy(d_);
    cublasLtMatmulDescDestroy(operation_);
    cublasLtDestroy(handle_);
  }
  void run(void const* a, void const* b, void* d) const {
    const float one = 1.0f;
    require(cublasLtMatmul(handle_, operation_, &one, b, b_, a, a_, &beta_, d, d_, d, d_,
                           &heuristics_[best_].algo, workspace_.data(), workspace_.bytes(),
                           graphs::capturing()));
  }
  /// Chooses the fastest of the heuristics for these operands.
  void choose(void const* a, void const* b, void* d) {
    std::vector<launch> all;
    for (int i = 0; i < found_; ++i)
      all.push_back([=, this](i64) {
        best_ = i;
        run(a, b, d);
      });
    const std::vector<double> t = medians_from_graphs(all, 5, 4);
    best_ = static_cast<int>(std::min_element(t.begin(), t.end()) - t.begin());
  }

 private:
  cublasLtHandle_t handle_{};
  cublasLtMatmulDesc_t operation_{};
  cublasLtMatrixLayout_t a_{}, b_{}, d_{};
  cublasLtMatmulHeuristicResult_t heuristics_[8]{};
  buffer<u8> workspace_;
  float beta_;
  int found_ = 0, best_ = 0;
};

}  // namespace bench
