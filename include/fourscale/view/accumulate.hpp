// SPDX-License-Identifier: Apache-2.0
// How a GEMM adds its products along K: a tag for its last argument.
#pragma once

#include "../bits.hpp"

namespace FOURSCALE_NAMESPACE {

namespace accumulate {
/// With the bits of Blackwell's block-scaled MMA: steps of K = 64 in order, or 32 of MXFP8 and MXFP6, each a
/// sum of products and the accumulator, truncated as model/block_scaled_dot.hpp describes.
struct blackwell {};
}  // namespace accumulate

/// How the steps of a GEMM were added, counted over all outputs: by sums in f32 that a certificate proved
/// exact; by a sum in double; by the integers of the model. The bits are those of the model in each.
struct gemm_steps {
  i64 in_f32 = 0, in_double = 0, by_model = 0;
  friend FOURSCALE_H constexpr bool operator==(gemm_steps const&, gemm_steps const&) = default;
};

}  // namespace FOURSCALE_NAMESPACE
