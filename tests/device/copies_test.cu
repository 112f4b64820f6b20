// SPDX-License-Identifier: Apache-2.0
// Transforms, both copies, transposes, requantization and row scales: device equals host.
#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

/// A quantized matrix in host memory, or in device memory, poisoned.
template <class F, class Layout = linear>
struct on_host {
  std::vector<u8> codes, scales;
  block_scaled_view<F, Layout> view;

  on_host(i64 rows, i64 cols)
      : codes(static_cast<size_t>(code_bytes<F>(rows, cols)), poison),
        scales(static_cast<size_t>(scale_bytes<F, Layout>(rows, cols)), poison),
        view(codes, scales, rows, cols) {}
};
template <class F, class Layout = linear>
struct on_device {
  device_buffer<u8> codes, scales;
  block_scaled_view<F, Layout> view;

  on_device(i64 rows, i64 cols)
      : codes(code_bytes<F>(rows, cols)),
        scales(scale_bytes<F, Layout>(rows, cols)),
        view(codes.data(), scales.data(), rows, cols) {}
};
template <class F, class Layout>
void check_equal(on_host<F, Layout> const& h, on_device<F, Layout> const& d) {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  check_same_codes(h.view, d.codes.to_host(), h.codes);
  check_same_scales(h.view, d.scales.to_host(), h.scales);
}

constexpr hadamard<16> rht{te_signs};
constexpr quantizer wgrad{stochastic{philox{7, 1}}, two_level{}, rht};

template <class Layout, class LayoutT>
void check_both(i64 rows, i64 cols, i64 ld, i64 start) {
  const test_matrix<bf16> m(rows, cols, ld, start);
  const auto x = m.on_host(), dx = m.on_device();
  device_buffer<float> amax(1), amax_t(1);
  REQUIRE(device::amax(dx, amax.data()) == errc::ok);
  REQUIRE(device::amax<nvfp4>(transposed(dx), rht, amax_t.data()) == errc::ok);
  const float host_amax = amax_of(x), host_amax_t = amax_of<nvfp4>(transposed(x), rht);
  CHECK(bit_cast<u32>(amax.to_host()[0]) == bit_cast<u32>(host_amax));
  CHECK(bit_cast<u32>(amax_t.to_host()[0]) == bit_cast<u32>(host_amax_t));

  on_host<nvfp4, Layout> q(rows, cols);
  on_host<nvfp4, LayoutT> qt(cols, rows);
  q.view.amax = amax_value(host_amax);
  qt.view.amax = amax_value(host_amax_t);
  on_device<nvfp4, Layout> d(rows, cols);
  on_device<nvfp4, LayoutT> dt(cols, rows);
  d.view.amax = amax_in(amax.data());
  dt.view.amax = amax_in(amax_t.data());
  REQUIRE(host::quantize_both(x, q.view, qt.view, quantizer{}, wgrad) == errc::ok);
  REQUIRE(device::quantize_both(dx, d.view, dt.view, quantizer{}, wgrad) == errc::ok);
  check_equal(q, d);
  check_equal(qt, dt);

  qt.view.amax = q.view.amax;
  dt.view.amax = d.view.amax;
  REQUIRE(host::quantize_both(x, q.view, qt.view, quantizer{}, quantizer{}, blocks_2d<16, 16>{}) == errc::ok);
  REQUIRE(device::quantize_both(dx, d.view, dt.view, quantizer{}, quantizer{}, blocks_2d<16, 16>{}) ==
          errc::ok);
  check_equal(q, d);
  check_equal(qt, dt);
}

/// Both copies of fp32 values under the scales of squares; `spread_from` as in launch_squares().
template <class F, class Layout, class LayoutT>
void check_squares(test_matrix<float> const& m, i64 spread_from) {
  INFO(F::name << ' ' << m.rows << 'x' << m.cols << " ld " << m.ld << " start " << m.start);
  constexpr blocks_2d<F::block_size, F::block_size> squares;
  on_host<F, Layout> q(m.rows, m.cols);
  on_host<F, LayoutT> qt(m.cols, m.rows);
  on_device<F, Layout> d(m.rows, m.cols);
  on_device<F, LayoutT> dt(m.cols, m.rows);
  q.view.amax = qt.view.amax = d.view.amax = dt.view.amax = amax_value(amax_of(m.on_host()));
  REQUIRE(host::quantize_both(m.on_host(), q.view, qt.view, quantizer{}, quantizer{}, squares) == errc::ok);
  REQUIRE(device::quantize_both(m.on_device(), d.view, dt.view, quantizer{}, quantizer{}, squares) ==
          errc::ok);
  check_equal(q, d);
  check_equal(qt, dt);
  if (spread_from > 0) return;
  device::detail::launch_squares<F>(m.on_device(), d.view, dt.view, quantizer{}, nullptr, spread_from);
  check_equal(q, d);
  check_equal(qt, dt);
}
template <class F>
void check_squares_of_floats() {
  constexpr i64 never = 1;
  for (float (*value)(u64, u64) : {activation, ugly_value, constant_zero}) {
    check_squares<F, linear, linear>({512, 512, 512, 0, value}, 0);
    check_squares<F, swizzled_128x4, linear>({1056, 288, 292, 4, value}, never);  // tiles of three kinds
    check_squares<F, linear, swizzled_128x4>({96, 160, 163, 1, value}, never);    // rows that are no vectors
  }
}

