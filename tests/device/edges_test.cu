// SPDX-License-Identifier: Apache-2.0
// What lies at the edges of a matrix, of a layout, and of what a kernel's fast form takes: gaps between rows,
// padding, NaN. The device gives the host's bytes, whatever is there.
#include "matches_host.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits), nan = bit_cast<float>(0x7fc0'0000u);
constexpr philox draws{0x0123'4567'89ab'cdef, 42};
constexpr hadamard<16> rht{te_signs};

/// Ordinary values among NaNs: runs of nothing else, and single ones beside every block's largest value.
float holed_value(u64 row, u64 i) { return i / 32 % 5 == 0 || mix(i) % 4 == 0 ? nan : activation(row, i); }
/// The same from the first value to the last.
float nan_value(u64, u64 i) { return i % 2 == 0 ? nan : -nan; }

/// What belongs to no row is infinite, before the first one and behind the last one, too.
template <class T>
void fill_gaps(test_matrix<T>& m) {
  for (i64 i = 0; i < static_cast<i64>(m.values.size()); ++i)
    if (const i64 at = i - m.start; at < 0 || at % m.ld >= m.cols)
      m.values[static_cast<size_t>(i)] = from_float<T>(infinity);
  REQUIRE(cudaMemcpy(m.copy.data(), m.values.data(), m.values.size() * sizeof(T), cudaMemcpyHostToDevice) ==
          cudaSuccess);
}

u32 bits_of(device_buffer<float> const& amax) { return bit_cast<u32>(amax.to_host()[0]); }

/// The amaxes of rows, or of columns.
template <class M>
void check_row_amax(M const& host, M const& device) {
  std::vector<float> want(static_cast<size_t>(host.rows));
  const device_buffer<float> got(host.rows);
  REQUIRE(host::row_amax(host, want.data()) == errc::ok);
  REQUIRE(device::row_amax(device, got.data()) == errc::ok);
  CHECK(got.to_host() == want);
}

/// Every amax that there is of a matrix whose sides are multiples of 16. None is NaN, so they compare.
template <class T>
void check_amaxes(test_matrix<T> const& m) {
  INFO(m.rows << 'x' << m.cols << " ld " << m.ld << " start " << m.start << ", values of " << sizeof(T)
              << " bytes");
  const auto x = m.on_host(), dx = m.on_device();
  const device_buffer<float> amax(1), amax_t(1);
  REQUIRE(device::amax(dx, amax.data()) == errc::ok);
  CHECK(bits_of(amax) == bit_cast<u32>(amax_of(x)));
  REQUIRE(device::amax<16>(dx, rht, amax.data()) == errc::ok);
  CHECK(bits_of(amax) == bit_cast<u32>(amax_of<16>(x, rht)));
  REQUIRE(device::amax<16>(transposed(dx), rht, amax.data()) == errc::ok);
  CHECK(bits_of(amax) == bit_cast<u32>(amax_of<16>(transposed(x), rht)));
  REQUIRE(device::amax_both<nvfp4>(dx, rht, amax.data(), amax_t.data()) == errc::ok);
  CHECK(bits_of(amax) == bit_cast<u32>(amax_of(x)));
  CHECK(bits_of(amax_t) == bit_cast<u32>(amax_of<16>(transposed(x), rht)));
  check_row_amax(x, dx);
  check_row_amax(transposed(x), transposed(dx));
  const std::vector<i64> offsets{0, 0, 5, m.rows - 1, m.rows};
  const device_buffer<i64> d_offsets(offsets);
  const device_buffer<float> of_groups(4);
  float want[4];
  REQUIRE(host::amax_grouped(x, {offsets.data(), 4}, want) == errc::ok);
  REQUIRE(device::amax_grouped(dx, {d_offsets.data(), 4}, of_groups.data()) == errc::ok);
  CHECK(of_groups.to_host() == std::vector<float>(want, want + 4));
}

template <class T>
void check_amaxes_of_type() {
  for (float (*value)(u64, u64) : {holed_value, nan_value}) {
    check_amaxes(test_matrix<T>(96, 256, 256, 0, value));  // one long row
    check_amaxes(test_matrix<T>(48, 160, 176, 0, value));  // vectors
    check_amaxes(test_matrix<T>(48, 80, 83, 1, value));    // values
  }
}

/// Values that are computed, not loaded.
template <class F>
struct made_values {
  using block_type = cta::values<bf16, F::block_size>;
  i64 rows, cols;

  FOURSCALE_D block_type load(cta::place const& at) const {
    block_type block{};
    FOURSCALE_UNROLL
    for (int i = 0; i < F::block_size; ++i)
      block.set(i, from_float<bf16>(activation(static_cast<u64>(at.row), index(at, i))));
    return block;
  }
  FOURSCALE_HD u64 index(cta::place const& at, int i) const {
    return static_cast<u64>(at.row * cols + at.block * F::block_size + i);
  }
};

/// Codes and scales on both machines, poisoned, canaries behind them.
template <class F, class Layout>
struct outputs {
  std::vector<u8> codes, scales;
  device_buffer<u8> d_codes, d_scales;
  block_scaled_view<F, Layout> host, device;

  outputs(i64 rows, i64 cols, tensor_amax<F> amax)
      : codes(static_cast<size_t>(code_bytes<F>(rows, cols) + canary), poison),
        scales(static_cast<size_t>(scale_bytes<F, Layout>(rows, cols) + canary), poison),
        d_codes(codes),
        d_scales(scales),
        host(codes, scales, rows, cols, amax),
        device(d_codes.data(), d_scales.data(), rows, cols, amax) {}

  void check() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    check_same_codes(host, d_codes.to_host(), codes);
    check_same_scales(host, d_scales.to_host(), scales);
  }
};

