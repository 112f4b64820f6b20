// SPDX-License-Identifier: Apache-2.0
// How steps were added: a kernel counts all outputs of all steps as added in f32 at first, and moves those
// that were not.
#pragma once

#include "../view/accumulate.hpp"
#include "decoded_operand.cuh"

namespace FOURSCALE_NAMESPACE::mma {

namespace detail {

FOURSCALE_D inline void add_count(i64& to, i64 n) {
  atomicAdd(reinterpret_cast<u64*>(&to), static_cast<u64>(n));
}

}  // namespace detail

/// Outputs of eight columns each, those in `groups`, where `cols` are left.
FOURSCALE_D inline i64 cols_of(u32 groups, i64 cols) {
  const i64 whole = cols / bounds_rows;
  const u32 in = whole < 32 ? groups & ((1u << whole) - 1) : groups;
  return __popc(in) * bounds_rows + (whole < 32 && (groups >> whole & 1) != 0 ? cols % bounds_rows : 0);
}

/// Moves outputs of a step from in_f32. A bit for each eight columns; `rows` and `cols` are left in D.
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