template <class F>
void check_transpose(i64 rows, i64 cols) {
  constexpr int n = F::block_size;
  const test_matrix<bf16> m(rows, cols, cols, 0, ugly_value);
  on_host<F, swizzled_128x4> q(rows, cols);
  on_host<F> qt(cols, rows);
  on_device<F, swizzled_128x4> d(rows, cols);
  on_device<F> dt(cols, rows);
  q.view.amax = qt.view.amax = d.view.amax = dt.view.amax = unit_scale;
  REQUIRE(host::quantize(m.on_host(), q.view, quantizer{}, blocks_2d<n, n>{}) == errc::ok);
  REQUIRE(device::quantize(m.on_device(), d.view, quantizer{}, blocks_2d<n, n>{}) == errc::ok);
  REQUIRE(host::transpose(q.view, qt.view) == errc::ok);
  REQUIRE(device::transpose(d.view, dt.view) == errc::ok);
  check_equal(qt, dt);
}

template <int N>
void check_transform(matrix_view<bf16 const> x, matrix_view<bf16 const> dx) {
  std::vector<bf16> y(static_cast<size_t>(x.rows * x.cols));
  device_buffer<bf16> d_y(x.rows * x.cols);
  const hadamard<N> t{te_signs};
  REQUIRE(host::transform<N>(x, matrix_view<bf16>{y, x.rows, x.cols}, t) == errc::ok);
  REQUIRE(device::transform<N>(dx, matrix_view<bf16>{d_y.data(), x.rows, x.cols}, t) == errc::ok);
  CHECK(d_y.to_host() == y);
  REQUIRE(host::transform<N>(transposed(x), matrix_view<bf16>{y, x.cols, x.rows}, t) == errc::ok);
  REQUIRE(device::transform<N>(transposed(dx), matrix_view<bf16>{d_y.data(), x.cols, x.rows}, t) == errc::ok);
  CHECK(d_y.to_host() == y);
}

}  // namespace

TEST_CASE("device: both copies in one call equal the host", "[device][copies]") {
  if (!gpu_or_warn()) return;
  const auto layouts = [](auto layout, auto layout_t) {
    const auto check = [](auto... shape) { check_both<decltype(layout), decltype(layout_t)>(shape...); };
    check(256, 512, 512, 0);
    check(48, 80, 83, 1);
    check(1040, 272, 280, 8);  // tiles of three kinds: inside, at an edge, beyond it
  };
  layouts(linear{}, swizzled_128x4{});
  layouts(swizzled_128x4{}, linear{});
}

TEST_CASE("device: both copies of MXFP4 in swizzled layouts equal the host", "[device][copies]") {
  if (!gpu_or_warn()) return;
  for (i64 cols : {256, 416}) {
    const test_matrix<bf16> m(384, cols, cols, 0, ugly_value);
    on_host<mxfp4, swizzled_128x4> q(384, cols), qt(cols, 384);
    on_device<mxfp4, swizzled_128x4> d(384, cols), dt(cols, 384);
    REQUIRE(host::quantize_both(m.on_host(), q.view, qt.view) == errc::ok);
    REQUIRE(device::quantize_both(m.on_device(), d.view, dt.view) == errc::ok);
    check_equal(q, d);
    check_equal(qt, dt);
  }
}

TEST_CASE("device: both copies of fp32 squares equal the host", "[device][copies]") {
  if (!gpu_or_warn()) return;
  check_squares_of_floats<nvfp4>();
  check_squares_of_floats<mxfp4>();
}

TEST_CASE("device: the transpose of a finished 2-D tensor equals the host's", "[device][copies]") {
  if (!gpu_or_warn()) return;
  check_transpose<nvfp4>(80, 304);
  check_transpose<mxfp6_e2m3>(64, 160);
  check_transpose<mxfp8_e4m3>(96, 32);
  check_transpose<fp8_block_e4m3>(128, 256);
}

