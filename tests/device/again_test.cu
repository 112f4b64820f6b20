// SPDX-License-Identifier: Apache-2.0
// Blocks of which a fast form does not hold are done again by the definition: where they lie, with the amax
// of their row. Random rounding shows both. The device gives the host's bytes.
#include "edges.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr philox draws{0x0123'4567'89ab'cdef, 42};

}  // namespace

TEST_CASE("device: blocks that are done again draw where they lie", "[device][again]") {
  if (!gpu_or_warn()) return;
  const quantizer random{stochastic{draws}};
  const auto check = [&](auto type, i64 rows, i64 cols, i64 ld, float (*value)(u64, u64)) {
    const test_matrix<decltype(type)> m(rows, cols, ld, 0, value);
    check_all_forms<nvfp4>(m, report::quiet, random);
    if constexpr (__is_same(decltype(type), bf16)) check_all_forms<mxfp4>(m, report::quiet, random);
  };
  for (float (*value)(u64, u64) : {holed_value, ugly_value}) {
    check(bf16{}, 160, 192, 192, value);
    check(bf16{}, 48, 80, 83, value);
    check(fp16{}, 160, 192, 200, value);
  }
}

TEST_CASE("device: blocks that are done again have the amax of their row", "[device][again]") {
  if (!gpu_or_warn()) return;
  const quantizer random{stochastic{draws}};
  const test_matrix<bf16> m(160, 192, 192, 0, holed_value);
  const auto check = [&](auto layout, auto x, auto dx) {
    std::vector<float> amax(static_cast<size_t>(x.rows));
    REQUIRE(host::row_amax(x, amax.data()) == errc::ok);
    const device_buffer<float> d_amax(amax);
    outputs<nvfp4, decltype(layout)> q(x.rows, x.cols, amax_of_rows(amax.data()));
    q.device.amax = amax_of_rows(d_amax.data());
    REQUIRE(host::quantize(x, q.host, random) == errc::ok);
    REQUIRE(device::quantize(dx, q.device, random) == errc::ok);
    q.check();
  };
  const auto x = m.on_host(), dx = m.on_device();
  check(linear{}, x, dx);
  check(swizzled_128x4{}, x, dx);
  check(linear{}, transposed(x), transposed(dx));
  check(swizzled_128x4{}, transposed(x), transposed(dx));
}

TEST_CASE("device: both copies of a matrix with NaNs draw where their blocks lie", "[device][again]") {
  if (!gpu_or_warn()) return;
  const quantizer rows{stochastic{draws}}, columns{stochastic{philox{7, 1}}};
  for (i64 cols : {208, 256}) {
    const test_matrix<bf16> m(144, cols, cols + 8, 0, holed_value);
    outputs<nvfp4, swizzled_128x4> q(144, cols, amax_value(100.0f));
    outputs<nvfp4, linear> qt(cols, 144, amax_value(100.0f));
    REQUIRE(host::quantize_both(m.on_host(), q.host, qt.host, rows, columns) == errc::ok);
    REQUIRE(device::quantize_both(m.on_device(), q.device, qt.device, rows, columns) == errc::ok);
    q.check();
    qt.check();
  }
}

TEST_CASE("device: groups with NaNs draw where their blocks lie", "[device][again]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(300, 160, 160, 0, holed_value);
  const std::vector<i64> offsets{0, 7, 7, 140, 299};
  const device_buffer<i64> d_offsets(offsets);
  const auto check = [&](auto layout) {
    using Layout = decltype(layout);
    const i64 bytes = grouped_scale_bytes<nvfp4, Layout>(300, 160, 4);
    std::vector<u8> c(300 * 80, poison), s(static_cast<size_t>(bytes + canary), poison);
    const device_buffer<u8> d_c(c), d_s(s);
    const block_scaled_view<nvfp4, Layout> q{c.data(), s.data(), 300, 160, amax_value(100.0f)},
        d{d_c.data(), d_s.data(), 300, 160, amax_value(100.0f)};
    const quantizer random{stochastic{draws}};
    REQUIRE(host::quantize_grouped(m.on_host(), q, {offsets.data(), 4}, random) == errc::ok);
    REQUIRE(device::quantize_grouped(m.on_device(), d, {d_offsets.data(), 4}, random) == errc::ok);
    check_same_codes(q, d_c.to_host(), c);
    check_same_bytes(d_s.to_host(), s);
  };
  check(linear{});
  check(swizzled_128x4{});
}
