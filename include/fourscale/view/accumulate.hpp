// SPDX-License-Identifier: Apache-2.0
// How a GEMM adds its products along K: tags that select it among the arguments of gemm(), and the counts of
// what the exact one did.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

namespace accumulate {
/// Selects the bits of Blackwell's block-scaled MMA. Steps of K = 64, or 32 for MXFP8 and MXFP6, are added in
/// order; each is one sum of products and the accumulator, truncated as model/block_scaled_dot.hpp describes.
struct blackwell {};

/// Stands for no plan of a library: this library's own kernels run.
struct no_plan {};

/// Selects the order and precision that are fastest on the device. The sum of K products is within the bound
/// that docs/native_gemm.md derives, but is not a function of the operands alone. `plan` is that of a library
/// that multiplies bf16 matrices, such as interop::cublaslt_plan; null is an error unless it is no_plan.
template <class Plan = no_plan>
struct native {
  Plan const* plan = nullptr;
};
native()->native<>;
template <class Plan>
native(Plan const*) -> native<Plan>;
}  // namespace accumulate

/// How the steps of an exact GEMM were added, counted over all outputs. in_f32: as f32 sums that a
/// certificate proved exact. in_double: else, as exact sums of parts, where the adder drops no bits.
/// by_model: by the adder's own rule, where it may drop bits. The bits are those of the model in each case.
struct gemm_steps {
  i64 in_f32 = 0, in_double = 0, by_model = 0;
  friend FOURSCALE_H constexpr bool operator==(gemm_steps const&, gemm_steps const&) = default;
};

}  // namespace FOURSCALE_NAMESPACE
