// SPDX-License-Identifier: Apache-2.0
// How a GEMM adds its products along K: a tag among its arguments.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

namespace accumulate {
/// With the bits of Blackwell's block-scaled MMA: steps of K = 64 in order, or 32 of MXFP8 and MXFP6, each a
/// sum of products and the accumulator, truncated as model/block_scaled_dot.hpp describes.
struct blackwell {};

/// No library's plan: the kernels of this one.
struct no_plan {};

/// In whatever order and precision a device is fastest with. The sum of K products is within the bound that
/// docs/native_gemm.md derives, not a function of its operands alone. `plan`: of a library that multiplies
/// bf16 matrices, such as interop::cublaslt_plan; null is an error unless it is no_plan.
template <class Plan = no_plan>
struct native {
  Plan const* plan = nullptr;
};
native()->native<>;
template <class Plan>
native(Plan const*) -> native<Plan>;
}  // namespace accumulate

/// How the steps of a GEMM were added, counted over all outputs: by sums in f32 that a certificate proved
/// exact; by exact sums of parts otherwise; where bits may be dropped, by the adder's own
/// rule. The bits are those of the model in each.
struct gemm_steps {
  i64 in_f32 = 0, in_double = 0, by_model = 0;
  friend FOURSCALE_H constexpr bool operator==(gemm_steps const&, gemm_steps const&) = default;
};

}  // namespace FOURSCALE_NAMESPACE
