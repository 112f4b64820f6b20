// SPDX-License-Identifier: Apache-2.0
// The oracle of encode and decode: the values of a format written out from the definition of its fields, in
// double, and a search through them. It shares nothing with the library but the names of the fields.
#pragma once

#include <fourscale/formats/traits.hpp>

namespace fourscale::test {

/// 2^e, for e of a normal double.
FOURSCALE_HD constexpr double power(int e) { return bit_cast<double>(static_cast<u64>(e + 1023) << 52); }

/// (-1)^S * 2^(E - bias) * 1.M, or 2^(1 - bias) * 0.M when E = 0 (OCP OFP8 v1.0 section 5), for a finite
/// code.
template <element_format F>
FOURSCALE_HD constexpr double value_of(int code) {
  const int mantissas = 1 << F::mantissa_bits, magnitude = code % (1 << (F::width - 1));
  const int e = magnitude / mantissas, m = magnitude % mantissas;
  const double v = e == 0 ? power(1 - F::bias) * (double(m) / mantissas)
                          : power(e - F::bias) * (1 + double(m) / mantissas);
  return code >> (F::width - 1) ? -v : v;
}

/// The magnitude code nearest to a >= 0 among 0..max: the neighbours of a by bisection, then the nearer, ties
/// to even.
template <element_format F>
FOURSCALE_HD constexpr int nearest_code(double a) {
  int below = 0, above = F::max_bits;
  if (a >= value_of<F>(above)) return above;
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    (value_of<F>(middle) <= a ? below : above) = middle;
  }
  const double down = a - value_of<F>(below), up = value_of<F>(above) - a;
  return down < up || (down == up && below % 2 == 0) ? below : above;
}

}  // namespace fourscale::test