template <class F, class Layout>
void check_producer(i64 rows, i64 cols) {
  INFO(F::name << (Layout::has_padding ? " swizzled " : " linear ") << rows << 'x' << cols);
  const test_matrix<bf16> m(rows, cols, cols, 0);
  outputs<F, Layout> q(rows, cols, amax_value(100.0f));
  REQUIRE(host::quantize(m.on_host(), q.host) == errc::ok);
  REQUIRE(device::quantize(made_values<F>{rows, cols}, q.device) == errc::ok);
  q.check();
}

template <class F>
void check_transpose_into_tiles(i64 rows, i64 cols) {
  constexpr blocks_2d<F::block_size, F::block_size> blocks{};
  const test_matrix<bf16> m(rows, cols, cols, 0);
  outputs<F, linear> q(rows, cols, amax_value(100.0f));
  outputs<F, swizzled_128x4> qt(cols, rows, amax_value(100.0f));
  REQUIRE(host::quantize(m.on_host(), q.host, quantizer{}, blocks) == errc::ok);
  REQUIRE(device::quantize(m.on_device(), q.device, quantizer{}, blocks) == errc::ok);
  REQUIRE(host::transpose(q.host, qt.host) == errc::ok);
  REQUIRE(device::transpose(q.device, qt.device) == errc::ok);
  qt.check();
}

}  // namespace

TEST_CASE("device: no amax keeps a NaN, of any type, by any kernel", "[device][edges]") {
  if (!gpu_or_warn()) return;
  check_amaxes_of_type<bf16>();
  check_amaxes_of_type<fp16>();
  check_amaxes_of_type<float>();
}

TEST_CASE("device: what lies between rows takes no part", "[device][edges]") {
  if (!gpu_or_warn()) return;
  const auto check = [](auto type, i64 rows, i64 cols, i64 ld, i64 start) {
    test_matrix<decltype(type)> m(rows, cols, ld, start);
    fill_gaps(m);
    check_all_forms<nvfp4>(m);
    check_all_forms<mxfp8_e4m3>(m);
    check_all_forms<nvfp4>(m, report::quiet, quantizer{nearest_even{}, four_over_six{}});
  };
  for (i64 rows : {96, 144}) {
    check(bf16{}, rows, 100, 104, 0);  // vectors, of which the last of a row is partly its own
    check(bf16{}, rows, 7, 8, 0);
    check(bf16{}, rows, 131, 160, 16);
    check(bf16{}, rows, 83, 90, 1);  // rows that begin anywhere
    check(fp16{}, rows, 201, 208, 8);
    check(float{}, rows, 48, 60, 0);
  }
  check(bf16{}, 37, 176, 184, 0);
  check(bf16{}, 131, 64, 71, 3);
}

TEST_CASE("device: blocks that are done again draw where they lie", "[device][edges]") {
  if (!gpu_or_warn()) return;
  const quantizer random{stochastic{draws}};
  const auto check = [&](auto type, i64 rows, i64 cols, i64 ld, float (*value)(u64, u64)) {
    const test_matrix<decltype(type)> m(rows, cols, ld, 0, value);
    check_all_forms<nvfp4>(m, report::quiet, random);
    check_all_forms<mxfp4>(m, report::quiet, random);
  };
  for (float (*value)(u64, u64) : {holed_value, ugly_value}) {
    check(bf16{}, 160, 192, 192, value);
    check(bf16{}, 48, 80, 83, value);
    check(fp16{}, 160, 192, 200, value);
    check(float{}, 64, 96, 96, value);
  }
}

TEST_CASE("device: blocks that are done again have the amax of their row", "[device][edges]") {
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

TEST_CASE("device: both copies of a matrix with NaNs draw where their blocks lie", "[device][edges]") {
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

TEST_CASE("device: groups with NaNs draw where their blocks lie", "[device][edges]") {
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

TEST_CASE("device: every scale of a layout is written, whatever its blocks are made from",
          "[device][edges]") {
  if (!gpu_or_warn()) return;
  check_producer<nvfp4, linear>(37, 48);
  check_producer<nvfp4, swizzled_128x4>(37, 48);
  check_producer<nvfp4, swizzled_128x4>(300, 272);
  check_producer<mxfp6_e2m3, swizzled_128x4>(37, 96);
  check_producer<mxfp8_e4m3, swizzled_128x4>(130, 160);
  check_transpose_into_tiles<nvfp4>(48, 80);
  check_transpose_into_tiles<mxfp8_e4m3>(160, 96);

  const ms_eden eden{draws, {0x0123'4567'89ab'cdef, 0xfeed'1234'5678'90ab}};
  const test_matrix<bf16> m(37, 384, 384, 0);
  outputs<nvfp4, swizzled_128x4> q(37, 384, {amax_value(100.0f), eden});
  REQUIRE(host::quantize(m.on_host(), q.host, eden) == errc::ok);
  REQUIRE(device::quantize(m.on_device(), q.device, eden) == errc::ok);
  q.check();
}
