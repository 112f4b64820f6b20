// SPDX-License-Identifier: Apache-2.0
// What lies at the edges of a matrix and of a layout: NaN in an amax, gaps between rows, padding. The device
// gives the host's bytes, whatever is there.
#include "edges.cuh"

using namespace fourscale;
using namespace fourscale::test;

namespace {

constexpr float infinity = bit_cast<float>(float_inf_bits);
constexpr philox draws{0x0123'4567'89ab'cdef, 42};
constexpr hadamard<16> rht{te_signs};

/// Nothing but NaNs.
float nan_value(u64, u64 i) { return bit_cast<float>(i % 2 == 0 ? 0x7fc0'0000u : 0xffc0'0000u); }

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

template <class F, class Layout>
void check_producer(i64 rows, i64 cols) {
  INFO(F::name << (Layout::has_padding ? " swizzled " : " linear ") << rows << 'x' << cols);
  const test_matrix<bf16> m(rows, cols, cols, 0);
  outputs<F, Layout> q(rows, cols, amax_value(100.0f));
  REQUIRE(host::quantize(m.on_host(), q.host) == errc::ok);
  REQUIRE(device::quantize(made_values<F>{rows, cols}, q.device) == errc::ok);
  q.check();
}

/// Columns of nothing but NaN, of either sign, among others.
float nan_columns(u64 row, u64 i) {
  return i % 5 == 0 ? nan_value(row, i) : i % 7 == 0 ? 0.0f : activation(row, i % 640);
}
/// Magnitudes between 2^-106 and 2^-97, of either sign, and zeros.
float least_value(u64, u64 i) {
  const u64 r = mix(i);
  const float x = bit_cast<float>(static_cast<u32>(21 + r % 10) << 23);
  return r / 16 % 3 == 0 ? 0.0f : r / 64 % 2 == 0 ? x : -x;
}

/// Rows and columns, whose sides are multiples of 32.
template <class F, class T, class Quantizer = quantizer<>>
void check_copies(test_matrix<T> const& m, float amax, Quantizer const& q = {}) {
  const tensor_amax<F> scale{amax_value(amax), q};
  INFO(F::name << ' ' << m.rows << 'x' << m.cols << " amax " << amax);
  outputs<F, linear> rows(m.rows, m.cols, scale), columns(m.cols, m.rows, scale);
  REQUIRE(host::quantize(m.on_host(), rows.host, q) == errc::ok);
  REQUIRE(device::quantize(m.on_device(), rows.device, q) == errc::ok);
  rows.check();
  REQUIRE(host::quantize(transposed(m.on_host()), columns.host, q) == errc::ok);
  REQUIRE(device::quantize(transposed(m.on_device()), columns.device, q) == errc::ok);
  columns.check();
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
    if constexpr (__is_same(decltype(type), bf16)) check_all_forms<mxfp8_e4m3>(m);
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

TEST_CASE("device: blocks of nothing but NaN", "[device][edges]") {
  if (!gpu_or_warn()) return;
  check_copies<nvfp4>(test_matrix<bf16>(64, 160, 160, 0, nan_columns), 100.0f);
  check_copies<nvfp4>(test_matrix<fp16>(64, 160, 160, 0, nan_columns), 100.0f);
  check_copies<mxfp4>(test_matrix<bf16>(160, 320, 320, 0, nan_columns), 100.0f);
  check_copies<mxfp8_e4m3>(test_matrix<bf16>(160, 320, 320, 0, nan_columns), 100.0f);
  check_copies<nvfp4>(test_matrix<bf16>(64, 160, 160, 0, nan_columns), 100.0f,
                      quantizer{nearest_even{}, four_over_six<>{}});
}

TEST_CASE("device: blocks whose scale is lost under the least tensor scales", "[device][edges]") {
  if (!gpu_or_warn()) return;
  const test_matrix<bf16> m(64, 160, 160, 0, least_value);
  for (const float amax : {2688 * 0x1p-91f, 2688 * 0x1.8p-91f, 2688 * 0x1p-92f, 2688 * 0x1p-88f}) {
    check_copies<nvfp4>(m, amax);
    check_copies<nvfp4>(m, amax, quantizer{stochastic{draws}});
    check_copies<nvfp4>(m, amax, quantizer{nearest_even{}, four_over_six<>{}});
  }
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
