// SPDX-License-Identifier: Apache-2.0
// Statistics of an error: each count on a block made for it, and the sums, bit by bit, against plain loops
// that restate them, for blocks and for matrices in the documented order.
#include <fourscale/fourscale.hpp>
#include <fourscale/host/statistics.hpp>
#include <vector>

#include "support/data.hpp"
#include "support/everywhere.hpp"
#include "support/grid.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

using namespace fourscale;
using test::check_everywhere;

namespace {

constexpr float inf = bit_cast<float>(float_inf_bits), quiet_nan = bit_cast<float>(0x7fc0'0000u);
constexpr u64 no_nan = ~u64{0};

/// A block of F that begins with `first` and goes on with zeros.
template <block_format F>
struct values {
  float x[F::block_size]{};

  template <class... Values>
  FOURSCALE_HD constexpr explicit values(Values... first) : x{first...} {}
};

template <block_format F, class Quantizer = quantizer<>>
FOURSCALE_HD constexpr statistics after(values<F> const& v, tensor_scale<F> const& tensor,
                                        Quantizer const& recipe = {}, position where = {}, i64 cols = 0) {
  return block_statistics<F>(v.x, quantize_block<F>(v.x, recipe, tensor, where), tensor, where, cols);
}

/// d to 26 bits, ties away from zero: by its exponent and an integer mantissa.
FOURSCALE_HD constexpr double to_26_bits(double d) {
  if (d == 0) return 0;
  const double magnitude = d < 0 ? -d : d;
  const int e = static_cast<int>(bit_cast<u64>(magnitude) >> 52) - 1023;
  const u64 mantissa = static_cast<u64>(magnitude * test::power(52 - e));  // in [2^52, 2^53)
  const u64 rounded = (mantissa + (u64{1} << 26)) / (u64{1} << 27);
  return (d < 0 ? -1.0 : 1.0) * static_cast<double>(rounded) * test::power(e - 25);
}

FOURSCALE_HD constexpr bool is_nan(float x) { return x != x; }
FOURSCALE_HD constexpr bool is_finite(float x) { return x - x == 0; }

/// The definition of every field, as its comment says it.
template <block_format F>
FOURSCALE_HD constexpr statistics restated(float const (&x)[F::block_size], packed_block<F> const& block,
                                           tensor_scale<F> const& tensor, u64 index) {
  float q[F::block_size]{};
  dequantize_block(block, q, tensor);
  const double largest = static_cast<double>(tensor.dequantize_factor(decode(block.scale))) *
                         static_cast<double>(largest_element<typename F::element>);
  statistics s;
  s.elements = F::block_size;
  s.blocks = 1;
  for (int i = F::block_size - 1; i >= 0; --i)
    if (is_nan(x[i])) s.first_nan = index + static_cast<u64>(i);
  for (int i = 0; i < F::block_size; ++i) {
    const double v = static_cast<double>(x[i]), result = static_cast<double>(q[i]);
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    if (magnitude > s.amax) s.amax = magnitude;
    if (!is_finite(x[i])) {
      ++s.not_finite;
    } else if (!is_finite(q[i])) {
      ++s.spoiled;
    } else {
      const double e = to_26_bits(result - v);
      s.sum_xx += v * v;
      s.sum_xq += v * result;
      s.sum_ee += e * e;
      s.dead_zone += v != 0 && result == 0;
      s.clipped += result != 0 && static_cast<double>(magnitude) > largest * (1 + 0x1p-20);
    }
  }
  s.flushed_scales = decode(block.scale) == 0 && s.amax > 0;
  return s;
}

/// Equal but for saturated_scales, which hand-made blocks test.
FOURSCALE_HD constexpr bool same(statistics s, statistics const& expected) {
  s.saturated_scales = expected.saturated_scales;
  return s == expected;
}

/// Blocks of all kinds of values, under a tensor scale that fits most of them.
template <block_format F>
struct agrees_with_restatement {
  bool ugly;
  FOURSCALE_HD bool operator()(u64 i) const {
    constexpr int n = F::block_size;
    float x[n];
    for (u64 j = 0; j < n; ++j) x[j] = ugly ? test::ugly(i * n + j) : test::activation(i, i * n + j);
    const tensor_scale<F> tensor(ugly ? bit_cast<float>(static_cast<u32>(i % 255) << 23) : 100.0f);
    const packed_block<F> block = quantize_block<F>(x, quantizer{}, tensor);
    const position where{static_cast<i64>(i), 3 * n};
    const statistics s = block_statistics<F>(x, block, tensor, where, 5 * n);
    return same(s, restated(x, block, tensor, (i * 5 + 3) * n));
  }
};

/// The largest value of a block whose scale is rounded to FP32, or not at all, is not clipped.
struct own_amax_is_not_clipped {
  FOURSCALE_HD bool operator()(u64 i) const {
    const float amax = 1.0f + static_cast<float>(i) * 0x1p-16f;
    const values<fp8_block_e4m3> v(amax);
    const values<nvfp4> w(amax);
    const quantizer fp32_scales{nearest_even{}, fp8_block_scale{false}};
    return after<fp8_block_e4m3>(v, {}, fp32_scales).clipped == 0 &&
           after(w, tensor_scale<nvfp4>(amax)).clipped == 0;
  }
};

/// The sums of a matrix, from all lanes at once and the formula for the lane of a block.
template <class M, class F, class Layout>
statistics restated_matrix(M const& x, block_scaled_view<F, Layout> const& q) {
  constexpr int n = F::block_size, lanes = 2048 * 32;
  std::vector<statistics> sums(lanes);
  const i64 blocks = q.cols / n, chunks = (blocks + 31) / 32;
  for (i64 number = 0; number < chunks * q.rows * 32; ++number) {
    const i64 strip = number / 32, row = strip % q.rows, block = strip / q.rows * 32 + number % 32;
    if (block >= blocks) continue;
    float values[n];
    for (int i = 0; i < n; ++i) values[i] = to_float(x.at(row, block * n + i));
    sums[static_cast<size_t>(number % lanes)] += restated(
        values, q.load(row, block), q.amax.scale_of_row(row), static_cast<u64>(row * q.cols + block * n));
  }
  for (; sums.size() > 1; sums.resize(sums.size() / 2))
    for (size_t i = 0; i < sums.size() / 2; ++i) {
      sums[i] = sums[2 * i];
      sums[i] += sums[2 * i + 1];
    }
  return sums[0];
}

/// A matrix, quantized, has the statistics that it should have, with any number of threads.
template <class F, class Layout = linear, class M>
void check_matrix(M const& x, bool row_scaled = false) {
  INFO(F::name << ' ' << x.rows << 'x' << x.cols);
  std::vector<u8> codes(static_cast<size_t>(code_bytes<F>(x.rows, x.cols)));
  std::vector<u8> scales(static_cast<size_t>(scale_bytes<F, Layout>(x.rows, x.cols)));
  block_scaled_view<F, Layout> q(codes, scales, x.rows, x.cols);
  std::vector<float> row_amax(static_cast<size_t>(x.rows));
  REQUIRE(host::row_amax(x, row_amax.data()) == errc::ok);
  q.amax = row_scaled ? amax_of_rows(row_amax.data()) : amax_value(3.0f);
  REQUIRE(host::quantize(x, q) == errc::ok);
  const statistics expected = restated_matrix(x, q);
  statistics s;
#ifdef _OPENMP
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  REQUIRE(host::statistics_of(x, q, &s) == errc::ok);
  CHECK(same(s, expected));
  s = {};
  omp_set_num_threads(2);
  REQUIRE(host::statistics_of(x, q, &s) == errc::ok);
  omp_set_num_threads(threads);
#else
  REQUIRE(host::statistics_of(x, q, &s) == errc::ok);
#endif
  CHECK(same(s, expected));
  CHECK(s.elements == static_cast<u64>(x.rows * x.cols));
}

template <class T>
std::vector<T> matrix_of(i64 size, bool ugly) {
  std::vector<T> x(static_cast<size_t>(size));
  for (u64 i = 0; i < x.size(); ++i)
    x[i] = from_float<T>(ugly ? test::ugly(i) : test::activation(i / 512, i));
  return x;
}

}  // namespace

TEST_CASE("statistics: every number of a block worked out by hand", "[block][statistics]") {
  // Scale 8; -20 / 8 = -2.5 is a tie and goes to -2, 1 / 8 goes to 0, 5 / 8 to 0.5.
  constexpr statistics s = after(values<mxfp4>(48.0f, -20.0f, 1.0f, 5.0f), {});
  static_assert(s.elements == 32 && s.blocks == 1 && s.amax == 48.0f);
  static_assert(s.sum_xx == 48 * 48 + 20 * 20 + 1 + 5 * 5);
  static_assert(s.sum_xq == 48 * 48 + 20 * 16 + 0 + 5 * 4);
  static_assert(s.sum_ee == 4 * 4 + 1 + 1);
  static_assert(s.dead_zone == 1 && s.clipped == 0 && s.not_finite == 0 && s.spoiled == 0);
  static_assert(s.flushed_scales == 0 && s.saturated_scales == 0 && s.first_nan == no_nan);
  static_assert(s.gain() == 2644.0 / 2730 && s.relative_mse() == 18.0 / 2730);
  static_assert(s.dead_zone_share() == 1.0 / 32 && s.clipped_share() == 0);
  CHECK(s.sqnr_db() > 21.8089);  // 10 * log10(2730 / 18)
  CHECK(s.sqnr_db() < 21.8090);
}

TEST_CASE("statistics: a block of zeros has no noise, and no gain", "[block][statistics]") {
  constexpr statistics s = after(values<nvfp4>(0.0f, -0.0f), tensor_scale<nvfp4>(1.0f));
  static_assert(s.sum_xx == 0 && s.sum_ee == 0 && s.dead_zone == 0 && s.flushed_scales == 0 && s.amax == 0);
  static_assert(bit_cast<u64>(s.sum_xq) == 0);
  static_assert(s.gain() != s.gain() && s.relative_mse() != s.relative_mse());
  static_assert(statistics{}.flushed_scale_share() != statistics{}.flushed_scale_share());
  CHECK(s.sqnr_db() == static_cast<double>(inf));
}

TEST_CASE("statistics: clipped by a scale that rounding made smaller", "[block][statistics]") {
  // Tensor scale 1: the scale 1.05 is stored as 1.
  constexpr statistics s = after(values<nvfp4>(6.3f, -6.3f, 6.0f, -3.0f), {});
  static_assert(s.clipped == 2 && s.saturated_scales == 0 && s.clipped_share() == 2.0 / 16);
  // 4.5 stores 1 (emax of E2M1 is 2) under the rule of OCP, and 7 is beyond 6 * 1.
  // Scale 1: 6 * (1 + 2^-20) is the limit, and the next float is beyond it.
  constexpr values<mxfp4> near(6 * (1 + 0x1p-20f), 6 * (1 + 0x1p-20f) + 0x1p-21f);
  static_assert(block_statistics(near.x, packed_block<mxfp4>{{127}, {0x77}}, {}).clipped == 1);
  constexpr quantizer floor{nearest_even{}, power_of_two_floor{}};
  static_assert(after(values<mxfp4>(7.0f, 6.0f), {}, floor).clipped == 1);
  static_assert(after(values<mxfp4>(7.0f, 6.0f), {}).clipped == 0);
}

TEST_CASE("statistics: a scale saturates when the block wants a larger one", "[block][statistics]") {
  constexpr tensor_scale<nvfp4> one(1.0f);
  constexpr statistics own = after(values<nvfp4>(1.0f, 0.5f), one),
                       stale = after(values<nvfp4>(2.0f, 0.5f), one);
  static_assert(own.clipped == 0 && own.saturated_scales == 0);  // also stores 448
  static_assert(stale.clipped == 1 && stale.saturated_scales == 1 && stale.saturated_scale_share() == 1);
  // Clipped, but a larger scale was there to be had.
  const statistics smaller = after(values<nvfp4>(6.3f, -6.3f, 6.0f, -3.0f), {});
  CHECK(smaller.clipped == 2);
  CHECK(smaller.saturated_scales == 0);
  // FP8 per tensor has no scale of a block that could saturate.
  static_assert(after(values<fp8_e4m3>(2.0f), tensor_scale<fp8_e4m3>(1.0f)).clipped == 1);
  static_assert(after(values<fp8_e4m3>(2.0f), tensor_scale<fp8_e4m3>(1.0f)).saturated_scales == 0);
}

TEST_CASE("statistics: a flushed scale loses its whole block", "[block][statistics]") {
  constexpr tensor_scale<nvfp4> large(1e6f);
  constexpr statistics s = after(values<nvfp4>(1e-3f, -1e-4f, 0.0f, 1e-30f), large);
  static_assert(s.flushed_scales == 1 && s.dead_zone == 3 && s.clipped == 0 && s.saturated_scales == 0);
  static_assert(s.flushed_scale_share() == 1 && s.gain() == 0 && s.relative_mse() == 1);
}

TEST_CASE("statistics: what is not finite is counted and stays out of the sums", "[block][statistics]") {
  constexpr tensor_scale<nvfp4> tensor(100.0f);
  const statistics clean = after(values<nvfp4>(100.0f, 3.0f), tensor, quantizer{}, {7, 32}, 80);
  const statistics s =
      after(values<nvfp4>(100.0f, 3.0f, inf, quiet_nan, -inf, -quiet_nan), tensor, quantizer{}, {7, 32}, 80);
  CHECK(clean.first_nan == no_nan);
  CHECK(s.first_nan == 7 * 80 + 32 + 3);
  CHECK(s.not_finite == 4);
  CHECK(s.spoiled == 0);
  CHECK(s.amax == inf);
  CHECK(s.sum_xx == 100.0 * 100 + 9);
  CHECK(s.sum_xx == clean.sum_xx);
  CHECK(s.dead_zone_share() == static_cast<double>(s.dead_zone) / 12);
}

TEST_CASE("statistics: finite values that come back as NaN are spoiled", "[block][statistics]") {
  constexpr values<nvfp4> v(1.0f, 2.0f, 3.0f, inf);
  constexpr packed_block<nvfp4> block{{e4m3::nan_bits}, {}};
  const statistics s = block_statistics(v.x, block, tensor_scale<nvfp4>{});
  CHECK(s.spoiled == 15);
  CHECK(s.not_finite == 1);
  CHECK(s.sum_xx == 0);
  CHECK(s.sum_xq == 0);
  CHECK(s.sum_ee == 0);
  CHECK(s.dead_zone == 0);
  CHECK(s.clipped == 0);
  CHECK(s.relative_mse() == static_cast<double>(inf));
  CHECK(s.sqnr_db() == -static_cast<double>(inf));
  // 256 * 2^120 is more than a float holds; an infinite tensor amax makes NaN of zeros.
  CHECK(after(values<mxfp8>(bit_cast<float>(float_max_bits), 1.0f), {}).spoiled == 1);
  CHECK(after(values<nvfp4>(quiet_nan, inf, 1.0f), tensor_scale<nvfp4>(inf)).spoiled == 14);
}

TEST_CASE("statistics: products of the smallest and largest floats are exact", "[block][statistics]") {
  CHECK(after(values<mxfp4>(0x1p-149f), {}).sum_xx == 0x1p-298);
  constexpr statistics huge = after(values<mxfp8>(0x1.fffffep126f), {});
  static_assert(huge.sum_xx == 0x1.fffffcp253 + 0x1p206);
  // Q - x = -(1 + 2^-26 + 2^-40) is kept to 26 bits: 1 + 2^-25 would be the next.
  static_assert(detail::error_of(1 + 0x1p-26 + 0x1p-40, 0) == -(1 + 0x1p-25));
  static_assert(detail::error_of(1 + 0x1p-27, 0) == -1);
}

TEST_CASE("statistics: they add up, and the first NaN stays the first", "[block][statistics]") {
  constexpr auto filled = [](u64 k, float amax, u64 first_nan) {
    const double d = static_cast<double>(k);
    return statistics{k,     k * 2, k * 3, k * 4,    first_nan, k * 5, k * 6,
                      k * 7, k * 8, d,     d * 0.25, d * 0.5,   amax};
  };
  constexpr auto sum = [](statistics a, statistics const& b) { return a += b; };
  constexpr statistics a = filled(1, 4.0f, 48), b = filled(10, inf, 32), both = filled(11, inf, 32);
  static_assert(sum(a, b) == both && sum(b, a) == both);
  CHECK(sum(a, b) == both);
  CHECK(sum(b, a) == both);
  static_assert(sum(a, {}) == a && sum({}, a) == a);
}

TEST_CASE("statistics: a block's own amax is not clipped by rounding alone", "[block][statistics]") {
  check_everywhere(1 << 16, own_amax_is_not_clipped{});
}

TEST_CASE("statistics: blocks of all formats agree with a plain loop", "[block][statistics]") {
  for (const bool ugly : {false, true}) {
    check_everywhere(20000, agrees_with_restatement<nvfp4>{ugly});
    check_everywhere(20000, agrees_with_restatement<mxfp4>{ugly});
    check_everywhere(10000, agrees_with_restatement<mxfp6>{ugly});
    check_everywhere(20000, agrees_with_restatement<mxfp8>{ugly});
    check_everywhere(5000, agrees_with_restatement<fp8_block_e5m2>{ugly});
    check_everywhere(20000, agrees_with_restatement<fp8_e4m3>{ugly});
  }
}

TEST_CASE("statistics: matrices are summed in the documented order", "[block][statistics]") {
  const auto x = matrix_of<float>(2100 * 1072, false);
  const auto odd = matrix_of<bf16>(700 * 512, true);
  const matrix_view<float const> large(x.data(), 2100, 1072), wide(x.data(), 2, 1040 * 1024);
  check_matrix<nvfp4>(large);
  check_matrix<nvfp4, swizzled_128x4>(large, true);
  check_matrix<nvfp4>(wide);
  check_matrix<mxfp8>(matrix_view<float const>(x.data(), 512, 4096));
  const matrix_view<bf16 const> ragged(odd.data() + 1, 67, 512, 515);
  check_matrix<nvfp4>(ragged);
  check_matrix<mxfp4>(ragged);
  check_matrix<fp8_block_e4m3>(ragged);
  check_matrix<nvfp4>(transposed(matrix_view<bf16 const>(odd.data(), 640, 131)), true);
  check_matrix<mxfp6>(transposed(matrix_view<bf16 const>(odd.data(), 32, 1)));
}

TEST_CASE("statistics: wrong arguments leave the output untouched", "[block][statistics]") {
  const auto x = matrix_of<float>(64, false);
  std::vector<u8> codes(32), scales(4);
  block_scaled_view<nvfp4> q(codes, scales, 2, 32);
  statistics s;
  s.blocks = 77;
  const statistics before = s;
  CHECK(host::statistics_of(matrix_view<float const>(x.data(), 4, 16), q, &s) == errc::shape_mismatch);
  CHECK(host::statistics_of(matrix_view<float const>(nullptr, 2, 32), q, &s) == errc::null_pointer);
  CHECK(host::statistics_of(transposed(matrix_view<float const>(x.data(), 2, 32)), q, &s) ==
        errc::shape_mismatch);
  CHECK(s == before);
}
