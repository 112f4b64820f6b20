// SPDX-License-Identifier: Apache-2.0
// Activations that are never in memory: max(gate, 0) * up, rounded to bf16.
#pragma once

#include <fourscale/view/computed_view.hpp>
#include <vector>

#include "recipe/linear_case.hpp"

namespace fourscale::test {

/// Of a matrix with `cols` columns of the gate, then as many of what it lets up.
struct gated {
  bf16 const* gate_up;
  i64 cols;

  FOURSCALE_HD bf16 operator()(i64 row, i64 col) const {
    const float gate = to_float(gate_up[row * 2 * cols + col]),
                up = to_float(gate_up[row * 2 * cols + cols + col]);
    return from_float<bf16>(ptx::mul_rn_f32(gate > 0.0f ? gate : 0.0f, up));
  }
};

/// Gate and up of a tensor, and the tensor itself.
struct gated_matrix {
  i64 rows, cols;
  std::vector<bf16> gate_up, values;

  gated_matrix(i64 r, i64 c, u64 seed) : rows(r), cols(c), gate_up(random_values<bf16>(2 * r * c, seed)) {
    gate_up[3].bits = 0x7fc0;  // NaN
    for (i64 i = 0; i < rows * cols; ++i) values.push_back(function()(i / cols, i % cols));
  }
  gated function() const { return {gate_up.data(), cols}; }
  auto view() const { return computed(rows, cols, function()); }
};

}  // namespace fourscale::test
