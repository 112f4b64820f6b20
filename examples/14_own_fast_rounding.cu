// SPDX-License-Identifier: Apache-2.0
// Your own rounding at the speed of the library's. The call operator of a policy is its definition. In
// addition a policy may offer a fast form, which takes sixteen values at a time. Kernels use the fast form
// where there is one, and explain() says where it is missing. The definition decides what is right: the
// example compares the fast form with it, on the device and on the host.
#include <fourscale/fourscale.cuh>

#include "support/gpu.cuh"

namespace f4 = fourscale;
using f4::bf16, f4::i64, f4::u32, f4::u8, example::require;

/// Rounds toward zero. It has a definition and no fast form.
struct slow_toward_zero {
  template <f4::element_format F>
  FOURSCALE_HD constexpr f4::packed<F, 4> operator()(F, float const (&x)[4], f4::position) const {
    f4::packed<F, 4> codes;
    for (int i = 0; i < 4; ++i) {
      const u32 bits = f4::bit_cast<u32>(x[i]);
      const float magnitude = f4::bit_cast<float>(bits & 0x7fff'ffffu);
      const u32 sign = magnitude == magnitude ? bits >> 31 : 0;  // the sign of a NaN differs between machines
      codes.set(i, {static_cast<u8>(f4::encode_down<F>(magnitude).bits | sign << (F::width - 1))});
    }
    return codes;
  }
};

/// The same rounding with a fast form for E2M1.
struct toward_zero : slow_toward_zero {
  /// fast_unit(): the unit in which fast() gets its values. fast_limited(): fast() needs magnitudes below 7
  /// units, so that the library lowers larger ones first.
  FOURSCALE_HD static constexpr float fast_unit() { return 1.0f; }
  FOURSCALE_HD static constexpr bool fast_limited() { return true; }
  /// Writes eight codes to a word, the first in the lowest nibble. From 1 on, the code of a magnitude is its
  /// exponent and one bit of its fraction.
  template <class Values>
  FOURSCALE_D void fast(Values const& v, f4::position, u32 (&codes)[2]) const {
    FOURSCALE_UNROLL
    for (int half = 0; half < 2; ++half) {
      codes[half] = v.signs(8 * half) & 0x8888'8888u;
      FOURSCALE_UNROLL
      for (int i = 0; i < 8; ++i) {
        const float y = v.magnitude(8 * half + i);
        const u32 code = y >= 1.0f ? (f4::bit_cast<u32>(y) >> 22) - 252 : y >= 0.5f;
        codes[half] |= code << (4 * i);
      }
    }
  }
};
static_assert(f4::fast_rounding_policy<toward_zero> && !f4::fast_rounding_policy<slow_toward_zero>);

int main() {
  example::need_gpu();
  constexpr i64 rows = 256, cols = 4096;
  const example::array<bf16> x(rows * cols);  // every bf16 sixteen times; infinities and NaNs too
  for (i64 i = 0; i < rows * cols; ++i) x[i] = {static_cast<f4::u16>(i * 40503)};
  const f4::matrix_view<bf16 const> m{x.data, rows, cols};
  const f4::quantizer fast{toward_zero{}};
  const f4::quantizer slow{slow_toward_zero{}};
  const auto amax = f4::amax_value(100.0f);
  f4::device_buffer<f4::nvfp4> by_fast(rows, cols, amax), by_definition(rows, cols, amax);
  f4::host_buffer<f4::nvfp4> on_host(rows, cols, amax);
  require(f4::host::quantize(m, on_host.view(), fast));
  require(f4::device::quantize(m, by_fast.view(), fast));
  require(f4::device::quantize(m, by_definition.view(), slow));

  for (char const* note : f4::device::explain(m, by_definition.view(), slow))
    std::printf("without it: %s\n", note);
  const auto got = example::to_host(by_fast);
  const bool same = example::equal(got, example::to_host(by_definition)) && example::equal(got, on_host);
  std::printf("fast form = definition = host: %s\n", same ? "in every bit" : "NOT EQUAL");
  return same ? 0 : 1;
}
