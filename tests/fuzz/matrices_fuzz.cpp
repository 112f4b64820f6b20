// SPDX-License-Identifier: Apache-2.0
// Views of any shape, stride and amax over buffers of any size: a call refuses and writes nothing, or stays
// within its buffers, which AddressSanitizer watches.
#include <fourscale/fourscale.hpp>
#include <vector>

#include "input.hpp"

using namespace fourscale;
using fuzz::promise;

namespace {

constexpr u8 untouched = 0xa5;

/// Mostly small, sometimes anything: what a caller gets wrong.
i64 extent(fuzz::input& in) {
  switch (in.below(8)) {
    case 0:
      return in.number<i64>();
    case 1:
      return i64{1} << in.below(63);
    case 2:
      return static_cast<signed char>(in.number<u8>());
    default:
      return i64{16} * in.below(9);
  }
}

struct buffers {
  std::vector<float> x, y, amaxes;
  std::vector<u8> codes, scales, codes_t, scales_t;

  explicit buffers(fuzz::input& in)
      : x(size(in)),
        y(size(in), -1.0f),
        amaxes(4096, 3.0f),
        codes(size(in), untouched),
        scales(size(in), untouched),
        codes_t(size(in), untouched),
        scales_t(size(in), untouched) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 48.0f;
  }
  static std::size_t size(fuzz::input& in) { return static_cast<std::size_t>(in.below(65)) * 64; }

  static bool same(std::vector<u8> const& bytes) {
    for (const u8 b : bytes)
      if (b != untouched) return false;
    return true;
  }
  bool are_untouched() const {
    for (const float value : y)
      if (value != -1.0f) return false;
    return same(codes) && same(scales) && same(codes_t) && same(scales_t);
  }
};

amax_reference any_amax(fuzz::input& in, buffers const& b) {
  amax_reference amax;
  amax.kind = static_cast<amax_kind>(in.below(8));
  amax.number = static_cast<scale_number>(in.below(8) == 0 ? in.below(5) : 0);
  amax.value = in.number<float>();
  // One amax a row is the one thing that no capacity goes with: there are more than rows can be here.
  amax.data = in.below(8) == 0 ? nullptr : b.amaxes.data();
  return amax;
}

template <class F, class Layout>
void call(fuzz::input& in, buffers& b) {
  const i64 rows = extent(in), cols = extent(in), ld = in.below(2) ? cols : extent(in);
  matrix_view<float const> x(b.x, rows, cols, ld);
  const matrix_view<float> y(b.y, in.below(4) ? rows : extent(in), in.below(4) ? cols : extent(in));
  block_scaled_view<F, Layout> q(b.codes, b.scales, in.below(4) ? rows : extent(in),
                                 in.below(4) ? cols : extent(in), any_amax(in, b));
  block_scaled_view<F, Layout> qt(b.codes_t, b.scales_t, in.below(4) ? cols : extent(in),
                                  in.below(4) ? rows : extent(in), q.amax);
  i64 offsets[5] = {0, extent(in), extent(in), extent(in), extent(in)};
  float group_amax[4] = {};
  auto xt = transposed(x);
  if (in.below(4) == 0) xt.rows = extent(in);
  constexpr int n = F::block_size;
  const auto run = [&]() -> errc {
    switch (in.below(10)) {
      case 0:
        return host::quantize(x, q);
      case 1:
        return host::quantize(xt, q, quantizer{stochastic{philox{1}}});
      case 2:
        return host::quantize(x, q, quantizer{}, blocks_2d<n, n>{});
      case 3:
        return host::dequantize(q, y);
      case 4:
        return host::quantize_both(x, q, qt);
      case 5:
        return host::transpose(q, qt);
      case 6:
        return host::gemm(q, qt, y);
      case 7:
        return host::transform<16>(x, y, hadamard<16>{te_signs});
      case 8:
        return host::amax_grouped(x, {offsets, 4}, group_amax);
      default:
        return host::quantize_grouped(x, q, {offsets, 4});
    }
  };
  const errc e = run();
  promise(e == errc::ok || b.are_untouched());
  promise(message(e) != message(static_cast<errc>(99)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(u8 const* data, std::size_t size) {
  fuzz::input in(data, size);
  const int format = in.below(4);
  buffers b(in);
  if (format == 0) call<nvfp4, linear>(in, b);
  if (format == 1) call<nvfp4, swizzled_128x4>(in, b);
  if (format == 2) call<mxfp8_e4m3, swizzled_128x4>(in, b);
  if (format == 3) call<fp8_e4m3, linear>(in, b);
  return 0;
}
