// SPDX-License-Identifier: Apache-2.0
// Matrices drawn at random: shapes, strides, addresses and values. Each quantizer's codes and scales compared
// with the host's, byte for byte, and what they dequantize to.
#include "matches_host.cuh"
#include "support/drawn_values.hpp"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// A multiple of `unit`, often of the sizes of tiles.
i64 drawn_size(dice& d, i64 unit) {
  const i64 of = std::max(unit, d.one_of({i64{1}, i64{1}, i64{16}, i64{32}, i64{64}, i64{128}, i64{256}}));
  return of * d.size(std::max<i64>(1, 700 / of));
}

/// A matrix of T on both machines, its rows apart, at some address.
template <class T>
struct drawn_matrix {
  i64 rows, cols, ld, start;
  std::vector<T> values;
  device_buffer<T> copy;

  drawn_matrix(dice& d, i64 row_unit, i64 col_unit)
      : rows(drawn_size(d, row_unit)),
        cols(drawn_size(d, col_unit)),
        ld(cols + d.one_of({i64{0}, i64{0}, i64{8}, i64{16}, i64{5}})),
        start(d.one_of({i64{0}, i64{0}, i64{8}, i64{4}, i64{1}})),
        values(drawn_values<T>(d, rows + 1, ld)),
        copy(values) {}
  matrix_view<T const> on_host() const { return {values.data() + start, rows, cols, ld}; }
  matrix_view<T const> on_device() const { return {copy.data() + start, rows, cols, ld}; }
};

/// Codes and scales on both machines, poisoned, at some address.
template <class F, class Layout>
struct drawn_output {
  i64 codes_at, scales_at;
  std::vector<u8> codes, scales;
  device_buffer<u8> d_codes, d_scales;
  block_scaled_view<F, Layout> host, device;

  drawn_output(dice& d, i64 rows, i64 cols, tensor_amax<F> amax)
      : codes_at(d.one_of({0, 0, 0, 16, 8, 4, 1})),
        scales_at(block_scale_bytes<F> * d.one_of({0, 0, 0, 16, 4, 1})),
        codes(static_cast<size_t>(codes_at + code_bytes<F>(rows, cols) + canary), poison),
        scales(static_cast<size_t>(scales_at + scale_bytes<F, Layout>(rows, cols) + canary), poison),
        d_codes(codes),
        d_scales(scales),
        host(codes.data() + codes_at, scales.data() + scales_at, rows, cols, amax),
        device(d_codes.data() + codes_at, d_scales.data() + scales_at, rows, cols, amax) {}

  void check() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    const auto behind = [](std::vector<u8> x, i64 first) {
      x.erase(x.begin(), x.begin() + first);
      return x;
    };
    check_same_codes(host, behind(d_codes.to_host(), codes_at), behind(codes, codes_at));
    check_same_scales(host, behind(d_scales.to_host(), scales_at), behind(scales, scales_at));
  }
};

/// One copy of x, and both; `of_columns` quantizes the second one.
template <class F, class L, class LT, class T, class Rows, class Columns, class Blocks>
void check(u64 seed, Rows const& of_rows, Columns const& of_columns, Blocks blocks) {
  constexpr i64 unit = F::block_size;
  dice d(seed);
  const bool both = d.one_in(2);
  const drawn_matrix<T> m(d, both || !same_type<Blocks, blocks_1d> ? unit : 1, unit);
  INFO("seed " << seed << ": " << F::name << ' ' << m.rows << " x " << m.cols << " ld " << m.ld << " start "
               << m.start << (both ? " both" : ""));
  const auto x = m.on_host(), dx = m.on_device();
  const float amax = d.one_in(4) ? 3.0f : amax_of(x);
  drawn_output<F, L> q(d, m.rows, m.cols, {amax_value(amax), of_rows});
  if (!both) {
    REQUIRE(host::quantize(x, q.host, of_rows, blocks) == errc::ok);
    REQUIRE(device::quantize(dx, q.device, of_rows, blocks) == errc::ok);
    q.check();
  } else {
    drawn_output<F, LT> qt(d, m.cols, m.rows, {amax_value(amax), of_columns});
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
