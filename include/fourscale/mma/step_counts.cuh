// SPDX-License-Identifier: Apache-2.0
// Counts how steps were added: a kernel first counts all outputs of all steps as added in f32, and then moves
// those that were added in another way to the other counters of gemm_steps.
#pragma once

#include "../view/accumulate.hpp"
#include "decoded_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma {

namespace detail {

FOURSCALE_D inline void add_count(i64& to, i64 n) {
  atomicAdd(reinterpret_cast<u64*>(&to), static_cast<u64>(n));
}

}  // namespace detail

/// The columns of D in those groups of eight that have a bit, if D has `cols` from the first group on.
FOURSCALE_D inline i64 cols_of(u32 groups, i64 cols) {
  const i64 whole = cols / bounds_rows;
  const u32 in = whole < 32 ? groups & ((1u << whole) - 1) : groups;
  return __popc(in) * bounds_rows + (whole < 32 && (groups >> whole & 1) != 0 ? cols % bounds_rows : 0);
}

/// Moves outputs of a step from in_f32, a bit for each eight columns. D has `rows` rows and `cols` columns
/// from the warp's first output on, perhaps none. One thread.
__noinline__ FOURSCALE_D inline void count_steps(gemm_steps& steps, i64 rows, i64 cols, u32 added_in_double,
                                                 u32 added_by_model) {
  if (rows <= 0 || cols <= 0) return;
  const i64 in_double = rows * cols_of(added_in_double, cols),
            by_model = rows * cols_of(added_by_model, cols);
  detail::add_count(steps.in_f32, -(in_double + by_model));
  detail::add_count(steps.in_double, in_double);
  detail::add_count(steps.by_model, by_model);
}

}  // namespace FOURSCALE_NAMESPACE::mma