TEST_CASE("device: requantization from 4 bits equals the host", "[device][copies]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(64, 96, 96, 0);
  on_host<nvfp4> q(64, 96), qt(96, 64);
  on_device<nvfp4> d(64, 96), dt(96, 64);
  q.view.amax = d.view.amax = amax_value(amax_of(m.on_host()));
  REQUIRE(host::quantize(m.on_host(), q.view) == errc::ok);
  REQUIRE(device::quantize(m.on_device(), d.view) == errc::ok);
  const auto x = transposed(dequantized(q.view)), dx = transposed(dequantized(d.view));
  device_buffer<float> amax(1);
  REQUIRE(device::amax<nvfp4>(dx, rht, amax.data()) == errc::ok);
  qt.view.amax = amax_value(amax_of<nvfp4>(x, rht));
  dt.view.amax = amax_in(amax.data());
  CHECK(amax.to_host()[0] == qt.view.amax.value);
  REQUIRE(host::quantize(x, qt.view, wgrad) == errc::ok);
  REQUIRE(device::quantize(dx, dt.view, wgrad) == errc::ok);
  check_equal(qt, dt);
}

TEST_CASE("device: Hadamard transforms of a matrix equal the host's", "[device][transform]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(256, 384, 392, 0), odd(128, 128, 129, 1);
  check_transform<2>(m.on_host(), m.on_device());
  check_transform<16>(odd.on_host(), odd.on_device());
  check_transform<32>(m.on_host(), m.on_device());
  check_transform<128>(m.on_host(), m.on_device());
}

TEST_CASE("device: row amaxes and row scales equal the host's", "[device][row_scaled]") {
  if (!gpu_or_warn()) return;
  for (float (*value)(u64, u64) : {activation, ugly_value}) {
    const test_matrix<bf16> m(1104, 80, 81, 1, value);
    const auto check = [](auto x, auto dx) {
      on_host<nvfp4> q(x.rows, x.cols);
      on_device<nvfp4> d(x.rows, x.cols);
      std::vector<float> amax(static_cast<size_t>(x.rows));
      device_buffer<float> d_amax(x.rows);
      REQUIRE(host::row_amax(x, amax.data()) == errc::ok);
      REQUIRE(device::row_amax(dx, d_amax.data()) == errc::ok);
      CHECK(d_amax.to_host() == amax);
      q.view.amax = amax_of_rows(amax.data());
      d.view.amax = amax_of_rows(d_amax.data());
      REQUIRE(host::quantize(x, q.view) == errc::ok);
      REQUIRE(device::quantize(dx, d.view) == errc::ok);
      check_equal(q, d);
      std::vector<float> y(static_cast<size_t>(x.rows * x.cols));
      device_buffer<float> d_y(x.rows * x.cols);
      REQUIRE(host::dequantize(q.view, matrix_view<float>{y, x.rows, x.cols}) == errc::ok);
      REQUIRE(device::dequantize(d.view, matrix_view<float>{d_y.data(), x.rows, x.cols}) == errc::ok);
      CHECK(same_values(d_y.to_host(), y));
    };
    check(m.on_host(), m.on_device());
    check(transposed(m.on_host()), transposed(m.on_device()));
  }
}

