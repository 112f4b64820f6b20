// SPDX-License-Identifier: Apache-2.0
// device::dequantize compared with host::dequantize: any bytes as codes and scales, places in memory that
// vectors cannot begin at, gaps between rows, ragged tiles.
#pragma once

#include <fourscale/device/dequantize.cuh>
#include <fourscale/host/dequantize.hpp>

#include "matches_host.cuh"
#include "support/catch.hpp"
#include "support/data.hpp"

namespace fourscale::test {

/// Where a matrix of codes and one of values lie: how far behind an aligned address, and what is between
/// rows.
struct dequantize_places {
  i64 codes = 0, scales = 0, values = 0, gap = 0;
};

template <class F, class Layout, class T, bool ByColumns>
void check_dequantize(i64 rows, i64 cols, amax_reference const& amax, amax_reference const& device_amax,
                      dequantize_places const& at) {
  INFO(F::name << " to " << sizeof(T) << " bytes, " << rows << " x " << cols
               << (ByColumns ? " by columns" : "") << "; codes + " << at.codes << ", scales + " << at.scales
               << ", values + " << at.values << ", gaps of " << at.gap);
  std::vector<u8> codes(static_cast<size_t>(at.codes + code_bytes<F>(rows, cols))),
      scales(static_cast<size_t>(at.scales + scale_bytes<F, Layout>(rows, cols)) + 1);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<u8>(mix(i));
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<u8>(mix(i + (u64{1} << 40)) >> 8);
  const i64 lines = ByColumns ? cols : rows, places = ByColumns ? rows : cols, ld = places + at.gap;
  std::vector<T> want(static_cast<size_t>(at.values + (lines + 64) * ld));  // and what is behind the last
  __builtin_memset(static_cast<void*>(want.data()), poison, want.size() * sizeof(T));
  const device_buffer<u8> d_codes(codes), d_scales(scales);
  const device_buffer<T> got(want);
  const block_scaled_view<F, Layout, u8 const> q{codes.data() + at.codes, scales.data() + at.scales, rows,
                                                 cols, amax},
      d{d_codes.data() + at.codes, d_scales.data() + at.scales, rows, cols, device_amax};
  const matrix_view<T> y{want.data() + at.values, lines, places, ld},
      to{got.data() + at.values, lines, places, ld};
  if constexpr (ByColumns) {
    REQUIRE(host::dequantize(q, transposed(y)) == errc::ok);
    REQUIRE(device::dequantize(d, transposed(to)) == errc::ok);
  } else {
    REQUIRE(host::dequantize(q, y) == errc::ok);
    REQUIRE(device::dequantize(d, to) == errc::ok);
  }
  CHECK(same_values(got.to_host(), want));  // what lies before, between and behind rows included
}

/// Shapes of no, one and several tiles, whole and ragged; each place of codes and of values; amaxes.
template <class F, class T, class Layout = linear>
void check_dequantize() {
  if (!gpu_or_warn()) return;
  constexpr i64 n = F::block_size, scale = block_scale_bytes<F> == 4 ? 4 : 1;
  constexpr i64 odd = sizeof(T) == 4 ? 1 : 3;
  const auto both = [](i64 rows, i64 cols, amax_reference const& a, amax_reference const& d,
                       dequantize_places const& at) {
    check_dequantize<F, Layout, T, false>(rows, cols, a, d, at);
    check_dequantize<F, Layout, T, true>(rows, cols, a, d, at);
  };
  const amax_reference amax = F::has_tensor_scale ? amax_value(300.0f) : amax_reference{};
  for (const i64 rows : {i64{1}, i64{63}, i64{64}, i64{129}, i64{258}})
    for (const i64 cols : {n, 5 * n, round_up<i64>(128, n), 128 + 3 * n}) both(rows, cols, amax, amax, {});
  for (const i64 codes : {0, 1, 2, 4})
    for (const i64 values : {i64{0}, i64{1}, i64{2}})
      for (const i64 gap : {i64{0}, odd, i64{8}})
        both(130, 2 * round_up<i64>(64, n), amax, amax, {codes, codes == 1 ? 1 : 0, values, gap});
  both(70, 2 * n, amax, amax, {0, scale, 0, 0});
  if constexpr (F::has_tensor_scale) {
    std::vector<float> amaxes;
    for (int i = 0; i < 190; ++i)
      amaxes.push_back(i == 7 ? 0.0f : i == 8 ? 3e38f : 0.5f + static_cast<float>(i));
    const device_buffer<float> d(amaxes);
    for (const i64 gap : {i64{0}, odd})
      both(190, 128 + n, amax_of_rows(amaxes.data()), amax_of_rows(d.data()), {0, 0, 0, gap});
    for (const float a : {0.0f, 1e-38f, 3e38f, bit_cast<float>(float_inf_bits)})
      both(16, 8 * n, amax_value(a), amax_value(a), {});
  }
}

}  // namespace fourscale::test
