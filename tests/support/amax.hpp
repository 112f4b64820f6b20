// SPDX-License-Identifier: Apache-2.0
// The amax of a matrix of the host as a value: what host::amax() writes, or a failed test.
#pragma once

#include <fourscale/host/transform.hpp>

#include "catch.hpp"

namespace fourscale::test {

/// Of m, a matrix_view.
template <class M>
float amax_of(M const& m) {
  float amax = -1;
  REQUIRE(host::amax(m, &amax) == errc::ok);
  return amax;
}

/// Of m after a transform of N consecutive values of each row; m may be transposed.
template <int N, matrix_like M, class Transform>
float amax_of(M const& m, Transform const& transform) {
  float amax = -1;
  REQUIRE(host::amax<N>(m, transform, &amax) == errc::ok);
  return amax;
}
template <block_format F, matrix_like M, class Transform>
float amax_of(M const& m, Transform const& transform) {
  return amax_of<F::block_size>(m, transform);
}

}  // namespace fourscale::test
