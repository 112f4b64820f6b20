// SPDX-License-Identifier: Apache-2.0
// Rounding policies turn scaled values into codes, four at a time: one group for every 32 random bits of
// cvt.rs.
#pragma once

#include "../formats/convert_lanes.hpp"
#include "../position.hpp"

namespace fourscale {

/// A rounding policy for elements F: `round(F{}, x, where)` gives the codes of four consecutive values, the
/// first at `where`; for speed it may do so for eight as well. A trivially copyable value; the same arguments
/// must give the same codes on every machine.
template <class R, class F>
concept rounding_policy = requires(R const round, float const (&x)[4], position where) {
  packed<F, 4>{round(F{}, x, where)};
};

/// A fast form that a rounding policy may offer beside its definition, for whole matrices on a CPU:
/// `round.encode_lane(F{}, x)` is the code of one value, in the top bits of a word and nothing below. Write
/// it as straight arithmetic (see lanes:: in formats/convert_lanes.hpp), and compilers make vectors of it.
template <class R, class F>
concept lane_rounding_policy = rounding_policy<R, F> && requires(R const round, float x) {
  u32{round.encode_lane(F{}, x)};
};

/// The same for one that depends on where a value is: `round.draw_lanes(F{}, where, count, drawn)` writes 16
/// bits for each of 4 * `count` values of a row, the first at `where`, as a word for each two, the first in
/// its low half; and `round.encode_lane(F{}, x, bits)` uses those of one value.
template <class R, class F>
concept drawing_lane_rounding_policy = rounding_policy<R, F> &&
    requires(R const round, float x, u32 bits, u32* drawn, position where) {
  round.draw_lanes(F{}, where, 1, drawn);
  u32{round.encode_lane(F{}, x, bits)};
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
  template <element_format F>
  FOURSCALE_HD constexpr u32 encode_lane(F, float x) const {
    return lanes::encode_nearest<F>(x);
  }
};

}  // namespace fourscale
