// SPDX-License-Identifier: Apache-2.0
// Rounding policies turn scaled values into codes, four at a time: one group for every 32 random bits of
// cvt.rs.
#pragma once

#include "../formats/convert.hpp"
#include "../position.hpp"

namespace fourscale {

/// A rounding policy for elements F: `round(F{}, x, where)` gives the codes of four consecutive values, the
/// first at `where`; for speed it may do so for eight as well. A trivially copyable value; the same arguments
/// must give the same codes on every machine.
template <class R, class F>
concept rounding_policy = requires(R const round, float const (&x)[4], position where) {
  packed<F, 4>{round(F{}, x, where)};
};

/// To the nearest code, ties to the even one, saturating: `cvt.rn.satfinite`.
struct nearest_even {
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 4> operator()(F, float const (&x)[4], position) const {
    return encode<F>(x);
  }
  template <element_format F>
  FOURSCALE_HD constexpr packed<F, 8> operator()(F, float const (&x)[8], position) const {
    return encode<F>(x);
  }
};

}  // namespace fourscale
