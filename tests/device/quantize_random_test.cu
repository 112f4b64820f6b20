// SPDX-License-Identifier: Apache-2.0
// Matrices drawn at random: shapes, strides, addresses and values. Each quantizer's codes and scales compared
// with the host's, byte for byte, and what they dequantize to.
#include "edges.cuh"
#include "support/drawn_values.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// A multiple of `unit`, often of the sizes of tiles.
i64 drawn_size(dice& d, i64 unit) {
  const i64 of = std::max(unit, d.one_of({i64{1}, i64{1}, i64{16}, i64{32}, i64{64}, i64{128}, i64{256}}));
  return of * d.size(std::max<i64>(1, 700 / of));
}

/// A matrix with rows apart, at some address.
template <class T>
test_matrix<T> drawn_matrix(dice& d, i64 row_unit, i64 col_unit) {
  const i64 rows = drawn_size(d, row_unit), cols = drawn_size(d, col_unit);
  const i64 ld = cols + d.one_of({0, 0, 8, 16, 5}), start = d.one_of({0, 0, 8, 4, 1});
  return {rows, cols, ld, start, drawn_values<T>(d, rows + 1, ld)};
}

/// Codes and scales at some address.
template <class F, class Layout>
outputs<F, Layout> drawn_outputs(dice& d, i64 rows, i64 cols, tensor_amax<F> amax) {
  const i64 codes = d.one_of({0, 0, 0, 16, 8, 4, 1}), scales = d.one_of({0, 0, 0, 16, 4, 1});
  return {rows, cols, amax, codes, block_scale_bytes<F> * scales};
}

/// One copy of x, and both; `of_columns` quantizes the second one.
template <class F, class L, class LT, class T, class Rows, class Columns, class Blocks>
void check(u64 seed, Rows const& of_rows, Columns const& of_columns, Blocks blocks) {
  constexpr i64 unit = F::block_size;
  dice d(seed);
  const bool both = d.one_in(2);
  const auto m = drawn_matrix<T>(d, both || !same_type<Blocks, blocks_1d> ? unit : 1, unit);
  INFO("seed " << seed << ": " << F::name << ' ' << m.rows << " x " << m.cols << " ld " << m.ld << " start "
               << m.start << (both ? " both" : ""));
  const auto x = m.on_host(), dx = m.on_device();
  const float amax = d.one_in(4) ? 3.0f : amax_of(x);
  const auto q = drawn_outputs<F, L>(d, m.rows, m.cols, {amax_value(amax), of_rows});
  if (!both) {
    REQUIRE(host::quantize(x, q.host, of_rows, blocks) == errc::ok);
    REQUIRE(device::quantize(dx, q.device, of_rows, blocks) == errc::ok);
    q.check();
  } else {
    const auto qt = drawn_outputs<F, LT>(d, m.cols, m.rows, {amax_value(amax), of_columns});
    REQUIRE(host::quantize_both(x, q.host, qt.host, of_rows, of_columns, blocks) == errc::ok);
    REQUIRE(device::quantize_both(dx, q.device, qt.device, of_rows, of_columns, blocks) == errc::ok);
    q.check();
    qt.check();
  }
  std::vector<T> y(static_cast<size_t>(m.rows * m.ld), from_float<T>(5.0f));
  const device_buffer<T> d_y(y);
  REQUIRE(host::dequantize(q.host, matrix_view<T>{y.data(), m.rows, m.cols, m.ld}) == errc::ok);
  REQUIRE(device::dequantize(q.device, matrix_view<T>{d_y.data(), m.rows, m.cols, m.ld}) == errc::ok);
  CHECK(same_values(d_y.to_host(), y));
}

}  // namespace

TEST_CASE("device: quantizers of matrices drawn at random equal the host's", "[device][copies]") {
  if (!gpu_or_warn()) return;
  constexpr quantizer plain{};
  constexpr quantizer drawing{stochastic{philox{7, 1}}};
  constexpr quantizer over_six{nearest_even{}, four_over_six<>{}};
  constexpr quantizer wgrad{stochastic{philox{7, 1}}, two_level{}, hadamard<16>{te_signs}};
  const u64 count = exhaustive() ? 2000 : 30;
  for (u64 seed = 0; seed < count; ++seed) {
    check<nvfp4, linear, swizzled_128x4, bf16>(seed, plain, wgrad, blocks_1d{});
    check<nvfp4, swizzled_128x4, linear, float>(seed, plain, plain, blocks_1d{});
    check<nvfp4, linear, linear, fp16>(seed, drawing, plain, blocks_1d{});
    check<nvfp4, swizzled_128x4, linear, bf16>(seed, over_six, over_six, blocks_1d{});
    check<nvfp4, swizzled_128x4, swizzled_128x4, bf16>(seed, plain, plain, blocks_2d<16, 16>{});
    check<mxfp4, linear, linear, float>(seed, plain, plain, blocks_2d<32, 32>{});
    check<mxfp6_e2m3, linear, swizzled_128x4, bf16>(seed, plain, plain, blocks_1d{});
    check<mxfp8_e4m3, swizzled_128x4, linear, fp16>(seed, plain, plain, blocks_1d{});
    check<fp8_block_e4m3, linear, linear, bf16>(seed, plain, plain, blocks_1d{});
    check<fp8_block_e4m3, linear, linear, float>(seed, plain, plain, blocks_2d<128, 128>{});
  }
}