TEST_CASE("device: both amaxes of one read equal those of two", "[device][amax]") {
  if (!gpu_or_warn()) return;
  const auto check = [](auto const& m, auto const& transform) {
    const auto x = m.on_host();
    device_buffer<float> amax(1), amax_t(1);
    INFO(m.rows << 'x' << m.cols << " ld " << m.ld << " start " << m.start);
    REQUIRE(device::amax_both<nvfp4>(m.on_device(), transform, amax.data(), amax_t.data()) == errc::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(bit_cast<u32>(amax.to_host()[0]) == bit_cast<u32>(amax_of(x)));
    CHECK(bit_cast<u32>(amax_t.to_host()[0]) == bit_cast<u32>(amax_of<nvfp4>(transposed(x), transform)));
  };
  const auto shapes = [&](auto const& transform) {
    check(test_matrix<bf16>(16, 2, 2, 0), transform);
    check(test_matrix<bf16>(1056, 130, 144, 0), transform);
    check(test_matrix<bf16>(512, 64, 64, 0, ugly_value), transform);
    check(test_matrix<bf16>(48, 35, 35, 0), transform);
    check(test_matrix<fp16>(64, 66, 68, 2), transform);
    check(test_matrix<float>(32, 40, 40, 1), transform);
  };
  shapes(rht);
  shapes(hadamard<16>{});
  shapes(hadamard<8>{te_signs});
  shapes(hadamard<16, float>{te_signs});
  shapes(identity{});
  device_buffer<float> amax(1), amax_t(1);
  const test_matrix<bf16> m(24, 32, 32, 0);
  CHECK(device::amax_both<nvfp4>(m.on_device(), rht, amax.data(), amax_t.data()) == errc::partial_block);
  const test_matrix<bf16> whole(32, 32, 32, 0);
  CHECK(device::amax_both<nvfp4>(whole.on_device(), rht, amax.data(), nullptr) == errc::null_pointer);
}

TEST_CASE("device: squares of tiles equal the host", "[device][both]") {
  if (!gpu_or_warn()) return;
  const auto check = [](auto format, auto layout, auto blocks, auto const& m) {
    using F = decltype(format);
    using L = decltype(layout);
    INFO(F::name << ' ' << m.rows << 'x' << m.cols << " ld " << m.ld);
    device_buffer<float> amax(1);
    REQUIRE(device::amax(m.on_device(), amax.data()) == errc::ok);
    on_host<F, L> h(m.rows, m.cols), ht(m.cols, m.rows);
    on_device<F, L> d(m.rows, m.cols), dt(m.cols, m.rows);
    h.view.amax = ht.view.amax = amax_value(amax_of(m.on_host()));
    d.view.amax = dt.view.amax = amax_in(amax.data());
    REQUIRE(host::quantize_both(m.on_host(), h.view, ht.view, quantizer{}, quantizer{}, blocks) == errc::ok);
    REQUIRE(device::quantize_both(m.on_device(), d.view, dt.view, quantizer{}, quantizer{}, blocks) ==
            errc::ok);
    check_equal(h, d);
    check_equal(ht, dt);
  };
  for (i64 rows : {16, 128, 144, 272})
    for (i64 cols : {16, 64, 80, 192}) {
      check(nvfp4{}, linear{}, blocks_2d<16, 16>{}, test_matrix<bf16>(rows, cols, cols + 8, 0));
      check(nvfp4{}, swizzled_128x4{}, blocks_2d<16, 16>{},
            test_matrix<fp16>(rows, cols, cols, 0, ugly_value));
    }
  check(mxfp4{}, linear{}, blocks_2d<32, 32>{}, test_matrix<bf16>(160, 96, 96, 0));
  check(mxfp4{}, swizzled_128x4{}, blocks_2d<32, 32>{}, test_matrix<bf16>(64, 160, 160, 0, ugly_value));
}

TEST_CASE("device: scales of squares by a kernel of their own equal the host's", "[device][both]") {
  if (!gpu_or_warn()) return;
  const auto check = [](auto format, i64 rows, i64 cols, i64 offset = 0) {
    using F = decltype(format);
    INFO(F::name << ' ' << rows << 'x' << cols << " scales at " << offset);
    const test_matrix<bf16> m(rows, cols, cols, 0);
    on_host<F> h(rows, cols), ht(cols, rows);
    on_device<F> d(rows, cols), dt(cols, rows);
    device_buffer<u8> elsewhere(scale_bytes<F>(rows, cols) + offset);
    if (offset != 0) d.view.scales = elsewhere.data() + offset;
    constexpr blocks_2d<F::block_size, F::block_size> blocks{};
    h.view.amax = ht.view.amax = d.view.amax = dt.view.amax = amax_value(100.0f);
    REQUIRE(host::quantize_both(m.on_host(), h.view, ht.view, quantizer{}, quantizer{}, blocks) == errc::ok);
    device::detail::launch_squares<F>(m.on_device(), d.view, dt.view, quantizer{}, nullptr, 0);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    check_same_codes(h.view, d.codes.to_host(), h.codes);
    std::vector<u8> scales = offset != 0 ? elsewhere.to_host() : d.scales.to_host();
    scales.erase(scales.begin(), scales.begin() + offset);
    check_same_scales(h.view, scales, h.scales);
    check_equal(ht, dt);
  };
  check(nvfp4{}, 512, 1024);
  check(nvfp4{}, 1024, 512);
  check(mxfp4{}, 1024, 2048);
  check(nvfp4{}, 512, 1024, 8);  // not at a multiple of 16: by the tiles
  check(nvfp4{}, 512, 528);      // not whole: by the tiles
}

TEST_CASE("device: so many squares that their scales have a kernel of their own", "[device][large]") {
  if (!gpu_or_warn()) return;
  const i64 n = 8192;
  const test_matrix<bf16> m(n, n, n, 0);
  on_host<nvfp4> h(n, n), ht(n, n);
  on_device<nvfp4> d(n, n), dt(n, n);
  h.view.amax = ht.view.amax = d.view.amax = dt.view.amax = amax_value(amax_of(m.on_host()));
  constexpr blocks_2d<16, 16> blocks{};
  REQUIRE(host::quantize_both(m.on_host(), h.view, ht.view, quantizer{}, quantizer{}, blocks) == errc::ok);
  REQUIRE(device::quantize_both(m.on_device(), d.view, dt.view, quantizer{}, quantizer{}, blocks) ==
          errc::ok);
  check_equal(h, d);
  check_equal(ht, dt);
}
